//! Input requests of tools: the caller's capabilities and answers, and the upstream's requests.
//!
//! These are the multi round trip requests of MCP 2026-07-28. A tool may answer a call with
//! requests for more input. The caller collects the answers and calls again, with the answers and
//! with the upstream's state. This host keeps no state in between: every round is a call.
//!
//! Invariant (I-50): an upstream learns only the capabilities of the caller of this one call. Its
//! requests reach only a caller that declared support for them.
//!
//! Invariant (I-20): answers and state are content, and these types never print them.

use std::fmt;

use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use crate::json::parse_strict;

/// The caller capabilities that concern input requests. Only these are forwarded.
pub const CAPABILITIES: [&str; 3] = ["elicitation", "sampling", "roots"];
/// The members of these capabilities. Others are not forwarded, because approvers do not see them.
const MEMBERS: [&str; 5] = ["form", "url", "context", "tools", "listChanged"];

/// The most input requests at once.
pub const MAX_REQUESTS: usize = 32;
/// The longest key of a request, in bytes.
const MAX_KEY: usize = 256;
/// The longest state, in bytes of JSON; callers send it back with every round.
pub const MAX_STATE: usize = 64 << 10;
/// The largest list of capabilities that an upstream may require of a caller, in bytes of JSON.
const MAX_WANTED: usize = 2 << 10;

/// The messages for callers whose client shows no question.
pub(super) const REQUIRES_INPUT: &str = "the tool requires more input; call it with an MCP client of revision 2026-07-28 that declares the capability for it";
pub(super) const REQUIRES_CAPABILITIES: &str = "the tool works only for callers that accept input requests; call it with an MCP client of revision 2026-07-28 that declares the capability";
const REJECTS_INPUT: &str = "the tool's source rejected the answers or the state of an earlier round; call the tool again without them";

/// The data that the caller of one call sent, as far as it can reach an upstream.
///
/// Invariant (I-102): everything that decides about a call, identifies it or shows it takes this
/// value and names each of its members, so that a new member cannot be forgotten in one place.
#[derive(Clone, Default, PartialEq)]
pub struct CallInput {
    /// The arguments; validation rejects anything but an object.
    pub arguments: Value,
    /// The capabilities and answers of a caller that accepts input requests; `None` if it does not.
    pub caller: Option<CallerInput>,
    /// The context of the caller's trace. It differs between two attempts of one call, so it does
    /// not identify a call.
    pub meta: Map<String, Value>,
}

/// The content of a further round of a call, in addition to its arguments.
#[derive(Clone, Copy, PartialEq)]
pub struct Round<'a> {
    /// The answers to the requests of an earlier round.
    pub responses: Option<&'a Map<String, Value>>,
    /// The state that the upstream gave with its requests, or the text that the caller sent
    /// instead.
    pub state: Option<&'a str>,
}

/// The input capabilities and answers of the caller of one call.
#[derive(Clone, Default, PartialEq)]
pub struct CallerInput {
    /// The members of [`CAPABILITIES`] that it declared. They contain only names of the protocol
    /// with booleans and empty objects.
    pub capabilities: Map<String, Value>,
    /// Its answers to the requests of an earlier round.
    pub responses: Option<Map<String, Value>>,
    /// The state that it received in an earlier round.
    pub state: Option<String>,
    /// Whether the caller repeats a call after it was prompted to open the link of an approval.
    /// Clients repeat it immediately, before a person can have approved it.
    pub is_repeated: bool,
}

/// The input requests of an upstream. The JSON is the upstream's own text, checked but not
/// rewritten.
#[derive(Clone)]
pub struct InputRequired {
    requests: Option<Box<RawValue>>,
    state: Option<Box<RawValue>>,
}

/// An upstream's reply in place of a result, on which the caller can act.
#[derive(Clone)]
pub enum Question {
    /// It requires input.
    Input(InputRequired),
    /// It requires a caller that declares these capabilities.
    Capabilities(Map<String, Value>),
    /// It rejects the answers or the state of an earlier round, in its own words.
    Rejected(String),
}

