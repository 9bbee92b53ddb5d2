//! `[auth.jwt]` and `[otc.jwt]` as typed.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::Value;

/// One table, or several of the same name.
#[derive(Debug)]
pub(in crate::config) struct OneOrMore<T>(pub(in crate::config) Vec<T>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Jwt {
    pub(in crate::config) issuer: Spanned<String>,
    pub(in crate::config) audiences: Spanned<Vec<String>>,
    pub(in crate::config) algorithms: Option<Spanned<Vec<String>>>,
    pub(in crate::config) jwks_url: Option<Spanned<String>>,
    pub(in crate::config) clock_skew: Option<Spanned<String>>,
    pub(in crate::config) max_key_age: Option<Spanned<String>>,
    #[serde(default)]
    pub(in crate::config) allow: Vec<Spanned<String>>,
    #[serde(default)]
    pub(in crate::config) claims: Claims,
    pub(in crate::config) tenant: Option<Spanned<String>>,
    pub(in crate::config) principal_prefix: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Claims {
    pub(in crate::config) principal: Option<Spanned<String>>,
    pub(in crate::config) tenant: Option<Spanned<String>>,
    pub(in crate::config) scopes: Option<Spanned<String>>,
    pub(in crate::config) roles: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct SharedJwt {
    pub(in crate::config) secret: Spanned<Value>,
    pub(in crate::config) audience: Option<String>,
    pub(in crate::config) tenant: Spanned<String>,
    pub(in crate::config) principal: Option<Spanned<String>>,
    #[serde(default = "super::nothing")]
    pub(in crate::config) scopes: Spanned<Vec<String>>,
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
