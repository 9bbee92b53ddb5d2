//! Fetches documents of token issuers, and sends forms to them, through the guard.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{HeaderValue, Method, header};
use toolcrib_core::{
    egress::EgressTrail,
    key_set::{DocumentRequest, FetchError, FormAnswer, KeySetSource, MAX_DOCUMENT},
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
        in_time(async {
            match self.send(wanted, None).await? {
                FormAnswer { status: 200, body } => Ok(body),
                FormAnswer { status, .. } => Err(format!("it answers {status}")),
            }
        })
        .await
    }

    async fn send_form(
        &self,
        to: DocumentRequest<'_>,
        form: String,
    ) -> Result<FormAnswer, FetchError> {
        in_time(self.send(to, Some(form))).await
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, FetchError> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done.map_err(FetchError),
        Err(_late) => Err(FetchError("no response in time".to_owned())),
    }
}

impl KeySets {
    async fn send(
        &self,
        to: DocumentRequest<'_>,
        form: Option<String>,
    ) -> Result<FormAnswer, String> {
        let url = parse_url("the address", to.url)?;
        let named = parse_url("the configured address", to.named)?;
        // A new client each time: documents are fetched every few minutes, too rarely for a pool.
        let egress = self.0.egress(Guard::new(to.allow.clone(), Some(&named)))?;
        let method = if form.is_some() { Method::POST } else { Method::GET };
        let mut request = Outgoing::new(method, url);
        let json = HeaderValue::from_static("application/json, application/jwk-set+json");
        request.headers.insert(header::ACCEPT, json);
        if let Some(form) = form {
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            request.headers.insert(header::CONTENT_TYPE, kind);
            request.body = Some(form.into());
        }
        let answer = egress
            .send(request, &EgressTrail::default())
            .await
            .map_err(|error| error.to_string())?;
        let status = answer.status();
        if status.is_redirection() {
            return Err("it answers with a redirect; configure the address itself".to_owned());
        }
        let body = answer.collect(MAX_DOCUMENT).await.map_err(|error| error.to_string())?;
        Ok(FormAnswer { status: status.as_u16(), body })
    }
}
