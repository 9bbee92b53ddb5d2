//! One explorer: the state that its handlers share, and the identification of callers.

use std::sync::Arc;

use http::request::Parts;
use toolcrib_config::ExplorerPolicy;
use toolcrib_gateway::{
    authn::AuthError,
    provider::{Offer, ToolsProvider},
};

use super::{
    host::{Host, Sender},
    page::Page,
};
use crate::middleware::Refusal;

pub(super) struct Explorer {
    pub(super) provider: Arc<dyn ToolsProvider>,
    pub(super) host: Arc<dyn Host>,
    pub(super) max_body: usize,
    pub(super) page: Page,
}

impl Explorer {
    /// Whether calls are allowed.
    pub(super) fn allows_execute(&self) -> bool {
        self.page.config.allow_execute
    }

    /// The tools of `sender`.
    pub(super) async fn offer(&self, sender: &Sender) -> Offer {
        self.provider.tools(sender.principal.as_ref()).await
    }

    /// Identifies the sender of a request for a list, a detail or a check of arguments.
    pub(super) async fn reader(&self, head: &Parts) -> Result<Sender, Refusal> {
        self.checked(match self.page.config.policy {
            ExplorerPolicy::All => self.host.authenticate(head).await,
            ExplorerPolicy::CallOnly | ExplorerPolicy::Nothing => {
                self.host.identify(head, true).await
            }
            ExplorerPolicy::SpecPublic => self.host.identify(head, false).await,
        })
    }

    /// Identifies the caller, when the policy checks credentials before everything else.
    pub(super) async fn caller_first(&self, head: &Parts) -> Result<Option<Sender>, Refusal> {
        let sender = match self.page.config.policy {
            ExplorerPolicy::All | ExplorerPolicy::CallOnly => self.host.authenticate(head).await,
            ExplorerPolicy::Nothing => self.host.identify(head, true).await,
            ExplorerPolicy::SpecPublic => return Ok(None),
        };
        self.checked(sender).map(Some)
    }

    /// Identifies the caller, when credentials are checked after everything else.
    pub(super) async fn caller_last(&self, head: &Parts) -> Result<Sender, Refusal> {
        self.checked(self.host.authenticate(head).await)
    }

    /// Records a sender without valid credentials.
    fn checked(&self, sender: Result<Sender, AuthError>) -> Result<Sender, Refusal> {
        sender.map_err(|error| {
            if error != AuthError::Unavailable {
                self.host.record_unauthenticated(&format!("{}/tools/*", self.page.config.prefix));
            }
            Refusal::Unauthenticated(error)
        })
    }
}
