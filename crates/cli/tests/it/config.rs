//! `config check`: problems with their lines, and that a server refuses to start with them.

use crate::support::{Server, config, dir, run, write_config};

/// Returns the output of `config check` for the invalid configuration `text`, which all commands must
/// reject.
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
    insta::assert_snapshot!(refused("[server]\nlisten = \"127.0.0.1:0\"\nlissen = 1\n"), @"toolcrib.toml:3: `server.lissen`: unknown field `lissen`, did you mean `listen`? Expected one of `listen`, `behind_proxy`, `tls`, `public_url`, `allowed_hosts`, `allowed_origins`, `max_body`, `max_body_total`, `public_metrics`, `drain`");
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\n[source.tools.\"a[\"]\nsafety_tier = \"read\"\n")), @r#"toolcrib.toml:5: `source.a.tools."a["`: is not a glob: unclosed character class; missing ']'"#);
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\n[source.tools.\"*\"]\nsafety_tier = \"exec\"\n")), @r#"toolcrib.toml:6: `source.a.tools."*".safety_tier`: "exec" is only for kind "host-extension"; use "write""#);
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\n[source.env]\nTOKEN = {{ env = \"TOOLCRIB_TEST_MISSING\" }}\n")), @"toolcrib.toml:6: `source.a.env.TOKEN`: environment variable TOOLCRIB_TEST_MISSING is not set");
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\nurl = \"https://a.example/mcp\"\n")), @"toolcrib.toml:5: `source.a.url`: expected either `command` or `url`, not both");
    insta::assert_snapshot!(refused(SOURCE), @r#"toolcrib.toml:1: `source.a.command`: expected `command = ["program", …]` or `url = "https://…"`"#);
    insta::assert_snapshot!(refused(&format!("{SOURCE}command = [\"x\"]\n[source.env]\nAPI_KEY = \"hunter2\"\n")), @r#"toolcrib.toml:6: `source.a.env.API_KEY`: a secret must not be in this file: write { env = "NAME" } or { file = "path" }"#);
    insta::assert_snapshot!(refused("[[source]]\nid = \"a__b\"\nkind = \"mcp\"\ncommand = [\"x\"]\n"), @"toolcrib.toml:2: `source.a__b.id`: source id contains `__`, which separates source and tool in wire names");
    insta::assert_snapshot!(refused("[store]\nurl = \"mysql://x\"\n[gate]\nrate = \"many\"\ntimeout = \"1\"\n"), @r#"
    toolcrib.toml:2: `store.url`: expected "sqlite:PATH" or "postgres://USER@HOST/DATABASE"
    toolcrib.toml:4: `gate.rate`: expected calls per time such as "30/m" or "5/s", or "off"
    toolcrib.toml:5: `gate.timeout`: expected a duration such as "250ms", "30s", "5m" or "2h"; in place of "1" write "1s"
    "#);
    insta::assert_snapshot!(refused("[mcp]\nauth = \"optional\"\n"), @r#"toolcrib.toml:2: `mcp.auth`: "optional" needs an [anonymous] table that says which tenant and scopes callers without credentials get"#);
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = r#"colour = "blue"
[server]
listen = "0.0.0.0:0"
public_metrics = "yes"
[store]
seal_key = { env = "TOOLCRIB_TEST_MISSING" }
[gate]
rate = 5
timeout = "soon"
[anonymous]
tenant = 7
scopes = ["a:b"]
[mcp]
auth = "optional"
page_size = "many"
[[source]]
id = "a"
kind = "mcp"
command = ["x"]
conect_timeout = "5s"
refresh = "often"
[source.env]
TOKEN = { env = "TOOLCRIB_TEST_MISSING" }
[[source]]
id = "b"
command = ["x", 5]
[[source]]
id = "c"
kind = "connector"
document = true
[[approvals.webhook]]
url = "https://hooks.example.com"
secret = { env = "TOOLCRIB_TEST_MISSING" }
[[record.anchor]]
url = "https://anchors.example.com"
headers = { x-a = 5, x-b = true }
"#;
    let said = refused(text);
    let places: Vec<&str> = said.lines().map(|line| &line[14..line.find(": ").unwrap()]).collect();
    let keys: Vec<&str> =
        said.lines().map(|line| line.split('`').nth(1).unwrap_or_default()).collect();
    let expected = [
        ("1", "colour"),
        ("3", "server.listen"),
        ("4", "server.public_metrics"),
        ("6", "store.seal_key"),
        ("8", "gate.rate"),
        ("9", "gate.timeout"),
        // An invalid key is not reported as missing, too.
        ("11", "anonymous.tenant"),
        ("15", "mcp.page_size"),
        ("20", "source.a.conect_timeout"),
        ("21", "source.a.refresh"),
        ("23", "source.a.env.TOKEN"),
        ("24", "source.b"),
        ("26", "source.b.command"),
        ("30", "source.c.document"),
        ("33", "approvals.webhook.secret"),
        ("36", "record.anchor.headers.x-a"),
        ("36", "record.anchor.headers.x-b"),
    ];
    let found: Vec<(&str, &str)> = places.into_iter().zip(keys).collect();
    assert_eq!(found, expected, "{said}");
    for part in [
        "`gate.rate`: expected calls per time such as \"30/m\" or \"5/s\", or \"off\"; in place of 5 \
         write \"5/m\"",
        "did you mean `connect_timeout`? Expected one of `id`",
        "`source.b`: missing field `kind`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_file_that_is_not_toml_has_its_mistakes_reported_too() {
    let text = "[gate]\nrate = 5\n[server\nlisten = \"127.0.0.1:0\"\n[mcp]\nauth = = 1\n";
    let said = refused(text);
    for part in
        ["toml:2: `gate.rate`: expected calls", "toolcrib.toml:3:8: ", "toolcrib.toml:6:8: "]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn what_serve_refuses_is_refused() {
    // I-30
    let said = refused("[server]\nlisten = \"0.0.0.0:0\"\n");
    assert!(said.starts_with("toolcrib.toml:2: `server.listen`: 0.0.0.0:0 can be"), "{said}");
    let said = refused("[store]\nseal_key = { file = \"no.key\" }\n");
    assert!(said.starts_with("toolcrib.toml:2: `store.seal_key`: "), "{said}");
    let said = refused("[record]\nsigning_key = { env = \"TOOLCRIB_TEST_MISSING\" }\n");
    assert!(said.starts_with("toolcrib.toml:2: `record.signing_key`: "), "{said}");
    let source = "[[source]]\nid = \"p\"\nkind = \"mcp\"\nurl = \"https://a.example/mcp\"\n\
                  headers = { x-a = \"two\\nlines\" }\n";
    let said = refused(source);
    assert!(said.starts_with("toolcrib.toml:1: `source.p`: source `p`: "), "{said}");
}

/// Accounts and sign-ins are stored only sealed.
#[test]
fn a_missing_seal_key_is_named() {
    let public = "[server]\npublic_url = \"https://crib.example\"\n";
    let bridge = "[[auth.jwt]]\nissuer = \"https://id.example\"\naudiences = [\"crib\"]\n\
                  tenant = \"acme\"\n[auth.bridge]\nissuer = \"https://id.example\"\n\
                  client_id = \"c\"\n";
    let said = refused(&format!("{public}{bridge}"));
    assert!(said.starts_with("toolcrib.toml:7: `auth.bridge`: "), "{said}");
    assert!(said.contains("`[store] seal_key`") && said.contains("new-key"), "{said}");
    let dir = dir();
    let source = "[[source]]\nid = \"notes\"\nkind = \"mcp\"\nurl = \"https://a.example/mcp\"\n\
                  tenants = [\"acme\"]\n[source.oauth]\nof = \"principal\"\n\
                  [source.tools.\"*\"]\nscopes = [\"notes:use\"]\n";
    write_config(dir.path(), &format!("{public}{source}"));
    let checked = run(dir.path(), &["config", "check"]);
    let said = "warning: source `notes` acts with accounts, which requires `[store] seal_key`; \
                create a key with `toolcrib credentials new-key`";
    assert!(checked.code == 0 && checked.stderr.contains(said), "{checked:?}");
    run(dir.path(), &["credentials", "new-key", "--out", "seal.key"]).ok();
    let keyed = format!("[store]\nseal_key = {{ file = \"seal.key\" }}\n{public}{bridge}{source}");
    write_config(dir.path(), &keyed);
    let checked = run(dir.path(), &["config", "check"]);
    assert!(!format!("{checked:?}").contains("seal_key"), "{checked:?}");
}

#[test]
fn scopes_of_the_server_reach_something() {
    let dir = dir();
    let scopes = r#"["approvals:respond", "approvals:override", "audit:read", "keys:manage",
        "metrics:all", "metrics:read", "pins:approve", "runs:cancel", "sources:read", "finance:sign", "demo:read"]"#;
    let text = config(&format!(
        "[source.tools.wipe]\napproval = \"always\"\napproval_scope = \"finance:sign\"\n\
         [[role]]\nname = \"lead\"\nscopes = {scopes}\n"
    ));
    write_config(dir.path(), &text);
    run(dir.path(), &["config", "check", "--connect"]).ok();
    // A scope of the configuration replaces the usual one.
    write_config(dir.path(), &format!("[approvals]\nrespond_scope = \"desk:answer\"\n{text}"));
    let checked = run(dir.path(), &["config", "check", "--connect"]);
    assert_eq!(
        (checked.code, checked.stdout.as_str()),
        (
            3,
            "toolcrib.toml: warning: role \"lead\": approvals:respond matches no tool and no route\n\
             toolcrib.toml: 1 warning (1 source, 1 role)\n"
        )
    );
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
         [[role]]\nname = \"writer\"\nscopes = [\"demo:read\", \"demo:write\", \"audit:read\"]\n",
    );
    write_config(dir.path(), &text);
    run(dir.path(), &["config", "check"]).ok();
    let checked = run(dir.path(), &["config", "check", "--connect"]);
    assert_eq!(checked.code, 3);
    insta::assert_snapshot!(checked.stdout, @r#"
    toolcrib.toml: warning: source `demo`: rule "no_such_*" matches no tool
    toolcrib.toml: warning: role "writer": demo:write matches no tool and no route
    toolcrib.toml: 2 warnings (1 source, 1 role)
    "#);
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

#[test]
fn a_source_that_nobody_can_see_is_pointed_out() {
    let dir = dir();
    let text = config("").replace("[source.tools", "tenants = []\n[source.tools");
    write_config(dir.path(), &text);
    let checked = run(dir.path(), &["config", "check"]).ok();
    assert!(checked.stdout.contains("ok ("), "{}", checked.stdout);
    assert!(
        checked.stderr.contains("warning: source `demo` has `tenants = []`"),
        "{}",
        checked.stderr
    );
    let checked = run(dir.path(), &["--json", "config", "check"]).ok().json();
    assert_eq!(checked["warnings"].as_array().unwrap().len(), 1, "{checked}");
    let said = Server::start(dir.path()).stop();
    assert!(said.contains("WARN toolcrib: source `demo` has `tenants = []`"), "{said}");
}

#[test]
fn a_server_logs_roles_that_reach_nothing() {
    let dir = dir();
    let role = "[[role]]\nname = \"odd\"\nscopes = [\"demo:read\", \"demo:wirte\"]\n";
    write_config(dir.path(), &config(role));
    let mut server = Server::start(dir.path());
    let said = server.process.until("the warning", |it| {
        let said = it.stderr();
        said.contains("role \"odd\": demo:wirte matches no tool").then_some(said)
    });
    assert!(said.contains("WARN") && !said.contains("demo:read matches"), "{said}");
}

#[test]
fn a_file_in_another_encoding_has_a_line() {
    let dir = dir();
    let file = dir.path().join("toolcrib.toml");
    std::fs::write(&file, b"[server]\nlisten = \"127.0.0.1:0\"\n# gr\xf6\xdfe\n").unwrap();
    for args in [&["config", "check"][..], &["serve"], &["tools", "list"]] {
        let ran = run(dir.path(), args);
        assert_eq!(ran.code, 1);
        assert!(
            ran.stderr.contains("error: the configuration toolcrib.toml is not UTF-8: line 3\n"),
            "{}",
            ran.stderr
        );
    }
}
