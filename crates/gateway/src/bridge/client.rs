//! The clients: those of the operator, those with a document at their id, and those that registered.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toolcrib_config::{BridgeClientConfig, BridgeConfig, REGISTERED_CLIENT};
use toolcrib_core::{bridge::BridgeKind, credential::Secret, id::CredentialId};
use toolcrib_oauth::server::{
    client::{ClientDescription, MAX_DESCRIPTION, document_url},
    error::{ErrorCode, Refused},
    token::SentClient,
};
use url::Url;

use super::{Bridge, NewItem, decoded, document::KnownDocument, settings, unavailable};
use crate::{clock::after, ids};

/// How long a registered client stays without a grant.
const UNUSED: Duration = Duration::from_secs(60 * 60);
/// The most registered clients.
const MAX_CLIENTS: u64 = 10_000;
/// How long a document is used, and how long a failure to fetch one.
const FRESH: Duration = Duration::from_secs(5 * 60);
const FAILED: Duration = Duration::from_secs(10);

/// A client, as this server knows it.
#[derive(Debug, Clone)]
pub(super) struct KnownClient {
    pub(super) id: String,
    pub(super) description: ClientDescription,
    /// How people can recognise the client.
    pub(super) origin: ClientOrigin,
}

/// Who vouches for the description of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientOrigin {
    /// The operator.
    Operator,
    /// The host of its id.
    Host,
    /// The client itself: it registered here.
    Itself,
}

impl Bridge {
    /// Registers the client that `body` describes, and returns the answer (RFC 7591).
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn register(&self, body: &[u8]) -> Result<serde_json::Value, Refused> {
        let config = self.services.config();
        let bridge = settings(&config)?;
        if !bridge.registration {
            let description = "this server registers no clients";
            return Err(Refused { code: ErrorCode::InvalidRequest, description });
        }
        let _permit = self.admit()?;
        let client = ClientDescription::of_registration(body, &bridge.redirects)?;
        let id: CredentialId = ids::new_id();
        let new = NewItem {
            kind: BridgeKind::Client,
            id: id.clone(),
            owner: None,
            lifetime: UNUSED,
            most: MAX_CLIENTS,
        };
        if !self.add(new, &client).await? {
            let description = "too many clients are registered; try again later";
            return Err(Refused { code: ErrorCode::TemporarilyUnavailable, description });
        }
        Ok(client.registered(&format!("{REGISTERED_CLIENT}{id}"), self.services.now()))
    }

    /// The client with `id`.
    pub(super) async fn client(
        &self,
        bridge: &BridgeConfig,
        id: &str,
    ) -> Result<KnownClient, Refused> {
        let unknown = Refused::client("the client is unknown; it may have to register again");
        if !bridge.permits(id) {
            return Err(unknown);
        }
        let (description, origin) = if let Some(preset) = preset(bridge, id) {
            let (name, redirect_uris) = (Some(preset.name.clone()), preset.redirect_uris.clone());
            (ClientDescription { name, redirect_uris }, ClientOrigin::Operator)
        } else if let Some(registered) = id.strip_prefix(REGISTERED_CLIENT) {
            let id = CredentialId::parse(registered).map_err(|_| unknown)?;
            let found = self.store.get(BridgeKind::Client, &id, self.services.now()).await;
            let found = found.map_err(|error| unavailable(&error))?;
            let description = found.and_then(|(_, value)| decoded(&value)).ok_or(unknown)?;
            (description, ClientOrigin::Itself)
        } else {
            (self.document(bridge, id).await?, ClientOrigin::Host)
        };
        Ok(KnownClient { id: id.to_owned(), description, origin })
    }

    /// Lets a registered client live at least as long as a grant that it got.
    pub(super) async fn keep_client(&self, id: &str, lifetime: Duration) {
        let Some(Ok(id)) = id.strip_prefix(REGISTERED_CLIENT).map(CredentialId::parse) else {
            return;
        };
        let now = self.services.now();
        // Without success, the client has to register again for its next sign-in.
        if let Ok(Some((mut item, value))) = self.store.get(BridgeKind::Client, &id, now).await {
            item.expires_at = item.expires_at.max(after(now, lifetime));
            self.store.change(item, value).await.ok();
        }
    }

    async fn document(
        &self,
        bridge: &BridgeConfig,
        id: &str,
    ) -> Result<ClientDescription, Refused> {
        let unknown = Refused::client("the client is unknown; it may have to register again");
        let url = document_url(id, &bridge.allow).ok_or(unknown)?;
        let host = url.host_str().unwrap_or_default();
        if !bridge.permits_document(&url) {
            return Err(Refused::client("clients of this host are not permitted"));
        }
        let now = self.services.clock.monotonic_nanos();
        if let Some(known) = self.documents.get(id).filter(|known| now < known.until) {
            return known.found.clone();
        }
        let _permit = self.admit()?;
        let source = self.source.as_ref().ok_or(unknown)?;
        let found = match source.fetch_foreign(id, &bridge.allow, MAX_DESCRIPTION).await {
            Ok(body) => ClientDescription::of_document(&body, id, &bridge.redirects),
            Err(problem) => {
                tracing::warn!(%host, %problem, "the document of a client was not fetched");
                Err(Refused::client("the document of the client could not be fetched"))
            }
        };
        let keep = if found.is_ok() { FRESH } else { FAILED };
        let keep = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
        let known = KnownDocument { found: found.clone(), until: now.saturating_add(keep) };
        self.documents.insert(id.to_owned(), Arc::new(known));
        found
    }
}

/// Who vouches for the client `id`, and the host if it is one. The configuration gives ids of the
/// other forms to no client.
pub(super) fn origin(id: &str) -> (ClientOrigin, Option<String>) {
    if id.starts_with(REGISTERED_CLIENT) {
        return (ClientOrigin::Itself, None);
    }
    match Url::parse(id).ok().as_ref().and_then(Url::host_str) {
        Some(host) => (ClientOrigin::Host, Some(host.to_owned())),
        None => (ClientOrigin::Operator, None),
    }
}

fn preset<'b>(bridge: &'b BridgeConfig, id: &str) -> Option<&'b BridgeClientConfig> {
    bridge.clients.iter().find(|client| client.id == id)
}

/// Checks the secret of a client. Only those of the operator can have one; the others are public,
/// and are bound to their grants by PKCE and by rotation. Returns whether there is a secret.
pub(super) fn authenticate(bridge: &BridgeConfig, sent: &SentClient) -> Result<bool, Refused> {
    let expected = preset(bridge, &sent.id).and_then(|client| client.secret.as_ref());
    match (expected, &sent.secret) {
        (None, None) => Ok(false),
        (Some(expected), Some(sent)) if hash(&expected.0) == hash(sent) => Ok(true),
        _ => Err(Refused::client("the client did not authenticate as it is registered")),
    }
}

/// Comparing hashes leaks no timing about the secret.
fn hash(secret: &Secret) -> [u8; 32] {
    Sha256::digest(secret.expose()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_an_id_says_who_vouches() {
        let host = |name: &str| (ClientOrigin::Host, Some(name.to_owned()));
        assert_eq!(origin("https://app.example/client.json"), host("app.example"));
        assert_eq!(origin("http://127.0.0.1:9/c"), host("127.0.0.1"));
        assert_eq!(origin("tcc_01970c5e"), (ClientOrigin::Itself, None));
        assert_eq!(origin("desk"), (ClientOrigin::Operator, None));
    }
}