/// Why an upstream's input requests are not forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputRequestProblem {
    /// They violate the form of the protocol.
    Malformed(&'static str),
    /// The caller accepts no input requests, or not these.
    Undeclared,
}

// === impl CallInput ===

impl CallInput {
    /// The answers and the state of a further round; `None` for the first round of a call.
    pub fn round(&self) -> Option<Round<'_>> {
        let Self { arguments: _, caller, meta: _ } = self;
        caller.as_ref()?.round()
    }
}

/// The first round of a call with these arguments.
impl From<Value> for CallInput {
    fn from(arguments: Value) -> Self {
        Self { arguments, ..Self::default() }
    }
}

/// Prints no content.
impl fmt::Debug for CallInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallInput").field("caller", &self.caller).finish_non_exhaustive()
    }
}

// === impl Round ===

impl Round<'_> {
    /// The round as JSON under the names of the protocol.
    pub fn to_json(self) -> Value {
        let Self { responses, state } = self;
        let responses =
            responses.map(|members| ("inputResponses".to_owned(), members.clone().into()));
        let state = state.map(|text| ("requestState".to_owned(), text.into()));
        Value::Object(responses.into_iter().chain(state).collect())
    }
}

// === impl CallerInput ===

impl CallerInput {
    /// Creates the input of a caller that declared `capabilities`, ignoring unknown ones.
    pub fn declaring(capabilities: &Map<String, Value>) -> Self {
        let capabilities = CAPABILITIES.iter().filter_map(|key| {
            let declared = capabilities.get(*key)?.as_object()?;
            let known = declared.iter().filter(|(name, _)| MEMBERS.contains(&name.as_str()));
            let known = known.filter_map(|(name, value)| match value {
                Value::Bool(_) => Some((name.clone(), value.clone())),
                Value::Object(_) => Some((name.clone(), Map::new().into())),
                _ => None,
            });
            Some(((*key).to_owned(), Value::Object(known.collect())))
        });
        Self { capabilities: capabilities.collect(), ..Self::default() }
    }

    /// The same as [`CallInput::round`].
    pub fn round(&self) -> Option<Round<'_>> {
        let Self { capabilities: _, responses, state, is_repeated: _ } = self;
        let (responses, state) = (responses.as_ref(), state.as_deref());
        (responses.is_some() || state.is_some()).then_some(Round { responses, state })
    }

    /// Whether the caller accepts `method` with these parameters.
    fn answers(&self, method: Method, params: Option<&Map<String, Value>>) -> bool {
        let param = |key: &str| params.and_then(|params| params.get(key));
        let declared = |key: &str| self.capabilities.get(key).and_then(Value::as_object);
        match method {
            Method::Elicit => {
                let url = param("mode").and_then(Value::as_str) == Some("url");
                // Without an explicit mode, the capability means forms.
                declared("elicitation").is_some_and(|modes| match url {
                    true => modes.contains_key("url"),
                    false => modes.contains_key("form") || !modes.contains_key("url"),
                })
            }
            Method::Sample => {
                let tools = param("tools").is_some() || param("toolChoice").is_some();
                declared("sampling").is_some_and(|more| !tools || more.contains_key("tools"))
            }
            Method::Roots => declared("roots").is_some(),
        }
    }
}

/// Prints only names and counts.
impl fmt::Debug for CallerInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerInput")
            .field("capabilities", &self.capabilities.keys().collect::<Vec<_>>())
            .field("responses", &self.responses.as_ref().map(Map::len))
            .field("state", &self.state.is_some())
            .finish()
    }
}

// === impl InputRequired ===

/// The methods of input requests.
#[derive(Clone, Copy)]
enum Method {
    Elicit,
    Sample,
    Roots,
}

/// The prefix of the names of this program's own requests and states.
pub const RESERVED: &str = "toolcrib.";

