use super::*;
use serde_json::json;

fn check(schema: &Value, value: &Value) -> Vec<(String, String, String)> {
    let check = ArgumentCheck::compile(Some(schema)).unwrap();
    let found = check.check(value).err().unwrap_or_default();
    found.into_iter().map(|v| (v.pointer, v.keyword, v.message)).collect()
}

fn pointers(schema: &Value, value: &Value) -> Vec<String> {
    check(schema, value).into_iter().map(|(pointer, ..)| pointer).collect()
}

fn refusal(schema: &Value) -> String {
    ArgumentCheck::compile(Some(schema)).unwrap_err().to_string()
}

#[test]
fn every_violation_has_its_pointer_in_the_order_of_the_arguments() {
    let schema = json!({
        "type": "object",
        "required": ["city", "a/b", "days"],
        "properties": {
            "city": { "type": "string" },
            "days": { "type": "integer", "maximum": 7 },
            "tags": { "type": "array", "items": { "enum": ["x", "y"] } },
            "place": { "type": "object", "required": ["~"], "additionalProperties": false },
        },
        "additionalProperties": false,
    });
    let value = json!({ "tags": ["x", "q", 3], "days": 9, "place": {"m/n": 1, "o": 2}, "zip": 1 });
    let found = check(&schema, &value);
    let expected = [
        ("/tags/1", "enum", "the value is not one of \"x\" or \"y\""),
        ("/tags/2", "enum", "the value is not one of \"x\" or \"y\""),
        ("/days", "maximum", "the value is greater than the maximum of 7"),
        ("/place/m~1n", "additionalProperties", "the property is not allowed"),
        ("/place/o", "additionalProperties", "the property is not allowed"),
        ("/place/~0", "required", "\"~\" is a required property"),
        ("/zip", "additionalProperties", "the property is not allowed"),
        ("/city", "required", "\"city\" is a required property"),
        ("/a~1b", "required", "\"a/b\" is a required property"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(p, k, m)| ((*p).to_owned(), (*k).to_owned(), (*m).to_owned()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn messages_never_contain_the_values_and_the_verbatim_text_may() {
    let canary = "canary-value";
    let schemas = [
        json!({ "type": "integer" }),
        json!({ "type": ["integer", "null"] }),
        json!({ "const": 1 }),
        json!({ "enum": [1, 2] }),
        json!({ "pattern": "^a+$" }),
        json!({ "maxLength": 3 }),
        json!({ "minLength": 300 }),
        json!({ "not": { "type": "string" } }),
        json!({ "anyOf": [{ "type": "integer" }, { "type": "array" }] }),
        json!({ "oneOf": [{ "type": "integer" }, { "type": "array" }] }),
        json!({ "oneOf": [{ "type": "string" }, { "minLength": 1 }] }),
        json!({ "allOf": [{ "type": "null" }] }),
        json!({ "if": true, "then": { "type": "null" } }),
        json!(false),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "contentEncoding": "base64" }),
    ];
    let mut quoted = false;
    for schema in &schemas {
        let found =
            ArgumentCheck::compile(Some(schema)).unwrap().check(&json!(canary)).unwrap_err();
        assert_eq!(found.len(), 1, "{schema}");
        for violation in &found {
            assert!(!violation.message.contains(canary), "{schema}: {}", violation.message);
            quoted |= violation.verbatim.contains(canary);
        }
        let json = serde_json::to_string(&found).unwrap();
        assert!(!json.contains(canary), "the verbatim text is not serialised: {json}");
    }
    assert!(quoted, "the validator's own words do quote");
    let about_containers = [
        (json!({ "uniqueItems": true }), json!([canary, canary])),
        (json!({ "contains": { "type": "null" } }), json!([canary])),
        (json!({ "maxItems": 0 }), json!([canary])),
        (json!({ "prefixItems": [true], "items": false }), json!([1, canary])),
        (json!({ "prefixItems": [true], "unevaluatedItems": false }), json!([1, canary])),
        (json!({ "propertyNames": { "maxLength": 3 } }), json!({ canary: 1 })),
        (json!({ "additionalProperties": false }), json!({ canary: canary })),
        (json!({ "unevaluatedProperties": false }), json!({ canary: canary })),
        (json!({ "minProperties": 3 }), json!({ "a": canary })),
        (json!({ "dependentRequired": { "a": ["b"] } }), json!({ "a": canary })),
    ];
    for (schema, value) in &about_containers {
        for (_, _, message) in check(schema, value) {
            assert!(!message.contains(canary), "{schema}: {message}");
        }
    }
}

#[test]
fn the_name_of_a_property_is_pointed_to() {
    assert_eq!(
        pointers(&json!({ "propertyNames": { "maxLength": 1 } }), &json!({ "a": 1, "b/b": 2 })),
        ["/b~1b"]
    );
    assert_eq!(
        pointers(
            &json!({ "properties": { "a": true }, "unevaluatedProperties": false }),
            &json!({ "a": 1, "b": 2, "c": 3 })
        ),
        ["/b", "/c"]
    );
    assert_eq!(
        pointers(&json!({ "dependentRequired": { "a": ["b"] } }), &json!({ "a": 1 })),
        ["/b"]
    );
}

#[test]
fn schemas_that_say_nothing_accept_everything() {
    let everything = [json!(null), json!(1), json!([]), json!({ "a": 1 })];
    for value in &everything {
        assert_eq!(ArgumentCheck::compile(None).unwrap().check(value), Ok(()));
        for schema in [json!(true), json!({}), json!({ "description": "x", "$schema": "unknown" })]
        {
            assert_eq!(ArgumentCheck::compile(Some(&schema)).unwrap().check(value), Ok(()));
        }
        for schema in [
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": {}, "required": [] }),
        ] {
            let verdict = ArgumentCheck::compile(Some(&schema)).unwrap().check(value);
            assert_eq!(verdict.is_ok(), value.is_object(), "{schema} {value}");
        }
        assert_eq!(pointers(&json!(false), value), [""]);
    }
    assert_eq!(
        pointers(&json!({ "type": "object", "additionalProperties": false }), &json!({ "a": 1 })),
        ["/a"]
    );
}

#[test]
fn the_declared_dialect_is_honoured() {
    let tuple = |dialect: Option<&str>| {
        let mut schema = json!({ "items": [{ "type": "string" }], "additionalItems": false });
        if let Some(dialect) = dialect {
            schema["$schema"] = dialect.into();
        }
        schema
    };
    for dialect in
        ["http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema"]
    {
        assert_eq!(pointers(&tuple(Some(dialect)), &json!([1, 2])).len(), 2);
        assert_eq!(pointers(&tuple(Some(dialect)), &json!(["a"])).len(), 0);
    }
    // 2020-12, which is also the default, has no list under `items`.
    assert!(refusal(&tuple(None)).contains("/items"));
    assert!(
        refusal(&tuple(Some("https://json-schema.org/draft/2020-12/schema"))).contains("/items")
    );
    assert!(
        ArgumentCheck::compile(Some(
            &json!({ "$schema": "https://example.com/mine", "minimum": 1 })
        ))
        .is_err()
    );
}

#[test]
fn formats_are_annotations_in_every_dialect() {
    for dialect in
        ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
    {
        let schema = json!({ "$schema": dialect, "properties": { "u": { "format": "uri" } } });
        assert!(pointers(&schema, &json!({ "u": "not a uri" })).is_empty());
    }
}

#[test]
fn references_stay_inside_the_schema() {
    let tree = json!({
        "$id": "https://example.com/tree",
        "$ref": "#/$defs/node",
        "$defs": {
            "node": { "properties": { "left": { "$ref": "https://example.com/tree#/$defs/node" }, "n": { "$ref": "#num" } } },
            "n<1>": { "$anchor": "num", "type": "integer" },
        },
    });
    assert_eq!(
        pointers(&tree, &json!({ "left": { "left": { "n": "x" } }, "n": 1 })),
        ["/left/left/n"]
    );
    let encoded = json!({ "$ref": "#/$defs/a%3Cb%3E", "$defs": { "a<b>": { "type": "integer" } } });
    assert_eq!(pointers(&encoded, &json!("x")), [""]);
    for reference in [
        "https://example.com/schema.json",
        "http://127.0.0.1:1/x",
        "file:///etc/passwd",
        "other.json#/a",
        "#/$defs/none",
        "#none",
        "#/%zz",
        "//host/x",
    ] {
        for schema in [
            json!({ "properties": { "a": { "$ref": reference } } }),
            json!({ "anyOf": [{ "$dynamicRef": reference }] }),
        ] {
            assert!(ArgumentCheck::compile(Some(&schema)).is_err(), "{schema}");
        }
    }
    assert!(
        ArgumentCheck::compile(Some(
            &json!({ "$schema": "http://127.0.0.1:1/meta", "minimum": 1 })
        ))
        .is_err()
    );
}

#[test]
fn an_invalid_schema_is_refused_with_its_place_and_without_its_values() {
    assert!(
        refusal(&json!({ "properties": { "a": { "type": "canary" } } }))
            .contains("/properties/a/type")
    );
    assert!(
        !refusal(&json!({ "properties": { "a": { "minLength": "canary" } } })).contains("canary")
    );
    assert!(refusal(&json!("canary")).len() < 500);
    assert!(refusal(&json!({ "enum": "x".repeat(10_000) })).len() < 500);
}

/// Look-around and back-references need a backtracking engine, and a large pattern needs memory.
#[test]
fn what_such_a_pattern_constrains_is_checked_for_the_rest() {
    const MAIL: &str = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+.-]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9-]*\.)+[A-Za-z]{2,}$";
    for pattern in
        [MAIL, "^(?=a)(a+)+$", r"(.)\1", "(?<!a)b", "(", "(?:(?:(?:a{100}){100}){100}){100}"]
    {
        let text = json!({ "type": "string", "pattern": pattern, "maxLength": 5 });
        let schema = json!({ "type": "object", "properties": { "to": text } });
        let (check, unchecked) = kept_with_notes(&schema, &Arc::default()).unwrap();
        assert_eq!(unchecked, [pattern]);
        check.check(&json!({ "to": "a@b.c" })).unwrap();
        assert_eq!(check.check(&json!({ "to": "too long" })).unwrap_err()[0].keyword, "maxLength");
    }
}

