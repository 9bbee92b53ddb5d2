use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::{
    BACKUPS, Change, ChangeKind, CheckReport, ConfigCheck, ConfigFile, EditAction, FileError,
    apply, diff, hash,
};
use crate::NoSecrets;

const FILE: &str = r#"# The tools of ACME.
# Ask Ada before you change anything.

[server]
listen = "127.0.0.1:8808" # behind the proxy

# Documents of the team.
[[source]]
id = "files"
kind = "mcp"
# The version that was reviewed.
command = [
    "npx", # from the base image
    "files-server",
]
pins = "off"

[source.env]
LOG_LEVEL = "debug" # noisy
API = { env = "FILES_API" }

# Reading needs no approval.
[source.tools."read_*"]
scopes = ["files:read"]
safety_tier = "read" # reviewed by Bo

[[source]]
id = "web"
kind = "mcp"
url = "https://web.example.com/mcp"

[[role]]
name = "reader"
scopes = ["files:read"] # nothing else

[toolset.work]
allow = ["files__*"]

# The end.
"#;

fn change(action: EditAction, kind: ChangeKind, name: &str, settings: Value) -> Change {
    let settings = settings.as_object().cloned().unwrap_or_else(Map::new);
    Change::new(action, kind, name, settings)
}

fn rule(action: EditAction, glob: &str, settings: Value) -> Change {
    let source = Some("files".to_owned());
    Change { source, ..change(action, ChangeKind::Rule, glob, settings) }
}

