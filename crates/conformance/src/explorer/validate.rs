//! `POST /tools/{name}/validate` (F7).

use serde_json::{Map, Value, json};

use super::{
    common::{ABSENT, expect_body, expect_not_found, path, require_no_execution},
    tools::{Tool, any_tool, failing, find_tool},
};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::Response,
    schema, skip,
    value::{array, text, with},
};

pub(super) const CHECKS: &[Check] = checks! {
    "explorer.validate.valid", Must, "F7, Valid (200); criteria 1 and 11", valid:
        "valid arguments return 200 and exactly `{\"valid\":true}`";
    "explorer.validate.missing", Must, "F7, Invalid (200); criterion 2", missing:
        "arguments without a required property return 200 with `valid` false and the errors";
    "explorer.validate.missing-path", Must, "F7, criterion 2", missing_path:
        "the path of a missing property points to where it belongs";
    "explorer.validate.type-path", Must, "F7, `errors[].path`; criterion 3", type_path:
        "a value of a wrong type returns `valid` false with the path of the value";
    "explorer.validate.keywords", Should, "PROTOCOL.md, error normalization", keywords:
        "an error has the keyword of the schema: `required`, `type`";
    "explorer.validate.root-path", Must, "F7, `errors[].path`", root_path:
        "an error of the whole document has the path `\"\"`";
    "explorer.validate.pointers", Must, "F7, `errors[].path`; RFC 6901 §3", pointers:
        "`~` and `/` in the name of a property are `~0` and `~1` in the path";
    "explorer.validate.all-violations", Must, "F7, criterion 4", all_violations:
        "all errors are returned, not only the first";
    "explorer.validate.entries", Must, "F7, Invalid (200)", entries:
        "every error has a `path`, a `message` and optionally a `keyword`";
    "explorer.validate.not-json", Must, "F7, precondition 2; criterion 6", not_json:
        "a body that is empty or not JSON returns 400 with one error: path `\"\"`, keyword `format`, \
         `Invalid JSON: …`";
    "explorer.validate.unknown", Must, "F7, precondition 1; criterion 5", unknown:
        "an unknown tool returns 404 `Tool not found: NAME`";
    "explorer.validate.no-schema", Must, "F7, criterion 7", no_schema:
        "a tool without a schema accepts everything";
    "explorer.validate.bad-schema", Must, "F7, Schemas That Cannot Be Compiled; criterion 13", bad_schema:
        "an invalid schema returns 200 with one error: path `\"\"`, keyword `schema`, \
         `Invalid schema: …`";
    "explorer.validate.calls-nothing", Must, "F7, Security Considerations; criterion 10", calls_nothing:
        "validation does not call the tool, so a failing tool is validated like any other";
    "explorer.validate.when-disabled", Must, "F7, gating rules; criterion 8", when_disabled:
        "a host that does not run tools still validates";
};

async fn valid(target: &Target) -> CheckResult {
    let has_valid_arguments = |tool: &Tool| {
        tool.has_arguments() && schema::violation(tool.schema(), &tool.arguments()).is_none()
    };
    // A tool with a meaningful schema is better.
    let is_typed = |tool: &Tool| has_valid_arguments(tool) && tool.schema().get("type").is_some();
    let tool = match find_tool(target, is_typed).await {
        Ok(tool) => tool,
        Err(_) => find_tool(target, has_valid_arguments).await?,
    };
    expect_accepted(&validate(target, &tool.name, &tool.arguments()).await?)
}

async fn missing(target: &Target) -> CheckResult {
    let (_, response) = validate_without_required(target).await?;
    errors(&response).map(drop)
}

async fn missing_path(target: &Target) -> CheckResult {
    let (name, response) = validate_without_required(target).await?;
    expect_error_at(&response, &pointer(&name))
}

async fn type_path(target: &Target) -> CheckResult {
    let (name, response) = validate_wrong_type(target, |name| !needs_escape(name)).await?;
    expect_error_at(&response, &pointer(&name))
}

