//! Tokens of an issuer that are addressed to a client instead of this server: ID tokens, and
//! assertions.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_config::JwtAlgorithm;
use toolcrib_core::clock::Timestamp;

use super::{
    claims::{self, Claims},
    issuer::Issuer,
    jwk::KeyMatch,
    jws::{Jws, NoToken},
};

/// The verified claims of a token.
pub(super) struct Proven {
    pub(super) claims: Claims,
    pub(super) expires_at: Timestamp,
    /// The key that signed it.
    pub(super) thumbprint: [u8; 32],
}

/// Verifies an ID token of `issuer` for `client`, with `nonce` if there is one (OpenID Connect Core,
/// section 3.1.3.7). Fetches the keys of the issuer if its key is unknown.
pub(super) async fn id_token(
    issuer: &Arc<Issuer>,
    client: &str,
    text: &str,
    nonce: Option<&str>,
    now: Timestamp,
) -> Result<Proven, NoToken> {
    let token = Jws::read(text)?;
    let said = |name: &str| token.claims.get(name).and_then(Value::as_str);
    let is_ours = nonce.is_none_or(|nonce| said("nonce") == Some(nonce))
        // A token for several clients names one of them.
        && said("azp").map_or(!claims::is_for_several(&token.claims), |party| party == client)
        && claims::is_for(&token.claims, [client]);
    match is_ours {
        true => signed(issuer, token, now).await,
        false => Err(NoToken),
    }
}

/// Verifies an assertion of `issuer` for the authorization server `own`.
pub(super) async fn assertion(
    issuer: &Arc<Issuer>,
    own: &str,
    text: &str,
    now: Timestamp,
) -> Result<Proven, NoToken> {
    let token = Jws::read_assertion(text)?;
    // It is for one server alone.
    match claims::is_for(&token.claims, [own]) && !claims::is_for_several(&token.claims) {
        true => signed(issuer, token, now).await,
        false => Err(NoToken),
    }
}

/// Verifies issuer, time and signature of a token.
async fn signed(issuer: &Arc<Issuer>, token: Jws<'_>, now: Timestamp) -> Result<Proven, NoToken> {
    let config = &issuer.config;
    let algorithm = JwtAlgorithm::parse(&token.algorithm);
    let algorithm = algorithm.filter(|algorithm| config.algorithms.contains(algorithm));
    let algorithm = algorithm.ok_or(NoToken)?;
    if token.claims.get("iss").and_then(Value::as_str) != Some(&config.issuer) {
        return Err(NoToken);
    }
    let expires_at = claims::end_of(&token.claims, now, config.clock_skew)?;
    let signer = || match issuer.keys()?.keys.find(&token, algorithm) {
        KeyMatch::Signed(key) => Some(Ok(key.thumbprint)),
        KeyMatch::Forged => Some(Err(NoToken)),
        KeyMatch::Unknown => None,
    };
    let found = match signer() {
        Some(found) => found,
        None => {
            issuer.settle().await;
            signer().unwrap_or(Err(NoToken))
        }
    };
    Ok(Proven { thumbprint: found?, claims: token.claims, expires_at })
}
