mod bodies;
mod names;

use std::collections::BTreeMap;

use super::*;

fn read(document: &Value, limits: &SourceLimits) -> Service {
    let (selection, configured) = (Selection::default(), HashSet::from(["x-ours".to_owned()]));
    let (base, variables) = (Url::parse("http://a.example").unwrap(), BTreeMap::new());
    let servers = Servers { base: Some(&base), document: None, variables: &variables };
    let settings = ReadSettings { selection: &selection, servers, configured: &configured, limits };
    Service::read(&Document::of(document.to_string().as_bytes()).unwrap(), &settings)
}

fn names(document: &Value) -> Vec<String> {
    let service = read(document, &SourceLimits::default());
    assert_eq!(service.discovered.problems, [""; 0]);
    service.discovered.offers.iter().map(|tool| tool.name.clone()).collect()
}

#[test]
fn names_are_stable_whatever_the_order() {
    let get = |id: &str| json!({ "get": { "operationId": id } });
    let document = json!({ "openapi": "3.1.0", "paths": {
        "/a/{x}": { "get": { "operationId": "same" }, "parameters": [
            { "name": "x", "in": "path", "required": true },
        ] },
        "/b": get("same"),
        "/c": get("repos/get a"),
        "/d.e-f/g_h": { "post": {} },
        "/g/h": { "get": {} },
        "/g-h": { "get": {} },
        "/g/h/": { "get": {} },
    } });
    assert_eq!(
        names(&document),
        ["get_a_x", "get_b", "repos_get_a", "post_d.e-f_g_h", "get_g_h", "get_g-h", "GET /g/h/"]
    );
}

#[test]
fn unusable_operations_are_left_out_and_reported() {
    let document = json!({ "openapi": "3.0.0", "paths": {
        "/good": { "get": {} },
        "/{missing}": { "get": {} },
        "/../up": { "get": {} },
        "no-slash": { "get": {} },
        "/outside": { "get": { "requestBody": { "$ref": "other.yaml#/x" } } },
        "/circle": { "get": { "parameters": [{ "$ref": "#/paths/~1circle/get/parameters/0" }] } },
        "/place": { "get": { "parameters": [{ "name": "a", "in": "body" }] } },
        "/style": { "get": { "parameters": [{ "name": "a", "in": "query", "style": "matrix" }] } },
        "/item": { "$ref": "#/nothing" },
        "x-other": { "get": {} },
    } });
    let service = read(&document, &SourceLimits::default());
    assert_eq!(service.discovered.offers.len(), 1);
    assert_eq!(service.discovered.problems.len(), 8, "{:#?}", service.discovered.problems);
}

#[test]
fn arguments_that_would_share_a_name_get_their_place() {
    let parameter = |name: &str, place: &str| json!({ "name": name, "in": place });
    let document = json!({ "openapi": "3.1.0", "paths": { "/{id}": { "put": {
        "parameters": [
            parameter("id", "path"), parameter("id", "query"), parameter("id", "header"),
            parameter("id", "cookie"), parameter("body", "query"), parameter("X-Ours", "header"),
            parameter("Authorization", "header"),
        ],
        "requestBody": { "content": { "text/plain": {} } },
    } } } });
    let service = read(&document, &SourceLimits::default());
    let schema = service.discovered.offers[0].input_schema.as_ref().unwrap();
    let arguments: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(arguments, ["id", "id_query", "body_query", "id_header", "id_cookie", "body"]);
    assert_eq!(schema["required"], json!(["id"]));
}

#[test]
fn a_document_without_operations_says_so() {
    for document in [json!({ "openapi": "3.1.0" }), json!({ "openapi": "3.1.0", "paths": {} })] {
        let service = read(&document, &SourceLimits::default());
        assert_eq!(service.discovered.problems, ["the document has no operations"]);
    }
}

