//! What Open Tool Calling and OXP have in common: `/health`, `/tools`, `/tools/call`.
//!
//! Invariant: one deviation fails one check where that is possible. So checks read the list and the
//! answer of a call in every shape that hosts of this family give them; only the checks of the
//! shape itself are strict.

pub(super) mod access;
pub(super) mod call;
pub(super) mod errors;
pub(super) mod list;
mod pick;

use serde_json::{Value, json};

use super::{Got, Protocol, Site, Verdict, fail, skip};

pub(super) use pick::Callable;

/// How the two dialects differ.
pub(super) struct Dialect {
    /// What `$schema` says.
    marker: &'static str,
    /// The same of a version that there is not.
    unsupported: &'static str,
    /// The member of the list.
    list: &'static str,
    /// The header for an API key.
    key_header: &'static str,
}

impl Dialect {
    fn of(site: &Site) -> &'static Self {
        match site.protocol() {
            Protocol::Oxp => &Self {
                marker: "urn:oxp:1.0",
                unsupported: "urn:oxp:9.9",
                list: "items",
                key_header: "oxp-api-key",
            },
            _ => &Self {
                marker: "otc://1.0",
                unsupported: "otc://9.9",
                list: "tools",
                key_header: "otc-api-key",
            },
        }
    }
}

