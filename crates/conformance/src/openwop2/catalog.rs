//! `GET /tools` and `GET /tools/{toolId}` (RFC 0204): the requirements of version 1, with hints.

use serde_json::{Value, json};

use crate::{
    Check, CheckResult, Target, checks,
    openwop::{
        catalog as v1,
        common::{catalog, paths, tools},
        compact, disclosure,
    },
    require, schema, skip_unless,
    value::{text, with},
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop2.catalog.list", Must, "RFC 0204", v1::list:
        "an advertised catalog returns 200 and JSON, also when it is empty";
    "openwop2.catalog.bare-array", Must, "tool-catalog, api/v2 `listTools`", v1::bare_array:
        "the list is a bare array";
    "openwop2.catalog.descriptors", Must, "schemas/v2/tool-descriptor", descriptors:
        "every tool is a ToolDescriptor with its required members, known values and no other members";
    "openwop2.catalog.hints", Must, "RFC 0204, v2-tool-catalog-annotations", hints:
        "the four hints of a tool follow from its tier, its replay policy and its egress";
    "openwop2.catalog.exec", Must, "RFC 0204, RFC 0069", v1::exec:
        "only host extensions have the tier `exec`";
    "openwop2.catalog.no-secrets", Must, "RFC 0204 §security, SR-1", v1::no_secrets:
        "no descriptor contains credentials";
    "openwop2.catalog.unique-ids", Must, "RFC 0204", v1::unique_ids:
        "every `toolId` is unique";
    "openwop2.catalog.sources", Must, "RFC 0204", v1::sources:
        "the source of every tool is in `toolCatalog.sources`, if the host advertises it";
    "openwop2.catalog.sorted", Should, "tool-catalog, ordering", v1::sorted:
        "the list is sorted by `toolId`";
    "openwop2.catalog.stable", Should, "tool-catalog, ordering", v1::stable:
        "two consecutive reads return the same bytes";
    "openwop2.catalog.by-id", Must, "RFC 0204", v1::by_id:
        "the id of each listed tool returns its descriptor, equal to the one in the list";
    "openwop2.catalog.id-encoding", Must, "RFC 3986 §2", v1::id_encoding:
        "an id in the path is percent-decoded exactly once";
    "openwop2.catalog.unknown-id", Must, "RFC 0204", v1::unknown_id:
        "an unknown id returns 404";
    "openwop2.catalog.malformed-ids", Should, "RFC 0204", v1::strange_ids:
        "an id with an encoded slash, a zero byte or invalid UTF-8 is an unknown id";
    "openwop2.catalog.unknown-view", Must, "tool-catalog", v1::unknown_view:
        "`?view=` with an unknown value returns the standard list";
    "openwop2.catalog.read-only", Must, "RFC 0204", v1::read_only:
        "the catalog is read-only: other methods are rejected";
    "openwop2.catalog.head", Should, "RFC 9110 §9.3.2", v1::head:
        "HEAD returns the same as GET, without the body";
    "openwop2.catalog.body-ignored", Should, "RFC 9110 §9.3.1", body_ignored:
        "a body of a GET request has no effect";
    "openwop2.catalog.private", Should, "RFC 9111 §3.5", v1::private:
        "shared caches must not store a list that depends on the caller";
    "openwop2.catalog.conditional", Should, "RFC 9110 §13.1.2", v1::conditional:
        "the list has an `ETag`, and a request with it returns 304";
};

pub(super) const COMPACT: &[Check] = checks! {
    "openwop2.compact.list", Must, "tool-catalog", compact::list:
        "the compact list is an object with the array `tools`";
    "openwop2.compact.descriptors", Must, "schemas/v2/compact-tool-descriptor", compact::descriptors:
        "a compact descriptor has no members beyond its schema; its input schema has only `type` and \
         `properties`";
    "openwop2.compact.keywords", Must, "RFC 0112", compact::keywords:
        "its input schema has no `$ref`, `oneOf`, `allOf`, `anyOf`, `not`, `patternProperties` or \
         `dependentSchemas` at any depth";
    "openwop2.compact.same-tools", Must, "tool-catalog", compact::same_tools:
        "it lists the tools of the standard list, with the same source and tier";
    "openwop2.compact.by-id", Must, "tool-catalog", compact::by_id:
        "one tool with `view=compact` is one bare compact descriptor";
};

