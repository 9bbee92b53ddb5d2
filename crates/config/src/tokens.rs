//! `[auth]` and `[otc]`: signed tokens as credentials.

use std::{collections::BTreeMap, fmt, marker::PhantomData, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;
use toolcrib_core::{
    credential::Secret,
    egress::AllowList,
    id::{PrincipalId, TenantId},
    scope::{Grant, ScopeSet},
};
use toolcrib_oauth::{authorization::is_reserved, metadata::is_private_enough, scopes};
use url::Url;

use super::{
    resolver::{Resolver, is_plain},
    secret::Value,
    server::MountAuth,
    units::{self as kind, Kind as _},
};
use crate::scopes::RouteScope;

const MAX_SKEW: Duration = Duration::from_secs(5 * 60);
const MAX_KEY_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const MAX_KEY_LIFETIME: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The minimum for HMAC with SHA-256 (RFC 7518, section 3.2).
const MIN_SECRET: usize = 32;

/// One table, or an array of tables with the same name.
#[derive(Debug)]
pub(super) struct OneOrMore<T>(Vec<Spanned<T>>);

/// An issuer of signed tokens ([guide](../guides/oidc.md)).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct JwtConfig {
    /// Exact value of the claim `iss`.
    pub issuer: String,
    /// Accepted values of `aud`; a token must contain one of them.
    pub audiences: Vec<String>,
    /// Accepted algorithms; also `RS384`, `RS512`, `PS384`, `PS512`, `ES384`, `ES512`.
    #[serde(default = "usual_algorithms")]
    #[schemars(extend("default" = ["RS256", "PS256", "ES256", "EdDSA"]))]
    pub algorithms: Vec<JwtAlgorithm>,
    /// Address of the issuer's keys.
    #[schemars(extend("x-default" = "OpenID Connect Discovery"))]
    pub jwks_url: Option<String>,
    /// Accepted difference of clocks, at most `5m`.
    #[serde(default = "one_minute", with = "kind::Duration")]
    pub clock_skew: Duration,
    /// Time for which keys are valid while the issuer is unreachable, at most `7d`.
    #[serde(default = "one_day", with = "kind::Age")]
    pub max_key_age: Duration,
    /// Private networks, addresses and hosts for fetching keys.
    #[serde(default)]
    pub allow: AllowList,
    /// Places of the claims.
    #[serde(default)]
    pub claims: ClaimsConfig,
    /// Tenant of every token; alternatively `claims.tenant`.
    pub tenant: Option<TenantId>,
    /// Scopes that claims can give, at most. A wildcard covers scopes of tools alone: others, such as
    /// `audit:read` and those of approvers, are listed by name
    /// ([guide](../guides/oidc.md#what-claims-can-give)).
    #[schemars(extend("x-default" = "those that tools of the tenant require"))]
    pub scopes: Option<ScopeSet>,
    /// Roles that claims can give; required with `claims.roles`.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Longest life of a key that the holder of a token creates, at most `366d`.
    #[serde(default, with = "kind::Age")]
    #[schemars(extend("x-default" = "until the token expires"))]
    pub key_lifetime: Option<Duration>,
    /// Text before the principal. It keeps principals of issuers apart from those of keys.
    #[schemars(extend("x-default" = "the issuer's host and `|`"))]
    principal_prefix: Option<String>,
    /// Sign-in to the console with this issuer; without it the console only accepts keys and
    /// tokens.
    pub sign_in: Option<SignInConfig>,
}

/// Sign-in to the console: an authorization code with PKCE, as a public client
/// ([guide](../guides/oidc.md#sign-in-to-the-console)).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SignInConfig {
    /// Id of the client, registered at the issuer without a secret.
    pub client_id: String,
    /// Requested scopes, in addition to `openid`.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Name of the issuer on the button.
    #[schemars(extend("x-default" = "the issuer's host"))]
    pub name: Option<String>,
    /// Requested resource of the token (RFC 8707), for issuers that need it.
    pub resource: Option<String>,
    /// More parameters of the request for sign-in, such as `audience` or `prompt`.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// The asymmetric signature algorithms. Symmetric ones are absent: their verification key could
