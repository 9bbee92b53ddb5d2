//! Fetches documents of token issuers through the guard.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{HeaderValue, Method, StatusCode, header};
use toolcrib_core::{
    egress::EgressTrail,
    key_set::{DocumentRequest, FetchError, KeySetSource, MAX_DOCUMENT},
};

use crate::egress::{Guard, Network, Outgoing, parse_url};

/// Time limit of one fetch.
const PATIENCE: Duration = Duration::from_secs(5);

/// Fetches documents of issuers, over TLS or from addresses the operator configured, without
/// redirects and up to a size limit.
pub struct KeySets(pub(crate) Arc<Network>);

#[async_trait]
impl KeySetSource for KeySets {
    async fn fetch(&self, wanted: DocumentRequest<'_>) -> Result<Vec<u8>, FetchError> {
        match tokio::time::timeout(PATIENCE, self.get(wanted)).await {
            Ok(fetched) => fetched.map_err(FetchError),
            Err(_late) => Err(FetchError("no response in time".to_owned())),
        }
    }
}

impl KeySets {
    async fn get(&self, wanted: DocumentRequest<'_>) -> Result<Vec<u8>, String> {
        let url = parse_url("the address", wanted.url)?;
        let named = parse_url("the configured address", wanted.named)?;
        // A new client each time: documents are fetched every few minutes, so a pooled connection
        // would gain nothing.
        let egress = self.0.egress(Guard::new(wanted.allow.clone(), Some(&named)))?;
        let mut request = Outgoing::new(Method::GET, url);
        let json = HeaderValue::from_static("application/json, application/jwk-set+json");
        request.headers.insert(header::ACCEPT, json);
        let answer = egress
            .send(request, &EgressTrail::default())
            .await
            .map_err(|error| error.to_string())?;
        match answer.status() {
            StatusCode::OK => {}
            status if status.is_redirection() => {
                return Err("it answers with a redirect; configure the address itself".to_owned());
            }
            status => return Err(format!("it answers {}", status.as_u16())),
        }
        answer.collect(MAX_DOCUMENT).await.map_err(|error| error.to_string())
    }
}
