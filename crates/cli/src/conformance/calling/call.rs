//! `POST /tools/call`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    Callable, Dialect, called, fresh_id,
    pick::{callable, failing, plain},
    posted, result, split, succeeded, tools, wants_credentials,
};
use crate::conformance::{Got, Site, Verdict, fail, shape, skip};

/// A version that no tool has.
const NO_VERSION: &str = "999.999.999";

pub(in crate::conformance) async fn success(site: &Site) -> Verdict {
    let tool = plain(site).await?;
    let id = fresh_id();
    let got = called(site, &with(tool.request(), "call_id", json!(id))).await?;
    got.expect_status(&[200])?;
    let Some(result) = got.json()?.get("result") else {
        return fail("an object with `result`", "none", &[&got]);
    };
    let member = |name: &str| result.get(name);
    got.expect(member("call_id") == Some(&json!(id)), "the `call_id` of the request", "another")?;
    got.expect(member("success") == Some(&json!(true)), "`success` true", "something else")?;
    got.expect(member("error").is_none(), "no `error`", "an `error`")
}

pub(in crate::conformance) async fn marker(site: &Site) -> Verdict {
    let got = any(site).await?;
    super::errors::marked(site, &got)
}

pub(in crate::conformance) async fn duration(site: &Site) -> Verdict {
    let got = any(site).await?;
    let took = result(&got)?.get("duration").and_then(Value::as_f64);
    got.expect(took.is_some_and(|it| it >= 0.0), "`duration`, a number", "none")
}

pub(in crate::conformance) async fn generated_id(site: &Site) -> Verdict {
    let tool = plain(site).await?;
    let ask = || {
        let body = json!({ "$schema": Dialect::of(site).marker, "request": tool.request() });
        site.send(site.post("/tools/call").json(&body).by_first())
    };
    any(site).await?;
    let (one, other) = (ask().await?, ask().await?);
    let id = |got: &Got| {
        let id = result(got)?.get("call_id").and_then(Value::as_str).unwrap_or_default();
        got.expect(!id.is_empty(), "a `call_id`", "none")?;
        Ok(id.to_owned())
    };
    match id(&one)? != id(&other)? {
        true => Ok(()),
        false => fail("a `call_id` of its own for each call", "the same twice", &[&one, &other]),
    }
}

pub(in crate::conformance) async fn input_omitted(site: &Site) -> Verdict {
    let needs_none = |tool: &Callable| {
        tool.required().is_empty() && !tool.has_requirements() && tool.arguments.is_empty()
    };
    let tool = callable(site, needs_none).await?;
    let got = called(site, &json!({ "tool_id": tool.id })).await?;
    succeeded(&got)
}

pub(in crate::conformance) async fn no_version(site: &Site) -> Verdict {
    let tool = plain(site).await?;
    succeeded(&called(site, &with(tool.request(), "tool_id", json!(tool.bare()))).await?)
}

pub(in crate::conformance) async fn major_version(site: &Site) -> Verdict {
    const SOME: usize = 3;
    let tool = plain(site).await?;
    let (_, listed) = tools(site).await?;
    let same = listed.iter().map(super::id_of).map(split).filter(|(bare, _)| *bare == tool.bare());
    let versions: BTreeSet<&str> = same.filter_map(|(_, version)| version).collect();
    let majors: BTreeSet<&str> = versions.iter().filter_map(|it| it.split('.').next()).collect();
    if majors.is_empty() {
        return skip("the tool that may be called has no version in its id");
    }
    for major in majors.into_iter().take(SOME) {
        let short = format!("{}@{major}", tool.bare());
        let got = called(site, &with(tool.request(), "tool_id", json!(short))).await?;
        match versions.contains(format!("{major}.0.0").as_str()) {
            true => succeeded(&got)?,
            false => got.expect_status(&[400])?,
        }
    }
    Ok(())
}

pub(in crate::conformance) async fn malformed_version(site: &Site) -> Verdict {
    let tool = plain(site).await?;
    let version = split(&tool.id).1.unwrap_or("1.0.0");
    let two = version.rsplit_once('.').map_or(version, |(two, _)| two);
    for malformed in [two, "v1"] {
        let id = format!("{}@{malformed}", tool.bare());
        called(site, &with(tool.request(), "tool_id", json!(id))).await?.expect_status(&[400])?;
    }
    Ok(())
}

