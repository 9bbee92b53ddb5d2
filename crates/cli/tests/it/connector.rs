//! Connectors from OpenAPI documents: requests, results and forbidden destinations.

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use crate::support::{CommandOutput, Recorder, Server, dir, key, recorder, run, write_config};

/// A YAML document with many OpenAPI features.
const SHOP: &str = r##"
openapi: 3.0.3
info: {title: Shop, version: 2.4.0}
servers:
  - url: https://shop.example/{stage}
    variables: {stage: {default: v1}}
paths:
  /shops/{shop}/items{kind}:
    parameters:
      - {name: shop, in: path, required: true, schema: {type: string}}
    get:
      operationId: items/list
      summary: Items of a shop
      parameters:
        - {name: kind, in: path, required: true, style: matrix, explode: true, schema: {type: array, items: {type: string}}}
        - {name: tags, in: query, style: pipeDelimited, explode: false, schema: {type: array, items: {type: string}}}
        - {name: filter, in: query, style: deepObject, schema: {type: object, additionalProperties: true}}
        - {name: near, in: query, content: {application/json: {schema: {type: object}}}}
        - {name: q, in: query, allowReserved: true, schema: {type: string}}
        - {name: X-Trace, in: header, schema: {type: array, items: {type: integer}}}
        - {name: session, in: cookie, schema: {type: string}}
        - {name: Authorization, in: header, schema: {type: string}}
        - {name: X-Shop-Key, in: header, schema: {type: string}}
      responses:
        '200':
          description: ok
          content: {application/json: {schema: {$ref: '#/components/schemas/Page'}}}
    put:
      responses: {'204': {description: ok}}
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: '#/components/schemas/Node'}}}
      parameters:
        - {name: kind, in: path, required: true, schema: {type: string}}
  /forms:
    post:
      operationId: form
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {type: object, properties: {a: {type: string}, list: {type: array, items: {type: string}}, deep: {type: object}}}
      responses: {default: {description: ok}}
  /files:
    post:
      operationId: upload
      requestBody:
        required: true
        content:
          multipart/form-data:
            schema:
              type: object
              properties: {note: {type: string}, file: {type: string, format: binary}, meta: {type: object}}
      responses: {'201': {description: ok}}
components:
  schemas:
    Page: {type: object, properties: {items: {type: array, items: {$ref: '#/components/schemas/Node'}}, next: {type: string, nullable: true}}}
    Node: {type: object, required: [name], properties: {name: {type: string}, no: {type: boolean}, child: {$ref: '#/components/schemas/Node'}, price: {type: number, minimum: 0, exclusiveMinimum: true}}}
"##;

fn configure(dir: &Path, service: &str, more: &str) {
    std::fs::write(dir.join("shop.yaml"), SHOP).unwrap();
    write_config(
        dir,
        &format!(
            "[[source]]\nid = \"shop\"\nkind = \"connector\"\ndocument = \"shop.yaml\"\n\
             base_url = \"{service}/base/\"\n{more}\n[source.tools.\"*\"]\nscopes = []\n"
        ),
    );
}

fn call(dir: &Path, tool: &str, arguments: &Value) -> CommandOutput {
    std::fs::write(dir.join("arguments.json"), arguments.to_string()).unwrap();
    run(dir, &["call", tool, "@arguments.json"])
}