/// A schema without a pattern accepts every value that it accepted with it.
#[test]
fn nothing_is_refused_because_a_pattern_is_not_checked() {
    let pattern = "^(?=x)";
    let at = json!({ "pattern": pattern });
    for (schema, value) in [
        (json!({ "not": at }), json!("y")),
        (json!({ "not": { "$ref": "#/$defs/a" }, "$defs": { "a": at } }), json!("y")),
        (json!({ "if": at, "then": { "maxLength": 1 }, "else": { "minLength": 2 } }), json!("yy")),
        (json!({ "oneOf": [at, { "minLength": 1 }] }), json!("y")),
        (json!({ "allOf": [{}], "oneOf": [at, { "minLength": 1 }] }), json!("y")),
        (json!({ "contains": at, "maxContains": 1 }), json!(["x", "y"])),
        (
            json!({ "patternProperties": { pattern: {} }, "additionalProperties": false }),
            json!({ "xy": 1 }),
        ),
        (
            json!({
                "allOf": [{ "patternProperties": { pattern: {} } }],
                "unevaluatedProperties": false
            }),
            json!({ "xy": 1 }),
        ),
        (json!({ "propertyNames": at }), json!({ "x": 1 })),
        (json!({ "properties": { "pattern": at } }), json!({ "pattern": "x" })),
        (json!({ "allOf": [at], "const": { "pattern": pattern } }), json!({ "pattern": pattern })),
    ] {
        let (check, unchecked) = kept_with_notes(&schema, &Arc::default()).unwrap();
        assert_eq!(unchecked, [pattern], "{schema}");
        check.check(&value).unwrap_or_else(|refused| panic!("{schema}: {refused:?}"));
    }
    let schema = json!({ "allOf": [at], "const": { "pattern": pattern } });
    let check = ArgumentCheck::compile(Some(&schema)).unwrap();
    check.check(&json!({})).unwrap_err();
}

