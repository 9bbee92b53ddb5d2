//! Authenticates the caller from the headers of a request.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use http::{HeaderMap, HeaderValue, Uri, header};
use toolcrib_config::{MountAuth, scopes::RouteScope};
use toolcrib_core::principal::Principal;
use toolcrib_gateway::{Gateway, authn::AuthError};

use super::{Credentials, InvalidCredentialPolicy, Refusal, SessionPolicy, session};
use crate::serve::connection;

/// The headers that can contain a key, on mounts whose protocol defines them.
pub(crate) const KEY_HEADERS: &[&str] = &["x-api-key", "otc-api-key", "oxp-api-key"];

/// The authenticated caller. The guard puts it into the request's extensions; handlers take it as
/// an argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Caller(pub(crate) Arc<Principal>);

/// The token of `Authorization: Bearer`; `None` for other values of the header.
pub(crate) fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Reads the credentials in `headers`, those of `Authorization` first; `None` for one that cannot
/// be valid.
///
/// # Errors
/// One of the headers appears more than once, so a proxy may have checked another value than this
/// server.
fn presented<'h>(
    headers: &'h HeaderMap,
    key_headers: &[&'static str],
) -> Result<Vec<Option<&'h str>>, AuthError> {
    let names = std::iter::once(header::AUTHORIZATION.as_str()).chain(key_headers.iter().copied());
    let mut found: Vec<Option<&str>> = Vec::new();
    for name in names {
        let mut values = headers.get_all(name).iter();
        let Some(value) = values.next() else { continue };
        if values.next().is_some() {
            return Err(AuthError::Ambiguous);
        }
        let text = match name == header::AUTHORIZATION.as_str() {
            true => bearer(value),
            false => Some(value.to_str().ok().map(str::trim).unwrap_or_default()),
        };
        if !found.contains(&text) {
            found.push(text);
        }
    }
    Ok(found)
}

/// Whether a key in a header of other mounts contradicts the credential of this one. A proxy before
/// this server may have checked the other.
fn has_another(headers: &HeaderMap, presented: &[Option<&str>]) -> bool {
    let others = KEY_HEADERS.iter().flat_map(|name| headers.get_all(*name));
    let mut others = others.map(|value| value.to_str().ok().map(str::trim));
    !presented.is_empty() && others.any(|other| !presented.contains(&other))
}

/// Authenticates the sender of `headers` to a mount that requires `auth` and accepts `credentials`.
/// Several different credentials are refused.
///
/// Credentials are checked even if they are optional: a caller with an expired key is refused
/// instead of seeing less, unless the protocol of the mount says otherwise.
///
/// After a pause of this process, waits for the store: what the caller sees may have changed (I-110).
pub(crate) async fn caller(
    gateway: &Gateway,
    uri: &Uri,
    headers: &HeaderMap,
    auth: MountAuth,
    credentials: Credentials,
) -> Result<Caller, AuthError> {
    let authenticator = gateway.authenticator();
    let presented = presented(headers, credentials.key_headers)?;
    // Where the protocol ignores invalid credentials, a valid one among them counts.
    let lenient =
        auth == MountAuth::Optional && credentials.invalid == InvalidCredentialPolicy::Anonymous;
    if !lenient && presented.len() > 1 || has_another(headers, &presented) {
        return Err(AuthError::Ambiguous);
    }
    let mut known: Option<Caller> = None;
    if credentials.sessions == SessionPolicy::Accepted && session::is_presented(headers) {
        let keys = KEY_HEADERS.iter().any(|name| headers.contains_key(*name));
        if !presented.is_empty() || keys {
            return Err(AuthError::Ambiguous);
        }
        match session_holder(gateway, uri, headers).await {
            Ok(caller) => known = Some(caller),
            Err(AuthError::Invalid) if lenient => {}
            Err(error) => return Err(error),
        }
    }
    for text in presented {
        let tried = match text {
            Some(text) => {
                let known = authenticator.identify_at(text, credentials.accepted, uri.path());
                known.await.map(Caller)
            }
            None => Err(AuthError::Invalid),
        };
        match tried {
            Ok(_) if known.is_some() => return Err(AuthError::Ambiguous),
            Ok(caller) => known = Some(caller),
            Err(AuthError::Invalid) if lenient => {}
            Err(error) => return Err(error),
        }
    }
    let caller = match (known, auth) {
        (Some(caller), _) => {
            connection::authenticated();
            caller
        }
        (None, MountAuth::Optional) => {
            authenticator.anonymous().map(Caller).ok_or(AuthError::Missing)?
        }
        (None, MountAuth::Required) => return Err(AuthError::Missing),
    };
    gateway.confirm().await?;
    Ok(caller)
}

