//! Errors, methods and content types.

use reqwest::Method;
use serde_json::json;

use super::{
    auth::rejected_call,
    call::call_any,
    common::{ABSENT, call_absent, is_execution_enabled, path, summaries},
    tools::any_tool,
};
use crate::{Check, CheckResult, Target, checks, http::Response, value::text};

pub(super) const CHECKS: &[Check] = checks! {
    "explorer.errors.body", Must, "PROTOCOL.md, Endpoints", body:
        "an error is an object with the string `error` and no other member";
    "explorer.errors.content-type", Must, "PROTOCOL.md, Endpoints; F3 and F7, Response Format", content_type:
        "every JSON response has the content type `application/json`";
    "explorer.errors.method", Must, "RFC 9110 §15.5.6", method:
        "a POST to the list returns 405 with `Allow`";
    "explorer.errors.get-calls-nothing", Must, "RFC 9110 §9.2.1", get_calls_nothing:
        "GET neither calls nor validates: it returns 405 or 404";
    "explorer.errors.head", Must, "RFC 9110 §9.1 and §9.3.2", head:
        "HEAD of the page, the list and a detail returns the headers of GET";
    "explorer.errors.unknown-path", Should, "RFC 9110 §15.5.5", unknown_path:
        "an unknown path returns 404";
    "explorer.errors.invalid-names", Should, "PROTOCOL.md, Endpoints and Security Checklist", strange_names:
        "a name that is not UTF-8 returns a 4xx error as JSON";
};

async fn body(target: &Target) -> CheckResult {
    errors(target).await?.iter().try_for_each(expect_envelope)
}

async fn content_type(target: &Target) -> CheckResult {
    let (list, _) = summaries(target).await?;
    let tool = any_tool(target).await?;
    let mut responses = vec![list, Response::clone(&tool.detail)];
    for body in ["{}", "not json"] {
        let request = target.post(&path(&tool.name, "/validate")).json_text(body);
        responses.push(target.send_once(request.with_key()).await?);
    }
    responses.extend(errors(target).await?);
    responses.extend(call_any(target).await);
    responses.iter().try_for_each(|response| response.expect_json_type())
}

async fn method(target: &Target) -> CheckResult {
    let response = target.send_authorized(target.post("/tools").json(&json!({}))).await?;
    response.expect_status(&[405])?;
    let allow = response.header_text("allow").to_ascii_uppercase();
    let has_get = allow.split(',').any(|method| method.trim() == "GET");
    response.expect(has_get, "`Allow` with `GET`", format!("`{allow}`"))
}

async fn get_calls_nothing(target: &Target) -> CheckResult {
    let tool = any_tool(target).await?;
    for endpoint in ["/call", "/validate"] {
        // An unknown tool first: a host that calls tools on GET fails here without a call.
        for name in [ABSENT, tool.name.as_str()] {
            let response = target.send_authorized(target.get(&path(name, endpoint))).await?;
            response.expect_status(&[405, 404])?;
        }
    }
    Ok(())
}

async fn head(target: &Target) -> CheckResult {
    let detail = path(&any_tool(target).await?.name, "");
    for path in ["", "/", "/tools", &detail] {
        let get = target.send_authorized(target.get(path)).await?;
        if get.status() != 200 {
            // A host may redirect one of the two paths of the page.
            continue;
        }
        let head = target.send_authorized(target.request(Method::HEAD, path)).await?;
        head.expect_status(&[200])?;
        let is_same = head.header("content-type") == get.header("content-type");
        let seen = "other headers, or a body";
        head.expect(is_same && head.body().is_empty(), "the headers of GET", seen)?;
    }
    Ok(())
}

async fn unknown_path(target: &Target) -> CheckResult {
    for path in ["/conformance-absent", "/tools/conformance-absent/absent/absent"] {
        target.send_authorized(target.get(path)).await?.expect_status(&[404])?;
    }
    Ok(())
}

async fn strange_names(target: &Target) -> CheckResult {
    let response = target.send_authorized(target.get("/tools/conformance%FF")).await?;
    response.expect_client_error()?;
    expect_envelope(&response)
}

/// Provokes every kind of error, and collects the responses.
async fn errors(target: &Target) -> CheckResult<Vec<Response>> {
    let validation = target.post(&path(ABSENT, "/validate")).json(&json!({}));
    let mut all = vec![
        target.send_authorized(target.get(&path(ABSENT, ""))).await?,
        target.send_authorized(validation).await?,
        call_absent(target).await?,
    ];
    if is_execution_enabled(target).await?
        && let Ok((_, response)) = rejected_call(target).await
    {
        all.push(response);
    }
    Ok(all)
}

fn expect_envelope(response: &Response) -> CheckResult {
    let members = response.json()?.as_object().map_or(0, serde_json::Map::len);
    let is_envelope = members == 1 && !text(response.value(), "error").is_empty();
    response.expect(is_envelope, "only `error`, a non-empty string", "something else")
}
