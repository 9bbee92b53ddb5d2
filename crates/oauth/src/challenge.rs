//! Challenges of the header `WWW-Authenticate` (RFC 9110, section 11.6.1) for bearer tokens
//! (RFC 6750, section 3; RFC 9728, section 5.1).
//!
//! The reader accepts parameters without a comma between them, because servers write such headers.
//! A header with any other error has no challenge.

use crate::scopes;

/// The most bytes of all headers of a response; further headers are not read.
pub const MAX_BYTES: usize = 8 << 10;

/// The parameters that are read.
const PARAMETERS: [&str; 3] = ["resource_metadata", "scope", "error"];

/// The challenge for a bearer token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BearerChallenge {
    /// The address of the resource's metadata, unchecked.
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs, in the bounds of [`scopes`].
    pub scopes: Vec<String>,
    /// Why a token was refused. Codes of no standard are dropped.
    pub error: Option<BearerError>,
}

/// The codes of RFC 6750, section 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BearerError {
    /// `invalid_request`.
    InvalidRequest,
    /// `invalid_token`: expired, revoked or malformed.
    InvalidToken,
    /// `insufficient_scope`: the request needs the scopes of the challenge.
    InsufficientScope,
}

/// A challenge of any scheme.
struct Challenge {
    scheme: String,
    /// Names in small letters.
    parameters: Vec<(String, Vec<u8>)>,
}

/// Reads one header value.
struct Reader<'a> {
    rest: &'a [u8],
}

/// Reads the values of all `WWW-Authenticate` headers of a response. Of several challenges for
/// bearer tokens, the first with metadata counts, or else the first.
pub fn read<'a>(headers: impl IntoIterator<Item = &'a [u8]>) -> Option<BearerChallenge> {
    let mut left = MAX_BYTES;
    let mut first = None;
    for header in headers {
        let Some(remaining) = left.checked_sub(header.len()) else { break };
        left = remaining;
        for challenge in (Reader { rest: header }).challenges().unwrap_or_default() {
            let Some(challenge) = challenge.bearer() else { continue };
            if challenge.resource_metadata.is_some() {
                return Some(challenge);
            }
            first.get_or_insert(challenge);
        }
    }
    first
}

// === impl Challenge ===

