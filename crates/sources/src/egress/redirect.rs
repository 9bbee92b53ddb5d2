//! One hop of a redirect.
//!
//! Invariant: data bound to an origin (configured headers, credentials, cookies, headers made of
//! arguments) is never sent to another origin. No redirect leads from `https` to `http`.

use http::{HeaderMap, Method, StatusCode, header};

use super::{
    error::EgressError,
    outgoing::{OutgoingRequest, has_userinfo},
};

/// Returns the next request if `status` and `headers` redirect `sent`, otherwise `None`.
pub(super) fn next(
    sent: &OutgoingRequest,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<OutgoingRequest>, EgressError> {
    let keeps = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let moves = matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND);
    if !(keeps || moves || status == StatusCode::SEE_OTHER) {
        return Ok(None);
    }
    let Some(location) = headers.get(header::LOCATION) else { return Ok(None) };
    let url = location.to_str().ok().and_then(|location| sent.url.join(location).ok());
    let url =
        url.ok_or_else(|| EgressError::Broken("the target of a redirect is not a URL".to_owned()))?;
    let is_http = matches!(url.scheme(), "http" | "https");
    let loses_tls = sent.url.scheme() == "https" && url.scheme() != "https";
    if !is_http || loses_tls || has_userinfo(&url) {
        return Err(EgressError::Refused { sent: true });
    }
    let mut next = OutgoingRequest { url, uri: None, ..sent.clone() };
    // As browsers do: a form POST is followed by a GET.
    let becomes_get = match status {
        StatusCode::SEE_OTHER => sent.method != Method::HEAD,
        _ => moves && sent.method == Method::POST,
    };
    if becomes_get {
        next.method = Method::GET;
        next.body = None;
        next.headers.remove(header::CONTENT_TYPE);
    }
    if next.url.origin() != sent.url.origin() {
        next.bound = HeaderMap::new();
        next.strayed = true;
    }
    Ok(Some(next))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;
    use url::Url;

    use super::*;

    fn sent(method: Method, url: &str) -> OutgoingRequest {
        let mut sent = OutgoingRequest::new(method, Url::parse(url).unwrap());
        sent.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        sent.bound.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        sent.body = Some(Bytes::from_static(b"{}"));
        sent
    }

    fn hop(
        sent: &OutgoingRequest,
        status: u16,
        to: &str,
    ) -> Result<Option<OutgoingRequest>, EgressError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, HeaderValue::from_str(to).unwrap());
        next(sent, StatusCode::from_u16(status).unwrap(), &headers)
    }

    #[test]
    fn the_method_and_body_follow_the_status() {
        for (method, status, expected) in [
            (Method::POST, 301, Method::GET),
            (Method::POST, 302, Method::GET),
            (Method::POST, 303, Method::GET),
            (Method::PUT, 303, Method::GET),
            (Method::PUT, 302, Method::PUT),
            (Method::POST, 307, Method::POST),
            (Method::POST, 308, Method::POST),
            (Method::HEAD, 303, Method::HEAD),
        ] {
            let sent = sent(method.clone(), "https://a.example/x");
            let next = hop(&sent, status, "/y").unwrap().unwrap();
            assert_eq!(next.url.as_str(), "https://a.example/y");
            assert_eq!(next.method, expected, "{method} {status}");
            assert_eq!(next.body.is_some(), expected == method, "{method} {status}");
            assert!(next.bound.contains_key(header::AUTHORIZATION), "the same origin");
        }
        for status in [200, 300, 304, 305, 404] {
            assert!(hop(&sent(Method::GET, "https://a.example/"), status, "/y").unwrap().is_none());
        }
    }

    #[test]
    fn data_bound_to_an_origin_stays_there() {
        let from = sent(Method::POST, "http://a.example/");
        for other in
            ["http://b.example/", "http://a.example:81/", "https://a.example/", "//A.example:8/"]
        {
            let next = hop(&from, 307, other).unwrap().unwrap();
            assert!(next.bound.is_empty(), "{other}");
            assert!(next.headers.contains_key(header::CONTENT_TYPE), "{other}");
            assert!(next.strayed, "{other}");
            let back = hop(&next, 307, "http://a.example/").ok().flatten();
            assert!(back.is_none_or(|back| back.strayed && back.bound.is_empty()), "{other}");
        }
        let same = hop(&from, 307, "http://A.EXAMPLE:80/z").unwrap().unwrap();
        assert!(!same.bound.is_empty() && !same.strayed);
    }

    #[test]
    fn some_redirects_are_not_followed() {
        let from = sent(Method::GET, "https://a.example/");
        for bad in [
            "http://a.example/",
            "ftp://a.example/",
            "https://u:p@a.example/",
            "file:///etc/passwd",
        ] {
            assert!(
                matches!(hop(&from, 302, bad), Err(EgressError::Refused { sent: true })),
                "{bad}"
            );
        }
        assert!(matches!(hop(&from, 302, "https://[broken"), Err(EgressError::Broken(_))));
    }
}
