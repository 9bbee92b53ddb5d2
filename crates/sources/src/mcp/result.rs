//! Checks the answer to `tools/call`, block by block.
//!
//! Invariant: a well-formed block is passed on as the upstream wrote it; any other is replaced by a
//! text that says so. Whatever is dropped is noted.
//! Invariant: a success stays a success, even if its content or the answer around it is malformed.
//! An agent repeats a failed call, and the tool would run twice.

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use toolcrib_core::{
    call::{
        self, CallerInput, InputRequired, Outcome, Question, UpstreamError, UpstreamErrorKind,
        input::InputRequestProblem, raw, text_block,
    },
    id::SourceId,
};
use toolcrib_mcp::{code, message::RpcError, scan};

use super::{
    failure::{Failure, MalformedAnswer},
    message::Reply,
    part::Part,
};
use crate::{
    error::{over_max_result, protocol},
    text::{fit_for_callers, tidy, tidy_lines},
};

/// Longest text of an upstream's error to pass on.
const MAX_ERROR_TEXT: usize = 2048;

/// The call whose reply is read.
#[derive(Clone, Copy)]
pub(crate) struct ReplyContext<'a> {
    pub(crate) source: &'a SourceId,
    /// Whether the upstream is of the 2026-07-28 era.
    pub(crate) modern: bool,
    /// The caller's input, if its client declares that it accepts input requests.
    pub(crate) input: Option<&'a CallerInput>,
}

impl ReplyContext<'_> {
    /// Reads the answer to `tools/call`.
    pub(crate) fn reply(
        self,
        answer: Result<Reply, Failure>,
        max_bytes: usize,
    ) -> Result<call::Reply, UpstreamError> {
        let read = match answer {
            Ok(Reply::Result(result)) => {
                self.read(&result.json).map(|reply| match (&result.problem, reply) {
                    (Some(problem), call::Reply::Done(outcome)) => {
                        with_block(outcome, &self.note(problem)).into()
                    }
                    (_, reply) => reply,
                })
            }
            Ok(Reply::Error(error)) => self.refused(&error),
            Err(Failure::Refused(refusal)) => Ok(refusal.outcome().into()),
            Err(Failure::Malformed(answer)) => Ok(self.malformed(&answer).into()),
            Err(failure) => Err(failure.into()),
        };
        let reply = read?;
        match &reply {
            call::Reply::Done(outcome) => outcome.check_size(max_bytes)?,
            call::Reply::NeedsInput(Question::Input(input)) if input.len() > max_bytes => {
                return Err(over_max_result(max_bytes));
            }
            call::Reply::NeedsInput(_) => {}
        }
        Ok(reply)
    }

    /// Converts an invalid answer of a call that ran. Its text is passed on; without any text the
    /// call is a failure, because the answer may have been an error.
    fn malformed(self, answer: &MalformedAnswer) -> Outcome {
        let MalformedAnswer { text, is_error, problem } = answer;
        if text.is_empty() {
            let source = self.source;
            let text = format!(
                "source `{source}`: the call ran, but its result could not be read: {problem}. \
                 It may have taken effect; check that before you repeat it."
            );
            return Outcome::text(&text, true);
        }
        if *is_error {
            return Outcome::text(&fit_for_callers(&tidy_lines(text, MAX_ERROR_TEXT)), true);
        }
        self.unread(&format!("{problem}; this is its text"), text)
    }

    /// A JSON-RPC error becomes a result of the tool: a model can correct its arguments from the
    /// text. Exceptions are errors about this client's messages, which no argument can correct, and
    /// errors about the caller's capabilities and answers.
    fn refused(self, error: &RpcError) -> Result<call::Reply, UpstreamError> {
        if matches!(error.code, code::HEADER_MISMATCH | code::UNSUPPORTED_VERSION) {
            let message = tidy(&error.message, 200);
            return Err(protocol(format!("error {}: {message}", error.code)));
        }
        if error.code == code::MISSING_CAPABILITY && self.modern {
            let wanted = error.data.as_ref().and_then(|data| data.get("requiredCapabilities"));
            let question = wanted.filter(|_| self.input.is_some()).and_then(Question::capabilities);
            return question.map(call::Reply::NeedsInput).ok_or_else(|| {
                let detail = "wants capabilities that the caller cannot declare here";
                UpstreamError::new(UpstreamErrorKind::CapabilityRequired, detail)
            });
        }
        let text = fit_for_callers(&tidy_lines(&error.message, MAX_ERROR_TEXT));
        let text = if text.is_empty() { format!("error {}", error.code) } else { text };
        if error.code == code::INVALID_PARAMS && self.input.and_then(CallerInput::round).is_some() {
            return Ok(call::Reply::NeedsInput(Question::Rejected(text)));
        }
        Ok(Outcome::text(&text, true).into())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    structured_content: Option<&'a RawValue>,
    is_error: Option<Value>,
    #[serde(borrow)]
    result_type: Option<Part<'a>>,
    #[serde(borrow, default)]
    task: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
}

