//! The client of a running server, for `--url`. All HTTP requests to it are
//! sent here.
//!
//! Invariant: the key is sent only to the address in `--url`; redirects are not followed.

pub(crate) mod bridge;
mod endpoint;
mod mcp;
mod tls;

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{
    Method, Response, StatusCode,
    header::{AUTHORIZATION, HeaderValue},
    redirect,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib_core::{credential::Secret, egress::is_loopback};
use url::Url;

pub(crate) use mcp::{CallEnd, ListedTool, McpList};
pub(crate) use tls::{ClientTls, hint, is_other_certificate};

use crate::{
    context::Context,
    failure::{Advice as _, advised, advised_by, usage},
    settings,
    text::member,
};

/// Size limit of a response body, in bytes.
const MAX_ANSWER: usize = 64 << 20;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Timeout of requests other than tool calls, which have no timeout.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// A client of one server.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<Secret>,
}

impl Client {
    /// Creates a client of the server of `--url`; `None` without `--url`.
    pub(crate) fn connect(Context { global, printer }: &Context) -> anyhow::Result<Option<Self>> {
        let Some(typed) = &global.url else { return Ok(None) };
        let base = address(typed)?;
        let key = settings::key(global)?;
        if key.is_some() && base.scheme() == "http" && !is_loopback(&base) {
            printer.warning("the API key is sent unencrypted; use https");
        }
        Self::of(base, key, ClientTls::read(global)?).map(Some)
    }

    /// Creates a client of the server of `--url`, which a command needs because `what` happens there.
    pub(crate) fn at_server(cx: &Context, what: &str) -> anyhow::Result<Self> {
        Self::connect(cx)?.ok_or_else(|| {
            usage(format!(
                "{what} at a running server: name it with --url, for example --url \
                 http://127.0.0.1:8808"
            ))
        })
    }

