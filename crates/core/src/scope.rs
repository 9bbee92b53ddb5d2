//! Scopes: the grants of a principal and the requirements of a tool.
//!
//! Grammar: `a:b:c`, segments of `[A-Za-z0-9._-]+`. In a grant `*` matches exactly one segment, and
//! a trailing `*` matches that segment and everything after it. The grant `*` covers every scope. A
//! tool's requirement is always a concrete scope.

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::text_types::checked_text;

/// Why a text is not a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidScope {
    /// Empty, or an empty segment between two colons.
    #[error("a scope has an empty segment")]
    EmptySegment,
    /// A character outside the grammar, or `*` mixed with other characters.
    #[error("a scope segment must be `*` or match [A-Za-z0-9._-]+")]
    BadSegment,
    /// A wildcard where only a concrete scope makes sense.
    #[error("a required scope must not contain `*`")]
    Wildcard,
    /// More than 256 characters.
    #[error("a scope is longer than 256 characters")]
    TooLong,
}

/// One concrete scope that a tool requires, for example `files:read`.
///
/// A descriptor from elsewhere may require any text ([`Scope::declared`]). No grant can name a text
/// outside the grammar, so only the grant `*` covers it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Scope(Arc<str>);

/// One scope pattern that a principal holds, for example `files:*`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Grant(Arc<str>);

/// All grants of a principal: sorted, without repetition, cheap to clone and to compare.
#[derive(Clone, PartialEq, Eq, Hash, Default, Deserialize, JsonSchema)]
#[serde(from = "Vec<Grant>")]
#[schemars(with = "Vec<String>", inline)]
pub struct ScopeSet(Arc<[Grant]>);

// === impl Scope ===

impl Scope {
    /// Parses `text`.
    pub fn parse(text: &str) -> Result<Self, InvalidScope> {
        check(text, false).map(|()| Self(text.into()))
    }

    /// Wraps the text of a descriptor. Configuration is read with [`Scope::parse`].
    pub fn declared(text: &str) -> Self {
        Self(text.into())
    }
}

// === impl Grant ===

impl Grant {
    /// Parses `text`.
    pub fn parse(text: &str) -> Result<Self, InvalidScope> {
        check(text, true).map(|()| Self(text.into()))
    }

    /// Whether this grant satisfies `scope`.
    pub fn covers(&self, scope: &Scope) -> bool {
        match &*self.0 {
            "*" => true,
            held if !held.contains('*') => held == &*scope.0,
            held => check(&scope.0, false).is_ok() && includes(held, &scope.0),
        }
    }
}

/// Whether `held` covers the scope `wanted`, or everything that the grant `wanted` covers.
fn includes(held: &str, wanted: &str) -> bool {
    let mut wanted = wanted.split(':').peekable();
    let mut held = held.split(':').peekable();
    while let Some(segment) = held.next() {
        let rest = held.peek().is_none();
        let Some(want) = wanted.next() else { return false };
        match segment {
            "*" if rest => return true,
            // A final `*` in `wanted` covers any number of segments, this one covers one.
            "*" if want == "*" && wanted.peek().is_none() => return false,
            "*" => {}
            _ if segment == want => {}
            _ => return false,
        }
    }
    wanted.next().is_none()
}

// === impl ScopeSet ===

impl ScopeSet {
    /// Creates a set of `grants`, in any order.
    pub fn new(grants: impl IntoIterator<Item = Grant>) -> Self {
        let mut grants: Vec<Grant> = grants.into_iter().collect();
        grants.sort();
        grants.dedup();
        Self(grants.into())
    }

    /// Parses every text; fails at the first invalid grant.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidScope> {
        texts.into_iter().map(Grant::parse).collect::<Result<Vec<_>, _>>().map(Self::new)
    }

    /// Whether any grant covers `scope`.
    pub fn covers(&self, scope: &Scope) -> bool {
        self.0.iter().any(|grant| grant.covers(scope))
    }

    /// Whether one of the grants covers everything that `grant` does. A holder of this set may then
    /// delegate `grant`.
    pub fn includes(&self, grant: &Grant) -> bool {
        self.0.iter().any(|held| includes(&held.0, &grant.0))
    }

    /// Returns the scopes of `required` that no grant covers.
    pub fn missing<'a>(&self, required: &'a [Scope]) -> impl Iterator<Item = &'a Scope> {
        required.iter().filter(|scope| !self.covers(scope))
    }

    /// The grants, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// Whether there are no grants.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn check(text: &str, wildcards: bool) -> Result<(), InvalidScope> {
    if text.len() > 256 {
        return Err(InvalidScope::TooLong);
    }
    for segment in text.split(':') {
        match segment {
            "" => return Err(InvalidScope::EmptySegment),
            "*" if wildcards => {}
            "*" => return Err(InvalidScope::Wildcard),
            _ if segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) => {}
            _ => return Err(InvalidScope::BadSegment),
        }
    }
    Ok(())
}

