//! Fetches documents of token issuers, and sends forms to token endpoints, through the guard.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{HeaderValue, Method, StatusCode, header};
use toolcrib_core::{
    credential::Secret,
    egress::{AllowList, EgressTrail},
    key_set::{
        DocumentRequest, FetchError, FormAnswer, KeySetSource, MAX_DOCUMENT, MAX_TOKEN_ANSWER,
        TokenForm,
    },
};

use crate::egress::{Guard, Network, OutgoingRequest, parse_url};

/// Time limit of one fetch.
const PATIENCE: Duration = Duration::from_secs(5);

/// Fetches documents of issuers, over TLS or from addresses the operator configured, without
/// redirects and up to a size limit.
pub struct KeySets(pub(crate) Arc<Network>);

#[async_trait]
impl KeySetSource for KeySets {
    async fn fetch(&self, wanted: DocumentRequest<'_>) -> Result<Vec<u8>, FetchError> {
        let guard = guard(&wanted).map_err(FetchError::Failed)?;
        document(&self.0, guard, wanted.url, MAX_DOCUMENT).await
    }

    async fn fetch_foreign(
        &self,
        url: &str,
        allow: &AllowList,
        max: usize,
    ) -> Result<Vec<u8>, FetchError> {
        document(&self.0, Guard::new(allow.clone(), None), url, max).await
    }

    async fn send_form(
        &self,
        to: DocumentRequest<'_>,
        form: &TokenForm,
    ) -> Result<FormAnswer, FetchError> {
        send_form(&self.0, &to, form, PATIENCE).await.map_err(FetchError::Failed)
    }
}

/// The body of a request.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    /// None: the request is a GET.
    None,
    Form(&'a TokenForm),
    Json(&'a [u8]),
}

/// Sends `form` to a token endpoint, and reads its answer within `patience`. The text of an error
/// has no data of the request.
pub(crate) async fn send_form(
    network: &Network,
    to: &DocumentRequest<'_>,
    form: &TokenForm,
    patience: Duration,
) -> Result<FormAnswer, String> {
    send(network, guard(to)?, to.url, Content::Form(form), patience, MAX_TOKEN_ANSWER).await
}

/// Fetches a document of at most `max` bytes within `guard`.
async fn document(
    network: &Network,
    guard: Guard,
    url: &str,
    max: usize,
) -> Result<Vec<u8>, FetchError> {
    let sent = send(network, guard, url, Content::None, PATIENCE, max).await;
    match sent.map_err(FetchError::Failed)? {
        FormAnswer { status: 200, body } => Ok(body),
        FormAnswer { status, .. }
            if StatusCode::from_u16(status).is_ok_and(|code| code.is_redirection()) =>
        {
            let problem = "it answers with a redirect; configure the address itself";
            Err(FetchError::Failed(problem.to_owned()))
        }
        FormAnswer { status, .. } => Err(FetchError::Status(status)),
    }
}

fn guard(to: &DocumentRequest<'_>) -> Result<Guard, String> {
    let named = parse_url("the configured address", to.named)?;
    Ok(Guard::new(to.allow.clone(), Some(&named)))
}

/// Sends one request within `guard`, and reads its answer of at most `max` bytes within `patience`.
/// The text of an error has no data of the request.
pub(crate) async fn send(
    network: &Network,
    guard: Guard,
    url: &str,
    content: Content<'_>,
    patience: Duration,
    max: usize,
) -> Result<FormAnswer, String> {
    let url = parse_url("the address", url)?;
    // A new client each time: requests to issuers are too rare for a pool.
    let egress = network.egress(guard)?;
    let (method, media_type, body) = match content {
        Content::None => (Method::GET, None, None),
        Content::Form(form) => {
            let body = form.body.expose().as_bytes();
            (Method::POST, Some("application/x-www-form-urlencoded"), Some(body))
        }
        Content::Json(body) => (Method::POST, Some("application/json"), Some(body)),
    };
    let mut request = OutgoingRequest::new(method, url);
    let json = HeaderValue::from_static("application/json, application/jwk-set+json");
    request.headers.insert(header::ACCEPT, json);
    if let Some(media_type) = media_type {
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    if let Content::Form(TokenForm { authorization: Some(authorization), .. }) = content {
        request.headers.insert(header::AUTHORIZATION, sensitive(authorization)?);
    }
    request.body = body.map(|body| body.to_vec().into());
    let answered = async {
        // Belongs to no single call: a token serves all callers.
        let answer = egress.send(request, &EgressTrail::default()).await?;
        let status = answer.status().as_u16();
        Ok::<_, crate::egress::EgressError>(FormAnswer { status, body: answer.collect(max).await? })
    };
    match tokio::time::timeout(patience, answered).await {
        // The cause of a failed connection contains addresses but no data of the request.
        Ok(answered) => answered.map_err(|error| error.to_string()),
        Err(_late) => Err("no response in time".to_owned()),
    }
}

fn sensitive(text: &Secret) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(text.expose());
    let mut value = value.map_err(|_| "the client cannot authenticate in a header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}
