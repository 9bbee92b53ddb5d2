use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn reduced(schema: Value) -> Result<Value, CompactError> {
    let Value::Object(schema) = schema else { panic!("a schema is an object") };
    reduce(&schema).map(Value::Object)
}

/// An independent list of the places of subschemas, for [`the_banned_words`].
fn visit(schema: &Value, found: &mut Vec<String>) {
    let Value::Object(members) = schema else { return };
    for (keyword, value) in members {
        if BANNED.contains(&keyword.as_str()) {
            found.push(keyword.clone());
        }
        match keyword.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                for schema in value.as_object().into_iter().flat_map(Map::values) {
                    visit(schema, found);
                }
            }
            "items" | "prefixItems" | "allOf" | "anyOf" | "oneOf" => match value {
                Value::Array(schemas) => schemas.iter().for_each(|schema| visit(schema, found)),
                schema => visit(schema, found),
            },
            "additionalProperties"
            | "additionalItems"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "contains"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contentSchema" => visit(value, found),
            _ => {}
        }
    }
}

fn the_banned_words(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit(schema, &mut found);
    found
}

#[test]
fn references_conjunctions_and_nulls_are_rewritten() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "title": "Arguments",
        "properties": {
            "where": { "$ref": "#/definitions/place" },
            "when": { "anyOf": [{ "type": "string" }, { "type": "null" }], "description": "a day" },
            "who": { "allOf": [
                { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] },
                { "properties": { "age": { "type": "integer", "minimum": 0 } }, "required": ["age"] },
            ] },
        },
        "required": ["where"],
        "definitions": { "place": { "type": "object", "properties": { "city": { "type": "string" } } } },
    });
    assert_eq!(
        reduced(schema).unwrap(),
        json!({
            "type": "object",
            "properties": {
                "where": { "type": "object", "properties": { "city": { "type": "string" } } },
                "when": { "description": "a day", "type": ["string", "null"] },
                "who": {
                    "type": "object",
                    "properties": {
                        "name": { "type": "string" },
                        "age": { "type": "integer", "minimum": 0 },
                    },
                    "required": ["name", "age"],
                },
            },
            "required": ["where"],
        })
    );
}

#[test]
fn no_arguments_are_an_empty_object() {
    for schema in [json!({}), json!({ "type": "object" }), json!({ "type": ["object", "null"] })] {
        assert_eq!(reduced(schema).unwrap(), json!({ "type": "object", "properties": {} }));
    }
}

#[test]
fn names_of_properties_are_not_keywords() {
    let schema = json!({ "type": "object", "properties": {
        "not": { "type": "string" }, "$ref": { "type": "string" }, "anyOf": { "type": "integer" },
    } });
    assert_eq!(reduced(schema.clone()).unwrap(), schema);
}

#[test]
fn schemas_that_cannot_be_expressed_exactly_are_left_out() {
    let keyword = |keyword: &str| CompactError::Keyword { keyword: keyword.to_owned() };
    let conflict = |keyword: &str| CompactError::Conflict { keyword: keyword.to_owned() };
    let member = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
    for (schema, why) in [
        (
            member(json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }] })),
            keyword("oneOf"),
        ),
        (member(json!({ "not": { "type": "string" } })), keyword("not")),
        (member(json!({ "anyOf": [{}, { "type": "null" }] })), keyword("anyOf")),
        (json!({ "patternProperties": { "^x": {} } }), keyword("patternProperties")),
        (json!({ "if": {}, "then": { "required": ["a"] } }), keyword("if")),
        (json!({ "unevaluatedProperties": false }), keyword("unevaluatedProperties")),
        (json!({ "$ref": "#" }), CompactError::Recursive),
        (
            json!({ "$ref": "#/$defs/a", "$defs": { "a": member(json!({ "$ref": "#/$defs/a" })) } }),
            CompactError::Recursive,
        ),
        (member(json!({ "$ref": "#/nowhere" })), CompactError::Unresolved),
        (member(json!({ "$ref": "https://example.com/x.json" })), CompactError::Unresolved),
        (json!({ "type": "array" }), CompactError::NotAnObject),
        (json!({ "$schema": "http://json-schema.org/draft-04/schema#" }), CompactError::Draft),
        (
            json!({ "allOf": [
                { "properties": { "a": {} }, "additionalProperties": false },
                { "properties": { "b": {} } },
            ] }),
            conflict("additionalProperties"),
        ),
        (
            member(json!({ "allOf": [{ "type": "string" }, { "type": "integer" }] })),
            conflict("type"),
        ),
        (
            member(json!({ "allOf": [{ "pattern": "^a" }, { "pattern": "b$" }] })),
            conflict("pattern"),
        ),
    ] {
        assert_eq!(reduced(schema.clone()), Err(why), "{schema}");
    }
}

#[test]
fn a_schema_that_grows_too_large_is_refused() {
    let mut definitions = Map::new();
    definitions.insert("l0".to_owned(), json!({ "type": "string" }));
    for level in 1..24 {
        let below = json!({ "$ref": format!("#/$defs/l{}", level - 1) });
        let properties = json!({ "a": below, "b": below });
        definitions.insert(format!("l{level}"), json!({ "properties": properties }));
    }
    let wide = json!({ "$ref": "#/$defs/l23", "$defs": definitions });
    assert_eq!(reduced(wide), Err(CompactError::TooLarge));

    let mut deep = json!({});
    for _ in 0..40 {
        deep = json!({ "properties": { "a": deep } });
    }
    assert_eq!(reduced(deep), Err(CompactError::TooLarge));

    let values: Vec<String> = (0..2_000).map(|n| format!("{n:0>40}")).collect();
    let many: Map<String, Value> =
        (0..50).map(|n| (format!("p{n}"), json!({ "$ref": "#/$defs/e" }))).collect();
    let heavy = json!({ "properties": many, "$defs": { "e": { "enum": values } } });
    assert_eq!(reduced(heavy), Err(CompactError::TooLarge));
}

