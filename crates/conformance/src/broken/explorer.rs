//! A small embedded explorer with a switch per fault.

mod page;
mod schema;

use http::Method;
use serde_json::{Value, json};

use super::host::{HttpRequest, KEY, Reply, faults};

/// The path of the page.
const PREFIX: &str = "/explorer";

faults! {
    /// Faults of an explorer.
    ExplorerFault {
        /// The page is plain text.
        PageIsText = "page.html",
        /// The page exists only without a trailing slash.
        OnePath = "page.both-paths",
        /// The heading differs from the title.
        OtherHeading = "page.title",
        /// The title is not escaped.
        TitleRaw = "page.title-escaped",
        /// The page contains a placeholder.
        PlaceholderLeft = "page.placeholders",
        /// The flag is the string `"true"`.
        FlagQuoted = "page.execute-flag",
        /// The flag is wrong.
        FlagLies = "page.flag-agrees",
        /// The footer has a link without a name.
        LinkWithoutName = "page.project",
        /// The footer has a `javascript:` link.
        LinkRuns = "page.link-schemes",
        /// The page loads from another host.
        LoadsFromElsewhere = "page.self-contained",
        /// The list has an envelope.
        ListWrapped = "list.array",
        /// A tool has no description.
        NoDescription = "list.summaries",
        /// A hint is a string.
        HintsAreTexts = "list.annotations",
        /// `annotations` is `null`.
        NullAnnotations = "list.no-nulls",
        /// One name occurs twice.
        DuplicateName = "list.unique-names",
        /// Details return 403 if tools do not run.
        DisabledHidesTools = "list.when-disabled",
        /// Details have no schema.
        NoInputSchema = "detail.members",
        /// Details have another description.
        DetailDiffers = "detail.same-facts",
        /// Names are not decoded.
        NotDecoded = "detail.encoded",
        /// Names are decoded twice.
        DecodesTwice = "detail.decoded-once",
        /// Answers an unknown tool with 200.
        UnknownIsFound = "detail.unknown",
        /// A 404 contains the encoded name.
        UnknownShownEncoded = "detail.unknown-decoded",
        /// `/tools/` is a tool.
        EmptyNameIsTool = "detail.empty-name",
        /// A success has no `isError`.
        NoIsError = "call.success",
        /// `content` is a string.
        ContentIsText = "call.content",
        /// `_meta` is `null` without a trace.
        NullTrace = "call.trace",
        /// Answers a non-JSON body with 400.
        NotJsonRefused = "call.not-json",
        /// Answers a failing tool with 200.
        FailureIsOk = "call.tool-failure",
        /// A failing tool has no text.
        FailureSilent = "call.failure-text",
        /// Answers a call of an unknown tool with 400.
        UnknownCallBadRequest = "call.unknown",
        /// The 403 has another text.
        OtherWords = "call.disabled",
        /// Only the page disables tools.
        DisabledInPageOnly = "call.disabled",
        /// `errors` is always present.
        ErrorsWhenValid = "validate.valid",
        /// Missing properties are accepted.
        MissingPasses = "validate.missing",
        /// The path of a missing property is the root.
        MissingAtRoot = "validate.missing-path",
        /// Paths have no leading slash.
        PathsAreNames = "validate.type-path",
        /// Errors have no keyword.
        NoKeywords = "validate.keywords",
        /// The root path is `/`.
        RootIsSlash = "validate.root-path",
        /// Names in paths are not escaped.
        NotEscaped = "validate.pointers",
        /// Only the first error is returned.
        FirstOnly = "validate.all-violations",
        /// Errors have no message.
        NoMessages = "validate.entries",
        /// Answers a non-JSON body with 200.
        NotJsonIsOk = "validate.not-json",
        /// An unknown tool accepts everything.
        UnknownValidates = "validate.unknown",
        /// A tool without a schema rejects everything.
        NoSchemaRefuses = "validate.no-schema",
        /// An invalid schema accepts everything.
        BadSchemaPasses = "validate.bad-schema",
        /// Validation calls the tool.
        ValidateCalls = "validate.calls-nothing",
        /// Validation returns 403 if tools do not run.
        DisabledValidation = "validate.when-disabled",
        /// Details require a key.
        DetailLocked = "auth.discovery",
        /// Details require no key, although the list does.
        DetailOpen = "auth.discovery",
        /// The list rejects invalid credentials.
        JunkRefused = "auth.invalid-ignored",
        /// Calls without a key return 403.
        CallsForbidden = "auth.required",
        /// Every key is accepted.
        AnyKey = "auth.unknown-key",
        /// A 401 contains the reason.
        Reasons = "auth.body",
        /// 404 takes precedence over 403.
        UnknownBeforeDisabled = "order.disabled-before-unknown",
        /// 401 takes precedence over 403.
        AuthBeforeDisabled = "order.disabled-before-auth",
        /// 401 takes precedence over 404.
        AuthBeforeUnknown = "order.unknown-before-auth",
        /// 400 takes precedence over 404.
        BodyBeforeUnknown = "order.unknown-before-body",
        /// Errors have a code, too.
        Codes = "errors.body",
        /// JSON has a text content type.
        JsonIsText = "errors.content-type",
        /// Answers POST with the list.
        ListByPost = "errors.method",
        /// GET calls a tool.
        GetCalls = "errors.get-calls-nothing",
        /// Answers HEAD with 405.
        NoHead = "errors.head",
        /// Unknown paths return the page.
        PageForAnything = "errors.unknown-path",
        /// The error for a name that is not UTF-8 is plain text.
        StrangeNamesText = "errors.invalid-names",
    }
}

