//! Removes credential values from upstream responses.
//!
//! Invariant: a value is found however its characters are escaped in JSON.
//! Invariant: JSON without such a value keeps the upstream's own text, byte for byte.

use std::{borrow::Cow, sync::Arc};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use serde_json::{Map, Value, value::RawValue};

use super::{escaped, longest_first};
use crate::{
    call::{
        Outcome, Progress, ProgressSink, Question, Reply, UpstreamError, UpstreamErrorKind, raw,
    },
    credential::Secret,
    id::CredentialId,
    json,
    source::{Discovered, DiscoveredOffer, FormedOffer},
    text,
};

/// The start of a value at the end of a text is replaced from this many bytes on.
const CUT: usize = 8;

/// Replaces each credential value by `[REDACTED:<its id>]`. Clones share the values.
#[derive(Debug, Clone, Default)]
pub struct Echoes {
    /// Longest first.
    values: Arc<[(Secret, String)]>,
    /// Whether JSON always escapes one of the values.
    escaped: bool,
    /// The characters that base64 of any bytes with one of the values contains, with the label of
    /// the value.
    encoded: Arc<[(Secret, String)]>,
}

/// JSON that is nested too deeply to be searched.
struct SearchDepthError;

/// Forwards progress without the values.
struct CleanProgress {
    echoes: Echoes,
    sink: Arc<dyn ProgressSink>,
}

// === impl Echoes ===

impl Echoes {
    /// Creates a filter for these values (those of 8 or more characters).
    pub fn new(values: impl IntoIterator<Item = (Secret, CredentialId)>) -> Self {
        let labelled = values.into_iter().map(|(value, id)| (value, format!("[REDACTED:{id}]")));
        let values = longest_first(labelled);
        let plain = |c: char| c != '"' && c != '\\' && !c.is_control();
        let escaped = values.iter().any(|(value, _)| !value.expose().chars().all(plain));
        let encoded = values
            .iter()
            .flat_map(|(value, label)| encodings(value).map(|encoded| (encoded, label.clone())));
        let encoded = encoded.collect();
        Self { values: values.into(), escaped, encoded }
    }