// I-27
#[test]
fn schemas_over_the_limit_are_cut_fairly() {
    let schema = |bytes: usize| {
        json!({ "type": "object", "properties": {
        "a": { "description": "x".repeat(bytes) },
    } })
    };
    let body = |name: &str| {
        json!({ "put": { "requestBody": { "content": { "application/json": {
        "schema": { "$ref": format!("#/components/schemas/{name}") },
    } } } } })
    };
    let document = json!({
        "openapi": "3.1.0",
        "paths": { "/small": body("Small"), "/large": body("Large"), "/huge": body("Huge") },
        "components": { "schemas": {
            "Small": schema(100), "Large": schema(20_000), "Huge": schema(300_000),
        } },
    });
    let whole = |limit: usize| -> Vec<bool> {
        let limits = SourceLimits { max_list_bytes: limit, ..SourceLimits::default() };
        let service = read(&document, &limits);
        assert!(service.discovered.offers.len() == 3, "all of them can be called");
        let tools = service.discovered.offers.iter();
        tools
            .map(|tool| {
                let definitions = &tool.input_schema.as_ref().unwrap()["$defs"];
                definitions
                    .as_object()
                    .unwrap()
                    .values()
                    .all(|definition| definition.get("properties").is_some())
            })
            .collect()
    };
    assert_eq!(whole(16 << 20), [true, true, false], "one tool has its own limit");
    assert_eq!(whole(50_000), [true, true, false]);
    assert_eq!(whole(20_000), [true, false, false]);

    let limits = SourceLimits { max_tools: 2, ..SourceLimits::default() };
    let service = read(&document, &limits);
    assert_eq!(service.discovered.offers.len(), 2);
    assert!(service.discovered.problems[0].contains("choose with `operations`"));
}

// I-51
#[test]
fn what_the_document_says_about_a_request_is_part_of_the_form() {
    let document = |paths: Value, server: &str| json!({ "openapi": "3.1.0", "servers": [{ "url": server }], "paths": paths });
    let item = |method: &str, place: &str, style: &str| {
        json!({ method: { "operationId": "item", "parameters": [
            { "name": "id", "in": place, "style": style, "schema": { "type": "array" } },
        ] } })
    };
    let form = |document: &Value, base: Option<&Url>| {
        let (selection, configured) = (Selection::default(), HashSet::new());
        let (variables, limits) = (BTreeMap::new(), &SourceLimits::default());
        let servers = Servers { base, document: None, variables: &variables };
        let settings =
            ReadSettings { selection: &selection, servers, configured: &configured, limits };
        let document = Document::of(document.to_string().as_bytes()).unwrap();
        let service = Service::read(&document, &settings);
        toolcrib_core::pin::PinForm::of(&service.discovered.offers[0]).digest
    };
    let (here, there) = ("https://a.example", "https://b.example");
    let first = document(json!({ "/items": item("get", "query", "form") }), here);
    let mut seen = vec![form(&first, None)];
    for changed in [
        document(json!({ "/items": item("delete", "query", "form") }), here),
        document(json!({ "/admin/wipe": item("get", "query", "form") }), here),
        document(json!({ "/items": item("get", "header", "simple") }), here),
        document(json!({ "/items": item("get", "query", "pipeDelimited") }), here),
        document(json!({ "/items": item("get", "query", "form") }), there),
    ] {
        let digest = form(&changed, None);
        assert!(!seen.contains(&digest), "{changed}");
        seen.push(digest);
    }
    let mut other = first.clone();
    other["info"] = json!({ "title": "other" });
    assert_eq!(form(&other, None), seen[0]);
    // A configured address replaces the server of the document.
    let base = Url::parse("http://own.example").unwrap();
    let moved = document(json!({ "/items": item("get", "query", "form") }), there);
    assert_eq!(form(&first, Some(&base)), form(&moved, Some(&base)));
}

