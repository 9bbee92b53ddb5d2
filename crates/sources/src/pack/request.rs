//! Nodes without code: requests that the manifest declares (`x-toolcrib-request`).
//!
//! Invariant: an argument fills exactly one path segment, one query value or one body value. The
//! origin is always that of `runtime.entry`.

use std::collections::BTreeMap;

use http::{HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::error::{PackCode, PackError};
use crate::egress::{MAX_HOPS, OutgoingRequest};

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request template with placeholders for arguments.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    method: Method,
    base: Url,
    template: RequestDeclaration,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestDeclaration {
    method: Option<String>,
    path: String,
    #[serde(default)]
    query: BTreeMap<String, String>,
    body: Option<Value>,
    /// JSON pointer to the result in the response (RFC 6901).
    #[serde(default)]
    result: String,
}

// === impl Request ===

impl Request {
    /// Parses a declaration; paths are relative to the address `entry`.
    pub(super) fn parse(entry: &str, declared: &Value) -> Result<Self, PackError> {
        let invalid = |problem: &str| {
            PackCode::InvalidManifest.error(format!("`x-toolcrib-request`: {problem}"))
        };
        let declared: RequestDeclaration =
            serde_json::from_value(declared.clone()).map_err(|_| {
                invalid("expected `path`, optionally `method`, `query`, `body` and `result`")
            })?;
        let base = Url::parse(entry).map_err(|_| invalid("`runtime.entry` is not an address"))?;
        let method = declared.method.as_deref().unwrap_or("GET");
        if !METHODS.contains(&method) {
            return Err(invalid("`method` must be GET, POST, PUT, PATCH or DELETE"));
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        if !declared.path.starts_with('/') {
            return Err(invalid("`path` must start with /"));
        }
        if !declared.result.is_empty() && !declared.result.starts_with('/') {
            return Err(invalid("`result` must be a JSON pointer"));
        }
        if declared.body.is_some() && method == Method::GET {
            return Err(invalid("a GET has no `body`"));
        }
        Ok(Self { method, base, template: declared })
    }

    /// Fills in `arguments`. The error names the argument that does not fit.
    pub(super) fn fill(&self, arguments: &Map<String, Value>) -> Result<OutgoingRequest, String> {
        let mut url = self.base.clone();
        {
            let Ok(mut segments) = url.path_segments_mut() else {
                return Err("the request has an address without a path".to_owned());
            };
            segments.pop_if_empty();
            for piece in self.template.path.split('/').skip(1) {
                let Some(name) = placeholder(piece) else {
                    segments.push(piece);
                    continue;
                };
                let text = text(arguments, name)?
                    .ok_or_else(|| format!("the argument `{name}` is missing"))?;
                // Dot segments would be removed by URL normalization, and so would line breaks and
                // tabs, which could hide a dot segment. An empty value is not a segment.
                if matches!(text.as_str(), "" | "." | "..") || text.contains(char::is_control) {
                    return Err(format!(
                        "the argument `{name}` must not be empty, `.` or `..` in a path, or have \
                         control characters"
                    ));
                }
                segments.push(&text);
            }
        }
        for (key, piece) in &self.template.query {
            let value = match placeholder(piece) {
                None => Some(piece.clone()),
                Some(name) => text(arguments, name)?,
            };
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(key, &value);
            }
        }
        let mut request = OutgoingRequest::new(self.method.clone(), url);
        request.hops = MAX_HOPS;
        request.headers.insert(header::ACCEPT, JSON);
        if let Some(body) = self.template.body.as_ref().and_then(|body| filled(body, arguments)) {
            request.headers.insert(header::CONTENT_TYPE, JSON);
            request.body = Some(body.to_string().into());
        }
        Ok(request)
    }

    /// The origin of every request.
    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// Whether the whole response is the result.
    pub(super) fn takes_all(&self) -> bool {
        self.template.result.is_empty()
    }

    /// The result in a response.
    pub(super) fn result<'a>(&self, answer: &'a Value) -> Option<&'a Value> {
        answer.pointer(&self.template.result)
    }
}

/// Parses the name in `{name}`; any other text is literal.
fn placeholder(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.strip_suffix('}')?;
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (!name.is_empty() && name.bytes().all(legal)).then_some(name)
}

/// Returns the argument as text; `None` when it is absent or null.
fn text(arguments: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
        Some(_) => Err(format!("the argument `{name}` is not a plain value")),
    }
}

/// Fills a template with arguments. Members whose argument is absent are left out.
fn filled(template: &Value, arguments: &Map<String, Value>) -> Option<Value> {
    match template {
        Value::String(text) => match placeholder(text) {
            Some(name) => arguments.get(name).cloned(),
            None => Some(template.clone()),
        },
        Value::Array(items) => {
            Some(items.iter().filter_map(|item| filled(item, arguments)).collect())
        }
        Value::Object(members) => Some(Value::Object(
            members
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), filled(value, arguments)?)))
                .collect(),
        )),
        _ => Some(template.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(arguments: Value) -> Result<OutgoingRequest, String> {
        let declared = json!({
            "method": "POST", "path": "/users/{id}/notes", "query": { "q": "{q}", "v": "1" },
            "body": { "text": "{text}", "tags": ["{tag}", "fixed"], "n": { "deep": "{n}" } },
        });
        let request = Request::parse("https://api.example.com/v2/", &declared).unwrap();
        request.fill(arguments.as_object().unwrap())
    }

    #[test]
    fn an_argument_stays_in_its_place() {
        let filled = fill(json!({
            "id": "../a/b?c#d%2f", "q": "x&y=z#", "text": "\"}, \"admin\": true", "n": [1, 2],
        }))
        .unwrap();
        assert_eq!(
            filled.url.as_str(),
            "https://api.example.com/v2/users/..%2Fa%2Fb%3Fc%23d%252f/notes?q=x%26y%3Dz%23&v=1"
        );
        let body: Value = serde_json::from_slice(&filled.body.unwrap()).unwrap();
        let expected = json!({
            "text": "\"}, \"admin\": true", "tags": ["fixed"], "n": { "deep": [1, 2] },
        });
        assert_eq!(body, expected);
        let url = fill(json!({ "id": 7, "text": "a" })).unwrap().url;
        assert_eq!(url.as_str(), "https://api.example.com/v2/users/7/notes?v=1");
        for bad in [
            json!({}),
            json!({ "id": ".." }),
            json!({ "id": "" }),
            json!({ "id": [] }),
            json!({ "id": "..\t" }),
            json!({ "id": ".\n." }),
            json!({ "id": "a\rb" }),
        ] {
            assert!(fill(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_declaration_is_checked() {
        for bad in [
            json!({}),
            json!({ "path": "x" }),
            json!({ "path": "/x", "method": "TRACE" }),
            json!({ "path": "/x", "body": {} }),
            json!({ "path": "/x", "result": "a" }),
            json!({ "path": "/x", "headers": {} }),
            json!("GET /x"),
        ] {
            assert!(Request::parse("https://host/", &bad).is_err(), "{bad}");
        }
    }
}
