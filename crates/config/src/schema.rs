//! The JSON Schema of the configuration file, for editors and other programs.
//!
//! It is derived from the types that read the file ([`types`]). This module adds the keys of each
//! kind of source, and values with more than one form.

use serde_json::{Map, Value, json};

use super::{secret, source, tokens::JwtAlgorithm, types};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const DESCRIPTION: &str = "The configuration file of toolcrib. `toolcrib config check` also finds \
                           problems beyond this schema, such as rules that match no tool.";

/// The JSON Schema (2020-12) of the configuration file.
///
/// It accepts every file that the program accepts. The program rejects more files, because some
/// rules concern several keys, files or variables.
#[must_use]
pub fn schema() -> Value {
    let mut schema = types();
    for (place, keywords) in more() {
        let place = schema.pointer_mut(place).and_then(Value::as_object_mut);
        let (Some(place), Value::Object(keywords)) = (place, keywords) else { continue };
        // A choice replaces the type.
        if keywords.contains_key("anyOf") {
            place.retain(|keyword, _| keyword == "description" || keyword == "default");
        }
        place.extend(keywords);
    }
    split_sources(&mut schema);
    for_each(&mut schema, &simplify);
    let mut whole = Map::new();
    whole.insert("$schema".to_owned(), json!(DIALECT));
    whole.insert("title".to_owned(), json!("toolcrib.toml"));
    whole.insert("description".to_owned(), json!(DESCRIPTION));
    if let Value::Object(schema) = schema {
        for (keyword, value) in schema {
            whole.entry(keyword).or_insert(value);
        }
    }
    Value::Object(whole)
}

/// Replaces the type of sources by one type for each form, with the keys of all sources and the
/// keys of the form.
fn split_sources(schema: &mut Value) {
    let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) else { return };
    let forms = definitions.shift_remove("Form").unwrap_or_default();
    let Some(Value::Object(common)) = definitions.shift_remove("Source") else { return };
    let mut references = Vec::new();
    let mut replaced = Vec::new();
    for (name, reference) in source::forms(&forms) {
        let own = reference.trim_start_matches("#/$defs/");
        let Some(Value::Object(own)) = definitions.get(own).cloned() else { continue };
        replaced.push(reference.trim_start_matches("#/$defs/").to_owned());
        let definition = name.replace(' ', "-");
        references.push(json!({ "$ref": format!("#/$defs/{definition}") }));
        definitions.insert(definition, Value::Object(source_of(&common, &own, name)));
    }
    for name in replaced {
        definitions.shift_remove(&name);
    }
    let description = common.get("description").cloned().unwrap_or_default();
    definitions
        .insert("Source".to_owned(), json!({ "description": description, "oneOf": references }));
}

/// The type of the sources of the form `name`, such as `mcp with url`.
fn source_of(
    common: &Map<String, Value>,
    own: &Map<String, Value>,
    name: &str,
) -> Map<String, Value> {
    let mut keys = members(common);
    keys.shift_remove(source::FORM);
    let mut kind = Map::from_iter([("const".to_owned(), json!(name.split(' ').next()))]);
    let described = keys.get("kind").and_then(|kind| kind.get("description"));
    kind.extend(described.map(|text| ("description".to_owned(), text.clone())));
    keys.insert("kind".to_owned(), Value::Object(kind));
    let required = |of: &Map<String, Value>| of.get("required").and_then(Value::as_array).cloned();
    let mut required: Vec<Value> =
        [common, own].into_iter().filter_map(required).flatten().collect();
    for (key, member) in members(own) {
        if member.get("x-default").is_some_and(|words| words == "required") {
            required.push(json!(key));
        }
        keys.insert(key, member);
    }
    let mut source = common.clone();
    source.insert("title".to_owned(), json!(format!("Source of kind {name}")));
    source.extend(own.get("description").map(|text| ("description".to_owned(), text.clone())));
    source.insert("properties".to_owned(), Value::Object(keys));
    source.insert("required".to_owned(), Value::Array(required));
    source
}