async fn keywords(target: &Target) -> CheckResult {
    let (_, missing) = validate_without_required(target).await?;
    let (_, wrong) = validate_wrong_type(target, |name| !needs_escape(name)).await?;
    for (response, keyword) in [(missing, "required"), (wrong, "type")] {
        let has_keyword = errors(&response)?.iter().any(|error| text(error, "keyword") == keyword);
        response.expect(has_keyword, format!("an error with the keyword `{keyword}`"), "none")?;
    }
    Ok(())
}

async fn root_path(target: &Target) -> CheckResult {
    let is_object = |tool: &Tool| text(tool.schema(), "type") == "object";
    let tool = find_tool(target, is_object).await?;
    for body in [json!([]), json!("a text")] {
        expect_error_at(&validate(target, &tool.name, &body).await?, "")?;
    }
    Ok(())
}

async fn pointers(target: &Target) -> CheckResult {
    let (name, response) = validate_wrong_type(target, needs_escape).await?;
    expect_error_at(&response, &pointer(&name))
}

async fn all_violations(target: &Target) -> CheckResult {
    let has_several = |tool: &Tool| {
        tool.has_valid_schema() && (tool.required().len() > 1 || tool.wrong_types().len() > 1)
    };
    let tool = find_tool(target, has_several).await?;
    let wrong = tool.wrong_types().into_iter().map(|(name, value)| (name.to_owned(), value));
    let wrong: Map<String, Value> = wrong.collect();
    let (minimum, body) = match wrong.len() {
        0 | 1 => (tool.required().len(), json!({})),
        count => (count, Value::Object(wrong)),
    };
    let response = validate(target, &tool.name, &body).await?;
    let count = errors(&response)?.len();
    response.expect(count >= minimum, format!("{minimum} errors"), format!("{count}"))
}

async fn entries(target: &Target) -> CheckResult {
    let schema = json!({
        "type": "object",
        "required": ["path", "message"],
        "properties": {
            "path": { "type": "string", "pattern": "^(/([^~]|~[01])*)?$" },
            "message": { "type": "string", "minLength": 1 },
            "keyword": { "type": "string", "minLength": 1 },
        },
    });
    let (_, response) = validate_without_required(target).await?;
    let expected = "`path`, `message` and optionally `keyword`";
    errors(&response)?.iter().try_for_each(|error| response.expect_valid(error, &schema, expected))
}

async fn not_json(target: &Target) -> CheckResult {
    let tool = any_tool(target).await?;
    for body in ["not json", ""] {
        let response = validate_text(target, &tool.name, body).await?;
        response.expect_status(&[400])?;
        expect_only_error(&response, "format", "Invalid JSON: ")?;
    }
    Ok(())
}

async fn unknown(target: &Target) -> CheckResult {
    expect_not_found(&validate(target, ABSENT, &json!({})).await?, ABSENT)
}

async fn no_schema(target: &Target) -> CheckResult {
    let is_empty = |tool: &Tool| tool.schema().as_object().is_none_or(Map::is_empty);
    let tool = find_tool(target, is_empty).await?;
    for body in [json!({}), json!({ "a": [1] }), json!([1]), json!("a text"), json!(null)] {
        expect_accepted(&validate(target, &tool.name, &body).await?)?;
    }
    Ok(())
}

async fn bad_schema(target: &Target) -> CheckResult {
    const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];
    let tool = find_tool(target, |tool| !tool.has_valid_schema()).await?;
    let response = validate(target, &tool.name, &json!({})).await?;
    response.expect_status(&[200])?;
    // Validators disagree about other invalid schemas; an unknown type is always one.
    let kind = text(tool.schema(), "type");
    let is_rejected = response.value().pointer("/errors/0/keyword") == Some(&json!("schema"));
    match is_rejected || !kind.is_empty() && !TYPES.contains(&kind) {
        true => expect_only_error(&response, "schema", "Invalid schema:"),
        false => Ok(()),
    }
}

async fn calls_nothing(target: &Target) -> CheckResult {
    let (tool, arguments) = failing(target).await?;
    let response = validate(target, &tool.name, &arguments).await?;
    response.expect_status(&[200])?;
    for name in ["content", "isError", "_meta"] {
        let has_member = response.json()?.get(name).is_some();
        response.expect(!has_member, "no members of a call", format!("`{name}`"))?;
    }
    match schema::violation(tool.schema(), &arguments) {
        None => expect_accepted(&response),
        Some(_) => Ok(()),
    }
}

