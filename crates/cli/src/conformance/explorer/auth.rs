//! Who is let in (F4). A host may put everything behind credentials; then what stands around the
//! explorer refuses, and its order is its own.

use serde_json::json;

use super::{
    BOGUS, exactly, is_guarded, is_refused, name_of, path,
    pick::{Tool, callable},
};
use crate::conformance::{Ask, Check, Got, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "explorer.auth.discovery",
        Must,
        "F4 FR-2, TC-6; F7, gating rules",
        "whoever may see the list may see details and validate; a host that keeps the list from \
         strangers keeps all three from them",
        discovery
    ),
    check!(
        "explorer.auth.junk-ignored",
        Must,
        "F4 FR-2, TC-6; F7, criterion 9",
        "where the list is for everybody, worthless credentials take nothing away",
        junk_ignored
    ),
    check!(
        "explorer.auth.required",
        Must,
        "F4 EH-1",
        "a host that wants credentials answers a call without them as 401",
        required
    ),
    check!(
        "explorer.auth.unknown-key",
        Must,
        "F4 EH-1, TC-2",
        "a call with credentials that nobody issued is 401",
        unknown_key
    ),
    check!(
        "explorer.auth.body",
        Must,
        "F4 SEC-1, TC-5",
        "a 401 is exactly `{\"error\":\"Unauthorized\"}`, whatever was wrong",
        body
    ),
];

async fn discovery(site: &Site) -> Verdict {
    let (name, list) = visible(site).await?;
    let is_closed = is_refused(&list);
    for ask in others(site, &name) {
        let got = site.once(ask).await?;
        match (is_closed, is_refused(&got), got.status()) {
            (true, true, _) | (false, _, 200) => {}
            (true, ..) => {
                let seen = format!("status {}", got.status());
                return fail("a refusal, as that of the list", seen, &[&got, &list]);
            }
            (false, ..) => {
                let seen = format!("status {}", got.status());
                return fail("status 200, as that of the list", seen, &[&got, &list]);
            }
        }
    }
    if is_closed {
        return Ok(());
    }
    for path in ["", "/"] {
        let page = site.once(site.get(path)).await?;
        let is_closed = is_refused(&page);
        page.expect(!is_closed, "a page for everybody, as the list is", "a refusal")?;
    }
    Ok(())
}

async fn junk_ignored(site: &Site) -> Verdict {
    if is_guarded(site).await? {
        return skip("the host keeps the list from strangers");
    }
    let (name, _) = visible(site).await?;
    let list = site.get("/tools");
    for ask in [list].into_iter().chain(others(site, &name)) {
        site.once(ask.header("authorization", BOGUS)).await?.expect_status(&[200])?;
    }
    Ok(())
}

async fn required(site: &Site) -> Verdict {
    locked(site).await?.1.expect_status(&[401])
}

async fn unknown_key(site: &Site) -> Verdict {
    with_junk(site).await?.expect_status(&[401])
}

async fn body(site: &Site) -> Verdict {
    let answers = [locked(site).await?.1, with_junk(site).await?];
    for got in answers.iter().filter(|got| got.status() == 401) {
        exactly(got, &json!({ "error": "Unauthorized" }))?;
    }
    Ok(())
}

/// A tool that may be called and that the host does not run for strangers, and how it refuses.
pub(super) async fn locked(site: &Site) -> Verdict<(Tool, Got)> {
    let (tool, arguments) = callable(site).await?;
    let list = site.once(site.get("/tools")).await?;
    let seen = list.value().as_array();
    if !is_refused(&list) && !seen.is_some_and(|all| all.iter().any(|it| name_of(it) == tool.name))
    {
        return skip("the tool that may be called is not in the list for everybody");
    }
    let got = site.once(site.post(&path(&tool.name, "/call")).json(&arguments)).await?;
    match got.value().get("isError") {
        Some(_) => skip("the host runs tools for everybody"),
        None => Ok((tool, got)),
    }
}

async fn with_junk(site: &Site) -> Verdict<Got> {
    let (tool, _) = locked(site).await?;
    let arguments = tool.arguments().unwrap_or_else(|| json!({}));
    let ask = site.post(&path(&tool.name, "/call")).json(&arguments);
    site.once(ask.header("authorization", BOGUS)).await
}

/// The list as strangers see it, and a tool: one of theirs, if the list is theirs.
async fn visible(site: &Site) -> Verdict<(String, Got)> {
    let list = site.once(site.get("/tools")).await?;
    let tools = match is_refused(&list) {
        true => super::summaries(site).await?.1,
        false => match list.json()? {
            serde_json::Value::Array(tools) => tools.clone(),
            other => other.get("tools").and_then(|it| it.as_array()).cloned().unwrap_or_default(),
        },
    };
    match tools.first().map(name_of) {
        Some(name) => Ok((name.to_owned(), list)),
        None => skip("strangers see no tools"),
    }
}

/// What belongs to the list: the detail of `name`, and validation.
fn others(site: &Site, name: &str) -> [Ask; 2] {
    [site.get(&path(name, "")), site.post(&path(name, "/validate")).json(&json!({}))]
}
