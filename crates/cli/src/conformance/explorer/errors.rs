//! Refusals, methods and types of answers.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ABSENT, is_refused, path, pick::some, runs, summaries, unknown_call};
use crate::conformance::{Ask, Check, Got, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "explorer.errors.body",
        Must,
        "PROTOCOL.md, Endpoints",
        "a refusal is an object with the one member `error`, a text",
        body
    ),
    check!(
        "explorer.errors.content-type",
        Must,
        "PROTOCOL.md, Endpoints; F3 and F7, Response Format",
        "whatever is JSON says `application/json`",
        content_type
    ),
    check!(
        "explorer.errors.method",
        Must,
        "RFC 9110 §15.5.6",
        "a POST to the list is 405 with `Allow`",
        method
    ),
    check!(
        "explorer.errors.get-calls-nothing",
        Must,
        "RFC 9110 §9.2.1",
        "calls and validations are no GET: 405, or 404",
        get_calls_nothing
    ),
    check!(
        "explorer.errors.head",
        Must,
        "RFC 9110 §9.1 and §9.3.2",
        "HEAD of the page, the list and a detail is answered as GET is",
        head
    ),
    check!(
        "explorer.errors.unknown-path",
        Should,
        "RFC 9110 §15.5.5",
        "what the protocol does not name is 404",
        unknown_path
    ),
    check!(
        "explorer.errors.strange-names",
        Should,
        "PROTOCOL.md, Endpoints and Security Checklist",
        "a name that is not UTF-8 is refused like any other: 4xx, as JSON",
        strange_names
    ),
];

async fn body(site: &Site) -> Verdict {
    for got in refusals(site).await? {
        is_envelope(&got)?;
    }
    Ok(())
}

async fn content_type(site: &Site) -> Verdict {
    let (list, _) = summaries(site).await?;
    let tool = some(site, |_| true).await?;
    let mut answers = vec![list, Got::clone(&tool.detail)];
    for body in ["{}", "not json"] {
        let ask = site.post(&path(&tool.name, "/validate"));
        let ask = ask.header("content-type", "application/json").body(body);
        answers.push(site.once(ask.by_first()).await?);
    }
    answers.extend(refusals(site).await?);
    // A call as well, where one is allowed.
    if let Ok((_, got)) = super::call::any(site).await {
        answers.push(got);
    }
    for got in &answers {
        let kind = got.header("content-type").unwrap_or("(none)");
        got.expect(got.says_json(), "`application/json`", format!("`{kind}`"))?;
    }
    Ok(())
}

async fn method(site: &Site) -> Verdict {
    let got = asked(site, site.post("/tools").json(&json!({}))).await?;
    got.expect_status(&[405])?;
    let allow = got.header("allow").unwrap_or_default().to_ascii_uppercase();
    let names = allow.split(',').any(|method| method.trim() == "GET");
    got.expect(names, "`Allow` with `GET`", format!("`{allow}`"))
}

async fn get_calls_nothing(site: &Site) -> Verdict {
    let tool = some(site, |_| true).await?;
    for rest in ["/call", "/validate"] {
        // Of no tool first: a host that would call something does not.
        for name in [ABSENT, tool.name.as_str()] {
            asked(site, site.get(&path(name, rest))).await?.expect_status(&[405, 404])?;
        }
    }
    Ok(())
}

async fn head(site: &Site) -> Verdict {
    let tool = some(site, |_| true).await?;
    let detail = path(&tool.name, "");
    for path in ["", "/", "/tools", &detail] {
        let get = asked(site, site.get(path)).await?;
        if get.status() != 200 {
            // One of the forms of the page, perhaps.
            continue;
        }
        let head = asked(site, site.ask(Method::HEAD, path)).await?;
        head.expect_status(&[200])?;
        let same = head.header("content-type") == get.header("content-type");
        head.expect(same && head.body().is_empty(), "the headers of the GET", "others")?;
    }
    Ok(())
}

async fn unknown_path(site: &Site) -> Verdict {
    for path in ["/conformance-absent", "/tools/conformance-absent/absent/absent"] {
        asked(site, site.get(path)).await?.expect_status(&[404])?;
    }
    Ok(())
}

async fn strange_names(site: &Site) -> Verdict {
    let got = asked(site, site.get("/tools/conformance%FF")).await?;
    let status = got.status();
    got.expect((400..500).contains(&status), "a refusal", format!("status {status}"))?;
    is_envelope(&got)
}

/// Every kind of refusal that this host has.
async fn refusals(site: &Site) -> Verdict<Vec<Got>> {
    let validation = site.post(&path(ABSENT, "/validate")).json(&json!({}));
    let mut all = vec![
        asked(site, site.get(&path(ABSENT, ""))).await?,
        asked(site, validation).await?,
        unknown_call(site).await?,
    ];
    if runs(site).await?
        && let Ok((_, got)) = super::auth::locked(site).await
    {
        all.push(got);
    }
    Ok(all)
}

fn is_envelope(got: &Got) -> Verdict {
    let members = got.json()?.as_object();
    let error = members.and_then(|all| all.get("error")).and_then(Value::as_str);
    match (members.map(serde_json::Map::len), error) {
        (Some(1), Some(text)) if !text.is_empty() => Ok(()),
        _ => fail("exactly `error`, a text", "something else", &[got]),
    }
}

/// The answer to `ask` with the key.
async fn asked(site: &Site, ask: Ask) -> Verdict<Got> {
    let got = site.once(ask.by_first()).await?;
    match is_refused(&got) && !site.host().has_key() {
        true => skip("the host wants a key: --key"),
        false => Ok(got),
    }
}
