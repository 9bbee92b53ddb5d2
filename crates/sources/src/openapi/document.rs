//! Parses an OpenAPI document, 3.0 or 3.1, from JSON or YAML.
//!
//! Invariant: size, nesting and node count are bounded before the document is processed. A
//! duplicate key is an error in both languages.

use percent_encoding::percent_decode_str;
use serde_json::Value;
use toolcrib_core::json::parse_strict;

/// Largest document in bytes. The largest published ones (Microsoft Graph, Cloudflare) have some 30
/// MB, GitHub's has 12 MB.
pub(crate) const MAX_DOCUMENT: usize = 48 << 20;
/// Largest nesting depth of a document.
const MAX_DEPTH: usize = 100;
/// Longest chain of references.
const MAX_REFERENCES: usize = 16;

/// A document of a supported version.
#[derive(Debug)]
pub(crate) struct Document {
    pub(super) root: Value,
    /// Whether schemas are those of 3.0, which differ from JSON Schema.
    pub(super) old: bool,
}

/// Why a document was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("the OpenAPI document is larger than {} MiB", MAX_DOCUMENT >> 20)]
    TooLarge,
    #[error("the OpenAPI document is not {0}")]
    Malformed(String),
    #[error(
        "Swagger 2.0 is not supported; convert the document to OpenAPI 3.0, for example with \
         `npx swagger2openapi FILE`"
    )]
    Swagger,
    #[error("the OpenAPI document has no `openapi: 3.0.x` or `3.1.x`; other versions are not read")]
    Version,
}

/// A reference that is dangling, circular, or leads out of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReferenceError {
    #[error("a $ref leads out of the document")]
    Outside,
    #[error("a $ref leads to nothing")]
    Dangling,
    #[error("a $ref leads in a circle")]
    Circle,
}

/// Why an operation cannot become a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    #[error("{0}")]
    Reference(#[from] ReferenceError),
    #[error("{0}")]
    Other(String),
}

impl Unusable {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self::Other(problem.into())
    }
}

/// Returns the member `key` of `value` if it is a string.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the member `key` of `value` if it is a boolean.
pub(super) fn flag(value: &Value, key: &str) -> Option<bool> {
    value.get(key).and_then(Value::as_bool)
}

/// Returns the items of a list; any other value has none.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

impl Document {
    /// Parses a document: as JSON when it begins with an object, otherwise as YAML.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        if bytes.len() > MAX_DOCUMENT {
            return Err(DocumentError::TooLarge);
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let root = match bytes.trim_ascii_start().first() {
            Some(b'{') => parse_strict(bytes)
                .map_err(|error| DocumentError::Malformed(format!("JSON: {}", error.problem)))?,
            _ => yaml(bytes)?,
        };
        if !is_within(&root, MAX_DEPTH) {
            let problem = format!("usable: it is nested deeper than {MAX_DEPTH} levels");
            return Err(DocumentError::Malformed(problem));
        }
        let version = text(&root, "openapi").unwrap_or_default();
        let old = match version.split('.').collect::<Vec<_>>().as_slice() {
            ["3", "0", ..] => true,
            ["3", "1" | "2", ..] => false,
            _ if text(&root, "swagger").is_some() => return Err(DocumentError::Swagger),
            _ => return Err(DocumentError::Version),
        };
        Ok(Self { root, old })
    }

    /// Returns the value that the `$ref` string `reference` points to.
    pub(super) fn at(&self, reference: &str) -> Result<&Value, ReferenceError> {
        let pointer = reference.strip_prefix('#').ok_or(ReferenceError::Outside)?;
        if !pointer.is_empty() && !pointer.starts_with('/') {
            // An anchor is valid only in schemas.
            return Err(ReferenceError::Dangling);
        }
        let pointer = percent_decode_str(pointer).decode_utf8_lossy();
        self.root.pointer(&pointer).ok_or(ReferenceError::Dangling)
    }

    /// Returns `value`, or the final target of its `$ref`.
    pub(super) fn follow<'d>(&'d self, value: &'d Value) -> Result<&'d Value, ReferenceError> {
        let mut value = value;
        for _ in 0..MAX_REFERENCES {
            match text(value, "$ref") {
                Some(reference) => value = self.at(reference)?,
                None => return Ok(value),
            }
        }
        Err(ReferenceError::Circle)
    }

    /// Returns the `info.version` of the document.
    pub(super) fn version(&self) -> Option<String> {
        self.root.pointer("/info/version").and_then(Value::as_str).map(str::to_owned)
    }
}

