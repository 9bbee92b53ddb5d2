//! The claims of a token with a valid signature.

use std::{fmt::Write as _, time::Duration};

use chrono::DateTime;
use serde_json::{Map, Value};
use toolcrib_config::ClaimPath;
use toolcrib_core::{
    clock::Timestamp,
    id::{PrincipalId, TenantId},
    principal::MAX_ACTORS,
    scope::{Grant, Scope},
};

use super::jws::NoToken;

pub(super) type Claims = Map<String, Value>;

/// Most roles to read from a token.
const MAX_ROLES: usize = 256;
/// The id of an actor without a readable one, and of the last recorded actor of a longer chain.
const UNREADABLE: &str = "core.unreadable";

/// The expiry of a token that is valid at `now`, if clocks differ by at most `skew`.
///
/// `exp` is required. `nbf` and `iat` are optional, and must not be in the future.
pub(super) fn end_of(
    claims: &Claims,
    now: Timestamp,
    skew: Duration,
) -> Result<Timestamp, NoToken> {
    let skew = chrono::Duration::from_std(skew).map_err(|_| NoToken)?;
    let end = moment(claims, "exp")?.ok_or(NoToken)?.checked_add_signed(skew).ok_or(NoToken)?;
    let latest = now.checked_add_signed(skew).ok_or(NoToken)?;
    for name in ["nbf", "iat"] {
        if moment(claims, name)?.is_some_and(|start| start > latest) {
            return Err(NoToken);
        }
    }
    if end <= now { Err(NoToken) } else { Ok(end) }
}

/// A `NumericDate`.
pub(super) fn moment(claims: &Claims, name: &str) -> Result<Option<Timestamp>, NoToken> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().ok_or(NoToken)?;
    // Until the year 9999; a larger number is in milliseconds.
    if !(0.0..=253_402_300_799.0).contains(&seconds) {
        return Err(NoToken);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    let millis = (seconds * 1000.0) as i64;
    DateTime::from_timestamp_millis(millis).map(Some).ok_or(NoToken)
}

/// Whether `aud` contains one of `ours`.
pub(super) fn is_for<'a>(claims: &Claims, ours: impl IntoIterator<Item = &'a str>) -> bool {
    let theirs: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        // With other values than texts, the claim does not follow RFC 7519.
        Some(Value::Array(several)) => {
            several.iter().map(Value::as_str).collect::<Option<_>>().unwrap_or_default()
        }
        Some(_) | None => Vec::new(),
    };
    ours.into_iter().any(|ours| theirs.contains(&ours))
}

/// Whether `aud` names several recipients.
pub(super) fn is_for_several(claims: &Claims) -> bool {
    claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1)
}

/// The principal of the text `name`, behind `prefix`. Characters that no principal can have are
/// written `%XX`, so that different names stay different.
pub(super) fn principal(prefix: &str, name: &str) -> Result<PrincipalId, NoToken> {
    if name.is_empty() {
        return Err(NoToken);
    }
    let mut id = prefix.to_owned();
    for byte in name.bytes() {
        match byte {
            b'%' => id.push_str("%25"),
            byte if byte.is_ascii_graphic() => id.push(char::from(byte)),
            byte => write!(id, "%{byte:02X}").map_err(|_| NoToken)?,
        }
    }
    PrincipalId::parse(&id).map_err(|_| NoToken)
}

/// The ids of those who act for the subject of a token of `issuer` (RFC 8693, section 4.1), the
/// present actor first. Those of the same issuer have its `prefix`, like principals.
pub(super) fn actors(claims: &Claims, issuer: &str, prefix: &str) -> Vec<PrincipalId> {
    let mut actors = Vec::new();
    let mut next = claims.get("act");
    while let Some(actor) = next.filter(|act| !act.is_null() && actors.len() < MAX_ACTORS) {
        next = actor.get("act");
        let is_cut = next.is_some_and(|act| !act.is_null()) && actors.len() + 1 == MAX_ACTORS;
        let id = actor_id(actor, issuer, prefix).filter(|_| !is_cut);
        actors.extend(id.or_else(|| PrincipalId::parse(UNREADABLE).ok()));
    }
    actors
}

fn actor_id(actor: &Value, issuer: &str, prefix: &str) -> Option<PrincipalId> {
    let name = actor.get("sub")?.as_str()?;
    match actor.get("iss") {
        None => principal(prefix, name).ok(),
        Some(of) if of == issuer => principal(prefix, name).ok(),
        // An address is no prefix of principals, so this actor looks like none of another issuer.
        Some(of) => {
            let of = of.as_str().filter(|of| of.contains("://"))?;
            principal(&format!("{of}|"), name).ok()
        }
    }
}

/// The tenant `name`, unless that is the name of the operator.
pub(super) fn tenant(name: &str) -> Result<TenantId, NoToken> {
    match TenantId::parse(name) {
        Ok(tenant) if tenant.as_str() != TenantId::OPERATOR => Ok(tenant),
        Ok(_) | Err(_) => Err(NoToken),
    }
}

