//! `[auth.jwt]` and `[otc.jwt]`, as in the file.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::Value;
use crate::config::kinds;

/// One table, or several of the same name.
#[derive(Debug)]
pub(in crate::config) struct OneOrMore<T>(pub(in crate::config) Vec<T>);

/// An issuer of signed tokens ([guide](../guides/oidc.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Jwt {
    /// Exact value of the claim `iss`.
    #[schemars(with = "String")]
    pub(in crate::config) issuer: Spanned<String>,
    /// Accepted values of `aud`.
    #[schemars(with = "Vec<String>")]
    pub(in crate::config) audiences: Spanned<Vec<String>>,
    /// Accepted algorithms; also `RS384`, `RS512`, `PS384`, `PS512`, `ES384`, `ES512`.
    #[schemars(with = "Option<Vec<String>>", extend("default" = ["RS256", "PS256", "ES256", "EdDSA"]))]
    pub(in crate::config) algorithms: Option<Spanned<Vec<String>>>,
    /// Address of the issuer's keys.
    #[schemars(with = "Option<String>", extend("x-default" = "OpenID Connect Discovery"))]
    pub(in crate::config) jwks_url: Option<Spanned<String>>,
    /// Accepted difference of clocks, at most `5m`.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "60s"))]
    pub(in crate::config) clock_skew: Option<Spanned<String>>,
    /// Time for which keys are valid while the issuer is unreachable, at most `7d`.
    #[schemars(with = "Option<kinds::Age>", extend("default" = "24h"))]
    pub(in crate::config) max_key_age: Option<Spanned<String>>,
    /// Private networks, addresses and hosts for fetching keys.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) allow: Vec<Spanned<String>>,
    /// Places of the claims.
    #[schemars(with = "Claims")]
    #[serde(default)]
    pub(in crate::config) claims: Claims,
    /// Tenant of every token; otherwise `claims.tenant`.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) tenant: Option<Spanned<String>>,
    /// Text before the principal.
    #[schemars(with = "Option<String>", extend("x-default" = "the issuer's host and `|`"))]
    pub(in crate::config) principal_prefix: Option<Spanned<String>>,
}

/// Places of the claims: names with dots between them, or JSON pointers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Claims {
    /// The principal.
    #[schemars(with = "Option<String>", extend("default" = "sub"))]
    pub(in crate::config) principal: Option<Spanned<String>>,
    /// The tenant; in place of `tenant`.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) tenant: Option<Spanned<String>>,
    /// The scopes.
    #[schemars(with = "Option<String>", extend("default" = "scope"))]
    pub(in crate::config) scopes: Option<Spanned<String>>,
    /// The roles.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) roles: Option<Spanned<String>>,
}

/// HS256 tokens with a shared secret, for `/tools` and `/oxp`
/// ([guide](../guides/oidc.md#shared-secret-tokens-for-open-tool-calling)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct SharedJwt {
    /// Secret of at least 32 bytes.
    #[schemars(with = "kinds::Secret")]
    pub(in crate::config) secret: Spanned<Value>,
    /// Required `aud`; without it a token with `aud` is refused.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) audience: Option<String>,
    /// Tenant of every token.
    #[schemars(with = "String")]
    pub(in crate::config) tenant: Spanned<String>,
    /// Principal of tokens without `sub`; without it they are rejected.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) principal: Option<Spanned<String>>,
    /// Scopes of every token, at most.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    #[serde(default = "super::nothing")]
    pub(in crate::config) scopes: Spanned<Vec<String>>,
    /// Roles of every token.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) roles: Vec<String>,
}

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = OneOrMore<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table, or several of them")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let one = T::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(OneOrMore(vec![one]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(OneOrMore)
            }
        }
        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}
