//! Connectors from documents of several files: in folders and at addresses.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::support::{CommandOutput, Recorder, Server, dir, key, recorder, run, write_config};

/// The files of a document by path, in JSON and YAML.
const FILES: &[(&str, &str)] = &[
    (
        "openapi.yaml",
        "openapi: 3.0.3\ninfo: {title: Garden, version: 1.0.0}\npaths:\n\
         \x20 /beds: {$ref: paths/beds.yml}\n\
         \x20 /beds/{bed}:\n\
         \x20   parameters: [{$ref: 'shared/parameters.json#/bed'}]\n\
         \x20   delete: {$ref: 'paths/bed/delete.yml'}\n\
         \x20   get:\n\
         \x20     operationId: missing\n\
         \x20     parameters: [{$ref: shared/gone.yml}]\n\
         \x20 /outside:\n\
         \x20   get: {operationId: outside, parameters: [{$ref: ../secret.yaml}]}\n\
         \x20   put: {operationId: link, parameters: [{$ref: shared/link.yaml}]}\n\
         \x20   post: {operationId: hidden, parameters: [{$ref: .hidden/a.json}]}\n\
         \x20   patch: {operationId: other, parameters: [{$ref: key.pem}]}\n\
         \x20   head: {operationId: absolute, parameters: [{$ref: /etc/hosts.json}]}\n\
         \x20   trace: {operationId: remote, parameters: [{$ref: 'http://127.0.0.1:9/a.json'}]}\n\
         components:\n\
         \x20 schemas: {Root: {type: string, nullable: true}}\n",
    ),
    (
        "paths/beds.yml",
        "post:\n\
         \x20 operationId: plant\n\
         \x20 parameters: [{$ref: '../shared/parameters.json#/dry'}]\n\
         \x20 requestBody: {$ref: '../shared/bodies.yml#/plant'}\n\
         \x20 responses: {'201': {$ref: '../shared/responses.yml#/planted'}}\n\
         parameters: [{$ref: '../shared/parameters.json#/owner'}]\n",
    ),
    (
        "paths/bed/delete.yml",
        "operationId: clear\nparameters: [{$ref: '../../shared/parameters.json#/dry'}]\n\
         responses: {'204': {description: gone}}\n",
    ),
    (
        "shared/parameters.json",
        r##"{
            "bed": { "name": "bed", "in": "path", "required": true, "schema": { "$ref": "#/id" } },
            "dry": { "name": "dry", "in": "query", "schema": { "type": "boolean" } },
            "owner": { "name": "X-Owner", "in": "header", "schema": { "$ref": "../openapi.yaml#/components/schemas/Root" } },
            "id": { "type": "integer" }
        }"##,
    ),
    (
        "shared/bodies.yml",
        "plant:\n  required: true\n  content:\n    application/json:\n\
         \x20     schema: {$ref: 'models/plant.yaml'}\n",
    ),
    (
        "shared/responses.yml",
        "planted: {content: {application/json: {schema: {$ref: models/plant.yaml}}}}\n",
    ),
    (
        "shared/models/plant.yaml",
        "type: object\nrequired: [name]\nproperties:\n  name: {type: string}\n\
         \x20 seed: {$ref: 'seed.json#/definitions/seed'}\n",
    ),
    (
        "shared/models/seed.json",
        r##"{ "definitions": { "seed": { "type": "object", "properties": {
            "of": { "$ref": "./plant.yaml" }, "size": { "$ref": "#/definitions/size" }
        } }, "size": { "type": "number", "minimum": 0, "exclusiveMinimum": true } } }"##,
    ),
    (".hidden/a.json", r#"{ "name": "hidden", "in": "query" }"#),
    ("key.pem", "name: key\nin: query\n"),
];

/// The problems of the operations that refer to files which are not read, by their operation.
const PROBLEMS: &[&str] = &[
    "GET /beds/{bed} is left out: the $ref `shared/gone.yml` is not read: not found",
    "GET /outside is left out: the $ref `../secret.yaml` is not read: it is outside the folder of \
     the document",
    "PUT /outside is left out: the $ref `shared/link.yaml` is not read: it is a link to a file \
     outside the folder of the document",
    "POST /outside is left out: the $ref `.hidden/a.json` is not read: hidden files are not read",
    "PATCH /outside is left out: the $ref `key.pem` is not read: only files named *.yaml, *.yml \
     and *.json are read",
    "HEAD /outside is left out: the $ref `/etc/hosts.json` is not read: it is outside the folder \
     of the document",
    "TRACE /outside is left out: the $ref `http://127.0.0.1:9/a.json` is not read: its host is not \
     in the source's `allow`; add it there if this is intended",
];

