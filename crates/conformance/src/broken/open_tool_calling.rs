//! A small host of Open Tool Calling or OXP with a switch per fault.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::host::{HttpRequest, KEY, Reply, faults};

faults! {
    /// Faults of a host of Open Tool Calling or OXP.
    OpenToolCallingFault {
        /// Health requires a key.
        HealthLocked = "health.open",
        /// The list is a bare array.
        BareList = "list.object",
        /// The list has no `$schema`.
        ListUnmarked = "list.schema-marker",
        /// Rejects a GET with a body: 400.
        GetBodyRefused = "list.with-schema",
        /// The list ignores the requested version.
        ListAnyVersion = "list.unsupported-version",
        /// Rejects a GET with a content type and no body: 400.
        EmptyBodyRefused = "list.empty-body",
        /// Tools have annotations.
        DefinitionOpen = "list.definitions",
        /// Ids have no toolkit.
        IdsWithoutToolkit = "list.ids",
        /// One id occurs twice.
        DuplicateId = "list.unique-ids",
        /// `version` differs from the version in the id.
        VersionsDisagree = "list.versions",
        /// A parameter has no description.
        ParameterUndescribed = "list.parameter-descriptions",
        /// Schemas have `$defs`.
        References = "list.no-refs",
        /// `input_schema` has the form of the other dialect.
        OtherParameters = "list.parameters",
        /// The response to a call has no envelope.
        FlatResult = "call.success",
        /// The response to a call has no `$schema`.
        ResultUnmarked = "call.schema-marker",
        /// Results have no `duration`.
        NoDuration = "call.duration",
        /// Every call has the id `1`.
        SameCallId = "call.generated-id",
        /// `input` is required.
        InputNeeded = "call.input-omitted",
        /// The version is required.
        VersionNeeded = "call.no-version",
        /// `@1` is the newest 1.x.
        MajorIsNewest = "call.major-version",
        /// `@1.0` is 1.0.0.
        VersionsPadded = "call.malformed-version",
        /// Answers an unknown tool with 404.
        UnknownToolNotFound = "call.unknown-tool",
        /// An unknown version is the newest.
        UnknownVersionIsNewest = "call.unknown-version",
        /// Answers input of a wrong type with 400.
        InvalidInputBadRequest = "call.invalid-input",
        /// Missing input is accepted.
        MissingInputPasses = "call.missing-input",
        /// A 422 has no `parameter_errors`.
        NoParameterErrors = "call.parameter-errors",
        /// Answers a failing tool with 500.
        FailureIsServerError = "call.tool-failure",
        /// Answers a non-JSON body with 422.
        NotJsonUnprocessable = "call.not-json",
        /// Answers a body without `request` with 422.
        NoRequestUnprocessable = "call.malformed-request",
        /// Calls ignore the requested version.
        AnyVersion = "call.unsupported-version",
        /// Answers a call without a content type with 422.
        ContentTypeNeeded = "call.content-type",
        /// A repeated call runs again.
        RunsAgain = "call.repeated",
        /// A `call_id` can be used for several calls.
        ConflictIgnored = "call.conflict",
        /// Requirements are not enforced.
        RequirementsIgnored = "call.requirements",
        /// Errors have `detail` instead of `message`.
        Detail = "errors.message",
        /// Errors have no `$schema`.
        RefusalsUnmarked = "errors.schema-marker",
        /// The message contains the text for developers.
        DeveloperTextInMessage = "errors.developer-message",
        /// Errors repeat the request.
        RefusalsEcho = "errors.no-secrets",
        /// Calls without a key return 403.
        CallsForbidden = "auth.required",
        /// Answers an unknown key with 403.
        UnknownKeyForbidden = "auth.unknown-key",
        /// Tokens need no signature.
        UnsignedAccepted = "auth.unsigned-token",
        /// A key is accepted only as a bearer token.
        BearerOnly = "auth.key-header",
        /// Credentials are optional, but invalid ones are rejected.
        JunkRefused = "auth.ignored-when-off",
        /// Responses have no `OXP-Version`.
        NoVersionHeader = "version.header",
        /// Every `OXP-Version` is accepted.
        AnyVersionHeader = "version.unsupported",
        /// A call without an envelope is rejected.
        FlatRefused = "version.flat-call",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Otc,
    Oxp,
}

#[derive(Debug)]
pub(super) struct Host {
    dialect: Dialect,
    /// Whether the host requires a key.
    locked: bool,
    fault: Option<OpenToolCallingFault>,
    calls: AtomicUsize,
    /// Requests and replies by `call_id`.
    replies: Mutex<HashMap<String, (Value, Reply)>>,
}

use OpenToolCallingFault as F;

/// The tools: id, version, name.
const TOOLS: [(&str, &str, &str); 5] = [
    ("Crib.Echo", "1.0.0", "echo"),
    ("Crib.Echo", "2.1.0", "echo"),
    ("Crib.Fail", "1.0.0", "fail"),
    ("Crib.Mail", "1.0.0", "mail"),
    ("Crib.Now", "1.0.0", "now"),
];

impl super::host::Host for Host {
    fn answer(&self, req: &HttpRequest) -> Reply {
        let mut reply = self.route(req);
        if self.dialect == Dialect::Oxp && !self.has(F::NoVersionHeader) {
            reply.set("oxp-version", "1.0");
        }
        reply
    }
}

impl Host {
    pub(super) fn new(dialect: Dialect, locked: bool, fault: Option<OpenToolCallingFault>) -> Self {
        let locked = locked && fault != Some(F::JunkRefused);
        Self { dialect, locked, fault, calls: AtomicUsize::new(0), replies: Mutex::default() }
    }

    fn has(&self, fault: OpenToolCallingFault) -> bool {
        self.fault == Some(fault)
    }

    fn marker(&self) -> &'static str {
        match self.dialect {
            Dialect::Otc => "otc://1.0",
            Dialect::Oxp => "urn:oxp:1.0",
        }
    }

    fn route(&self, req: &HttpRequest) -> Reply {
        let is_open = req.path == "/health" && !self.has(F::HealthLocked);
        if !is_open && let Some(rejection) = self.rejection(req) {
            return rejection;
        }
        let version = req.header("oxp-version").unwrap_or("1.0");
        if self.dialect == Dialect::Oxp && version != "1.0" && !self.has(F::AnyVersionHeader) {
            return self.error(400, "unsupported version", "use 1.0");
        }
        match (req.method.clone(), req.path.as_str()) {
            (Method::GET, "/health") => Reply::json(200, &json!({ "status": "OK" })),
            (Method::GET, "/tools") => self.list(req),
            (Method::POST, "/tools/call") => self.call(req),
            // The explorer of the same host marks tools as read-only.
            (Method::GET, "/explorer/tools") => Reply::json(
                200,
                &json!([
                    { "name": "mail", "description": "", "annotations": { "readOnlyHint": true } },
                { "name": "now", "description": "", "annotations": { "readOnlyHint": true } },
                ]),
            ),
            _ => self.error(404, "not found", ""),
        }
    }

    fn rejection(&self, req: &HttpRequest) -> Option<Reply> {
        let bearer = req.bearer();
        if !self.locked {
            let junk = self.has(F::JunkRefused) && bearer.is_some_and(|token| token != KEY);
            return junk.then(|| self.error(401, "invalid credentials", ""));
        }
        let by_header = ["x-api-key", "otc-api-key", "oxp-api-key"]
            .iter()
            .any(|name| req.header(name) == Some(KEY) && !self.has(F::BearerOnly));
        let unsigned =
            self.has(F::UnsignedAccepted) && bearer.is_some_and(|token| token.ends_with('.'));
        if bearer == Some(KEY) || by_header || unsigned {
            return None;
        }
        let status = match bearer {
            Some(_) if self.has(F::UnknownKeyForbidden) => 403,
            None if self.has(F::CallsForbidden) && req.path == "/tools/call" => 403,
            _ => 401,
        };
        Some(self.error(status, "a key is required", ""))
    }

    fn list(&self, req: &HttpRequest) -> Reply {
        let has_type = req.header("content-type").is_some();
        if req.body.is_empty() && has_type && self.has(F::EmptyBodyRefused) {
            return self.error(400, "the body is not JSON", "");
        }
        if !req.body.is_empty() {
            if self.has(F::GetBodyRefused) {
                return self.error(400, "a GET has no body", "");
            }
            let marker = req.json().and_then(|body| body.get("$schema").cloned());
            if marker.is_some_and(|given| given != self.marker()) && !self.has(F::ListAnyVersion) {
                return self.error(400, "unsupported version", "");
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

    fn call(&self, req: &HttpRequest) -> Reply {
        if req.header("content-type").is_none() && self.has(F::ContentTypeNeeded) {
            return self.error(422, "the content type is missing", "");
        }
        let Some(body) = req.json() else {
            let status = if self.has(F::NotJsonUnprocessable) { 422 } else { 400 };
            return self.error(status, "the body is not JSON", "");
        };
        let marker = body.get("$schema");
        if marker.is_some_and(|given| *given != self.marker()) && !self.has(F::AnyVersion) {
            return self.error(400, "unsupported version", "");
        }
        let is_flat = self.dialect == Dialect::Oxp
            && !self.has(F::FlatRefused)
            && body.get("request").is_none()
            && body.get("tool_id").is_some();
        let request = if is_flat { Some(&body) } else { body.get("request") };
        let id = request.and_then(|request| request.get("tool_id")?.as_str());
        let (Some(request), Some(id)) = (request, id) else {
            let status = if self.has(F::NoRequestUnprocessable) { 422 } else { 400 };
            return self.call_error(status, "`request` is missing", "", &body);
        };
        let given = request.get("call_id").and_then(Value::as_str);
        if let Some((earlier, reply)) = given.and_then(|id| self.replies.lock().get(id).cloned()) {
            if earlier != *request && !self.has(F::ConflictIgnored) {
                return self.error(400, "this `call_id` is in use", "");
            }
            if earlier == *request && !self.has(F::RunsAgain) {
                return reply;
            }
        }
        let reply = match self.find(id) {
            Ok(name) => self.run(name, request, is_flat),
            Err((status, message, developer)) => self.call_error(status, message, developer, &body),
        };
        if let (Some(given), 200) = (given, reply.status) {
            self.replies.lock().insert(given.to_owned(), (request.clone(), reply.clone()));
        }
        reply
    }

    /// Finds the name of the tool with `id`.
    fn find(&self, id: &str) -> Result<&'static str, (u16, &'static str, &'static str)> {
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
            return Err((status, "unknown tool", "unknown id"));
        };
        let wanted = match version {
            None if self.has(F::VersionNeeded) => {
                return Err((400, "the version is missing", "use id@x.y.z"));
            }
            None => return Ok(name),
            Some(version) => version,
        };
        let parts: Vec<&str> = wanted.split('.').collect();
        let numbers = parts.iter().all(|part| part.parse::<u32>().is_ok());
        let version = match parts.len() {
            3 if numbers => wanted.to_owned(),
            1 if numbers && self.has(F::MajorIsNewest) => return Ok(name),
            1 if numbers => format!("{wanted}.0.0"),
            2 if numbers && self.has(F::VersionsPadded) => format!("{wanted}.0"),
            _ => return Err((400, "malformed version", "expected x.y.z")),
        };
        let exists = versions.iter().any(|(_, known, _)| *known == version);
        match exists || self.has(F::UnknownVersionIsNewest) {
            true => Ok(name),
            false => Err((400, "unknown tool", "unknown version")),
        }
    }

    fn run(&self, name: &str, request: &Value, is_flat: bool) -> Reply {
        let none = json!({});
        let input = match request.get("input") {
            None if self.has(F::InputNeeded) => return self.error(400, "`input` is missing", ""),
            input => input.unwrap_or(&none),
        };
        if name == "mail" {
            let has_secret = request.pointer("/context/secrets/0").is_some();
            if !has_secret && !self.has(F::RequirementsIgnored) {
                return self.error(400, "a secret is missing", "`password`");
            }
        }
        let is_valid = match (name, input.get("text")) {
            ("echo", None) => self.has(F::MissingInputPasses),
            ("echo", Some(text)) => text.is_string(),
            _ => true,
        };
        if !is_valid {
            if self.has(F::InvalidInputBadRequest) {
                return self.error(400, "invalid input", "");
            }
            let mut body = json!({ "$schema": self.marker(), "message": "invalid input" });
            if !self.has(F::NoParameterErrors) {
                body["parameter_errors"] = json!({ "text": "must be a string" });
            }
            return Reply::json(422, &body);
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let created =
            if self.has(F::SameCallId) { "1".to_owned() } else { format!("call-{number}") };
        let call_id = request.get("call_id").cloned().unwrap_or(json!(created));
        let mut result = match name {
            "fail" if self.has(F::FailureIsServerError) => {
                return self.error(500, "the tool failed", "");
            }
            "fail" => json!({
                "call_id": call_id, "success": false, "error": { "message": "the tool failed" },
            }),
            _ => json!({ "call_id": call_id, "success": true, "value": input.get("text") }),
        };
        if !self.has(F::NoDuration) {
            // Unique for each run, so that a replay is visible.
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

    fn call_error(&self, status: u16, message: &str, developer: &str, body: &Value) -> Reply {
        match self.has(F::RefusalsEcho) {
            true => self.error(status, message, &body.to_string()),
            false => self.error(status, message, developer),
        }
    }

    fn error(&self, status: u16, message: &str, developer: &str) -> Reply {
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