checked_text!(Scope, InvalidScope);
checked_text!(Grant, InvalidScope);

impl fmt::Debug for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter()).finish()
    }
}
impl From<Vec<Grant>> for ScopeSet {
    fn from(grants: Vec<Grant>) -> Self {
        Self::new(grants)
    }
}
impl FromIterator<Grant> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        Self::new(grants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(grant: &str, scope: &str) -> bool {
        Grant::parse(grant).unwrap().covers(&Scope::parse(scope).unwrap())
    }

    #[test]
    fn a_grant_covers_what_the_grammar_says() {
        for (grant, scope, expected) in [
            ("files:read", "files:read", true),
            ("files:read", "files:write", false),
            ("files", "files:read", false),
            ("files:read", "files", false),
            ("files:*", "files:read", true),
            ("files:*", "files:read:deep", true),
            ("files:*", "files", false),
            ("*:read", "files:read", true),
            ("*:read", "files:read:deep", false),
            ("a:*:c", "a:b:c", true),
            ("a:*:c", "a:b:b:c", false),
            ("*", "anything:at:all", true),
            ("Files:read", "files:read", false),
        ] {
            assert_eq!(covers(grant, scope), expected, "{grant} covers {scope}");
        }
    }

    /// I-61
    #[test]
    fn a_grant_that_is_included_covers_nothing_more() {
        let segments = ["a", "b", "*"];
        let mut grants = Vec::new();
        for one in segments {
            grants.push(one.to_owned());
            for two in segments {
                grants.push(format!("{one}:{two}"));
                grants.extend(segments.map(|three| format!("{one}:{two}:{three}")));
            }
        }
        // `c` is a segment that no grant here names, and four segments are deeper than all of them.
        let mut scopes = Vec::from(["a", "b", "c"].map(str::to_owned));
        for depth in 0..3 {
            let longest = |scope: &&String| scope.matches(':').count() == depth;
            let deeper: Vec<_> = scopes.iter().filter(longest).cloned().collect();
            scopes.extend(
                deeper.iter().flat_map(|scope| ["a", "b", "c"].map(|s| format!("{scope}:{s}"))),
            );
        }
        let parsed: Vec<Scope> = scopes.iter().map(|s| Scope::parse(s).unwrap()).collect();
        for held in &grants {
            let set = ScopeSet::parse([held.as_str()]).unwrap();
            for wanted in &grants {
                let wanted = Grant::parse(wanted).unwrap();
                let more = parsed.iter().find(|s| wanted.covers(s) && !set.covers(s));
                assert_eq!(set.includes(&wanted), more.is_none(), "{held} {wanted} {more:?}");
            }
        }
        assert!(ScopeSet::parse(["x:y", "*"]).unwrap().includes(&Grant::parse("*").unwrap()));
    }

    #[test]
    fn malformed_scopes_are_refused() {
        for text in ["", ":", "a:", ":a", "a::b", "a b", "a*", "ä", "a:**"] {
            assert!(Grant::parse(text).is_err(), "{text:?} is not a grant");
        }
        assert_eq!(Scope::parse("a:*"), Err(InvalidScope::Wildcard));
    }

    // I-8
    #[test]
    fn a_declared_scope_outside_the_grammar_is_covered_by_the_full_grant_alone() {
        let long = "a:".repeat(200) + "b";
        for text in ["", ":", "a:", "a:*", "*", "a b", "a::b", "ä", "files:rea d", long.as_str()] {
            let scope = Scope::declared(text);
            for grant in ["a", "a:*", "*:*", "*:b", "files:*", "a:b"] {
                assert!(!Grant::parse(grant).unwrap().covers(&scope), "{grant} {text:?}");
            }
            assert!(Grant::parse("*").unwrap().covers(&scope));
            assert!(Scope::parse(text).is_err());
        }
        assert!(Grant::parse("a:*").unwrap().covers(&Scope::declared("a:b")));
    }

    #[test]
    fn missing_scopes_are_named() {
        let held = ScopeSet::parse(["b:*", "a:read", "a:read"]).unwrap();
        let required = ["a:read", "b:x", "c"].map(|s| Scope::parse(s).unwrap());
        assert!(held.missing(&required).eq(required.last()));
        assert_eq!(held.iter().count(), 2);
    }
}