/// Definitions that each refer twice to the next.
fn doubling(keyword: &str, length: usize) -> Value {
    let mut definitions = serde_json::Map::new();
    for i in 0..length {
        let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
        definitions.insert(format!("d{i}"), json!({ keyword: [next, next] }));
    }
    definitions.insert(format!("d{length}"), json!({ "type": "integer" }));
    json!({ "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": definitions })
}

// I-27
#[test]
fn unevaluated_members_among_many_alternatives_cost_no_seconds() {
    let branches: Vec<_> =
        (0..10_000).map(|i| json!({ "properties": { format!("p{i}"): {} } })).collect();
    let schema = json!({ "anyOf": branches, "unevaluatedProperties": false });
    let members =
        |count: usize| Value::Object((0..count).map(|i| (format!("q{i}"), json!(1))).collect());
    let refused = pointers(&schema, &members(1_000));
    assert_eq!(refused, [""], "as a whole, before anything is evaluated");
    let few = json!({ "anyOf": [{ "properties": { "q0": {} } }], "unevaluatedProperties": false });
    assert!(pointers(&few, &members(1)).is_empty());
    assert!(!pointers(&few, &members(1_000)).is_empty());
}

// I-27
#[test]
fn hostile_schemas_are_refused_before_they_cost_anything() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        refusal(&doubling(keyword, 20));
        assert_eq!(
            pointers(&doubling(keyword, 4), &json!({ "a": "x" })).first().map(String::as_str),
            Some("/a")
        );
    }
    let mut nested = json!({ "unevaluatedProperties": false });
    for _ in 0..30 {
        nested = json!({ "unevaluatedProperties": false, "allOf": [nested] });
    }
    refusal(&nested);
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({ "properties": { "a": deep } });
    }
    assert!(refusal(&deep).contains("nested"));
    let chain: serde_json::Map<_, _> = (0..5_000)
        .map(|i| (format!("d{i}"), json!({ "$ref": format!("#/$defs/d{}", (i + 1) % 5_000) })))
        .collect();
    assert!(refusal(&json!({ "$ref": "#/$defs/d0", "$defs": chain })).contains("chain"));
    assert!(refusal(&json!({ "enum": (0..60_000).collect::<Vec<_>>() })).contains("50000"));
    let patterns: Vec<_> = (0..100).map(|i| json!({ "pattern": format!("a{i}") })).collect();
    assert!(refusal(&json!({ "anyOf": patterns })).contains("patterns"));
    refusal(&json!({ "$defs": { "a": { "$id": "x:y" }, "b": { "$id": "x:y" } }, "$ref": "x:y" }));
}