    /// Removes the values from `text`, also if the text was cut within a value, or is base64 of bytes
    /// with one.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match escaped::without(text, &self.values) {
            Cow::Borrowed(text) => match self.without_start(text) {
                Cow::Borrowed(text) => self.encoded(text).map_or(Cow::Borrowed(text), Cow::Owned),
                clean @ Cow::Owned(_) => clean,
            },
            Cow::Owned(text) => match self.without_start(&text) {
                Cow::Borrowed(_) => Cow::Owned(text),
                Cow::Owned(clean) => Cow::Owned(clean),
            },
        }
    }

    /// Removes the start of a value from the end of `text`.
    fn without_start<'a>(&self, text: &'a str) -> Cow<'a, str> {
        for (value, label) in &*self.values {
            let starts = value.expose().char_indices().rev().map(|(at, _)| at);
            let starts = starts.take_while(|at| *at >= CUT);
            let mut starts = starts.filter_map(|at| value.expose().get(..at));
            if let Some(rest) = starts.find_map(|start| text.strip_suffix(start)) {
                return Cow::Owned(format!("{rest}{label}"));
            }
        }
        Cow::Borrowed(text)
    }

    /// Returns base64 of the label if `text` is base64 of bytes with a value.
    fn encoded(&self, text: &str) -> Option<String> {
        let found = self.encoded.iter().find(|(encoded, _)| text.contains(encoded.expose()));
        found.map(|(_, label)| STANDARD.encode(label))
    }

    /// Removes the values from `text`, also if invisible characters separate their letters. Lists
    /// and errors are shown without such characters, and would otherwise show the value.
    pub fn seen<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if let Cow::Owned(clean) = text::seen(text)
            && let Cow::Owned(redacted) = self.text(&clean)
        {
            return Cow::Owned(redacted);
        }
        self.text(text)
    }

    /// The same as [`seen`](Self::seen), for JSON.
    fn seen_value(&self, value: Value) -> Value {
        let mut clean = value.clone();
        text::clean(&mut clean);
        if clean != value {
            let redacted = self.value(clean.clone());
            if redacted != clean {
                return redacted;
            }
        }
        self.value(value)
    }

    /// Removes the values from an outcome.
    pub fn outcome(&self, outcome: Outcome) -> Outcome {
        let Outcome { content, structured, is_error, retry_after } = outcome;
        let clean = structured.map(|structured| self.raw(structured)).transpose();
        match (self.raw(content), clean) {
            (Ok(content), Ok(structured)) => Outcome { content, structured, is_error, retry_after },
            (Err(SearchDepthError), _) | (_, Err(SearchDepthError)) => {
                Outcome::text("the tool's result cannot be read", true)
            }
        }
    }

    /// Removes the values from a reply. Input requests are forwarded unchanged or not at all,
    /// because the upstream must recognise its state.
    ///
    /// # Errors
    /// [`UpstreamErrorKind::Protocol`] if an input request contains a value.
    pub fn reply(&self, reply: Reply) -> Result<Reply, UpstreamError> {
        if self.values.is_empty() {
            return Ok(reply);
        }
        match reply {
            Reply::Done(outcome) => Ok(Reply::Done(self.outcome(outcome))),
            Reply::NeedsInput(Question::Rejected(words)) => {
                let words = self.text(&words).into_owned();
                Ok(Reply::NeedsInput(Question::Rejected(words)))
            }
            Reply::NeedsInput(question) if self.is_in(&question) => {
                let detail = "its input request contains a credential";
                Err(UpstreamError::new(UpstreamErrorKind::Protocol, detail))
            }
            question @ Reply::NeedsInput(_) => Ok(question),
        }
    }

    /// Removes the values from a failure.
    pub fn error(&self, error: UpstreamError) -> UpstreamError {
        if self.values.is_empty() {
            return error;
        }
        UpstreamError { detail: self.seen(&error.detail).into_owned(), ..error }
    }

    /// Returns a sink that forwards progress to `sink` without the values.
    pub fn progress(&self, sink: Arc<dyn ProgressSink>) -> Arc<dyn ProgressSink> {
        match self.values.is_empty() {
            true => sink,
            false => Arc::new(CleanProgress { echoes: self.clone(), sink }),
        }
    }

    /// Removes the values from a list of offers, and omits an offer whose name contains one.
    pub fn discovered(&self, discovered: Discovered) -> Discovered {
        if self.values.is_empty() {
            return discovered;
        }
        let text = |text: String| self.seen(&text).into_owned();
        let value = |value: Value| self.seen_value(value);
        let Discovered { version, offers, problems, notes, mut rates } = discovered;
        let mut problems: Vec<String> = problems.into_iter().map(text).collect();
        let notes = notes.into_iter().map(text).collect();
        let offered = offers.len();
        let tools = offers.into_iter().map(FormedOffer::into_offer);
        let tools = tools.filter(|tool| *self.seen(&tool.name) == *tool.name);
        let tools = tools.map(|tool| DiscoveredOffer {
            name: tool.name,
            title: tool.title.map(text),
            description: tool.description.map(text),
            input_schema: tool.input_schema.map(value),
            output_schema: tool.output_schema.map(value),
            annotations: tool.annotations.map(value),
            operation: tool.operation.map(value),
            raw: value(tool.raw),
            offer: tool.offer.map_texts(text),
        });
        let tools: Vec<FormedOffer> = tools.map(FormedOffer::from).collect();
        rates.retain(|name, _| tools.iter().any(|tool| tool.name == *name));
        if tools.len() < offered {
            problems.push("tools with a credential in their names are left out".to_owned());
        }
        Discovered { version: version.map(text), offers: tools, problems, notes, rates }
    }

    fn is_in(&self, question: &Question) -> bool {
        let in_text = |json: &RawValue| {
            self.raw(json.to_owned()).map_or(true, |clean| clean.get() != json.get())
        };
        match question {
            Question::Input(input) => {
                [input.requests(), input.state()].into_iter().flatten().any(in_text)
            }
            Question::Capabilities(wanted) => {
                let wanted = Value::Object(wanted.clone());
                self.value(wanted.clone()) != wanted
            }
            Question::Rejected(words) => *self.text(words) != **words,
        }
    }

    /// Removes the values from JSON; JSON without values keeps its bytes.
    fn raw(&self, json: Box<RawValue>) -> Result<Box<RawValue>, SearchDepthError> {
        if self.values.is_empty() {
            return Ok(json);
        }
        let text = json.get();
        // Parses only text that could hide a value: in escapes of JSON, or in those of a URL.
        let hidden = self.escaped || text.contains('\\') || text.contains('%');
        let open = || self.values.iter().any(|(value, _)| text.contains(value.expose()));
        // The text of a failure may be cut within a value, and other content is base64.
        let starts = || self.values.iter().any(|(value, _)| text.contains(start(value.expose())));
        if !hidden && !starts() && self.encoded(text).is_none() {
            return Ok(json);
        }
        let value = json::parse(text).map_err(|_| SearchDepthError)?;
        let clean = self.value(value.clone());
        Ok(if clean == value && !open() { json } else { raw(&clean) })
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) => value,
            Value::Number(number) => {
                let digits = number.to_string();
                match self.text(&digits) {
                    Cow::Borrowed(_) => Value::Number(number),
                    Cow::Owned(clean) => Value::String(clean),
                }
            }
            Value::String(text) => Value::String(self.text(&text).into_owned()),
            Value::Array(items) => {
                Value::Array(items.into_iter().map(|item| self.value(item)).collect())
            }
            Value::Object(members) => {
                let mut clean = Map::with_capacity(members.len());
                let mut copies = 1_usize;
                for (key, value) in members {
                    let name = self.text(&key).into_owned();
                    let mut unique = name.clone();
                    // Two keys can become equal; the second must not replace the first.
                    while clean.contains_key(&unique) {
                        copies += 1;
                        unique = format!("{name}#{copies}");
                    }
                    clean.insert(unique, self.value(value));
                }
                Value::Object(clean)
            }
        }
    }
}

