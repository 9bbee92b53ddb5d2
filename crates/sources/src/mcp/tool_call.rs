//! The call of a tool, and the list of one account, in the session that they belong to.

use std::{collections::HashSet, sync::Arc};

use tokio::time::Instant;
use toolcrib_core::{
    call::{Invocation, UpstreamError},
    canonical::Digest,
    credential::ResolvedCredential,
    schema::Schema,
};

use super::{
    connection::Connection,
    discover,
    failure::Failure,
    message::Reply,
    sessions::GrantSession,
    supervise::{Supervisor, Target},
    wire::Wire,
};
use crate::{
    credential::TokenDenial,
    error::{timeout, unavailable},
};

/// The tool to call.
pub(crate) struct CallTarget<'a> {
    /// Its upstream name.
    pub(crate) name: &'a str,
    /// Its required form, if any.
    pub(crate) pinned: Option<Digest>,
    pub(crate) schema: Option<&'a Schema>,
}

/// Whether `account` belongs to one principal, which has a session of its own at a handshake
/// upstream.
fn has_session(connection: &Connection, account: &ResolvedCredential) -> bool {
    matches!(connection.wire, Wire::Http(_))
        && !connection.session.era.is_modern()
        && account.credential.owner.principal.is_some()
}

impl Supervisor {
    /// Calls a tool whose form was checked. A lost session is replaced, and the call sent again if
    /// the upstream has not run it.
    pub(crate) async fn call(
        &self,
        connection: &Arc<Connection>,
        target: &CallTarget<'_>,
        call: &Invocation,
    ) -> Result<Result<Reply, Failure>, UpstreamError> {
        let credential = self.credential().map(|(_, credential)| credential);
        let credential = credential.filter(|credential| credential.is_account());
        if let Some(credential) = credential {
            // The call has waited for its turn. Otherwise a handshake would say why it is not sent.
            credential.present_now(call.credential.as_deref()).await?;
        }
        match call.credential.as_ref().filter(|_| credential.is_some()) {
            Some(account) if has_session(connection, account) => {
                self.call_in_own_session(account, target, call).await
            }
            _ => self.call_in_shared_session(connection, target, call).await,
        }
    }

    /// The names of the tools that `account` has, as the upstream lists them.
    pub(crate) async fn own_list(
        &self,
        account: &Arc<ResolvedCredential>,
    ) -> Result<HashSet<String>, UpstreamError> {
        let connection = self.connection()?;
        let reading = async {
            match has_session(&connection, account) {
                true => self.list_in_own_session(account).await,
                false => discover::names(&connection, &self.context.limits, Some(account)).await,
            }
        };
        let read = tokio::select! {
            biased;
            () = self.calls.closed.cancelled() => return Err(unavailable("the source was closed")),
            read = tokio::time::timeout(self.context.limits.connect_timeout, reading) => read,
        };
        let late = |_| timeout("the tool list of the account was not complete in time");
        Ok(read.map_err(late)??)
    }

    async fn list_in_own_session(
        &self,
        account: &Arc<ResolvedCredential>,
    ) -> Result<HashSet<String>, Failure> {
        let (session, connection) = self.own_session(account).await?;
        let limits = &self.context.limits;
        match discover::names(&connection, limits, None).await {
            // Half a list could be of the lost session.
            Err(Failure::SessionExpired) => {
                session.forget(&connection).await;
                let (_session, connection) = self.own_session(account).await?;
                discover::names(&connection, limits, None).await
            }
            listed => listed,
        }
    }

    /// The session of `account`, and its connection, which is opened if there is none.
    async fn own_session(
        &self,
        account: &Arc<ResolvedCredential>,
    ) -> Result<(Arc<GrantSession>, Arc<Connection>), UpstreamError> {
        let Target::Http(http) = &self.target else {
            return Err(unavailable("accounts require a server over HTTP"));
        };
        let (session, evicted) = self.sessions.of(&account.credential.id, Instant::now())?;
        if let Some(evicted) = evicted {
            self.context.runtime.spawn(async move { evicted.close().await });
        }
        let connection = session.connection(http, &self.context, account).await?;
        Ok((session, connection))
    }

    /// What follows when the upstream refused the token of a call's account: the credential for a
    /// second request, if any.
    pub(crate) async fn after(
        &self,
        denial: &TokenDenial,
        call: &Invocation,
    ) -> Result<Option<Arc<ResolvedCredential>>, UpstreamError> {
        match (self.credential(), &call.credential) {
            (Some((endpoint, credential)), Some(sent)) => {
                credential.after(denial, sent, endpoint.url()).await
            }
            _ => Ok(None),
        }
    }

    async fn call_in_shared_session(
        &self,
        connection: &Arc<Connection>,
        target: &CallTarget<'_>,
        call: &Invocation,
    ) -> Result<Result<Reply, Failure>, UpstreamError> {
        let CallTarget { name, pinned, schema } = *target;
        let session = connection.legacy_session();
        Ok(match connection.call_tool(name, schema, call).await {
            // The upstream did not read the request.
            Err(Failure::SessionExpired) => {
                if self.renew(connection, session).await? {
                    self.announce_list();
                }
                connection.check(name, pinned)?;
                connection.call_tool(name, schema, call).await
            }
            Err(Failure::SessionLost(error)) => {
                if let Ok(true) = self.renew(connection, session).await {
                    self.announce_list();
                }
                Ok(Reply::Error(*error))
            }
            reply => reply,
        })
    }

    async fn call_in_own_session(
        &self,
        account: &Arc<ResolvedCredential>,
        target: &CallTarget<'_>,
        call: &Invocation,
    ) -> Result<Result<Reply, Failure>, UpstreamError> {
        let (session, connection) = match self.own_session(account).await {
            Ok(open) => open,
            // The handshake is refused with the same status as a call.
            Err(_) if account.token.as_ref().is_some_and(|token| token.is_rejected()) => {
                return Ok(Err(Failure::Denied(TokenDenial::Rejected)));
            }
            Err(error) => return Err(error),
        };
        let CallTarget { name, schema, .. } = *target;
        Ok(match connection.call_tool(name, schema, call).await {
            // The upstream did not read the request.
            Err(Failure::SessionExpired) => {
                session.forget(&connection).await;
                let (_session, connection) = self.own_session(account).await?;
                connection.call_tool(name, schema, call).await
            }
            Err(Failure::SessionLost(error)) => {
                session.forget(&connection).await;
                Ok(Reply::Error(*error))
            }
            reply => reply,
        })
    }
}
