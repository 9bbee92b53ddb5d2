//! The addresses that may be contacted for the accounts of a source.

use std::time::Duration;

use toolcrib_core::{
    credential::Audience,
    egress::AllowList,
    key_set::{FormAnswer, MAX_TOKEN_ANSWER, TokenForm},
    source::{SourceSpec, UpstreamSpec},
};
use toolcrib_oauth::metadata::is_private_enough;
use url::Url;

use crate::{
    egress::{Guard, Network},
    key_set::{Content, send},
};

/// Time limit of one request to an authorization server.
const PATIENCE: Duration = Duration::from_secs(10);

/// The addresses that the operator trusts for the accounts of a source: those of the service and of
/// the configured authorization server, and the source's `allow`. All others must be public.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    pub(crate) allow: AllowList,
    /// The service itself, if its address is known before a call.
    pub(crate) service: Option<Url>,
    configured: Vec<Url>,
}

// === impl Reach ===

impl Reach {
    pub(crate) fn of(spec: &SourceSpec) -> Self {
        let allow = match &spec.upstream {
            UpstreamSpec::McpHttp(http) => http.allow.clone(),
            UpstreamSpec::Connector(connector) => connector.allow.clone(),
            UpstreamSpec::Pack(pack) => pack.allow.clone(),
            _ => AllowList::default(),
        };
        let service = spec.upstream.service_url();
        let mut configured = Vec::new();
        if let Some(account) = &spec.account {
            configured.extend(account.issuer.as_deref());
            if let Some(endpoints) = &account.endpoints {
                configured.push(&endpoints.token);
                configured.extend(endpoints.revocation.as_deref());
            }
        }
        let configured = configured.into_iter().filter_map(|url| Url::parse(url).ok()).collect();
        Self { allow, service: service.and_then(|url| Url::parse(url).ok()), configured }
    }

    /// Where tokens for the service may be sent: its origin. `None` if its address is not known.
    pub(crate) fn audience(&self) -> Option<Audience> {
        let origin = self.service.as_ref()?.origin();
        // An opaque origin has a text that could be a host.
        origin.is_tuple().then(|| origin.ascii_serialization().parse().ok()).flatten()
    }

    pub(crate) fn guard(&self) -> Guard {
        Guard::new(self.allow.clone(), self.service.iter().chain(&self.configured))
    }

    /// Fetches a document of at most 64 KiB; the answer has any status.
    pub(super) async fn fetch(&self, network: &Network, url: &str) -> Result<FormAnswer, String> {
        self.send(network, url, Content::None).await
    }

    pub(super) async fn post_json(
        &self,
        network: &Network,
        url: &str,
        body: &[u8],
    ) -> Result<FormAnswer, String> {
        self.send(network, url, Content::Json(body)).await
    }

    /// Sends a form to a token or revocation endpoint.
    pub(crate) async fn post_form(
        &self,
        network: &Network,
        url: &str,
        form: &TokenForm,
    ) -> Result<FormAnswer, String> {
        self.send(network, url, Content::Form(form)).await
    }

    async fn send(
        &self,
        network: &Network,
        url: &str,
        content: Content<'_>,
    ) -> Result<FormAnswer, String> {
        let is_private = Url::parse(url).is_ok_and(|url| is_private_enough(&url, &self.allow));
        if !is_private {
            return Err("its address is not an https address".to_owned());
        }
        send(network, self.guard(), url, content, PATIENCE, MAX_TOKEN_ANSWER).await
    }
}
