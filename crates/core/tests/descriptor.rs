//! Three readers must agree on every document: our parser, our published schema, and a schema written
//! independently from RFC 0078 §C.

#![expect(clippy::disallowed_methods, reason = "the corpus is read from files")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{fs, path::PathBuf, sync::LazyLock};

use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolcrib_core::descriptor::{ToolDescriptor, json_schema};

static PUBLISHED: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::options().offline().build(&json_schema()).unwrap());
static INDEPENDENT: LazyLock<Validator> = LazyLock::new(|| {
    let schema: Value =
        serde_json::from_str(include_str!("descriptor/independent.schema.json")).unwrap();
    jsonschema::options().offline().build(&schema).unwrap()
});

/// Returns whether the document is a descriptor; requires that all three readers agree.
fn verdict(document: &Value) -> Result<bool, String> {
    let parsed = serde_json::from_value::<ToolDescriptor>(document.clone());
    let from_text = serde_json::from_str::<ToolDescriptor>(&document.to_string());
    let verdicts = [
        parsed.is_ok(),
        from_text.is_ok(),
        PUBLISHED.is_valid(document),
        INDEPENDENT.is_valid(document),
    ];
    if let Ok(descriptor) = &parsed {
        let again = serde_json::to_value(descriptor).unwrap();
        if again != *document {
            return Err(format!("{document} was written back as {again}"));
        }
    }
    match verdicts {
        [true, true, true, true] => Ok(true),
        [false, false, false, false] => Ok(false),
        _ => Err(format!("value, text, published, independent: {verdicts:?} on {document}")),
    }
}

fn corpus(folder: &str) -> Vec<(PathBuf, Value)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/descriptor").join(folder);
    let files = fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    files
        .map(|file| (file.clone(), serde_json::from_slice(&fs::read(file).unwrap()).unwrap()))
        .collect()
}

// I-14: among the rejected are `exec` tools of every other source.
#[test]
fn the_three_agree_on_the_corpus() {
    for (folder, expected, at_least) in [("accepted", true, 15), ("rejected", false, 15)] {
        let documents = corpus(folder);
        assert!(documents.len() >= at_least);
        for (file, document) in documents {
            assert_eq!(verdict(&document), Ok(expected), "{}", file.display());
        }
    }
}

#[test]
fn the_published_schema_is_closed_and_knows_no_null() {
    let schema = json_schema();
    assert_eq!(schema["$id"], "https://toolcrib.dev/schemas/tool-descriptor.schema.json");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["auth"]["additionalProperties"], false);
    assert_eq!(schema["required"], json!(["toolId", "source", "safetyTier"]));
    assert!(!schema.to_string().contains("null"), "{schema}");
}

const WORDS: [&str; 23] = [
    "mcp",
    "node-pack",
    "workflow",
    "connector",
    "host-extension",
    "pure",
    "read",
    "write",
    "exec",
    "none",
    "safe-fetch",
    "host-mediated",
    "host-owned",
    "never",
    "conditional",
    "always",
    "deterministic",
    "idempotent",
    "non-deterministic",
    "low",
    "medium",
    "high",
    "",
];

/// Valid and nearly valid values of members.
fn member() -> impl Strategy<Value = Value> {
    let scopes = proptest::collection::vec(
        prop_oneof!["[a-c*: ]{0,2}".prop_map(Value::from), Just(json!(1))],
        0..4,
    );
    prop_oneof![
        4 => proptest::sample::select(&WORDS).prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!({})),
        1 => Just(json!({ "type": "object" })),
        1 => Just(json!([])),
        1 => Just(json!({ "mcp": null })),
        2 => (scopes, any::<Option<bool>>(), 0..8_u8).prop_map(|(scopes, credential, extra)| {
            let mut auth = Map::new();
            auth.insert("scopes".to_owned(), scopes.into());
            if let Some(credential) = credential {
                auth.insert("credentialRef".to_owned(), credential.into());
            }
            if extra == 0 {
                auth.insert("scope".to_owned(), Value::Null);
            }
            Value::Object(auth)
        }),
    ]
}

static ACCEPTED: LazyLock<Vec<(PathBuf, Value)>> = LazyLock::new(|| corpus("accepted"));

const NAMES: [&str; 15] = [
    "toolId",
    "source",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "auth",
    "egress",
    "approval",
    "replayPolicy",
    "safetyTier",
    "costHint",
    "latencyHint",
    "annotations",
    "tool_id",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_three_agree_on_changed_documents(
        start in any::<prop::sample::Index>(),
        changes in proptest::collection::vec(
            (proptest::sample::select(&NAMES), proptest::option::weighted(0.8, member())), 1..5),
    ) {
        let (_, mut document) = start.get(&ACCEPTED).clone();
        let members = document.as_object_mut().unwrap();
        for (name, change) in changes {
            match change {
                Some(value) => drop(members.insert(name.to_owned(), value)),
                None => drop(members.shift_remove(name)),
            }
        }
        prop_assert!(verdict(&document).is_ok(), "{}", verdict(&document).unwrap_err());
    }

    #[test]
    fn the_three_agree_on_documents_made_of_members(
        members in proptest::collection::vec((proptest::sample::select(&NAMES), member()), 0..8),
    ) {
        let document = Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
        prop_assert!(verdict(&document).is_ok(), "{}", verdict(&document).unwrap_err());
    }
}