pub(super) const DISCLOSURE: &[Check] = checks! {
    "openwop2.disclosure.no-hints", Must, "auth-challenge-no-oracle", disclosure::no_hints:
        "a 404 has no challenge with scopes";
    "openwop2.disclosure.same-404", Must, "RFC 0204", disclosure::same_404:
        "all unknown ids return the same response: status, headers and body";
    "openwop2.disclosure.hidden", Must, "RFC 0204, tool-catalog-projection", disclosure::hidden:
        "a tool that the principal may not use returns the response for an unknown id, headers included";
    "openwop2.disclosure.listed-is-readable", Must, "RFC 0204", disclosure::listed_is_readable:
        "another principal can read every tool of its list";
    "openwop2.disclosure.etag", Must, "RFC 9110 §13.1.2, CTI-1", disclosure::etag:
        "the `ETag` of one principal's list does not match the list of another principal";
};

const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

async fn descriptors(target: &Target) -> CheckResult {
    let mut hints = json!({});
    for hint in HINTS {
        hints = with(hints, hint, json!({ "type": "boolean" }));
    }
    let mut schema = v1::descriptor_schema();
    if let Some(members) = schema.get_mut("properties") {
        let hints = json!({
            "type": "object", "additionalProperties": false, "required": HINTS, "properties": hints,
        });
        *members = with(members.take(), "annotations", hints);
    }
    v1::expect_no_tool(target, "valid ToolDescriptors", |tool| schema::violation(&schema, tool))
        .await
}

async fn hints(target: &Target) -> CheckResult {
    let (_, tools) = tools(target).await?;
    let has_hints = tools.iter().any(|tool| tool.get("annotations").is_some());
    skip_unless(has_hints, "no tool has `annotations`")?;
    v1::expect_no_tool(target, "hints that follow from the descriptor", |tool| {
        let annotations = tool.get("annotations")?;
        let wrong = |(hint, derived): &(&str, bool)| {
            annotations.get(*hint).and_then(Value::as_bool) != Some(*derived)
        };
        let (hint, derived) = derived_hints(tool).into_iter().find(wrong)?;
        Some(format!("`{hint}` is not {derived}"))
    })
    .await
}

/// The hints of `tool` as RFC 0204 derives them.
fn derived_hints(tool: &Value) -> [(&'static str, bool); 4] {
    let tier = text(tool, "safetyTier");
    let replay = text(tool, "replayPolicy");
    [
        ("readOnlyHint", matches!(tier, "pure" | "read")),
        ("destructiveHint", matches!(tier, "write" | "exec")),
        ("idempotentHint", matches!(replay, "deterministic" | "idempotent")),
        ("openWorldHint", text(tool, "egress") != "none"),
    ]
}

async fn body_ignored(target: &Target) -> CheckResult {
    let (plain, _) = catalog(target).await?;
    let request = target.get(paths(target).tools);
    let request = request.json(&json!({ "$schema": "https://example.com/" })).with_key();
    let response = target.send_once(request).await?;
    let is_same = response.status() == 200 && response.body() == plain.body();
    require(is_same, "the same list", format!("status {}", response.status()), &[&response])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_follow_from_the_descriptor() {
        let hints = |tool: Value| derived_hints(&tool).map(|(_, value)| value);
        let read = json!({ "safetyTier": "read", "egress": "none", "replayPolicy": "idempotent" });
        assert_eq!(hints(read), [true, false, true, false]);
        assert_eq!(hints(json!({ "safetyTier": "exec" })), [false, true, false, true]);
        let odd = json!({ "safetyTier": "pure", "egress": "host-owned", "replayPolicy": "other" });
        assert_eq!(hints(odd), [true, false, false, true]);
    }
}
