//! Determines the base URL of a service: the configured address, or the one in its document.
//!
//! Invariant: configured headers are sent only to the configured service, never to a host that only
//! the document names.

use std::collections::BTreeMap;

use http::HeaderMap;
use serde_json::Value;
use url::Url;

use crate::egress::OutgoingRequest;

/// The configured headers, and the only origin that receives them.
pub(super) struct OwnHeaders {
    pub(super) headers: HeaderMap,
    pub(super) home: Option<Url>,
}

impl OwnHeaders {
    /// Adds the configured headers to a request to the configured service. They override headers
    /// from arguments.
    pub(super) fn authorize(&self, request: &mut OutgoingRequest) {
        if self.home.as_ref().is_some_and(|home| home.origin() == request.url.origin()) {
            for (name, value) in &self.headers {
                request.bound.insert(name.clone(), value.clone());
            }
        }
    }

    /// Whether `url` is of another origin than the configured service.
    pub(super) fn is_abroad(&self, url: &Url) -> bool {
        self.home.as_ref().is_some_and(|home| home.origin() != url.origin())
    }
}

/// The settings that determine where operations are sent.
pub(super) struct Servers<'a> {
    /// The configured base URL; overrides the document.
    pub(super) base: Option<&'a Url>,
    /// The URL of the document, for relative server URLs.
    pub(super) document: Option<&'a Url>,
    /// Values of the servers' variables.
    pub(super) variables: &'a BTreeMap<String, String>,
}

impl Servers<'_> {
    /// Finds the base URL for an operation with these `servers`.
    pub(super) fn find(&self, servers: Option<&Value>) -> Result<Url, String> {
        if let Some(base) = self.base {
            return Ok(base.clone());
        }
        // Without a server entry, the default is `/`, the root of the document's host.
        let described = servers.and_then(Value::as_array).and_then(|servers| servers.first());
        let text = match described {
            Some(server) => self.filled(server)?,
            None => "/".to_owned(),
        };
        let url = match (Url::parse(&text), self.document) {
            (Ok(url), _) => Ok(url),
            (Err(url::ParseError::RelativeUrlWithoutBase), Some(document)) => document.join(&text),
            (Err(url::ParseError::RelativeUrlWithoutBase), None) => {
                let problem = "the document names no server; set `base_url`";
                return Err(problem.to_owned());
            }
            (Err(error), _) => Err(error),
        };
        let mut url = url.map_err(|_| "the document's server is not a URL".to_owned())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err("the document's server is not an http or https address".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the document's server carries credentials; give `base_url`".to_owned());
        }
        url.set_query(None);
        url.set_fragment(None);
        Ok(url)
    }

    /// Fills in the variables of the server's URL.
    fn filled(&self, server: &Value) -> Result<String, String> {
        let text = server.get("url").and_then(Value::as_str).unwrap_or("/");
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            let described = server.get("variables").and_then(|variables| variables.get(name));
            let value = match self.variables.get(name) {
                Some(value) => value.as_str(),
                None => described.and_then(|variable| variable.get("default")).and_then(Value::as_str).ok_or(
                    "the document's server has a variable without a default; give it in `variables`",
                )?,
            };
            let legal =
                described.and_then(|variable| variable.get("enum")).and_then(Value::as_array);
            if legal.is_some_and(|legal| !legal.iter().any(|one| one.as_str() == Some(value))) {
                return Err("a value in `variables` is not in the document's list".to_owned());
            }
            filled.push_str(before);
            filled.push_str(value);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(servers: Option<Value>, document: Option<&str>) -> Result<String, String> {
        let document = document.map(|url| Url::parse(url).unwrap());
        let variables = BTreeMap::from([("region".to_owned(), "eu".to_owned())]);
        let servers_of = Servers { base: None, document: document.as_ref(), variables: &variables };
        servers_of.find(servers.as_ref()).map(String::from)
    }

    #[test]
    fn a_server_is_where_the_document_says() {
        let at = Some("https://docs.example/api/openapi.json");
        for (servers, document, expected) in [
            (json!([{ "url": "https://a.example/v1?x#y" }]), None, "https://a.example/v1"),
            (json!([{ "url": "/v2" }, { "url": "/v3" }]), at, "https://docs.example/v2"),
            (json!([{ "url": "v2/" }]), at, "https://docs.example/api/v2/"),
            (json!([]), at, "https://docs.example/"),
            (
                json!([{ "url": "https://{region}.example:{port}/", "variables": {
                    "region": { "default": "us", "enum": ["us", "eu"] },
                    "port": { "default": "8443" },
                } }]),
                None,
                "https://eu.example:8443/",
            ),
        ] {
            assert_eq!(
                found(Some(servers.clone()), document).as_deref(),
                Ok(expected),
                "{servers}"
            );
        }
        for servers in [
            json!([{ "url": "/v2" }]),
            json!([{ "url": "ftp://a.example/" }]),
            json!([{ "url": "https://u:p@a.example/" }]),
            json!([{ "url": "https://{who}.example/" }]),
            json!([{ "url": "https://{region}.example/", "variables": {
                "region": { "default": "us", "enum": ["us"] } } }]),
            json!([{ "url": "https://" }]),
        ] {
            assert!(found(Some(servers.clone()), None).is_err(), "{servers}");
        }
        assert!(found(None, None).is_err());
    }

    #[test]
    fn the_configured_address_wins() {
        let base = Url::parse("http://127.0.0.1:9/x").unwrap();
        let none = BTreeMap::new();
        let servers = Servers { base: Some(&base), document: None, variables: &none };
        let described = json!([{ "url": "https://evil.example" }]);
        assert_eq!(servers.find(Some(&described)).unwrap(), base);
    }
}