/// Returns the request of `tool` as text: method and URL, then cookies, media type and body.
fn sent(document: &Value, tool: &str, arguments: Value) -> Result<String, String> {
    let service = read(document, &SourceLimits::default());
    let problems = &service.discovered.problems;
    let callable = service.operations.get(tool).ok_or_else(|| problems.join("\n"))?;
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let request = super::super::request::build(&callable.operation, &callable.base, &arguments)?;
    let url = request.url.as_str().trim_start_matches("http://a.example");
    let mut text = format!("{} {url}", request.method);
    let header = |name: &str| {
        let value = request.bound.get(name).or_else(|| request.headers.get(name));
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    for value in [header("cookie"), header("content-type")].into_iter().flatten() {
        text = format!("{text}\n{value}");
    }
    let body = String::from_utf8(request.body.unwrap_or_default().to_vec()).unwrap();
    text = format!("{text}\n{body}");
    if let Some((_, boundary)) = text.clone().split_once("boundary=") {
        text = text.replace(boundary.lines().next().unwrap(), "B").replace("\r\n", "\n");
    }
    Ok(text)
}

fn posting(version: &str, media_type: &str, media: Value, schemas: Value) -> Value {
    json!({
        "openapi": version,
        "paths": { "/f": { "post": { "operationId": "f", "requestBody": {
            "required": true, "content": { media_type: media },
        } } } },
        "components": { "schemas": schemas },
    })
}

#[test]
fn a_form_has_the_fields_of_all_schemas_that_it_is_composed_of() {
    let schemas = json!({
        "Whole": { "allOf": [{ "$ref": "#/components/schemas/Half" }, {
            "anyOf": [
                { "properties": { "sort": { "type": "object" } } },
                { "oneOf": [{ "$ref": "#/components/schemas/Leaf" }] },
            ],
        }] },
        "Half": { "allOf": [
            { "type": "object", "properties": { "meta": { "type": "object" } } },
            { "$ref": "#/components/schemas/Whole" },
        ] },
        "Leaf": { "properties": { "tags": { "type": "array", "items": { "type": "string" } } } },
    });
    for version in ["3.0.3", "3.1.0", "3.2.0"] {
        let media = json!({
            "schema": { "$ref": "#/components/schemas/Whole" },
            "encoding": {
                "meta": { "style": "deepObject", "explode": true },
                "sort": { "style": "form", "explode": false },
                "tags": { "style": "pipeDelimited" },
                "free": { "style": "deepObject" },
            },
        });
        let document =
            posting(version, "application/x-www-form-urlencoded", media, schemas.clone());
        let body = json!({ "body": {
            "meta": { "k": { "x": "v" } }, "sort": { "a": 1, "b": 2 }, "tags": ["c", "d"],
            "free": { "e": "f" }, "plain": "g",
        } });
        assert_eq!(
            sent(&document, "f", body).unwrap(),
            "POST /f\napplication/x-www-form-urlencoded\nmeta%5Bk%5D%5Bx%5D=v&sort=a,1,b,2\
             &tags=c%7Cd&free%5Be%5D=f&plain=g",
            "{version}"
        );
    }
}

#[test]
fn the_files_of_a_composed_multipart_body_are_bytes() {
    let schemas = json!({
        "Upload": { "allOf": [{ "$ref": "#/components/schemas/One" }, {
            "type": "object", "properties": {
                "more": { "type": "array", "items": { "$ref": "#/components/schemas/File" } },
                "maybe": { "anyOf": [{ "type": "string", "format": "binary" }, { "nullable": true }] },
                "note": { "type": "string" },
                "digest": { "type": "string", "format": "byte" },
            },
        }] },
        "One": { "properties": { "file": {
            "description": "a picture", "allOf": [{ "$ref": "#/components/schemas/File" }],
        } } },
        "File": { "type": "string", "format": "binary" },
    });
    let media = json!({
        "schema": { "$ref": "#/components/schemas/Upload" },
        "encoding": {
            "file": { "contentType": "image/*, image/png", "headers": { "X-Part": {} } },
            "digest": { "contentType": "application/octet-stream" },
        },
    });
    let document = posting("3.0.3", "multipart/form-data", media, schemas);
    let service = read(&document, &SourceLimits::default());
    assert_eq!(
        service.discovered.problems,
        ["POST /f: the form field `file` is sent without `X-Part`"]
    );
    let input = service.discovered.offers[0].input_schema.as_ref().unwrap();
    assert_eq!(
        input["properties"]["body"]["description"],
        "Base64 of the bytes of files, or `data:TYPE;name=NAME;base64,` and base64: `file` \
         (TYPE is `image/*`, `image/png`), `maybe`, `more`."
    );
    let body = json!({ "body": {
        "file": "YQ==", "more": ["Yg==", "Yw=="], "maybe": "ZA==", "note": "n", "digest": "ZQ==",
    } });
    let part = |name: &str, file: bool, kind: &str, text: &str| {
        let file = if file { format!("; filename=\"{name}\"") } else { String::new() };
        let kind = if kind.is_empty() { String::new() } else { format!("\nContent-Type: {kind}") };
        format!("--B\nContent-Disposition: form-data; name=\"{name}\"{file}{kind}\n\n{text}\n")
    };
    let bytes = "application/octet-stream";
    assert_eq!(
        sent(&document, "f", body).unwrap(),
        [
            "POST /f\nmultipart/form-data; boundary=B\n".to_owned(),
            part("note", false, "", "n"),
            part("digest", false, bytes, "ZQ=="),
            part("file", true, "image/png", "a"),
            part("more", true, bytes, "b"),
            part("more", true, bytes, "c"),
            part("maybe", true, bytes, "d"),
            "--B--\n".to_owned(),
        ]
        .concat()
    );
}

#[test]
fn the_work_on_a_form_is_bounded() {
    let many = |count: usize| vec![json!({ "properties": {} }); count];
    for (media, problem) in [
        (
            json!({ "schema": { "allOf": many(10_001) } }),
            "its arguments are composed of more than 10000 schemas",
        ),
        (
            json!({ "schema": { "properties": (0..1_001).map(|n| (n.to_string(), json!({})))
                .collect::<serde_json::Map<_, _>>() } }),
            "its form has more than 1000 fields",
        ),
        (
            json!({ "schema": { "properties": (0..101).map(|n| {
                (n.to_string(), json!({ "$ref": "#/components/schemas/Many" }))
            }).collect::<serde_json::Map<_, _>>() } }),
            "its arguments are composed of more than 10000 schemas",
        ),
    ] {
        let schemas = json!({ "Many": { "anyOf": many(100) } });
        let document = posting("3.1.0", "multipart/form-data", media, schemas);
        let found = sent(&document, "f", json!({})).unwrap_err();
        assert_eq!(found, format!("POST /f is left out: {problem}"));
    }
}

#[test]
fn a_caller_may_name_a_file() {
    let media = json!({
        "schema": { "properties": { "file": { "format": "binary" }, "png": { "format": "binary" } } },
        "encoding": { "png": { "contentType": "image/png, audio/*" } },
    });
    let document = posting("3.0.3", "multipart/form-data", media, json!({}));
    let send = |file: &str| sent(&document, "f", json!({ "body": { "file": file, "png": file } }));
    for (file, part) in [
        ("YQ==", "filename=\"file\"\nContent-Type: application/octet-stream\n\na\n"),
        (
            "data:audio/mpeg;name=a%20b.mp3;base64,YQ==",
            "filename=\"a b.mp3\"\nContent-Type: audio/mpeg\n\na\n",
        ),
        (
            "data:;name=a\r\n\"x.txt;base64,YQ==",
            "filename=\"a%0D%0A%22x.txt\"\nContent-Type: application/octet-stream\n\na\n",
        ),
        ("YQ==", "name=\"png\"; filename=\"png\"\nContent-Type: image/png\n\na\n"),
    ] {
        let text = send(file).unwrap();
        assert!(text.contains(part), "{part}: {text}");
    }
    let problem = send("data:a\r\nX-Y: z;base64,YQ==").unwrap_err();
    assert!(problem.contains("has an invalid media type"), "{problem}");
    for file in ["data:a/b,YQ==", "data:a/b;base64,no", "no"] {
        assert!(send(file).unwrap_err().contains("must be base64, or `data:"), "{file}");
    }
}

#[test]
fn parts_of_3_1_are_bytes_or_text_by_their_media_type_and_encoding() {
    let properties = json!({
        "picture": { "contentMediaType": "image/png" },
        "encoded": { "type": "string", "contentMediaType": "image/png", "contentEncoding": "base64" },
        "page": { "type": "string", "contentMediaType": "text/html" },
        "any": { "type": "array", "items": {} },
        "sound": { "type": "string" },
        "filter": { "type": "object" },
    });
    let media = json!({
        "schema": { "type": "object", "properties": properties },
        "encoding": {
            "sound": { "contentType": "audio/*" },
            "filter": { "style": "deepObject", "explode": true },
        },
    });
    let document = posting("3.1.0", "multipart/form-data", media, json!({}));
    let body = json!({ "body": {
        "picture": "YQ==", "encoded": "Yg==", "page": "<p>", "any": ["Yw=="], "sound": "data:audio/ogg;base64,ZA==",
        "filter": { "x": { "y": 1 } },
    } });
    let text = sent(&document, "f", body).unwrap();
    for part in [
        "name=\"picture\"; filename=\"picture\"\nContent-Type: image/png\n\na\n",
        "name=\"encoded\"\nContent-Type: image/png\n\nYg==\n",
        "name=\"page\"\nContent-Type: text/html\n\n<p>\n",
        "name=\"any\"; filename=\"any\"\nContent-Type: application/octet-stream\n\nc\n",
        "name=\"sound\"; filename=\"sound\"\nContent-Type: audio/ogg\n\nd\n",
        "name=\"filter[x][y]\"\n\n1\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let whole = json!({ "schema": { "type": "string", "contentEncoding": "base64" } });
    let document = posting("3.1.0", "image/png", whole, json!({}));
    let text = sent(&document, "f", json!({ "body": "YQ==" })).unwrap();
    assert_eq!(text, "POST /f\nimage/png\nYQ==", "the schema describes the text that is sent");
    let mixed = posting("3.1.0", "multipart/mixed", json!({ "schema": {} }), json!({}));
    let problem = sent(&mixed, "f", json!({})).unwrap_err();
    assert_eq!(
        problem,
        "POST /f is left out: its body is `multipart/mixed`, an unsupported media type"
    );
    let media = json!({ "schema": { "type": "array" }, "itemEncoding": {} });
    let items = posting("3.2.0", "multipart/form-data", media, json!({}));
    let problem = sent(&items, "f", json!({})).unwrap_err();
    assert_eq!(problem, "POST /f is left out: its form has `itemEncoding`, an unsupported keyword");
}

#[test]
fn operations_of_3_2_are_tools_or_problems() {
    let operation = |id: &str| json!({ "operationId": id });
    let document = json!({ "openapi": "3.2.0", "paths": {
        "/items": {
            "query": { "requestBody": { "content": { "application/json": {} } } },
            "additionalOperations": {
                "COPY": operation("copy"), "copy": operation("other"), "Lock": { "parameters": [
                    { "name": "depth", "in": "query" },
                ] },
                "GET": {}, "CONNECT": {}, "NO GO": {}, "NULL": null,
            },
            "get": null,
        },
        "/list": { "additionalOperations": [] },
        "/gone": { "additionalOperations": { "LINK": { "$ref": "#/nothing" } } },
    } });
    let service = read(&document, &SourceLimits::default());
    let names: Vec<_> = service.discovered.offers.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["query_items", "copy", "other", "lock_items"]);
    assert_eq!(
        service.discovered.problems,
        [
            "GET /items is not an operation",
            "GET /items is left out: the specification forbids this method in \
             `additionalOperations`",
            "CONNECT /items is left out: CONNECT opens a tunnel instead of sending a request",
            "NO GO /items is left out: its method contains invalid characters",
            "NULL /items is left out: it is not an operation",
            "`additionalOperations` of /list is not a map of operations",
            "LINK /gone is left out: the $ref `#/nothing` has no target",
        ]
    );
    for (tool, arguments, expected) in [
        ("query_items", json!({ "body": { "a": 1 } }), "QUERY /items\napplication/json\n{\"a\":1}"),
        ("copy", json!({}), "COPY /items\n"),
        ("other", json!({}), "copy /items\n"),
        ("lock_items", json!({ "depth": 0 }), "Lock /items?depth=0\n"),
    ] {
        assert_eq!(sent(&document, tool, arguments).unwrap(), expected);
    }
}

#[test]
fn a_parameter_of_3_2_can_be_the_whole_query() {
    let parameter = |name: &str, content: Value| json!({ "name": name, "in": "querystring", "required": true, "content": content });
    let get = |parameters: Value| json!({ "get": { "parameters": parameters } });
    let filter = json!({
        "schema": { "allOf": [{ "properties": { "f": { "type": "object" } } }] },
        "encoding": { "f": { "style": "deepObject" } },
    });
    let document = json!({ "openapi": "3.2.0", "paths": {
        "/form": get(json!([parameter("filter", json!({ "application/x-www-form-urlencoded": filter }))])),
        "/json": get(json!([parameter("q", json!({ "application/json": {} }))])),
        "/text": get(json!([parameter("q", json!({ "text/plain": {} }))])),
        "/bytes": get(json!([parameter("q", json!({ "application/cbor": {} }))])),
        "/schema": get(json!([{ "name": "q", "in": "querystring", "schema": {} }])),
        "/two": get(json!([parameter("a", json!({ "text/a": {} })), parameter("b", json!({ "text/a": {} }))])),
        "/both": get(json!([parameter("a", json!({ "text/a": {} })), { "name": "b", "in": "query" }])),
        "/cookie": get(json!([{ "name": "c", "in": "cookie", "style": "cookie", "schema": {} }])),
    } });
    for (tool, arguments, expected) in [
        (
            "get_form",
            json!({ "filter": { "f": { "a": "b&c" }, "g": [1, 2], "h": "i j" } }),
            "GET /form?f%5Ba%5D=b%26c&g=1&g=2&h=i+j\n",
        ),
        ("get_json", json!({ "q": { "a": "b" } }), "GET /json?%7B%22a%22%3A%22b%22%7D\n"),
        ("get_text", json!({ "q": "a&b=c#d" }), "GET /text?a%26b%3Dc%23d\n"),
        ("get_cookie", json!({ "c": "a%20/b" }), "GET /cookie\nc=a%20/b\n"),
    ] {
        assert_eq!(sent(&document, tool, arguments).unwrap(), expected);
    }
    for value in ["a; b=c", "a b", "a\r\nx", "\u{e9}"] {
        let problem = sent(&document, "get_cookie", json!({ "c": value })).unwrap_err();
        assert!(problem.contains("invalid in a cookie"), "{problem}");
    }
    let problems = read(&document, &SourceLimits::default()).discovered.problems;
    assert_eq!(
        problems,
        [
            "GET /bytes is left out: its query string is `application/cbor`, an unsupported media type",
            "GET /schema is left out: a parameter has a style that is invalid at its location",
            "GET /two is left out: it has more than one parameter in `querystring`",
            "GET /both is left out: it has parameters in `query` in addition to the one in \
             `querystring`",
        ]
    );
}

#[test]
fn a_path_item_adds_to_the_one_that_it_refers_to() {
    let document = json!({ "openapi": "3.1.0", "paths": {
        "/a/{x}": {
            "$ref": "#/components/pathItems/a",
            "put": { "operationId": "put" },
            "parameters": [{ "name": "own", "in": "query" }],
        },
    }, "components": { "pathItems": { "a": {
        "get": { "operationId": "get" }, "put": { "operationId": "not-this-one" },
        "parameters": [{ "name": "x", "in": "path" }],
    } } } });
    assert_eq!(names(&document), ["get", "put"]);
    for tool in ["get", "put"] {
        let method = tool.to_uppercase();
        let text = sent(&document, tool, json!({ "x": 1, "own": 2 })).unwrap();
        assert_eq!(text, format!("{method} /a/1?own=2\n"));
    }
}

#[test]
fn maps_and_lists_may_be_references_too() {
    let document = json!({ "openapi": "3.0.3", "paths": { "$ref": "#/x-paths" },
        "x-paths": { "/a": { "post": {
            "operationId": "a", "parameters": { "$ref": "#/x-parameters" },
            "requestBody": { "content": { "$ref": "#/x-content" } },
            "responses": { "$ref": "#/x-responses" },
        } } },
        "x-parameters": [{ "name": "p", "in": "query" }],
        "x-content": { "application/json": { "schema": {
            "type": "object", "properties": { "$ref": "#/x-properties" }, "required": ["id", "n"],
        } } },
        "x-responses": { "200": { "content": { "$ref": "#/x-content" } } },
        "x-properties": { "n": { "type": "string", "nullable": true }, "id": { "readOnly": true } },
    });
    let service = read(&document, &SourceLimits::default());
    let tool = &service.discovered.offers[0];
    let input = tool.input_schema.as_ref().unwrap();
    let properties = json!({ "n": { "type": ["string", "null"] }, "id": { "readOnly": true } });
    assert_eq!(
        input["properties"],
        json!({ "p": true, "body": {
            "type": "object", "properties": properties, "required": ["n"],
        } })
    );
    assert_eq!(tool.output_schema.as_ref().unwrap()["properties"], properties);
    let mut circle = document;
    circle["x-properties"] = json!({ "n": { "properties": { "$ref": "#/x-properties" } } });
    let service = read(&circle, &SourceLimits::default());
    assert_eq!(
        service.discovered.problems,
        ["POST /a is left out: the $ref `#/x-properties` is circular"]
    );
}

#[test]
fn nothing_becomes_an_operation_without_its_arguments() {
    let document = json!({ "openapi": "3.1.0", "paths": {
        "/number": { "get": { "$ref": 5 } },
        "/root": { "get": { "$ref": "" } },
        "/text": { "get": { "$ref": "#/openapi" } },
        "/f/#{id}": { "get": { "parameters": [
            { "name": "id", "in": "path", "required": true, "schema": {} },
        ] } },
        "/form": { "get": { "parameters": [
            { "name": "a", "in": "query", "content": { "application/x-www-form-urlencoded": {} } },
        ] } },
    } });
    let service = read(&document, &SourceLimits::default());
    assert_eq!(service.discovered.offers.len(), 0);
    assert_eq!(
        service.discovered.problems,
        [
            "GET /number is not an operation",
            "GET /root is not an operation",
            "GET /text is not an operation",
            "GET /f/#{id} is left out: its path has a placeholder after `#`; fragments are not sent",
            "GET /form is left out: a parameter of it is `application/x-www-form-urlencoded`, \
             an unsupported media type",
        ]
    );
}

#[test]
fn a_header_loses_no_space() {
    let header = json!({ "name": "x-a", "in": "header", "schema": { "type": "string" } });
    let document = json!({ "openapi": "3.1.0", "servers": [{ "url": "http://a.example" }],
        "paths": { "/f": { "get": { "operationId": "f", "parameters": [header] } } } });
    let sent = |value: &str| sent(&document, "f", json!({ "x-a": value }));
    assert!(sent("a b").is_ok());
    for value in [" a", "a\t"] {
        let problem = "the argument `x-a` must not have a space at either end: it is a header";
        assert_eq!(sent(value).unwrap_err(), problem);
    }
}

#[test]
fn names_of_arguments_that_can_stay_are_kept() {
    let long = "a".repeat(64);
    let document = json!({ "openapi": "3.1.0", "paths": { "/a": { "get": { "parameters": [
        { "name": "a[]", "in": "query" }, { "name": "a", "in": "query" },
        { "name": long, "in": "query" },
    ] } } } });
    let service = read(&document, &SourceLimits::default());
    let properties = &service.discovered.offers[0].input_schema.as_ref().unwrap()["properties"];
    let names: Vec<_> = properties.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["a_query", "a", &long]);
    assert_eq!(properties["a_query"]["description"], "Sent as `a[]` in the query.");
    assert_eq!(properties["a"].get("description"), None);

    let same: Vec<_> =
        (0..150).map(|n| json!({ "name": format!("a{}", "[".repeat(n)), "in": "query" })).collect();
    let document =
        json!({ "openapi": "3.1.0", "paths": { "/a": { "get": { "parameters": same } } } });
    let service = read(&document, &SourceLimits::default());
    let properties = &service.discovered.offers[0].input_schema.as_ref().unwrap()["properties"];
    let properties = properties.as_object().unwrap();
    assert!(properties.len() == 150 && properties.keys().all(|name| name.len() <= 64));
}