/// The checks of both dialects. `$marker` is how binding `$schema` in answers is.
macro_rules! calling_checks {
    ($p:literal, $marker:ident) => {
        &[
            check!(
                concat!($p, ".health.open"),
                Must,
                "HTTP: Health",
                "`/health` is 200 without credentials, and with credentials that are worthless",
                access::health
            ),
            check!(
                concat!($p, ".list.object"),
                Must,
                "List Tools",
                "the list is an object with the array of tools",
                list::object
            ),
            check!(
                concat!($p, ".list.schema-marker"),
                $marker,
                "Versioning",
                "the list says its version in `$schema`",
                list::marker
            ),
            check!(
                concat!($p, ".list.with-schema"),
                Must,
                "List Tools",
                "a GET that asks for the version in its body is answered alike",
                list::with_schema
            ),
            check!(
                concat!($p, ".list.unsupported-version"),
                Should,
                "Versioning",
                "a GET that asks for a version that there is not is 400 with a message",
                list::unsupported
            ),
            check!(
                concat!($p, ".list.empty-body"),
                Must,
                "List Tools",
                "a GET with a JSON content type and no body is not an error",
                list::empty_body
            ),
            check!(
                concat!($p, ".list.definitions"),
                Must,
                "ToolDefinition",
                "every tool has the members of a ToolDefinition, and no others",
                list::definitions_fit
            ),
            check!(
                concat!($p, ".list.ids"),
                Must,
                "ToolId",
                "every id is `Toolkit.Tool@x.y.z`, of letters, digits and underscores",
                list::ids
            ),
            check!(
                concat!($p, ".list.unique-ids"),
                Must,
                "ToolId",
                "an id stands for one tool",
                list::unique_ids
            ),
            check!(
                concat!($p, ".list.versions"),
                Must,
                "ToolVersion",
                "`version` is `x.y.z`, the same as in the id",
                list::versions
            ),
            check!(
                concat!($p, ".list.parameter-descriptions"),
                Must,
                "ToolDefinition",
                "every parameter says what it is for",
                list::descriptions
            ),
            check!(
                concat!($p, ".list.no-refs"),
                Must,
                "ToolDefinition",
                "schemas have no `$ref` and no definitions",
                list::no_refs
            ),
            check!(
                concat!($p, ".call.success"),
                Must,
                "Call Tool",
                "a call by the whole id is 200 with `result`: the given `call_id`, `success` true, \
                 and no `error`",
                call::success
            ),
            check!(
                concat!($p, ".call.schema-marker"),
                $marker,
                "Versioning",
                "the answer to a call says its version in `$schema`",
                call::marker
            ),
            check!(
                concat!($p, ".call.duration"),
                Should,
                "CallToolResponse",
                "the result says how many milliseconds the call took",
                call::duration
            ),
            check!(
                concat!($p, ".call.generated-id"),
                Must,
                "Call Tool, idempotency",
                "a call without `call_id` is given one, another for each call",
                call::generated_id
            ),
            check!(
                concat!($p, ".call.input-omitted"),
                Must,
                "CallToolRequest",
                "`input` may be left out when the tool needs none",
                call::input_omitted
            ),
            check!(
                concat!($p, ".call.no-version"),
                Must,
                "Tool versions",
                "an id without a version is a call of the highest one",
                call::no_version
            ),
            check!(
                concat!($p, ".call.major-version"),
                Must,
                "Tool versions",
                "`@x` means x.0.0: it is called when there is such a version, and refused otherwise",
                call::major_version
            ),
            check!(
                concat!($p, ".call.malformed-version"),
                Must,
                "Tool versions",
                "`@x.y` is no version: 400",
                call::malformed_version
            ),
            check!(
                concat!($p, ".call.unknown-tool"),
                Must,
                "Call Tool, errors",
                "a tool that there is not is 400, not 404",
                call::unknown_tool
            ),
            check!(
                concat!($p, ".call.unknown-version"),
                Must,
                "Call Tool, errors",
                "a version that there is not is 400",
                call::unknown_version
            ),
            check!(
                concat!($p, ".call.invalid-input"),
                Must,
                "Call Tool, validation",
                "input that the schema does not accept is 422 with a message",
                call::invalid_input
            ),
            check!(
                concat!($p, ".call.missing-input"),
                Must,
                "Call Tool, validation",
                "input without a required parameter is 422",
                call::missing_input
            ),
            check!(
                concat!($p, ".call.parameter-errors"),
                Should,
                "ValidationErrorResponse",
                "a 422 names the parameter in `parameter_errors`",
                call::parameter_errors
            ),
            check!(
                concat!($p, ".call.tool-failure"),
                Must,
                "Call Tool, errors",
                "a tool that fails is 200 with `success` false, an `error.message` and no `value`",
                call::tool_failure
            ),
            check!(
                concat!($p, ".call.not-json"),
                Must,
                "Call Tool, errors",
                "a body that is no JSON is 400",
                call::not_json
            ),
            check!(
                concat!($p, ".call.malformed-request"),
                Must,
                "CallToolRequest",
                "a body without `request`, without a tool, or with wrong types is 400",
                call::malformed_request
            ),
            check!(
                concat!($p, ".call.unsupported-version"),
                Must,
                "Versioning",
                "a call in a version that there is not is 400",
                call::unsupported
            ),
            check!(
                concat!($p, ".call.content-type"),
                Must,
                "Call Tool, errors",
                "a call without a content type is served, or refused as 400 or 415",
                call::content_type
            ),
            check!(
                concat!($p, ".call.repeated"),
                Must,
                "Call Tool, idempotency",
                "the same call under the same `call_id` is answered the same, byte for byte",
                call::repeated
            ),
            check!(
                concat!($p, ".call.conflict"),
                Should,
                "Call Tool, idempotency",
                "another call under a `call_id` that is used up is 400",
                call::conflict
            ),
            check!(
                concat!($p, ".call.requirements"),
                Must,
                "Call Tool, requirements",
                "a call without the secrets, authorization or user that the tool requires is 400",
                call::requirements
            ),
            check!(
                concat!($p, ".errors.message"),
                Must,
                "ServerErrorResponse",
                "a refusal is a JSON object with a `message`",
                errors::message
            ),
            check!(
                concat!($p, ".errors.schema-marker"),
                $marker,
                "Versioning",
                "a refusal says its version in `$schema`",
                errors::marker
            ),
            check!(
                concat!($p, ".errors.developer-message"),
                Should,
                "ServerErrorResponse",
                "what is wrong with the version of a tool stands in `developer_message`, and its \
                 text is not in `message`",
                errors::developer
            ),
            check!(
                concat!($p, ".errors.no-secrets"),
                Should,
                "Security",
                "a refusal does not repeat secrets of the request",
                errors::no_secrets
            ),
            check!(
                concat!($p, ".auth.required"),
                Must,
                "Security",
                "a host that wants credentials answers the list and calls without them as 401",
                access::required
            ),
            check!(
                concat!($p, ".auth.unknown-key"),
                Must,
                "Security",
                "credentials that nobody issued are 401",
                access::unknown_key
            ),
            check!(
                concat!($p, ".auth.unsigned-token"),
                Must,
                "Security, JWT",
                "a token that nobody signed is 401",
                access::unsigned
            ),
            check!(
                concat!($p, ".auth.key-header"),
                Should,
                "Security, API keys",
                "a key is also accepted in the header for API keys",
                access::key_header
            ),
            check!(
                concat!($p, ".auth.ignored-when-off"),
                Must,
                "Security",
                "a host that wants no credentials ignores `Authorization`",
                access::ignored
            ),
        ]
    };
}
pub(super) use calling_checks;