/// A member, even if it is `null`.
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

impl ReplyContext<'_> {
    fn read(self, result: &RawValue) -> Result<call::Reply, UpstreamError> {
        let source = self.source;
        let unusable =
            |problem: &str| Ok(Outcome::text(&format!("source `{source}` {problem}"), true).into());
        // Checked first, because serde reads structs from arrays, too.
        let is_object = result.get().starts_with('{');
        let read = is_object.then(|| serde_json::from_str::<CallResult<'_>>(result.get()).ok());
        let Some(parts) = read.flatten() else {
            return Ok(match result.get() {
                "null" => Outcome::blocks(vec![self.note("it answered without a result")], false),
                text => self.unread("its answer is not a tool result", text),
            }
            .into());
        };
        let (text, result) = (result.get(), parts);
        match result.result_type.as_ref().map(Part::text) {
            None | Some(Some("complete")) if result.task.is_none() || result.content.is_some() => {}
            Some(Some("input_required")) => {
                return self.input_required(result.input_requests, result.request_state);
            }
            None | Some(Some("complete" | "task")) => {
                return unusable("answered with a task; tasks are not supported here");
            }
            Some(_) => return unusable("answered with an unknown kind of result"),
        }
        // Some servers of the handshake era write `null` for absent members.
        let present = |value: &&RawValue| self.modern || value.get() != "null";
        let structured = result.structured_content.filter(present);
        if result.content.is_none() && structured.is_none() {
            return Ok(self.unread("it answered without any content", text).into());
        }
        let is_error = match result.is_error {
            None | Some(Value::Null) => false,
            Some(Value::Bool(is_error)) => is_error,
            // A failure must be explicit.
            Some(Value::String(text)) => text == "true",
            Some(_) => false,
        };
        Ok(self.checked(result.content, structured, is_error).into())
    }

    /// Passes on a result of an unknown form, which need not be valid JSON, as its text.
    fn unread(self, problem: &str, result: &str) -> Outcome {
        if scan::member(result, "resultType").is_some_and(|kind| kind != "\"complete\"") {
            return Outcome::text(&format!("source `{}`: {problem}", self.source), true);
        }
        let is_error = scan::member(result, "isError") == Some("true");
        Outcome::blocks(vec![self.note(problem), text_block(result)], is_error)
    }

    fn note(self, problem: &str) -> Value {
        text_block(&format!("[source `{}`: {problem}]", self.source))
    }

    /// Replaces each malformed part of a result by a note. Content without blocks, and structured
    /// content that cannot be passed on, become texts.
    fn checked(
        self,
        content: Option<&RawValue>,
        structured: Option<&RawValue>,
        is_error: bool,
    ) -> Outcome {
        let note = |problem: &str| raw(&self.note(problem));
        let mut notes = Vec::new();
        let structured = structured.filter(|value| {
            let is_valid = serde_json::from_str::<Part<'_>>(value.get()).is_ok();
            if !is_valid {
                notes.push(note("the structured content is not valid; this is its text"));
                notes.push(raw(&text_block(value.get())));
            }
            is_valid
        });
        let blocks = content.map(|content| {
            let blocks = serde_json::from_str::<Vec<&RawValue>>(content.get());
            blocks.map_err(|_| content)
        });
        let blocks = blocks.transpose().unwrap_or_else(|content| {
            notes.push(note("the content is not a list of blocks; this is its text"));
            notes.push(raw(&text_block(content.get())));
            None
        });
        let blocks = blocks.unwrap_or_default();
        let problems: Vec<_> = blocks.iter().map(|block| check_block(block).err()).collect();
        let failed = !notes.is_empty() || problems.iter().any(Option::is_some);
        let content = match content {
            Some(content) if !failed => content.to_owned(),
            _ => {
                let numbered = (1..).zip(blocks.into_iter().zip(problems));
                let kept = numbered.map(|(number, (block, problem))| match problem {
                    None => block.to_owned(),
                    Some(BadBlock::Unreadable) => note(&format!(
                        "content block {number} is not valid JSON; this is its text: {block}"
                    )),
                    Some(BadBlock::Unknown(problem)) => note(&format!(
                        "content block {number} is not valid in MCP ({problem}); this is its text: {block}"
                    )),
                });
                let kept: Vec<_> = kept.chain(notes).collect();
                serde_json::value::to_raw_value(&kept).unwrap_or_else(|_| raw(&json!([])))
            }
        };
        let structured = structured.map(ToOwned::to_owned);
        Outcome { content, structured, is_error, retry_after: None }
    }

    fn input_required(
        self,
        requests: Option<&RawValue>,
        state: Option<&RawValue>,
    ) -> Result<call::Reply, UpstreamError> {
        if !self.modern {
            let problem = "an upstream of the handshake era requested input in its result";
            return Err(protocol(problem));
        }
        Err(match InputRequired::read(requests, state, self.input) {
            Ok(input) if input.is_reserved() => protocol(
                "requested input under a name that starts with `toolcrib.`, a reserved prefix",
            ),
            Ok(input) => return Ok(call::Reply::NeedsInput(Question::Input(input))),
            Err(InputRequestProblem::Malformed(problem)) => {
                protocol(format!("requested input in a form that violates the protocol: {problem}"))
            }
            Err(InputRequestProblem::Undeclared) => {
                let detail = "requested input of a kind that the caller did not declare";
                UpstreamError::new(UpstreamErrorKind::InputRequired, detail)
            }
        })
    }
}