/// Writes the files into the folder `api` of `dir`.
fn write_files(dir: &Path) {
    for (path, text) in FILES {
        let file = dir.join("api").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    fs::write(dir.join("secret.yaml"), "name: secret\nin: query\n").unwrap();
    std::os::unix::fs::symlink("../../secret.yaml", dir.join("api/shared/link.yaml")).unwrap();
}

fn configure(dir: &Path, document: &str, more: &str) {
    write_config(
        dir,
        &format!(
            "[[source]]\nid = \"garden\"\nkind = \"connector\"\ndocument = \"{document}\"\n{more}\n\
             [source.tools.\"*\"]\nscopes = []\n"
        ),
    );
}

fn call(dir: &Path, tool: &str, arguments: &Value) -> CommandOutput {
    fs::write(dir.join("arguments.json"), arguments.to_string()).unwrap();
    run(dir, &["call", tool, "@arguments.json"])
}

fn names(dir: &Path) -> Vec<String> {
    let listed = run(dir, &["--json", "tools", "list"]).ok().json();
    let names = listed.as_array().unwrap().iter();
    names.map(|tool| tool["wireName"].as_str().unwrap().to_owned()).collect()
}

/// Checks the tools of the document against a service.
fn check_tools(dir: &Path, service: &Recorder) {
    assert_eq!(names(dir), ["garden__clear", "garden__plant"]);
    let shown = run(dir, &["--json", "tools", "show", "garden__plant"]).ok().json();
    let plant = json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string" }, "seed": { "$ref": "#/$defs/seed" },
    } });
    let seed = json!({ "type": "object", "properties": {
        "of": { "$ref": "#/$defs/plant" }, "size": { "$ref": "#/$defs/size" },
    } });
    let size = json!({ "type": "number", "exclusiveMinimum": 0 });
    assert_eq!(
        shown["inputSchema"],
        json!({
            "type": "object",
            "properties": {
                "dry": { "type": "boolean" },
                "X-Owner": { "$ref": "#/$defs/Root" },
                "body": { "$ref": "#/$defs/plant" },
            },
            "required": ["body"],
            "additionalProperties": false,
            "$defs": {
                "Root": { "type": ["string", "null"] }, "plant": plant, "seed": seed, "size": size,
            },
        })
    );
    assert_eq!(shown["outputSchema"]["$ref"], "#/$defs/plant", "{shown}");
    call(dir, "garden__clear", &json!({ "bed": 7, "dry": true })).ok();
    let body = json!({ "name": "n", "seed": { "of": { "name": "m" }, "size": 1 } });
    call(dir, "garden__plant", &json!({ "X-Owner": "ada", "body": body })).ok();
    let refused =
        call(dir, "garden__plant", &json!({ "body": { "name": "n", "seed": { "size": 0 } } }));
    assert_eq!(refused.code, 1, "the schema of another file is checked: {refused:?}");
    let heard: Vec<_> =
        service.heard().into_iter().filter(|request| !request.starts_with("GET ")).collect();
    assert_eq!(
        heard,
        [
            "DELETE /beds/7?dry=true HTTP/1.1\n\n\n".to_owned(),
            "POST /beds HTTP/1.1\ncontent-type: application/json\nx-owner: ada\n\n".to_owned()
                + &body.to_string(),
        ]
    );
}

fn check_problems(dir: &Path, problems: &[&str]) {
    let checked = run(dir, &["--json", "sources", "check"]).json().to_string();
    for problem in problems {
        let text = json!(problem).to_string();
        assert!(checked.contains(text.trim_matches('"')), "{problem}: {checked}");
    }
    assert_eq!(checked.matches("is left out").count(), problems.len(), "{checked}");
}