/// Applies `change` to the file, and returns the changed lines. The result is valid TOML.
fn changed(change: Change) -> String {
    let text = apply(FILE, &[change]).unwrap();
    toml::from_str::<toml::Table>(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    lines(FILE, &text)
}

fn lines(before: &str, after: &str) -> String {
    let diff = similar::TextDiff::from_lines(before, after);
    let changes = diff.iter_all_changes();
    let changed = changes.filter(|change| change.tag() != similar::ChangeTag::Equal);
    changed.map(|change| format!("{}{}", change.tag(), change.value())).collect()
}

use ChangeKind::{Role, Source, Toolset};
use EditAction::{Add, Remove, Set};

#[test]
fn a_new_source_follows_the_others_and_changes_no_other_line() {
    let settings = json!({
        "kind": "mcp", "command": ["x", "-y"], "env": { "A": "1", "B": { "env": "B" } },
        "tools": { "read_*": { "safety_tier": "read" } },
    });
    let added = changed(change(Add, Source, "new", settings));
    assert_eq!(
        added,
        "+[[source]]\n+id = \"new\"\n+kind = \"mcp\"\n+command = [\"x\", \"-y\"]\n+\n\
         +[source.env]\n+A = \"1\"\n+B = { env = \"B\" }\n+\n+[source.tools.\"read_*\"]\n\
         +safety_tier = \"read\"\n+\n"
    );
    let text = apply(FILE, &[change(Add, Source, "new", json!({ "kind": "mcp" }))]).unwrap();
    let at = |part: &str| text.find(part).unwrap();
    assert!(at("id = \"web\"") < at("id = \"new\"") && at("id = \"new\"") < at("[[role]]"));
}

#[test]
fn a_changed_key_keeps_its_comment_and_equal_values_their_form() {
    let settings = json!({ "scopes": ["files:read", "files:list"] });
    assert_eq!(
        changed(change(Set, Role, "reader", settings)),
        "-scopes = [\"files:read\"] # nothing else\n\
         +scopes = [\"files:read\", \"files:list\"] # nothing else\n"
    );
    // An array over several lines keeps its lines and comments.
    let settings = json!({ "command": ["npx", "files-server", "--quiet"] });
    assert_eq!(changed(change(Set, Source, "files", settings)), "+    \"--quiet\",\n");
    let text = "[[role]]\nname = \"a\"\nscopes = [\n  \"b\", # one\n  \"c\" # two\n]\n";
    let set = change(Set, Role, "a", json!({ "scopes": ["b", "c", "d"] }));
    let more = "[[role]]\nname = \"a\"\nscopes = [\n  \"b\", # one\n  \"c\", # two\n  \"d\"\n]\n";
    assert_eq!(apply(text, &[set]).unwrap(), more);
    let settings = json!({ "command": ["npx", "files-server"], "kind": "mcp" });
    assert_eq!(changed(change(Set, Source, "files", settings)), "");
    let settings = json!({ "env": { "LOG_LEVEL": "info", "API": null }, "pins": null });
    assert_eq!(
        changed(change(Set, Source, "files", settings)),
        "-pins = \"off\"\n-LOG_LEVEL = \"debug\" # noisy\n-API = { env = \"FILES_API\" }\n\
         +LOG_LEVEL = \"info\" # noisy\n"
    );
}

#[test]
fn a_removed_table_takes_its_own_comment_and_leaves_the_others() {
    let removed = changed(change(Remove, Source, "files", json!({})));
    assert!(removed.contains("-# Documents of the team.\n"), "{removed}");
    assert!(!removed.contains("ACME") && !removed.contains("+#"), "{removed}");
    assert!(!removed.contains("web.example.com"), "{removed}");
    // The head of a file that begins with the removed table.
    let text = "# Head.\n\n# Mine.\n[[source]]\nid = \"a\"\n\n[[source]]\nid = \"b\"\n";
    let left = apply(text, &[change(Remove, Source, "a", json!({}))]).unwrap();
    assert_eq!(left, "# Head.\n\n[[source]]\nid = \"b\"\n");
    let left = apply(
        text,
        &[change(Remove, Source, "a", json!({})), change(Remove, Source, "b", json!({}))],
    );
    assert_eq!(left.unwrap(), "# Head.\n");
    assert_eq!(
        changed(change(Remove, Toolset, "work", json!({}))),
        "-[toolset.work]\n-allow = [\"files__*\"]\n-\n"
    );
    let removed = changed(rule(Remove, "read_*", json!({})));
    assert!(removed.contains("reviewed by Bo") && !removed.contains("LOG_LEVEL"), "{removed}");
}

#[test]
fn rules_and_toolsets_are_added_where_they_belong() {
    let text = apply(FILE, &[rule(Add, "delete_*", json!({ "approval": "always" }))]).unwrap();
    let at = |part: &str| text.find(part).unwrap();
    assert!(at("[source.tools.\"delete_*\"]") > at("[source.tools.\"read_*\"]"), "{text}");
    assert!(at("[source.tools.\"delete_*\"]") < at("id = \"web\""), "{text}");
    assert_eq!(
        changed(rule(Set, "read_*", json!({ "safety_tier": "pure" }))),
        "-safety_tier = \"read\" # reviewed by Bo\n+safety_tier = \"pure\" # reviewed by Bo\n"
    );
    let added = changed(change(Add, Toolset, "more", json!({ "allow": ["web__*"] })));
    assert_eq!(added, "+[toolset.more]\n+allow = [\"web__*\"]\n+\n");
}

#[test]
fn a_file_of_comments_keeps_them_before_what_is_added() {
    let text = "# Only comments.\n# [[source]]\n";
    let settings = json!({ "scopes": ["a"] });
    let added = apply(text, &[change(Add, Role, "r", settings.clone())]).unwrap();
    assert_eq!(added, format!("{text}\n[[role]]\nname = \"r\"\nscopes = [\"a\"]\n"));
    let added = apply("", &[change(Add, Role, "r", settings)]).unwrap();
    assert_eq!(added, "[[role]]\nname = \"r\"\nscopes = [\"a\"]\n");
    let added = apply("", &[change(Add, Toolset, "t", json!({ "allow": ["x"] }))]).unwrap();
    toml::from_str::<toml::Table>(&added).unwrap();
}

#[test]
fn hostile_names_and_values_stay_texts() {
    let nasty = [
        "\"]\n[server]\nlisten = \"0.0.0.0:1\"",
        "a\nb",
        "'''",
        "\"\"\"",
        "x # y",
        "[[role]]",
        "\u{202e}evil",
        "tab\there",
        "\u{7f}",
        "",
        "../../etc",
    ];
    for text in nasty {
        let settings = json!({ "scopes": [text], text: { text: text } });
        let changes = [
            change(Add, Role, text, settings.clone()),
            change(Add, Toolset, text, json!({ "title": text })),
            rule(Add, text, json!({ "scopes": [text] })),
            change(Add, Source, text, settings),
        ];
        let written = apply(FILE, &changes).unwrap();
        let table: toml::Table =
            toml::from_str(&written).unwrap_or_else(|error| panic!("{text:?}: {error}\n{written}"));
        assert_eq!(table["server"]["listen"].as_str(), Some("127.0.0.1:8808"), "{text:?}");
        assert_eq!(table["role"].as_array().unwrap().len(), 2, "{text:?}");
        assert_eq!(table["role"][1]["name"].as_str(), Some(text));
        assert_eq!(table["role"][1][text][text].as_str(), Some(text));
        assert_eq!(table["toolset"][text]["title"].as_str(), Some(text));
        assert_eq!(table["source"][0]["tools"][text]["scopes"][0].as_str(), Some(text));
        assert_eq!(table["source"].as_array().unwrap().len(), 3);
        for line in FILE.lines() {
            assert!(written.contains(line), "{text:?}: {line}");
        }
    }
}

#[test]
fn changes_that_do_not_fit_are_refused() {
    let deep = (0..50).fold(json!(1), |inner, _| json!({ "x": inner }));
    let long = (0..50).fold(json!(1), |inner, _| json!([inner]));
    for (change, expected) in [
        (change(Add, Source, "files", json!({})), "already"),
        (change(Set, Source, "missing", json!({ "kind": "mcp" })), "no source `missing`"),
        (change(Remove, Role, "missing", json!({})), "no role `missing`"),
        (change(Remove, Role, "reader", json!({ "scopes": [] })), "no `settings`"),
        (change(Set, Role, "reader", json!({ "name": "other" })), "not renamed"),
        (change(Set, Role, "reader", json!({ "quota": [null] })), "null"),
        (change(Set, Role, "reader", json!({ "quota": u64::MAX })), "number"),
        (change(Set, Role, "reader", json!({ "quota": deep })), "deep"),
        (change(Set, Role, "reader", json!({ "quota": long })), "deep"),
        (change(Add, ChangeKind::Rule, "x", json!({})), "`source`"),
        (rule(Add, "read_*", json!({})), "already"),
        (rule(Remove, "x", json!({})), "no rule `x` of source `files`"),
        (
            Change { source: Some("nope".to_owned()), ..rule(Add, "x", json!({})) },
            "no source `nope`",
        ),
        (
            Change { source: Some("files".to_owned()), ..change(Set, Role, "reader", json!({})) },
            "only a rule",
        ),
    ] {
        let error = apply(FILE, std::slice::from_ref(&change)).unwrap_err();
        assert!(error.message.contains(expected), "{change:?}: {error:?}");
    }
    assert!(apply("not toml [", &[change(Add, Role, "r", json!({}))]).is_err());
    let inline = "role = [{ name = \"a\", scopes = [] }]";
    let error = apply(inline, &[change(Set, Role, "a", json!({ "scopes": ["b"] }))]).unwrap_err();
    assert!(error.message.contains("one line"), "{error}");
    let second = [change(Add, Role, "new", json!({})), change(Add, Role, "new", json!({}))];
    assert_eq!(apply(FILE, &second).unwrap_err().change, 1);
}

#[test]
fn unknown_keys_are_found_by_the_checks_of_the_file() {
    let settings = json!({ "kind": "mcp", "command": ["x"], "commando": 1 });
    let text = apply("", &[change(Add, Source, "a", settings)]).unwrap();
    let error = crate::parse("c.toml", &text, Path::new("/"), &NoSecrets).unwrap_err();
    assert!(error.to_string().contains("commando"), "{error}");
}

#[test]
fn a_diff_shows_changed_lines_and_no_secret_of_before() {
    let before = "[[source]]\nid = \"a\"\nkind = \"mcp\"\ncommand = [\"x\", \"--token\", \"canary-1\", \"--api-key=canary-2\"]\n\
                  # canary-comment sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz\n\
                  [source.env]\nPLAIN = \"canary-3\"\nREF = { env = \"NAME\" }\n\
                  [source.headers]\nX-Some = \"canary-4\"\n";
    let removed = apply(before, &[change(Remove, Source, "a", json!({}))]).unwrap();
    let shown = serde_json::to_string(&diff(before, &removed)).unwrap();
    assert!(!shown.contains("canary-1") && !shown.contains("canary-2"), "{shown}");
    assert!(!shown.contains("canary-3") && !shown.contains("canary-4"), "{shown}");
    assert!(!shown.contains("0123456789abcdef"), "{shown}");
    assert!(shown.contains("NAME"), "{shown}");
    // What the author of the change wrote is shown, and nothing around it.
    let settings = json!({ "env": { "PLAIN": "mine", "OTHER": "new" } });
    let set = apply(before, &[change(Set, Source, "a", settings)]).unwrap();
    let hunks = diff(before, &set);
    let shown = serde_json::to_string(&hunks).unwrap();
    assert!(shown.contains("mine") && shown.contains("OTHER") && shown.contains("***"), "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(hunks[0].table, "[source.env]");
    let document: toml_edit::DocumentMut = before.parse().unwrap();
    let table = document["source"].as_array_of_tables().unwrap().get(0).unwrap();
    let settings = Value::Object(super::settings(table)).to_string();
    assert!(!settings.contains("canary"), "{settings}");
    assert!(settings.contains("NAME") && settings.contains("--token"), "{settings}");
}

#[test]
fn arguments_with_secrets_are_hidden() {
    let before = "[[source]]\nid = \"a\"\nkind = \"mcp\"\ncommand = [\"x\", \"--header\", \"Authorization: Basic canary-1\",\
                  \"postgres://me:canary-2@db/x\", \"--dsn=postgres://me:canary-3@db/x\", \"X-API-Key: canary-4\"]\n";
    let document: toml_edit::DocumentMut = before.parse().unwrap();
    let table = document["source"].as_array_of_tables().unwrap().get(0).unwrap();
    let shown = Value::Object(super::settings(table)).to_string();
    assert!(!shown.contains("canary") && shown.contains("--header"), "{shown}");
}

#[test]
fn a_placeholder_is_not_a_value_and_no_change_is_without_lines() {
    let before = "[[source]]\nid = \"a\"\nenv = { A = \"one\", B = \"two\" }\n";
    for text in ["***", "[redacted]"] {
        for settings in [json!({ "env": { "A": text } }), json!({ "args": ["x", text] })] {
            let error = apply(before, &[change(Set, Source, "a", settings)]).unwrap_err();
            assert!(error.message.contains("hidden value"), "{error}");
        }
    }
    let settings = json!({ "env": { "A": "two", "B": "one" } });
    let swapped = apply(before, &[change(Set, Source, "a", settings)]).unwrap();
    assert_eq!(diff(before, &swapped).len(), 1);
    assert!(diff(before, before).is_empty());
}

#[test]
fn line_ends_and_the_mark_of_an_editor_stay() {
    let before = "\u{feff}# head\r\n[[role]]\r\nname = \"a\"\r\nscopes = []\r\n";
    let settings = json!({ "scopes": ["x:y"] });
    let set = apply(before, &[change(Set, Role, "a", settings)]).unwrap();
    assert_eq!(set, before.replace("[]", "[\"x:y\"]"));
}

struct NoCheck;

#[async_trait]
impl ConfigCheck for NoCheck {
    async fn check(&self, _: &str) -> CheckReport {
        CheckReport::default()
    }
}

fn file(path: &Path) -> ConfigFile {
    ConfigFile::new(path.to_path_buf(), Arc::new(NoCheck))
}

#[test]
fn the_file_is_replaced_with_its_permissions_and_a_bounded_number_of_copies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("toolcrib.toml");
    fs::write(&path, "# 0\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let file = file(&path);
    assert!(file.obstacle().is_none());
    for number in 1..=BACKUPS + 3 {
        let stored = file.read().unwrap();
        assert_eq!(stored.text, format!("# {}\n", number - 1));
        let text = format!("# {number}\n");
        let backup = file.prepare(&stored.hash, &text).unwrap().place().unwrap();
        assert_eq!(backup.as_deref(), Some("toolcrib.toml.bak"));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let copy = fs::read_to_string(dir.path().join("toolcrib.toml.bak")).unwrap();
        assert_eq!(copy, stored.text);
    }
    for name in ["toolcrib.toml", "toolcrib.toml.bak"] {
        let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{name}");
    }
    // The file and its copies; nothing temporary.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1 + BACKUPS);
}

#[test]
fn a_change_for_another_text_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("toolcrib.toml");
    fs::write(&path, "# mine\n").unwrap();
    let file = file(&path);
    let stored = file.read().unwrap();
    fs::write(&path, "# theirs\n").unwrap();
    assert!(matches!(file.prepare(&stored.hash, "# new\n"), Err(FileError::Changed)));
    assert_eq!(fs::read_to_string(&path).unwrap(), "# theirs\n");
    let stored = file.read().unwrap();
    let prepared = file.prepare(&stored.hash, "# new\n").unwrap();
    // Another one at the same time.
    assert!(matches!(file.prepare(&stored.hash, "# other\n"), Err(FileError::Busy)));
    drop(prepared);
    assert_eq!(fs::read_to_string(&path).unwrap(), "# theirs\n");
    assert!(!dir.path().join(".toolcrib.toml.new").exists());
    file.prepare(&stored.hash, "# other\n").unwrap().place().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "# other\n");
}

