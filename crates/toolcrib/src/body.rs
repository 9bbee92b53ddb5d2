//! Parses request bodies into the types that `openapi.json` describes.
//!
//! Invariant: a message never repeats the request. serde's messages quote it, so only the part
//! about the expected value is used.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;
use toolcrib_core::json::parse_strict;

#[derive(Debug, PartialEq)]
pub(crate) struct InvalidBody {
    /// The invalid member; empty for the body as a whole.
    pub(crate) member: String,
    /// The problem, without the member's name.
    pub(crate) problem: String,
}

impl InvalidBody {
    pub(crate) fn new(member: &str, problem: impl ToString) -> Self {
        Self { member: member.to_owned(), problem: problem.to_string() }
    }

    /// Describes the problem, with the member's name.
    pub(crate) fn message(&self) -> String {
        match self.member.as_str() {
            "" => self.problem.clone(),
            member => format!("`{member}` {}", self.problem),
        }
    }
}

/// Parses a JSON object as `T`.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, InvalidBody> {
    match parse_strict(body) {
        Ok(value) => from_value(value),
        Err(problem) => Err(InvalidBody::new("", format!("the body is not JSON: {problem}"))),
    }
}

/// Reads a JSON object as `T`. serde alone would accept an array in place of the object.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, InvalidBody> {
    if !value.is_object() {
        return Err(InvalidBody::new("", "the body must be a JSON object"));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut path = error.path().iter();
        let member = match path.next() {
            Some(Segment::Map { key }) => key,
            _ => "",
        };
        describe(member, path.next().is_none(), &error.inner().to_string())
    })
}

/// Describes serde's `problem` at `member`, or below it if not `direct`.
fn describe(member: &str, direct: bool, problem: &str) -> InvalidBody {
    if let Some(name) = problem.strip_prefix("missing field `") {
        return InvalidBody::new(name.trim_end_matches('`'), "is missing");
    }
    match problem.rsplit_once(", expected ") {
        // The path of an unknown member includes the member, which is part of the request.
        Some((unknown, expected)) if unknown.starts_with("unknown field") => match direct {
            true => {
                InvalidBody::new("", format!("unknown member of the body; expected {expected}"))
            }
            false => {
                InvalidBody::new(member, format!("has an unknown member; expected {expected}"))
            }
        },
        Some((_, "a map")) => InvalidBody::new(member, "must be an object"),
        Some((_, "a sequence")) => InvalidBody::new(member, "must be an array"),
        Some((_, expected)) => InvalidBody::new(member, format!("must be {expected}")),
        None => InvalidBody::new(member, problem),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Map;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        name: String,
        word: Option<Word>,
        input: Option<Map<String, Value>>,
        inner: Option<Inner>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Yes,
        No,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        number: u8,
    }

    #[test]
    fn a_message_names_the_member_and_never_repeats_the_request() {
        for (body, expected) in [
            ("{}", "`name` is missing"),
            (r#"{"name":"canary","name":"b"}"#, "the body is not JSON: a key appears twice"),
            (r#"["canary"]"#, "the body must be a JSON object"),
            (r#"{"name":["canary"]}"#, "`name` must be a string"),
            (r#"{"name":"","word":"canary, expected x"}"#, "`word` must be `yes` or `no`"),
            (r#"{"name":"","input":"canary"}"#, "`input` must be an object"),
            (
                r#"{"name":"","canary":1}"#,
                "unknown member of the body; expected one of `name`, `word`, `input`, `inner`",
            ),
            (
                r#"{"name":"","inner":{"canary":1}}"#,
                "`inner` has an unknown member; expected `number`",
            ),
            (r#"{"name":"","inner":{}}"#, "`number` is missing"),
        ] {
            let message = read::<Sample>(body.as_bytes()).unwrap_err().message();
            if expected.starts_with("the body is not JSON") {
                assert!(message.starts_with("the body is not JSON"), "{message}");
            } else {
                assert_eq!(message, expected, "{body}");
            }
            assert!(!message.contains("canary"), "{message}");
        }
        assert!(read::<Sample>(br#"{"name":"a","word":"yes","inner":{"number":1}}"#).is_ok());
    }
}