    /// Creates a client of the server at `base`.
    pub(crate) fn of(base: Url, key: Option<Secret>, tls: ClientTls) -> anyhow::Result<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a client of a running server, not of an upstream"
        )]
        let mut builder = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            .user_agent(concat!("toolcrib/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        builder = tls.apply(builder);
        let http = builder.build().advise(
            "the client cannot be set up",
            "do --client-cert and --client-key belong together?",
        )?;
        Ok(Self { http, base, key })
    }

    /// Sends `GET` to the path of `segments`. The body is `null` if it is not JSON.
    ///
    /// Fails without an answer within `limit`.
    pub(crate) async fn probe(
        &self,
        segments: &[&str],
        limit: Duration,
    ) -> anyhow::Result<(u16, Value)> {
        let response =
            self.sent(self.request(Method::GET, self.path(segments)?)?.timeout(limit)).await?;
        let status = response.status().as_u16();
        Ok((status, serde_json::from_slice(&bounded(response).await?).unwrap_or_default()))
    }

    pub(crate) fn catalog(&self) -> anyhow::Result<toolcrib_client::Client> {
        let http = self.http.clone();
        toolcrib_client::Client::with_http(http, self.base.as_str(), self.key.clone())
            .map_err(|error| usage(error.to_string()))
    }

    /// Adds a message and a hint to an error of the [`catalog`](Self::catalog) client.
    pub(crate) fn explained(&self, error: toolcrib_client::Error) -> anyhow::Error {
        match error {
            toolcrib_client::Error::Refused(refusal) => {
                let status = StatusCode::from_u16(refusal.status).unwrap_or_default();
                let message =
                    if refusal.message.is_empty() { refusal.code } else { refusal.message };
                let message = (!message.is_empty()).then_some(message);
                refused(status, &json!({ "message": message, "details": refusal.details }), &[])
            }
            error @ toolcrib_client::Error::Unreachable(_) => self.unreachable(error),
            error @ (toolcrib_client::Error::NotJson | toolcrib_client::Error::NotAList) => {
                advised_by(
                    error,
                    format!("{} did not return a list of tools", self.base),
                    "is this the address of a toolcrib server?",
                )
            }
            error => error.into(),
        }
    }

    /// Sends `GET` to the path of `segments`. Fails if the status is not success.
    pub(crate) async fn get(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
    ) -> anyhow::Result<Value> {
        self.answer(self.getting(segments, query)?, segments).await
    }

    fn getting(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
    ) -> anyhow::Result<reqwest::RequestBuilder> {
        let mut url = self.path(segments)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.request(Method::GET, url)
    }

    /// As [`get`](Self::get), with the body as text.
    pub(crate) async fn text(&self, segments: &[&str]) -> anyhow::Result<String> {
        let request = self.request(Method::GET, self.path(segments)?)?;
        let response = self.sent(request.timeout(READ_LIMIT)).await?;
        let status = response.status();
        let bytes = bounded(response).await?;
        if !status.is_success() {
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            return Err(refused(status, &body, segments));
        }
        String::from_utf8(bytes).context("the response is not text")
    }

    /// Sends `GET` to the path of `segments`, and passes the parts of the body to `each` as they
    /// arrive.
    ///
    /// Fails if the status is not success or the body is incomplete.
    pub(crate) async fn parts(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
        mut each: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut response = self.sent(self.getting(segments, query)?).await?;
        let status = response.status();
        if !status.is_success() {
            let body = serde_json::from_slice(&bounded(response).await?).unwrap_or_default();
            return Err(refused(status, &body, segments));
        }
        while let Some(part) = response.chunk().await.context("the response is incomplete")? {
            each(&part)?;
        }
        Ok(())
    }

    /// As [`get`](Self::get), for the member `name` of the body.
    pub(crate) async fn get_member<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
        name: &str,
    ) -> anyhow::Result<T> {
        let mut body = self.get(segments, query).await?;
        let member = body.get_mut(name).map(Value::take).unwrap_or_default();
        serde_json::from_value(member)
            .with_context(|| format!("the server returned a response without {name}"))
    }

    /// Whether the caller has a scope of routes.
    pub(crate) async fn may(&self, scope: &str) -> anyhow::Result<bool> {
        let held: Vec<String> = self.get_member(&["v1", "whoami"], &[], "may").await?;
        Ok(held.iter().any(|held| held == scope))
    }

    /// The member `key` of each object in the list `name` of the response.
    pub(crate) async fn get_names(
        &self,
        segments: &[&str],
        name: &str,
        key: &str,
    ) -> anyhow::Result<Vec<String>> {
        let objects: Vec<Value> = self.get_member(segments, &[], name).await?;
        Ok(objects.iter().map(|object| member(object, key).to_owned()).collect())
    }

    /// Sends `body` with `POST`. Fails if the status is not success.
    pub(crate) async fn post(
        &self,
        segments: &[&str],
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut request = self.request(Method::POST, self.path(segments)?)?;
        if let Some(body) = body {
            request = request.json(body);
        }
        self.answer(request, segments).await
    }

    /// Sends `DELETE`. Fails if the status is not success.
    pub(crate) async fn delete(&self, segments: &[&str]) -> anyhow::Result<Value> {
        self.answer(self.request(Method::DELETE, self.path(segments)?)?, segments).await
    }

    fn path(&self, segments: &[&str]) -> anyhow::Result<Url> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| usage("--url must be an http or https address"))?
            .pop_if_empty()
            .extend(segments);
        Ok(url)
    }

    fn request(&self, method: Method, url: Url) -> anyhow::Result<reqwest::RequestBuilder> {
        let mut request = self.http.request(method, url);
        if let Some(key) = &self.key {
            let mut header = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .map_err(|_| usage("the API key contains invalid characters"))?;
            header.set_sensitive(true);
            request = request.header(AUTHORIZATION, header);
        }
        Ok(request)
    }

    async fn sent(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Response> {
        request.send().await.map_err(|error| self.unreachable(error.without_url()))
    }

    /// The error for a server that does not answer.
    fn unreachable(&self, error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
        let hint = hint(&error, &self.base);
        advised_by(error, format!("the server at {} does not answer", self.base), hint)
    }

    async fn answer(
        &self,
        request: reqwest::RequestBuilder,
        segments: &[&str],
    ) -> anyhow::Result<Value> {
        let response = self.sent(request.timeout(READ_LIMIT)).await?;
        let status = response.status();
        let bytes = bounded(response).await?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if !status.is_success() {
            return Err(refused(status, &body, segments));
        }
        if body.is_null() && !bytes.is_empty() {
            return Err(advised(
                format!("the response of {} is not JSON", self.base),
                "is this the address of a toolcrib server?",
            ));
        }
        Ok(body)
    }
}

/// Creates the error for a failed request to the path of `segments`. The hint is derived from the
/// status and from `details` in the body.
fn refused(status: StatusCode, body: &Value, segments: &[&str]) -> anyhow::Error {
    let message = ["message", "error"].iter().find_map(|key| body.get(key)?.as_str());
    let message = match message {
        Some(message) => format!("the server refused ({}): {message}", status.as_u16()),
        None => format!("the server refused with status {status}"),
    };
    let details = body.get("details").unwrap_or(&Value::Null);
    match status {
        StatusCode::UNAUTHORIZED => advised(
            message,
            "set TOOLCRIB_KEY or --key-file to a key of this server; create one with `toolcrib keys create`",
        ),
        StatusCode::FORBIDDEN => advised(message, missing_scopes(details)),
        StatusCode::TOO_MANY_REQUESTS => advised(message, later(details)),
        StatusCode::NOT_FOUND => advised(message, list_of(segments)),
        _ => anyhow::Error::msg(message),
    }
}