/// The tools in any shape in which hosts of this family list them.
async fn definitions(site: &Site) -> Verdict<(Got, Vec<Value>)> {
    let got = site.once(site.get("/tools").by_first()).await?;
    if got.status() == 401 && !site.host().has_key() {
        return skip("the host wants a key: --key");
    }
    got.expect_status(&[200])?;
    let tools = match got.json()? {
        Value::Array(tools) => Some(tools),
        Value::Object(envelope) => {
            ["tools", "items"].iter().find_map(|name| envelope.get(*name)?.as_array())
        }
        _ => None,
    };
    match tools {
        Some(tools) => Ok((Got::clone(&got), tools.clone())),
        None => fail("a list of tools", "none", &[&got]),
    }
}

/// The tools, if there are any.
async fn tools(site: &Site) -> Verdict<(Got, Vec<Value>)> {
    let (got, tools) = definitions(site).await?;
    match tools.is_empty() {
        true => skip("the host lists no tools"),
        false => Ok((got, tools)),
    }
}

fn id_of(tool: &Value) -> &str {
    tool.get("id").and_then(Value::as_str).unwrap_or_default()
}

/// An id and its version, if it has one.
fn split(id: &str) -> (&str, Option<&str>) {
    match id.split_once('@') {
        Some((bare, version)) => (bare, Some(version)),
        None => (id, None),
    }
}

/// The schema of what a tool takes, wherever it stands.
fn parameters(tool: &Value) -> &Value {
    let schema = tool.get("input_schema").unwrap_or(&Value::Null);
    schema.get("parameters").filter(|it| it.is_object()).unwrap_or(schema)
}

/// The answer to a call with `request`.
async fn called(site: &Site, request: &Value) -> Verdict<Got> {
    let dialect = Dialect::of(site);
    posted(site, &json!({ "$schema": dialect.marker, "request": request })).await
}

/// The answer to a call with `body`.
async fn posted(site: &Site, body: &Value) -> Verdict<Got> {
    if !site.host().has_key() && wants_credentials(site).await? {
        return skip("the host wants a key: --key");
    }
    site.once(site.post("/tools/call").json(body).by_first()).await
}

/// Whether the list is not for everybody.
async fn wants_credentials(site: &Site) -> Verdict<bool> {
    let got = site.once(site.get("/tools")).await?;
    Ok(matches!(got.status(), 401 | 403))
}

/// The result of a call, in an envelope or without.
fn result(got: &Got) -> Verdict<&Value> {
    got.expect_status(&[200])?;
    let body = got.json()?;
    match body.get("result").or_else(|| body.get("success").map(|_| body)) {
        Some(result) => Ok(result),
        None => fail("a result", "none", &[got]),
    }
}

/// Fails unless a tool answered.
fn succeeded(got: &Got) -> Verdict {
    let success = result(got)?.get("success").and_then(Value::as_bool);
    got.expect(success == Some(true), "`success` true", "something else")
}

/// An id of a call that nobody used.
fn fresh_id() -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    format!("conformance-{:x}-{number}", chrono::Utc::now().timestamp_micros())
}

/// A request that calls a tool which may be called.
pub(super) async fn plain_request(site: &Site) -> Verdict<Value> {
    Ok(pick::plain(site).await?.request())
}
