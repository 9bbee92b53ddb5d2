//! Validation of tools whose schema is unusual.

use serde_json::{Value, json};

use super::{Tool, fits, sole, some, validated};
use crate::conformance::{Site, Verdict, shape};

pub(super) async fn none(site: &Site) -> Verdict {
    let empty = |tool: &Tool| tool.schema().as_object().is_none_or(serde_json::Map::is_empty);
    let tool = some(site, empty).await?;
    for body in [json!({}), json!({ "a": [1] }), json!([1]), json!("a text"), json!(null)] {
        fits(&validated(site, &tool.name, &body).await?)?;
    }
    Ok(())
}

pub(super) async fn bad(site: &Site) -> Verdict {
    let tool = some(site, |tool| !shape::compiles(tool.schema())).await?;
    let got = validated(site, &tool.name, &json!({})).await?;
    got.expect_status(&[200])?;
    // Which schemas are none is up to the validator, but for these.
    let says_schema = got.value().pointer("/errors/0/keyword") == Some(&json!("schema"));
    match is_hopeless(tool.schema()) || says_schema {
        true => sole(&got, "schema", "Invalid schema:"),
        false => Ok(()),
    }
}

/// Whether no validator accepts `schema`.
fn is_hopeless(schema: &Value) -> bool {
    const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];
    schema.get("type").and_then(Value::as_str).is_some_and(|kind| !TYPES.contains(&kind))
}
