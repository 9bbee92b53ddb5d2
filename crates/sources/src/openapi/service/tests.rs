use std::collections::BTreeMap;

use super::*;

fn read(document: &Value, limits: &SourceLimits) -> Service {
    let (selection, configured) = (Selection::default(), HashSet::from(["x-ours".to_owned()]));
    let (base, variables) = (Url::parse("http://a.example").unwrap(), BTreeMap::new());
    let servers = Servers { base: Some(&base), document: None, variables: &variables };
    let settings = ReadSettings { selection: &selection, servers, configured: &configured, limits };
    Service::read(document.to_string().as_bytes(), &settings).unwrap()
}

fn names(document: &Value) -> Vec<String> {
    let service = read(document, &SourceLimits::default());
    assert_eq!(service.discovered.problems, [""; 0]);
    service.discovered.tools.into_iter().map(|tool| tool.name).collect()
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
    assert_eq!(service.discovered.tools.len(), 1);
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
    let schema = service.discovered.tools[0].input_schema.as_ref().unwrap();
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
        assert!(service.discovered.tools.len() == 3, "all of them can be called");
        let tools = service.discovered.tools.iter();
        tools
            .map(|tool| {
                let definitions = &tool.input_schema.as_ref().unwrap()["$defs"];
                definitions.as_object().unwrap().values().all(|it| it.get("properties").is_some())
            })
            .collect()
    };
    assert_eq!(whole(16 << 20), [true, true, false], "one tool has its own limit");
    assert_eq!(whole(50_000), [true, true, false]);
    assert_eq!(whole(20_000), [true, false, false]);

    let limits = SourceLimits { max_tools: 2, ..SourceLimits::default() };
    let service = read(&document, &limits);
    assert_eq!(service.discovered.tools.len(), 2);
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
        let service = Service::read(document.to_string().as_bytes(), &settings).unwrap();
        toolcrib_core::pin::PinForm::of(&service.discovered.tools[0]).digest
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