#[test]
fn a_pattern_takes_linear_time() {
    let schema = json!({ "pattern": "^(a+)+$" });
    assert_eq!(pointers(&schema, &json!("a".repeat(100_000) + "!")), [""]);
}

/// Returns a value nested `depth` times under `children`.
fn nested(depth: usize, leaf: Value) -> Value {
    (0..depth).fold(leaf, |inner, _| json!({ "children": [inner] }))
}

// I-27
#[test]
fn recursive_schemas_are_bounded_for_each_value() {
    let tree =
        json!({ "type": "object", "properties": { "children": { "items": { "$ref": "#" } } } });
    assert!(pointers(&tree, &nested(50, json!({}))).is_empty());
    assert_eq!(pointers(&tree, &nested(3, json!(1))), ["/children/0/children/0/children/0"]);

    // Two branches reach the same children: the explanation, not the verdict, doubles at each
    // level.
    let branch =
        json!({ "type": "object", "properties": { "children": { "items": { "$ref": "#" } } } });
    let twice = json!({ "anyOf": [branch, branch, { "type": "integer" }] });
    assert!(pointers(&twice, &nested(50, json!(1))).is_empty());
    assert_eq!(
        check(&twice, &nested(50, json!("x"))).first().map(|v| v.1.as_str()),
        Some("schema")
    );
    assert_eq!(check(&twice, &nested(2, json!("x"))).first().map(|v| v.1.as_str()), Some("anyOf"));

    // A long chain at each of many levels would need more stack than exists.
    let mut definitions: serde_json::Map<_, _> = (0..40)
        .map(|i| (format!("d{i}"), json!({ "allOf": [{ "$ref": format!("#/$defs/d{}", i + 1) }] })))
        .take(20)
        .collect();
    definitions.insert(
        "d20".to_owned(),
        json!({ "properties": { "children": { "items": { "$ref": "#/$defs/d0" } } } }),
    );
    let chain = json!({ "$ref": "#/$defs/d0", "$defs": definitions });
    assert!(pointers(&chain, &nested(3, json!({}))).is_empty());
    assert_eq!(
        check(&chain, &nested(60, json!({}))).first().map(|v| v.1.as_str()),
        Some("maxDepth")
    );
}