/// The shortest start of a value that is searched for at the end of a text.
fn start(value: &str) -> &str {
    let end = value.char_indices().map(|(at, _)| at).find(|at| *at >= CUT);
    value.get(..end.unwrap_or(value.len())).unwrap_or(value)
}

/// The characters that base64 of any bytes with `value` contains, for each place of the value among
/// three bytes. Characters that depend on adjacent bytes are left out.
fn encodings(value: &Secret) -> impl Iterator<Item = Secret> {
    let value = value.expose().as_bytes();
    (0..3).map(move |before| {
        let bytes = [vec![0; before], value.to_vec()].concat();
        let text = STANDARD_NO_PAD.encode(&bytes);
        // A character encodes six bits.
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        Secret::new(text.get(first..last).unwrap_or_default().to_owned())
    })
}

impl ProgressSink for CleanProgress {
    fn report(&self, progress: Progress) {
        let message = progress.message.map(|message| self.echoes.text(&message).into_owned());
        self.sink.report(Progress { message, ..progress });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::call::input::{CallerInput, InputRequired};

    fn echoes(values: &[&str]) -> Echoes {
        let numbered = values.iter().enumerate().map(|(n, value)| {
            (Secret::new((*value).to_owned()), CredentialId::parse(format!("c{n}")).unwrap())
        });
        Echoes::new(numbered)
    }

    fn outcome(text: &str) -> Outcome {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        Outcome { content: raw.clone(), structured: Some(raw), is_error: false, retry_after: None }
    }

    #[test]
    fn a_value_that_was_cut_is_replaced_too() {
        let echoes = echoes(&["hunter22-and-more"]);
        let cut = |text: &str| echoes.text(text).into_owned();
        assert_eq!(cut("HTTP 500 hunter22-and-mor"), "HTTP 500 [REDACTED:c0]");
        assert_eq!(cut("HTTP 500 hunter22"), "HTTP 500 [REDACTED:c0]");
        assert_eq!(cut("HTTP 500 hunter2"), "HTTP 500 hunter2");
        let repeating = self::echoes(&["abababababab"]);
        assert_eq!(repeating.text("x ababababab"), "x [REDACTED:c0]", "the longest start");
        assert_eq!(cut("hunter22-and said"), "hunter22-and said");
        let failed = echoes.outcome(outcome(r#"[{"type":"text","text":"no: hunter22-and"}]"#));
        assert_eq!(failed.content.get(), r#"[{"type":"text","text":"no: [REDACTED:c0]"}]"#);
    }

    #[test]
    fn base64_of_bytes_with_a_value_is_replaced() {
        let echoes = echoes(&["hunter22-and-more"]);
        for before in ["", "x", "xy", "xyz", "\u{e9}clair "] {
            for after in ["", "z", "zz", "zzz"] {
                let data = STANDARD.encode(format!("{before}hunter22-and-more{after}"));
                let text = json!([{ "type": "image", "data": data, "mimeType": "image/png" }]);
                let clean = echoes.outcome(outcome(&text.to_string()));
                let clean: Value = serde_json::from_str(clean.content.get()).unwrap();
                let data = STANDARD.decode(clean[0]["data"].as_str().unwrap()).unwrap();
                assert_eq!(data, b"[REDACTED:c0]", "{before} {after}");
            }
        }
        let other = json!([{ "data": STANDARD.encode("hunter2 and more of anything else") }]);
        let same = echoes.outcome(outcome(&other.to_string()));
        assert_eq!(same.content.get(), other.to_string());
    }

    #[test]
    fn values_are_replaced_by_the_id_longest_first() {
        let echoes = echoes(&["hunter22", "hunter22-and-more", "short"]);
        assert_eq!(
            echoes.text("xhunter22-and-more hunter22 short"),
            "x[REDACTED:c1] [REDACTED:c0] short"
        );
        assert!(matches!(echoes.text("nothing"), Cow::Borrowed("nothing")));
        // JSON as text, and an address in it.
        assert_eq!(echoes.text(r#"{"t":"hunter\u00322"}"#), r#"{"t":"[REDACTED:c0]"}"#);
        assert_eq!(echoes.text("?t=hunter%32%32"), "?t=[REDACTED:c0]");
        assert_eq!(self::echoes(&["REDACTED:c0"]).text("REDACTED:c0"), "[REDACTED:c0]");
    }

    #[test]
    fn a_value_is_found_behind_invisible_characters() {
        let echoes = echoes(&["hunter22"]);
        for hidden in ["\u{200b}", "\u{202e}", "\u{1b}", "\u{e0041}", "\u{fe0f}"] {
            let encoded = STANDARD.encode("a hunter22 b");
            let (start, end) = encoded.split_at(4);
            let seen = echoes.seen(&format!("{start}{hidden}{end}")).into_owned();
            assert_eq!(seen, STANDARD.encode("[REDACTED:c0]"));
            let text = format!("x hun{hidden}ter22");
            assert_eq!(echoes.seen(&text), "x [REDACTED:c0]");
            let tool = DiscoveredOffer {
                name: "echo".to_owned(),
                title: Some(text.clone()),
                description: Some(text.clone()),
                input_schema: Some(json!({ "properties": { &text: { "default": text } } })),
                raw: json!({ "title": text }),
                ..DiscoveredOffer::default()
            };
            let tools = vec![DiscoveredOffer { name: text, ..tool.clone() }.into(), tool.into()];
            let list = echoes.discovered(Discovered { offers: tools, ..Discovered::default() });
            assert_eq!(list.offers.len(), 1);
            let shown = format!("{:?}", list.offers);
            assert!(!shown.contains("ter22"), "{shown}");
        }
        assert_eq!(echoes.seen("a\u{200b}b"), "a\u{200b}b", "other texts stay as they are");
    }

    #[test]
    fn a_value_is_found_however_it_is_written_in_json() {
        let echoes = echoes(&["cana/ry-42", "with\"quote\\", "12345678"]);
        for (text, expected) in [
            (r#"["cana/ry-42"]"#, json!(["[REDACTED:c0]"])),
            (r#"["x cana\/ry-42 y"]"#, json!(["x [REDACTED:c0] y"])),
            (r#"["\u0063ana/ry-4\u0032"]"#, json!(["[REDACTED:c0]"])),
            (r#"["with\"quote\\"]"#, json!(["[REDACTED:c1]"])),
            (
                r#"{"cana\/ry-42":{"cana/ry-42":1},"[REDACTED:c0]":2}"#,
                json!({"[REDACTED:c0]": {"[REDACTED:c0]": 1}, "[REDACTED:c0]#2": 2}),
            ),
            ("[12345678, 1.0]", json!(["[REDACTED:c2]", 1.0])),
        ] {
            let clean = echoes.outcome(outcome(text));
            for json in [clean.content, clean.structured.unwrap()] {
                assert_eq!(serde_json::from_str::<Value>(json.get()).unwrap(), expected, "{text}");
            }
        }
    }

    #[test]
    fn text_without_values_keeps_its_bytes() {
        let text = r#"[ {"a" : 1.00, "b":"\u00e4 \/", "big":12345678901234567890123} ]"#;
        for echoes in [Echoes::default(), echoes(&["canary-42"]), echoes(&["can\"ary-42"])] {
            assert_eq!(echoes.outcome(outcome(text)).content.get(), text);
        }
    }

    #[test]
    fn unsearchable_json_is_not_forwarded() {
        let deep = format!("{}\"\\u0063anary-42\"{}", "[".repeat(500), "]".repeat(500));
        let clean = echoes(&["canary-42"]).outcome(outcome(&deep));
        assert!(clean.is_error && clean.structured.is_none());
        assert!(clean.content.get().contains("cannot be read"), "{:?}", clean.content);
    }

    #[test]
    fn input_requests_are_forwarded_unchanged_or_not_at_all() {
        let echoes = echoes(&["cana/ry-42"]);
        let caller = CallerInput::default();
        for (state, passes) in [(r#""a\u0062c""#, true), (r#""cana\/ry-42""#, false)] {
            let state = RawValue::from_string(state.to_owned()).unwrap();
            let asked = InputRequired::read(None, Some(&state), Some(&caller)).unwrap();
            match echoes.reply(Reply::NeedsInput(Question::Input(asked))) {
                Ok(Reply::NeedsInput(Question::Input(_))) => assert!(passes, "{state}"),
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    assert_eq!((error.kind, passes), (UpstreamErrorKind::Protocol, false));
                }
            }
        }
        let rejected = Reply::NeedsInput(Question::Rejected("no: cana/ry-42".to_owned()));
        match echoes.reply(rejected).unwrap() {
            Reply::NeedsInput(Question::Rejected(words)) => assert_eq!(words, "no: [REDACTED:c0]"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn failures_progress_and_lists_are_clean_too() {
        let echoes = echoes(&["canary-42"]);
        let error = UpstreamError::new(UpstreamErrorKind::Refused, "said canary-42");
        assert_eq!(echoes.error(error).detail, "said [REDACTED:c0]");
        let tool = |name: &str| DiscoveredOffer {
            name: name.to_owned(),
            title: Some("canary-42".to_owned()),
            description: Some("a canary-42".to_owned()),
            input_schema: Some(json!({"description": "canary-42"})),
            output_schema: Some(json!({"canary-42": 1})),
            annotations: Some(json!({"title": "canary-42"})),
            raw: json!({"name": name, "x": "canary-42"}),
            ..DiscoveredOffer::default()
        };
        let found = Discovered {
            version: Some("canary-42".to_owned()),
            offers: vec![tool("a").into(), tool("get-canary-42").into()],
            problems: vec!["canary-42".to_owned()],
            notes: vec!["canary-42".to_owned()],
            ..Discovered::default()
        };
        let clean = echoes.discovered(found);
        assert_eq!(clean.offers.len(), 1);
        assert!(!format!("{clean:?}").contains("canary"), "{clean:?}");
        let encoded = STANDARD.encode("a canary-42 b");
        assert_eq!(echoes.text(&encoded), STANDARD.encode("[REDACTED:c0]"), "also in progress");
    }

    proptest! {
        #[test]
        fn no_value_survives(value in "[a-d\"/\\\\é]{8,10}", around in "[a-d\"/\\\\é]{0,12}") {
            let echoes = echoes(&[&value]);
            let text = json!([format!("{around}{value}{around}"), {(value.clone()): value}]);
            let clean = echoes.outcome(outcome(&text.to_string()));
            let read: Value = serde_json::from_str(clean.content.get()).unwrap();
            let mut texts = Vec::new();
            collect(&read, &mut texts);
            prop_assert!(texts.iter().all(|text| !text.contains(&value)), "{texts:?}");
        }
    }

    fn collect(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::String(text) => out.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
            Value::Object(members) => {
                out.extend(members.keys().cloned());
                members.values().for_each(|value| collect(value, out));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
