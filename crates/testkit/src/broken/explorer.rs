//! A small embedded explorer, with a switch per fault.

mod page;
mod schema;

use http::Method;
use serde_json::{Value, json};

use super::{Asked, KEY, Reply, faults};

/// Where it starts.
const PREFIX: &str = "/explorer";

faults! {
    /// What an explorer can do wrong.
    ExplorerFault {
        /// The page is a plain text.
        PageIsText,
        /// The page is there without a slash alone.
        OnePath,
        /// The heading is another text than the title.
        OtherHeading,
        /// The title stands in the page as it was given.
        TitleRaw,
        /// The page was not filled in.
        PlaceholderLeft,
        /// The page says `"true"`, a text.
        FlagQuoted,
        /// The page says the opposite.
        FlagLies,
        /// The footer has a link to click on nothing.
        LinkWithoutName,
        /// The footer has a link that runs something.
        LinkRuns,
        /// The page needs another host.
        LoadsFromElsewhere,
        /// The list has an envelope.
        ListWrapped,
        /// A tool without a description.
        NoDescription,
        /// Hints are texts.
        HintsAreTexts,
        /// `annotations` is `null`.
        NullAnnotations,
        /// One name twice.
        DuplicateName,
        /// What does not run has no detail.
        DisabledHidesTools,
        /// Details have no schema.
        NoInputSchema,
        /// Details describe something else.
        DetailDiffers,
        /// Names are compared as they come.
        NotDecoded,
        /// Names are decoded twice.
        DecodesTwice,
        /// A tool that there is not is an empty one.
        UnknownIsFound,
        /// The 404 shows the name as it came.
        UnknownShownEncoded,
        /// `/tools/` is a tool.
        EmptyNameIsTool,
        /// No `isError` when it is none.
        NoIsError,
        /// `content` is a text.
        ContentIsText,
        /// `_meta` is `null` when nothing is traced.
        NullTrace,
        /// A body that is no JSON is refused.
        NotJsonRefused,
        /// A tool that fails is 200.
        FailureIsOk,
        /// A tool that fails says nothing.
        FailureSilent,
        /// A call of no tool is 400.
        UnknownCallBadRequest,
        /// 403 in other words.
        OtherWords,
        /// Only the page does not run tools.
        DisabledInPageOnly,
        /// `errors` is always there.
        ErrorsWhenValid,
        /// Missing properties do not matter.
        MissingPasses,
        /// What is missing is missing from the whole.
        MissingAtRoot,
        /// What is wrong is named without a slash.
        PathsAreNames,
        /// Errors have no keyword.
        NoKeywords,
        /// The whole is `/`.
        RootIsSlash,
        /// Names stand in paths as they are.
        NotEscaped,
        /// Only the first error.
        FirstOnly,
        /// Errors without a message.
        NoMessages,
        /// What is no JSON does not fit.
        NotJsonIsOk,
        /// Anything fits a tool that there is not.
        UnknownValidates,
        /// Nothing fits a tool without a schema.
        NoSchemaRefuses,
        /// Anything fits a schema that is none.
        BadSchemaPasses,
        /// Validation calls the tool.
        ValidateCalls,
        /// No validation where tools do not run.
        DisabledValidation,
        /// Details want a key.
        DetailLocked,
        /// Details want none.
        DetailOpen,
        /// With worthless credentials there is no list.
        JunkRefused,
        /// Calls without a key are 403.
        CallsForbidden,
        /// Any key will do.
        AnyKey,
        /// A 401 says why.
        Reasons,
        /// 404 before 403.
        UnknownBeforeDisabled,
        /// 401 before 403.
        AuthBeforeDisabled,
        /// 401 before 404.
        AuthBeforeUnknown,
        /// 400 before 404.
        BodyBeforeUnknown,
        /// Refusals have a code too.
        Codes,
        /// JSON says that it is text.
        JsonIsText,
        /// A POST to the list is the list.
        ListByPost,
        /// A GET calls.
        GetCalls,
        /// No HEAD.
        NoHead,
        /// Whatever is not there is the page.
        PageForAnything,
        /// A name that is not UTF-8 is refused in plain text.
        StrangeNamesText,
    }
}

