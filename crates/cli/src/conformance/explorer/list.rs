//! `GET /tools` (F2).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{disabled, listed, name_of, summaries};
use crate::conformance::{Check, Site, Verdict, check, fail, shape};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "explorer.list.array",
        Must,
        "PROTOCOL.md, `GET /tools`",
        "the list is 200 and a bare array",
        array
    ),
    check!(
        "explorer.list.summaries",
        Must,
        "F2, `GET /tools`",
        "every tool has a `name`, and a `description` that is a text",
        members
    ),
    check!(
        "explorer.list.annotations",
        Must,
        "F2, annotations fields",
        "`annotations` is an object whose hints are booleans",
        annotations
    ),
    check!(
        "explorer.list.no-nulls",
        Must,
        "F2, serialization rules",
        "what a tool does not have is left out, and not `null`",
        no_nulls
    ),
    check!(
        "explorer.list.unique-names",
        Should,
        "F2, `GET /tools/{name}`",
        "no two tools have the same name, which is the address of one",
        unique
    ),
    check!(
        "explorer.list.when-disabled",
        Must,
        "F3, precondition checks",
        "a host that does not run tools lists and describes them all the same",
        when_disabled
    ),
];

async fn array(site: &Site) -> Verdict {
    let (got, _) = listed(site).await?;
    got.expect(got.value().is_array(), "a bare array", "an envelope")
}

async fn members(site: &Site) -> Verdict {
    each(
        site,
        &serde_json::json!({
            "type": "object",
            "required": ["name", "description"],
            "properties": {
                "name": { "type": "string", "minLength": 1 },
                "description": { "type": "string" },
            },
        }),
    )
    .await
}

async fn annotations(site: &Site) -> Verdict {
    let hint = serde_json::json!({ "type": ["boolean", "null"] });
    // What is `null` is looked at by another check.
    let shape = serde_json::json!({
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
    each(site, &shape).await
}

async fn no_nulls(site: &Site) -> Verdict {
    let (got, tools) = summaries(site).await?;
    for tool in &tools {
        let members = tool.as_object().into_iter().flatten();
        let hints = tool.get("annotations").and_then(Value::as_object).into_iter().flatten();
        let null = members.chain(hints).find(|(_, value)| value.is_null());
        if let Some((name, _)) = null {
            return fail("no `null`", format!("`{name}` of `{}`", name_of(tool)), &[&got]);
        }
    }
    Ok(())
}

async fn unique(site: &Site) -> Verdict {
    let (got, tools) = summaries(site).await?;
    let mut seen = BTreeSet::new();
    match tools.iter().map(name_of).find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => fail("each name once", format!("`{name}` twice"), &[&got]),
    }
}

async fn when_disabled(site: &Site) -> Verdict {
    disabled(site).await?;
    let (_, tools) = summaries(site).await?;
    let Some(tool) = tools.first() else { return Ok(()) };
    let detail = site.get(&super::path(name_of(tool), "")).by_first();
    site.once(detail).await?.expect_status(&[200])
}

/// Fails unless every summary has the shape `shape`.
async fn each(site: &Site, shape: &Value) -> Verdict {
    let (got, tools) = summaries(site).await?;
    for tool in &tools {
        if let Some(what) = shape::violation(shape, tool) {
            return fail("a summary", format!("`{}`: {what}", name_of(tool)), &[&got]);
        }
    }
    Ok(())
}
