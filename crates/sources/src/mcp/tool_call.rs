//! The call of a tool, in the session that it belongs to.

use std::sync::Arc;

use tokio::time::Instant;
use toolcrib_core::{
    call::{Invocation, UpstreamError},
    canonical::Digest,
    credential::ResolvedCredential,
    schema::Schema,
};

use super::{
    connection::Connection,
    failure::Failure,
    message::Reply,
    supervise::{Supervisor, Target},
    wire::Wire,
};
use crate::{credential::TokenDenial, error::unavailable};

/// The tool to call.
pub(crate) struct CallTarget<'a> {
    /// Its upstream name.
    pub(crate) name: &'a str,
    /// Its required form, if any.
    pub(crate) pinned: Option<Digest>,
    pub(crate) schema: Option<&'a Schema>,
}

/// The account of one principal, which has a session of its own at a handshake upstream.
fn own_account<'a>(
    connection: &Connection,
    call: &'a Invocation,
) -> Option<&'a Arc<ResolvedCredential>> {
    let account = call.credential.as_ref()?;
    let has_sessions =
        matches!(connection.wire, Wire::Http(_)) && !connection.session.era.is_modern();
    let is_own = account.credential.owner.principal.is_some();
    Some(account).filter(|_| has_sessions && is_own)
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
        let is_account = self.credential().is_some_and(|(_, credential)| credential.is_account());
        match own_account(connection, call).filter(|_| is_account) {
            Some(account) => self.call_in_own_session(account, target, call).await,
            None => self.call_in_shared_session(connection, target, call).await,
        }
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
        let Target::Http(http) = &self.target else {
            return Err(unavailable("accounts require a server over HTTP"));
        };
        let (session, evicted) = self.sessions.of(&account.credential.id, Instant::now())?;
        if let Some(evicted) = evicted {
            self.context.runtime.spawn(async move { evicted.close().await });
        }
        let connection = match session.connection(http, &self.context, account).await {
            Ok(connection) => connection,
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
                let connection = session.connection(http, &self.context, account).await?;
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
