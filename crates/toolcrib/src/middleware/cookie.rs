//! Cookies: those of a request, and new ones.

use http::{HeaderMap, HeaderValue, header};

/// How many cookies of one name are tried. A browser keeps at most about 180 of a host.
const MAX_COOKIES: usize = 200;

/// A cookie for a browser. No script can read it.
pub(crate) struct NewCookie<'c> {
    pub(crate) name: &'c str,
    /// Only letters, digits, `-` and `_`.
    pub(crate) value: &'c str,
    pub(crate) path: &'static str,
    /// How long the browser keeps it; 0 removes it.
    pub(crate) seconds: u64,
    /// `Strict`, or `Lax` if another site sends the browser back.
    pub(crate) same_site: &'static str,
    /// Whether it is for encrypted connections only.
    pub(crate) is_secure: bool,
}

impl NewCookie<'_> {
    /// Adds it to the headers of a response.
    pub(crate) fn append(&self, to: &mut HeaderMap) {
        let Self { name, value, path, seconds, same_site, is_secure } = self;
        let secure = if *is_secure { "; Secure" } else { "" };
        let text = format!(
            "{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}"
        );
        if let Ok(mut cookie) = HeaderValue::try_from(text) {
            cookie.set_sensitive(true);
            to.append(header::SET_COOKIE, cookie);
        }
    }
}

/// The first [`MAX_COOKIES`] values of the cookie `name`. Pages of other ports of the host can add some.
pub(crate) fn cookies_named<'h>(name: &str, headers: &'h HeaderMap) -> Vec<&'h str> {
    let values = cookies(headers).filter(|(named, _)| *named == name).map(|(_, value)| value);
    values.take(MAX_COOKIES).collect()
}

/// The first [`MAX_COOKIES`] cookies whose name starts with `prefix`, in the order of the browser:
/// the oldest first (RFC 6265, section 5.4).
pub(crate) fn cookies_below<'h>(prefix: &str, headers: &'h HeaderMap) -> Vec<(&'h str, &'h str)> {
    let named = cookies(headers).filter(|(name, _)| name.starts_with(prefix));
    named.take(MAX_COOKIES).collect()
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='))
}