impl InputRequired {
    /// Checks `inputRequests` and `requestState` of an upstream for `caller`.
    ///
    /// # Errors
    /// Fails with [`InputRequestProblem`] if they violate the form of the protocol, or if `caller`
    /// did not declare support.
    pub fn read(
        requests: Option<&RawValue>,
        state: Option<&RawValue>,
        caller: Option<&CallerInput>,
    ) -> Result<Self, InputRequestProblem> {
        use InputRequestProblem::{Malformed, Undeclared};
        if let Some(state) = state {
            if state.get().len() > MAX_STATE {
                return Err(Malformed("the state is too large"));
            }
            // Parses it completely: not every string token is valid.
            if serde_json::from_str::<String>(state.get()).is_err() {
                return Err(Malformed("the state is not a string"));
            }
        }
        let parsed = match requests {
            None => Map::new(),
            // Parses strictly, so that every reader sees the JSON that is checked here.
            Some(requests) => match parse_strict(requests.get().as_bytes()) {
                Ok(Value::Object(parsed)) => parsed,
                Ok(_) => return Err(Malformed("the requests are not an object")),
                Err(_) => return Err(Malformed("the requests are not acceptable JSON")),
            },
        };
        if parsed.is_empty() && state.is_none() {
            return Err(Malformed("there are neither requests nor a state"));
        }
        if parsed.len() > MAX_REQUESTS {
            return Err(Malformed("there are too many requests at once"));
        }
        let mut declared = true;
        for (key, request) in &parsed {
            if key.len() > MAX_KEY {
                return Err(Malformed("the key of a request is too long"));
            }
            let (method, params) = request_of(request).map_err(Malformed)?;
            declared &= caller.is_some_and(|caller| caller.answers(method, params));
        }
        // A caller without input support cannot return a state either.
        if !declared || caller.is_none() {
            return Err(Undeclared);
        }
        Ok(Self { requests: requests.map(ToOwned::to_owned), state: state.map(ToOwned::to_owned) })
    }

    /// Whether the key of a request, or the state, has the prefix of this program ([`RESERVED`]). A
    /// caller would mistake the request for one of the gate.
    pub fn is_reserved(&self) -> bool {
        let requests = self.requests().map(RawValue::get).map(serde_json::from_str);
        let requests: Map<String, Value> = requests.and_then(Result::ok).unwrap_or_default();
        let state = self.state().map(RawValue::get).map(serde_json::from_str::<String>);
        let state = state.and_then(Result::ok);
        requests.keys().chain(&state).any(|name| name.starts_with(RESERVED))
    }

    /// The JSON object of requests, by key.
    pub fn requests(&self) -> Option<&RawValue> {
        self.requests.as_deref()
    }

    /// The JSON string that the caller sends back.
    pub fn state(&self) -> Option<&RawValue> {
        self.state.as_deref()
    }

    /// The size of the JSON in bytes.
    pub fn len(&self) -> usize {
        let len = |json: Option<&RawValue>| json.map_or(0, |json| json.get().len());
        len(self.requests()) + len(self.state())
    }

    /// Always false: there are requests or a state.
    pub fn is_empty(&self) -> bool {
        self.requests.is_none() && self.state.is_none()
    }
}

/// Method and parameters of one request.
type InputRequestParts<'a> = (Method, Option<&'a Map<String, Value>>);

fn request_of(request: &Value) -> Result<InputRequestParts<'_>, &'static str> {
    let request = request.as_object().ok_or("a request is not an object")?;
    let method = match request.get("method").and_then(Value::as_str) {
        Some("elicitation/create") => Method::Elicit,
        Some("sampling/createMessage") => Method::Sample,
        Some("roots/list") => Method::Roots,
        Some(_) => return Err("a request has an unsupported method"),
        None => return Err("a request has no method"),
    };
    match (method, request.get("params")) {
        (_, Some(Value::Object(params))) => Ok((method, Some(params))),
        (Method::Roots, None) => Ok((method, None)),
        (_, None) => Err("a request has no parameters"),
        (_, Some(_)) => Err("the parameters of a request are not an object"),
    }
}

