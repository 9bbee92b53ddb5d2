//! The conditions of a `conditional` approval: the tool's tier, or single arguments. There is no
//! expression language: a condition is true when any of its tests is.
//!
//! Invariant (I-15): a test that cannot be evaluated counts as true.
//!
//! Tests read arguments only. In a further round, answers and state can change the effect of the
//! same arguments, so there a test of arguments cannot be evaluated.

use regex::Regex;
use serde_json::{Number, Value};

use crate::{
    call::{CallInput, Round},
    descriptor::SafetyTier,
    number,
    text::visible_line,
};

/// Requires approval when any of its tests is true.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Condition {
    /// The tool is of one of these tiers.
    pub tiers: Vec<SafetyTier>,
    /// One of the arguments matches one of these rules.
    pub arguments: Vec<ArgumentRule>,
}

/// A test of one argument.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentRule {
    /// The argument's place: a JSON pointer into the arguments.
    pub pointer: String,
    /// The test that triggers approval.
    pub test: Test,
}

/// The tests of an argument.
#[derive(Debug, Clone)]
pub enum Test {
    /// The argument equals this value.
    Equals(Value),
    /// The argument is a string that this pattern matches.
    Matches(Regex),
    /// The argument is a number greater than this.
    Above(f64),
}

impl PartialEq for Test {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Equals(one), Self::Equals(two)) => one == two,
            (Self::Matches(one), Self::Matches(two)) => one.as_str() == two.as_str(),
            (Self::Above(one), Self::Above(two)) => one == two,
            (Self::Equals(_) | Self::Matches(_) | Self::Above(_), _) => false,
        }
    }
}

impl Condition {
    /// Whether any test is true, or cannot be evaluated, for a call with `input` of a tool of
    /// `tier`. A condition without tests is always true.
    pub fn may_hold(&self, tier: SafetyTier, input: &CallInput) -> bool {
        let Self { tiers, arguments: rules } = self;
        // The context of a trace reaches no rule.
        let CallInput { arguments, caller: _, meta: _ } = input;
        let certain = |rule: &ArgumentRule| match input.round() {
            None => rule.holds(arguments),
            Some(Round { responses: _, state: _ }) => None,
        };
        (tiers.is_empty() && rules.is_empty())
            || tiers.contains(&tier)
            || rules.iter().any(|rule| certain(rule).unwrap_or(true))
    }
}

/// Longest value of an argument in a reason, in characters.
const MAX_SHOWN: usize = 60;

impl Condition {
    /// The reasons why a call requires approval: a sentence without a full stop for each test that
    /// is true or cannot be evaluated. `arguments` are those that the reader may see; tests that
    /// are true only for hidden values are left out.
    pub fn reasons(&self, tier: SafetyTier, arguments: &Value) -> Vec<String> {
        let of_tier = self
            .tiers
            .contains(&tier)
            .then(|| format!("every call of a tool of the tier {} requires it", tier.as_str()));
        of_tier
            .into_iter()
            .chain(self.arguments.iter().filter_map(|rule| rule.reason(arguments)))
            .collect()
    }
}

impl ArgumentRule {
    fn reason(&self, arguments: &Value) -> Option<String> {
        let holds = self.holds(arguments);
        if holds == Some(false) {
            return None;
        }
        let name = visible_line(self.pointer.trim_start_matches('/'));
        let shown = |value: &Value| {
            let text = visible_line(&value.to_string()).into_owned();
            match text.char_indices().nth(MAX_SHOWN) {
                Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
                None => text,
            }
        };
        let value = arguments.pointer(&self.pointer);
        Some(match (value, &self.test) {
            (Some(value), Test::Above(bound)) if holds.is_some() => {
                format!("`{name}` {} is above {bound}", shown(value))
            }
            (Some(value), Test::Matches(pattern)) if holds.is_some() => {
                format!("`{name}` {} matches `{pattern}`", shown(value))
            }
            (Some(value), Test::Equals(_)) if holds.is_some() => {
                format!("`{name}` is {}", shown(value))
            }
            (None, _) => format!("`{name}` is not given, so its rule cannot be checked"),
            (Some(_), _) => format!("`{name}` has another type than its rule expects"),
        })
    }

