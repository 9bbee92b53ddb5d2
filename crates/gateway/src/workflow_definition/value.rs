//! The result of a step, for references to it.

use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::{Value, value::RawValue};
use toolcrib_core::{call::Outcome, json};

/// The result of a step for later steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepValue {
    pub(crate) status: Status,
    /// Structured output; otherwise the text, parsed as JSON if it is an object or an array. For a
    /// step with `for_each`, an array of those. Absent if the step produced no result.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) result: Option<Value>,
    /// The text blocks, joined by line breaks.
    #[serde(default)]
    pub(crate) text: String,
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Ok,
    Failed,
    Skipped,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl StepValue {
    /// Creates an empty value with this status.
    pub(crate) fn nothing(status: Status) -> Self {
        Self { status, result: None, text: String::new() }
    }

    /// The value of a result of a tool.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let text = text_of(outcome);
        let structured = outcome.structured.as_ref();
        let structured = structured.and_then(|raw| json::parse(raw.get()).ok());
        let result = structured.unwrap_or_else(|| match json::parse(&text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
            Ok(_) | Err(_) => Value::String(text.clone()),
        });
        Self { status: Status::Ok, result: Some(result), text }
    }

    /// Combines the calls of a step with `for_each`, in the order of the items.
    pub(crate) fn of_items(items: Vec<Self>) -> Self {
        let failed = items.iter().any(|item| item.status == Status::Failed);
        let texts: Vec<&str> = items.iter().map(|item| &*item.text).collect();
        Self {
            status: if failed { Status::Failed } else { Status::Ok },
            text: texts.join("\n"),
            result: Some(items.into_iter().map(|item| item.result.unwrap_or_default()).collect()),
        }
    }

    /// Its approximate size in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.text.len() + self.result.as_ref().map_or(0, weight)
    }
}

fn text_of(outcome: &Outcome) -> String {
    let blocks: Vec<Value> = serde_json::from_str(outcome.content.get()).unwrap_or_default();
    let texts: Vec<&str> =
        blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect();
    texts.join("\n")
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => 16 + text.len(),
        Value::Array(items) => 16 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => {
            16 + members.iter().map(|(name, value)| name.len() + weight(value)).sum::<usize>()
        }
    }
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    // Reading a number as a `Value` may change its text.
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    json::parse(raw.get()).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_core::call;

    use super::*;

    #[test]
    fn a_result_is_what_is_structured_or_else_what_the_text_says() {
        let result = |text: &str| StepValue::of(&Outcome::text(text, false)).result.unwrap();
        assert_eq!(result("{\"a\": 1}"), json!({ "a": 1 }));
        assert_eq!(result("12"), json!("12"), "a text that happens to be a number stays one");
        assert_eq!(result("plain"), json!("plain"));
        let structured = Outcome {
            structured: Some(call::raw(&Value::Null)),
            ..Outcome::text("{\"a\": 1}", false)
        };
        assert_eq!(StepValue::of(&structured).result, Some(Value::Null));
        let kept = serde_json::to_string(&StepValue::of(&structured)).unwrap();
        let read: StepValue = serde_json::from_str(&kept).unwrap();
        assert_eq!(read, StepValue::of(&structured), "null is a result, nothing is none");
    }
}
