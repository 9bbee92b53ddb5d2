//! The addresses to which a client's browser may be sent back.
//!
//! Invariant: an address that is not registered byte for byte is never used, except that the port of
//! a loopback address may differ (RFC 8252, section 7.3). Browsers go to exactly this address: one
//! that they would write in another way is refused.

use toolcrib_core::egress::is_loopback;
use url::Url;

/// The most bytes of an address.
const MAX_URI: usize = 2 << 10;
/// Schemes that are not private: a browser acts on them itself.
const PUBLIC_SCHEMES: &[&str] = &[
    "http",
    "https",
    "about",
    "blob",
    "chrome",
    "data",
    "file",
    "filesystem",
    "ftp",
    "intent",
    "javascript",
    "jar",
    "mailto",
    "resource",
    "sms",
    "tel",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];

/// Which addresses clients may have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedirectRules {
    /// The permitted private schemes.
    pub schemes: Vec<String>,
}

/// Whether `text` is a scheme that a program can register for itself, in lower case.
pub fn is_private_scheme(text: &str) -> bool {
    let is_first = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    let is_legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
    is_first && text.len() <= 64 && text.bytes().all(is_legal) && !PUBLIC_SCHEMES.contains(&text)
}

/// Whether a browser may be sent to `sent`, where `registered` is permitted.
pub fn matches(registered: &str, sent: &str) -> bool {
    registered == sent
        || match (without_loopback_port(registered), without_loopback_port(sent)) {
            (Some(registered), Some(here)) => registered == here && is_as_written(sent),
            _ => false,
        }
}

/// Whether browsers go to the address that `text` shows: they decode and shorten others.
fn is_as_written(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let has_port = url.port() != Some(0);
        has_port && (url.as_str() == text || url.as_str().strip_suffix('/') == Some(text))
    })
}

/// The texts before and after the port of an http address on this machine.
fn without_loopback_port(text: &str) -> Option<(&str, &str)> {
    let url = Url::parse(text).ok()?;
    let rest = text.strip_prefix("http://").filter(|_| is_loopback(&url))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    Some((host, rest))
}

// === impl RedirectRules ===

impl RedirectRules {
    /// Whether a client may have the address `uri`: https, http on this machine, or a permitted
    /// private scheme.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self, uri: &str) -> Result<(), &'static str> {
        // Parsers ignore blanks and turn `\` into `/`, so that browsers could go elsewhere.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>".contains(&byte);
        let url =
            Url::parse(uri).ok().filter(|_| uri.len() <= MAX_URI && uri.bytes().all(is_plain));
        let url = url.ok_or("a redirect URI is not an absolute address")?;
        if !url.username().is_empty() || url.password().is_some() || uri.contains('#') {
            return Err("a redirect URI has user information or a fragment");
        }
        if !is_as_written(uri) {
            return Err("a redirect URI is not written as browsers write it");
        }
        match url.scheme() {
            // `https:host` parses as well, but is not the text of an address.
            "https" if uri.starts_with("https://") => Ok(()),
            "http" if uri.starts_with("http://") && is_loopback(&url) => Ok(()),
            scheme if self.schemes.iter().any(|listed| listed == scheme) => {
                is_private_scheme(scheme).then_some(()).ok_or("this scheme is not private")
            }
            _ => Err("a redirect URI is https, http on this machine, or has a permitted scheme"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_port_of_a_loopback_address_may_differ() {
        for (registered, sent) in [
            ("https://a.example/cb", "https://a.example/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1234/cb"),
            ("http://127.0.0.1:1/cb?x=1", "http://127.0.0.1:2/cb?x=1"),
            ("http://localhost:1", "http://localhost:2"),
            ("http://[::1]/cb", "http://[::1]:33418/cb"),
            ("cursor://a/cb", "cursor://a/cb"),
        ] {
            assert!(matches(registered, sent), "{registered} {sent}");
        }
        for (registered, sent) in [
            ("https://a.example/cb", "https://a.example/cb/"),
            ("https://a.example/cb", "https://a.example:444/cb"),
            ("https://a.example/cb", "https://a.example/cb?x"),
            ("https://a.example/cb", "http://a.example/cb"),
            ("http://127.0.0.1/cb", "http://localhost/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1/cb/x"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1@evil.example/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1.evil.example:1/cb"),
            ("http://127.0.0.1/cb", "https://127.0.0.1:1/cb"),
            ("http://localhost", "http://localhost?x"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:0/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:01/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:/cb"),
        ] {
            assert!(!matches(registered, sent), "{registered} {sent}");
        }
    }

    #[test]
    fn a_redirect_leads_to_a_client() {
        let rules = RedirectRules { schemes: vec!["cursor".to_owned()] };
        for good in [
            "https://a.example/cb",
            "https://a.example:8443/cb?x=1",
            "http://127.0.0.1:3000/cb",
            "http://localhost/cb",
            "http://localhost:3000",
            "cursor://anysphere.cursor-retrieval/oauth/callback",
        ] {
            assert_eq!(rules.check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/cb",
            "https://a.example/cb#",
            "https://a.example/cb#x",
            "https://u@a.example/cb",
            "https://e%76il.example/",
            "https:///evil.example/cb",
            "https://0xa.1/cb",
            "https://A.example/cb",
            "https://a.example:443/cb",
            "https://a.example/app/../cb",
            "https://a.example/%2e%2e/cb",
            "http://127.0.0.1:0/cb",
            "https://a.example/c b",
            "https:\\\\a.example/cb",
            "https:a.example/cb",
            "http://a.example/cb",
            "http://127.0.0.1.evil.example/cb",
            "javascript:alert(1)",
            "data:text/html,x",
            "vscode://x/cb",
            "Cursor2://x",
        ] {
            assert!(rules.check(bad).is_err(), "{bad}");
        }
        assert!(rules.check(&format!("https://a.example/{}", "x".repeat(MAX_URI))).is_err());
        let wrong = RedirectRules { schemes: vec!["javascript".to_owned()] };
        assert!(wrong.check("javascript:alert(1)").is_err(), "even if it is listed");
        assert!(is_private_scheme("com.example.app") && !is_private_scheme("JavaScript"));
    }
}