fn members(described: &Map<String, Value>) -> Map<String, Value> {
    described.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Keywords for values whose types accept more than the program. A missing place fails a test.
fn more() -> Vec<(&'static str, Value)> {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let text = json!({ "type": "string", "minLength": 1 });
    let secret = json!({ "anyOf": [secret::only("env", &text), secret::only("file", &text)] });
    let breaker = json!({ "anyOf": [{ "$ref": "#/$defs/BreakerConfig" }, { "const": "off" }] });
    let id = json!({ "maxLength": 32, "pattern": "^[a-z0-9]((_?-)*_?[a-z0-9])*$" });
    vec![
        ("/$defs/Source/properties/id", id),
        ("/$defs/Source/properties/breaker", breaker),
        (
            "/$defs/Authentication/properties/jwt",
            json!({ "anyOf": [
                { "$ref": "#/$defs/JwtConfig" },
                { "type": "array", "items": { "$ref": "#/$defs/JwtConfig" } },
            ] }),
        ),
        (
            "/$defs/HostCommand/properties/args/items",
            json!({ "anyOf": [{ "type": "string" }, texts] }),
        ),
        (
            "/$defs/Sandbox/properties/connect",
            json!({ "anyOf": [
                { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": 65535 } },
                { "const": "any" },
            ] }),
        ),
        (
            "/$defs/JwtConfig/properties/algorithms/items",
            json!({ "type": "string", "enum": JwtAlgorithm::ALL.map(JwtAlgorithm::as_str) }),
        ),
        ("/$defs/Program/properties/command", json!({ "minItems": 1 })),
        ("/$defs/Server/properties/url", json!({ "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://" })),
        ("/$defs/SignInConfig/properties/client_id", json!({ "minLength": 1 })),
        ("/$defs/SignInConfig/properties/name", json!({ "minLength": 1 })),
        ("/$defs/Metrics/properties/tools/anyOf/0", json!({ "maximum": 10_000 })),
        ("/$defs/Metrics/properties/tenants/anyOf/0", json!({ "maximum": 1_000 })),
        ("/$defs/JwtConfig/properties/audiences", json!({ "minItems": 1 })),
        ("/$defs/BreakerConfig/properties/failures", json!({ "minimum": 2, "maximum": 100 })),
        ("/$defs/ExplorerConfig/properties/prefix", json!({ "pattern": "^(/[A-Za-z0-9_-]+)+$" })),
        (
            "/$defs/Store/properties/url",
            json!({ "pattern": "^(sqlite:|postgres://|postgresql://)" }),
        ),
        ("/$defs/SharedJwt/properties/secret", secret.clone()),
        ("/$defs/Webhook/properties/secret", secret),
    ]
}

/// Applies `change` to `schema` and to every schema in it, the inner ones first.
fn for_each(schema: &mut Value, change: &impl Fn(&mut Map<String, Value>)) {
    let Value::Object(keywords) = schema else { return };
    for (keyword, value) in keywords.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties" | "$defs", Value::Object(members)) => {
                members.values_mut().for_each(|inner| for_each(inner, change));
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(inner)) => {
                inner.iter_mut().for_each(|inner| for_each(inner, change));
            }
            ("items" | "additionalProperties", inner) => for_each(inner, change),
            _ => {}
        }
    }
    change(keywords);
}

/// Removes `null`, which TOML does not have, and the parts that only the reference reads: defaults
/// of whole tables, defaults in words, and links.
fn simplify(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            schema.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(choice)] = choices.as_slice() {
            let choice = choice.clone();
            schema.shift_remove("anyOf");
            for (keyword, value) in choice {
                schema.entry(keyword).or_insert(value);
            }
        }
    }
    if schema.get("default").is_some_and(|value| value.is_null() || value.is_object()) {
        schema.shift_remove("default");
    }
    let words = schema.shift_remove("x-default");
    let words = words.as_ref().and_then(Value::as_str).filter(|words| *words != "required");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = without_links(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        if let Some(words) = words {
            text.push_str(&format!(" Default: {words}."));
        }
    }
}

/// Replaces each link of Markdown by its text.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let Some(((start, words), (_, end))) = before.rsplit_once('[').zip(after.split_once(')'))
        else {
            break;
        };
        out.push_str(start);
        out.push_str(words);
        rest = end;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_addition_has_its_place() {
        let types = types();
        for (place, _) in more() {
            assert!(types.pointer(place).is_some_and(Value::is_object), "{place}");
        }
    }

    /// Every table refuses unknown keys, every key has a description, and nothing is only for the
    /// reference.
    #[test]
    fn the_schema_is_complete() {
        let schema = schema();
        assert_eq!(schema["$schema"], DIALECT);
        jsonschema::meta::validate(&schema).unwrap();
        let mut tables = vec![("toolcrib.toml", &schema)];
        let definitions = schema["$defs"].as_object().unwrap();
        tables.extend(definitions.iter().map(|(name, table)| (name.as_str(), table)));
        let mut keys = 0;
        for (name, table) in tables {
            let Some(members) = table["properties"].as_object() else { continue };
            assert_eq!(table["additionalProperties"], false, "{name}");
            for (key, member) in members {
                let described = member.get("description").is_some();
                let table = member["$ref"].as_str().or(member["items"]["$ref"].as_str());
                let table = table.or(member["additionalProperties"]["$ref"].as_str());
                let table =
                    table.and_then(|reference| schema.pointer(reference.trim_start_matches('#')));
                let table = table.and_then(|definition| definition.get("description"));
                assert!(described || table.is_some(), "{name}: {key}: {member}");
                keys += 1;
            }
        }
        assert!(keys > 200, "{keys}");
        let text = schema.to_string();
        for word in ["\"null\"", "x-default", "](..", "\"Form\"", ".md"] {
            assert!(!text.contains(word), "{word}");
        }
        // Each reference leads somewhere.
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let place = reference.split('"').next().unwrap();
            assert!(schema.pointer(place).is_some(), "{place}");
        }
    }

    #[test]
    fn links_become_their_texts() {
        let text = "see [a b](c.md#d) and [e](f), [not a link] (x)";
        assert_eq!(without_links(text), "see a b and e, [not a link] (x)");
        assert_eq!(without_links("a](b"), "a](b");
    }
}