// I-27
#[test]
fn the_worst_that_is_accepted_fits_the_stack_of_a_worker() {
    let worst = || {
        let mut deep = json!({ "type": "integer" });
        for level in 0..28 {
            deep = if level % 2 == 0 {
                json!({ "allOf": [deep] })
            } else {
                json!({ "properties": { "a": deep } })
            };
        }
        ArgumentCheck::compile(Some(&deep)).unwrap();
        let mut definitions = serde_json::Map::new();
        for i in 0..20 {
            definitions.insert(
                format!("d{i}"),
                json!({ "anyOf": [{ "$ref": format!("#/$defs/d{}", i + 1) }] }),
            );
        }
        definitions.insert(
            "d20".to_owned(),
            json!({ "additionalProperties": { "$ref": "#/$defs/d0" }, "type": "object" }),
        );
        let check =
            ArgumentCheck::compile(Some(&json!({ "$ref": "#/$defs/d0", "$defs": definitions })))
                .unwrap();
        let mut value = json!(1);
        let mut accepted = 0;
        for depth in 0..120 {
            let found = check.check(&value).unwrap_err();
            if found.first().is_some_and(|v| v.keyword != "maxDepth") {
                accepted = depth;
            }
            value = json!({ "a": value });
        }
        assert!(accepted > 10, "{accepted}");
        // A single link at the greatest depth that JSON is read at.
        let plain = ArgumentCheck::compile(Some(
            &json!({ "additionalProperties": { "$ref": "#" }, "type": "object" }),
        ))
        .unwrap();
        assert_eq!(plain.check(&value).unwrap_err().len(), 1);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(worst).unwrap().join().unwrap();
}

// I-27
#[test]
fn reports_are_bounded() {
    let numbers = |n: usize| json!((0..n).collect::<Vec<_>>());
    let strings = json!({ "items": { "type": "string" } });
    assert_eq!(pointers(&strings, &numbers(3)), ["/0", "/1", "/2"]);
    assert_eq!(pointers(&strings, &numbers(100)).len(), 100, "all of them, and that is all");
    let cut = check(&strings, &numbers(5_000));
    assert_eq!(cut.len(), 101);
    let more = "there are more than these 100 violations";
    assert_eq!(cut[100], (String::new(), String::new(), more.to_owned()));
    let object: Value =
        (0..5_000).map(|i| (i.to_string(), Value::Null)).collect::<serde_json::Map<_, _>>().into();
    let cut = check(&json!({ "additionalProperties": false }), &object);
    assert_eq!((cut.len(), cut[100].2.as_str()), (101, more));
    let heavy = json!({ "items": { "allOf": vec![json!({ "type": "string" }); 50] } });
    let first = check(&heavy, &numbers(100_000));
    assert_eq!((first.len(), first[0].0.as_str()), (2, "/0"));
    assert!(first[1].2.starts_with("there may be more"), "{first:?}");
    let found = ArgumentCheck::compile(Some(&json!({ "maxLength": 1 })))
        .unwrap()
        .check(&json!("ä".repeat(100_000)))
        .unwrap_err();
    assert!(found.iter().all(|v| v.verbatim.len() < 500 && v.verbatim.ends_with('…')));
}

// I-27
#[test]
fn pointers_are_cut_where_a_caller_makes_them_long() {
    let long = |first: char| format!("{first}{}", "ä".repeat(100_000));
    let value = json!({ long('z'): 1, "between": { long('b'): 2, "c": 3 }, long('a'): 4 });
    let closed = json!({
        "properties": { "between": { "additionalProperties": false } },
        "additionalProperties": false,
    });
    let found = pointers(&closed, &value);
    let starts: Vec<String> =
        found.iter().map(|pointer| pointer.chars().take(11).collect()).collect();
    assert_eq!(
        starts,
        ["/zäääääääää", "/between/bä", "/between/c", "/aäääääääää"],
        "in the order of the arguments all the same"
    );
    for pointer in found.iter().filter(|pointer| pointer.contains('ä')) {
        assert_eq!(pointer.chars().count(), 257);
        assert!(pointer.ends_with('…'));
    }
    let exact = format!("/{}", "x".repeat(255));
    assert_eq!(Violation::new(&exact, "", "").pointer, exact);
    let escaped = format!("/{}~1", "x".repeat(254));
    let cut = format!("/{}…", "x".repeat(254));
    assert_eq!(Violation::new(&escaped, "", "").pointer, cut);
}

fn kept_with_notes(
    schema: &Value,
    validators: &Arc<Validators>,
) -> Result<(ArgumentCheck, Vec<String>), SchemaError> {
    ArgumentCheck::compile_on_use(schema, &Schema::try_from(schema).unwrap(), validators)
}

fn kept(schema: &Value, validators: &Arc<Validators>) -> Result<ArgumentCheck, SchemaError> {
    kept_with_notes(schema, validators).map(|(check, _)| check)
}

#[test]
fn a_schema_is_compiled_on_its_first_use_and_kept_up_to_a_number_of_bytes() {
    let validators = Arc::new(Validators::new(64 << 10));
    let schema =
        |number: usize| json!({ "type": "object", "properties": { "a": { "maximum": number } } });
    let checks: Vec<_> = (0..100).map(|i| kept(&schema(i), &validators).unwrap()).collect();
    assert!(validators.is_empty(), "checked, and compiled by no use");
    for (i, check) in checks.iter().enumerate() {
        assert_eq!(check.check(&json!({ "a": i })), Ok(()));
        let found = check.check(&json!({ "a": i + 1 })).unwrap_err();
        let eager = ArgumentCheck::compile(Some(&schema(i))).unwrap();
        assert_eq!(found, eager.check(&json!({ "a": i + 1 })).unwrap_err());
    }
    assert!((1..32).contains(&validators.len()), "{}", validators.len());
    drop(checks);
    assert!(validators.is_empty(), "the tools are gone");
}

#[test]
fn a_schema_larger_than_the_room_for_compiled_schemas_is_compiled_once() {
    let validators = Arc::new(Validators::new(64 << 10));
    let properties: serde_json::Map<_, _> =
        (0..1_000).map(|i| (format!("p{i}"), json!({ "type": "string" }))).collect();
    let schema = json!({ "type": "object", "properties": properties });
    let check = kept(&schema, &validators).unwrap();
    assert!(!check.is_prepared());
    check.prepare();
    assert!(check.is_prepared());
    assert!(check.check(&json!({ "p999": 1 })).is_err());
    assert_eq!(validators.len(), 1);
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_before_its_first_use() {
    let validators = Arc::default();
    for schema in
        [json!({ "type": "no-such-type" }), json!({ "$ref": "https://example.com/schema" })]
    {
        let refused = kept(&schema, &validators).unwrap_err();
        assert_eq!(refused, ArgumentCheck::compile(Some(&schema)).unwrap_err(), "{schema}");
    }
}

#[test]
fn examples_name_no_subschemas() {
    let data = json!({ "type": "string", "example": { "$id": "1", "$anchor": "a" },
        "enum": [{ "$anchor": "k" }, { "$anchor": "k", "b": 1 }], "default": { "$id": "1" } });
    let schema =
        json!({ "properties": { "x": data, "y": data, "example": { "type": "integer" } } });
    let check = ArgumentCheck::compile(Some(&schema)).unwrap();
    assert!(check.check(&json!({ "example": "no" })).is_err(), "a property may have this name");
    let twice = json!({ "properties": { "x": { "$id": "1" }, "enum": { "$id": "1" } } });
    assert!(ArgumentCheck::compile(Some(&twice)).is_err());
}