/// Finds the person whose session `headers` present.
async fn session_holder(
    gateway: &Gateway,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Caller, AuthError> {
    let presented = session::presented(&gateway.config().server, uri, headers)?;
    let mut verdict = Err(AuthError::Invalid);
    for session in presented.candidates() {
        verdict = gateway.authenticator().identify_session(session).await.map(Caller);
        if !matches!(verdict, Err(AuthError::Invalid)) {
            break;
        }
    }
    verdict
}

/// Finds the person whose session `headers` present; `None` without a valid session.
pub(crate) async fn session_caller(
    gateway: &Gateway,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<Caller> {
    match session::is_presented(headers) {
        true => session_holder(gateway, uri, headers).await.ok(),
        false => None,
    }
}

/// Refuses, and records, a caller of `route` without `scope`.
pub(crate) fn require(
    gateway: &Gateway,
    caller: &Principal,
    scope: RouteScope,
    route: &str,
) -> Result<(), Refusal> {
    if scope.is_held_by(caller) {
        return Ok(());
    }
    gateway.audit().denials().denied_without(caller, scope.as_str(), route);
    Err(Refusal::MissingScope(scope.as_str()))
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        // Absent only on an open mount, where no handler may take the caller.
        parts.extensions.get::<Self>().cloned().ok_or(Refusal::Internal)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn headers(values: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = values.iter();
        pairs
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn bearer_tokens_are_found_whatever_the_case_of_the_scheme() {
        let of = |value| bearer(&HeaderValue::from_static(value)).map(str::to_owned);
        assert_eq!(of("Bearer k").as_deref(), Some("k"));
        assert_eq!(of("bEARER   k ").as_deref(), Some("k"));
        for none in ["k", "Basic k", "Bearer ", ""] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_key_of_another_protocol_does_not_contradict_the_credential() {
        let of = |values: &[(&'static str, &'static str)]| {
            let headers = headers(values);
            let own = presented(&headers, &[]).unwrap();
            has_another(&headers, &own)
        };
        let bearer = ("authorization", "Bearer a");
        assert!(!of(&[bearer]) && !of(&[bearer, ("x-api-key", " a ")]));
        assert!(!of(&[("x-api-key", "b")]), "it is no credential here");
        for name in KEY_HEADERS {
            assert!(of(&[bearer, (name, "b")]), "{name}");
            assert!(of(&[bearer, (name, "a"), (name, "b")]), "{name}");
        }
    }

    #[test]
    fn a_header_that_appears_twice_is_no_credential() {
        let of = |values: &[(&'static str, &'static str)]| {
            presented(&headers(values), &["x-api-key"]).map(|found| found.len())
        };
        assert_eq!(of(&[]), Ok(0));
        assert_eq!(of(&[("authorization", "Bearer a"), ("x-api-key", "a")]), Ok(1));
        assert_eq!(of(&[("authorization", "Bearer a"), ("x-api-key", "b")]), Ok(2));
        for name in ["authorization", "x-api-key"] {
            let twice = of(&[(name, "Bearer a"), (name, "Bearer a")]);
            assert_eq!(twice, Err(AuthError::Ambiguous), "{name}");
        }
    }
}