/// The configuration of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplorerSetup {
    /// Tools run with the key, and the list is public.
    Usual,
    /// Like `Usual`, but no tool runs.
    Disabled,
    /// Every endpoint with data requires the key.
    Guarded,
    /// No endpoint requires a key.
    Free,
}

#[derive(Debug)]
pub(super) struct Host {
    setup: ExplorerSetup,
    fault: Option<ExplorerFault>,
}

use ExplorerFault as F;
use ExplorerSetup as S;

impl super::host::Host for Host {
    fn answer(&self, req: &HttpRequest) -> Reply {
        if req.method == Method::HEAD && self.has(F::NoHead) {
            return Reply::json(405, &json!({ "error": "no HEAD" })).with("allow", "GET");
        }
        let mut reply = self.routed(req);
        if self.has(F::JsonIsText) && reply.body.first() == Some(&b'{') {
            reply.set("content-type", "text/plain");
        }
        reply
    }
}

impl Host {
    pub(super) fn new(setup: ExplorerSetup, fault: Option<ExplorerFault>) -> Self {
        Self { setup, fault }
    }

    fn has(&self, fault: ExplorerFault) -> bool {
        self.fault == Some(fault)
    }

    fn runs(&self) -> bool {
        self.setup != S::Disabled
    }

    fn routed(&self, req: &HttpRequest) -> Reply {
        let not_found = || match self.has(F::PageForAnything) {
            true => self.page(),
            false => Reply::json(404, &json!({ "error": "not found" })),
        };
        let Some(path) = req.path.strip_prefix(PREFIX) else { return not_found() };
        let is_get = matches!(req.method, Method::GET | Method::HEAD);
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts.as_slice() {
            [""] if self.has(F::OnePath) => not_found(),
            [] | [""] if is_get => self.page(),
            ["tools", ..] if self.setup == S::Guarded && !self.is_authorized(req) => {
                let is_detail = is_get && parts.len() == 2;
                match is_detail && self.has(F::DetailOpen) {
                    true => self.detail(req, parts.get(1).unwrap_or(&"")),
                    false => self.unauthorized(),
                }
            }
            ["tools"] if is_get || self.has(F::ListByPost) => self.list(req),
            ["tools"] => not_allowed("GET, HEAD"),
            ["tools", name] if is_get => self.detail(req, name),
            ["tools", name, "validate"] if req.method == Method::POST => self.validate(req, name),
            ["tools", name, "call"]
                if req.method == Method::POST || (is_get && self.has(F::GetCalls)) =>
            {
                self.call(req, name)
            }
            ["tools", _, "call" | "validate"] => not_allowed("POST"),
            _ => not_found(),
        }
    }

    fn is_authorized(&self, req: &HttpRequest) -> bool {
        let bearer = req.bearer();
        bearer == Some(KEY) || (self.has(F::AnyKey) && bearer.is_some())
    }