/// A hint with the command that lists the objects at the path of `segments`.
fn list_of(segments: &[&str]) -> &'static str {
    match segments {
        ["v1", "approvals", ..] => {
            "`toolcrib approvals list` shows the requests that the key may see"
        }
        ["v1", "runs", ..] => "`toolcrib runs list` shows the runs that the key may see",
        ["v1", "connections", ..] => "`toolcrib connections list` shows your accounts",
        ["v1", "clients", ..] => "`toolcrib clients list` shows your clients",
        ["v1", "keys", ..] => "`toolcrib keys list` shows the ids",
        ["v1", "sources", ..] => "`toolcrib sources list` shows the sources",
        _ => "`toolcrib tools list` shows what the key may use",
    }
}

/// The hint for a `403` response with `details`.
pub(crate) fn missing_scopes(details: &Value) -> String {
    let required = details.get("requiredScopes").and_then(Value::as_array);
    let scopes: Vec<String> = required
        .into_iter()
        .flatten()
        .chain(details.get("scopeRequired"))
        .filter_map(|scope| Some(format!("`{}`", scope.as_str()?)))
        .collect();
    match details.get("reason").and_then(Value::as_str) {
        Some("own_request" | "same_hand") => {
            return "another principal has to answer it, with a key that the requester did not create"
                .to_owned();
        }
        Some("role") => {
            return "use a key with the required role; `toolcrib approvals show` shows it"
                .to_owned();
        }
        Some(_) | None => {}
    }
    match scopes.is_empty() {
        true => "the key lacks a scope; use a key with that scope".to_owned(),
        false => format!(
            "the key lacks a required scope: {}; create a key with it: `toolcrib keys create \
             --scope`",
            scopes.join(" ")
        ),
    }
}

/// The hint for a `429` response with `details`.
pub(crate) fn later(details: &Value) -> String {
    match details.get("retryAfterMs").and_then(Value::as_u64) {
        Some(millis) => format!("try again in {} s", millis.div_ceil(1000)),
        None => "try again later".to_owned(),
    }
}

async fn bounded(mut response: Response) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.context("the response is incomplete")? {
        anyhow::ensure!(
            bytes.len() + chunk.len() <= MAX_ANSWER,
            "the response is larger than 64 MiB"
        );
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Parses the address of `--url`.
///
/// Fails unless it is an `http` or `https` URL without user name and password.
pub(crate) fn address(typed: &str) -> anyhow::Result<Url> {
    let wrong = || usage("--url must be an address such as http://127.0.0.1:8808");
    let url = Url::parse(typed).map_err(|_| wrong())?;
    match url.scheme() {
        "http" | "https" if url.username().is_empty() && url.password().is_none() => Ok(url),
        "http" | "https" => Err(usage("--url must not contain a password; use --key-file")),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_checked() {
        assert!(address("http://127.0.0.1:8808").is_ok());
        assert!(address("https://crib.example.com/base/").is_ok());
        for text in ["", "127.0.0.1:8808", "ftp://x", "http://user:pw@host", "localhost:1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let loopback = |text| is_loopback(&Url::parse(text).unwrap());
        assert!(loopback("http://127.0.0.1:1") && loopback("http://[::1]:1"));
        assert!(loopback("http://localhost"));
        assert!(!loopback("http://127.0.0.1.example.com") && !loopback("http://10.0.0.1"));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let hint = |status, details: Value| {
            let error = refused(status, &json!({ "message": "no", "details": details }), &[]);
            crate::failure::hints(&error).collect::<String>()
        };
        assert!(hint(StatusCode::UNAUTHORIZED, json!(null)).contains("TOOLCRIB_KEY"));
        let scopes = json!({ "requiredScopes": ["a:b", "c"] });
        assert!(hint(StatusCode::FORBIDDEN, scopes).contains("`a:b` `c`"));
        let scope = json!({ "scopeRequired": "d:e" });
        assert!(hint(StatusCode::FORBIDDEN, scope).contains("`d:e`"));
        let own = json!({ "reason": "own_request" });
        assert!(hint(StatusCode::FORBIDDEN, own).contains("another principal"));
        for (path, command) in [
            (&["v1", "approvals", "a1", "grant"][..], "approvals list"),
            (&["v1", "runs", "r1"], "runs list"),
            (&["v1", "keys", "k1"], "keys list"),
            (&["v1", "connections", "c1"], "connections list"),
            (&["v1", "clients", "c1"], "clients list"),
            (&["v1", "sources", "files", "logs"], "sources list"),
            (&["v1", "tools", "t1"], "tools list"),
        ] {
            let error = refused(StatusCode::NOT_FOUND, &json!({}), path);
            let hints: String = crate::failure::hints(&error).collect();
            assert!(hints.contains(command), "{path:?}: {hints}");
        }
        let wait = json!({ "retryAfterMs": 1500 });
        assert_eq!(hint(StatusCode::TOO_MANY_REQUESTS, wait), "try again in 2 s");
    }
}
