//! `GET /tools`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Dialect, definitions, id_of, parameters, split, tools};
use crate::conformance::{Protocol, Site, Verdict, fail, shape, skip};

pub(in crate::conformance) async fn object(site: &Site) -> Verdict {
    let (got, _) = definitions(site).await?;
    let list = Dialect::of(site).list;
    let expected = format!("an object with the array `{list}`");
    let seen = if got.value().is_array() { "a bare array" } else { "something else" };
    got.expect(got.value().get(list).is_some_and(Value::is_array), expected, seen)
}

pub(in crate::conformance) async fn marker(site: &Site) -> Verdict {
    let (got, _) = definitions(site).await?;
    super::errors::marked(site, &got)
}

pub(in crate::conformance) async fn with_schema(site: &Site) -> Verdict {
    let (plain, _) = definitions(site).await?;
    let body = json!({ "$schema": Dialect::of(site).marker });
    let got = site.once(site.get("/tools").json(&body).by_first()).await?;
    got.expect_status(&[200])?;
    match got.json()? == plain.value() {
        true => Ok(()),
        false => fail("the same list", "another", &[&got, &plain]),
    }
}

pub(in crate::conformance) async fn unsupported(site: &Site) -> Verdict {
    definitions(site).await?;
    let body = json!({ "$schema": Dialect::of(site).unsupported });
    let got = site.once(site.get("/tools").json(&body).by_first()).await?;
    got.expect_status(&[400])?;
    let says = got.json()?.get("message").is_some_and(Value::is_string);
    got.expect(says, "a `message`", "none")
}

pub(in crate::conformance) async fn empty_body(site: &Site) -> Verdict {
    definitions(site).await?;
    let ask = site.get("/tools").header("content-type", "application/json").by_first();
    site.once(ask).await?.expect_status(&[200])
}

pub(in crate::conformance) async fn definitions_fit(site: &Site) -> Verdict {
    let required = match site.protocol() {
        Protocol::Oxp => json!(["id", "name", "description", "version"]),
        _ => json!(["id", "name", "description", "version", "input_schema", "output_schema"]),
    };
    let shape = json!({
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": {
            "id": { "type": "string" },
            "name": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" },
            "description": { "type": "string" },
            "version": { "type": "string" },
            "input_schema": { "type": "object" },
            "output_schema": { "type": ["object", "null"] },
            "requirements": {
                "type": "object",
                "properties": {
                    "authorization": { "type": "array", "items": { "type": "object" } },
                    "secrets": { "type": "array", "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": { "id": { "type": "string" } },
                    } },
                    "user_id": { "type": "boolean" },
                },
            },
        },
    });
    let (got, tools) = tools(site).await?;
    for tool in &tools {
        if let Some(what) = shape::violation(&shape, tool) {
            return fail("a ToolDefinition", format!("`{}`: {what}", id_of(tool)), &[&got]);
        }
        let schemas = [parameters(tool), tool.get("output_schema").unwrap_or(&Value::Null)];
        for schema in schemas.into_iter().filter(|schema| schema.is_object()) {
            let seen = format!("`{}` has one that is not", id_of(tool));
            got.expect(shape::compiles(schema), "valid JSON Schemas", seen)?;
        }
    }
    Ok(())
}

pub(in crate::conformance) async fn ids(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_id = |id: &str| {
        let (bare, version) = split(id);
        let parts = bare.split_once('.');
        parts.is_some_and(|(kit, tool)| is_word(kit) && is_word(tool))
            && version.is_some_and(is_version)
    };
    match tools.iter().map(id_of).find(|id| !is_id(id)) {
        None => Ok(()),
        Some(id) => fail("`Toolkit.Tool@x.y.z`", format!("`{id}`"), &[&got]),
    }
}

pub(in crate::conformance) async fn unique_ids(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    let mut seen = BTreeSet::new();
    match tools.iter().map(id_of).find(|id| !seen.insert(*id)) {
        None => Ok(()),
        Some(id) => fail("every id once", format!("`{id}` twice"), &[&got]),
    }
}

pub(in crate::conformance) async fn versions(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    for tool in &tools {
        let own = tool.get("version").and_then(Value::as_str).unwrap_or_default();
        let seen = format!("`{}` with `version` `{own}`", id_of(tool));
        let agrees = split(id_of(tool)).1.is_none_or(|version| version == own);
        got.expect(is_version(own) && agrees, "the `x.y.z` of the id", seen)?;
    }
    Ok(())
}

pub(in crate::conformance) async fn descriptions(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    let mut parameters_seen = 0;
    for tool in &tools {
        let Some(all) = parameters(tool).get("properties").and_then(Value::as_object) else {
            continue;
        };
        for (name, schema) in all {
            parameters_seen += 1;
            let says = schema.get("description").and_then(Value::as_str);
            let seen = format!("`{name}` of `{}` has none", id_of(tool));
            got.expect(says.is_some_and(|it| !it.trim().is_empty()), "a description", seen)?;
        }
    }
    match parameters_seen {
        0 => skip("no tool has parameters"),
        _ => Ok(()),
    }
}

pub(in crate::conformance) async fn no_refs(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    for tool in &tools {
        let schemas = ["input_schema", "output_schema"];
        if let Some(word) = schemas.iter().filter_map(|name| tool.get(*name)).find_map(reference) {
            let seen = format!("`{word}` in `{}`", id_of(tool));
            return fail("schemas without references", seen, &[&got]);
        }
    }
    Ok(())
}

/// For Open Tool Calling.
pub(in crate::conformance) async fn wrapped_parameters(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    for tool in &tools {
        let wraps = tool.pointer("/input_schema/parameters").is_some_and(Value::is_object);
        got.expect(wraps, "`input_schema.parameters`", format!("none in `{}`", id_of(tool)))?;
    }
    Ok(())
}

/// For OXP.
pub(in crate::conformance) async fn flat_parameters(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    for tool in &tools {
        let Some(schema) = tool.get("input_schema").and_then(Value::as_object) else { continue };
        let is_wrapper = schema.get("parameters").is_some_and(Value::is_object)
            && !schema.contains_key("type")
            && !schema.contains_key("properties");
        let seen = format!("it stands under `parameters` in `{}`", id_of(tool));
        got.expect(!is_wrapper, "`input_schema` is the schema itself", seen)?;
    }
    Ok(())
}

fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

/// A keyword for references anywhere in `schema`; names of properties are none.
fn reference(schema: &Value) -> Option<&'static str> {
    const WORDS: [&str; 4] = ["$ref", "$defs", "definitions", "$dynamicRef"];
    match schema {
        Value::Object(members) => {
            if let Some(word) = WORDS.into_iter().find(|word| members.contains_key(*word)) {
                return Some(word);
            }
            members.iter().find_map(|(name, inner)| match (name.as_str(), inner) {
                ("properties", Value::Object(named)) => named.values().find_map(reference),
                // What is data and not schema.
                ("const" | "enum" | "default" | "examples", _) => None,
                _ => reference(inner),
            })
        }
        Value::Array(items) => items.iter().find_map(reference),
        _ => None,
    }
}