/// How the host is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplorerSetup {
    /// Tools run, for whoever has the key; the list is for everybody.
    Usual,
    /// As usual, but no tool runs.
    Disabled,
    /// Whatever holds data wants the key before anything else.
    Guarded,
    /// No key is wanted.
    Free,
}

/// The host.
#[derive(Debug, Clone)]
pub(super) struct Host {
    setup: ExplorerSetup,
    fault: Option<ExplorerFault>,
}

use ExplorerFault as F;
use ExplorerSetup as S;

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

    pub(super) fn answer(&self, asked: &Asked) -> Reply {
        if asked.method == Method::HEAD && self.has(F::NoHead) {
            return Reply::json(405, &json!({ "error": "no HEAD" })).with("allow", "GET");
        }
        let mut reply = self.routed(asked);
        if self.has(F::JsonIsText) && reply.body.first() == Some(&b'{') {
            reply.set("content-type", "text/plain");
        }
        reply
    }

    fn routed(&self, asked: &Asked) -> Reply {
        let nothing = || match self.has(F::PageForAnything) {
            true => self.page(),
            false => Reply::json(404, &json!({ "error": "there is nothing here" })),
        };
        let Some(path) = asked.path.strip_prefix(PREFIX) else { return nothing() };
        let is_get = matches!(asked.method, Method::GET | Method::HEAD);
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts.as_slice() {
            [""] if self.has(F::OnePath) => nothing(),
            [] | [""] if is_get => self.page(),
            ["tools", ..] if self.setup == S::Guarded && !self.is_known(asked) => {
                let is_detail = is_get && parts.len() == 2;
                match is_detail && self.has(F::DetailOpen) {
                    true => self.detail(asked, parts.get(1).unwrap_or(&"")),
                    false => self.unauthorized(),
                }
            }
            ["tools"] if is_get || self.has(F::ListByPost) => self.list(asked),
            ["tools"] => not_allowed("GET, HEAD"),
            ["tools", name] if is_get => self.detail(asked, name),
            ["tools", name, "validate"] if asked.method == Method::POST => {
                self.validate(asked, name)
            }
            ["tools", name, "call"]
                if asked.method == Method::POST || (is_get && self.has(F::GetCalls)) =>
            {
                self.call(asked, name)
            }
            ["tools", _, "call" | "validate"] => not_allowed("POST"),
            _ => nothing(),
        }
    }

    /// Whether the request has the key.
    fn is_known(&self, asked: &Asked) -> bool {
        let bearer = asked.bearer();
        bearer == Some(KEY) || (self.has(F::AnyKey) && bearer.is_some())
    }

    fn unauthorized(&self) -> Reply {
        match self.has(F::Reasons) {
            true => self.refusal(401, "Unauthorized: no such key in keys.db"),
            false => self.refusal(401, "Unauthorized"),
        }
    }

    fn refusal(&self, status: u16, error: &str) -> Reply {
        match self.has(F::Codes) {
            true => Reply::json(status, &json!({ "error": error, "code": status })),
            false => Reply::json(status, &json!({ "error": error })),
        }
    }

    fn list(&self, asked: &Asked) -> Reply {
        if self.has(F::JunkRefused) && asked.bearer().is_some_and(|token| token != KEY) {
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

    /// `tool` as the list has it.
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

    /// What `encoded`, a part of a path, means; `None` when it is no text.
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

    /// The tool that `encoded` means, or the refusal.
    fn known(&self, encoded: &str) -> Result<Value, Box<Reply>> {
        let name = self.name(encoded);
        if name.is_none() && self.has(F::StrangeNamesText) {
            let mut reply = Reply::json(400, &json!(null)).with("content-type", "text/plain");
            reply.body = b"invalid UTF-8".to_vec();
            return Err(Box::new(reply));
        }
        let name = name.unwrap_or_default();
        let shown = if self.has(F::UnknownShownEncoded) { encoded } else { &name };
        self.find(&name)
            .ok_or_else(|| Box::new(self.refusal(404, &format!("Tool not found: {shown}"))))
    }

    fn detail(&self, asked: &Asked, encoded: &str) -> Reply {
        if self.has(F::DetailLocked) && !self.is_known(asked) {
            return self.unauthorized();
        }
        if encoded.is_empty() && self.has(F::EmptyNameIsTool) {
            return Reply::json(200, &json!({ "name": "", "description": "", "inputSchema": {} }));
        }
        if !self.runs() && self.has(F::DisabledHidesTools) {
            return self.refusal(403, "Tool execution is disabled.");
        }
        let mut tool = match self.known(encoded) {
            Ok(tool) => tool,
            Err(_) if self.has(F::UnknownIsFound) => return Reply::json(200, &json!({})),
            Err(refusal) => return *refusal,
        };
        if self.has(F::NoInputSchema) {
            tool.as_object_mut().unwrap().remove("inputSchema");
        }
        if self.has(F::DetailDiffers) {
            tool["description"] = json!("Something else");
        }
        Reply::json(200, &tool)
    }

    fn call(&self, asked: &Asked, encoded: &str) -> Reply {
        let tool = self.known(encoded);
        let disabled = || match self.has(F::OtherWords) {
            true => self.refusal(403, "tools do not run here"),
            false => self.refusal(403, "Tool execution is disabled."),
        };
        let is_known = self.setup == S::Free || self.is_known(asked);
        let stranger = || match self.has(F::CallsForbidden) && asked.bearer().is_none() {
            true => self.refusal(403, "Forbidden"),
            false => self.unauthorized(),
        };
        let first = match self.fault {
            Some(F::UnknownBeforeDisabled) => tool.as_ref().err().map(|it| Reply::clone(it)),
            Some(F::AuthBeforeDisabled | F::AuthBeforeUnknown) if !is_known => Some(stranger()),
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
            Err(_) if self.has(F::UnknownCallBadRequest) => return self.refusal(400, "which?"),
            Err(refusal) => return *refusal,
        };
        if !is_known {
            return stranger();
        }
        let arguments = match asked.json() {
            None if self.has(F::NotJsonRefused) => return self.refusal(400, "this is no JSON"),
            arguments => arguments.unwrap_or_else(|| json!({})),
        };
        self.run(&tool, &arguments)
    }

    fn run(&self, tool: &Value, arguments: &Value) -> Reply {
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        if tool["name"] == "fail" {
            let content = if self.has(F::FailureSilent) { json!([]) } else { text("kaboom") };
            let status = if self.has(F::FailureIsOk) { 200 } else { 500 };
            // Nothing traces what fails.
            let mut result = json!({ "content": content, "isError": true });
            if self.has(F::NullTrace) {
                result["_meta"] = Value::Null;
            }
            return Reply::json(status, &result);
        }
        let said = arguments["text"].as_str().unwrap_or_default();
        let mut result = json!({
            "content": text(&format!("echo: {said}")),
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

    fn validate(&self, asked: &Asked, encoded: &str) -> Reply {
        if !self.runs() && self.has(F::DisabledValidation) {
            return self.refusal(403, "Tool execution is disabled.");
        }
        let arguments = asked.json();
        let not_json = || {
            let error = json!({ "path": "", "message": "Invalid JSON: no", "keyword": "format" });
            let status = if self.has(F::NotJsonIsOk) { 200 } else { 400 };
            Reply::json(status, &json!({ "valid": false, "errors": [error] }))
        };
        if arguments.is_none() && self.has(F::BodyBeforeUnknown) {
            return not_json();
        }
        let tool = match self.known(encoded) {
            Ok(tool) => tool,
            Err(_) if self.has(F::UnknownValidates) => {
                return Reply::json(200, &json!({ "valid": true }));
            }
            Err(refusal) => return *refusal,
        };
        if self.has(F::ValidateCalls) {
            return self.run(&tool, &arguments.unwrap_or_default());
        }
        match arguments {
            None => not_json(),
            Some(arguments) => self.judged(&tool["inputSchema"], &arguments),
        }
    }
}

/// The tools, as their details have them.
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
    let odd = json!({ "type": "object", "properties": { "a/b~c": text } });
    vec![
        echo,
        tool("fail", json!({ "type": "object" })),
        tool("files/read", odd),
        tool("anything", json!({})),
        tool("nonsense", json!({ "type": "no-such-type" })),
    ]
}

fn not_allowed(allow: &'static str) -> Reply {
    Reply::json(405, &json!({ "error": "not this way" })).with("allow", allow)
}
