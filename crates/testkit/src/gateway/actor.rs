//! Callers and the responses they receive.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;

use super::Events;

/// A caller that sends requests, with a key or without. Every method sends one request.
#[derive(Clone)]
pub struct Actor {
    client: reqwest::Client,
    url: String,
    key: Option<String>,
    headers: HeaderMap,
}

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

// === impl Actor ===

impl Actor {
    pub(super) fn new(client: reqwest::Client, url: String, key: Option<String>) -> Self {
        Self { client, url, key, headers: HeaderMap::new() }
    }

    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns the same caller, sending the additional header `name`.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut with = self.clone();
        let name = HeaderName::try_from(name).unwrap();
        with.headers.append(name, HeaderValue::try_from(value).unwrap());
        with
    }

    /// Returns the value of an additional header.
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// Returns the same caller over HTTP/2, without an upgrade.
    #[must_use]
    pub fn http2(&self) -> Self {
        let client = super::client(|builder| builder.http2_prior_knowledge());
        Self { client, ..self.clone() }
    }

    /// Sends `DELETE path`.
    pub async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, None).await
    }

    /// Sends `GET path`.
    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, None).await
    }

    /// Sends `POST path` with `body` as JSON.
    pub async fn post(&self, path: &str, body: Value) -> Reply {
        let with = self.with("content-type", "application/json");
        with.send(Method::POST, path, Some(body.to_string().into())).await
    }

    /// Sends `POST path` with `body` unchanged.
    pub async fn post_text(&self, path: &str, body: impl Into<Bytes>) -> Reply {
        self.send(Method::POST, path, Some(body.into())).await
    }

    /// Sends any request.
    pub async fn send(&self, method: Method, path: &str, body: Option<Bytes>) -> Reply {
        let response = self.request(method, path, body).await;
        Reply {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap(),
        }
    }

    /// Sends any request, and returns the response as a stream.
    pub async fn open(&self, method: Method, path: &str, body: Option<Bytes>) -> Events {
        Events::new(self.request(method, path, body).await)
    }

    async fn request(&self, method: Method, path: &str, body: Option<Bytes>) -> reqwest::Response {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        request = request.headers(self.headers.clone());
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.unwrap()
    }
}

// === impl Reply ===

impl Reply {
    /// Returns the body as JSON; panics if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: status {} {:?}", self.status, self.text()))
    }

    /// Returns the body; replaces invalid UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns header `name`; empty when absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns status and JSON, for assertions on both.
    pub fn parts(&self) -> (u16, Value) {
        (self.status, self.json())
    }
}
