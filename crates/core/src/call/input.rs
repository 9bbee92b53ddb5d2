//! Tools that ask back: what a caller brings to be asked, and what an upstream asked.
//!
//! These are the multi round trip requests of MCP 2026-07-28. A call may be answered with what has to
//! be known first; the caller asks whoever knows, and calls again with the answers and with the state
//! that the upstream gave it to keep. Nothing is kept here in between: every round is a call.
//!
//! Invariant (I-50): an upstream is told of the capabilities of the caller of this one call and of
//! nobody else's, and what it asks reaches a caller that declared that it can be asked that.
//! Invariant (I-20): answers and state are content; none of these types prints them.

use std::fmt;

use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use crate::json::parse_strict;

/// The capabilities of a caller that concern what it can be asked. No others are passed on.
pub const CAPABILITIES: [&str; 3] = ["elicitation", "sampling", "roots"];

/// Things that may be asked at once.
pub const MAX_REQUESTS: usize = 32;
/// Longest key of one of them, in bytes.
const MAX_KEY: usize = 256;
/// Longest state, in bytes of JSON: callers send it back with every round.
pub const MAX_STATE: usize = 64 << 10;
/// Largest list of capabilities that an upstream may want of a caller, in bytes of JSON.
const MAX_WANTED: usize = 2 << 10;

/// What a caller that can be asked brings to one call.
#[derive(Clone, Default, PartialEq)]
pub struct CallerInput {
    /// What it declared of [`CAPABILITIES`].
    pub capabilities: Map<String, Value>,
    /// Its answers to what was asked in an earlier round.
    pub responses: Option<Map<String, Value>>,
    /// The state that it was given in an earlier round.
    pub state: Option<String>,
}

/// What an upstream asks before it can go on. The JSON is the upstream's own text, checked but not
/// rewritten.
#[derive(Clone)]
pub struct InputRequired {
    requests: Option<Box<RawValue>>,
    state: Option<Box<RawValue>>,
}

/// What an upstream answered instead of a result, for a caller that can do something about it.
#[derive(Clone)]
pub enum Ask {
    /// It asks for something.
    Input(InputRequired),
    /// It wants a caller that declares these capabilities.
    Capabilities(Map<String, Value>),
    /// It does not take the answers or the state of an earlier round, in its own words.
    Rejected(String),
}

/// Why what an upstream asked is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAsked {
    /// It has not the form of the protocol.
    Malformed(&'static str),
    /// The caller cannot be asked at all, or not this.
    Undeclared,
}

// === impl CallerInput ===

impl CallerInput {
    /// What a caller brings that declared `capabilities`, which may hold others than these.
    pub fn declaring(capabilities: &Map<String, Value>) -> Self {
        let known = |key: &&str| capabilities.get(*key).is_some_and(Value::is_object);
        let capabilities = CAPABILITIES
            .iter()
            .filter(|key| known(key))
            .filter_map(|key| Some(((*key).to_owned(), capabilities.get(*key)?.clone())))
            .collect();
        Self { capabilities, responses: None, state: None }
    }

    /// Whether the call is a further round of one that was made before.
    pub fn is_retry(&self) -> bool {
        self.responses.is_some() || self.state.is_some()
    }