/// Appends `block` to the content of `outcome`.
fn with_block(outcome: Outcome, block: &Value) -> Outcome {
    let blocks = serde_json::from_str::<Vec<&RawValue>>(outcome.content.get()).unwrap_or_default();
    let block = raw(block);
    let blocks: Vec<_> = blocks.into_iter().chain([&*block]).collect();
    let content = serde_json::value::to_raw_value(&blocks);
    match content {
        Ok(content) => Outcome { content, ..outcome },
        Err(_) => outcome,
    }
}

/// Why a block cannot be passed on.
enum BadBlock {
    Unreadable,
    Unknown(String),
}

/// Whether a block is a block of MCP, with everything that its type requires.
fn check_block(block: &RawValue) -> Result<(), BadBlock> {
    let block = serde_json::from_str(block.get()).map_err(|_| BadBlock::Unreadable)?;
    check_part(block).map_err(BadBlock::Unknown)
}

fn check_part(block: Part<'_>) -> Result<(), String> {
    let Part::Object(block) = block else { return Err("it is not an object".to_owned()) };
    let kind = match &block.kind {
        Some(Part::Text(kind)) => &**kind,
        Some(_) => return Err("its type is not a string".to_owned()),
        None => return Err("its type is missing".to_owned()),
    };
    let strings: &[&str] = match kind {
        "text" => &["text"],
        "image" | "audio" => &["data", "mimeType"],
        "resource_link" => &["uri", "name"],
        "resource" => return check_resource(block.resource),
        unknown => return Err(format!("its type `{}` is not known", tidy(unknown, 40))),
    };
    block.need(strings)
}

