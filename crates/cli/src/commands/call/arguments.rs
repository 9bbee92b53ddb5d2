//! The arguments of a call on the command line: a JSON document, `KEY=VALUE` pairs, or both.

use serde_json::{Map, Value};
use toolcrib_core::{json, number};

use crate::{args::CallArgs, commands::input, failure::usage};

const EXPECTED: &str = "the arguments must be a JSON object such as '{\"path\": \"a.md\"}', or pairs such as path=a.md";

/// The parsed arguments. The values of pairs get their types from the tool's schema.
pub(super) struct ParsedArguments {
    document: Map<String, Value>,
    pairs: Vec<(String, String)>,
}

impl ParsedArguments {
    pub(super) fn parse(args: &CallArgs) -> anyhow::Result<Self> {
        let mut typed = Self { document: Map::new(), pairs: Vec::new() };
        for (at, text) in args.arguments.iter().enumerate() {
            let is_document = text == "-" || text.starts_with(['{', '@', '[', '"']);
            match text.split_once('=').filter(|_| !is_document) {
                Some((key, value)) if !key.is_empty() => {
                    typed.pairs.push((key.to_owned(), text_of(value)?));
                }
                _ if at == 0 => match input::document(text)? {
                    Value::Object(document) => typed.document = document,
                    _ => return Err(usage(EXPECTED)),
                },
                _ => return Err(usage(EXPECTED)),
            }
        }
        for pair in &args.pairs {
            match pair.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    typed.pairs.push((key.to_owned(), text_of(value)?));
                }
                _ => return Err(usage("--arg must be KEY=VALUE, such as --arg path=a.md")),
            }
        }
        Ok(typed)
    }

    /// Converts the arguments for a tool with this input schema.
    ///
    /// Fails if a value does not fit its type, or an argument is repeated.
    pub(super) fn for_schema(self, schema: Option<&Value>) -> anyhow::Result<Value> {
        let mut arguments = self.document;
        for (key, text) in self.pairs {
            let described = schema.and_then(|schema| schema.get("properties")?.get(&key));
            let value = value(&key, text, described)?;
            if arguments.insert(key.clone(), value).is_some() {
                return Err(usage(format!("the argument `{key}` is given twice")));
            }
        }
        Ok(Value::Object(arguments))
    }
}

/// Reads the text of a value: `@FILE`, `@-`, `@@…`, or the value itself.
fn text_of(value: &str) -> anyhow::Result<String> {
    match value.strip_prefix('@') {
        None => Ok(value.to_owned()),
        Some(rest) if rest.starts_with('@') => Ok(rest.to_owned()),
        Some(path) => {
            let bytes = input::file(path)?;
            String::from_utf8(bytes).map_err(|_| usage(format!("the text of {path} is not UTF-8")))
        }
    }
}

/// Converts `text` to a value of the type in `schema`.
fn value(key: &str, text: String, schema: Option<&Value>) -> anyhow::Result<Value> {
    let types = types(schema);
    let is = |name: &str| types.contains(&name);
    if is("string") {
        return Ok(Value::String(text));
    }
    let parsed = json::parse_strict(text.as_bytes()).ok();
    if types.is_empty() {
        // The type is unknown, so text that is valid JSON becomes that JSON value.
        return Ok(parsed.unwrap_or(Value::String(text)));
    }
    let fits = parsed.filter(|value| match value {
        Value::Null => is("null"),
        Value::Bool(_) => is("boolean"),
        Value::Number(number) => is("number") || (is("integer") && number::is_integer(number)),
        Value::Array(_) => is("array"),
        Value::Object(_) => is("object"),
        Value::String(_) => false,
    });
    let article = |name: &&str| match *name {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a JSON list such as '[1, 2]'",
        "object" => "a JSON object such as '{\"a\": 1}'",
        _ => "null",
    };
    fits.ok_or_else(|| {
        let expected = types.iter().map(article).collect::<Vec<_>>().join(" or ");
        usage(format!("the argument `{key}` must be {expected}"))
    })
}

/// The types in `schema`; empty if it has no type.
fn types(schema: Option<&Value>) -> Vec<&str> {
    match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed(arguments: &[&str], pairs: &[&str]) -> anyhow::Result<Value> {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let args =
            CallArgs { tool: "t".to_owned(), arguments: owned(arguments), pairs: owned(pairs) };
        let schema = json!({ "properties": {
            "text": { "type": "string" }, "count": { "type": "integer" },
            "ratio": { "type": "number" }, "deep": { "type": "boolean" },
            "list": { "type": ["array", "null"] }, "any": {},
        } });
        ParsedArguments::parse(&args)?.for_schema(Some(&schema))
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        let arguments =
            ["text=5", "count=5", "ratio=0.5", "deep=true", "list=[1]", "any=7", "other=a=b"];
        assert_eq!(
            typed(&arguments, &["more={\"a\":1}"]).unwrap(),
            json!({
                "text": "5", "count": 5, "ratio": 0.5, "deep": true, "list": [1], "any": 7,
                "other": "a=b", "more": { "a": 1 },
            })
        );
        assert_eq!(
            typed(&["list=null", "text="], &[]).unwrap(),
            json!({ "list": null, "text": "" })
        );
        assert_eq!(
            typed(&["{\"text\":\"x=y\"}", "count=1"], &[]).unwrap(),
            json!({ "text": "x=y", "count": 1 })
        );
        assert_eq!(typed(&["text=@@home"], &[]).unwrap(), json!({ "text": "@home" }));
        assert_eq!(typed(&[], &[]).unwrap(), json!({}));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        for (arguments, expected) in [
            (&["count=1.5"][..], "`count` must be a whole number"),
            (&["deep=yes"], "`deep` must be true or false"),
            (&["list={}"], "`list` must be a JSON list"),
            (&["text=a", "text=b"], "`text` is given twice"),
            (&["5"], "must be a JSON object"),
            (&["text=a", "{}"], "must be a JSON object"),
        ] {
            let error = typed(arguments, &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{arguments:?}: {error}");
        }
        assert!(typed(&[], &["nothing"]).is_err());
    }
}
