//! `GET /tools/{name}` (F2).

use serde_json::json;

use super::{
    common::{ABSENT, SAMPLE, expect_not_found, name_of, path, summaries},
    tools::any_tool,
};
use crate::{
    Check, CheckResult, Target, checks,
    http::Response,
    target::{encode_every_byte, encode_segment},
};

pub(super) const CHECKS: &[Check] = checks! {
    "explorer.detail.members", Must, "F2, `GET /tools/{name}`", members:
        "a listed tool returns 200 with `name`, `description` and the object `inputSchema`";
    "explorer.detail.same-facts", Must, "F2, `GET /tools/{name}`", same_facts:
        "its name, description and annotations are equal to those in the list";
    "explorer.detail.encoded", Must, "PROTOCOL.md, `GET /tools/{name}`; RFC 3986 §2.1", encoded:
        "percent-encoding of any part of a name makes no difference";
    "explorer.detail.decoded-once", Must, "RFC 3986 §2.4", decoded_once:
        "a name is decoded exactly once";
    "explorer.detail.unknown", Must, "PROTOCOL.md, `GET /tools/{name}`", unknown:
        "an unknown tool returns 404 `Tool not found: NAME`";
    "explorer.detail.unknown-decoded", Must, "PROTOCOL.md, `GET /tools/{name}`", unknown_decoded:
        "a name with an encoded slash or markup is one name, and the 404 contains it decoded";
    "explorer.detail.empty-name", Must, "PROTOCOL.md, Security Checklist", empty_name:
        "`/tools/` is not a tool with an empty name";
};

async fn members(target: &Target) -> CheckResult {
    let (_, tools) = summaries(target).await?;
    let schema = json!({
        "type": "object",
        "required": ["name", "description", "inputSchema"],
        "properties": {
            "name": { "type": "string" },
            "description": { "type": "string" },
            "inputSchema": { "type": "object" },
        },
    });
    for tool in tools.iter().take(SAMPLE) {
        let name = name_of(tool);
        let response = target.fetch(&path(name, "")).await?;
        response.expect_status(&[200])?;
        let is_same = name_of(response.json()?) == name;
        response.expect(is_same, format!("`{name}`"), "another name")?;
        response.expect_valid(response.value(), &schema, "a detail")?;
    }
    Ok(())
}

async fn same_facts(target: &Target) -> CheckResult {
    let tool = any_tool(target).await?;
    for name in ["name", "description", "annotations"] {
        let is_same = tool.detail.value().get(name) == tool.summary.get(name);
        tool.detail.expect(is_same, format!("the `{name}` of the list"), "another")?;
    }
    Ok(())
}

async fn encoded(target: &Target) -> CheckResult {
    let tool = any_tool(target).await?;
    let response = read(target, &encode_every_byte(&tool.name)).await?;
    response.expect_status(&[200])?;
    let is_same = name_of(response.json()?) == tool.name;
    response.expect(is_same, format!("`{}`", tool.name), "another tool")
}

async fn decoded_once(target: &Target) -> CheckResult {
    let tool = any_tool(target).await?;
    let twice = encode_every_byte(&tool.name).replace('%', "%25");
    read(target, &twice).await?.expect_status(&[404])
}

async fn unknown(target: &Target) -> CheckResult {
    expect_not_found(&read(target, ABSENT).await?, ABSENT)
}

async fn unknown_decoded(target: &Target) -> CheckResult {
    for name in ["conformance/absent", "conformance <b>absent</b>"] {
        expect_not_found(&read(target, &encode_segment(name)).await?, name)?;
    }
    Ok(())
}

async fn empty_name(target: &Target) -> CheckResult {
    let response = read(target, "").await?;
    let is_tool = response.status() == 200 && !response.value().is_array();
    let seen = format!("status {}", response.status());
    response.expect(!is_tool && response.status() < 500, "404, or the list", seen)
}

/// Reads the tool with the percent-encoded name `encoded`.
async fn read(target: &Target, encoded: &str) -> CheckResult<Response> {
    target.send_authorized(target.get(&format!("/tools/{encoded}"))).await
}
