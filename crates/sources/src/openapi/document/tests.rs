use std::collections::BTreeMap;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn parsed(bytes: &[u8]) -> Result<Document, DocumentError> {
    DocumentBuilder::new(url("file:///api/openapi.json"), bytes).map(DocumentBuilder::finish)
}

/// Reads the document at `root` with the other `files`, by address.
fn read(root: &str, files: &[(&str, &str)]) -> Document {
    let files: BTreeMap<Url, &str> = files.iter().map(|(at, text)| (url(at), *text)).collect();
    let mut builder = DocumentBuilder::new(url(root), files[&url(root)].as_bytes()).unwrap();
    let mut read = vec![url(root)];
    loop {
        let requests = builder.requests();
        if requests.is_empty() {
            return builder.finish();
        }
        for (id, at) in requests {
            assert!(!read.contains(&at), "each file is requested once");
            let content = files.get(&at).map(|text| text.as_bytes().to_vec());
            builder.add(id, content.ok_or_else(|| "not found".to_owned()));
            read.push(at);
        }
    }
}

#[test]
fn json_and_yaml_are_read_to_the_same() {
    let json = br#"{"openapi":"3.1.0","info":{"version":"no"},"paths":{"/a":{"get":{"responses":{"200":{}}}}}}"#;
    let yaml = b"openapi: 3.1.0\ninfo: {version: no}\npaths:\n  /a:\n    get:\n      responses:\n        200: {}\n";
    let (json, yaml) = (parsed(json).unwrap(), parsed(yaml).unwrap());
    assert_eq!(json.root().value, yaml.root().value);
    assert_eq!(json.version().as_deref(), Some("no"), "and not `false`");
}

#[test]
fn an_invalid_document_is_refused() {
    let deep = format!("{{\"openapi\":\"3.1.0\",\"x\":{}{}}}", "[".repeat(120), "]".repeat(120));
    let bomb: String = (1..40).fold("a0: &a0 [x, x]\n".to_owned(), |bomb, n| {
        format!("{bomb}a{n}: &a{n} [*a{m}, *a{m}, *a{m}]\n", m = n - 1)
    });
    let bomb = format!("openapi: 3.1.0\n{bomb}");
    for text in [
        "",
        "{",
        "[]",
        "null",
        "swagger: '2.0'",
        "{\"openapi\":\"4.0.0\"}",
        "{\"openapi\":3.1}",
        "{\"openapi\":\"3.1.0\",\"openapi\":\"3.1.0\"}",
        "openapi: 3.1.0\nopenapi: 3.1.0\n",
        "openapi: '3.1.0\n",
        "\u{0}",
        &deep,
        &bomb,
    ] {
        assert!(parsed(text.as_bytes()).is_err(), "{}", &text[..text.len().min(80)]);
    }
    assert!(matches!(parsed(&vec![b' '; MAX_DOCUMENT + 1]), Err(DocumentError::TooLarge)));
}

#[test]
fn references_end_or_are_refused() {
    let text = br##"{"openapi":"3.0.3","a":{"$ref":"#/b~1c"},"b/c":{"$ref":"#/d%20e"},
        "d e":{"ok":true},"x":{"$ref":"#/y"},"y":{"$ref":"#/x"},"out":{"$ref":"other.json#/x"},
        "gone":{"$ref":"#/nope"},"anchor":{"$ref":"#here"}}"##;
    let document = parsed(text).unwrap();
    let follow = |name: &str| document.follow(document.root().get(name).unwrap());
    assert_eq!(follow("a").unwrap().value["ok"], true);
    for (name, problem) in [
        ("x", "the $ref `#/y` is circular"),
        ("out", "the $ref `other.json#/x` is not read: the file has not been read"),
        ("gone", "the $ref `#/nope` has no target"),
        ("anchor", "the $ref `#here` has no target"),
    ] {
        assert_eq!(follow(name).unwrap_err().to_string(), problem);
    }
}

