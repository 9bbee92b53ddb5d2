//! Expectations of responses: each fails the check with the exchange.

use std::sync::Arc;

use serde_json::Value;

use super::exchange::{Exchange, Response};
use crate::{
    result::{CheckResult, fail, require},
    schema,
    value::{duplicate, kind},
};

impl Exchange {
    /// Parses the body as JSON; fails the check if it is not JSON.
    pub(crate) fn json(self: &Arc<Self>) -> CheckResult<&Value> {
        match &self.json {
            Some(json) => Ok(json),
            None => fail("a JSON body", "a body that is not JSON", &[self]),
        }
    }

    /// Fails the check unless `holds`.
    pub(crate) fn expect(
        self: &Arc<Self>,
        holds: bool,
        expected: impl Into<String>,
        seen: impl Into<String>,
    ) -> CheckResult {
        require(holds, expected, seen, &[self])
    }

    /// Fails the check unless the status is one of `expected`.
    pub(crate) fn expect_status(self: &Arc<Self>, expected: &[u16]) -> CheckResult {
        let names: Vec<String> = expected.iter().map(u16::to_string).collect();
        self.expect(
            expected.contains(&self.status),
            format!("status {}", names.join(" or ")),
            format!("status {}", self.status),
        )
    }

    /// Fails the check unless the status is from 400 to 499.
    pub(crate) fn expect_client_error(self: &Arc<Self>) -> CheckResult {
        let seen = format!("status {}", self.status);
        self.expect(self.is_client_error(), "a status from 400 to 499", seen)
    }

    /// Fails the check unless the content type is JSON.
    pub(crate) fn expect_json_type(self: &Arc<Self>) -> CheckResult {
        let seen = self.header("content-type").map(|kind| format!("content type `{kind}`"));
        let seen = seen.unwrap_or_else(|| "no content type".to_owned());
        self.expect(self.has_json_type(), "content type `application/json`", seen)
    }

    /// Fails the check unless `value`, a part of the body, is valid against `schema`.
    pub(crate) fn expect_valid(
        self: &Arc<Self>,
        value: &Value,
        schema: &Value,
        expected: impl Into<String>,
    ) -> CheckResult {
        match schema::violation(schema, value) {
            None => Ok(()),
            Some(violation) => fail(expected, violation, &[self]),
        }
    }

    /// The tools of a list: a bare array, or the member of an object with one of `names`.
    pub(crate) fn tool_list(self: &Arc<Self>, names: &[&str]) -> CheckResult<Vec<Value>> {
        let list = self.json()?;
        let member = || names.iter().find_map(|name| list.get(*name)?.as_array());
        match list.as_array().or_else(member) {
            Some(tools) => Ok(tools.clone()),
            None => {
                let expected =
                    format!("an array of tools, or an object with `{}`", names.join("` or `"));
                fail(expected, kind(list), &[self])
            }
        }
    }

    /// Fails the check unless `names` are unique.
    pub(crate) fn expect_unique<'a>(
        self: &Arc<Self>,
        names: impl Iterator<Item = &'a str>,
        expected: &str,
    ) -> CheckResult {
        let duplicate = duplicate(names);
        let seen = format!("`{}` twice", duplicate.unwrap_or_default());
        self.expect(duplicate.is_none(), expected, seen)
    }

    /// Fails the check with the first problem that `problem` finds in one of `tools`.
    pub(crate) fn expect_no_problem(
        self: &Arc<Self>,
        tools: &[Value],
        name: fn(&Value) -> &str,
        expected: &str,
        problem: impl Fn(&Value) -> Option<String>,
    ) -> CheckResult {
        match tools.iter().find_map(|tool| Some((name(tool), problem(tool)?))) {
            Some((name, problem)) => fail(expected, format!("`{name}`: {problem}"), &[self]),
            None => Ok(()),
        }
    }

    /// Fails the check unless the response has the challenge `WWW-Authenticate: Bearer`.
    pub(crate) fn expect_bearer_challenge(self: &Arc<Self>) -> CheckResult {
        let challenge = self.header("www-authenticate");
        let is_bearer =
            |text: &str| text.split([' ', ',']).any(|word| word.eq_ignore_ascii_case("bearer"));
        let expected = "`WWW-Authenticate: Bearer`";
        self.expect(challenge.is_some_and(is_bearer), expected, challenge.unwrap_or("none"))
    }

    /// Fails the check unless `details.retryAfterMs` agrees with `Retry-After`.
    pub(crate) fn expect_same_delay(self: &Arc<Self>, seconds: u64, millis: u64) -> CheckResult {
        let agrees = millis.abs_diff(seconds.saturating_mul(1000)) <= 1500;
        let seen = format!("{seconds} s and {millis} ms");
        self.expect(agrees, "`retryAfterMs` within 1.5 s of `Retry-After`", seen)
    }

    /// Fails the check unless the response is equal to `other` as far as a caller can see.
    pub(crate) fn expect_indistinguishable(self: &Arc<Self>, other: &Response) -> CheckResult {
        let seen = if self.status != other.status {
            format!("status {} and {}", self.status, other.status)
        } else if self.body != other.body {
            "different bodies".to_owned()
        } else if self.stable_headers() != other.stable_headers() {
            "different headers".to_owned()
        } else {
            return Ok(());
        };
        fail("two indistinguishable responses", seen, &[self, other])
    }
}