/// also sign tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
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

/// Places of the claims: names with dots between them, or JSON pointers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ClaimsConfig {
    /// The principal.
    #[schemars(extend("default" = "sub"))]
    pub principal: ClaimPath,
    /// The tenant; in place of `tenant`.
    pub tenant: Option<ClaimPath>,
    /// The scopes, separated by blanks or as an array.
    #[schemars(extend("default" = "scope"))]
    pub scopes: Option<ClaimPath>,
    /// The roles, as an array or a single one. Only those in `roles` of the issuer count.
    pub roles: Option<ClaimPath>,
}

/// The member names, from the outermost to the innermost.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
pub struct ClaimPath(pub Vec<String>);

/// Open Tool Calling.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Otc {
    /// `optional`: callers without a key are `[anonymous]`.
    pub(super) auth: MountAuth,
    /// Tokens with a shared secret.
    pub(super) jwt: Option<SharedJwt>,
}

/// HS256 tokens with a shared secret, for `/tools` and `/oxp`
/// ([guide](../guides/oidc.md#shared-secret-tokens-for-open-tool-calling)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SharedJwt {
    /// Secret of at least 32 bytes.
    secret: Value,
    /// Required `aud`; without it a token with `aud` is refused.
    audience: Option<String>,
    /// Tenant of every token.
    tenant: TenantId,
    /// Principal of tokens without `sub`; without it they are rejected.
    principal: Option<PrincipalId>,
    /// Scopes of every token, at most.
    #[serde(default)]
    scopes: Vec<Grant>,
    /// Roles of every token.
    #[serde(default)]
    roles: Vec<String>,
}

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

    /// Returns the value of `alg`.
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

impl TryFrom<String> for JwtAlgorithm {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = Self::ALL.map(Self::as_str).join(", ");
        Self::parse(&name).ok_or_else(|| {
            format!(
                "expected algorithms with a public key, which are {known}; `none` and algorithms \
                 with a shared secret are not among them"
            )
        })
    }
}

/// The default algorithms; every common issuer supports one of them.
fn usual_algorithms() -> Vec<JwtAlgorithm> {
    use JwtAlgorithm::{EdDsa, Es256, Ps256, Rs256};
    vec![Rs256, Ps256, Es256, EdDsa]
}

// === impl JwtConfig ===

impl JwtConfig {
    /// Returns the prefix of the principals of this issuer.
    pub fn principal_prefix(&self) -> &str {
        self.principal_prefix.as_deref().unwrap_or_default()
    }
}

// === impl SignInConfig ===

impl SignInConfig {
    /// The requested scopes, separated by blanks. `openid` makes the issuer send an ID token, whose
    /// nonce binds the sign-in to the browser that started it.
    pub fn scope(&self) -> String {
        let scopes = self.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        std::iter::once("openid").chain(scopes).collect::<Vec<_>>().join(" ")
    }
}

/// A token of RFC 6749: printable characters without blanks, quotes and backslashes.
fn is_scope(text: &str) -> bool {
    text.len() <= 256 && scopes::is_scope(text)
}

fn is_short_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= 256 && !text.chars().any(char::is_control)
}

fn one_minute() -> Duration {
    Duration::from_secs(60)
}

fn one_day() -> Duration {
    Duration::from_secs(24 * 60 * 60)
}

// === impl ClaimsConfig ===

impl Default for ClaimsConfig {
    fn default() -> Self {
        let usual = |name: &str| ClaimPath(vec![name.to_owned()]);
        Self { principal: usual("sub"), tenant: None, scopes: Some(usual("scope")), roles: None }
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

impl TryFrom<String> for ClaimPath {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        Self::parse(&text).ok_or(
            "expected names with dots between them such as \"realm_access.roles\", or a JSON \
             pointer such as \"/realm_access/roles\"",
        )
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

impl Default for Otc {
    fn default() -> Self {
        Self { auth: MountAuth::Required, jwt: None }
    }
}

// === impl OneOrMore ===

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = OneOrMore<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table, or several of them")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let one = T::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(OneOrMore(vec![Spanned::new(0..0, one)]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(OneOrMore)
            }
        }
        deserializer.deserialize_any(Visitor(PhantomData))
    }
}

