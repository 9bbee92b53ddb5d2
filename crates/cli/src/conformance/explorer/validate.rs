//! `POST /tools/{name}/validate` (F7).

mod schemas;

use serde_json::{Map, Value, json};

use super::{
    ABSENT, disabled, is_refused, not_found, path,
    pick::{Tool, failing, some},
};
use crate::conformance::{Check, Got, Site, Verdict, check, fail, shape, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "explorer.validate.valid",
        Must,
        "F7, Valid (200); criteria 1 and 11",
        "arguments that fit are 200 and exactly `{\"valid\":true}`",
        valid
    ),
    check!(
        "explorer.validate.missing",
        Must,
        "F7, Invalid (200); criterion 2",
        "arguments without a required property are 200 with `valid` false and what is wrong",
        missing
    ),
    check!(
        "explorer.validate.missing-path",
        Must,
        "F7, criterion 2",
        "the path of a missing property points to where it should be",
        missing_path
    ),
    check!(
        "explorer.validate.type-path",
        Must,
        "F7, `errors[].path`; criterion 3",
        "a value of a wrong type is `valid` false, with the path of the value",
        type_path
    ),
    check!(
        "explorer.validate.keywords",
        Should,
        "PROTOCOL.md, error normalization",
        "an error names the keyword of the schema: `required`, `type`",
        keywords
    ),
    check!(
        "explorer.validate.root-path",
        Must,
        "F7, `errors[].path`",
        "what is wrong with the whole has the path `\"\"`",
        root_path
    ),
    check!(
        "explorer.validate.pointers",
        Must,
        "F7, `errors[].path`; RFC 6901 §3",
        "`~` and `/` in the name of a property are `~0` and `~1` in the path",
        pointers
    ),
    check!(
        "explorer.validate.all-violations",
        Must,
        "F7, criterion 4",
        "everything that is wrong is named, not only the first",
        all_violations
    ),
    check!(
        "explorer.validate.entries",
        Must,
        "F7, Invalid (200)",
        "every error has a `path`, a `message`, and a `keyword` that is a text when it is there",
        entries
    ),
    check!(
        "explorer.validate.not-json",
        Must,
        "F7, precondition 2; criterion 6",
        "a body that is no JSON, or empty, is 400 with one error: path `\"\"`, keyword `format`, \
         `Invalid JSON: …`",
        not_json
    ),
    check!(
        "explorer.validate.unknown",
        Must,
        "F7, precondition 1; criterion 5",
        "a tool that there is not is 404 `Tool not found: NAME`",
        unknown
    ),
    check!(
        "explorer.validate.no-schema",
        Must,
        "F7, criterion 7",
        "everything fits a tool without a schema",
        schemas::none
    ),
    check!(
        "explorer.validate.bad-schema",
        Must,
        "F7, Schemas That Cannot Be Compiled; criterion 13",
        "a schema that is none is 200 with one error: path `\"\"`, keyword `schema`, \
         `Invalid schema: …`",
        schemas::bad
    ),
    check!(
        "explorer.validate.calls-nothing",
        Must,
        "F7, Security Considerations; criterion 10",
        "a tool that fails when it is called is validated like any other, and nothing of a call is \
         in the answer",
        calls_nothing
    ),
    check!(
        "explorer.validate.when-disabled",
        Must,
        "F7, gating rules; criterion 8",
        "a host that does not run tools validates all the same",
        when_disabled
    ),
];

async fn valid(site: &Site) -> Verdict {
    let (tool, arguments) = fitting(site).await?;
    let got = validated(site, &tool.name, &arguments).await?;
    fits(&got)
}

async fn missing(site: &Site) -> Verdict {
    let (_, _, got) = without_required(site).await?;
    problems(&got).map(drop)
}

async fn missing_path(site: &Site) -> Verdict {
    let (_, name, got) = without_required(site).await?;
    let wanted = pointer(&name);
    let paths: Vec<String> = problems(&got)?.iter().map(path_of).collect();
    let seen = format!("`{}`", paths.join("`, `"));
    got.expect(paths.contains(&wanted), format!("an error with the path `{wanted}`"), seen)
}

async fn type_path(site: &Site) -> Verdict {
    let (name, got) = of_wrong_type(site, plain).await?;
    at_its_place(&got, &name)
}

