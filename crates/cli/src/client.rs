//! A small client of a running server, for `--url`. The only place in the program with HTTP.
//!
//! Invariant: the key goes to the address the user named and nowhere else; redirects are not
//! followed.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{
    Method, Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, HeaderValue},
    redirect,
};
use serde_json::{Value, json};
use toolcrib_core::credential::Secret;
use url::{Host, Url};

use crate::{
    args::Global,
    failure::{Advise as _, advised, usage},
    printer::Printer,
    settings,
};

/// Largest answer that is read.
const MAX_ANSWER: usize = 64 << 20;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// For everything but calls, which take as long as the tool takes.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// Talks to one server.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<Secret>,
}

/// What the server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Client {
    /// A client of the server that `--url` names; `None` without it.
    pub(crate) fn connect(global: &Global, printer: Printer) -> anyhow::Result<Option<Self>> {
        let Some(typed) = &global.url else { return Ok(None) };
        let base = address(typed)?;
        let key = settings::key(global)?;
        if key.is_some() && base.scheme() == "http" && !is_loopback(&base) {
            printer.warning("the key travels in the open; use https");
        }
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
        Ok(Some(Self { http: builder.build()?, base, key }))
    }

    /// The answer to `GET` of the path made of `segments`; anything but success is an error.
    pub(crate) async fn get(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
    ) -> anyhow::Result<Value> {
        let mut url = self.path(segments)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.request(Method::GET, url)?.timeout(READ_LIMIT);
        let Answer { status, body } = self.answer(request).await?;
        match status.is_success() {
            true => Ok(body),
            false => Err(refused(status, &body)),
        }
    }

    /// The answer to `POST` of `body`, whatever its status.
    pub(crate) async fn post(&self, segments: &[&str], body: &Value) -> anyhow::Result<Answer> {
        let request = self.request(Method::POST, self.path(segments)?)?.json(body);
        self.answer(request).await
    }

    /// The result of an MCP request, for what only that dialect tells.
    pub(crate) async fn mcp(&self, method: &str) -> anyhow::Result<Value> {
        const VERSION: &str = "2026-07-28";
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "_meta": meta } });
        let request = self
            .request(Method::POST, self.path(&["mcp"])?)?
            .header(ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", VERSION)
            .header("Mcp-Method", method)
            .timeout(READ_LIMIT)
            .json(&body);
        let Answer { status, mut body } = self.answer(request).await?;
        match body.get_mut("result").map(Value::take) {
            Some(result) if status.is_success() => Ok(result),
            _ => Err(refused(status, body.get("error").unwrap_or(&body))),
        }
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
                .map_err(|_| usage("the key has characters that no key has"))?;
            header.set_sensitive(true);
            request = request.header(AUTHORIZATION, header);
        }
        Ok(request)
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Answer> {
        let response = request.send().await.map_err(reqwest::Error::without_url).advise(
            format!("the server at {} does not answer", self.base),
            "is `toolcrib serve` running there?",
        )?;
        let status = response.status();
        let bytes = bounded(response).await?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if status.is_success() && body.is_null() && !bytes.is_empty() {
            return Err(advised(
                format!("{} answered something that is not JSON", self.base),
                "is this the address of a toolcrib server?",
            ));
        }
        Ok(Answer { status, body })
    }
}

/// What a status other than success means.
pub(crate) fn refused(status: StatusCode, body: &Value) -> anyhow::Error {
    let message = ["message", "error"].iter().find_map(|key| body.get(key)?.as_str());
    let message = match message {
        Some(message) => format!("the server refused ({}): {message}", status.as_u16()),
        None => format!("the server refused with status {status}"),
    };
    match status {
        StatusCode::UNAUTHORIZED => advised(
            message,
            "set TOOLCRIB_KEY or --key-file to a key of this server; `toolcrib keys create` makes one",
        ),
        StatusCode::NOT_FOUND => {
            advised(message, "`toolcrib tools list` shows what the key may use")
        }
        _ => anyhow::Error::msg(message),
    }
}

async fn bounded(mut response: Response) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.context("the answer broke off")? {
        anyhow::ensure!(
            bytes.len() + chunk.len() <= MAX_ANSWER,
            "the answer is larger than 64 MiB"
        );
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn address(typed: &str) -> anyhow::Result<Url> {
    let wrong = || usage("--url must be an address such as http://127.0.0.1:8808");
    let url = Url::parse(typed).map_err(|_| wrong())?;
    match url.scheme() {
        "http" | "https" if url.username().is_empty() && url.password().is_none() => Ok(url),
        "http" | "https" => Err(usage("--url must not contain a password; use --key-file")),
        _ => Err(wrong()),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
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
}