#[test]
fn operations_are_tools_with_schemas_of_their_own() {
    let dir = dir();
    configure(dir.path(), "http://127.0.0.1:9", "");
    let listed = run(dir.path(), &["--json", "tools", "list"]).ok().json();
    let names: Vec<_> =
        listed.as_array().unwrap().iter().map(|tool| tool["toolId"].clone()).collect();
    assert_eq!(
        names,
        [
            "connector:shop.form",
            "connector:shop.items_list",
            "connector:shop.put_shops_shop_items_kind",
            "connector:shop.upload",
        ]
    );
    let shown = run(dir.path(), &["--json", "tools", "show", "shop__items_list"]).ok().json();
    let input = &shown["inputSchema"];
    assert_eq!(input["required"], json!(["kind", "shop"]), "{shown}");
    assert!(input["properties"].get("Authorization").is_none(), "it is nobody's argument");
    assert_eq!(
        shown["outputSchema"],
        json!({ "$ref": "#/$defs/Page", "$defs": {
            "Page": { "type": "object", "properties": {
                "items": { "type": "array", "items": { "$ref": "#/$defs/Node" } },
                "next": { "type": ["string", "null"] },
            } },
            "Node": { "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string" }, "no": { "type": "boolean" },
                "child": { "$ref": "#/$defs/Node" },
                "price": { "type": "number", "exclusiveMinimum": 0 },
            } },
        } })
    );
    assert_eq!(shown["egress"], "safe-fetch");
}

#[test]
fn a_server_that_calls_cannot_reach_is_a_problem() {
    let dir = dir();
    let document = json!({
        "openapi": "3.1.0", "info": { "title": "t", "version": "1" },
        "servers": [{ "url": "http://127.0.0.1:9/api" }],
        "paths": { "/a": { "get": { "operationId": "a", "responses": {} } } },
    });
    std::fs::write(dir.path().join("shop.json"), document.to_string()).unwrap();
    let checked = |more: &str| {
        let source = "[[source]]\nid = \"shop\"\nkind = \"connector\"\ndocument = \"shop.json\"\n";
        let rules = "[source.tools.\"*\"]\nscopes = [\"shop:use\"]\nsafety_tier = \"read\"\n";
        write_config(dir.path(), &format!("{source}{more}\n{rules}"));
        run(dir.path(), &["config", "check", "--connect"])
    };
    let refused = checked("");
    assert_eq!(refused.code, 3, "{refused:?}");
    let said = format!("{}{}", refused.stdout, refused.stderr);
    let problem =
        "calls of 1 of its operations are refused, because http://127.0.0.1:9 is not a public";
    assert!(said.contains(problem), "{said}");
    for mended in [
        "allow = [\"127.0.0.1\"]",
        "base_url = \"http://127.0.0.1:9/api\"\nallow = [\"127.0.0.1\"]",
    ] {
        let checked = checked(mended);
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(!said.contains("are refused"), "{said}");
    }
}

