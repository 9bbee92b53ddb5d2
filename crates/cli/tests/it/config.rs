//! `config check`: what is wrong, where, and that nothing starts.

use crate::support::{config, dir, run, write_config};

/// What `config check` prints about `text`; it must refuse it, and so must everything else.
fn refused(text: &str) -> String {
    let dir = dir();
    write_config(dir.path(), text);
    let checked = run(dir.path(), &["config", "check"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    let served = run(dir.path(), &["serve"]);
    assert_eq!(served.code, 1, "{served:?}");
    assert_eq!(served.stdout, "", "nothing starts");
    assert!(!dir.path().join(".toolcrib").exists(), "nothing is made");
    checked.stdout
}

const SOURCE: &str = "[[source]]\nid = \"a\"\nkind = \"mcp\"\n";

#[test]
fn every_problem_has_its_place() {
    insta::assert_snapshot!(refused("[server]\nlisten = \"127.0.0.1:1\"\nlissen = 1\n"), @"");
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\n[source.tools.\"a[\"]\nsafety_tier = \"read\"\n")), @"");
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\n[source.tools.\"*\"]\nsafety_tier = \"exec\"\n")), @"");
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\n[source.env]\nTOKEN = {{ env = \"TOOLCRIB_TEST_MISSING\" }}\n")), @"");
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\nurl = \"https://a.example/mcp\"\n")), @"");
    insta::assert_snapshot!(refused(SOURCE), @"");
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\n[source.env]\nAPI_KEY = \"hunter2\"\n")), @"");
    insta::assert_snapshot!(refused("[[source]]\nid = \"a__b\"\nkind = \"mcp\"\ncommand = [\"x\"]\n"), @"");
    insta::assert_snapshot!(refused("[store]\nurl = \"mysql://x\"\n[gate]\nrate = \"many\"\ntimeout = \"1\"\n"), @"");
    insta::assert_snapshot!(refused("[mcp]\nauth = \"optional\"\n"), @"");
}

#[test]
fn problems_can_be_json() {
    let dir = dir();
    write_config(dir.path(), "[gate]\nrate = \"many\"\n");
    let checked = run(dir.path(), &["--json", "config", "check"]);
    assert_eq!(checked.code, 1);
    let checked = checked.json();
    assert_eq!(checked["ok"], false);
    assert_eq!(checked["problems"][0]["line"], 2);
    assert_eq!(checked["problems"][0]["key"], "gate.rate");
}

#[test]
fn rules_and_roles_that_match_nothing_are_found_by_connecting() {
    let dir = dir();
    let text = config(
        "[source.tools.\"no_such_*\"]\nsafety_tier = \"read\"\n\
         [[role]]\nname = \"writer\"\nscopes = [\"demo:read\", \"demo:write\"]\n",
    );
    write_config(dir.path(), &text);
    run(dir.path(), &["config", "check"]).ok();
    let checked = run(dir.path(), &["config", "check", "--connect"]);
    assert_eq!(checked.code, 1);
    insta::assert_snapshot!(checked.stdout, @"");
    assert!(!dir.path().join(".toolcrib").exists(), "looking leaves nothing behind");
}

#[test]
fn a_sound_configuration_is_said_to_be() {
    let dir = dir();
    write_config(dir.path(), &config("[[role]]\nname = \"reader\"\nscopes = [\"demo:read\"]\n"));
    assert_eq!(
        run(dir.path(), &["config", "check", "--connect"]).ok().stdout,
        "toolcrib.toml: ok (1 source, 1 role)\n"
    );
    let checked = run(dir.path(), &["--json", "config", "check", "toolcrib.toml"]).ok().json();
    assert_eq!(checked["ok"], true);
    assert_eq!(checked["sources"], 1);
}