#[test]
fn what_another_program_writes_at_the_last_moment_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("toolcrib.toml");
    fs::write(&path, "# mine\n").unwrap();
    let file = file(&path);
    let prepared = file.prepare(&file.read().unwrap().hash, "# new\n").unwrap();
    let other = dir.path().join("editor");
    fs::write(&other, "# theirs\n").unwrap();
    fs::rename(&other, &path).unwrap();
    assert!(matches!(prepared.place(), Err(FileError::Changed)));
    assert_eq!(fs::read_to_string(&path).unwrap(), "# theirs\n");
    // The same for a file that was not there, and for one that is gone.
    let new = super::ConfigFile::new(dir.path().join("new.toml"), Arc::new(NoCheck));
    let prepared = new.prepare(&hash(""), "# new\n").unwrap();
    fs::write(new.path(), "# theirs\n").unwrap();
    assert!(matches!(prepared.place(), Err(FileError::Changed)));
    let prepared = new.prepare(&hash("# theirs\n"), "# new\n").unwrap();
    fs::remove_file(new.path()).unwrap();
    assert!(matches!(prepared.place(), Err(FileError::Changed)));
    let left = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
}

#[test]
fn a_file_stays_readable() {
    let long = "x".repeat(5 << 20);
    let settings = json!({ "scopes": [long] });
    let error = apply("", &[change(Add, Role, "a", settings)]).unwrap_err();
    assert!(error.message.contains("4 MiB"), "{error}");
}