#[test]
fn arguments_reach_the_service_byte_for_byte() {
    // I-46
    let dir = dir();
    let service = Recorder::start(|_, _| recorder::json(200, r#"{"items":[],"next":null}"#));
    configure(dir.path(), &service.url, "headers = { X-Shop-Key = { file = \"key\" } }");
    std::fs::write(dir.path().join("key"), "of-the-shop").unwrap();
    let ran = call(
        dir.path(),
        "shop__items_list",
        &json!({
            "shop": "Käse & Co/..", "kind": ["a b", "c;d"], "tags": ["x y", "z"],
            "filter": { "price": { "max": 5 }, "a&b": ["=", "#"] }, "near": { "lat": 1.5 },
            "q": "a/b?c&d=e+f%", "X-Trace": [1, 2], "session": "s; admin=1",
        }),
    );
    assert_eq!(ran.ok().stdout.trim(), r#"{"items":[],"next":null}"#);
    assert_eq!(
        service.heard(),
        ["GET /base/shops/K%C3%A4se%20%26%20Co%2F../items;kind=a%20b;kind=c%3Bd?tags=x%20y%7Cz\
          &filter%5Bprice%5D%5Bmax%5D=5&filter%5Ba%26b%5D%5B0%5D=%3D&filter%5Ba%26b%5D%5B1%5D=%23\
          &near=%7B%22lat%22%3A1.5%7D&q=a/b?c%26d%3De%2Bf%25 HTTP/1.1\n\
          cookie: session=s%3B%20admin%3D1\nx-shop-key: of-the-shop\nx-trace: 1,2\n\n"]
    );

    let node = json!({ "name": "n", "child": { "name": "m\u{0}" }, "z": 0.1, "a": 9_007_199_254_740_991_u64 });
    call(
        dir.path(),
        "shop__put_shops_shop_items_kind",
        &json!({ "shop": "s", "kind": "k", "body": node }),
    )
    .ok();
    call(
        dir.path(),
        "shop__form",
        &json!({ "body": {
        "a": "ü &=+\r\n", "list": ["1", "2 3"], "deep": { "x": [1] },
    } }),
    )
    .ok();
    call(dir.path(), "shop__form", &json!({})).ok();
    let head = |line: &str, kind: &str| {
        format!("{line} HTTP/1.1\ncontent-type: {kind}\nx-shop-key: of-the-shop\n\n")
    };
    let form = head("POST /base/forms", "application/x-www-form-urlencoded");
    assert_eq!(
        service.heard(),
        [
            head("PUT /base/shops/s/itemsk", "application/json")
                + r#"{"name":"n","child":{"name":"m\u0000"},"z":0.1,"a":9007199254740991}"#,
            form + "a=%C3%BC+%26%3D%2B%0D%0A&list=1&list=2+3&deep=%7B%22x%22%3A%5B1%5D%7D",
            "POST /base/forms HTTP/1.1\nx-shop-key: of-the-shop\n\n".to_owned(),
        ]
    );

    call(
        dir.path(),
        "shop__upload",
        &json!({ "body": {
        "note": "a\r\n--b", "file": "AAF/", "meta": { "k": 1 },
    } }),
    )
    .ok();
    let heard = service.heard().join("");
    let boundary = heard.split("boundary=").nth(1).unwrap().split('\n').next().unwrap();
    assert!(boundary.len() > 30, "{heard}");
    assert_eq!(
        heard.replace(boundary, "B"),
        head("POST /base/files", "multipart/form-data; boundary=B")
            + "--B\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\na\r\n--b\r\n\
               --B\r\nContent-Disposition: form-data; name=\"meta\"\r\n\
               Content-Type: application/json\r\n\r\n{\"k\":1}\r\n\
               --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n\
               Content-Type: application/octet-stream\r\n\r\n\0\u{1}\u{7f}\r\n--B--\r\n"
    );
}

#[test]
fn what_does_not_fit_is_not_sent() {
    let dir = dir();
    let service = Recorder::start(|_, _| recorder::json(200, "{}"));
    configure(dir.path(), &service.url, "");
    for (tool, arguments, why) in [
        ("items_list", json!({ "shop": "..", "kind": ["a"] }), "must not be `.` or `..`"),
        ("items_list", json!({ "shop": "", "kind": ["a"] }), "must not be empty"),
        ("items_list", json!({ "kind": ["a"] }), "shop"),
        ("items_list", json!({ "shop": "s", "kind": ["a"], "X-Trace": ["a\r\nx: y"] }), "X-Trace"),
        ("upload", json!({ "body": { "file": "no base64!" } }), "must be base64"),
    ] {
        let ran = call(dir.path(), &format!("shop__{tool}"), &arguments);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(format!("{ran:?}").contains(why), "{why}: {ran:?}");
    }
    assert_eq!(service.heard(), [""; 0]);
}

#[test]
fn answers_become_results_and_failures_say_what_happened() {
    let dir = dir();
    let service = Recorder::start(|_, target| match target {
        "/base/forms" => recorder::json(404, r#"{"error":"no such form"}"#),
        _ => "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 2\r\n\r\nPN".to_owned(),
    });
    configure(dir.path(), &service.url, "");
    let failed = call(dir.path(), "shop__form", &json!({}));
    assert_eq!(failed.code, 1);
    assert!(
        failed.stdout.contains("HTTP 404 Not Found\n{\"error\":\"no such form\"}"),
        "{failed:?}"
    );
    let file = json!({ "body": { "file": "AA==" } });
    std::fs::write(dir.path().join("a.json"), file.to_string()).unwrap();
    let image = run(dir.path(), &["--json", "call", "shop__upload", "@a.json"]).ok().json();
    assert!(image.to_string().contains("\"mimeType\":\"image/png\""), "{image}");
}

#[test]
fn operations_are_chosen_and_documents_may_be_wrong() {
    let dir = dir();
    let names = || {
        let listed = run(dir.path(), &["--json", "tools", "list"]).ok().json();
        let names = listed.as_array().unwrap().iter();
        names.map(|tool| tool["wireName"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    configure(
        dir.path(),
        "http://127.0.0.1:9",
        "operations = [\"POST /*\", \"items_*\", \"!upload\"]",
    );
    assert_eq!(names(), ["shop__form", "shop__items_list"]);
    configure(dir.path(), "http://127.0.0.1:9", "operations = [\"* /shops/{shop}/**\"]");
    assert_eq!(names(), ["shop__items_list", "shop__put_shops_shop_items_kind"]);

    std::fs::write(dir.path().join("shop.yaml"), "openapi: 3.1.0\nopenapi: 3.1.0\n").unwrap();
    let checked = run(dir.path(), &["sources", "check"]);
    assert!(checked.stdout.contains("the OpenAPI document is not YAML"), "{checked:?}");
    let problem = |more: &str| {
        let text = format!("[[source]]\nid = \"shop\"\nkind = \"connector\"\n{more}\n");
        write_config(dir.path(), &text);
        let checked = run(dir.path(), &["config", "check"]);
        assert_ne!(checked.code, 0, "{more}");
        checked.stdout + &checked.stderr
    };
    for (more, why) in [
        ("", "`source.shop.document`: expected the OpenAPI document"),
        ("document = \"ftp://x/y\"", "expected an http or https address"),
        ("document = \"a.yaml\"\nbase_url = \"x\"", "`source.shop.base_url`"),
        ("document = \"a.yaml\"\nheaders = { X-A = \"b\" }", "say where it is with `base_url`"),
        ("document = \"a.yaml\"\noperations = [\"a[\"]", "is not a glob"),
        ("document = \"a.yaml\"\ncommand = [\"x\"]", "is only for a source of kind \"mcp\""),
    ] {
        let told = problem(more);
        assert!(told.contains(why), "{why}: {told}");
    }
}

/// All spellings of forbidden addresses are refused, and the record contains only their hosts.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_inside_and_each_refusal_is_recorded() {
    // I-35
    let inside = [
        "http://127.0.0.1:1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://0/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.0.1/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://0xa9fea9fe/",
        "http://192.0.0.1/",
        "http://192.0.2.1/",
        "http://198.18.0.1/",
        "http://198.51.100.1/",
        "http://203.0.113.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::]/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::a00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001:0:7f00:1::]/",
        "http://[2001:db8::1]/",
        "http://[100::1]/",
        "http://[fc00::1]/",
        "http://[fe80::1]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "http://localhost/",
        "http://a.localhost/",
        "http://localhost./",
        "http://１２７.0.0.1/",
    ];
    let redirecting = Recorder::start(|_, _| {
        "HTTP/1.1 302 X\r\nlocation: http://169.254.169.254/secret?token=1\r\ncontent-length: 0\r\n\r\n"
            .to_owned()
    });
    let mut paths = serde_json::Map::new();
    for (n, url) in inside.iter().copied().chain([redirecting.url.as_str()]).enumerate() {
        let operation = json!({ "operationId": format!("op{n}"), "servers": [{ "url": url }] });
        paths.insert(format!("/private/{n}"), json!({ "get": operation }));
    }
    let document = json!({ "openapi": "3.1.0", "paths": paths });
    let dir = dir();
    std::fs::write(dir.path().join("evil.json"), document.to_string()).unwrap();
    let config = |allow: &str| {
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[[source]]\nid = \"evil\"\nkind = \"connector\"\n\
             document = \"evil.json\"\n{allow}\n[source.tools.\"*\"]\nscopes = []\n"
        )
    };
    write_config(dir.path(), &config(""));
    let (_, secret) =
        key(dir.path(), &["--principal", "ada", "--tenant", "default", "--scope", "*"]);
    let server = Server::start(dir.path());
    let caller = server.caller(Some(&secret));
    while caller.get("/tools").await.1["tools"].as_array().unwrap().len() <= inside.len() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let mut runs = Vec::new();
    for n in 0..=inside.len() {
        let tool = format!("evil__op{n}");
        let (status, body) = caller.otc(&tool, json!({})).await;
        assert!(body.to_string().contains("ssrf_blocked"), "{n}: {status} {body}");
        // The random id of the call may contain the digits.
        let error = &body["result"]["error"];
        assert!(error.is_object() && !error.to_string().contains("254"), "{body}");
        runs.push(caller.recorded(&tool, json!({})).await.unwrap().1);
    }
    assert_eq!(redirecting.heard(), [""; 0]);
    server.stop();

    let exported = run(dir.path(), &["audit", "export"]).ok().stdout;
    assert!(!exported.contains("private") && !exported.contains("meta-data"), "hosts alone");
    let events: Vec<Value> =
        exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (n, run) in runs.iter().enumerate() {
        let of_run: Vec<_> = events.iter().filter(|event| event["runId"] == **run).collect();
        let kinds: Vec<_> = of_run.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["agent.toolCalled", "egress.decided", "agent.toolReturned"], "{n}");
        let decided = &of_run[1]["payload"];
        assert_eq!(
            (&decided["decision"], &decided["reason"]),
            (&json!("denied"), &json!("ssrf-blocked"))
        );
        let returned = &of_run[2]["payload"];
        assert_eq!(returned["status"], "forbidden", "{n}: {returned}");
        assert!(returned.get("durationMs").is_none(), "{n}: nothing ran");
    }
    assert_eq!(runs.iter().collect::<BTreeSet<_>>().len(), inside.len() + 1);

    // A host that the operator allows is reached, but its redirects are not followed.
    write_config(dir.path(), &config("allow = [\"127.0.0.0/8\"]"));
    let server = Server::start(dir.path());
    let caller = server.caller(Some(&secret));
    while caller.get("/tools").await.1["tools"].as_array().unwrap().len() <= inside.len() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let redirected = format!("evil__op{}", inside.len());
    let (_, body) = caller.otc(&redirected, json!({})).await;
    assert!(body.to_string().contains("ssrf_blocked"), "{body}");
    let (_, run_id) = caller.recorded(&redirected, json!({})).await.unwrap();
    assert_eq!(redirecting.heard().len(), 2);
    let (_, elsewhere) = caller.otc("evil__op8", json!({})).await;
    assert!(elsewhere.to_string().contains("ssrf_blocked"), "10.0.0.1 was not listed: {elsewhere}");
    server.stop();
    let exported = run(dir.path(), &["audit", "export"]).ok().stdout;
    let events = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_run: Vec<_> = events.filter(|event| event["runId"] == run_id).collect();
    let told = |n: usize, member: &str| of_run[n]["payload"][member].clone();
    assert_eq!(
        (told(1, "decision"), told(1, "destination")),
        (json!("allowed"), json!("127.0.0.1"))
    );
    assert_eq!(
        (told(2, "decision"), told(2, "destination")),
        (json!("denied"), json!("169.254.169.254"))
    );
    assert_eq!(told(3, "status"), "error", "it ran");
}

/// Another toolcrib, through its own document.
#[tokio::test(flavor = "multi_thread")]
async fn toolcrib_is_connected_to_its_own_document() {
    let dir = dir();
    let data = dir.path().join("data");
    let other = Server::demo(&data);
    std::fs::write(
        dir.path().join("header"),
        format!("Bearer {}", crate::support::demo_key(&data, "admin")),
    )
    .unwrap();
    write_config(
        dir.path(),
        &format!(
            "[[source]]\nid = \"crib\"\nkind = \"connector\"\ndocument = \"{url}/v1/openapi.json\"\n\
             headers = {{ Authorization = {{ file = \"header\" }} }}\n\
             [source.tools.\"*\"]\nscopes = []\n",
            url = other.url
        ),
    );
    let listed = run(dir.path(), &["--json", "tools", "list"]).ok().json();
    let names: Vec<_> =
        listed.as_array().unwrap().iter().map(|tool| tool["wireName"].as_str().unwrap()).collect();
    let document: Value = other.caller(None).get("/v1/openapi.json").await.1;
    let operations: usize = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .map(|item| {
            item.as_object()
                .unwrap()
                .keys()
                .filter(|key| ["get", "post", "put", "delete"].contains(&key.as_str()))
                .count()
        })
        .sum();
    assert_eq!(names.len(), operations, "{names:?}");
    let checked = run(dir.path(), &["sources", "check"]).ok();
    assert!(!checked.stdout.contains("left out"), "{}", checked.stdout);
    let called = |tool: &str, arguments: &Value| {
        let ran = call(dir.path(), &format!("crib__{tool}"), arguments).ok();
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let listed = called("listTools", &json!({ "source": "mcp" }));
    assert_eq!(listed.as_array().unwrap().len(), 6, "{listed}");
    let echo = called("getTool", &json!({ "toolId": "mcp:demo.echo" }));
    assert_eq!(echo["toolId"], "mcp:demo.echo");
}

/// A pack with a `connector` block (RFC 0045).
#[test]
fn a_pack_may_be_the_connector() {
    let dir = dir();
    let pack = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/everyday");
    let own = dir.path().join("acme");
    std::fs::create_dir(&own).unwrap();
    for entry in std::fs::read_dir(pack).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            std::fs::create_dir(own.join(entry.file_name())).unwrap();
            for file in std::fs::read_dir(entry.path()).unwrap() {
                let file = file.unwrap();
                let to = own.join(entry.file_name()).join(file.file_name());
                std::fs::copy(file.path(), to).unwrap();
            }
        } else {
            std::fs::copy(entry.path(), own.join(entry.file_name())).unwrap();
        }
    }
    let manifest = own.join("pack.json");
    let mut text: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    text["connector"] = json!({ "id": "acme", "displayName": "Acme", "actions": [
        { "typeId": "vendor.toolcrib.everyday.json-diff", "displayName": "Compare",
          "rateLimit": { "requests": 5, "perSeconds": 60 } },
    ] });
    std::fs::write(&manifest, text.to_string()).unwrap();
    let config = |more: &str| {
        let text = format!(
            "[[source]]\nid = \"acme\"\nkind = \"connector\"\npack = \"./acme\"\n{more}\n\
             [source.tools.\"*\"]\nscopes = []\n"
        );
        write_config(dir.path(), &text);
    };
    config("");
    let listed = run(dir.path(), &["--json", "tools", "list"]).ok().json();
    let told = |key: &str| listed[0][key].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(
        (told("toolId"), told("title")),
        (json!("connector:acme.json-diff"), json!("Compare"))
    );
    let ran = call(dir.path(), "acme__json-diff", &json!({ "from": 1, "to": 1 })).ok();
    assert_eq!(ran.stdout.trim(), r#"{"equal":true,"patch":[]}"#);

    config("base_url = \"http://a.example\"");
    let checked = run(dir.path(), &["config", "check"]);
    let told = checked.stdout + &checked.stderr;
    assert!(
        told.contains(
            "`source.acme.base_url`: is only for a source of kind \"connector\" with `document`"
        ),
        "{told}"
    );
}