impl Challenge {
    /// `None` for another scheme, and if a parameter is repeated.
    fn bearer(&self) -> Option<BearerChallenge> {
        let is_repeated =
            |wanted: &&str| self.parameters.iter().filter(|(name, _)| name == wanted).count() > 1;
        if !self.scheme.eq_ignore_ascii_case("bearer") || PARAMETERS.iter().any(is_repeated) {
            return None;
        }
        let text = |wanted: &str| {
            let found = self.parameters.iter().find(|(name, _)| name == wanted);
            found.and_then(|(_, value)| std::str::from_utf8(value).ok())
        };
        Some(BearerChallenge {
            resource_metadata: text("resource_metadata").map(str::to_owned),
            scopes: text("scope").map(scopes::read).unwrap_or_default(),
            error: match text("error") {
                Some("invalid_request") => Some(BearerError::InvalidRequest),
                Some("invalid_token") => Some(BearerError::InvalidToken),
                Some("insufficient_scope") => Some(BearerError::InsufficientScope),
                Some(_) | None => None,
            },
        })
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn challenges(mut self) -> Option<Vec<Challenge>> {
        let mut challenges: Vec<Challenge> = Vec::new();
        loop {
            self.take(|byte| matches!(byte, b' ' | b'\t' | b','));
            if self.rest.is_empty() {
                return Some(challenges);
            }
            let name = self.token()?;
            self.blanks();
            if self.skip(b'=') {
                self.blanks();
                let value = if self.skip(b'"') { self.quoted()? } else { self.token()?.into() };
                let challenge = challenges.last_mut()?;
                challenge.parameters.push((name.to_ascii_lowercase(), value));
                if !matches!(self.rest.first(), None | Some(b' ' | b'\t' | b',')) {
                    return None;
                }
            } else {
                self.skip_token68();
                challenges.push(Challenge { scheme: name.to_owned(), parameters: Vec::new() });
            }
        }
    }

    /// Skips the credentials that some schemes have in place of parameters, if they are next.
    fn skip_token68(&mut self) {
        let start = self.rest;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        let is_present = !self.take(is_part).is_empty();
        self.take(|byte| byte == b'=');
        self.blanks();
        if !is_present || !matches!(self.rest.first(), None | Some(b',')) {
            self.rest = start;
        }
    }

    fn token(&mut self) -> Option<&'a str> {
        let token =
            self.take(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
        std::str::from_utf8(token).ok().filter(|token| !token.is_empty())
    }

    /// The rest of a quoted string, without its escapes.
    fn quoted(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let byte = match byte {
                b'"' => return Some(value),
                b'\\' => {
                    let (&escaped, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    escaped
                }
                byte => byte,
            };
            if byte.is_ascii_control() && byte != b'\t' {
                return None;
            }
            value.push(byte);
        }
    }

    fn blanks(&mut self) {
        self.take(|byte| matches!(byte, b' ' | b'\t'));
    }

    fn skip(&mut self, byte: u8) -> bool {
        let rest = self.rest.strip_prefix(&[byte]);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|&byte| !is_part(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = "https://a.example/.well-known/oauth-protected-resource";

    fn one(header: &str) -> Option<BearerChallenge> {
        read([header.as_bytes()])
    }

    fn challenge(metadata: Option<&str>, scopes: &[&str]) -> Option<BearerChallenge> {
        let resource_metadata = metadata.map(str::to_owned);
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        Some(BearerChallenge { resource_metadata, scopes, error: None })
    }

    #[test]
    fn challenges_of_several_schemes_are_separated() {
        let bearer = format!(r#"Bearer resource_metadata="{METADATA}", scope="a b""#);
        for header in [
            bearer.clone(),
            bearer.replace("Bearer", "bEARER").replace("scope", "SCOPE"),
            bearer.replace(", ", " ,\t, "),
            bearer.replace(", ", " "),
            bearer.replace('=', " = "),
            bearer.replace("Bearer ", r#"Bearer realm="x, Basic y=\"z\"", "#),
            format!(r#"Basic realm="Bearer scope=x", charset=UTF-8, {bearer}"#),
            format!("Negotiate, {bearer}"),
            format!("NTLM TlRMTVNTUAA==, {bearer}"),
            format!("Negotiate a+/~-._9= ,{bearer}"),
            format!("{bearer}, Digest nonce=abc, qop=\"auth\""),
            format!(r#"{bearer}, Bearer resource_metadata="https://other.example/""#),
            format!("Bearer, {bearer}"),
            format!("Bearer scope=other, {bearer}"),
            format!(" , {bearer}, "),
        ] {
            assert_eq!(one(&header), challenge(Some(METADATA), &["a", "b"]), "{header}");
        }
        assert_eq!(one("Bearer"), challenge(None, &[]));
        assert_eq!(one("Bearer abc, scope=x"), challenge(None, &["x"]));
        assert_eq!(one(r#"Bearer scope="\a\b""#), challenge(None, &["ab"]));
        assert_eq!(one("Bearer resource_metadata=x"), challenge(Some("x"), &[]));
        let two = [&b"Basic realm=x"[..], b"Bearer scope=a", bearer.as_bytes()];
        assert_eq!(read(two), challenge(Some(METADATA), &["a", "b"]));
        assert_eq!(read([&b"Bearer scope"[..], b"Bearer scope=a"]), challenge(None, &[]));
    }

    #[test]
    fn errors_are_known_codes() {
        for (code, error) in [
            ("invalid_request", Some(BearerError::InvalidRequest)),
            ("invalid_token", Some(BearerError::InvalidToken)),
            ("\"insufficient_scope\"", Some(BearerError::InsufficientScope)),
            ("canary", None),
            ("Invalid_Token", None),
        ] {
            let header = format!("Bearer error={code}, error_description=\"canary\"");
            let read = one(&header).unwrap();
            assert_eq!(read.error, error);
            assert!(!format!("{read:?}").contains("canary"));
        }
    }

    #[test]
    fn malformed_headers_have_no_challenge() {
        for header in [
            "",
            ",",
            "Basic realm=x",
            "scope=a",
            "Bearer =a",
            "Bearer scope=\"a",
            "Bearer scope=\"a\\",
            "Bearer scope=\"a\"b",
            "Bearer scope=\"a\"Bearer",
            "Bearer scope=\"a\nb\"",
            "Bearer scope=\"a\\\nb\"",
            "Bearer scope=\"a\0\"",
            "Bearer\"scope\"",
            "Bearer \"scope\"",
            "Bearer; scope=a",
            "Bearer scope=a;b",
            "Bearer sc\u{f6}pe=a",
            "Bearer scope=a, scope=b",
            "Bearer error=a, ERROR=a",
            "Bearers scope=a",
        ] {
            assert_eq!(one(header), None, "{header:?}");
        }
        assert_eq!(read([]), None);
        // Text in another encoding costs its parameter alone.
        let latin = b"Bearer resource_metadata=\"\xff\", scope=a";
        assert_eq!(read([&latin[..]]), challenge(None, &["a"]));
        assert_eq!(read([&b"Bearer scope=\"\xff"[..], b"Bearer scope=a"]), challenge(None, &["a"]));
    }

    #[test]
    fn headers_are_bounded_together() {
        let long = format!("Bearer x=\"{}\"", "y".repeat(MAX_BYTES - 11));
        assert_eq!(long.len(), MAX_BYTES);
        assert_eq!(one(&long), challenge(None, &[]));
        assert_eq!(one(&format!("{long} ")), None);
        let half = &long.replacen('y', "", 100);
        let metadata = b"Bearer resource_metadata=\"https://a.example/";
        let with: Vec<u8> = [&metadata[..], &[b'a'; 100], b"\""].concat();
        let small = b"Bearer resource_metadata=x";
        assert_eq!(read([half.as_bytes(), &with, small]), challenge(None, &[]));
        assert!(read([&with, half.as_bytes()]).unwrap().resource_metadata.is_some());
    }

    /// Every short text over the characters of the grammar ends, and reads the same with commas
    /// around it.
    #[test]
    fn every_short_text_is_read() {
        const LETTERS: &[u8] = b"aB=,\" \\\t\xff";
        for number in 0..LETTERS.len().pow(6) {
            let digits = (0..6).map(|place| number / LETTERS.len().pow(place));
            let text: Vec<u8> = digits.map(|digit| LETTERS[digit % LETTERS.len()]).collect();
            let around = [b", ", &text[..], b","].concat();
            let count = |text| (Reader { rest: text }).challenges().map(|found| found.len());
            if let Some(found) = count(&text) {
                assert_eq!(count(&around), Some(found), "{text:?}");
            }
        }
    }
}