#[test]
fn an_item_with_the_separator_is_refused() {
    let parameter = |name: &str, place: &str, style: &str| {
        json!({ "name": name, "in": place, "style": style, "explode": false,
            "schema": { "type": "array" } })
    };
    let document = json!({ "openapi": "3.1.0", "paths": { "/a": { "get": { "parameters": [
        parameter("pipes", "query", "pipeDelimited"), parameter("spaces", "query", "spaceDelimited"),
        parameter("commas", "query", "form"), parameter("X-Commas", "header", "simple"),
        { "name": "text", "in": "query", "content": { "text/plain": {} } },
    ] } } } });
    let all = json!({ "pipes": ["a", "b c,"], "spaces": ["a|", "b"], "commas": ["a,b", "c"],
        "X-Commas": ["a|b", "c d"], "text": "a b" });
    assert_eq!(
        sent(&document, "get_a", all).unwrap(),
        "GET /a?pipes=a%7Cb%20c%2C&spaces=a%7C%20b&commas=a%2Cb,c&text=a%20b\n"
    );
    for (argument, item) in [("pipes", "a|b"), ("spaces", "a b"), ("X-Commas", "a,b")] {
        let problem = sent(&document, "get_a", json!({ argument: [item] })).unwrap_err();
        let separator = item.trim_matches(['a', 'b']);
        let expected = format!(
            "the argument `{argument}` has an item with `{separator}`, which separates its items"
        );
        assert_eq!(problem, expected);
    }
}
