//! A small host of Open Tool Calling or of OXP, with a switch per fault.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Asked, KEY, Reply, faults};

faults! {
    /// What a host of this family can do wrong.
    CallingFault {
        /// Health wants a key.
        HealthLocked,
        /// The list is a bare array.
        BareList,
        /// The list has no `$schema`.
        ListUnmarked,
        /// A GET with a body is 400.
        GetBodyRefused,
        /// Every version is good enough for the list.
        ListAnyVersion,
        /// A GET with a content type and no body is 400.
        EmptyBodyRefused,
        /// Tools have annotations.
        DefinitionOpen,
        /// Ids have no toolkit.
        IdsWithoutToolkit,
        /// One id twice.
        DuplicateId,
        /// `version` says something else than the id.
        VersionsDisagree,
        /// A parameter without a description.
        ParameterUndescribed,
        /// Schemas with `$ref`.
        References,
        /// `input_schema` in the shape of the other dialect.
        OtherParameters,
        /// The answer to a call has no envelope.
        FlatResult,
        /// The answer to a call has no `$schema`.
        ResultUnmarked,
        /// Results without `duration`.
        NoDuration,
        /// Every call is `1`.
        SameCallId,
        /// `input` has to be there.
        InputNeeded,
        /// A version has to be there.
        VersionNeeded,
        /// `@1` is the newest 1.x.
        MajorIsNewest,
        /// `@1.0` is 1.0.0.
        VersionsPadded,
        /// An unknown tool is 404.
        UnknownToolNotFound,
        /// An unknown version is the newest.
        UnknownVersionIsNewest,
        /// Input of a wrong type is 400.
        InvalidInputBadRequest,
        /// Missing input is passed on.
        MissingInputPasses,
        /// 422 without `parameter_errors`.
        NoParameterErrors,
        /// A tool that fails is 500.
        FailureIsServerError,
        /// What is no JSON is 422.
        NotJsonUnprocessable,
        /// A body without `request` is 422.
        NoRequestUnprocessable,
        /// Calls in any version.
        AnyVersion,
        /// Calls without a content type are 422.
        ContentTypeNeeded,
        /// A repeated call runs again.
        RunsAgain,
        /// A `call_id` may be used for anything.
        ConflictIgnored,
        /// Requirements are not looked at.
        RequirementsIgnored,
        /// Refusals say `detail`.
        Detail,
        /// Refusals have no `$schema`.
        RefusalsUnmarked,
        /// The text for developers is in the message.
        DeveloperTextInMessage,
        /// Refusals repeat the request.
        RefusalsEcho,
        /// Calls without a key are 403.
        CallsForbidden,
        /// An unknown key is 403.
        UnknownKeyForbidden,
        /// Tokens need no signature.
        UnsignedAccepted,
        /// A key only as a bearer token.
        BearerOnly,
        /// Without credentials everything goes, with worthless ones nothing.
        JunkRefused,
        /// No `OXP-Version`.
        NoVersionHeader,
        /// Any `OXP-Version` is good.
        AnyVersionHeader,
        /// A call without an envelope is refused.
        FlatRefused,
    }
}

/// Which of the two it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Otc,
    Oxp,
}

/// The host.
#[derive(Debug, Clone)]
pub(super) struct Host {
    dialect: Dialect,
    /// Whether it wants a key.
    locked: bool,
    fault: Option<CallingFault>,
    calls: Arc<AtomicUsize>,
    /// Requests and answers by `call_id`.
    answered: Arc<Mutex<HashMap<String, (Value, Reply)>>>,
}

use CallingFault as F;

/// The tools: bare id, version, name.
const TOOLS: [(&str, &str, &str); 5] = [
    ("Crib.Echo", "1.0.0", "echo"),
    ("Crib.Echo", "2.1.0", "echo"),
    ("Crib.Fail", "1.0.0", "fail"),
    ("Crib.Mail", "1.0.0", "mail"),
    ("Crib.Now", "1.0.0", "now"),
];