    /// `None` if the argument is missing, or if the test does not apply to its type.
    fn holds(&self, arguments: &Value) -> Option<bool> {
        let argument = arguments.pointer(&self.pointer)?;
        match &self.test {
            Test::Equals(Value::Number(expected)) => {
                Some(number::compare(argument.as_number()?, expected).is_eq())
            }
            Test::Equals(expected) => Some(is_same(argument, expected)),
            Test::Matches(pattern) => Some(pattern.is_match(argument.as_str()?)),
            Test::Above(bound) => {
                let bound = Number::from_f64(*bound)?;
                Some(number::compare(argument.as_number()?, &bound).is_gt())
            }
        }
    }
}

/// Whether both are the same value. 1 and 1.0 are the same number.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => number::compare(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reason_names_the_argument_its_value_and_the_rule() {
        let rule = |pointer: &str, test| ArgumentRule { pointer: pointer.to_owned(), test };
        let condition = Condition {
            tiers: vec![SafetyTier::Write],
            arguments: vec![
                rule("/amount", Test::Above(100.0)),
                rule("/path", Test::Matches(Regex::new("^/etc/").unwrap())),
                rule("/env", Test::Equals(json!("prod"))),
                rule("/to/name", Test::Equals(json!("eve"))),
            ],
        };
        let reasons = |arguments: Value| condition.reasons(SafetyTier::Read, &arguments);
        assert_eq!(
            reasons(
                json!({ "amount": 980, "path": "/etc/a", "env": "prod", "to": { "name": "bob" } })
            ),
            [
                "`amount` 980 is above 100",
                "`path` \"/etc/a\" matches `^/etc/`",
                "`env` is \"prod\""
            ]
        );
        assert_eq!(
            reasons(json!({ "amount": "980", "path": "/tmp", "env": "test" })),
            [
                "`amount` has another type than its rule expects",
                "`to/name` is not given, so its rule cannot be checked"
            ]
        );
        assert_eq!(
            condition.reasons(
                SafetyTier::Write,
                &json!({ "amount": 1, "path": "", "env": "", "to": { "name": "" } })
            ),
            ["every call of a tool of the tier write requires it"]
        );
    }

    #[test]
    fn a_test_is_true_false_or_undecidable() {
        let text = r#"{ "env": "prod", "path": "/etc/passwd", "n": 7, "deep": [{ "x": 1 }],
                        "id": 9007199254740993, "huge": 1e400 }"#;
        let arguments: Value = serde_json::from_str(text).unwrap();
        let pattern = |text: &str| Test::Matches(Regex::new(text).unwrap());
        for (pointer, test, holds) in [
            ("/env", Test::Equals(json!("prod")), Some(true)),
            ("/env", Test::Equals(json!("test")), Some(false)),
            ("/n", Test::Equals(json!(7.0)), Some(true)),
            ("/env", Test::Equals(json!(7)), None),
            ("/deep", Test::Equals(json!([{ "x": 1.0 }])), Some(true)),
            ("/deep", Test::Equals(json!([{ "x": 2 }])), Some(false)),
            ("/deep", Test::Equals(json!([{ "x": 1, "y": 1 }])), Some(false)),
            ("/none", Test::Equals(json!(null)), None),
            ("/path", pattern("^/etc/"), Some(true)),
            ("/path", pattern("^/tmp/"), Some(false)),
            ("/n", pattern("7"), None),
            ("/n", Test::Above(6.5), Some(true)),
            ("/id", Test::Equals(json!(9_007_199_254_740_992_u64)), Some(false)),
            ("/huge", Test::Above(1e300), Some(true)),
            ("/n", Test::Above(7.0), Some(false)),
            ("/env", Test::Above(7.0), None),
            ("/deep/0/x", Test::Above(0.0), Some(true)),
        ] {
            let rule = ArgumentRule { pointer: pointer.to_owned(), test };
            assert_eq!(rule.holds(&arguments), holds, "{rule:?}");
        }
    }

    #[test]
    fn a_condition_without_tests_requires_approval() {
        assert!(Condition::default().may_hold(SafetyTier::Pure, &json!({}).into()));
    }
}
