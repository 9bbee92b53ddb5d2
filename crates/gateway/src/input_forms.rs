//! The input of one call, in the forms that several steps need. Each form is computed at most once,
//! on first use.
//!
//! Invariant (I-9): work whose cost depends on the input starts only after the permit.
//! Invariant (I-102): each form mentions every member of the input, used or not.

use std::sync::OnceLock;

use serde_json::{Map, Value};
use toolcrib_core::{
    approval::{Argument, RoundShape},
    call::{CallInput, CallerInput, Round},
    canonical,
    redact::Redactor,
};

use crate::arguments_hash::ArgumentsHash;

/// The input of one call.
pub(crate) struct InputForms {
    input: CallInput,
    exact: OnceLock<Vec<u8>>,
    redacted: OnceLock<Value>,
    hash: OnceLock<String>,
}

/// The members of an input that its source receives.
pub(crate) struct SourceInput {
    pub(crate) arguments: Map<String, Value>,
    pub(crate) caller: Option<CallerInput>,
    pub(crate) meta: Map<String, Value>,
}

impl From<CallInput> for InputForms {
    fn from(input: CallInput) -> Self {
        let (exact, redacted, hash) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { input, exact, redacted, hash }
    }
}

impl InputForms {
    /// The input as the caller sent it.
    pub(crate) fn sent(&self) -> &CallInput {
        &self.input
    }

    /// The arguments as the caller sent them.
    pub(crate) fn arguments(&self) -> &Value {
        &self.input.arguments
    }

    /// Identifies the call: the canonical form of the exact arguments, with all digits, and of the
    /// answers and the state of a further round.
    pub(crate) fn exact(&self) -> &[u8] {
        self.exact.get_or_init(|| {
            // Two attempts of one call have two traces.
            let CallInput { arguments, caller: _, meta: _ } = &self.input;
            let mut bytes = canonical::exact_bytes(arguments);
            if let Some(round) = self.input.round() {
                // Canonical forms never contain a zero byte.
                bytes.push(0);
                bytes.extend(canonical::exact_bytes(&round.to_json()));
            }
            bytes
        })
    }

    /// The arguments with secrets replaced.
    fn redacted(&self) -> &Value {
        self.redacted.get_or_init(|| Redactor::default().value(&self.input.arguments))
    }

    /// The input for approvers, as JSON with secrets replaced: the arguments, and the answers and
    /// the state of a further round.
    pub(crate) fn shown(&self) -> Value {
        let CallInput { arguments: _, caller: _, meta: _ } = &self.input;
        let round = self.input.round().map(|round| Redactor::default().value(&round.to_json()));
        let mut shown = match round {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        shown.insert("arguments".to_owned(), self.redacted().clone());
        Value::Object(shown)
    }

    /// `argsHash` (RFC 0064 §B): redacted, in the canonical form of RFC 8785, hashed by `form`. It
    /// only covers the arguments, as the protocol defines. A server has one form.
    pub(crate) fn hash(&self, form: &ArgumentsHash) -> &str {
        self.hash.get_or_init(|| form.of(self.redacted()))
    }

    /// The names and types of the arguments, the number of further ones, and the shape of a further
    /// round.
    pub(crate) fn shape(&self) -> (Vec<Argument>, usize, Option<RoundShape>) {
        let CallInput { arguments, caller: _, meta: _ } = &self.input;
        let (arguments, more) = arguments.as_object().map(Argument::shape).unwrap_or_default();
        let round = self.input.round().map(|Round { responses, state }| {
            let (responses, more_responses) = responses.map(Argument::shape).unwrap_or_default();
            RoundShape { responses, more_responses, state_bytes: state.map(str::len) }
        });
        (arguments, more, round)
    }

    /// The input for the source. The arguments are empty if they are not an object, which
    /// validation has rejected before.
    pub(crate) fn into_source(self) -> SourceInput {
        let CallInput { arguments, caller, meta } = self.input;
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        SourceInput { arguments, caller, meta }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn input(responses: Option<Value>, state: Option<&str>) -> InputForms {
        let caller = CallerInput {
            capabilities: Map::from_iter([("roots".to_owned(), json!({}))]),
            responses: responses.and_then(|responses| responses.as_object().cloned()),
            state: state.map(str::to_owned),
            is_repeated: false,
        };
        let arguments = json!({ "to": "bob", "amount": 1 });
        InputForms::from(CallInput { arguments, caller: Some(caller), meta: Map::new() })
    }

    // I-102
    #[test]
    fn each_member_of_a_further_round_identifies_the_call() {
        let plain = InputForms::from(CallInput::from(json!({ "amount": 1, "to": "bob" })));
        let exact = |forms: &InputForms| forms.exact().to_vec();
        assert_eq!(exact(&plain), br#"{"amount":1,"to":"bob"}"#, "arguments alone have one form");
        assert_eq!(exact(&input(None, None)), exact(&plain), "capabilities identify no call");
        let rounds = [
            plain,
            input(Some(json!({})), None),
            input(Some(json!({ "who": { "action": "accept" } })), None),
            input(Some(json!({ "who": { "action": "decline" } })), None),
            input(Some(json!({ "who": { "action": "accept" } })), Some("s")),
            input(None, Some("s")),
            input(None, Some("t")),
            input(None, Some("")),
        ];
        let forms: std::collections::BTreeSet<_> = rounds.iter().map(exact).collect();
        assert_eq!(forms.len(), rounds.len());
        let hashes: std::collections::BTreeSet<_> =
            rounds.iter().map(|round| round.hash(&ArgumentsHash::Plain).to_owned()).collect();
        assert_eq!(hashes.len(), 1, "`argsHash` is the one of the arguments");
    }

    // I-102
    #[test]
    fn an_approver_is_shown_each_member_without_secrets() {
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let round = input(Some(json!({ "who": { "name": "eve", "key": secret } })), Some("s7"));
        let shown = round.shown();
        assert_eq!(shown["arguments"], json!({ "to": "bob", "amount": 1 }));
        assert_eq!(shown["inputResponses"]["who"]["name"], "eve");
        assert_eq!(shown["requestState"], "s7");
        assert!(!shown.to_string().contains(&secret), "{shown}");
        let (arguments, more, shape) = round.shape();
        assert_eq!((arguments.len(), more), (2, 0));
        let shape = shape.unwrap();
        assert_eq!((shape.responses[0].name.as_str(), shape.state_bytes), ("who", Some(2)));
    }
}
