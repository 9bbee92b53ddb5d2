//! Shared test fixtures.

use serde_json::{Value, json};
use toolcrib_core::call::{Outcome, UpstreamError, UpstreamErrorKind};
use toolcrib_testkit::gateway::{TestGateway, TestGatewayBuilder, TestSource, TestTool};

/// One tool of each kind; `files:read` and `files:write` are its scopes.
///
/// * `crib__read` takes `path` and returns `read: PATH`; `crib__write` requires another scope
/// * `crib__fail` reports a failure, `crib__down` is unreachable, `crib__panic` panics
/// * `crib__sum` has structured output, `crib__open` requires no scope, `crib__ask` requires
///   approval
/// * `other__secret` exists only for the tenant `other`
pub(crate) fn fixture() -> TestGatewayBuilder {
    let text = |text: &str, is_error| Outcome::text(text, is_error);
    let read = TestTool::new("read")
        .scopes(["files:read"])
        .tier("read")
        .description("Reads a file")
        .input(json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Which file" },
                "count": { "type": "integer" },
            },
            "required": ["path"],
            "additionalProperties": false,
        }))
        .annotations(json!({ "readOnlyHint": true }))
        .answers(move |args| {
            text(&format!("read: {}", args["path"].as_str().unwrap_or_default()), false)
        });
    let fail = TestTool::new("fail").scopes(["files:read"]).answers(move |_| text("kaboom", true));
    let down = TestTool::new("down").scopes(["files:read"]).runs_as(|_| async {
        Err(UpstreamError::new(UpstreamErrorKind::Unavailable, "http://10.1.2.3/ refused"))
    });
    let broken = TestTool::new("panic")
        .scopes(["files:read"])
        .runs_as(|_| async { panic!("a tool that panics, on purpose") });
    let sum = TestTool::new("sum")
        .scopes(["files:read"])
        .output(json!({ "type": "object", "properties": { "sum": { "type": "integer" } } }))
        .answers(|args| Outcome {
            structured: Some(toolcrib_core::call::raw(&json!({ "sum": args.len() }))),
            ..Outcome::text("a sum", false)
        });
    TestGateway::builder()
        .tool(read)
        .tool(TestTool::new("write").scopes(["files:write"]).tier("write"))
        .tool(fail)
        .tool(down)
        .tool(broken)
        .tool(sum)
        .tool(TestTool::new("open").scopes([]).tier("pure"))
        .tool(TestTool::new("ask").scopes(["files:read"]).rule("approval = \"always\""))
        .source(
            TestSource::new("other")
                .tenants(["other"])
                .tool(TestTool::new("secret").scopes(["files:read"])),
        )
}

/// Returns the address of the module that starts the page whose text is `page`.
pub(crate) fn page_script(page: &str) -> &str {
    let after = page.split("<script type=\"module\" src=\"").nth(1).unwrap();
    after.split('"').next().unwrap()
}

/// Returns the values of `member` in an array of objects.
pub(crate) fn column<'a>(list: &'a Value, member: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[member].as_str().unwrap()).collect()
}
