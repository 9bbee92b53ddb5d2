//! The metadata of a protected resource (RFC 9728): its authorization servers and scopes.

use serde_json::{Map, Value};
use toolcrib_core::{egress::AllowList, json};
use url::Url;

use crate::{metadata::is_private_enough, scopes};

/// The most authorization servers that are read.
pub const MAX_SERVERS: usize = 8;
/// The most bytes of an identifier.
const MAX_IDENTIFIER: usize = 2 << 10;

/// The description of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceMetadata {
    /// The identifier for the parameter `resource` (RFC 8707), as the document writes it.
    pub resource: String,
    /// The issuers of its authorization servers, in the order of the document. Never empty.
    pub authorization_servers: Vec<String>,
    /// The scopes that it knows, in the bounds of [`scopes`].
    pub scopes: Vec<String>,
}

/// Why a document is not the description of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResource {
    /// It is not a JSON object, or has a member twice.
    #[error("the resource metadata is not JSON")]
    NotJson,
    /// It describes another resource.
    #[error("the resource metadata is of another resource")]
    OtherResource,
    /// It has no authorization server that can be used.
    #[error("the resource metadata names no usable authorization server")]
    NoServer,
}

/// The addresses of the metadata of the server at `url`, in the order in which to try them: with
/// its path, then without (RFC 9728, section 3.1). The query of `url` can hold a key, and is left
/// out.
pub fn locations(url: &Url) -> Vec<String> {
    let origin = url.origin().ascii_serialization();
    let path = if url.path() == "/" { "" } else { url.path() };
    let mut locations = Vec::new();
    for path in [path, path.trim_end_matches('/'), ""] {
        let location = format!("{origin}/.well-known/oauth-protected-resource{path}");
        if !locations.contains(&location) {
            locations.push(location);
        }
    }
    locations
}

// === impl ResourceMetadata ===

impl ResourceMetadata {
    /// Reads the metadata of the server at `url`. The resource of the document must be this server,
    /// or contain it: it has the same origin, and its path is that of `url`, or whole segments at
    /// its start. Otherwise a server could obtain tokens for another one (RFC 9728, section 7.3).
    /// Issuers that are not [private enough](is_private_enough) are dropped.
    ///
    /// # Errors
    /// [`InvalidResource`].
    pub fn read(document: &[u8], url: &Url, allow: &AllowList) -> Result<Self, InvalidResource> {
        let Ok(Value::Object(document)) = json::parse_strict(document) else {
            return Err(InvalidResource::NotJson);
        };
        let resource = document.get("resource").and_then(Value::as_str);
        let resource = resource.filter(|resource| contains(resource, url));
        let resource = resource.ok_or(InvalidResource::OtherResource)?;
        let authorization_servers = issuers(&document, allow);
        if authorization_servers.is_empty() {
            return Err(InvalidResource::NoServer);
        }
        Ok(Self {
            resource: resource.to_owned(),
            authorization_servers,
            scopes: scopes::read_array(document.get("scopes_supported")),
        })
    }
}

