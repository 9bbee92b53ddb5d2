//! `[auth.jwt]` and `[otc.jwt]`: signed tokens as credentials.

use std::time::Duration;

use toolcrib_core::{
    credential::Secret,
    egress::AllowList,
    id::{PrincipalId, TenantId},
    scope::Grant,
};

/// An issuer of signed tokens that are accepted as credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtConfig {
    /// The exact value of `iss`.
    pub issuer: String,
    /// The accepted values of `aud`; a token must contain one of them.
    pub audiences: Vec<String>,
    /// The accepted values of `alg`.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The address of the keys; by default it is taken from the issuer's discovery document.
    pub jwks_url: Option<String>,
    /// The accepted difference between the issuer's clock and the local one.
    pub clock_skew: Duration,
    /// How long keys stay valid while the issuer is unreachable.
    pub max_key_age: Duration,
    /// Addresses that may be reached in addition to public ones to fetch the keys.
    pub allow: AllowList,
    /// The places of the claims.
    pub claims: ClaimsConfig,
    /// The tenant of every token, when it is not taken from a claim.
    pub tenant: Option<TenantId>,
    /// The prefix of the principals. It keeps principals of issuers apart from those of keys.
    pub principal_prefix: String,
}

/// The asymmetric signature algorithms. Symmetric ones are absent, so that no configuration lets a
/// verifier of tokens sign them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "RFC 7518 and RFC 8037 name and explain them")]
pub enum JwtAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
    EdDsa,
}

/// The places of the claims in a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimsConfig {
    /// The principal.
    pub principal: ClaimPath,
    /// The tenant.
    pub tenant: Option<ClaimPath>,
    /// The scopes, separated by blanks or as an array.
    pub scopes: Option<ClaimPath>,
    /// The roles, as an array or a single one.
    pub roles: Option<ClaimPath>,
}

/// The member names, from the outermost to the innermost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPath(pub Vec<String>);

/// Tokens signed with a shared secret, only for Open Tool Calling.
#[derive(Debug, Clone)]
pub struct SharedJwtConfig {
    /// At least 32 bytes.
    pub secret: Secret,
    /// The required `aud`. Without it, a token with an audience is rejected.
    pub audience: Option<String>,
    /// The tenant of every token.
    pub tenant: TenantId,
    /// The principal of a token without `sub`; without it, such a token is rejected.
    pub principal: Option<PrincipalId>,
    /// The maximum scopes of every token.
    pub scopes: Vec<Grant>,
    /// Roles of every token.
    pub roles: Vec<String>,
}

// === impl SharedJwtConfig ===

impl SharedJwtConfig {
    /// The prefix of the principals of such tokens.
    pub const PRINCIPAL_PREFIX: &'static str = "otc|";
}

// === impl JwtAlgorithm ===

impl JwtAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 10] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::Es512,
        Self::EdDsa,
    ];

    /// Returns the name in `alg`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Returns the algorithm called `name`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }
}

// === impl ClaimPath ===

impl ClaimPath {
    /// Parses a path: a JSON pointer if it starts with `/`, or else names separated by dots.
    pub fn parse(text: &str) -> Option<Self> {
        let names: Vec<String> = match text.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(unescaped).collect::<Option<_>>()?,
            None => text.split('.').map(str::to_owned).collect(),
        };
        let sound = names.len() <= 16 && names.iter().all(|name| !name.is_empty());
        sound.then_some(Self(names))
    }
}

/// Decodes a token of a JSON pointer.
fn unescaped(token: &str) -> Option<String> {
    let mut name = String::with_capacity(token.len());
    let mut rest = token.chars();
    while let Some(character) = rest.next() {
        name.push(match character {
            '~' => match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_dotted_or_a_pointer() {
        let names = |text: &str| ClaimPath::parse(text).map(|path| path.0);
        let owned = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(names("sub"), owned(&["sub"]));
        assert_eq!(names("realm_access.roles"), owned(&["realm_access", "roles"]));
        assert_eq!(names("/https:~1~1a.example~1x/y~0"), owned(&["https://a.example/x", "y~"]));
        for wrong in ["", "/", "a..b", ".a", "/a//b", "/a~2", "/a~"] {
            assert_eq!(names(wrong), None, "{wrong:?}");
        }
    }
}
