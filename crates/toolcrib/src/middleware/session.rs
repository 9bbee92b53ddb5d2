//! The browser session of a request: its cookie, and the header that only the page can send.
//!
//! The header names the session as the credential of a request. A cookie alone is no credential, so
//! a request that another site makes a browser send has no caller.

use http::{HeaderMap, HeaderName, Uri, header, uri::Authority};
use toolcrib_config::ServerConfig;
use toolcrib_gateway::authn::{AuthError, session::PresentedSession};

use super::{
    cookie::{NewCookie, cookies_named},
    origin,
};

/// The header with the page's half of a session.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("toolcrib-session");
/// The cookie with the other half, over https, without its port.
pub(crate) const COOKIE: &str = "__Host-toolcrib";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Where a session is valid: the origin of the page, with the name of its cookie.
pub(crate) struct Site {
    origin: String,
    cookie: String,
    secure: bool,
}

/// A session as a request presents it.
pub(super) struct PresentedCookies<'h> {
    site: Site,
    /// Pages of other ports of the host can plant cookies with the same name, so that any of them may be
    /// the right one. The header decides which.
    cookies: Vec<&'h str>,
    page: &'h str,
}

pub(super) fn is_presented(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER)
}

/// Reads the session that `headers` present.
///
/// # Errors
/// It is incomplete, or another page sent it.
pub(super) fn presented<'h>(
    server: &ServerConfig,
    uri: &Uri,
    headers: &'h HeaderMap,
) -> Result<PresentedCookies<'h>, AuthError> {
    let page = one(headers, &HEADER)?.ok_or(AuthError::Invalid)?;
    for site in Site::all(server, uri, headers) {
        let cookies = site.cookies_in(headers);
        if !cookies.is_empty() {
            site.check_page(headers)?;
            return Ok(PresentedCookies { site, cookies, page });
        }
    }
    Err(AuthError::Invalid)
}

/// The only value of the header `name`.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, AuthError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| AuthError::Invalid),
        (Some(_), Some(_)) => Err(AuthError::Ambiguous),
    }
}

// === impl PresentedCookies ===

impl PresentedCookies<'_> {
    /// Both halves with their origin, for each cookie with which they can be valid.
    pub(super) fn candidates(&self) -> impl Iterator<Item = PresentedSession<'_>> {
        let Self { site, cookies, page } = self;
        cookies.iter().filter_map(|cookie| PresentedSession::new(&site.origin, cookie, page))
    }
}

// === impl Site ===

impl Site {
    /// The site of the page that sent `headers`, named in `Origin`. `None` if it is a page of
    /// another server, or neither encrypted nor on this machine: its cookie could be read on the
    /// way.
    pub(crate) fn of_page(server: &ServerConfig, uri: &Uri, headers: &HeaderMap) -> Option<Self> {
        let page = one(headers, &header::ORIGIN).ok()??;
        let mut sites = Self::all(server, uri, headers).into_iter();
        sites
            .find(|site| site.origin.eq_ignore_ascii_case(page) && site.check_page(headers).is_ok())
    }

    /// The sites to which `headers` can belong. Behind a proxy that terminates TLS the scheme is
    /// unknown here. The name of the cookie reveals it: browsers keep `__Host-` cookies of
    /// encrypted connections only.
    fn all(server: &ServerConfig, uri: &Uri, headers: &HeaderMap) -> Vec<Self> {
        let Some(host) = origin::host(uri, headers) else { return Vec::new() };
        let mut sites = vec![Self::new("https", COOKIE, &host, true)];
        if server.tls.is_none() && origin::loopback(host.host()) {
            sites.push(Self::new("http", "toolcrib-session", &host, false));
        }
        sites
    }

