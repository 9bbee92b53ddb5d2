//! `$schema`: which dialect a caller speaks.

use serde_json::Value;

/// What every answer of this surface is written in.
pub(super) const DIALECT: &str = "otc://1.0";

/// Why a `$schema` is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsupported {
    /// Not a URI at all.
    #[error("`$schema` must be a string, for example \"otc://1.0\"")]
    NotAString,
    /// Something else.
    #[error("`$schema` names no supported version; this server speaks otc://1.0")]
    Unknown,
}

/// Accepts a message without `$schema` (the newest version is assumed), `otc://1.0`, the name the
/// protocol has had since (`urn:oxp:1.0`), and the addresses under which version 1.0 was published.
pub(super) fn check(message: &Value) -> Result<(), Unsupported> {
    match message.get("$schema") {
        None => Ok(()),
        Some(Value::String(text)) if supported(text) => Ok(()),
        Some(Value::String(_)) => Err(Unsupported::Unknown),
        Some(_) => Err(Unsupported::NotAString),
    }
}

fn supported(schema: &str) -> bool {
    matches!(schema, DIALECT | "urn:oxp:1.0")
        || (schema.starts_with("https://") && schema.ends_with("/http/1.0/openapi.json"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn version_one_is_accepted_by_all_its_names() {
        for good in [
            json!({}),
            json!({ "$schema": "otc://1.0" }),
            json!({ "$schema": "urn:oxp:1.0" }),
            json!({ "$schema": "https://github.com/x/y/tree/main/specification/http/1.0/openapi.json" }),
        ] {
            assert_eq!(check(&good), Ok(()), "{good}");
        }
        for (bad, error) in [
            (json!("otc://9.9"), Unsupported::Unknown),
            (json!("otc://1.1"), Unsupported::Unknown),
            (json!("https://x/http/2.0/openapi.json"), Unsupported::Unknown),
            (json!(1), Unsupported::NotAString),
            (json!(null), Unsupported::NotAString),
        ] {
            assert_eq!(check(&json!({ "$schema": bad })), Err(error), "{bad}");
        }
    }
}