async fn keywords(site: &Site) -> Verdict {
    let (_, _, missing) = without_required(site).await?;
    named(&missing, "required")?;
    let (_, wrong) = of_wrong_type(site, plain).await?;
    named(&wrong, "type")
}

async fn root_path(site: &Site) -> Verdict {
    let typed = |tool: &Tool| tool.schema().get("type") == Some(&json!("object"));
    let tool = some(site, typed).await?;
    for body in [json!([]), json!("a text")] {
        let got = validated(site, &tool.name, &body).await?;
        let paths: Vec<String> = problems(&got)?.iter().map(path_of).collect();
        let seen = format!("`{}`", paths.join("`, `"));
        got.expect(paths.iter().any(String::is_empty), "an error with the path `\"\"`", seen)?;
    }
    Ok(())
}

async fn pointers(site: &Site) -> Verdict {
    let (name, got) = of_wrong_type(site, |name| !plain(name)).await?;
    at_its_place(&got, &name)
}

async fn all_violations(site: &Site) -> Verdict {
    let several = |tool: &Tool| {
        shape::compiles(tool.schema()) && (tool.required().len() > 1 || tool.wrong().len() > 1)
    };
    let tool = some(site, several).await?;
    let wrong: Map<String, Value> =
        tool.wrong().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let (least, body) = match wrong.len() {
        0 | 1 => (tool.required().len(), json!({})),
        count => (count, Value::Object(wrong)),
    };
    let got = validated(site, &tool.name, &body).await?;
    let count = problems(&got)?.len();
    got.expect(count >= least, format!("{least} errors"), format!("{count}"))
}

async fn entries(site: &Site) -> Verdict {
    let shape = json!({
        "type": "object",
        "required": ["path", "message"],
        "properties": {
            "path": { "type": "string", "pattern": "^(/([^~]|~[01])*)?$" },
            "message": { "type": "string", "minLength": 1 },
            "keyword": { "type": "string", "minLength": 1 },
        },
    });
    let (_, _, got) = without_required(site).await?;
    for problem in problems(&got)? {
        if let Some(what) = shape::violation(&shape, problem) {
            return fail("`path`, `message` and perhaps `keyword`", what, &[&got]);
        }
    }
    Ok(())
}

async fn not_json(site: &Site) -> Verdict {
    let tool = some(site, |_| true).await?;
    for body in ["not json", ""] {
        let got = posted(site, &tool.name, body).await?;
        got.expect_status(&[400])?;
        sole(&got, "format", "Invalid JSON: ")?;
    }
    Ok(())
}

async fn unknown(site: &Site) -> Verdict {
    not_found(&validated(site, ABSENT, &json!({})).await?, ABSENT)
}

async fn calls_nothing(site: &Site) -> Verdict {
    let (tool, arguments) = failing(site).await?;
    let got = validated(site, &tool.name, &arguments).await?;
    got.expect_status(&[200])?;
    for name in ["content", "isError", "_meta"] {
        got.expect(got.json()?.get(name).is_none(), "nothing of a call", format!("`{name}`"))?;
    }
    match shape::violation(tool.schema(), &arguments) {
        None => fits(&got),
        Some(_) => Ok(()),
    }
}

async fn when_disabled(site: &Site) -> Verdict {
    disabled(site).await?;
    valid(site).await
}

/// A tool, and arguments that fit.
async fn fitting(site: &Site) -> Verdict<(Tool, Value)> {
    let usable = |tool: &Tool| {
        let arguments = tool.arguments();
        arguments.is_some_and(|it| shape::violation(tool.schema(), &it).is_none())
    };
    // One whose schema says something is better.
    let tool = match some(site, |tool| usable(tool) && tool.schema().get("type").is_some()).await {
        Ok(tool) => tool,
        Err(_) => some(site, usable).await?,
    };
    let arguments = tool.arguments().unwrap_or_else(|| json!({}));
    Ok((tool, arguments))
}