#[test]
fn a_document_may_be_a_folder_or_its_root_file() {
    let dir = dir();
    write_files(dir.path());
    let service = Recorder::start(|_, _| recorder::json(200, r#"{"name":"n"}"#));
    let base = format!("base_url = \"{}\"", service.url);
    for document in ["api", "api/", "api/openapi.yaml", "./api/../api/openapi.yaml"] {
        configure(dir.path(), document, &base);
        check_tools(dir.path(), &service);
        check_problems(dir.path(), PROBLEMS);
    }
    // A link to the folder is the folder.
    std::os::unix::fs::symlink("api", dir.path().join("linked")).unwrap();
    configure(dir.path(), "linked", &base);
    check_tools(dir.path(), &service);

    fs::rename(dir.path().join("api/openapi.yaml"), dir.path().join("api/garden.yaml")).unwrap();
    let checked = run(dir.path(), &["sources", "check"]);
    let told = "the folder has no openapi.yaml, openapi.yml, openapi.json; name the root document";
    assert!(checked.stdout.contains(told), "{checked:?}");
}

/// The source sees a change of any file at its next read, and a changed request is quarantined.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_any_file_is_a_change_of_the_document() {
    let dir = dir();
    write_files(dir.path());
    let service = Recorder::start(|_, _| recorder::json(200, "{}"));
    let more = format!("base_url = \"{}\"\nrefresh = \"1s\"", service.url);
    configure(dir.path(), "api", &more);
    let (_, secret) =
        key(dir.path(), &["--principal", "ada", "--tenant", "default", "--scope", "*"]);
    let server = Server::start(dir.path());
    let caller = server.caller(Some(&secret));
    let offered = async |wanted: &[&str]| loop {
        let listed = caller.get("/tools").await.1;
        let tools = listed["tools"].as_array().unwrap().iter();
        let names: Vec<_> = tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        if names == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    offered(&["garden__clear", "garden__plant"]).await;
    // `dry` becomes a header: the same argument is sent elsewhere.
    let file = dir.path().join("api/shared/parameters.json");
    let text = fs::read_to_string(&file).unwrap();
    let dry = r#""dry", "in": "query""#;
    assert!(text.contains(dry));
    fs::write(&file, text.replace(dry, r#""dry", "in": "header""#)).unwrap();
    offered(&[]).await;
    fs::write(&file, text).unwrap();
    offered(&["garden__clear", "garden__plant"]).await;
    server.stop();
}

/// Answers like a server of static files, whose contents can change.
fn file_server(status: Arc<Mutex<Option<u16>>>) -> Recorder {
    Recorder::start(move |method, target| {
        if method != "GET" {
            return recorder::json(200, r#"{"name":"n"}"#);
        }
        let is_target = |name: &str| target.strip_prefix("/docs/") == Some(name);
        let public = FILES.iter().filter(|(name, _)| *name != "key.pem" && !name.starts_with('.'));
        match public.into_iter().find(|(name, _)| is_target(name)) {
            Some(("shared/parameters.json", _)) if status.lock().unwrap().is_some() => {
                recorder::json(status.lock().unwrap().unwrap(), "{}")
            }
            Some((_, text)) => format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            ),
            None => recorder::json(404, "{}"),
        }
    })
}

#[test]
fn references_of_a_document_at_an_address_are_addresses() {
    let dir = dir();
    let status = Arc::new(Mutex::new(None));
    let service = file_server(Arc::clone(&status));
    let document = format!("{}/docs/openapi.yaml", service.url);
    let more = format!("base_url = \"{}\"", service.url);
    configure(dir.path(), &document, &more);
    check_tools(dir.path(), &service);
    // Headers go to the files as well, which are on the same origin. Each file is read once.
    configure(dir.path(), &document, &format!("{more}\nheaders = {{ X-Key = \"of-the-garden\" }}"));
    names(dir.path());
    let mut heard = service.heard();
    assert!(heard.iter().all(|request| request.contains("x-key: of-the-garden")), "{heard:?}");
    heard.retain(|request| request.starts_with("GET /docs/shared/models/plant.yaml"));
    assert_eq!(heard.len(), 1, "{heard:?}");
    // What a file server does not have is left out, with what it answered.
    check_problems(
        dir.path(),
        &[
            "GET /beds/{bed} is left out: the $ref `shared/gone.yml` is not read: HTTP 404",
            "GET /outside is left out: the $ref `../secret.yaml` is not read: HTTP 404",
            "PUT /outside is left out: the $ref `shared/link.yaml` is not read: HTTP 404",
            "POST /outside is left out: the $ref `.hidden/a.json` is not read: HTTP 404",
            "PATCH /outside is left out: the $ref `key.pem` is not read: HTTP 404",
            "HEAD /outside is left out: the $ref `/etc/hosts.json` is not read: HTTP 404",
            "TRACE /outside is left out: the $ref `http://127.0.0.1:9/a.json` is not read: its \
             host is not in the source's `allow`",
        ],
    );
    *status.lock().unwrap() = Some(410);
    let checked = run(dir.path(), &["--json", "sources", "check"]).json().to_string();
    assert!(checked.contains("parameters.json#/dry` is not read: HTTP 410"), "{checked}");
    assert_eq!(names(dir.path()), [""; 0], "no tool without its arguments");
}

/// A file that cannot be fetched for a while does not change the tools.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_fails_for_a_while_keeps_the_last_tools() {
    let dir = dir();
    let status = Arc::new(Mutex::new(None));
    let service = file_server(Arc::clone(&status));
    let document = format!("{}/docs/openapi.yaml", service.url);
    configure(dir.path(), &document, "refresh = \"1s\"");
    let (_, secret) =
        key(dir.path(), &["--principal", "ada", "--tenant", "default", "--scope", "*"]);
    let server = Server::start(dir.path());
    let caller = server.caller(Some(&secret));
    let count = async || caller.get("/tools").await.1["tools"].as_array().unwrap().len();
    while count().await != 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    for (answer, left) in [(503, 2), (404, 0)] {
        *status.lock().unwrap() = Some(answer);
        service.heard();
        let mut reads = 0;
        // The second read begins after the first one was taken over.
        while reads < 2 {
            let heard = service.heard();
            reads += heard.iter().filter(|it| it.contains("/docs/openapi.yaml")).count();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        while count().await != left {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    server.stop();
}

#[test]
fn a_host_in_allow_may_have_files() {
    let dir = dir();
    let far = Recorder::start(|_, target| match target {
        "/p.json" => recorder::json(200, r#"[{ "name": "far", "in": "query" }]"#),
        "/leads-inside" => "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.2:1/a.json\r\n\
                            content-length: 0\r\n\r\n"
            .to_owned(),
        _ => recorder::json(404, "{}"),
    });
    let service = Recorder::start(|_, _| recorder::json(200, "{}"));
    let operation = |id: &str, target: &str| json!({ "get": { "operationId": id, "parameters": [{ "$ref": target }] } });
    let document = json!({ "openapi": "3.1.0", "paths": {
        "/far": operation("far", &format!("{}/p.json#/0", far.url)),
        "/redirect": operation("redirect", &format!("{}/leads-inside", far.url)),
    } });
    fs::write(dir.path().join("openapi.json"), document.to_string()).unwrap();
    let base = format!("base_url = \"{}\"\nheaders = {{ X-Key = \"a\" }}", service.url);
    configure(dir.path(), "openapi.json", &base);
    assert_eq!(names(dir.path()), [""; 0]);
    assert_eq!(far.heard(), [""; 0]);
    configure(dir.path(), "openapi.json", &format!("{base}\nallow = [\"127.0.0.1\"]"));
    assert_eq!(names(dir.path()), ["garden__far"]);
    let heard = far.heard();
    assert!(!heard.is_empty() && heard.iter().all(|it| !it.contains("x-key")), "{heard:?}");
    call(dir.path(), "garden__far", &json!({ "far": "f" })).ok();
    assert_eq!(service.heard(), ["GET /far?far=f HTTP/1.1\nx-key: a\n\n"]);
    let checked = run(dir.path(), &["--json", "sources", "check"]).json().to_string();
    assert!(checked.contains("a redirect was not followed"), "{checked}");
}

/// A document of version 3.2, and forms that are composed of other schemas.
#[test]
fn methods_of_3_2_and_composed_forms_are_sent() {
    let dir = dir();
    let service = Recorder::start(|_, _| recorder::json(200, "{}"));
    let document = "openapi: 3.2.0\ninfo: {title: T, version: '1'}\npaths:\n  /items:\n\
        \x20   query: {operationId: search, requestBody: {content: {application/json: {}}}}\n\
        \x20   additionalOperations: {COPY: {operationId: copy}, GET: {operationId: get}}\n\
        \x20   post:\n      operationId: form\n      requestBody:\n        content:\n\
        \x20         application/x-www-form-urlencoded:\n\
        \x20           schema: {allOf: [{$ref: '#/components/schemas/F'}, {type: object}]}\n\
        \x20           encoding: {meta: {style: deepObject}}\n\
        components: {schemas: {F: {properties: {meta: {type: object}}}}}\n";
    fs::write(dir.path().join("api.yaml"), document).unwrap();
    configure(dir.path(), "api.yaml", &format!("base_url = \"{}\"", service.url));
    assert_eq!(names(dir.path()), ["garden__copy", "garden__form", "garden__search"]);
    call(dir.path(), "garden__search", &json!({ "body": { "a": 1 } })).ok();
    call(dir.path(), "garden__copy", &json!({})).ok();
    call(dir.path(), "garden__form", &json!({ "body": { "meta": { "k": "v" } } })).ok();
    assert_eq!(
        service.heard(),
        [
            "QUERY /items HTTP/1.1\ncontent-type: application/json\n\n{\"a\":1}",
            "COPY /items HTTP/1.1\n\n\n",
            "POST /items HTTP/1.1\ncontent-type: application/x-www-form-urlencoded\n\n\
             meta%5Bk%5D=v",
        ]
    );
    check_problems(
        dir.path(),
        &["GET /items is left out: the specification forbids this method in \
           `additionalOperations`"],
    );
}
