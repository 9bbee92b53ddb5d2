//! Media types of bodies, parts and files.

use super::*;

const PART: &str = "--B\nContent-Disposition: form-data; name=";

fn multipart(version: &str, properties: Value, encoding: Value) -> Value {
    let media = json!({ "schema": { "properties": properties }, "encoding": encoding });
    posting(version, "multipart/form-data", media, json!({}))
}

/// Returns the parts of the body with `fields`.
fn parts(document: &Value, fields: Value) -> Result<String, String> {
    let text = sent(document, "f", json!({ "body": fields }))?;
    let (_, parts) = text.split_once("boundary=B\n").unwrap();
    Ok(parts.trim_end_matches("--B--\n").to_owned())
}

#[test]
fn a_string_in_json_has_its_quotes_unless_it_is_the_content() {
    let json = json!({ "contentType": "application/json" });
    for version in ["3.0.4", "3.1.1", "3.2.0"] {
        let document = multipart(
            version,
            json!({ "a": { "type": "string" }, "b": {}, "c": { "type": "array", "items": {} } }),
            json!({ "a": json, "b": { "contentType": "application/vnd.x+json; charset=utf-8" },
                "c": { "contentType": "application/*" }, "free": json }),
        );
        let fields =
            json!({ "a": "x\"y", "b": "z", "c": ["1", { "d": 1.50 }], "free": "w", "e": "v" });
        let part = |name: &str, kind: &str, text: &str| {
            format!("{PART}\"{name}\"\nContent-Type: {kind}\n\n{text}\n")
        };
        let expected = [
            part("a", "application/json", r#""x\"y""#),
            part("b", "application/vnd.x+json; charset=utf-8", "\"z\""),
            part("c", "application/json", "\"1\""),
            part("c", "application/json", "{\"d\":1.5}"),
            part("free", "application/json", "\"w\""),
            format!("{PART}\"e\"\n\nv\n"),
        ];
        if version != "3.0.4" {
            assert_eq!(parts(&document, fields).unwrap(), expected.concat(), "{version}");
        } else {
            assert!(parts(&document, fields).unwrap().starts_with(&expected[0]));
        }
    }
    // The string is JSON already, says its schema.
    let content = json!({ "type": "string", "contentMediaType": "application/json" });
    let encoded = json!({ "type": "string", "contentEncoding": "base64" });
    let document = multipart("3.1.0", json!({ "a": content, "b": encoded }), json!({ "b": json }));
    assert_eq!(
        parts(&document, json!({ "a": "{\"x\":1}", "b": "YQ==" })).unwrap(),
        format!(
            "{PART}\"a\"\nContent-Type: application/json\n\n{{\"x\":1}}\n{PART}\"b\"\nContent-Type: application/json\n\nYQ==\n"
        )
    );
}

#[test]
fn a_field_of_a_form_in_json_has_quotes_too() {
    let media = json!({
        "schema": { "properties": {
            "a": { "type": "string" }, "b": { "type": "string" }, "c": { "type": "array" },
            "d": { "type": "string", "contentMediaType": "application/json" },
            "e": { "type": "string" },
        } },
        "encoding": {
            "a": { "contentType": "application/json" }, "c": { "contentType": "application/json" },
            // The specification: a style counts instead of `contentType`.
            "e": { "contentType": "application/json", "style": "form" },
        },
    });
    let document = posting("3.1.1", "application/x-www-form-urlencoded", media, json!({}));
    let body = json!({ "body": { "a": "x", "b": "x", "c": ["x", 1], "d": "[1]", "e": "x" } });
    assert_eq!(
        sent(&document, "f", body).unwrap(),
        "POST /f\napplication/x-www-form-urlencoded\n\
         a=%22x%22&b=x&c=%5B%22x%22%2C1%5D&d=%5B1%5D&e=x"
    );
}

#[test]
fn files_are_the_last_parts() {
    let file = json!({ "type": "string", "format": "binary" });
    let document = multipart("3.0.3", json!({ "file": file, "attributes": {} }), json!({}));
    let sent = parts(&document, json!({ "file": "AAEC", "attributes": "x", "more": 1 })).unwrap();
    let place = |name: &str| sent.find(&format!("name=\"{name}\"")).unwrap();
    assert!(place("attributes") < place("more") && place("more") < place("file"), "{sent}");
}

#[test]
fn a_structure_is_not_sent_as_another_language() {
    let properties = json!({ "a": { "type": "object" }, "b": { "type": ["object", "string"] },
        "c": { "type": "integer" } });
    let encoding = json!({ "a": { "contentType": "application/xml, application/json" },
        "b": { "contentType": "application/xml" }, "c": { "contentType": "text/csv" } });
    let document = multipart("3.1.0", properties, encoding);
    let problems = read(&document, &SourceLimits::default()).discovered.problems;
    assert_eq!(
        problems,
        ["POST /f: the form field `b` is sent only if it is a string, as `application/xml`"]
    );
    assert_eq!(
        parts(&document, json!({ "a": { "x": 1 }, "b": "<b/>" })).unwrap(),
        format!(
            "{PART}\"a\"\nContent-Type: application/json\n\n{{\"x\":1}}\n{PART}\"b\"\nContent-Type: application/xml\n\n<b/>\n"
        )
    );
    assert_eq!(
        parts(&document, json!({ "b": { "x": 1 } })).unwrap_err(),
        "the argument `b` must be a string: it is sent as `application/xml`"
    );
}

#[test]
fn a_file_has_a_media_type_that_the_document_permits() {
    let file = json!({ "type": "string", "format": "binary" });
    let properties = ["list", "range", "any", "plain", "bytes", "text"];
    let properties: serde_json::Map<_, _> =
        properties.into_iter().map(|name| (name.to_owned(), file.clone())).collect();
    let document = multipart(
        "3.0.3",
        Value::Object(properties),
        json!({
            "list": { "contentType": "image/png, image/jpeg" }, "range": { "contentType": "image/*" },
            "any": { "contentType": "*/*" }, "bytes": { "contentType": "application/octet-stream" },
            "text": { "contentType": "text/csv; charset=utf-8, no media type" },
        }),
    );
    let kind = |name: &str, media_type: &str| {
        let parts = parts(&document, json!({ name: format!("{media_type}YQ==") }))?;
        let (_, kind) = parts.split_once("\nContent-Type: ").unwrap();
        Ok(kind.trim_end_matches("\n\na\n").to_owned())
    };
    let other = |name: &str, list: &str| {
        Err(format!("the argument `{name}` has a media type other than {list}"))
    };
    for (name, media_type, sent) in [
        ("list", "", Ok("image/png".to_owned())),
        ("list", "data:image/jpeg;base64,", Ok("image/jpeg".to_owned())),
        ("list", "data:;name=a.jpeg;base64,", Ok("image/png".to_owned())),
        ("list", "data:image/gif;base64,", other("list", "`image/png`, `image/jpeg`")),
        ("range", "data:IMAGE/webp;name=x;base64,", Ok("IMAGE/webp".to_owned())),
        ("range", "data:audio/ogg;base64,", other("range", "`image/*`")),
        (
            "range",
            "",
            Err("the argument `range` has no media type; start it with `data:TYPE;base64,` and a \
                 TYPE of `image/*`"
                .to_owned()),
        ),
        ("any", "", Ok("application/octet-stream".to_owned())),
        ("any", "data:a/b;c=d;base64,", Ok("a/b;c=d".to_owned())),
        ("plain", "data:a/b;base64,", Ok("a/b".to_owned())),
        ("bytes", "data:a/b;base64,", Ok("application/octet-stream".to_owned())),
        ("text", "data:text/csv;base64,", Ok("text/csv; charset=utf-8".to_owned())),
        ("text", "data:text/csv;charset=latin1;base64,", Ok("text/csv;charset=latin1".to_owned())),
        (
            "plain",
            "data:image/*;base64,",
            Err("the argument `plain` has an invalid media type after `data:`".to_owned()),
        ),
    ] {
        assert_eq!(kind(name, media_type), sent, "{name} {media_type}");
    }
    let input = read(&document, &SourceLimits::default()).discovered.offers.remove(0).into_offer();
    let description = &input.input_schema.unwrap()["properties"]["body"]["description"];
    let description = description.as_str().unwrap();
    assert!(description.contains("`range` (TYPE is `image/*`)"), "{description}");
}

#[test]
fn a_body_of_a_range_is_sent_with_a_media_type_in_it() {
    let document = |range: &str, schema: Value| {
        posting("3.1.0", range, json!({ "schema": schema }), json!({}))
    };
    let binary = json!({ "type": "string", "format": "binary" });
    let body = |range: &str, schema: &Value, value: &str| {
        sent(&document(range, schema.clone()), "f", json!({ "body": value }))
    };
    let data = "data:audio/ogg;base64,YQ==";
    for (range, schema, value, sent) in [
        ("audio/*", &binary, data, "audio/ogg\na"),
        ("audio/*", &json!({}), data, "audio/ogg\na"),
        ("application/*", &binary, "YQ==", "application/octet-stream\na"),
        ("application/*", &binary, "data:application/pdf;base64,YQ==", "application/pdf\na"),
        ("*/*", &binary, data, "audio/ogg\na"),
        ("*/*", &binary, "YQ==", "application/octet-stream\na"),
        ("text/*", &json!({ "type": "string" }), "data:,a", "text/plain\ndata:,a"),
        (
            "application/*",
            &json!({ "type": "string", "contentEncoding": "base64" }),
            "YQ==",
            "application/octet-stream\nYQ==",
        ),
        ("image/png", &binary, "data:image/png;base64,YQ==", "image/png\na"),
    ] {
        assert_eq!(body(range, schema, value).unwrap(), format!("POST /f\n{sent}"), "{range}");
    }
    for (range, value, problem) in [
        (
            "image/*",
            "YQ==",
            "the argument `body` has no media type; start it with \
            `data:TYPE;base64,` and a TYPE of `image/*`",
        ),
        ("image/*", data, "the argument `body` has a media type other than `image/*`"),
        ("video/mp4", data, "the argument `body` has a media type other than `video/mp4`"),
        (
            "vi*/*",
            data,
            "POST /f is left out: its body is `vi*/*`, a range without a usable media type",
        ),
    ] {
        assert_eq!(body(range, &binary, value).unwrap_err(), problem);
    }
    let encoded = json!({ "type": "string", "contentEncoding": "base64" });
    assert_eq!(
        body("image/*", &encoded, "YQ==").unwrap_err(),
        "POST /f is left out: its body is `image/*`, a range without a usable media type"
    );
    let form = document("multipart/*", json!({ "properties": { "a": {} } }));
    assert!(sent(&form, "f", json!({ "body": { "b": 1 } })).unwrap().contains("name=\"b\"\n\n1\n"));
    let service = read(&document("image/*", binary), &SourceLimits::default());
    let input = service.discovered.offers[0].input_schema.as_ref().unwrap();
    assert_eq!(
        input["properties"]["body"]["description"],
        "`data:TYPE;base64,` and base64 of the bytes; TYPE is `image/*`."
    );
}

#[test]
fn fields_without_a_name_in_the_document_can_be_files() {
    let schemas = json!({ "Rest": { "additionalProperties": { "anyOf": [
        { "type": "array", "items": { "contentMediaType": "image/png" } },
    ] } } });
    let media = json!({
        "schema": { "allOf": [{ "$ref": "#/components/schemas/Rest" },
            { "properties": { "note": { "type": "string" } } }] },
        "encoding": { "named": { "contentType": "image/jpeg" } },
    });
    let document = posting("3.1.0", "multipart/form-data", media, schemas);
    let fields =
        json!({ "note": "n", "x": ["YQ==", "data:;name=b.png;base64,Yg=="], "named": "Yw==" });
    let part = |name: &str, file: &str, kind: &str, text: &str| {
        format!("{PART}\"{name}\"; filename=\"{file}\"\nContent-Type: image/{kind}\n\n{text}\n")
    };
    assert_eq!(
        parts(&document, fields).unwrap(),
        [
            format!("{PART}\"note\"\n\nn\n"),
            part("x", "x", "png", "a"),
            part("x", "b.png", "png", "b"),
            part("named", "named", "jpeg", "c"),
        ]
        .concat()
    );
    let input = read(&document, &SourceLimits::default()).discovered.offers.remove(0).into_offer();
    let description = &input.input_schema.unwrap()["properties"]["body"]["description"];
    assert!(description.as_str().unwrap().ends_with(": `named`, all other fields."));

    for (word, schema) in [
        ("additionalProperties", json!({ "type": "string", "format": "binary" })),
        ("unevaluatedProperties", json!({ "contentMediaType": "image/png" })),
    ] {
        let media = json!({ "schema": { "type": "object", word: schema } });
        let document = posting("3.1.0", "multipart/form-data", media, json!({}));
        assert!(parts(&document, json!({ "a": "YQ==" })).unwrap().ends_with("\n\na\n"));
    }
    let text = json!({ "schema": { "additionalProperties": { "format": "byte" } } });
    let document = posting("3.0.0", "multipart/form-data", text, json!({}));
    assert_eq!(parts(&document, json!({ "a": "YQ==" })).unwrap(), format!("{PART}\"a\"\n\nYQ==\n"));
    let media = json!({ "schema": { "patternProperties": { "^f": { "format": "binary" } } } });
    let document = posting("3.1.0", "multipart/form-data", media, json!({}));
    assert_eq!(
        parts(&document, json!({})).unwrap_err(),
        "POST /f is left out: its form has files in `patternProperties`, which are not sent"
    );
}

#[test]
fn integers_that_only_their_values_show_are_sent_in_plain_digits() {
    let parameter = |name: &str, place: &str, schema: Value| json!({ "name": name, "in": place, "required": true, "schema": schema });
    let listed = json!({ "enum": [1, 2, null] });
    let media = json!({ "schema": { "properties": {
        "c": { "const": 5 }, "l": { "type": "array", "items": { "enum": [1] } },
        "d": { "enum": [1, 1.5] }, "s": { "type": "string" },
    }, "additionalProperties": { "oneOf": [{ "const": 7 }, { "const": 8 }] } } });
    let document = json!({ "openapi": "3.1.0", "paths": { "/a/{v}/{w}": { "post": {
        "operationId": "a",
        "parameters": [
            parameter("v", "path", listed.clone()),
            parameter("w", "path", json!({ "type": "number", "enum": [100] })),
            parameter("q", "query", json!({ "oneOf": [{ "const": 1 }, { "const": 2 }] })),
            parameter("f", "query", json!({ "enum": [1, 2.5] })),
        ],
        "requestBody": { "content": { "application/x-www-form-urlencoded": media } },
    } } } });
    let arguments: Value = serde_json::from_str(
        r#"{"v": 1.0, "w": 1e2, "q": 2.0, "f": 1.0,
            "body": {"c": 5.0, "l": [1.0], "d": 1.0, "s": 1.0, "rest": 7.0}}"#,
    )
    .unwrap();
    assert_eq!(
        sent(&document, "a", arguments).unwrap(),
        "POST /a/1/100?q=2&f=1.0\napplication/x-www-form-urlencoded\n\
         c=5&l=1&d=1.0&s=1.0&rest=7"
    );
}