/// The answer to arguments without a required property, and its name.
async fn without_required(site: &Site) -> Verdict<(Tool, String, Got)> {
    let needs = |tool: &Tool| shape::compiles(tool.schema()) && !tool.required().is_empty();
    let tool = some(site, needs).await?;
    let name = tool.required().first().map(|name| (*name).to_owned()).unwrap_or_default();
    let mut arguments = tool.arguments().unwrap_or_else(|| json!({}));
    if let Some(members) = arguments.as_object_mut() {
        members.remove(&name);
    }
    let got = validated(site, &tool.name, &arguments).await?;
    Ok((tool, name, got))
}

/// The answer to a value of a wrong type, and the name of its property, for which `fits`.
async fn of_wrong_type(site: &Site, fits: fn(&str) -> bool) -> Verdict<(String, Got)> {
    let typed = |tool: &Tool| {
        shape::compiles(tool.schema()) && tool.wrong().iter().any(|(name, _)| fits(name))
    };
    let tool = some(site, typed).await?;
    let Some((name, value)) = tool.wrong().into_iter().find(|(name, _)| fits(name)) else {
        return skip("no property has a type");
    };
    let mut arguments = tool.arguments().unwrap_or_else(|| json!({}));
    if let Some(members) = arguments.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
    Ok((name.to_owned(), validated(site, &tool.name, &arguments).await?))
}

/// Whether a name is in a path as it is.
fn plain(name: &str) -> bool {
    !name.contains(['/', '~'])
}

/// The path of the property `name` of the arguments.
fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The answer to `arguments` for the tool `name`.
async fn validated(site: &Site, name: &str, arguments: &Value) -> Verdict<Got> {
    posted(site, name, &arguments.to_string()).await
}

async fn posted(site: &Site, name: &str, body: &str) -> Verdict<Got> {
    let ask = site.post(&path(name, "/validate")).header("content-type", "application/json");
    let got = site.once(ask.body(body).by_first()).await?;
    match is_refused(&got) && !site.host().has_key() {
        true => skip("the host wants a key: --key"),
        false => Ok(got),
    }
}

/// Fails unless nothing is wrong.
fn fits(got: &Got) -> Verdict {
    got.expect_status(&[200])?;
    super::exactly(got, &json!({ "valid": true }))
}

/// What is wrong, which is something.
fn problems(got: &Got) -> Verdict<&Vec<Value>> {
    got.expect_status(&[200])?;
    listed(got)
}

fn listed(got: &Got) -> Verdict<&Vec<Value>> {
    got.expect(got.json()?.get("valid") == Some(&json!(false)), "`valid` false", "another")?;
    match got.value().get("errors").and_then(Value::as_array).filter(|all| !all.is_empty()) {
        Some(problems) => Ok(problems),
        None => fail("`errors` with something in it", "none", &[got]),
    }
}

/// Fails unless there is one error, of this keyword, with a message that starts so, about the whole.
fn sole(got: &Got, keyword: &str, message: &str) -> Verdict {
    let [problem] = listed(got)?.as_slice() else {
        return fail("one error", "several", &[got]);
    };
    got.expect(problem.get("path") == Some(&json!("")), "the path `\"\"`", "another")?;
    let same = problem.get("keyword") == Some(&json!(keyword));
    got.expect(same, format!("the keyword `{keyword}`"), "another, or none")?;
    let text = problem.get("message").and_then(Value::as_str).unwrap_or_default();
    got.expect(text.starts_with(message), format!("`{message}…`"), format!("`{text}`"))
}

/// Fails unless one of the errors is of this keyword.
fn named(got: &Got, keyword: &str) -> Verdict {
    let all = problems(got)?;
    let is = |problem: &Value| problem.get("keyword").and_then(Value::as_str) == Some(keyword);
    got.expect(all.iter().any(is), format!("an error with the keyword `{keyword}`"), "none")
}

/// Fails unless one of the errors is about the property `name`.
fn at_its_place(got: &Got, name: &str) -> Verdict {
    let wanted = pointer(name);
    let paths: Vec<String> = problems(got)?.iter().map(path_of).collect();
    let seen = format!("`{}`", paths.join("`, `"));
    got.expect(paths.contains(&wanted), format!("an error with the path `{wanted}`"), seen)
}

fn path_of(problem: &Value) -> String {
    problem.get("path").and_then(Value::as_str).unwrap_or("(none)").to_owned()
}