impl fmt::Debug for InputRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputRequired({} bytes)", self.len())
    }
}

// === impl Question ===

impl Question {
    /// Creates the question about missing capabilities. Returns `None` if the upstream requires one that
    /// no caller can declare, because declaring the others would not help.
    pub fn capabilities(wanted: &Value) -> Option<Self> {
        let wanted = wanted.as_object().filter(|wanted| !wanted.is_empty())?;
        let known = |(key, value): (&String, &Value)| {
            CAPABILITIES.contains(&key.as_str()) && value.is_object()
        };
        let fits = to_raw_value(wanted).is_ok_and(|json| json.get().len() <= MAX_WANTED);
        (fits && wanted.iter().all(known)).then(|| Self::Capabilities(wanted.clone()))
    }

    /// The stable code for events and error bodies.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Input(_) => "input_required",
            Self::Capabilities(_) => "capability_required",
            Self::Rejected(_) => "input_rejected",
        }
    }
}

/// Safe for every caller: it has no words of the upstream.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input(_) => REQUIRES_INPUT,
            Self::Capabilities(_) => REQUIRES_CAPABILITIES,
            Self::Rejected(_) => REJECTS_INPUT,
        })
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(input) => input.fmt(f),
            Self::Capabilities(wanted) => {
                f.debug_tuple("Capabilities").field(&wanted.keys().collect::<Vec<_>>()).finish()
            }
            Self::Rejected(_) => f.write_str("Rejected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declaring(capabilities: Value) -> CallerInput {
        CallerInput::declaring(capabilities.as_object().unwrap())
    }

    fn read(
        requests: Option<&str>,
        state: Option<&str>,
        caller: Option<&CallerInput>,
    ) -> Result<InputRequired, InputRequestProblem> {
        let json = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let (requests, state) = (requests.map(json), state.map(json));
        InputRequired::read(requests.as_deref(), state.as_deref(), caller)
    }

    // I-50
    #[test]
    fn a_caller_gets_only_requests_that_it_declared_support_for() {
        let form = json!({ "method": "elicitation/create", "params": { "message": "m" } });
        let url = json!({ "method": "elicitation/create", "params": { "mode": "url" } });
        let sample = json!({ "method": "sampling/createMessage", "params": {} });
        let agent = json!({ "method": "sampling/createMessage", "params": { "tools": [] } });
        let roots = json!({ "method": "roots/list" });
        for (capabilities, request, passes) in [
            (json!({ "elicitation": {} }), &form, true),
            (json!({ "elicitation": {} }), &url, false),
            (json!({ "elicitation": { "form": {} } }), &form, true),
            (json!({ "elicitation": { "url": {} } }), &form, false),
            (json!({ "elicitation": { "url": {} } }), &url, true),
            (json!({ "elicitation": true }), &form, false),
            (json!({ "sampling": {} }), &form, false),
            (json!({ "sampling": {} }), &sample, true),
            (json!({ "sampling": {} }), &agent, false),
            (json!({ "sampling": { "tools": {} } }), &agent, true),
            (json!({ "roots": {} }), &roots, true),
            (json!({ "elicitation": {}, "sampling": {} }), &roots, false),
            (json!({}), &roots, false),
        ] {
            let caller = declaring(capabilities.clone());
            let text = json!({ "key": request }).to_string();
            let read = read(Some(&text), None, Some(&caller));
            match passes {
                true => assert_eq!(read.unwrap().requests().unwrap().get(), text),
                false => {
                    let why = read.unwrap_err();
                    assert_eq!(why, InputRequestProblem::Undeclared, "{capabilities} {request}");
                }
            }
        }
        // One undeclared request invalidates the others, and without a caller all are undeclared.
        let both = json!({ "a": roots, "b": form }).to_string();
        let caller = declaring(json!({ "roots": {} }));
        assert_eq!(
            read(Some(&both), None, Some(&caller)).unwrap_err(),
            InputRequestProblem::Undeclared
        );
        assert_eq!(read(None, Some("\"s\""), None).unwrap_err(), InputRequestProblem::Undeclared);
        assert!(read(None, Some("\"s\""), Some(&CallerInput::default())).is_ok());
    }

    // I-27
    #[test]
    fn input_requests_have_a_form_and_bounds() {
        let caller = declaring(json!({ "elicitation": {}, "sampling": {}, "roots": {} }));
        let roots = r#"{"method":"roots/list"}"#;
        let many = |count: usize| {
            let requests: Vec<_> = (0..count).map(|n| format!("\"k{n}\":{roots}")).collect();
            format!("{{{}}}", requests.join(","))
        };
        assert!(read(Some(&many(MAX_REQUESTS)), None, Some(&caller)).is_ok());
        for requests in [
            "[]",
            "7",
            "\"text\"",
            "{}",
            r#"{"a":null}"#,
            r#"{"a":{}}"#,
            r#"{"a":{"method":7,"params":{}}}"#,
            r#"{"a":{"method":"tools/call","params":{}}}"#,
            r#"{"a":{"method":"elicitation/create"}}"#,
            r#"{"a":{"method":"elicitation/create","params":[]}}"#,
            r#"{"a":{"method":"roots/list","params":null}}"#,
            r#"{"a":{"method":"roots/list","method":"elicitation/create","params":{}}}"#,
            r#"{"a":{"method":"elicitation/create","params":{"message":"\ud800"}}}"#,
            &many(MAX_REQUESTS + 1),
            &format!("{{\"{}\":{roots}}}", "k".repeat(MAX_KEY + 1)),
        ] {
            let why = read(Some(requests), None, Some(&caller)).unwrap_err();
            assert!(matches!(why, InputRequestProblem::Malformed(_)), "{requests}");
        }
        let long = format!("\"{}\"", "s".repeat(MAX_STATE));
        for state in ["7", "{}", r#""\ud800""#, &long] {
            let why = read(None, Some(state), Some(&caller)).unwrap_err();
            assert!(matches!(why, InputRequestProblem::Malformed(_)), "{state:.20}");
        }
        assert!(matches!(read(None, None, Some(&caller)), Err(InputRequestProblem::Malformed(_))));
    }

    #[test]
    fn only_capabilities_that_callers_can_declare_are_required() {
        for (wanted, passes) in [
            (json!({ "sampling": {} }), true),
            (json!({ "elicitation": { "url": {} }, "roots": {} }), true),
            (json!({}), false),
            (json!(["sampling"]), false),
            (json!({ "sampling": true }), false),
            (json!({ "sampling": {}, "extensions": {} }), false),
            (json!({ "sampling": { "x": "y".repeat(MAX_WANTED) } }), false),
        ] {
            assert_eq!(Question::capabilities(&wanted).is_some(), passes, "{wanted}");
        }
    }

    // I-20
    #[test]
    fn nothing_of_the_content_is_printed() {
        let mut caller = declaring(json!({ "roots": { "x": "hush" } }));
        caller.responses = Some(Map::from_iter([("hush".to_owned(), json!("hush"))]));
        caller.state = Some("hush".to_owned());
        let requests = r#"{"hush":{"method":"roots/list","params":{"hush":1}}}"#;
        let input = read(Some(requests), Some("\"hush\""), Some(&caller)).unwrap();
        let wanted = json!({ "roots": { "hush": {} } });
        for text in [
            format!("{caller:?}"),
            format!("{input:?}"),
            format!("{:?}", Question::Input(input)),
            format!("{:?}", Question::capabilities(&wanted)),
            format!("{:?}", Question::Rejected("hush".to_owned())),
        ] {
            assert!(!text.contains("hush"), "{text}");
        }
    }
}