pub(in crate::conformance) async fn unknown_tool(site: &Site) -> Verdict {
    unknown(site).await?.expect_status(&[400])
}

pub(in crate::conformance) async fn unknown_version(site: &Site) -> Verdict {
    of_no_version(site).await?.expect_status(&[400])
}

pub(in crate::conformance) async fn invalid_input(site: &Site) -> Verdict {
    let (got, _) = invalid(site).await?;
    got.expect_status(&[422])?;
    let says = got.json()?.get("message").is_some_and(Value::is_string);
    got.expect(says, "a `message`", "none")
}

pub(in crate::conformance) async fn missing_input(site: &Site) -> Verdict {
    missing(site).await?.0.expect_status(&[422])
}

pub(in crate::conformance) async fn parameter_errors(site: &Site) -> Verdict {
    for (got, name) in [invalid(site).await?, missing(site).await?] {
        let named = got.json()?.get("parameter_errors").and_then(|all| all.get(&name));
        let expected = format!("`parameter_errors` with `{name}`");
        got.expect(named.is_some_and(Value::is_string), expected, "none")?;
    }
    Ok(())
}

pub(in crate::conformance) async fn tool_failure(site: &Site) -> Verdict {
    let tool = failing(site).await?;
    let got = called(site, &tool.request()).await?;
    let result = result(&got)?;
    let success = result.get("success").and_then(Value::as_bool);
    got.expect(success == Some(false), "`success` false", "something else")?;
    let says = result.pointer("/error/message").and_then(Value::as_str);
    got.expect(says.is_some_and(|it| !it.is_empty()), "`error.message`", "none")?;
    got.expect(result.get("value").is_none(), "no `value`", "a `value`")
}

pub(in crate::conformance) async fn not_json(site: &Site) -> Verdict {
    for body in ["{not json", ""] {
        raw(site, body).await?.expect_status(&[400])?;
    }
    Ok(())
}

pub(in crate::conformance) async fn malformed_request(site: &Site) -> Verdict {
    for body in [
        json!({ "$schema": Dialect::of(site).marker }),
        json!({ "request": {} }),
        json!({ "request": "a text" }),
        json!({ "request": { "tool_id": 1 } }),
    ] {
        posted(site, &body).await?.expect_status(&[400])?;
    }
    Ok(())
}

pub(in crate::conformance) async fn unsupported(site: &Site) -> Verdict {
    let tool = plain(site).await?;
    for marker in [json!(Dialect::of(site).unsupported), json!(1)] {
        let body = json!({ "$schema": marker, "request": tool.request() });
        posted(site, &body).await?.expect_status(&[400])?;
    }
    Ok(())
}

pub(in crate::conformance) async fn content_type(site: &Site) -> Verdict {
    let tool = plain(site).await?;
    any(site).await?;
    let body = json!({ "request": tool.request() }).to_string();
    let got = site.once(site.post("/tools/call").body(body).by_first()).await?;
    match got.status() {
        200 => succeeded(&got),
        _ => got.expect_status(&[200, 400, 415]),
    }
}

pub(in crate::conformance) async fn repeated(site: &Site) -> Verdict {
    let tool = plain(site).await?;
    let (first, body) = identified(site, &tool).await?;
    let again = site.send(site.post("/tools/call").json(&body).by_first()).await?;
    match first.body() == again.body() && first.status() == again.status() {
        true => Ok(()),
        false => fail("the answer of the first call", "another", &[&first, &again]),
    }
}

pub(in crate::conformance) async fn conflict(site: &Site) -> Verdict {
    let varies = |tool: &Callable| !tool.has_requirements() && varied(tool).is_some();
    let tool = callable(site, varies).await?;
    let Some(input) = varied(&tool) else { return skip("the tool takes nothing that can vary") };
    let (first, mut body) = identified(site, &tool).await?;
    if let Some(request) = body.get_mut("request").and_then(Value::as_object_mut) {
        request.insert("input".to_owned(), input);
    }
    let got = site.send(site.post("/tools/call").json(&body).by_first()).await?;
    match got.status() {
        400 => Ok(()),
        status => fail("status 400", format!("status {status}"), &[&first, &got]),
    }
}

