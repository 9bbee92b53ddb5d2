//! Reads the list of one account.

use std::{sync::Arc, time::Duration};

use toolcrib_core::{
    call::UpstreamErrorKind,
    credential::{CredentialCaller, CredentialProblem, CredentialRefusal, RefusalCause},
    id::CredentialId,
    principal::PrincipalKey,
};

use super::{Looks, OwnLists, table::Look, tools::OwnList};

/// How long it takes at most to find an account, to renew its token, and to read its list.
const LIMIT: Duration = Duration::from_secs(60);

/// A look in progress. It ends when this is dropped.
struct Running<'a> {
    lists: &'a OwnLists,
    look: Look,
}

impl OwnLists {
    pub(super) async fn serve(self: &Arc<Self>, looks: &mut Looks) {
        let ended = self.services.background.ended();
        loop {
            let look = tokio::select! {
                () = ended.cancelled() => return,
                look = looks.recv() => look,
            };
            let Some(look) = look else { return };
            let lists = Arc::clone(self);
            self.services.background.spawn(async move {
                let running = Running { lists: &lists, look };
                tokio::select! {
                    () = lists.services.background.ended().cancelled() => {}
                    () = running.run() => {}
                }
            });
        }
    }
}

// === impl Running ===

impl Running<'_> {
    async fn run(&self) {
        let Ok(_turn) = self.look.turns.acquire().await else { return };
        if tokio::time::timeout(LIMIT, self.compare()).await.is_err() {
            self.failed("it took too long");
        }
    }

    async fn compare(&self) {
        let Self { lists, look: Look { caller, source, .. } } = self;
        let PrincipalKey { tenant, principal } = caller;
        let caller = CredentialCaller::without_call(tenant, principal);
        let found = match lists.credentials.find(&source.need, caller).await {
            Ok(found) => found,
            Err(refusal) => return self.refused(&refusal),
        };
        let Some(found) = found.filter(|it| it.owner.principal.as_ref() == Some(principal)) else {
            return self.confirm(None);
        };
        self.confirm(Some(&found.id));
        let now = lists.services.clock.monotonic_nanos();
        if !lists.table.lock().needs_list(&self.look, now) {
            return;
        }
        let resolved = match lists.credentials.resolve(&source.need, caller).await {
            Ok(Some(resolved)) if resolved.credential.id == found.id => resolved,
            // Another account was connected meanwhile, and is looked at next.
            Ok(_) => return,
            Err(refusal) => return self.refused(&refusal),
        };
        let Some(running) = source.source.upgrade() else { return };
        match running.own_list(resolved).await {
            Ok(names) => match OwnList::new(found.id, names) {
                Some(list) => self.keep(list),
                None => self.failed("it has too many tools"),
            },
            // The next look reads it: the source may only not be connected yet.
            Err(error) if error.kind == UpstreamErrorKind::Unavailable => {}
            Err(error) => self.failed(&error.detail),
        }
    }

    fn refused(&self, refusal: &CredentialRefusal) {
        match (&refusal.cause, &refusal.id) {
            (RefusalCause::Credential(CredentialProblem::NotConnected), _) => self.confirm(None),
            // Its list may be needed again.
            (_, Some(id)) => self.confirm(Some(id)),
            (_, None) => {}
        }
    }

    /// Removes a list that does not belong to `grant`. The look goes on.
    fn confirm(&self, grant: Option<&CredentialId>) {
        let had = self.lists.table.lock().drop_other(&self.look, grant);
        if had {
            self.lists.announce();
        }
    }

    fn keep(&self, list: OwnList) {
        let now = self.lists.services.clock.monotonic_nanos();
        let has_changed = self.lists.table.lock().keep(&self.look, list, now);
        if has_changed {
            self.lists.announce();
        }
    }

    fn failed(&self, problem: &str) {
        let source = &self.look.source.id;
        tracing::debug!(%source, problem, "the list of an account could not be read");
        let now = self.lists.services.clock.monotonic_nanos();
        self.lists.table.lock().failed(&self.look, now);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let now = self.lists.services.clock.monotonic_nanos();
        self.lists.table.lock().end(&self.look, now);
    }
}
