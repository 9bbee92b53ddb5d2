//! `GET /tools` (F2).

use serde_json::{Value, json};

use super::common::{listed, name_of, path, require_no_execution, summaries};
use crate::{Check, CheckResult, Target, checks, fail};

pub(super) const CHECKS: &[Check] = checks! {
    "explorer.list.array", Must, "PROTOCOL.md, `GET /tools`", array:
        "the list returns 200 and a bare array";
    "explorer.list.summaries", Must, "F2, `GET /tools`", members:
        "every tool has a `name` and a `description`, both strings";
    "explorer.list.annotations", Must, "F2, annotations fields", annotations:
        "`annotations` is an object whose hints are booleans";
    "explorer.list.no-nulls", Must, "F2, serialization rules", no_nulls:
        "missing members are omitted instead of `null`";
    "explorer.list.unique-names", Should, "F2, `GET /tools/{name}`", unique:
        "every name is unique, because it is the address of the tool";
    "explorer.list.when-disabled", Must, "F3, precondition checks", when_disabled:
        "a host that does not run tools still returns the list and the details";
};

async fn array(target: &Target) -> CheckResult {
    let (response, _) = listed(target).await?;
    response.expect(response.value().is_array(), "a bare array", "an envelope")
}

async fn members(target: &Target) -> CheckResult {
    let schema = json!({
        "type": "object",
        "required": ["name", "description"],
        "properties": {
            "name": { "type": "string", "minLength": 1 },
            "description": { "type": "string" },
        },
    });
    expect_summaries(target, &schema).await
}

async fn annotations(target: &Target) -> CheckResult {
    // `explorer.list.no-nulls` judges `null`.
    let hint = json!({ "type": ["boolean", "null"] });
    let schema = json!({
        "properties": {
            "annotations": {
                "type": ["object", "null"],
                "properties": {
                    "readOnlyHint": hint,
                    "destructiveHint": hint,
                    "idempotentHint": hint,
                    "openWorldHint": hint,
                    "title": { "type": ["string", "null"] },
                },
            },
        },
    });
    expect_summaries(target, &schema).await
}

async fn no_nulls(target: &Target) -> CheckResult {
    let (response, tools) = summaries(target).await?;
    for tool in &tools {
        let members = tool.as_object().into_iter().flatten();
        let hints = tool.get("annotations").and_then(Value::as_object).into_iter().flatten();
        if let Some((name, _)) = members.chain(hints).find(|(_, value)| value.is_null()) {
            return fail("no `null`", format!("`{name}` of `{}`", name_of(tool)), &[&response]);
        }
    }
    Ok(())
}

async fn unique(target: &Target) -> CheckResult {
    let (response, tools) = summaries(target).await?;
    response.expect_unique(tools.iter().map(name_of), "unique names")
}

async fn when_disabled(target: &Target) -> CheckResult {
    require_no_execution(target).await?;
    let (_, tools) = summaries(target).await?;
    let Some(tool) = tools.first() else { return Ok(()) };
    target.fetch(&path(name_of(tool), "")).await?.expect_status(&[200])
}

/// Fails the check unless every summary is valid against `schema`.
async fn expect_summaries(target: &Target, schema: &Value) -> CheckResult {
    let (response, tools) = summaries(target).await?;
    tools.iter().try_for_each(|tool| {
        response.expect_valid(tool, schema, format!("`{}` as a valid summary", name_of(tool)))
    })
}
