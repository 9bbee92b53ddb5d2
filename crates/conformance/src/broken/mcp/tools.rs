//! The tools: their list with two per page, and their results.

use serde_json::{Map, Value, json};

use super::{Error, F, Host};

const SECOND_PAGE: &str = "second-page";

impl Host {
    /// The page of the cursor in `params`; `number` counts the replies.
    pub(super) fn list(&self, params: &Map<String, Value>, number: usize) -> Result<Value, Error> {
        let mut tools = self.tools();
        let second = tools.split_off(2);
        let (mut page, next) = match params.get("cursor").and_then(Value::as_str) {
            None => (tools, true),
            Some(SECOND_PAGE) => (second, self.has(F::PagesLoop)),
            Some(_) if self.has(F::BadCursorIgnored) => (tools, true),
            Some(_) => return Err((200, -32602, Value::Null)),
        };
        if self.has(F::Unstable) && number % 2 == 1 {
            page.reverse();
        }
        let name = if self.has(F::ListRenamed) { "items" } else { "tools" };
        let mut result = json!({ name: page });
        if next {
            result["nextCursor"] = json!(SECOND_PAGE);
        }
        Ok(result)
    }

    fn tools(&self) -> Vec<Value> {
        let reads = json!({ "readOnlyHint": true });
        let text = json!({ "type": "string" });
        let none = json!({ "type": "object" });
        let echoed = json!({
            "type": "object", "properties": { "text": text }, "required": ["text"],
        });
        let mut counted = json!({
            "type": "object", "properties": { "from": { "type": "integer", "x-mcp-header": "From" } },
        });
        let (mut asking, mut failing) = (none.clone(), "fail");
        match self.fault {
            Some(F::ParamHeaderOnNumber) => counted["properties"]["from"]["type"] = json!("number"),
            Some(F::SchemaUntyped) => asking = json!({}),
            Some(F::SchemaBroken) => asking["properties"] = json!({ "a": { "type": "strange" } }),
            Some(F::NameTwice) => failing = "echo",
            Some(F::NameWithBlank) => failing = "fail well",
            _ => {}
        }
        vec![
            json!({
                "name": "echo", "inputSchema": echoed, "outputSchema": echoed, "annotations": reads,
            }),
            json!({ "name": failing, "inputSchema": none, "annotations": reads }),
            json!({ "name": "ask", "inputSchema": asking, "annotations": reads }),
            json!({ "name": "count", "inputSchema": counted, "annotations": reads }),
        ]
    }

    /// Calls the tool with the name in `params`.
    pub(super) fn call(
        &self,
        params: &Map<String, Value>,
        is_stateless: bool,
    ) -> Result<Value, Error> {
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return match self.has(F::NoNameIsResult) {
                true => Ok(content("a tool name is required", true)),
                false => Err((200, -32602, Value::Null)),
            };
        };
        let text = params.get("arguments").and_then(|arguments| arguments.get("text"));
        match name {
            "echo" => {
                let Some(text) =
                    text.filter(|value| value.is_string() || self.has(F::BadArgumentsPass))
                else {
                    return Ok(content("a text is required", !self.has(F::BadArgumentsPass)));
                };
                let mut result = content(text.as_str().unwrap_or_default(), false);
                if !self.has(F::StructuredMissing) {
                    result["structuredContent"] = json!({ "text": text });
                }
                if self.has(F::ContentIsText) {
                    result["content"] = text.clone();
                }
                Ok(result)
            }
            "fail" if self.has(F::FailureIsError) => Err((200, -32603, Value::Null)),
            "fail" => Ok(content("the tool failed", true)),
            "ask" if is_stateless && self.has(F::RequestsUndeclared) => Ok(json!({
                "resultType": "input_required",
                "inputRequests": { "name": { "method": "elicitation/create", "params": {} } },
            })),
            "ask" if is_stateless => {
                Err((400, -32021, json!({ "requiredCapabilities": { "elicitation": {} } })))
            }
            "ask" => Ok(content("elicitation is not supported", true)),
            "count" => Ok(content("one", false)),
            _ if self.has(F::UnknownToolIsResult) => Ok(content("unknown tool", true)),
            _ if self.has(F::UnknownToolIsMethod) => Err((200, -32601, Value::Null)),
            _ => Err((200, -32602, Value::Null)),
        }
    }
}

fn content(text: &str, is_error: bool) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": is_error })
}