impl Resolver<'_> {
    /// Resolves the issuers. `has_shared` is whether tokens with a shared secret are accepted as
    /// well.
    pub(super) fn issuers(
        &mut self,
        typed: OneOrMore<JwtConfig>,
        has_shared: bool,
    ) -> Vec<JwtConfig> {
        let mut issuers: Vec<JwtConfig> = Vec::new();
        for typed in typed.0 {
            let key = self.element("auth.jwt", &typed.span());
            let Some(issuer) = self.issuer(&key, typed.into_inner()) else { continue };
            if issuers.iter().any(|other| other.issuer == issuer.issuer) {
                let message = "another [[auth.jwt]] has this issuer";
                self.complain(&format!("{key}.issuer"), message);
            }
            let others = issuers.iter().map(JwtConfig::principal_prefix);
            let mut others = others.chain(has_shared.then_some(SharedJwtConfig::PRINCIPAL_PREFIX));
            let own = issuer.principal_prefix();
            // The issuer chooses the text after its prefix, which may be the rest of a longer
            // prefix.
            if others.any(|other| own.starts_with(other) || other.starts_with(own)) {
                let message = "it overlaps the prefix of another [[auth.jwt]] or of [otc.jwt] \
                               (by default it is the host of the issuer), so that principals of \
                               both could be taken for each other; set a different \
                               `principal_prefix`";
                self.complain(&format!("{key}.principal_prefix"), message);
            }
            issuers.push(issuer);
        }
        issuers
    }

    fn issuer(&mut self, key: &str, mut typed: JwtConfig) -> Option<JwtConfig> {
        let before = self.problems.len();
        let member = |name: &str| format!("{key}.{name}");
        let url = self.check(&member("issuer"), check_address(&typed.issuer, &typed.allow));
        let keys = typed.jwks_url.as_deref();
        let keys = keys.map(|keys| check_address(keys, &typed.allow)).transpose();
        self.check(&member("jwks_url"), keys);
        if typed.audiences.is_empty() || typed.audiences.iter().any(String::is_empty) {
            let message = "expected at least one audience: what the issuer calls this server";
            self.complain(&member("audiences"), message);
        }
        if typed.algorithms.is_empty() {
            self.complain_of_absence(key, &member("algorithms"), "expected at least one algorithm");
        }
        if typed.clock_skew > MAX_SKEW {
            self.complain(&member("clock_skew"), "is more than 5 minutes");
        }
        if typed.max_key_age > MAX_KEY_AGE {
            self.complain(&member("max_key_age"), "is more than 7 days");
        }
        if typed.key_lifetime.is_some_and(|life| life > MAX_KEY_LIFETIME) {
            self.complain(&member("key_lifetime"), "is more than 366 days");
        }
        self.claimable_scopes(&member("scopes"), typed.scopes.iter().flat_map(ScopeSet::iter));
        self.known_roles(&member("roles"), &typed.roles);
        match (&typed.claims.roles, typed.roles.is_empty()) {
            (Some(_), true) => {
                let message = "name the roles that tokens may have; without them `claims.roles` \
                               gives no roles";
                self.complain_of_absence(key, &member("roles"), message);
            }
            (None, false) => {
                let message = "has no effect without `claims.roles`, the path of the claim with \
                               the roles";
                self.complain(&member("roles"), message);
            }
            (Some(_), false) | (None, true) => {}
        }
        let tenant = member("tenant");
        match (&typed.claims.tenant, typed.tenant.clone()) {
            (None, None) => {
                let message = "say which tenant tokens belong to: `tenant`, or `claims.tenant` \
                               with the path of a claim";
                self.complain_of_absence(key, &tenant, message);
            }
            (Some(_), Some(_)) => {
                self.complain(&tenant, "cannot be combined with `claims.tenant`; keep one of them");
            }
            (None, Some(fixed)) => drop(self.check(&tenant, check_tenant(fixed))),
            (Some(_), None) => {}
        }
        if let Some(sign_in) = &typed.sign_in {
            self.sign_in(&member("sign_in"), sign_in);
        }
        let url = url?;
        let usual = || format!("{}|", url.host_str().unwrap_or_default());
        let prefix = typed.principal_prefix.take().unwrap_or_else(usual);
        self.check(&member("principal_prefix"), check_prefix(&prefix));
        typed.principal_prefix = Some(prefix);
        (self.problems.len() == before).then_some(typed)
    }

    fn sign_in(&mut self, key: &str, typed: &SignInConfig) {
        let mut require = |member: &str, is_valid: bool, message: &str| {
            if !is_valid {
                self.complain(&format!("{key}.{member}"), message);
            }
        };
        let text = "expected 1 to 256 characters without control characters";
        require("client_id", is_short_text(&typed.client_id), text);
        require("name", typed.name.as_deref().is_none_or(is_short_text), text);
        let message = "expected scopes of OAuth: printable ASCII without blanks, quotes and \
                       backslashes";
        require("scopes", typed.scopes.iter().all(|scope| is_scope(scope)), message);
        let offline = typed.scopes.iter().any(|scope| scope == "offline_access");
        let message = "remove `offline_access`: the console keeps no refresh token";
        require("scopes", !offline, message);
        let resource = typed.resource.as_deref().map(Url::parse);
        let is_resource = resource.is_none_or(|url| url.is_ok_and(|url| url.fragment().is_none()));
        require("resource", is_resource, "expected an absolute URI without a fragment");
        let own = typed.parameters.keys().find(|name| is_reserved(name));
        let message = own.map(|name| format!("toolcrib sets `{name}` itself; remove it"));
        require("parameters", message.is_none(), message.as_deref().unwrap_or_default());
        let is_bounded = typed.parameters.len() <= 16
            && typed.parameters.iter().all(|(name, value)| is_scope(name) && is_short_text(value));
        let message = "expected at most 16 parameters, each with a name of printable ASCII and 1 \
                       to 256 characters";
        require("parameters", is_bounded, message);
    }

    /// Rejects those of `scopes` that extend beyond the tenant of a token.
    fn claimable_scopes<'g>(&mut self, key: &str, scopes: impl Iterator<Item = &'g Grant>) {
        for scope in scopes.filter_map(|grant| RouteScope::named(grant.as_str())) {
            if !scope.may_be_claimed() {
                let message = format!(
                    "`{}` extends beyond a tenant, so no token gives it; use a key",
                    scope.as_str()
                );
                self.complain(key, message);
            }
        }
    }

    pub(super) fn shared_jwt(&mut self, typed: SharedJwt) -> Option<SharedJwtConfig> {
        let key = "otc.jwt.secret";
        let secret = self.secret(key, &typed.secret);
        self.claimable_scopes("otc.jwt.scopes", typed.scopes.iter());
        self.known_roles("otc.jwt.roles", &typed.roles);
        if secret.as_ref().is_some_and(|secret| secret.expose().len() < MIN_SECRET) {
            self.complain(key, "is shorter than 32 bytes");
        }
        Some(SharedJwtConfig {
            tenant: self.check("otc.jwt.tenant", check_tenant(typed.tenant))?,
            secret: secret?,
            audience: typed.audience,
            principal: typed.principal,
            scopes: typed.scopes,
            roles: typed.roles,
        })
    }
}

/// Rejects the tenant of the record's own events.
pub(super) fn check_tenant(tenant: TenantId) -> Result<TenantId, &'static str> {
    match tenant.as_str() == TenantId::OPERATOR {
        true => Err("the tenant `-` is the record's own; choose another name"),
        false => Ok(tenant),
    }
}

fn check_prefix(text: &str) -> Result<(), &'static str> {
    match text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err("expected at most 64 printable ASCII characters without blanks"),
    }
}

/// Validates an address of documents that decide which tokens are valid: no third party may change
/// them in transit.
fn check_address(text: &str, allow: &AllowList) -> Result<Url, &'static str> {
    let url = Url::parse(text).ok().filter(|url| is_plain(url) && is_private_enough(url, allow));
    url.ok_or(
        "expected an https address without user information, query or fragment (http only for \
         loopback and for hosts in `allow`)",
    )
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
