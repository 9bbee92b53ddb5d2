//! The grant `http`: requests of pack code, as JSON in and JSON out, through the guard of its
//! source.
//!
//! ```json
//! { "method": "GET", "url": "https://…", "headers": { "accept": "text/plain" }, "body": "…" }
//! { "status": 200, "headers": { "content-type": "text/plain" }, "body": "…" }
//! { "error": { "code": "ssrf_blocked", "message": "…" } }
//! ```
//!
//! Binary data is passed as `bodyBase64`.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;
use toolcrib_core::egress::EgressTrail;
use url::Url;

use crate::egress::{Answer, CONNECTION_HEADERS, Egress, EgressError, MAX_HOPS, OutgoingRequest};

/// Requests per call.
pub(super) const MAX_REQUESTS: usize = 32;
/// Largest request in bytes.
pub(super) const MAX_REQUEST: usize = 4 << 20;
/// Largest response body in bytes.
const MAX_ANSWER: usize = 4 << 20;
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FetchRequest {
    method: Option<String>,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_base64: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FetchResponse {
    status: u16,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// Code and message of a failed request.
type FetchError = (&'static str, String);

/// Sends the request in JSON form on `runtime`, because the threads for code have no connections.
/// The response is JSON. Dropping the future cancels the request.
pub(super) async fn fetch(
    egress: Egress,
    runtime: &tokio::runtime::Handle,
    request: Vec<u8>,
    trail: EgressTrail,
) -> String {
    let sent = async move {
        match exchange(&egress, &request, &trail).await {
            Ok(response) => serde_json::to_string(&response).unwrap_or_default(),
            Err((code, message)) => error(code, &message),
        }
    };
    let sent = AbortOnDropHandle::new(runtime.spawn(sent)).await;
    sent.unwrap_or_else(|_| error("fetch_failed", "the request was interrupted"))
}

pub(super) fn error(code: &str, message: &str) -> String {
    json!({ "error": { "code": code, "message": message } }).to_string()
}

async fn exchange(
    egress: &Egress,
    request: &[u8],
    trail: &EgressTrail,
) -> Result<FetchResponse, FetchError> {
    let answer = egress.send(outgoing(request)?, trail).await.map_err(refused)?;
    let (status, headers) = (answer.status().as_u16(), headers(&answer));
    let body = answer.collect(MAX_ANSWER).await.map_err(refused)?;
    let (body, body_base64) = match String::from_utf8(body) {
        Ok(text) => (Some(text), None),
        Err(bytes) => (None, Some(STANDARD.encode(bytes.as_bytes()))),
    };
    Ok(FetchResponse { status, headers, body, body_base64 })
}

fn refused(error: EgressError) -> FetchError {
    let code = match error {
        EgressError::Refused { .. } => "ssrf_blocked",
        _ => "fetch_failed",
    };
    (code, error.to_string())
}

fn outgoing(request: &[u8]) -> Result<OutgoingRequest, FetchError> {
    let invalid = |problem: &str| ("invalid_request", problem.to_owned());
    let wanted: FetchRequest = serde_json::from_slice(request).map_err(|_| {
        invalid("expected `url`, optionally `method`, `headers`, `body` or `bodyBase64`")
    })?;
    let url = Url::parse(&wanted.url).map_err(|_| invalid("`url` is not an address"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("`url` must be an http or https address"));
    }
    let method = wanted.method.as_deref().unwrap_or("GET");
    if !METHODS.contains(&method) {
        return Err(invalid("`method` must be GET, HEAD, POST, PUT, PATCH or DELETE"));
    }
    let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
    let mut sent = HeaderMap::new();
    for (name, value) in &wanted.headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid("a header name contains invalid characters"))?;
        if CONNECTION_HEADERS.contains(&name.as_str()) {
            return Err(invalid("a header must not be set by pack code"));
        }
        let value = HeaderValue::from_str(value)
            .map_err(|_| invalid("a header value contains invalid characters"))?;
        sent.insert(name, value);
    }
    let body = match (wanted.body, wanted.body_base64) {
        (Some(_), Some(_)) => return Err(invalid("expected `body` or `bodyBase64`, not both")),
        (Some(text), None) => Some(text.into_bytes()),
        (None, Some(text)) => {
            Some(STANDARD.decode(text).map_err(|_| invalid("`bodyBase64` is not base64"))?)
        }
        (None, None) => None,
    };
    let mut outgoing = OutgoingRequest::new(method, url);
    // Headers set by pack code stay with the origin that it named.
    outgoing.bound = sent;
    outgoing.body = body.map(Into::into);
    outgoing.hops = MAX_HOPS;
    Ok(outgoing)
}

fn headers(answer: &Answer) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    for (name, value) in answer.headers() {
        if let Ok(value) = value.to_str()
            && *name != header::SET_COOKIE
        {
            let known: &mut String = told.entry(name.to_string()).or_default();
            let separator = if known.is_empty() { "" } else { ", " };
            known.push_str(&format!("{separator}{value}"));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_code_are_checked_before_anything_is_sent() {
        let sound = r#"{"url":"https://host/a","headers":{"accept":"text/plain"}}"#;
        let sound = outgoing(sound.as_bytes()).unwrap();
        assert_eq!((sound.method, sound.url.as_str()), (Method::GET, "https://host/a"));
        for bad in [
            "",
            "{}",
            r#"{"url":"host"}"#,
            r#"{"url":"file:///etc/passwd"}"#,
            r#"{"url":"https://host/","method":"CONNECT"}"#,
            r#"{"url":"https://host/","headers":{"Host":"other"}}"#,
            r#"{"url":"https://host/","headers":{"Authorization":"Bearer x"}}"#,
            r#"{"url":"https://host/","headers":{"x":"a\r\nb"}}"#,
            r#"{"url":"https://host/","body":"a","bodyBase64":"YQ=="}"#,
            r#"{"url":"https://host/","bodyBase64":"?"}"#,
            r#"{"url":"https://host/","proxy":"x"}"#,
        ] {
            assert_eq!(
                outgoing(bad.as_bytes()).err().map(|e| e.0),
                Some("invalid_request"),
                "{bad}"
            );
        }
    }
}
