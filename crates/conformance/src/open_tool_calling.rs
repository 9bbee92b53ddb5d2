//! The common part of Open Tool Calling and OXP: `/health`, `/tools`, `/tools/call`.
//!
//! Invariant: one deviation of a host fails one check where possible. Checks therefore read lists
//! and results in every form that hosts of this family use; only the checks of the form are strict.

pub(crate) mod auth;
pub(crate) mod call;
mod common;
pub(crate) mod errors;
pub(crate) mod list;
mod tools;

pub(crate) use tools::tool_for_call;

/// The checks of both dialects. `$marker` is the level of `$schema` in responses.
macro_rules! shared_checks {
    ($p:literal, $marker:ident) => { $crate::checks! {
        concat!($p, ".health.open"), Must, "HTTP: Health", auth::health:
            "`/health` returns 200 without credentials and with invalid ones";
        concat!($p, ".list.object"), Must, "List Tools", list::object:
            "the list is an object with an array of tools";
        concat!($p, ".list.schema-marker"), $marker, "Versioning", list::marker:
            "the list has its version in `$schema`";
        concat!($p, ".list.with-schema"), Must, "List Tools", list::with_schema:
            "a GET with the version in its body returns the same list";
        concat!($p, ".list.unsupported-version"), Should, "Versioning", list::unsupported:
            "a GET with an unsupported version returns 400 with a message";
        concat!($p, ".list.empty-body"), Must, "List Tools", list::empty_body:
            "a GET with a JSON content type and no body is not an error";
        concat!($p, ".list.definitions"), Must, "ToolDefinition", list::definitions:
            "every tool has the members of a ToolDefinition and no others";
        concat!($p, ".list.ids"), Must, "ToolId", list::ids:
            "every id has the form `Toolkit.Tool@x.y.z`, with letters, digits and underscores";
        concat!($p, ".list.unique-ids"), Must, "ToolId", list::unique_ids:
            "every id is unique";
        concat!($p, ".list.versions"), Must, "ToolVersion", list::versions:
            "`version` has the form `x.y.z` and is equal to the version in the id";
        concat!($p, ".list.parameter-descriptions"), Must, "ToolDefinition", list::descriptions:
            "every parameter has a description";
        concat!($p, ".list.no-refs"), Must, "ToolDefinition", list::no_refs:
            "schemas have no `$ref` and no definitions";
        concat!($p, ".call.success"), Must, "Call Tool", call::success:
            "a call with the full id returns 200 and a `result` with the given `call_id`, `success` \
             true and no `error`";
        concat!($p, ".call.schema-marker"), $marker, "Versioning", call::marker:
            "the response to a call has its version in `$schema`";
        concat!($p, ".call.duration"), Should, "CallToolResponse", call::duration:
            "the result has the duration of the call in milliseconds";
        concat!($p, ".call.generated-id"), Must, "Call Tool, idempotency", call::generated_id:
            "each call without a `call_id` gets a new one";
        concat!($p, ".call.input-omitted"), Must, "CallToolRequest", call::input_omitted:
            "`input` is optional if the tool requires no input";
        concat!($p, ".call.no-version"), Must, "Tool versions", call::no_version:
            "an id without a version calls the highest version";
        concat!($p, ".call.major-version"), Must, "Tool versions", call::major_version:
            "`@x` means x.0.0: it calls that version if it exists and is rejected otherwise";
        concat!($p, ".call.malformed-version"), Must, "Tool versions", call::malformed_version:
            "`@x.y` is not a version and returns 400";
        concat!($p, ".call.unknown-tool"), Must, "Call Tool, errors", call::unknown_tool:
            "an unknown tool returns 400, not 404";
        concat!($p, ".call.unknown-version"), Must, "Call Tool, errors", call::unknown_version:
            "an unknown version returns 400";
        concat!($p, ".call.invalid-input"), Must, "Call Tool, validation", call::invalid_input:
            "input that is invalid against the schema returns 422 with a message";
        concat!($p, ".call.missing-input"), Must, "Call Tool, validation", call::missing_input:
            "input without a required parameter returns 422";
        concat!($p, ".call.parameter-errors"), Should, "ValidationErrorResponse", call::parameter_errors:
            "a 422 has the parameter in `parameter_errors`";
        concat!($p, ".call.tool-failure"), Must, "Call Tool, errors", call::tool_failure:
            "a failing tool returns 200 with `success` false, an `error.message` and no `value`";
        concat!($p, ".call.not-json"), Must, "Call Tool, errors", call::not_json:
            "a body that is not JSON returns 400";
        concat!($p, ".call.malformed-request"), Must, "CallToolRequest", call::malformed_request:
            "a body without `request`, without a tool, or with wrong types returns 400";
        concat!($p, ".call.unsupported-version"), Must, "Versioning", call::unsupported:
            "a call with an unsupported version returns 400";
        concat!($p, ".call.content-type"), Must, "Call Tool, errors", call::content_type:
            "a call without a content type succeeds, or returns 400 or 415";
        concat!($p, ".call.repeated"), Must, "Call Tool, idempotency", call::repeated:
            "the same call with the same `call_id` returns the same bytes";
        concat!($p, ".call.conflict"), Should, "Call Tool, idempotency", call::conflict:
            "another call with a used `call_id` returns 400";
        concat!($p, ".call.requirements"), Must, "Call Tool, requirements", call::requirements:
            "a call without the secrets, authorization or user that the tool requires returns 400";
        concat!($p, ".errors.message"), Must, "ServerErrorResponse", errors::message:
            "an error is a JSON object with a `message`";
        concat!($p, ".errors.schema-marker"), $marker, "Versioning", errors::marker:
            "an error has its version in `$schema`";
        concat!($p, ".errors.developer-message"), Should, "ServerErrorResponse", errors::developer:
            "an unknown version is explained in `developer_message`, and `message` does not repeat it";
        concat!($p, ".errors.no-secrets"), Should, "Security", errors::no_secrets:
            "an error does not repeat secrets of the request";
        concat!($p, ".auth.required"), Must, "Security", auth::required:
            "a host that requires credentials returns 401 for lists and calls without them";
        concat!($p, ".auth.unknown-key"), Must, "Security", auth::unknown_key:
            "unknown credentials return 401";
        concat!($p, ".auth.unsigned-token"), Must, "Security, JWT", auth::unsigned:
            "an unsigned token returns 401";
        concat!($p, ".auth.key-header"), Should, "Security, API keys", auth::key_header:
            "a key is also accepted in the header for API keys";
        concat!($p, ".auth.ignored-when-off"), Must, "Security", auth::ignored:
            "a host that requires no credentials ignores `Authorization`";
    } };
}
pub(crate) use shared_checks;