    fn unauthorized(&self) -> Reply {
        match self.has(F::Reasons) {
            true => self.error(401, "Unauthorized: unknown key in keys.db"),
            false => self.error(401, "Unauthorized"),
        }
    }

    fn error(&self, status: u16, error: &str) -> Reply {
        match self.has(F::Codes) {
            true => Reply::json(status, &json!({ "error": error, "code": status })),
            false => Reply::json(status, &json!({ "error": error })),
        }
    }

    fn list(&self, req: &HttpRequest) -> Reply {
        if self.has(F::JunkRefused) && req.bearer().is_some_and(|token| token != KEY) {
            return self.unauthorized();
        }
        let mut tools: Vec<Value> = tools().into_iter().map(|tool| self.summary(tool)).collect();
        if self.has(F::DuplicateName) {
            tools.push(tools[0].clone());
        }
        match self.has(F::ListWrapped) {
            true => Reply::json(200, &json!({ "tools": tools })),
            false => Reply::json(200, &json!(tools)),
        }
    }

    fn summary(&self, mut tool: Value) -> Value {
        let members = tool.as_object_mut().unwrap();
        members.remove("inputSchema");
        let is_echo = members["name"] == "echo";
        match self.fault {
            Some(F::NoDescription) if is_echo => drop(members.remove("description")),
            Some(F::HintsAreTexts) if is_echo => {
                members["annotations"]["idempotentHint"] = json!("true");
            }
            Some(F::NullAnnotations) => {
                members.entry("annotations").or_insert(Value::Null);
            }
            _ => {}
        }
        tool
    }

    /// Decodes a name in a path; `None` if it is not UTF-8.
    fn name(&self, encoded: &str) -> Option<String> {
        let decoded = |text: &str| {
            let text = percent_encoding::percent_decode_str(text).decode_utf8().ok()?;
            Some(text.into_owned())
        };
        match self.fault {
            Some(F::NotDecoded) => Some(encoded.to_owned()),
            Some(F::DecodesTwice) => decoded(&decoded(encoded)?),
            _ => decoded(encoded),
        }
    }

    fn find(&self, name: &str) -> Option<Value> {
        tools().into_iter().find(|tool| tool["name"] == name)
    }

    /// Finds the tool with the encoded name.
    fn tool(&self, encoded: &str) -> Result<Value, Box<Reply>> {
        let name = self.name(encoded);
        if name.is_none() && self.has(F::StrangeNamesText) {
            let mut reply = Reply::json(400, &json!(null)).with("content-type", "text/plain");
            reply.body = b"invalid UTF-8".to_vec();
            return Err(Box::new(reply));
        }
        let name = name.unwrap_or_default();
        let shown = if self.has(F::UnknownShownEncoded) { encoded } else { &name };
        self.find(&name)
            .ok_or_else(|| Box::new(self.error(404, &format!("Tool not found: {shown}"))))
    }

    fn detail(&self, req: &HttpRequest, encoded: &str) -> Reply {
        if self.has(F::DetailLocked) && !self.is_authorized(req) {
            return self.unauthorized();
        }
        if encoded.is_empty() && self.has(F::EmptyNameIsTool) {
            return Reply::json(200, &json!({ "name": "", "description": "", "inputSchema": {} }));
        }
        if !self.runs() && self.has(F::DisabledHidesTools) {
            return self.error(403, "Tool execution is disabled.");
        }
        let mut tool = match self.tool(encoded) {
            Ok(tool) => tool,
            Err(_) if self.has(F::UnknownIsFound) => return Reply::json(200, &json!({})),
            Err(error) => return *error,
        };
        if self.has(F::NoInputSchema) {
            tool.as_object_mut().unwrap().remove("inputSchema");
        }
        if self.has(F::DetailDiffers) {
            tool["description"] = json!("Something else");
        }
        Reply::json(200, &tool)
    }

