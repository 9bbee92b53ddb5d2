//! The JSON Schema of the configuration file accepts what the program accepts, and refuses mistakes as far
//! as a schema can.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jsonschema::Validator;
use serde_json::Value;
use toolcrib_config::{self as config};

use crate::config::{COMPLETE, mistakes};

fn validator() -> Validator {
    jsonschema::draft202012::new(&config::schema()).unwrap()
}

/// Returns the text of a file as JSON; `None` if it is not TOML.
fn json(text: &str) -> Option<Value> {
    let table: toml::Table = toml::from_str(text).ok()?;
    Some(serde_json::to_value(table).unwrap())
}

fn problems(validator: &Validator, text: &str) -> Vec<String> {
    let value = json(text).unwrap_or_else(|| panic!("not TOML:\n{text}"));
    validator.iter_errors(&value).map(|it| format!("{}: {it}", it.instance_path())).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file with `extension` below `folder`.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() && !path.ends_with("target") {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
}

/// Returns an example of a page with the tables around it that the page does not repeat.
fn completed(block: &str) -> String {
    const SOURCE: &str = "[[source]]\nid = \"s\"\nkind = \"mcp\"\n";
    const ISSUER: &str = "[auth.jwt]\nissuer = \"https://id.example.com\"\naudiences = [\"a\"]\n";
    let is_part = !block.contains("[[source]]");
    if block.starts_with("allow = ") || (block.contains("[source.oauth]") && is_part) {
        format!("{SOURCE}url = \"https://tools.example.com/mcp\"\n{block}")
    } else if block.contains("[source.") && is_part {
        format!("{SOURCE}command = [\"x\"]\n{block}")
    } else if block.contains("[auth.jwt") && !block.contains("issuer = ") {
        format!("{ISSUER}{}", block.replace("[auth.jwt]\n", ""))
    } else {
        block.to_owned()
    }
}

/// Every `toolcrib.toml` and example of the tree, and the examples of the pages.
#[test]
fn every_example_of_the_repository_fits() {
    let validator = validator();
    let mut toml = vec![root().join("toolcrib.example.toml")];
    for folder in ["crates/cli/src/demo", "deploy", "examples"] {
        if root().join(folder).exists() {
            files(&root().join(folder), "toml", &mut toml);
        }
    }
    let mut fitting = 0;
    for file in toml {
        let text = fs::read_to_string(&file).unwrap();
        // The program puts its own path into the demo's.
        let text =
            text.replace("PROGRAM", "\"toolcrib\"").replace("= LIBRARY", "= \"library.json\"");
        assert_eq!(problems(&validator, &text), [""; 0], "{}", file.display());
        fitting += 1;
    }
    assert!(fitting >= 5, "{fitting}");

    let mut pages = vec![root().join("README.md")];
    files(&root().join("docs"), "md", &mut pages);
    // The pages of clients have the files of those clients, and troubleshooting has mistakes.
    let guides = root().join("docs/guides");
    let others = [guides.join("clients"), guides.join("troubleshooting.md")];
    pages.retain(|page| !others.iter().any(|other| page.starts_with(other)));
    let mut fitting = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for block in text.split("```toml").skip(1) {
            let (_, block) = block.split_once('\n').unwrap();
            let block = block.split("```").next().unwrap();
            let whole = completed(block);
            assert_eq!(problems(&validator, &whole), [""; 0], "{}:\n{block}", page.display());
            fitting += 1;
        }
    }
    assert!(fitting > 30, "{fitting}");
}

#[test]
fn a_complete_configuration_fits() {
    assert_eq!(problems(&validator(), COMPLETE), [""; 0]);
    for text in [
        "",
        "source = []",
        "auth.jwt = { issuer = \"https://a\", audiences = [\"a\"], tenant = \"t\" }",
        "[metrics]\ntools = 0\ntenants = [\"a\"]",
        "[server]\nlisten = \"[::1]:0\"\nmax_body = \"64 KiB\"\ndrain = \"0s\"",
        "[record]\nsigning_key = { command = [\"pass\", \"show\", \"x\"] }\nkeep = \"90d\"",
        "[[source]]\nid = \"a-b_c\"\nkind = \"host-extension\"\nbreaker = \"off\"\n\
         [source.commands.c]\nprogram = \"/bin/true\"\nargs = [\"a\", [\"--to\", \"{to}\"]]\n\
         parameters.to = { type = \"string\" }\nsandbox = { connect = \"any\" }",
    ] {
        assert_eq!(problems(&validator(), text), [""; 0], "{text}");
        config::parse("t", text, Path::new("/etc"), &crate::support::NoSecrets).unwrap();
    }
}

/// What no schema can say: rules about several keys, about other files, and about the inside of texts.
const BEYOND: &[&str] = &[
    "`server.max_body_total`: must be at least `server.max_body`",
    "`metrics.tools`: tool id",
    "needs an [anonymous] table",
    "anything but \"all\" needs an",
    "`auth.resource.resource`: expected an https address",
    "`auth.resource.authorization_servers`: expected",
    "`auth.jwt.issuer`: expected an https address",
    "say which tenant tokens belong to",
    "cannot be combined with `claims.tenant`",
    "is more than 5 minutes",
    "expected names with dots between them",
    "it overlaps the prefix of another",
    "`auth.jwt.roles`: ",
    "extends beyond a tenant",
    "is more than 366 days",
    "`otc.jwt.secret`: environment",
    "another surface has this path",
    "a scope has an empty segment",
    "`auth.jwt.sign_in.client_id`: expected 1 to 256",
    "`auth.jwt.sign_in.name`: expected 1 to 256",
    "`auth.jwt.sign_in.scopes`: ",
    "expected an absolute URI without a fragment",
    "`auth.jwt.sign_in.parameters`: ",
    "is not a header name",
    "is set by the protocol itself",
    "is not a glob",
    "`source.files.command`: expected a program",
    "`source.files.url`: expected an http or https address",
    "must not contain user information",
    "a secret must not be in this file",
    "is not set",
    "cannot read /etc/k",
    "only for kind \"host-extension\"",
    "a \"pure\" tool has no egress",
    "a required scope must not contain `*`",
];

#[test]
fn what_the_program_refuses_the_schema_refuses_where_it_can() {
    let validator = validator();
    let mut refused = 0;
    for (text, expected) in mistakes() {
        let is_toml = json(&text);
        if is_toml.is_some_and(|value| validator.is_valid(&value)) {
            let is_known = BEYOND.iter().any(|known| expected.contains(known));
            assert!(is_known, "the schema accepts:\n{text}\nbut: {expected}");
        } else {
            refused += 1;
        }
    }
    assert!(refused >= 37, "{refused}");
}
