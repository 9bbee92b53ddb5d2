//! References by names: `$anchor`, `$id` and `$self`.

use super::*;

/// Returns the definitions of the body's schema, and the problems.
fn definitions(schemas: Value, body: Value) -> Result<Value, String> {
    let document = posting("3.1.0", "application/json", json!({ "schema": body }), schemas);
    let service = read(&document, &SourceLimits::default());
    match service.discovered.offers.first() {
        Some(tool) => Ok(tool.input_schema.as_ref().unwrap()["$defs"].clone()),
        None => Err(service.discovered.problems.join("\n")),
    }
}

fn to(reference: &str) -> Value {
    json!({ "$ref": reference })
}

#[test]
fn an_anchor_leads_to_its_schema() {
    let pet =
        json!({ "$anchor": "pet", "required": ["name"], "properties": { "next": to("#pet") } });
    let schemas = json!({ "Pet": pet, "List": { "items": to("#pet") } });
    for reference in ["#pet", "#p%65t"] {
        let found = definitions(schemas.clone(), to(reference)).unwrap();
        assert_eq!(
            found["Pet"],
            json!({ "required": ["name"], "properties": { "next": to("#/$defs/Pet") } })
        );
    }
    let found = definitions(schemas.clone(), to("#/components/schemas/List")).unwrap();
    assert_eq!(found["Pet"]["required"], json!(["name"]));
    // Names in data are none.
    let schemas = json!({ "Pet": { "example": { "$anchor": "pet" }, "const": { "$id": "a" } } });
    assert_eq!(
        definitions(schemas, to("#pet")).unwrap_err(),
        "POST /f is left out: the $ref `#pet` has no target"
    );
    let twice = json!({ "A": { "$anchor": "x" }, "B": { "$anchor": "x" } });
    assert_eq!(
        definitions(twice, to("#x")).unwrap_err(),
        "POST /f is left out: the $ref `#x` is ambiguous: several schemas have this name"
    );
}

#[test]
fn references_in_a_schema_with_an_id_are_relative_to_it() {
    let schemas = json!({
        "Order": {
            "$id": "https://a.example/order", "type": "object",
            "properties": {
                "line": to("#/$defs/line%20s"), "again": to("#"), "pet": to("pet"),
                "cat": to("pet#cat"), "lines": to("https://a.example/order#/$defs/line%20s"),
                // Not in this schema: many documents mean the root of the file.
                "root": to("#/components/schemas/Plain"), "near": to("#near"),
                "number": { "$id": "deep/number", "$defs": { "n": { "const": 1 } }, "allOf": [to("#/$defs/n")] },
            },
            "$defs": { "line s": { "const": "own" }, "near": { "$anchor": "near", "const": "near" } },
        },
        "Pet": { "$id": "https://a.example/pet", "$defs": { "c": { "$anchor": "cat", "const": "cat" } } },
        "Plain": { "const": "plain" },
        "$defs": { "line s": { "const": "not this one" } },
        "properties": { "properties": { "$id": { "const": "a property" } } },
    });
    let found = definitions(
        schemas,
        json!({ "allOf": [
        to("https://a.example/order"), to("#/components/schemas/properties"),
    ] }),
    )
    .unwrap();
    let target = |property: &str| {
        let reference = found["Order"]["properties"][property]["$ref"].as_str().unwrap();
        found[reference.strip_prefix("#/$defs/").unwrap()].clone()
    };
    for (property, expected) in
        [("line", "own"), ("lines", "own"), ("cat", "cat"), ("root", "plain"), ("near", "near")]
    {
        assert_eq!(target(property)["const"], expected, "{property}");
    }
    assert_eq!(target("again"), found["Order"]);
    assert!(target("pet")["$defs"]["c"].is_object());
    assert_eq!(found["Order"].get("$id"), None);
    let number = &found["Order"]["properties"]["number"]["allOf"][0]["$ref"];
    assert_eq!(found[number.as_str().unwrap().trim_start_matches("#/$defs/")]["const"], 1);
    assert_eq!(found["properties"]["properties"]["$id"]["const"], "a property");
}

#[test]
fn a_reference_to_an_unknown_name_leaves_the_operation_out() {
    let schemas = json!({ "Order": { "$id": "https://a.example/order", "items": to("gone") } });
    for (reference, problem) in [
        ("#gone", "the $ref `#gone` has no target"),
        ("https://a.example/order#gone", "is not read: the file has not been read"),
        ("urn:gone", "only files and http or https addresses are read"),
        ("https://a.example/order", "the $ref `gone` is not read: the file has not been read"),
        (
            "https://a.example/order#/$defs/Gone",
            "`#/components/schemas/Order/$defs/Gone` has no target",
        ),
    ] {
        let found = definitions(schemas.clone(), to(reference)).unwrap_err();
        assert!(found.contains(problem), "{reference}: {found}");
    }
}

#[test]
fn schemas_of_3_0_have_no_names() {
    let schemas = json!({ "A": { "$id": "a", "items": to("#/components/schemas/B") }, "B": {} });
    let media = json!({ "schema": to("#/components/schemas/A") });
    let document = posting("3.0.3", "application/json", media, schemas);
    assert_eq!(names(&document), ["f"]);
}

// I-27
#[test]
fn the_work_on_names_is_bounded() {
    let many: serde_json::Map<_, _> =
        (0..10_001).map(|n| (format!("s{n}"), json!({ "$anchor": format!("a{n}") }))).collect();
    let document = json!({ "openapi": "3.1.0", "components": { "schemas": many } });
    assert!(Document::of(document.to_string().as_bytes()).is_none());
    let long = "x".repeat(2_000);
    let document =
        json!({ "openapi": "3.1.0", "components": { "schemas": { long: { "$id": "a" } } } });
    assert!(Document::of(document.to_string().as_bytes()).is_none());
}
