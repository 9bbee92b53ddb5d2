//! `GET /tools/{name}` (F2).

use serde_json::json;

use super::{ABSENT, is_refused, name_of, not_found, path, pick::some, summaries};
use crate::conformance::{Check, Got, Site, Verdict, check, fail, shape, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "explorer.detail.members",
        Must,
        "F2, `GET /tools/{name}`",
        "a listed tool is 200 with `name`, `description` and the object `inputSchema`",
        members
    ),
    check!(
        "explorer.detail.same-facts",
        Must,
        "F2, `GET /tools/{name}`",
        "its name, description and annotations are those of the list",
        same_facts
    ),
    check!(
        "explorer.detail.encoded",
        Must,
        "PROTOCOL.md, `GET /tools/{name}`; RFC 3986 §2.1",
        "a name is the same however much of it is percent-encoded",
        encoded
    ),
    check!(
        "explorer.detail.decoded-once",
        Must,
        "RFC 3986 §2.4",
        "a name is decoded once",
        decoded_once
    ),
    check!(
        "explorer.detail.unknown",
        Must,
        "PROTOCOL.md, `GET /tools/{name}`",
        "a tool that there is not is 404 `Tool not found: NAME`",
        unknown
    ),
    check!(
        "explorer.detail.unknown-decoded",
        Must,
        "PROTOCOL.md, `GET /tools/{name}`",
        "a name with an encoded slash or markup is one name, and stands decoded in the 404",
        unknown_decoded
    ),
    check!(
        "explorer.detail.empty-name",
        Must,
        "PROTOCOL.md, Security Checklist",
        "`/tools/` is no tool without a name",
        empty_name
    ),
];

async fn members(site: &Site) -> Verdict {
    const MOST: usize = 24;
    let (_, tools) = summaries(site).await?;
    let shape = json!({
        "type": "object",
        "required": ["name", "description", "inputSchema"],
        "properties": {
            "name": { "type": "string" },
            "description": { "type": "string" },
            "inputSchema": { "type": "object" },
        },
    });
    for tool in tools.iter().take(MOST) {
        let name = name_of(tool);
        let got = site.once(site.get(&path(name, "")).by_first()).await?;
        got.expect_status(&[200])?;
        got.expect(name_of(got.json()?) == name, format!("`{name}`"), "another name")?;
        if let Some(what) = shape::violation(&shape, got.value()) {
            return fail("a detail", what, &[&got]);
        }
    }
    Ok(())
}

async fn same_facts(site: &Site) -> Verdict {
    let tool = some(site, |_| true).await?;
    for name in ["name", "description", "annotations"] {
        let same = tool.detail.value().get(name) == tool.summary.get(name);
        tool.detail.expect(same, format!("the `{name}` of the list"), "another")?;
    }
    Ok(())
}

async fn encoded(site: &Site) -> Verdict {
    let tool = some(site, |_| true).await?;
    let got = at(site, &encode(&tool.name)).await?;
    got.expect_status(&[200])?;
    got.expect(name_of(got.json()?) == tool.name, format!("`{}`", tool.name), "another tool")
}

async fn decoded_once(site: &Site) -> Verdict {
    let tool = some(site, |_| true).await?;
    let twice = encode(&tool.name).replace('%', "%25");
    at(site, &twice).await?.expect_status(&[404])
}

async fn unknown(site: &Site) -> Verdict {
    not_found(&at(site, ABSENT).await?, ABSENT)
}

async fn unknown_decoded(site: &Site) -> Verdict {
    for name in ["conformance/absent", "conformance <b>absent</b>"] {
        not_found(&at(site, &super::segment(name)).await?, name)?;
    }
    Ok(())
}

async fn empty_name(site: &Site) -> Verdict {
    let got = at(site, "").await?;
    let is_tool = got.status() == 200 && !got.value().is_array();
    got.expect(!is_tool, "404, or the list", "something else")?;
    got.expect(got.status() < 500, "404, or the list", format!("status {}", got.status()))
}

/// The tool whose name is `encoded` in the path.
async fn at(site: &Site, encoded: &str) -> Verdict<Got> {
    let got = site.once(site.get(&format!("/tools/{encoded}")).by_first()).await?;
    match is_refused(&got) && !site.host().has_key() {
        true => skip("the host wants a key: --key"),
        false => Ok(got),
    }
}

/// Every byte of `name` as `%XX`.
fn encode(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