    fn call(&self, req: &HttpRequest, encoded: &str) -> Reply {
        let tool = self.tool(encoded);
        let disabled = || match self.has(F::OtherWords) {
            true => self.error(403, "tools are disabled"),
            false => self.error(403, "Tool execution is disabled."),
        };
        let is_authorized = self.setup == S::Free || self.is_authorized(req);
        let unauthorized = || match self.has(F::CallsForbidden) && req.bearer().is_none() {
            true => self.error(403, "Forbidden"),
            false => self.unauthorized(),
        };
        let first = match self.fault {
            Some(F::UnknownBeforeDisabled) => tool.as_ref().err().map(|reply| Reply::clone(reply)),
            Some(F::AuthBeforeDisabled | F::AuthBeforeUnknown) if !is_authorized => {
                Some(unauthorized())
            }
            _ => None,
        };
        if let Some(first) = first {
            return first;
        }
        if !(self.runs() || self.has(F::DisabledInPageOnly) && tool.is_ok()) {
            return disabled();
        }
        let tool = match tool {
            Ok(tool) => tool,
            Err(_) if self.has(F::UnknownCallBadRequest) => return self.error(400, "unknown tool"),
            Err(error) => return *error,
        };
        if !is_authorized {
            return unauthorized();
        }
        let arguments = match req.json() {
            None if self.has(F::NotJsonRefused) => return self.error(400, "the body is not JSON"),
            arguments => arguments.unwrap_or_else(|| json!({})),
        };
        self.run(&tool, &arguments)
    }

    fn run(&self, tool: &Value, arguments: &Value) -> Reply {
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        if tool["name"] == "fail" {
            let content = if self.has(F::FailureSilent) { json!([]) } else { text("kaboom") };
            let status = if self.has(F::FailureIsOk) { 200 } else { 500 };
            // A failure has no trace.
            let mut result = json!({ "content": content, "isError": true });
            if self.has(F::NullTrace) {
                result["_meta"] = Value::Null;
            }
            return Reply::json(status, &result);
        }
        let input = arguments["text"].as_str().unwrap_or_default();
        let mut result = json!({
            "content": text(&format!("echo: {input}")),
            "isError": false,
            "_meta": { "_trace_id": "t1" },
        });
        match self.fault {
            Some(F::NoIsError) => drop(result.as_object_mut().unwrap().remove("isError")),
            Some(F::ContentIsText) => result["content"] = json!("echo"),
            _ => {}
        }
        Reply::json(200, &result)
    }

    fn validate(&self, req: &HttpRequest, encoded: &str) -> Reply {
        if !self.runs() && self.has(F::DisabledValidation) {
            return self.error(403, "Tool execution is disabled.");
        }
        let arguments = req.json();
        let not_json = || {
            let error = json!({ "path": "", "message": "Invalid JSON: no", "keyword": "format" });
            let status = if self.has(F::NotJsonIsOk) { 200 } else { 400 };
            Reply::json(status, &json!({ "valid": false, "errors": [error] }))
        };
        if arguments.is_none() && self.has(F::BodyBeforeUnknown) {
            return not_json();
        }
        let tool = match self.tool(encoded) {
            Ok(tool) => tool,
            Err(_) if self.has(F::UnknownValidates) => {
                return Reply::json(200, &json!({ "valid": true }));
            }
            Err(error) => return *error,
        };
        if self.has(F::ValidateCalls) {
            return self.run(&tool, &arguments.unwrap_or_default());
        }
        match arguments {
            None => not_json(),
            Some(arguments) => self.validation(&tool["inputSchema"], &arguments),
        }
    }
}

fn tools() -> Vec<Value> {
    let text = json!({ "type": "string" });
    let tool = |name: &str, schema: Value| json!({ "name": name, "description": "A tool", "inputSchema": schema });
    let mut echo = tool(
        "echo",
        json!({
            "type": "object",
            "properties": { "text": text, "count": { "type": "integer" } },
            "required": ["text"],
        }),
    );
    echo["annotations"] = json!({ "readOnlyHint": true });
    let escaped = json!({ "type": "object", "properties": { "a/b~c": text } });
    vec![
        echo,
        tool("fail", json!({ "type": "object" })),
        tool("files/read", escaped),
        tool("anything", json!({})),
        tool("nonsense", json!({ "type": "no-such-type" })),
    ]
}

fn not_allowed(allow: &'static str) -> Reply {
    Reply::json(405, &json!({ "error": "method not allowed" })).with("allow", allow)
}