#[test]
fn descriptions_are_cut_between_characters() {
    let tool = |description: String| ToolDescriptor {
        description: Some(description),
        ..ToolDescriptor::new("mcp:files.read", SourceKind::Mcp, SafetyTier::Read)
    };
    let cut = |text: &str| CompactToolDescriptor::of(&tool(text.to_owned())).description.unwrap();
    assert_eq!(cut("short"), "short");
    let words = cut(&"wörter und ".repeat(40));
    assert!(words.chars().count() <= MAX_DESCRIPTION && words.ends_with("und…"), "{words}");
    let one = cut(&"ö".repeat(500));
    assert_eq!(one.chars().count(), MAX_DESCRIPTION);
}

/// Schemas over the keywords that a reducer rewrites, and some that it must not touch.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({ "type": "string" })),
        Just(json!({ "type": "string", "minLength": 2, "title": "t" })),
        Just(json!({ "type": "integer", "minimum": 1 })),
        Just(json!({ "type": "number", "maximum": 3 })),
        Just(json!({ "type": ["integer", "null"] })),
        Just(json!({ "type": "null" })),
        Just(json!({ "enum": ["a", 1, null] })),
        Just(json!({ "type": "string", "enum": ["a", "bb"] })),
        Just(json!({ "const": "a", "type": "string" })),
        Just(json!({ "required": ["a"] })),
        Just(json!({ "minProperties": 1, "x-vendor": { "$ref": "no schema" } })),
        Just(json!(true)),
        Just(json!({})),
        Just(json!({ "$ref": "#/$defs/one" })),
        Just(json!({ "$ref": "#/$defs/two" })),
    ];
    leaf.prop_recursive(4, 40, 3, |inner| {
        let pair = prop::collection::vec(inner.clone(), 1..3);
        let members = prop::collection::btree_map("[abc]", inner.clone(), 0..3);
        prop_oneof![
            members.clone().prop_map(|members| json!({ "type": "object", "properties": members })),
            members.clone().prop_map(
                |members| json!({ "properties": members, "additionalProperties": false })
            ),
            (members, inner.clone()).prop_map(
                |(members, rest)| json!({ "properties": members, "additionalProperties": rest })
            ),
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
            (inner.clone(), pair.clone())
                .prop_map(|(items, first)| json!({ "prefixItems": first, "items": items })),
            inner.clone().prop_map(|one| json!({ "contains": one })),
            pair.clone().prop_map(|parts| json!({ "allOf": parts })),
            (pair.clone(), inner.clone()).prop_map(|(parts, extra)| {
                let mut schema = json!({ "allOf": parts });
                if let (Value::Object(schema), Value::Object(extra)) = (&mut schema, extra) {
                    for (keyword, value) in extra {
                        schema.entry(keyword).or_insert(value);
                    }
                }
                schema
            }),
            inner.clone().prop_map(|one| json!({ "anyOf": [one, { "type": "null" }] })),
            inner
                .clone()
                .prop_map(|one| json!({ "oneOf": [{ "type": "null" }, one], "description": "d" })),
            pair.prop_map(|parts| json!({ "anyOf": parts })),
            inner.prop_map(|one| json!({ "not": one })),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!("a")),
        Just(json!("bb")),
        Just(json!("")),
        Just(json!(0)),
        Just(json!(2)),
        Just(json!(2.5)),
        Just(json!(7)),
        Just(json!(true)),
    ];
    leaf.prop_recursive(3, 20, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abcd]", inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[abcd]", value(), 0..4).prop_map(|members| json!(members))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_reduced_schema_accepts_the_same_arguments_and_combines_nothing(
        whole in prop::collection::btree_map("[abc]", schema(), 0..3),
        extra in schema(),
        one in schema(),
        two in schema(),
        draft_seven in any::<bool>(),
        samples in prop::collection::vec(arguments(), 12),
    ) {
        let mut original = json!({ "type": "object", "properties": whole, "$defs": { "one": one, "two": two } });
        if let (Value::Object(original), Value::Object(extra)) = (&mut original, extra) {
            for (keyword, value) in extra {
                original.entry(keyword).or_insert(value);
            }
            if draft_seven {
                original.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
            }
        }
        let Ok(compact) = reduced(original.clone()) else { return Ok(()) };
        prop_assert_eq!(the_banned_words(&compact), Vec::<String>::new());
        prop_assert_eq!(&compact["type"], "object");
        prop_assert!(compact["properties"].is_object());
        let (Ok(before), after) =
            (jsonschema::validator_for(&original), jsonschema::validator_for(&compact))
        else { return Ok(()) };
        let after = after.map_err(|error| TestCaseError::fail(format!("{compact}: {error}")))?;
        for sample in samples {
            prop_assert_eq!(
                before.is_valid(&sample), after.is_valid(&sample),
                "{} by {} and {}", sample, original, compact
            );
        }
    }
}