impl Host {
    pub(super) fn new(dialect: Dialect, locked: bool, fault: Option<CallingFault>) -> Self {
        let locked = locked && fault != Some(F::JunkRefused);
        Self { dialect, locked, fault, calls: Arc::default(), answered: Arc::default() }
    }

    fn has(&self, fault: CallingFault) -> bool {
        self.fault == Some(fault)
    }

    fn marker(&self) -> &'static str {
        match self.dialect {
            Dialect::Otc => "otc://1.0",
            Dialect::Oxp => "urn:oxp:1.0",
        }
    }

    pub(super) fn answer(&self, asked: &Asked) -> Reply {
        let mut reply = self.routed(asked);
        if self.dialect == Dialect::Oxp && !self.has(F::NoVersionHeader) {
            reply.set("oxp-version", "1.0");
        }
        reply
    }

    fn routed(&self, asked: &Asked) -> Reply {
        let is_open = asked.path == "/health" && !self.has(F::HealthLocked);
        if !is_open && let Some(refusal) = self.refused(asked) {
            return refusal;
        }
        let version = asked.header("oxp-version").unwrap_or("1.0");
        if self.dialect == Dialect::Oxp && version != "1.0" && !self.has(F::AnyVersionHeader) {
            return self.refusal(400, "this version is not supported", "1.0 is");
        }
        match (asked.method.clone(), asked.path.as_str()) {
            (Method::GET, "/health") => Reply::json(200, &json!({ "status": "OK" })),
            (Method::GET, "/tools") => self.list(asked),
            (Method::POST, "/tools/call") => self.call(asked),
            // The explorer of the same host, which says what is harmless.
            (Method::GET, "/explorer/tools") => Reply::json(
                200,
                &json!([
                    { "name": "mail", "description": "", "annotations": { "readOnlyHint": true } },
                { "name": "now", "description": "", "annotations": { "readOnlyHint": true } },
                ]),
            ),
            _ => self.refusal(404, "there is nothing here", ""),
        }
    }

    fn refused(&self, asked: &Asked) -> Option<Reply> {
        let bearer = asked.bearer();
        if !self.locked {
            let junk = self.has(F::JunkRefused) && bearer.is_some_and(|token| token != KEY);
            return junk.then(|| self.refusal(401, "these credentials are worthless", ""));
        }
        let by_header = ["x-api-key", "otc-api-key", "oxp-api-key"]
            .iter()
            .any(|name| asked.header(name) == Some(KEY) && !self.has(F::BearerOnly));
        let unsigned = self.has(F::UnsignedAccepted) && bearer.is_some_and(|it| it.ends_with('.'));
        if bearer == Some(KEY) || by_header || unsigned {
            return None;
        }
        let status = match bearer {
            Some(_) if self.has(F::UnknownKeyForbidden) => 403,
            None if self.has(F::CallsForbidden) && asked.path == "/tools/call" => 403,
            _ => 401,
        };
        Some(self.refusal(status, "a key is needed", ""))
    }

    fn list(&self, asked: &Asked) -> Reply {
        let has_type = asked.header("content-type").is_some();
        if asked.body.is_empty() && has_type && self.has(F::EmptyBodyRefused) {
            return self.refusal(400, "the body is no JSON", "");
        }
        if !asked.body.is_empty() {
            if self.has(F::GetBodyRefused) {
                return self.refusal(400, "a GET has no body", "");
            }
            let marker = asked.json().and_then(|body| body.get("$schema").cloned());
            if marker.is_some_and(|it| it != self.marker()) && !self.has(F::ListAnyVersion) {
                return self.refusal(400, "this version is not supported", "");
            }
        }
        let mut tools: Vec<Value> = TOOLS.iter().map(|tool| self.definition(*tool)).collect();
        if self.has(F::DuplicateId) {
            tools.push(tools[0].clone());
        }
        if self.has(F::BareList) {
            return Reply::json(200, &Value::Array(tools));
        }
        let name = if self.dialect == Dialect::Otc { "tools" } else { "items" };
        let mut body = json!({ name: tools });
        if !self.has(F::ListUnmarked) {
            body["$schema"] = json!(self.marker());
        }
        Reply::json(200, &body)
    }

    fn definition(&self, (bare, version, name): (&str, &str, &str)) -> Value {
        let mut schema = json!({ "type": "object", "properties": {} });
        if name == "echo" {
            schema["properties"]["text"] = json!({ "type": "string", "description": "What" });
            schema["required"] = json!(["text"]);
        }
        match self.fault {
            Some(F::ParameterUndescribed) if name == "echo" => {
                schema["properties"]["text"] = json!({ "type": "string" });
            }
            Some(F::References) => schema["$defs"] = json!({}),
            _ => {}
        }
        let is_wrapped = (self.dialect == Dialect::Otc) != self.has(F::OtherParameters);
        let bare = match self.has(F::IdsWithoutToolkit) {
            true => bare.split('.').next_back().unwrap_or_default(),
            false => bare,
        };
        let mut tool = json!({
            "id": format!("{bare}@{version}"),
            "name": name,
            "description": "A tool",
            "version": if self.has(F::VersionsDisagree) { "7.0.0" } else { version },
            "input_schema": if is_wrapped { json!({ "parameters": schema }) } else { schema },
            "output_schema": {},
        });
        if name == "mail" {
            tool["requirements"] = json!({ "secrets": [{ "id": "password" }] });
        }
        if self.has(F::DefinitionOpen) {
            tool["annotations"] = json!({ "readOnlyHint": true });
        }
        tool
    }

    fn call(&self, asked: &Asked) -> Reply {
        if asked.header("content-type").is_none() && self.has(F::ContentTypeNeeded) {
            return self.refusal(422, "say what it is", "");
        }
        let Some(body) = asked.json() else {
            let status = if self.has(F::NotJsonUnprocessable) { 422 } else { 400 };
            return self.refusal(status, "the body is no JSON", "");
        };
        let marker = body.get("$schema");
        if marker.is_some_and(|it| *it != self.marker()) && !self.has(F::AnyVersion) {
            return self.refusal(400, "this version is not supported", "");
        }
        let is_flat = self.dialect == Dialect::Oxp
            && !self.has(F::FlatRefused)
            && body.get("request").is_none()
            && body.get("tool_id").is_some();
        let request = if is_flat { Some(&body) } else { body.get("request") };
        let id = request.and_then(|request| request.get("tool_id")?.as_str());
        let (Some(request), Some(id)) = (request, id) else {
            let status = if self.has(F::NoRequestUnprocessable) { 422 } else { 400 };
            return self.refused_call(status, "there is no `request` of a tool", "", &body);
        };
        let given = request.get("call_id").and_then(Value::as_str);
        if let Some((earlier, reply)) = given.and_then(|it| self.answered.lock().get(it).cloned()) {
            if earlier != *request && !self.has(F::ConflictIgnored) {
                return self.refusal(400, "this `call_id` is used up", "");
            }
            if earlier == *request && !self.has(F::RunsAgain) {
                return reply;
            }
        }
        let reply = match self.found(id) {
            Ok(name) => self.run(name, request, is_flat),
            Err((status, message, developer)) => {
                self.refused_call(status, message, developer, &body)
            }
        };
        if let (Some(given), 200) = (given, reply.status) {
            self.answered.lock().insert(given.to_owned(), (request.clone(), reply.clone()));
        }
        reply
    }

    /// The name of the tool that `id` means.
    fn found(&self, id: &str) -> Result<&'static str, (u16, &'static str, &'static str)> {
        let (bare, version) = match id.split_once('@') {
            Some((bare, version)) => (bare, Some(version)),
            None => (id, None),
        };
        let is_bare = |tool: &str| {
            tool == bare || (self.has(F::IdsWithoutToolkit) && tool.ends_with(&format!(".{bare}")))
        };
        let versions: Vec<_> = TOOLS.iter().filter(|(tool, ..)| is_bare(tool)).collect();
        let Some((.., name)) = versions.first() else {
            let status = if self.has(F::UnknownToolNotFound) { 404 } else { 400 };
            return Err((status, "there is no such tool", "nothing of this id"));
        };
        let wanted = match version {
            None if self.has(F::VersionNeeded) => {
                return Err((400, "which version?", "none named"));
            }
            None => return Ok(name),
            Some(version) => version,
        };
        let parts: Vec<&str> = wanted.split('.').collect();
        let numbers = parts.iter().all(|part| part.parse::<u32>().is_ok());
        let meant = match parts.len() {
            3 if numbers => wanted.to_owned(),
            1 if numbers && self.has(F::MajorIsNewest) => return Ok(name),
            1 if numbers => format!("{wanted}.0.0"),
            2 if numbers && self.has(F::VersionsPadded) => format!("{wanted}.0"),
            _ => return Err((400, "this is no version", "expected x.y.z")),
        };
        let is_there = versions.iter().any(|(_, version, _)| *version == meant);
        match is_there || self.has(F::UnknownVersionIsNewest) {
            true => Ok(name),
            false => Err((400, "there is no such tool", "the tool has no such version")),
        }
    }

    fn run(&self, name: &str, request: &Value, is_flat: bool) -> Reply {
        let none = json!({});
        let input = match request.get("input") {
            None if self.has(F::InputNeeded) => return self.refusal(400, "`input` is missing", ""),
            input => input.unwrap_or(&none),
        };
        if name == "mail" {
            let has_secret = request.pointer("/context/secrets/0").is_some();
            if !has_secret && !self.has(F::RequirementsIgnored) {
                return self.refusal(400, "a secret is missing", "`password`");
            }
        }
        let fits = match (name, input.get("text")) {
            ("echo", None) => self.has(F::MissingInputPasses),
            ("echo", Some(text)) => text.is_string(),
            _ => true,
        };
        if !fits {
            if self.has(F::InvalidInputBadRequest) {
                return self.refusal(400, "the input does not fit", "");
            }
            let mut body = json!({ "$schema": self.marker(), "message": "the input does not fit" });
            if !self.has(F::NoParameterErrors) {
                body["parameter_errors"] = json!({ "text": "has to be a text" });
            }
            return Reply::json(422, &body);
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let made = if self.has(F::SameCallId) { "1".to_owned() } else { format!("call-{number}") };
        let call_id = request.get("call_id").cloned().unwrap_or(json!(made));
        let mut result = match name {
            "fail" if self.has(F::FailureIsServerError) => {
                return self.refusal(500, "it did not work", "");
            }
            "fail" => json!({
                "call_id": call_id, "success": false, "error": { "message": "it did not work" },
            }),
            _ => json!({ "call_id": call_id, "success": true, "value": input.get("text") }),
        };
        if !self.has(F::NoDuration) {
            // Another for each run, so that a replay can be told from one.
            result["duration"] = json!(number);
        }
        if is_flat || self.has(F::FlatResult) {
            return Reply::json(200, &result);
        }
        let mut body = json!({ "result": result });
        if !self.has(F::ResultUnmarked) {
            body["$schema"] = json!(self.marker());
        }
        Reply::json(200, &body)
    }

    fn refused_call(&self, status: u16, message: &str, developer: &str, body: &Value) -> Reply {
        match self.has(F::RefusalsEcho) {
            true => self.refusal(status, message, &body.to_string()),
            false => self.refusal(status, message, developer),
        }
    }

    fn refusal(&self, status: u16, message: &str, developer: &str) -> Reply {
        if self.has(F::Detail) {
            return Reply::json(status, &json!({ "detail": message }));
        }
        let message = match self.has(F::DeveloperTextInMessage) {
            true => format!("{message}: {developer}"),
            false => message.to_owned(),
        };
        let mut body = json!({ "message": message });
        if !self.has(F::RefusalsUnmarked) {
            body["$schema"] = json!(self.marker());
        }
        if !developer.is_empty() {
            body["developer_message"] = json!(developer);
        }
        Reply::json(status, &body)
    }
}