    /// Whether it may be asked for `method` with these parameters.
    fn answers(&self, method: Method, params: Option<&Map<String, Value>>) -> bool {
        let param = |key: &str| params.and_then(|params| params.get(key));
        let declared = |key: &str| self.capabilities.get(key).and_then(Value::as_object);
        match method {
            Method::Elicit => {
                let url = param("mode").and_then(Value::as_str) == Some("url");
                // Without a mode of its own, the capability means forms.
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

/// Names what is there and how much, and nothing of it.
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

/// What may be asked.
#[derive(Clone, Copy)]
enum Method {
    Elicit,
    Sample,
    Roots,
}

impl InputRequired {
    /// Checks `inputRequests` and `requestState` of an upstream for a caller that brings `caller`.
    ///
    /// # Errors
    /// They have not the form of the protocol, or `caller` did not declare that it can be asked this.
    pub fn read(
        requests: Option<&RawValue>,
        state: Option<&RawValue>,
        caller: Option<&CallerInput>,
    ) -> Result<Self, NotAsked> {
        use NotAsked::{Malformed, Undeclared};
        if let Some(state) = state {
            if state.get().len() > MAX_STATE {
                return Err(Malformed("the state is too large"));
            }
            // Read to the end: not every string token is one.
            if serde_json::from_str::<String>(state.get()).is_err() {
                return Err(Malformed("the state is not a string"));
            }
        }
        let asked = match requests {
            None => Map::new(),
            // Strictly, so that nobody reads something else in it than what is checked here.
            Some(requests) => match parse_strict(requests.get().as_bytes()) {
                Ok(Value::Object(asked)) => asked,
                Ok(_) => return Err(Malformed("the requests are not an object")),
                Err(_) => return Err(Malformed("the requests are not acceptable JSON")),
            },
        };
        if asked.is_empty() && state.is_none() {
            return Err(Malformed("nothing is asked, and there is no state"));
        }
        if asked.len() > MAX_REQUESTS {
            return Err(Malformed("too much is asked at once"));
        }
        let mut declared = true;
        for (key, request) in &asked {
            if key.len() > MAX_KEY {
                return Err(Malformed("the key of a request is too long"));
            }
            let (method, params) = request_of(request).map_err(Malformed)?;
            declared &= caller.is_some_and(|caller| caller.answers(method, params));
        }
        // Whoever can be asked nothing cannot come back with a state either.
        if !declared || caller.is_none() {
            return Err(Undeclared);
        }
        Ok(Self { requests: requests.map(ToOwned::to_owned), state: state.map(ToOwned::to_owned) })
    }

    /// JSON object of what is asked, by key.
    pub fn requests(&self) -> Option<&RawValue> {
        self.requests.as_deref()
    }

    /// JSON string that the caller sends back.
    pub fn state(&self) -> Option<&RawValue> {
        self.state.as_deref()
    }

    /// Bytes of JSON held.
    pub fn len(&self) -> usize {
        let len = |json: Option<&RawValue>| json.map_or(0, |json| json.get().len());
        len(self.requests()) + len(self.state())
    }

    /// Never: something is asked, or there is a state.
    pub fn is_empty(&self) -> bool {
        self.requests.is_none() && self.state.is_none()
    }
}

/// Method and parameters of one request.
type Requested<'a> = (Method, Option<&'a Map<String, Value>>);

fn request_of(request: &Value) -> Result<Requested<'_>, &'static str> {
    let request = request.as_object().ok_or("a request is not an object")?;
    let method = match request.get("method").and_then(Value::as_str) {
        Some("elicitation/create") => Method::Elicit,
        Some("sampling/createMessage") => Method::Sample,
        Some("roots/list") => Method::Roots,
        Some(_) => return Err("something is asked that callers are never asked"),
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

// === impl Ask ===

impl Ask {
    /// The capabilities that an upstream wants of a caller, as far as callers can have them: if it
    /// wants any other, declaring these would not help.
    pub fn capabilities(wanted: &Value) -> Option<Self> {
        let wanted = wanted.as_object().filter(|wanted| !wanted.is_empty())?;
        let known = |(key, value): (&String, &Value)| {
            CAPABILITIES.contains(&key.as_str()) && value.is_object()
        };
        let fits = to_raw_value(wanted).is_ok_and(|json| json.get().len() <= MAX_WANTED);
        (fits && wanted.iter().all(known)).then(|| Self::Capabilities(wanted.clone()))
    }
}

impl fmt::Debug for Ask {
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
    ) -> Result<InputRequired, NotAsked> {
        let json = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let (requests, state) = (requests.map(json), state.map(json));
        InputRequired::read(requests.as_deref(), state.as_deref(), caller)
    }

    // I-50
    #[test]
    fn a_caller_is_asked_what_it_declared_and_nothing_else() {
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
                    assert_eq!(why, NotAsked::Undeclared, "{capabilities} {request}");
                }
            }
        }
        // One that may not be asked spoils the others, and without a caller there is nobody to ask.
        let both = json!({ "a": roots, "b": form }).to_string();
        let caller = declaring(json!({ "roots": {} }));
        assert_eq!(read(Some(&both), None, Some(&caller)).unwrap_err(), NotAsked::Undeclared);
        assert_eq!(read(None, Some("\"s\""), None).unwrap_err(), NotAsked::Undeclared);
        assert!(read(None, Some("\"s\""), Some(&CallerInput::default())).is_ok());
    }

    // I-27
    #[test]
    fn what_is_asked_has_a_form_and_bounds() {
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
            assert!(matches!(why, NotAsked::Malformed(_)), "{requests}");
        }
        let long = format!("\"{}\"", "s".repeat(MAX_STATE));
        for state in ["7", "{}", r#""\ud800""#, &long] {
            let why = read(None, Some(state), Some(&caller)).unwrap_err();
            assert!(matches!(why, NotAsked::Malformed(_)), "{state:.20}");
        }
        assert!(matches!(read(None, None, Some(&caller)), Err(NotAsked::Malformed(_))));
    }

    #[test]
    fn only_what_callers_can_have_is_wanted_of_them() {
        for (wanted, passes) in [
            (json!({ "sampling": {} }), true),
            (json!({ "elicitation": { "url": {} }, "roots": {} }), true),
            (json!({}), false),
            (json!(["sampling"]), false),
            (json!({ "sampling": true }), false),
            (json!({ "sampling": {}, "extensions": {} }), false),
            (json!({ "sampling": { "x": "y".repeat(MAX_WANTED) } }), false),
        ] {
            assert_eq!(Ask::capabilities(&wanted).is_some(), passes, "{wanted}");
        }
    }

    // I-20
    #[test]
    fn nothing_of_the_content_is_printed() {
        let mut caller = declaring(json!({ "roots": { "x": "hush" } }));
        caller.responses = Some(Map::from_iter([("hush".to_owned(), json!("hush"))]));
        caller.state = Some("hush".to_owned());
        let asked = r#"{"hush":{"method":"roots/list","params":{"hush":1}}}"#;
        let input = read(Some(asked), Some("\"hush\""), Some(&caller)).unwrap();
        let wanted = json!({ "roots": { "hush": {} } });
        for text in [
            format!("{caller:?}"),
            format!("{input:?}"),
            format!("{:?}", Ask::Input(input)),
            format!("{:?}", Ask::capabilities(&wanted)),
            format!("{:?}", Ask::Rejected("hush".to_owned())),
        ] {
            assert!(!text.contains("hush"), "{text}");
        }
    }
}