    /// Cookies belong to all ports of a host, so each port has a name.
    fn new(scheme: &str, name: &str, host: &Authority, secure: bool) -> Self {
        let port = host.port_u16().map(|port| format!("-{port}")).unwrap_or_default();
        let host = host.as_str().to_ascii_lowercase();
        Self { origin: format!("{scheme}://{host}"), cookie: format!("{name}{port}"), secure }
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// The values of the cookie.
    fn cookies_in<'h>(&self, headers: &'h HeaderMap) -> Vec<&'h str> {
        cookies_named(&self.cookie, headers)
    }

    /// Requires that the page of the session sent `headers`, as far as the browser names the
    /// sender.
    fn check_page(&self, headers: &HeaderMap) -> Result<(), AuthError> {
        let is_own = one(headers, &header::ORIGIN)?
            .is_none_or(|page| page.eq_ignore_ascii_case(&self.origin));
        let is_same = one(headers, &FETCH_SITE)?.is_none_or(|site| site == "same-origin");
        if is_own && is_same { Ok(()) } else { Err(AuthError::Invalid) }
    }

    /// Adds the cookie to `answered`, for `seconds`; 0 removes it.
    pub(crate) fn keep(&self, answered: &mut HeaderMap, value: &str, seconds: u64) {
        let cookie = NewCookie {
            name: &self.cookie,
            value,
            path: "/",
            seconds,
            same_site: "Strict",
            is_secure: self.secure,
        };
        cookie.append(answered);
    }

    /// Removes the cookies that `headers` have.
    pub(crate) fn forget(
        server: &ServerConfig,
        uri: &Uri,
        headers: &HeaderMap,
        answered: &mut HeaderMap,
    ) {
        for site in Self::all(server, uri, headers) {
            if !site.cookies_in(headers).is_empty() {
                site.keep(answered, "", 0);
            }
        }
    }
}

/// The marks of browsers and their names. Most browsers name Safari, and most of the rest Chrome, so the
/// order counts.
const BROWSERS: [(&str, &str); 4] =
    [("Edg", "Edge"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari")];
/// The marks of systems and their names. Android names Linux, and iOS names Mac OS.
const SYSTEMS: [(&str, &str); 5] = [
    ("iPhone", "iOS"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
];

/// Names the browser and the system of a `User-Agent` in a few fixed words, so that a list of sessions
/// has no text of a caller.
pub(crate) fn browser(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let agent = agent.unwrap_or_default();
    let of = |names: &[(&str, &'static str)]| {
        names.iter().find(|(mark, _)| agent.contains(mark)).map(|(_, name)| *name)
    };
    match (of(&BROWSERS), of(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, _) => "another browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use http::HeaderValue;
    use toolcrib_config::Config;

    use super::*;

    fn headers(values: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = values.iter();
        pairs
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_encrypted_pages_and_those_of_this_machine_can_stay_signed_in() {
        let server = Config::empty(Path::new("/")).server;
        let of = |host, origin| {
            let sent = headers(&[("host", host), ("origin", origin)]);
            Site::of_page(&server, &Uri::from_static("/v1/sessions"), &sent).map(|site| site.cookie)
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(of("127.0.0.1:8808", "http://127.0.0.1:8808"), is("toolcrib-session-8808"));
        assert_eq!(of("LocalHost", "http://localhost"), is("toolcrib-session"));
        assert_eq!(of("crib.example", "https://crib.example"), is("__Host-toolcrib"));
        for (host, origin) in [
            ("crib.example", "http://crib.example"),
            ("10.0.0.7:8808", "http://10.0.0.7:8808"),
            ("127.0.0.1:8808", "http://localhost:8808"),
            ("127.0.0.1:8808", "http://127.0.0.1:3000"),
            ("crib.example", "null"),
        ] {
            assert_eq!(of(host, origin), None, "{origin}");
        }
    }

    #[test]
    fn browsers_have_fixed_names() {
        let of = |agent| browser(&headers(&[("user-agent", agent)]));
        let linux = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36";
        assert_eq!(of(linux), "Chrome on Linux");
        assert_eq!(of("Mozilla/5.0 (Windows NT 10.0) Chrome/1 Safari/1 Edg/1"), "Edge on Windows");
        assert_eq!(
            of("Mozilla/5.0 (iPhone; CPU iPhone OS 1 like Mac OS X) Safari/1"),
            "Safari on iOS"
        );
        assert_eq!(of("<b>Firefox/</b>"), "Firefox");
        assert_eq!(of("curl/8"), "another browser");
        assert_eq!(browser(&HeaderMap::new()), "another browser");
    }
}