/// Whether the resource `identifier` is the server at `url`, or contains it.
fn contains(identifier: &str, url: &Url) -> bool {
    let Some(resource) = identifier_url(identifier) else { return false };
    let has_same_query = resource.query().is_none() || resource.query() == url.query();
    let (outer, inner) = (resource.path().trim_end_matches('/'), url.path().trim_end_matches('/'));
    let rest = inner.strip_prefix(outer);
    resource.origin() == url.origin()
        && resource.fragment().is_none()
        && has_same_query
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The usable issuers of the document: addresses without query and fragment (RFC 8414, section 2).
fn issuers(document: &Map<String, Value>, allow: &AllowList) -> Vec<String> {
    let listed = document.get("authorization_servers").and_then(Value::as_array);
    let listed = listed.into_iter().flatten().filter_map(Value::as_str);
    let is_usable = |issuer: &&str| {
        identifier_url(issuer).is_some_and(|url| {
            url.query().is_none() && url.fragment().is_none() && is_private_enough(&url, allow)
        })
    };
    listed.take(MAX_SERVERS).filter(is_usable).map(str::to_owned).collect()
}

/// Parses an identifier that is later sent as it is written. Parsers ignore blanks and turn `\`
/// into `/`, so a text with these could mean different addresses here and at a server.
fn identifier_url(text: &str) -> Option<Url> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    if text.len() > MAX_IDENTIFIER || !text.bytes().all(is_plain) {
        return None;
    }
    let url = Url::parse(text).ok()?;
    (url.host().is_some() && url.username().is_empty() && url.password().is_none()).then_some(url)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(document: &Value, url: &str) -> Result<ResourceMetadata, InvalidResource> {
        let url = Url::parse(url).unwrap();
        ResourceMetadata::read(document.to_string().as_bytes(), &url, &AllowList::default())
    }

    #[test]
    fn the_location_with_the_path_comes_first() {
        for (url, paths) in [
            ("https://a.example", &[""][..]),
            ("https://a.example:443/", &[""]),
            ("https://a.example/?key=canary", &[""]),
            ("https://a.example/v1/mcp?key=canary#x", &["/v1/mcp", ""]),
            ("https://a.example/mcp/", &["/mcp/", "/mcp", ""]),
            ("https://u:canary@a.example/mcp", &["/mcp", ""]),
        ] {
            let expected: Vec<String> = paths
                .iter()
                .map(|path| format!("https://a.example/.well-known/oauth-protected-resource{path}"))
                .collect();
            assert_eq!(locations(&Url::parse(url).unwrap()), expected, "{url}");
        }
        let other = locations(&Url::parse("http://127.0.0.1:8080/mcp").unwrap());
        assert_eq!(other[1], "http://127.0.0.1:8080/.well-known/oauth-protected-resource");
    }

    #[test]
    fn a_document_describes_the_server_or_one_that_contains_it() {
        let server = "https://a.example/v1/mcp";
        for (resource, is_accepted) in [
            ("https://a.example/v1/mcp", true),
            ("https://a.example/v1/mcp/", true),
            ("https://a.example/v1", true),
            ("https://a.example/", true),
            ("https://a.example", true),
            ("HTTPS://A.EXAMPLE:443/v1/mcp", true),
            ("https://a.example/v1/mc", false),
            ("https://a.example/v1/mcp/x", false),
            ("https://a.example/v1/mcp2", false),
            ("https://a.example/V1/mcp", false),
            ("https://a.example/v1/%6dcp", false),
            ("https://a.example/v1/../v2", false),
            ("https://a.example:8443/v1/mcp", false),
            ("http://a.example/v1/mcp", false),
            ("https://b.example/v1/mcp", false),
            ("https://a.example.b.example/v1/mcp", false),
            ("https://a.example@b.example/v1/mcp", false),
            ("https://u@a.example/v1/mcp", false),
            ("https://a.example/v1/mcp#x", false),
            ("https://a.example/v1/mcp?x", false),
            (" https://a.example/v1/mcp", false),
            ("https://a.example/v1\n/mcp", false),
            ("https:\\\\a.example\\v1", false),
            ("https://\u{430}.example/v1/mcp", false),
            ("urn:a.example:v1", false),
            ("/v1/mcp", false),
            ("", false),
        ] {
            let document =
                json!({"resource": resource, "authorization_servers": ["https://id.example"]});
            let read = read(&document, server).map(|metadata| metadata.resource);
            let expected = Some(resource.to_owned()).filter(|_| is_accepted);
            assert_eq!(read, expected.ok_or(InvalidResource::OtherResource), "{resource}");
        }
        let long = format!("https://a.example/{}", "x".repeat(MAX_IDENTIFIER));
        let document = json!({"resource": long, "authorization_servers": ["https://id.example"]});
        assert_eq!(read(&document, &long), Err(InvalidResource::OtherResource));
        let query = "https://a.example/mcp?org=1";
        let document = json!({"resource": query, "authorization_servers": ["https://id.example"]});
        assert!(
            read(&document, query).is_ok() && read(&document, "https://a.example/mcp").is_err()
        );
    }

    #[test]
    fn unusable_servers_and_scopes_are_dropped() {
        let document = json!({
            "resource": "https://a.example",
            "authorization_servers": ["http://id.example", "https://id.example/?x", 5,
                "https://id.example#x", "https://u:p@id.example", "javascript:alert(1)",
                "https://id.example/realms/a", "http://127.0.0.1:9000"],
            "scopes_supported": ["a", "b c", "a", 1],
        });
        let metadata = read(&document, "https://a.example/mcp").unwrap();
        let servers = ["https://id.example/realms/a", "http://127.0.0.1:9000"];
        assert_eq!(metadata.authorization_servers, servers);
        assert_eq!(metadata.scopes, ["a"]);
        let many: Vec<String> = (0..20).map(|number| format!("https://{number}.example")).collect();
        let document = json!({"resource": "https://a.example", "authorization_servers": many});
        let metadata = read(&document, "https://a.example").unwrap();
        assert_eq!(metadata.authorization_servers, many[..MAX_SERVERS]);
        for servers in [json!([]), json!(["http://id.example"]), json!("https://id.example")] {
            let document =
                json!({"resource": "https://a.example", "authorization_servers": servers});
            assert_eq!(read(&document, "https://a.example"), Err(InvalidResource::NoServer));
        }
        for document in ["", "[]", "<html>", r#"{"resource":"a","resource":"a"}"#] {
            let url = Url::parse("https://a.example").unwrap();
            let read = ResourceMetadata::read(document.as_bytes(), &url, &AllowList::default());
            assert_eq!(read, Err(InvalidResource::NotJson));
        }
    }
}