/// Parses YAML with the JSON schema of YAML 1.2, as OpenAPI requires; `no` is a string.
fn yaml(bytes: &[u8]) -> Result<Value, DocumentError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_events: 4_000_000,
            max_nodes: 4_000_000,
            max_total_scalar_bytes: MAX_DOCUMENT,
            max_documents: 1,
        },
    };
    serde_saphyr::from_slice_with_options(bytes, options).map_err(|error| {
        let at = error.location().map(|at| format!(" at line {}", at.line())).unwrap_or_default();
        DocumentError::Malformed(format!("YAML or breaks its limits{at}"))
    })
}

fn is_within(value: &Value, depth: usize) -> bool {
    let Some(left) = depth.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_within(item, left)),
        Value::Object(members) => members.values().all(|member| is_within(member, left)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_yaml_are_read_to_the_same() {
        let json = br#"{"openapi":"3.1.0","info":{"version":"no"},"paths":{"/a":{"get":{"responses":{"200":{}}}}}}"#;
        let yaml = b"openapi: 3.1.0\ninfo: {version: no}\npaths:\n  /a:\n    get:\n      responses:\n        200: {}\n";
        let (json, yaml) = (Document::read(json).unwrap(), Document::read(yaml).unwrap());
        assert_eq!(json.root, yaml.root);
        assert_eq!(json.version().as_deref(), Some("no"), "and not `false`");
    }

    #[test]
    fn an_invalid_document_is_refused() {
        let deep =
            format!("{{\"openapi\":\"3.1.0\",\"x\":{}{}}}", "[".repeat(120), "]".repeat(120));
        let bomb: String = (1..40).fold("a0: &a0 [x, x]\n".to_owned(), |bomb, n| {
            format!("{bomb}a{n}: &a{n} [*a{m}, *a{m}, *a{m}]\n", m = n - 1)
        });
        let bomb = format!("openapi: 3.1.0\n{bomb}");
        for text in [
            "",
            "{",
            "[]",
            "null",
            "swagger: '2.0'",
            "{\"openapi\":\"4.0.0\"}",
            "{\"openapi\":3.1}",
            "{\"openapi\":\"3.1.0\",\"openapi\":\"3.1.0\"}",
            "openapi: 3.1.0\nopenapi: 3.1.0\n",
            "openapi: '3.1.0\n",
            "\u{0}",
            &deep,
            &bomb,
        ] {
            assert!(Document::read(text.as_bytes()).is_err(), "{}", &text[..text.len().min(80)]);
        }
        assert!(matches!(
            Document::read(&vec![b' '; MAX_DOCUMENT + 1]),
            Err(DocumentError::TooLarge)
        ));
    }

    #[test]
    fn references_end_or_are_refused() {
        let text = br##"{"openapi":"3.0.3","a":{"$ref":"#/b~1c"},"b/c":{"$ref":"#/d%20e"},
            "d e":{"ok":true},"x":{"$ref":"#/y"},"y":{"$ref":"#/x"},"out":{"$ref":"other.json#/x"},
            "gone":{"$ref":"#/nope"},"anchor":{"$ref":"#here"}}"##;
        let document = Document::read(text).unwrap();
        let follow = |name: &str| document.follow(&document.root[name]);
        assert_eq!(follow("a").unwrap()["ok"], true);
        assert_eq!(follow("x"), Err(ReferenceError::Circle));
        assert_eq!(follow("out"), Err(ReferenceError::Outside));
        assert_eq!(follow("gone"), Err(ReferenceError::Dangling));
        assert_eq!(follow("anchor"), Err(ReferenceError::Dangling));
    }
}