pub(in crate::conformance) async fn requirements(site: &Site) -> Verdict {
    let tool = callable(site, Callable::has_requirements).await?;
    called(site, &tool.request()).await?.expect_status(&[400])
}

/// The answer to one ordinary call.
async fn any(site: &Site) -> Verdict<Got> {
    let tool = plain(site).await?;
    let got = called(site, &tool.request()).await?;
    result(&got)?;
    Ok(got)
}

/// A call under an id of its own that went well, and its body.
async fn identified(site: &Site, tool: &Callable) -> Verdict<(Got, Value)> {
    let request = with(tool.request(), "call_id", json!(fresh_id()));
    let body = json!({ "$schema": Dialect::of(site).marker, "request": request });
    let got = posted(site, &body).await?;
    succeeded(&got)?;
    Ok((got, body))
}

/// A call of a tool that there is not.
pub(super) async fn unknown(site: &Site) -> Verdict<Got> {
    called(site, &json!({ "tool_id": "Conformance.Absent", "input": {} })).await
}

/// A call of a version that there is not.
pub(super) async fn of_no_version(site: &Site) -> Verdict<Got> {
    let tool = plain(site).await?;
    let id = format!("{}@{NO_VERSION}", tool.bare());
    called(site, &with(tool.request(), "tool_id", json!(id))).await
}

/// A call whose input has a value of a wrong type, and the name of its parameter.
pub(super) async fn invalid(site: &Site) -> Verdict<(Got, String)> {
    let typed = |tool: &Callable| !tool.has_requirements() && wrong(tool).is_some();
    let tool = callable(site, typed).await?;
    let Some((name, value)) = wrong(&tool) else {
        return skip("no parameter has a type");
    };
    let input = with(Value::Object(tool.arguments.clone()), &name, value);
    Ok((called(site, &with(tool.request(), "input", input)).await?, name))
}

/// A call without a required parameter, and its name.
async fn missing(site: &Site) -> Verdict<(Got, String)> {
    let needs = |tool: &Callable| !tool.has_requirements() && !tool.required().is_empty();
    let tool = callable(site, needs).await?;
    let name = tool.required().first().map(|name| (*name).to_owned()).unwrap_or_default();
    let mut input = tool.arguments.clone();
    input.remove(&name);
    Ok((called(site, &with(tool.request(), "input", Value::Object(input))).await?, name))
}

/// A parameter of one type, and a value of another.
fn wrong(tool: &Callable) -> Option<(String, Value)> {
    let all = tool.schema.get("properties")?.as_object()?;
    all.iter().find_map(|(name, schema)| {
        let value = match schema.get("type")?.as_str()? {
            "string" => json!({ "conformance": true }),
            "number" | "integer" | "boolean" | "object" | "array" => json!("no such type"),
            _ => return None,
        };
        Some((name.clone(), value))
    })
}

/// Other input that the tool accepts as well.
fn varied(tool: &Callable) -> Option<Value> {
    let all = tool.schema.get("properties")?.as_object()?;
    all.iter().find_map(|(name, schema)| {
        let value = match (schema.get("type")?.as_str()?, tool.arguments.get(name)) {
            ("string", Some(Value::String(text))) => json!(format!("{text}b")),
            ("number" | "integer", Some(Value::Number(number))) => json!(number.as_i64()? + 1),
            ("boolean", Some(Value::Bool(is_true))) => json!(!is_true),
            _ => return None,
        };
        let input = with(Value::Object(tool.arguments.clone()), name, value);
        shape::violation(&tool.schema, &input).is_none().then_some(input)
    })
}

async fn raw(site: &Site, body: &str) -> Verdict<Got> {
    if !site.host().has_key() && wants_credentials(site).await? {
        return skip("the host wants a key: --key");
    }
    let ask = site.post("/tools/call").header("content-type", "application/json");
    site.once(ask.body(body).by_first()).await
}

/// `object` with the member `name`.
fn with(mut object: Value, name: &str, value: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
    object
}
