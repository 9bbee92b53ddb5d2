//! Authenticates the caller from the headers of a request.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use http::{HeaderMap, header};
use toolcrib_core::principal::Principal;
use toolcrib_gateway::{Gateway, authn::AuthError, config::MountAuth, scopes::RouteScope};

use super::{Credentials, InvalidCredentialPolicy, Refusal};
use crate::serve::connection;

/// The authenticated caller. The guard puts it into the request's extensions; handlers take it as
/// an argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Caller(pub(crate) Arc<Principal>);

/// Returns the token of `Authorization: Bearer`, if that header is the only one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    // With two headers it is unclear which one a proxy has checked.
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Authenticates the sender of `headers` to a mount that requires `auth` and accepts `credentials`.
/// The key headers of the mount count when `Authorization` is absent.
///
/// Credentials are checked even where none are required: a caller with an expired key is refused
/// instead of seeing less, unless the protocol of the mount says otherwise.
pub(crate) async fn caller(
    gateway: &Gateway,
    headers: &HeaderMap,
    auth: MountAuth,
    credentials: Credentials,
) -> Result<Caller, AuthError> {
    let authenticator = gateway.authenticator();
    let anonymous = || authenticator.anonymous().map(Caller).ok_or(AuthError::Missing);
    let presented = headers.contains_key(header::AUTHORIZATION).then(|| bearer(headers));
    let in_headers = credentials
        .key_headers
        .iter()
        .filter_map(|name| headers.get(*name))
        .map(|value| Some(value.to_str().ok().map(str::trim).unwrap_or_default()));
    let lenient =
        auth == MountAuth::Optional && credentials.invalid == InvalidCredentialPolicy::Anonymous;
    let mut known = None;
    for text in presented.into_iter().chain(in_headers) {
        let tried = match text {
            Some(text) => authenticator.identify(text, credentials.accepted).await.map(Caller),
            None => Err(AuthError::Invalid),
        };
        // The first credential counts, unless an invalid one is ignored and the next one tried.
        if !lenient || tried != Err(AuthError::Invalid) {
            known = Some(tried);
            break;
        }
    }
    match (known, auth) {
        (Some(tried), _) => {
            if tried.is_ok() {
                connection::authenticated();
            }
            tried
        }
        (None, MountAuth::Optional) => anonymous(),
        (None, MountAuth::Required) => Err(AuthError::Missing),
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
    gateway.audit().denied(caller, scope.as_str(), route, "scope");
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
    use http::HeaderValue;

    use super::*;

    #[test]
    fn bearer_tokens_are_found_whatever_the_case_of_the_scheme() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(of(&["Bearer k"]).as_deref(), Some("k"));
        assert_eq!(of(&["bEARER   k "]).as_deref(), Some("k"));
        for none in [&["k"][..], &["Basic k"], &["Bearer "], &["Bearer a", "Bearer b"], &[]] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }
}