async fn when_disabled(target: &Target) -> CheckResult {
    require_no_execution(target).await?;
    valid(target).await
}

/// Validates arguments without a required property and returns its name too.
async fn validate_without_required(target: &Target) -> CheckResult<(String, Response)> {
    let has_required = |tool: &Tool| tool.has_valid_schema() && !tool.required().is_empty();
    let tool = find_tool(target, has_required).await?;
    let name = tool.required().first().map(|name| (*name).to_owned()).unwrap_or_default();
    let mut arguments = tool.arguments();
    arguments.as_object_mut().and_then(|members| members.remove(&name));
    let response = validate(target, &tool.name, &arguments).await?;
    Ok((name, response))
}

/// Validates a value of a wrong type, of a property for which `is_suitable`, and returns the name of
/// the property too.
async fn validate_wrong_type(
    target: &Target,
    is_suitable: fn(&str) -> bool,
) -> CheckResult<(String, Response)> {
    let has_typed = |tool: &Tool| {
        tool.has_valid_schema() && tool.wrong_types().iter().any(|(name, _)| is_suitable(name))
    };
    let tool = find_tool(target, has_typed).await?;
    let Some((name, value)) = tool.wrong_types().into_iter().find(|(name, _)| is_suitable(name))
    else {
        return skip("no property has a type");
    };
    let arguments = with(tool.arguments(), name, value);
    let response = validate(target, &tool.name, &arguments).await?;
    Ok((name.to_owned(), response))
}

/// Whether a JSON pointer escapes a character of `name`.
fn needs_escape(name: &str) -> bool {
    name.contains(['/', '~'])
}

/// The JSON pointer to the property `name` of the arguments.
fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

async fn validate(target: &Target, name: &str, arguments: &Value) -> CheckResult<Response> {
    validate_text(target, name, &arguments.to_string()).await
}

async fn validate_text(target: &Target, name: &str, body: &str) -> CheckResult<Response> {
    target.send_authorized(target.post(&path(name, "/validate")).json_text(body)).await
}

/// Fails the check unless the arguments are valid.
fn expect_accepted(response: &Response) -> CheckResult {
    response.expect_status(&[200])?;
    expect_body(response, &json!({ "valid": true }))
}

/// The errors of a response with status 200; fails the check if there are none.
fn errors(response: &Response) -> CheckResult<&[Value]> {
    response.expect_status(&[200])?;
    error_list(response)
}

fn error_list(response: &Response) -> CheckResult<&[Value]> {
    let is_invalid = response.json()?.get("valid") == Some(&json!(false));
    response.expect(is_invalid, "`valid` false", "another value")?;
    let errors = array(response.value(), "errors");
    response.expect(!errors.is_empty(), "a non-empty array `errors`", "none")?;
    Ok(errors)
}

/// Fails the check unless the only error is of the whole document, with `keyword` and a message that
/// starts with `message`.
fn expect_only_error(response: &Response, keyword: &str, message: &str) -> CheckResult {
    let [error] = error_list(response)? else {
        return fail("one error", "several", &[response]);
    };
    response.expect(error.get("path") == Some(&json!("")), "the path `\"\"`", "another")?;
    let is_same = text(error, "keyword") == keyword;
    response.expect(is_same, format!("the keyword `{keyword}`"), "another, or no keyword")?;
    let seen = text(error, "message");
    response.expect(seen.starts_with(message), format!("`{message}…`"), format!("`{seen}`"))
}

/// Fails the check unless an error has the path `pointer`.
fn expect_error_at(response: &Response, pointer: &str) -> CheckResult {
    let path =
        |error: &Value| error.get("path").and_then(Value::as_str).unwrap_or("(none)").to_owned();
    let paths: Vec<String> = errors(response)?.iter().map(path).collect();
    let seen = format!("`{}`", paths.join("`, `"));
    let expected = format!("an error with the path `{pointer}`");
    response.expect(paths.iter().any(|path| path == pointer), expected, seen)
}
