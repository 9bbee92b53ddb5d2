//! Signed tokens in their compact form (RFC 7515, RFC 7519), before their signature is verified.
//!
//! Invariant (I-62): the members of a token that contain keys (`jku`, `jwk`, `x5u`, `x5c`) are
//! never read, and `kid` is only compared.

use base64::{
    Engine as _,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Value};
use toolcrib_core::json;

/// Longest accepted token, in bytes.
const MAX_TOKEN: usize = 16 << 10;
/// Longest `kid`, in bytes.
const MAX_KID: usize = 512;

/// base64url as RFC 7515 requires it: one text for each value, so that a token has one digest.
const STRICT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// A parsed token.
pub(super) struct Jws<'t> {
    pub(super) algorithm: String,
    pub(super) kid: Option<String>,
    pub(super) claims: Map<String, Value>,
    /// The signed bytes.
    pub(super) signed: &'t [u8],
    pub(super) signature: Vec<u8>,
}

/// The text is invalid, or a token of a rejected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoToken;

/// Whether `text` has the form of a token. Keys never have it.
pub(super) fn is_token(text: &str) -> bool {
    text.bytes().filter(|&byte| byte == b'.').count() == 2
}

/// Decodes base64url in its only valid spelling.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, NoToken> {
    STRICT.decode(text).map_err(|_| NoToken)
}

impl<'t> Jws<'t> {
    /// Reads a token that gives access.
    pub(super) fn read(text: &'t str) -> Result<Self, NoToken> {
        Self::read_if(text, |kind| kind.is_none_or(is_for_bearers))
    }

    /// Reads an assertion that a client exchanges for a token
    /// (draft-ietf-oauth-identity-assertion-authz-grant).
    pub(super) fn read_assertion(text: &'t str) -> Result<Self, NoToken> {
        Self::read_if(text, |kind| kind == Some("oauth-id-jag+jwt"))
    }

    fn read_if(
        text: &'t str,
        is_accepted: impl FnOnce(Option<&str>) -> bool,
    ) -> Result<Self, NoToken> {
        if text.len() > MAX_TOKEN {
            return Err(NoToken);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(NoToken)?;
        let (header, payload) = signed.split_once('.').ok_or(NoToken)?;
        let header = object(header)?;
        // Extensions that must be understood (`crit`), and forms other than a plain signed text.
        if ["crit", "b64", "enc", "zip"].iter().any(|name| header.contains_key(*name)) {
            return Err(NoToken);
        }
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= MAX_KID => Some(kid.clone()),
            Some(_) => return Err(NoToken),
        };
        let kind = match header.get("typ") {
            None => None,
            Some(Value::String(kind)) => Some(kind.as_str()),
            Some(_) => return Err(NoToken),
        };
        if !is_accepted(kind) {
            return Err(NoToken);
        }
        let Some(Value::String(algorithm)) = header.get("alg") else { return Err(NoToken) };
        let claims = object(payload)?;
        // Tokens with proof of possession are not supported.
        if claims.contains_key("cnf") {
            return Err(NoToken);
        }
        Ok(Self {
            algorithm: algorithm.clone(),
            kid,
            claims,
            signed: signed.as_bytes(),
            signature: decoded(signature)?,
        })
    }
}

/// Whether tokens of this kind give access (RFC 7519, RFC 9068), unlike for example logout tokens
/// under the same key.
fn is_for_bearers(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    ["jwt", "at+jwt"].contains(&kind.strip_prefix("application/").unwrap_or(&kind))
}

fn object(part: &str) -> Result<Map<String, Value>, NoToken> {
    match json::parse_strict(&decoded(part)?) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) | Err(_) => Err(NoToken),
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};

    use super::*;

    fn token(header: &str, claims: &str) -> String {
        let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{}", encoded(header), encoded(claims), encoded("s"))
    }

    fn is_read(header: &str) -> bool {
        Jws::read(&token(header, "{}")).is_ok()
    }

    #[test]
    fn a_token_is_taken_apart() {
        let text =
            token(r#"{"alg":"RS256","kid":"k","typ":"at+JWT","jku":"https://x"}"#, "{\"a\":1}");
        let read = Jws::read(&text).ok().unwrap();
        assert_eq!((read.algorithm.as_str(), read.kid.as_deref()), ("RS256", Some("k")));
        assert_eq!(read.claims["a"], 1);
        assert_eq!(read.signed, text.rsplit_once('.').unwrap().0.as_bytes());
        assert_eq!(read.signature, b"s");
    }

    #[test]
    fn what_could_mean_two_things_is_no_token() {
        assert!(is_read(r#"{"alg":"none"}"#), "which algorithms there are is decided later");
        for header in [
            "",
            "[]",
            "{}",
            r#"{"alg":1}"#,
            r#"{"alg":"RS256","alg":"none"}"#,
            r#"{"alg":"RS256","kid":1}"#,
            r#"{"alg":"RS256","crit":["exp"]}"#,
            r#"{"alg":"RS256","b64":false}"#,
            r#"{"alg":"RS256","enc":"A256GCM"}"#,
            r#"{"alg":"RS256","zip":"DEF"}"#,
            r#"{"alg":"RS256","typ":"logout+jwt"}"#,
            r#"{"alg":"RS256","typ":null}"#,
        ] {
            assert!(!is_read(header), "{header}");
        }
        assert!(!is_read(&format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(600))));
        let good = token(r#"{"alg":"RS256"}"#, "{}");
        let padded = format!("{}.e30.cw", URL_SAFE.encode("{\"alg\":\"RS256\"} "));
        assert!(padded.contains('='));
        for text in [
            padded,
            good.replace("cw", "cx"),
            good.replace("e30", "e31"),
            format!("{good}.cw"),
            good.replace("e30", " e30"),
            token(r#"{"alg":"RS256"}"#, r#"{"sub":"a","sub":"b"}"#),
            token(r#"{"alg":"RS256"}"#, r#"{"cnf":{"jkt":"x"}}"#),
            token(r#"{"alg":"RS256"}"#, &format!("{{\"a\":\"{}\"}}", "a".repeat(20_000))),
        ] {
            assert!(Jws::read(&text).is_err(), "{text}");
        }
    }
}