#[test]
fn links_and_other_things_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real.toml");
    fs::write(&real, "# real\n").unwrap();
    let link = dir.path().join("link.toml");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let linked = file(&link);
    let stored = linked.read().unwrap();
    assert_eq!(stored.text, "# real\n");
    assert!(linked.obstacle().unwrap().to_string().contains("symbolic link"));
    assert!(matches!(linked.prepare(&stored.hash, "x"), Err(FileError::Unsuitable(_))));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let twin = dir.path().join("twin.toml");
    fs::hard_link(&real, &twin).unwrap();
    assert!(file(&twin).obstacle().unwrap().to_string().contains("hard links"));
    assert!(file(dir.path()).read().is_err());
    // A file that does not exist yet is created.
    let new = file(&dir.path().join("new.toml"));
    let stored = new.read().unwrap();
    assert_eq!(stored.hash, hash(""));
    assert_eq!(new.prepare(&stored.hash, "# a\n").unwrap().place().unwrap(), None);
    let mode = fs::metadata(new.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(file(&dir.path().join("missing/x.toml")).obstacle().is_some());
    // A directory with the name of a copy: no copy is moved.
    let stored = new.read().unwrap();
    fs::write(dir.path().join("new.toml.bak"), "old").unwrap();
    fs::create_dir(dir.path().join("new.toml.bak.3")).unwrap();
    assert!(matches!(new.prepare(&stored.hash, "# b\n"), Err(FileError::Unsuitable(_))));
    assert_eq!(fs::read_to_string(dir.path().join("new.toml.bak")).unwrap(), "old");
    assert!(!dir.path().join("new.toml.bak.2").exists());
}

#[test]
fn a_file_that_may_not_be_written_says_how_to_allow_it() {
    let said = |kind: std::io::ErrorKind| {
        FileError::System { what: "written", error: kind.into() }.to_string()
    };
    let read_only = said(std::io::ErrorKind::ReadOnlyFilesystem);
    assert!(read_only.contains("ReadWritePaths=") && read_only.contains("by hand"), "{read_only}");
    let denied = said(std::io::ErrorKind::PermissionDenied);
    assert!(denied.contains("the user of the server") && denied.contains("deploy.md#"), "{denied}");
    assert!(!said(std::io::ErrorKind::StorageFull).contains("deploy.md"));
}