#[test]
fn a_reference_is_resolved_against_the_file_that_contains_it() {
    let document = read(
        "file:///api/openapi.yaml",
        &[
            (
                "file:///api/openapi.yaml",
                "openapi: 3.0.0\na: {$ref: 'x/a.yml#/one'}\nb: {$ref: 'x/list.json#/1'}\n\
                 c: {$ref: x/gone.yml}\nd: {$ref: x/bad.yml}\ne: {$ref: 'x/a.yml#/circle'}\n\
                 f: {$ref: 'https://a.example/f.json'}\ng: {$ref: 'ftp://a.example/f.json'}\n\
                 own: {value: here}\n",
            ),
            (
                "file:///api/x/a.yml",
                "one: {$ref: '#/two'}\ntwo: {$ref: 'y/b.yml'}\ncircle: {$ref: '../x/c.yml'}\n",
            ),
            ("file:///api/x/y/b.yml", "$ref: ../../openapi.yaml#/own\n"),
            ("file:///api/x/c.yml", "$ref: a.yml#/circle\n"),
            ("file:///api/x/list.json", "[{}, {\"value\": \"listed\"}]"),
            ("file:///api/x/bad.yml", "a: 1\na: 2\n"),
            ("https://a.example/f.json", "{\"openapi\": \"3.1.0\", \"value\": \"far\"}"),
        ],
    );
    let follow = |name: &str| document.follow(document.root().get(name).unwrap());
    for (name, value) in [("a", "here"), ("b", "listed"), ("f", "far")] {
        assert_eq!(follow(name).unwrap().text("value"), Some(value));
    }
    assert!(document.is_old(follow("b").unwrap().file), "as the root");
    assert!(!document.is_old(follow("f").unwrap().file), "it has a version");
    for (name, problem) in [
        ("c", "the $ref `x/gone.yml` is not read: not found"),
        ("d", "the $ref `x/bad.yml` is not read: the file is not YAML or breaks its limits"),
        ("e", "is circular"),
        ("g", "only files and http or https addresses are read"),
    ] {
        let error = follow(name).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn a_document_of_3_2_may_refer_to_its_own_address() {
    let text = r#"{"openapi":"3.2.0","$self":"https://a.example/api","a":{"$ref":"https://a.example/api#/b"},"b":{}}"#;
    let document = read("file:///openapi.json", &[("file:///openapi.json", text)]);
    let root = document.root();
    assert_eq!(document.follow(root.get("a").unwrap()), Ok(root.get("b").unwrap()));
}

#[test]
fn files_and_schemas_are_found_by_the_addresses_that_they_give_themselves() {
    let root = r##"{"openapi":"3.2.0","$self":"https://a.example/v2/api",
        "relative":{"$ref":"api#/own"}, "absolute":{"$ref":"/v2/api#/own"}, "own":{"value":"own"},
        "near":{"$ref":"near.yaml#/a"}, "name":{"$ref":"https://b.example/pets"},
        "inner":{"$ref":"https://b.example/cat#whiskers"}, "anchor":{"$ref":"lib/pets.yaml#dog"},
        "taken":{"$ref":"lib/taken.yaml"}, "self":{"$ref":"https://a.example/v2/near#/a"}}"##;
    let document = read(
        "file:///api/openapi.json",
        &[
            ("file:///api/openapi.json", root),
            (
                "file:///api/near.yaml",
                "openapi: 3.2.0\n$self: https://a.example/v2/near\na: {value: near}\n",
            ),
            (
                "file:///api/lib/pets.yaml",
                "$id: https://b.example/pets\nvalue: pets\n$defs:\n  dog: {$anchor: dog, value: dog}\n  \
                 cat: {$id: cat, $defs: {w: {$anchor: whiskers, value: whiskers}}}\n",
            ),
            // A file cannot take the place of another one.
            ("file:///api/lib/taken.yaml", "$id: ../near.yaml\nvalue: taken\n"),
        ],
    );
    let follow = |name: &str| document.follow(document.root().get(name).unwrap());
    for (name, value) in [
        ("relative", "own"),
        ("absolute", "own"),
        ("near", "near"),
        ("name", "pets"),
        ("inner", "whiskers"),
        ("anchor", "dog"),
        ("taken", "taken"),
        ("self", "near"),
    ] {
        assert_eq!(follow(name).map(|node| node.text("value")), Ok(Some(value)), "{name}");
    }
}

#[test]
fn numbers_of_yaml_keep_their_text() {
    let numbers = [
        "18446744073709551616",
        "-9223372036854775809",
        "0.1234567890123456789012",
        "1.50",
        "1E-7",
        "9007199254740993.0",
        "-0.0",
        "12345678901234567890123",
    ];
    let list: String = numbers.iter().map(|number| format!("  - {number}\n")).collect();
    let flow = format!("[{}]", numbers.join(", "));
    let text = format!(
        "openapi: 3.1.0\nlist: \n{list}ä: &a {flow} # 1.10\nalias: *a\nsame: [1, -5, 1.5, yes, \
         0x1F, .5, '1.50', 1_0, 2020-01-01, 1.2.3]\nsigned: +1.50\n12345678901234567890123: key\n"
    );
    let document = parsed(text.as_bytes()).unwrap();
    for name in ["list", "ä", "alias"] {
        let found: Vec<_> =
            document.root().get(name).unwrap().items().map(|item| item.value.to_string()).collect();
        assert_eq!(found, numbers, "{name}");
    }
    let same = document.root().get("same").unwrap().value;
    let plain = parsed(
        b"openapi: 3.1.0\nsame: [1, -5, 1.5, yes, 0x1F, .5, '1.50', 1_0, 2020-01-01, 1.2.3]\n",
    );
    assert_eq!(same, plain.unwrap().root().get("same").unwrap().value);
    assert_eq!(document.root().get("signed").unwrap().value.to_string(), "1.50");
    assert_eq!(document.root().text("12345678901234567890123"), Some("key"));
    for text in [
        format!("openapi: 3.1.0\na: {}\n", "1".repeat(600)),
        "openapi: 3.1.0\na: 1.50\na: 1\n".to_owned(),
        "openapi: 3.1.0\na: {'$serde_json::private::Number': '1.50'}\n".to_owned(),
    ] {
        assert!(parsed(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn an_address_does_not_lead_to_local_files() {
    let text = r#"{"openapi":"3.1.0","a":{"$ref":"file:///etc/hosts.json"}}"#;
    let document = read("https://a.example/api", &[("https://a.example/api", text)]);
    let error = document.follow(document.root().get("a").unwrap()).unwrap_err().to_string();
    assert!(error.contains("a file at an address cannot refer to a local file"), "{error}");
}

#[test]
fn the_files_of_a_document_share_their_bounds() {
    let references: String =
        (0..MAX_FILES + 5).map(|n| format!("{{\"$ref\":\"{n}.yml\"}},")).collect();
    let text = format!("{{\"openapi\":\"3.1.0\",\"all\":[{references}{{}}]}}");
    let mut builder = DocumentBuilder::new(url("file:///openapi.json"), text.as_bytes()).unwrap();
    let requests = builder.requests();
    assert_eq!(requests.len(), MAX_FILES - 1);
    assert!(builder.requests().is_empty());
    // Each bomb becomes 20 times its size.
    let bomb = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 20].join(", "));
    for (id, _) in requests.into_iter().take(6) {
        builder.add(id, Ok(bomb.as_bytes().to_vec()));
    }
    let document = builder.finish();
    let all: Vec<_> = document.root().get("all").unwrap().items().collect();
    let error = |n: usize| document.follow(all[n]).map(|_| ()).unwrap_err().to_string();
    assert!(document.follow(all[0]).is_ok());
    assert!(error(5).contains("breaks its limits"), "{}", error(5));
    assert!(error(MAX_FILES + 3).contains("more than 10000 files"), "{}", error(MAX_FILES + 3));
}
