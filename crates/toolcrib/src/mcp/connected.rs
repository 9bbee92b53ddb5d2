//! Notifies a handshake client that an account is connected that its user was prompted for.
//!
//! Only accounts that are connected at this server are noticed. A client can repeat its call without
//! the notification.

use std::sync::Arc;

use tokio::sync::broadcast::{Receiver, error::RecvError};
use toolcrib_core::{credential::GrantPlace, principal::Principal};

use super::{host::Client, session::Session};

/// The prompts of a session whose account is connected.
pub(super) struct ConnectedPrompts {
    news: Receiver<GrantPlace>,
    principal: Arc<Principal>,
    session: Arc<Session>,
    ready: Vec<String>,
}

impl ConnectedPrompts {
    pub(super) fn new(client: &Client, session: &Arc<Session>) -> Self {
        Self {
            news: client.host.gateway.connected_accounts(),
            principal: Arc::clone(&client.principal),
            session: Arc::clone(session),
            ready: Vec::new(),
        }
    }

    /// The id of the next prompt that is complete. Cancel safe: dropping the future loses none.
    pub(super) async fn next(&mut self) -> String {
        loop {
            if let Some(id) = self.ready.pop() {
                return id;
            }
            match self.news.recv().await {
                Ok(GrantPlace { owner, source }) => {
                    let of = owner.principal.as_ref();
                    if owner.tenant == self.principal.tenant
                        && of.is_none_or(|principal| *principal == self.principal.id)
                    {
                        self.ready = self.session.connected(&source);
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                // The gateway is gone, and with it the stream.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