/// The scopes at `value`. Only scopes without wildcards count; wildcards come from roles.
pub(super) fn scopes(value: Option<&Value>) -> Vec<Grant> {
    let plain = |text: &str| {
        Scope::parse(text).ok()?;
        Grant::parse(text).ok()
    };
    match value {
        Some(Value::String(texts)) => texts.split(' ').filter_map(plain).collect(),
        Some(Value::Array(texts)) => {
            texts.iter().filter_map(Value::as_str).filter_map(plain).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

/// The names of roles at `value`.
pub(super) fn roles(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(several)) => {
            several.iter().filter_map(Value::as_str).take(MAX_ROLES).map(str::to_owned).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

pub(super) fn at<'c>(claims: &'c Claims, path: &ClaimPath) -> Option<&'c Value> {
    let (first, rest) = path.0.split_first()?;
    rest.iter().try_fold(claims.get(first)?, |value, name| value.as_object()?.get(name))
}

pub(super) fn text_at<'c>(claims: &'c Claims, path: &ClaimPath) -> Result<&'c str, NoToken> {
    at(claims, path).and_then(Value::as_str).ok_or(NoToken)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn times_are_checked_with_the_skew_on_our_side_of_neither() {
        let now = DateTime::from_timestamp_secs(1_000_000).unwrap();
        let end = |value: Value| {
            end_of(&claims(value), now, Duration::from_secs(60)).map(|end| end.timestamp())
        };
        assert_eq!(end(json!({ "exp": 1_000_010 })), Ok(1_000_070));
        assert_eq!(end(json!({ "exp": 999_941 })), Ok(1_000_001));
        assert_eq!(end(json!({ "exp": 1_000_010.5 })), Ok(1_000_070));
        assert_eq!(end(json!({ "exp": 1_000_010, "nbf": 1_000_060, "iat": 1 })), Ok(1_000_070));
        for wrong in [
            json!({}),
            json!({ "exp": 999_940 }),
            json!({ "exp": "1000010" }),
            json!({ "exp": null }),
            json!({ "exp": -1 }),
            json!({ "exp": 1e300 }),
            json!({ "exp": 1_000_010, "nbf": 1_000_061 }),
            json!({ "exp": 1_000_010, "iat": 1_000_061 }),
            json!({ "exp": 1_000_010, "nbf": "1" }),
        ] {
            assert_eq!(end(wrong.clone()), Err(NoToken), "{wrong}");
        }
    }

    #[test]
    fn an_audience_is_a_text_or_some() {
        let is = |aud: Value| is_for(&claims(json!({ "aud": aud })), ["us", "crib"]);
        assert!(is(json!("crib")) && is(json!(["other", "us"])));
        for wrong in [json!("other"), json!([]), json!(["us", 1]), json!(1), json!({ "us": 1 })] {
            assert!(!is(wrong.clone()), "{wrong}");
        }
        assert!(!is_for(&Claims::new(), ["us"]));
    }

    #[test]
    fn different_names_are_different_principals() {
        let id = |name: &str| principal("id|", name).map(|id| id.to_string());
        assert_eq!(id("ann").as_deref(), Ok("id|ann"));
        assert_eq!(id("a b").as_deref(), Ok("id|a%20b"));
        assert_eq!(id("a%20b").as_deref(), Ok("id|a%2520b"));
        assert_eq!(id("ä\n").as_deref(), Ok("id|%C3%A4%0A"));
        assert_eq!(id(""), Err(NoToken));
        assert_eq!(id(&"a".repeat(126)), Err(NoToken), "never cut off");
    }

    #[test]
    fn actors_are_ids_and_few() {
        let ids = |act: Value| {
            let claims = claims(json!({ "sub": "ann", "act": act }));
            let ids = actors(&claims, "https://id.example", "id|");
            ids.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(actors(&claims(json!({ "sub": "ann" })), "https://id.example", "id|").is_empty());
        assert!(ids(json!(null)).is_empty());
        let noted = json!({ "sub": "agent", "note": "canary", "act": null });
        assert_eq!(ids(noted), ["id|agent"]);
        assert_eq!(ids(json!({ "sub": "a", "iss": "https://id.example" })), ["id|a"]);
        let foreign = json!({ "sub": "a b", "iss": "https://o.example", "act": { "sub": "c" } });
        assert_eq!(ids(foreign), ["https://o.example|a%20b", "id|c"]);
        for unreadable in [
            json!("agent"),
            json!({}),
            json!({ "sub": 1 }),
            json!({ "sub": "" }),
            json!({ "sub": "a".repeat(200) }),
            json!({ "sub": "a", "iss": "other" }),
            json!({ "sub": "a", "iss": 1 }),
            json!({ "sub": "a", "iss": "https://o.example/ä" }),
        ] {
            assert_eq!(ids(unreadable.clone()), [UNREADABLE], "{unreadable}");
        }
        let chain = |depth: usize| {
            let link =
                |inner: Value, number: usize| json!({ "sub": format!("a{number}"), "act": inner });
            (1..depth).fold(json!({ "sub": "a0" }), link)
        };
        assert_eq!(ids(chain(4)), ["id|a3", "id|a2", "id|a1", "id|a0"]);
        assert_eq!(ids(chain(60)), ["id|a59", "id|a58", "id|a57", UNREADABLE]);
    }

    #[test]
    fn a_token_holds_plain_scopes_alone() {
        let texts =
            |value: Value| scopes(Some(&value)).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(json!("files:read  * files:* a::b x")), ["files:read", "x"]);
        assert_eq!(texts(json!(["a", 1, "b:*", "c d"])), ["a"]);
        assert!(texts(json!({ "a": true })).is_empty());
    }
}