fn check_resource(resource: Option<Part<'_>>) -> Result<(), String> {
    let Some(Part::Object(resource)) = resource else {
        return Err("its `resource` is not an object".to_owned());
    };
    resource.need(&["uri"])?;
    resource.need(&["text"]).or_else(|_| resource.need(&["blob"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::message::RpcResult;

    fn context(modern: bool, input: Option<&CallerInput>) -> ReplyContext<'_> {
        static CRIB: std::sync::LazyLock<SourceId> =
            std::sync::LazyLock::new(|| SourceId::parse("crib").unwrap());
        ReplyContext { source: &CRIB, modern, input }
    }

    fn reply(result: &str, problem: Option<&str>) -> Result<Reply, Failure> {
        let json = RawValue::from_string(result.to_owned()).unwrap();
        Ok(Reply::Result(RpcResult { json, problem: problem.map(str::to_owned) }))
    }

    fn outcome(
        context: ReplyContext<'_>,
        answer: Result<Reply, Failure>,
        max_bytes: usize,
    ) -> Result<Outcome, UpstreamError> {
        context.reply(answer, max_bytes).map(|reply| match reply {
            call::Reply::Done(outcome) => outcome,
            call::Reply::NeedsInput(question) => panic!("{question:?}"),
        })
    }

    fn read_text(result: &str, modern: bool) -> Outcome {
        outcome(context(modern, None), reply(result, None), 1 << 20).unwrap()
    }

    #[test]
    fn well_formed_results_keep_the_upstreams_own_text() {
        let content = r#"[ {"type":"text","text":"a","vendor":{"b":1,"a":1.0}},
            {"type":"image","data":"","mimeType":"image/png"},
            {"type":"audio","data":"","mimeType":"audio/wav"},
            {"type":"resource_link","uri":"x:y","name":"n","size":12345678901234567890},
            {"type":"resource","resource":{"uri":"x:y","text":""}},
            {"type":"resource","resource":{"uri":"x:y","blob":""}} ]"#;
        let structured = r#"{"z":1,"a":1.0,"big":12345678901234567890123}"#;
        let text = format!(
            r#"{{"resultType":"complete","content":{content},"structuredContent":{structured},"_meta":{{"secret":1}}}}"#
        );
        let outcome = read_text(&text, true);
        assert!(!outcome.is_error);
        assert_eq!(outcome.content.get(), content);
        assert_eq!(outcome.structured.unwrap().get(), structured);
    }

    #[test]
    fn a_result_of_another_form_stays_a_success_whose_text_is_passed_on() {
        for (result, part) in [
            ("{}", "{}"),
            ("[]", "[]"),
            (r#""text""#, "text"),
            (r#"{"tools":[1]}"#, "tools"),
            (r#"{"content":null,"n":7}"#, "7"),
            (r#"{"content":{"type":"text","text":"a"}}"#, "type"),
            (r#"{"content":"plain"}"#, "plain"),
            (r#"{"content":[],"content":[5]}"#, "5"),
            (r#"{"content":[],"structuredContent":{"n":1e400}}"#, "1e400"),
        ] {
            let outcome = read_text(result, true);
            assert!(!outcome.is_error && outcome.structured.is_none(), "{result}");
            let blocks: Vec<Value> = serde_json::from_str(outcome.content.get()).unwrap();
            let text = |at: usize| blocks[at]["text"].as_str().unwrap();
            assert!(text(0).contains("source `crib`"), "{result}");
            assert!(text(1).contains(part), "{result}: {}", text(1));
        }
        for failed in
            [r#"{"content":"no","isError":true}"#, r#"{"content":[],"content":[],"isError":true}"#]
        {
            assert!(read_text(failed, true).is_error, "{failed}");
        }
    }

    #[test]
    fn a_problem_of_an_answer_is_noted_after_its_content() {
        let good = r#"{"content":[{"type":"text","text":"good"}],"structuredContent":{"a":1}}"#;
        let outcome =
            outcome(context(true, None), reply(good, Some("it is odd")), 1 << 20).unwrap();
        let expected = r#"[{"type":"text","text":"good"},{"type":"text","text":"[source `crib`: it is odd]"}]"#;
        assert_eq!(outcome.content.get(), expected);
        assert_eq!(outcome.structured.unwrap().get(), r#"{"a":1}"#);
        let nothing = read_text("null", true);
        assert!(!nothing.is_error && nothing.content.get().contains("without a result"));
    }

    #[test]
    fn what_could_be_read_of_a_malformed_answer_is_passed_on() {
        let malformed = |text: &str, is_error| {
            let (text, problem) = (text.to_owned(), "it is odd".to_owned());
            let answer = MalformedAnswer { text, is_error, problem };
            outcome(context(true, None), Err(Failure::Malformed(answer)), 1 << 20).unwrap()
        };
        for result in [r#"{"content":[],"structuredContent":{"n":NaN}}"#, "{\"content\":[", "ok"] {
            let outcome = malformed(result, false);
            assert!(!outcome.is_error && outcome.structured.is_none(), "{result}");
            let blocks: Value = serde_json::from_str(outcome.content.get()).unwrap();
            let note = "[source `crib`: it is odd; this is its text]";
            assert_eq!(blocks, json!([text_block(note), text_block(result)]));
        }
        for (answer, is_error, text) in [
            (r#"{"content":[{"text":NaN}],"isError":true}"#, false, "NaN"),
            (r#"{"resultType":"task","task":NaN}"#, false, "it is odd"),
            (r#"{"message":"no","data":NaN}"#, true, "NaN"),
            ("", false, "the call ran, but its result could not be read: it is odd"),
        ] {
            let outcome = malformed(answer, is_error);
            assert!(outcome.is_error && outcome.retry_after.is_none(), "{answer}");
            assert!(outcome.content.get().contains(text), "{:?}", outcome.content);
        }
    }

    #[test]
    fn what_is_not_a_complete_result_is_an_error_that_names_the_source() {
        for result in [
            r#"{"resultType":"task","task":{"taskId":"1"}}"#,
            r#"{"resultType":"new","content":[]}"#,
            r#"{"resultType":5,"content":[]}"#,
            r#"{"task":{"taskId":"1"}}"#,
        ] {
            let outcome = read_text(result, true);
            assert!(outcome.is_error, "{result}");
            assert!(outcome.content.get().contains("`crib`"), "{result}");
        }
    }

    #[test]
    fn an_absent_result_type_and_explicit_nulls_are_fine() {
        let nulls = r#"{"content":[],"structuredContent":null,"isError":null,"_meta":null}"#;
        let legacy = read_text(nulls, false);
        assert!(!legacy.is_error && legacy.structured.is_none() && legacy.is_empty());
        assert_eq!(read_text(nulls, true).structured.unwrap().get(), "null");
        let structured_only = read_text(r#"{"structuredContent":[1]}"#, false);
        assert!(!structured_only.is_error);
        assert_eq!(structured_only.content.get(), "[]");
        for (said, is_error) in
            [("true", true), ("\"true\"", true), ("\"false\"", false), ("0", false)]
        {
            let text = format!(r#"{{"content":[],"isError":{said}}}"#);
            assert_eq!(read_text(&text, false).is_error, is_error, "{said}");
        }
    }

    #[test]
    fn bad_blocks_are_replaced_and_good_ones_stay() {
        for bad in [
            r#"{"type":"video","data":"x"}"#,
            r#"{"type":"resource_link","uri":"x:y"}"#,
            r#"{"type":"text","text":5}"#,
            r#"{"type":"resource","resource":{"uri":"x:y"}}"#,
            r#"{"type":"image","data":"x"}"#,
            r#"{"text":"no type"}"#,
            r#"{"type":null}"#,
            r#"{"type":"text","text":"\ud800"}"#,
            "7",
        ] {
            let good = r#"{"type":"text","text":"good"}"#;
            let outcome = read_text(&format!(r#"{{"content":[{good},{bad},{good}]}}"#), true);
            assert!(!outcome.is_error, "{bad}");
            let blocks: Vec<Value> = serde_json::from_str(outcome.content.get()).unwrap();
            assert_eq!(blocks.len(), 3, "{bad}");
            assert_eq!(blocks.first(), blocks.last(), "{bad}");
            let note = blocks.get(1).unwrap().get("text").unwrap().as_str().unwrap();
            assert!(note.contains("source `crib`: content block 2"), "{note}");
        }
    }

    #[test]
    fn errors_of_the_protocol_become_text_that_a_model_can_use() {
        let error = |code, message: &str| Ok(Reply::Error(RpcError::new(code, message.to_owned())));
        let read = |reply| outcome(context(true, None), reply, 4096);
        let told = read(error(-32602, "bad\u{1b}[0m `zone`\nsee docs")).unwrap();
        assert!(told.is_error);
        assert!(told.content.get().contains(r"bad [0m `zone`\nsee docs"), "{:?}", told.content);
        let long = read(error(1, &"x".repeat(1 << 20))).unwrap();
        assert!(long.len() < 3000);
        let ours = read(error(code::HEADER_MISMATCH, "x")).unwrap_err();
        assert_eq!(ours.kind, UpstreamErrorKind::Protocol);
    }

    #[test]
    fn a_result_over_the_callers_cap_is_refused() {
        // I-27
        let reply = reply(r#"{"content":[{"type":"text","text":"0123456789"}]}"#, None);
        let error = outcome(context(true, None), reply, 20).unwrap_err();
        assert_eq!(error.kind, UpstreamErrorKind::TooLarge);
    }
}
