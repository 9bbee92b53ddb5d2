//! `[auth.jwt]` and `[otc.jwt]`: signed tokens as credentials.

use std::time::Duration;

use toolcrib_core::{
    credential::Secret,
    egress::AllowList,
    id::{PrincipalId, TenantId},
    scope::Grant,
};

/// An issuer whose signed tokens are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtConfig {
    /// What stands in `iss`, to the byte.
    pub issuer: String,
    /// One of them has to stand in `aud`.
    pub audiences: Vec<String>,
    /// What may stand in `alg`.
    pub algorithms: Vec<JwtAlgorithm>,
    /// Where the keys are; the issuer's discovery document tells when absent.
    pub jwks_url: Option<String>,
    /// How far the issuer's clock may be from ours.
    pub clock_skew: Duration,
    /// How long keys are believed while the issuer cannot be asked.
    pub max_key_age: Duration,
    /// What may be reached beyond public addresses to fetch them.
    pub allow: AllowList,
    /// Where in a token who it is stands.
    pub claims: ClaimsConfig,
    /// The tenant of every token, when no claim tells it.
    pub tenant: Option<TenantId>,
    /// What stands before the principal of a token. It keeps the principals of issuers apart from
    /// those of keys.
    pub principal_prefix: String,
}

/// Signatures that are made with one key and checked with another. There are no others here, so that
/// no configuration can let anybody sign who can check.
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

/// Where in a token who it is stands.
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

/// The names of members from the outermost to the innermost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPath(pub Vec<String>);

/// Tokens that are signed with a secret which both sides know, for Open Tool Calling alone.
#[derive(Debug, Clone)]
pub struct SharedJwtConfig {
    /// At least 32 bytes.
    pub secret: Secret,
    /// What has to stand in `aud`. Without it a token with an audience is not for us.
    pub audience: Option<String>,
    /// The tenant of every token.
    pub tenant: TenantId,
    /// The principal of a token that names none in `sub`; without it such a token is nobody's.
    pub principal: Option<PrincipalId>,
    /// What every token may at most.
    pub scopes: Vec<Grant>,
    /// Roles of every token.
    pub roles: Vec<String>,
}

// === impl SharedJwtConfig ===

impl SharedJwtConfig {
    /// What stands before the principals of such tokens.
    pub const PRINCIPAL_PREFIX: &'static str = "otc|";
}

// === impl JwtAlgorithm ===

impl JwtAlgorithm {
    /// Every one.
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

    /// As it stands in `alg`.
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

    /// The one that `name` stands for.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }
}

// === impl ClaimPath ===

impl ClaimPath {
    /// Reads `text`: a JSON pointer when it starts with `/`, or else names with dots between them.
    pub fn parse(text: &str) -> Option<Self> {
        let names: Vec<String> = match text.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(unescaped).collect::<Option<_>>()?,
            None => text.split('.').map(str::to_owned).collect(),
        };
        let sound = names.len() <= 16 && names.iter().all(|name| !name.is_empty());
        sound.then_some(Self(names))
    }
}

/// A token of a JSON pointer, read.
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
