//! The first hour of a person: the places of state, one verdict of all checks, examples in errors, prefixes
//! of ids, and servers that free their port when they end.

use std::{fs, net::TcpListener, path::Path};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    CommandOutput, Process, Server, config, dir, finish, key, run, toolcrib, write_config,
};

/// Returns the paths below `dir`, without the configuration.
fn files(dir: &Path) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "toolcrib.toml")
        .collect();
    found.sort();
    found
}

#[test]
fn commands_that_only_read_create_nothing() {
    let dir = dir();
    write_config(dir.path(), &config("[toolset.all]\nallow = [\"*\"]\n"));
    fs::write(dir.path().join("events.jsonl"), "").unwrap();
    let id = "01970c5e-7b1a-7000-8000-0123456789ab";
    for args in [
        &["tools", "list"][..],
        &["tools", "search", "echo"],
        &["tools", "lint"],
        &["tools", "show", "demo__echo"],
        &["tools", "diff"],
        &["sources", "list"],
        &["sources", "check"],
        &["sources", "logs", "demo"],
        &["explain", "--scope", "*", "--tool", "demo__echo"],
        &["roles", "list"],
        &["rules", "propose"],
        &["keys", "list"],
        &["keys", "list", "--sessions"],
        &["keys", "revoke", id],
        &["credentials", "list"],
        &["packs", "list"],
        &["packs", "verify"],
        &["runs", "list"],
        &["runs", "show", id],
        &["approvals", "list"],
        &["approvals", "show", id],
        &["audit", "tail"],
        &["audit", "export"],
        &["audit", "verify"],
        &["audit", "key"],
        &["audit", "forwarders"],
        &["audit", "accept"],
        &["store", "check"],
        &["config", "check"],
        &["config", "check", "--connect"],
        &["health"],
        &["hash", "{}"],
        &["completions", "bash"],
        &["sources", "add", "x", "--command", "true", "--dry-run", "--no-connect"],
    ] {
        let ran = run(dir.path(), args);
        assert!(!ran.stderr.contains("created"), "{args:?}: {ran:?}");
        assert_eq!(files(dir.path()), ["events.jsonl"], "{args:?}: {ran:?}");
    }
}

#[test]
fn a_new_store_is_announced_and_a_mistake_leaves_none() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    for args in [
        &["--name", "ci"][..],
        &["--name", "ci", "--role", "nobody"],
        &["--name", "ci", "--scope", "*", "--principal", "a|b"],
        &["--name", "ci", "--scope", "*", "--tenant", "-"],
    ] {
        assert_eq!(run(dir.path(), &[&["keys", "create"], args].concat()).code, 2, "{args:?}");
        assert_eq!(files(dir.path()), [""; 0], "{args:?}");
    }
    let create = ["keys", "create", "--name", "ci", "--scope", "*"];
    let made = run(dir.path(), &create).ok();
    assert!(made.stderr.contains("created the store .toolcrib/toolcrib.db"), "{made:?}");
    let again = run(dir.path(), &create).ok();
    assert!(!again.stderr.contains("created the store"), "{again:?}");
}

#[test]
fn a_value_that_is_refused_leaves_no_store() {
    let dir = dir();
    run(dir.path(), &["credentials", "new-key", "--out", "seal.key"]).ok();
    write_config(dir.path(), &config("[store]\nseal_key = { file = \"seal.key\" }\n"));
    let set = ["credentials", "set", "crm", "--audience", "crm.example.com"];
    let refused = run(dir.path(), &[&set[..], &["--value-env", "TOOLCRIB_TEST_NOT_SET"]].concat());
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(files(dir.path()), ["seal.key"], "{refused:?}");
}

#[test]
fn no_second_store_is_created_beside_a_running_server() {
    let dir = dir();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = listener.local_addr().unwrap().to_string();
    write_config(dir.path(), &config("").replace("127.0.0.1:0", &listen));
    let create = ["keys", "create", "--name", "ci", "--scope", "*"];
    for args in [&create[..], &["store", "migrate"]] {
        let refused = run(dir.path(), args);
        assert_eq!(refused.code, 1, "{refused:?}");
        for part in ["no store was created", ".toolcrib/toolcrib.db", &listen, "--data-dir"] {
            assert!(refused.stderr.contains(part), "{part}: {refused:?}");
        }
        assert_eq!(files(dir.path()), [""; 0], "{args:?}");
    }
    // A place that was chosen is used, as the hint says.
    run(dir.path(), &[&["--data-dir", ".toolcrib"][..], &create].concat()).ok();
    // A store that exists is that of the server.
    run(dir.path(), &create).ok();
}

#[test]
fn serve_and_check_refuse_the_same() {
    let refused = |text: &str| {
        let dir = dir();
        fs::write(dir.path().join("seal.key"), "0f".repeat(32)).unwrap();
        fs::write(dir.path().join("signing.key"), crate::support::SIGNING_KEY).unwrap();
        write_config(dir.path(), text);
        let checked = run(dir.path(), &["config", "check"]);
        assert_eq!(checked.code, 1, "{text}: {checked:?}");
        let served = run(dir.path(), &["serve", "--listen", "0"]);
        assert_eq!(served.code, 1, "{text}: {served:?}");
        assert!(!dir.path().join(".toolcrib").exists(), "nothing is made: {served:?}");
        (checked.stdout, served.stderr)
    };
    let keys =
        "seal_key = { file = \"seal.key\" }\n[record]\nsigning_key = { file = \"signing.key\" }\n";
    for (text, place, reason) in [
        (
            format!(
                "[store]\nurl = \"postgres://u@127.0.0.1:1/d\"\npassword = {{ env = \
                 \"TOOLCRIB_TEST_MISSING\" }}\n{keys}"
            ),
            "toolcrib.toml:3: `store.password`: ",
            "TOOLCRIB_TEST_MISSING is not set",
        ),
        (
            "[limits]\nshared = \"redis://127.0.0.1:1\"\npassword = { env = \
             \"TOOLCRIB_TEST_MISSING\" }\n"
                .to_owned(),
            "toolcrib.toml:2: `limits.shared`: ",
            "TOOLCRIB_TEST_MISSING is not set",
        ),
        (
            format!("[store]\nurl = \"postgres://u@127.0.0.1:x/d\"\n{keys}"),
            "toolcrib.toml:2: `store.url`: ",
            "the URL of the store is invalid",
        ),
    ] {
        let (checked, served) = refused(&text);
        assert!(checked.contains(place) && checked.contains(reason), "{checked}");
        assert!(served.contains(reason), "{served}");
    }
}

#[test]
fn the_exit_code_distinguishes_warnings_from_errors() {
    let dir = dir();
    let check = |text: &str, args: &[&str]| {
        write_config(dir.path(), text);
        run(dir.path(), &[&["config", "check"], args].concat())
    };
    let connect = &["--connect"][..];
    let sound = config("");
    let doubtful = config("[source.tools.\"no_such_*\"]\nsafety_tier = \"read\"\n");
    let dead = sound.clone()
        + "[[source]]\nid = \"dead\"\nkind = \"mcp\"\n\
           command = [\"/bin/sh\", \"-c\", \"echo no license file >&2; exit 3\"]\n";
    assert_eq!(check(&sound, connect).code, 0);
    assert_eq!(check(&doubtful, &[]).code, 0, "only connecting finds it");
    let warned = check(&doubtful, connect);
    assert_eq!(warned.code, 3, "{warned:?}");
    assert_eq!(
        warned.stdout,
        "toolcrib.toml: warning: source `demo`: rule \"no_such_*\" matches no tool\n\
         toolcrib.toml: 1 warning (1 source, 0 roles)\n"
    );
    let failed = check(&dead, connect);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stdout.contains("source `dead` is not ready: "), "{failed:?}");
    assert!(failed.stdout.contains("the last line of its stderr: no license file"), "{failed:?}");
    let json = check(&dead, &["--connect", "--json"]).json();
    assert_eq!(json["problems"][0]["level"], "error", "{json}");
    let help = run(dir.path(), &["config", "check", "--help"]).ok().stdout;
    assert!(help.contains("3  with --connect: warnings and no errors"), "{help}");
}

#[tokio::test]
async fn the_command_line_and_the_server_count_problems_alike() {
    let dir = dir();
    let rules =
        "[source.tools.\"no_such_*\"]\nhide = true\n[source.tools.\"nor_this\"]\nhide = true\n";
    write_config(dir.path(), &config(rules));
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let mut server = Server::start(dir.path());
    let there = ["--url", &server.url, "--key", &text];
    let listed = server.process.until("the tools", |_| {
        let listed = run(dir.path(), &[&there[..], &["sources", "list", "--json"]].concat()).json();
        (listed[0]["problems"].as_array().unwrap().len() == 2).then_some(listed)
    });
    let served = server.caller(Some(&text)).get("/v1/sources").await.1;
    assert_eq!(served["sources"][0]["needsAttention"], true, "{served}");
    assert_eq!(served["sources"][0]["problems"], listed[0]["problems"]);
    assert_eq!(run(dir.path(), &[&there[..], &["sources", "check"]].concat()).code, 1);
    let here = run(dir.path(), &["sources", "list", "--json"]).ok().json();
    assert_eq!(here[0]["problems"], listed[0]["problems"]);
    assert_eq!(here[0]["needsAttention"], true);
}

/// Returns the problems of a configuration, without the secrets in it.
fn problems(dir: &Path, text: &str) -> String {
    write_config(dir, text);
    let checked = run(dir, &["config", "check"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    for secret in ["hunter2", "sesame"] {
        assert!(!checked.stdout.contains(secret), "{checked:?}");
    }
    checked.stdout
}

#[test]
fn the_five_common_slips_have_an_example() {
    let dir = dir();
    let said = |text: &str| problems(dir.path(), text);
    let source = "[[source]]\nid = \"a\"\nkind = \"mcp\"\n";
    insta::assert_snapshot!(said(&format!("{source}command = \"npx -y hunter2\"\n")), @r##"
    toolcrib.toml:4: `source.a.command`: expected a list of the program and its arguments, such as command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/docs"]
    "##);
    insta::assert_snapshot!(said("[source]\nid = \"a\"\nkind = \"mcp\"\ncommand = [\"x\"]\n"), @r##"
    toolcrib.toml:1: `source`: write `[[source]]` with two brackets, because there can be several; below it, one per line: `id = "files"`, `kind = "mcp"`, `command = ["npx", "-y", "SERVER"]`
    "##);
    insta::assert_snapshot!(said("[server]\nlisten = 8808\ndrain = 5\n"), @r##"
    toolcrib.toml:2: `server.listen`: expected an address and a port such as "127.0.0.1:8808"; in place of 8808 write "127.0.0.1:8808"
    toolcrib.toml:3: `server.drain`: expected a duration such as "250ms", "30s", "5m" or "2h"; in place of 5 write "5s"
    "##);
    insta::assert_snapshot!(said("[server]\nlisten = \"8808\"\ndrain = \"5\"\nmax_body = 65536\n"), @r##"
    toolcrib.toml:2: `server.listen`: expected an address and a port such as "127.0.0.1:8808"; in place of "8808" write "127.0.0.1:8808"
    toolcrib.toml:3: `server.drain`: expected a duration such as "250ms", "30s", "5m" or "2h"; in place of "5" write "5s"
    toolcrib.toml:4: `server.max_body`: expected a size such as "65536", "64KiB" or "4MiB"; in place of 65536 write "65536"
    "##);
    insta::assert_snapshot!(said(&format!("{source}command = ['x', \"C:\\Users\\me\\x.exe\"]\n")), @r##"
    toolcrib.toml:4:22: `\` starts an escape in a string with double quotes; write a Windows path in single quotes, such as 'C:\Users\me\server.exe', or double each `\`
        command = ['…', "…"]
                         ^
    "##);
    insta::assert_snapshot!(said(&format!("{source}command = [\"C:\\new\\tool.exe\"]\n")), @r##"
    toolcrib.toml:4: `source.a.command`: `\` starts an escape in a string with double quotes; write a Windows path in single quotes, such as 'C:\Users\me\server.exe', or double each `\`
    "##);
    insta::assert_snapshot!(said("{\n  \"mcpServers\": { \"a\": { \"command\": \"npx\" } }\n}\n"), @r##"
    toolcrib.toml:1: this is JSON, and the configuration is TOML: a tool server is `[[source]]` with `id = "files"`, `kind = "mcp"` and `command = ["npx", …]`, one per line; `toolcrib import FILE` converts the file of a client
    "##);
}

#[test]
fn syntax_errors_show_the_place_and_duplicates_their_name() {
    let dir = dir();
    let said = |text: &str| problems(dir.path(), text);
    insta::assert_snapshot!(said("[server]\nlisten = 127.0.0.1:8808\n"), @r##"
    toolcrib.toml:2:15: text needs quotes: listen = "…"
        listen = …
                 ^
    "##);
    insta::assert_snapshot!(said("[server\nlisten = \"127.0.0.1:1\"\n"), @r##"
    toolcrib.toml:1:8: unclosed table, expected `]`
        [server
               ^
    "##);
    insta::assert_snapshot!(said("[server]\nlisten = \"127.0.0.1:1\"\ndrain = \"1s\"\nlisten = \"127.0.0.1:2\"\n"), @r##"
    toolcrib.toml:4:1: the key `listen` appears twice; the first is in line 2
        listen = "…"
        ^
    "##);
    insta::assert_snapshot!(said("[server]\n[gate]\n[server]\ndrain = \"1s\"\n"), @r##"
    toolcrib.toml:3:2: the table `[server]` appears twice; the first is in line 1
        [server]
         ^
    "##);
    insta::assert_snapshot!(said("[[source]]\nid = \"a\"\n[[source]]\nid = \"b\"\nid = \"c\"\n"), @r##"
    toolcrib.toml:5:1: the key `id` appears twice; the first is in line 4
        id = "…"
        ^
    "##);
    insta::assert_snapshot!(said("[sources.env]\nA = \"hunter2\" sesame\n"), @r##"
    toolcrib.toml:2:15: unexpected key or value, expected newline, `#`
        A = "…" …
                ^
    "##);
    write_config(dir.path(), "[server]\nlisten = 127.0.0.1:8808\n");
    let json = run(dir.path(), &["config", "check", "--json"]).json();
    assert_eq!(
        (&json["problems"][0]["line"], &json["problems"][0]["column"]),
        (&json!(2), &json!(15))
    );
}

/// Runs `args` with the variable `name` set to nothing.
fn with_empty(dir: &Path, name: &str, args: &[&str]) -> CommandOutput {
    finish(toolcrib(dir).env(name, "").args(args))
}

#[test]
fn a_variable_that_is_empty_is_not_set() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    for name in ["KEY", "URL", "CONFIG", "DATA_DIR", "CA_FILE", "CLIENT_CERT", "CLIENT_KEY"] {
        let name = format!("TOOLCRIB_{name}");
        for args in [
            &["help"][..],
            &["--help"],
            &["completions", "bash"],
            &["--version"],
            &["config", "check"],
        ] {
            with_empty(dir.path(), &name, args).ok();
        }
    }
    // On the command line it is a mistake.
    let refused = run(dir.path(), &["--key", "", "tools", "list"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("is empty"), "{refused:?}");
    // Where a key is needed, the error says how to set one.
    let server = Server::start(dir.path());
    let there = with_empty(dir.path(), "TOOLCRIB_KEY", &["--url", &server.url, "keys", "list"]);
    assert_eq!(there.code, 1, "{there:?}");
    assert!(there.stderr.contains("hint: set TOOLCRIB_KEY or --key-file"), "{there:?}");
}

#[test]
fn ids_are_whole_and_a_unique_prefix_is_enough() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let mut ids = Vec::new();
    for number in 0..3 {
        let name = format!("a-rather-long-name-of-a-key-{number}");
        let scopes = ["--scope", "demo:read", "--scope", "demo:write", "--scope", "audit:read"];
        let args = [&["keys", "create", "--json", "--name", &name][..], &scopes].concat();
        ids.push(run(dir.path(), &args).ok().json()["id"].as_str().unwrap().to_owned());
    }
    for columns in ["40", "60", "80"] {
        let list = finish(toolcrib(dir.path()).env("COLUMNS", columns).args(["keys", "list"])).ok();
        for id in &ids {
            assert!(list.stdout.lines().any(|line| line.ends_with(id.as_str())), "{list:?}");
        }
    }
    // Ids of the same second begin alike.
    let shared: usize =
        (0..).find(|&at| !ids.iter().all(|id| id.starts_with(&ids[0][..=at]))).unwrap();
    let ambiguous = run(dir.path(), &["keys", "revoke", &ids[0][..shared.max(1)]]);
    assert_eq!(ambiguous.code, 2, "{ambiguous:?}");
    for id in &ids {
        assert!(ambiguous.stderr.contains(id.as_str()), "{ambiguous:?}");
    }
    let long = &ids[1][..ids[1].len() - 1];
    let unique = !ids.iter().any(|id| id != &ids[1] && id.starts_with(long));
    assert!(unique, "{ids:?}");
    let explain = ["explain", "--key-id", long, "--tool", "demo__echo", "--json"];
    let explained = run(dir.path(), &explain).json();
    assert_eq!(explained["outcome"], "allowed", "{explained}");
    run(dir.path(), &["keys", "revoke", long]).ok();
    let listed = run(dir.path(), &["keys", "list", "--json"]).ok().json();
    let revoked: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter(|key| key["revokedAt"].is_string())
        .map(|key| key["id"].as_str().unwrap())
        .collect();
    assert_eq!(revoked, [ids[1].as_str()]);
    run(dir.path(), &["keys", "rotate", &ids[2][..ids[2].len() - 1]]).ok();
    let unknown = run(dir.path(), &["keys", "revoke", "zzzz"]);
    assert!(unknown.stderr.contains("no active key with this id"), "{unknown:?}");
}

#[tokio::test]
async fn prefixes_of_approvals_and_runs_work_here_and_on_a_server() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    fs::write(dir.path().join("key"), crate::support::demo_key(&data, "admin")).unwrap();
    let there = ["--url", &server.url, "--key-file", "key"];
    let at = |args: &[&str]| run(dir.path(), &[&there[..], args].concat());
    at(&["call", "demo__wipe", "target=the documents"]);
    at(&["call", "flows__welcome", "name=Ada"]).ok();
    let approval = at(&["approvals", "list", "--json"]).json()[0]["approvalId"].clone();
    let run_id = at(&["runs", "list", "--json"]).json()[0]["runId"].clone();
    let short = |id: &serde_json::Value| {
        let id = id.as_str().unwrap();
        id[..id.len() - 1].to_owned()
    };
    let shown = at(&["approvals", "show", &short(&approval), "--json"]).ok().json();
    assert_eq!(shown["approvalId"], approval);
    let shown = at(&["runs", "show", &short(&run_id), "--json"]).ok().json();
    assert_eq!(shown["runs"][0]["runId"], run_id);
    assert_eq!(at(&["approvals", "show", "zzzzzzzz"]).code, 1);
    server.stop();
    let here = |args: &[&str]| run(dir.path(), &[&["--data-dir", "data"], args].concat());
    let shown = here(&["runs", "show", &short(&run_id), "--json"]).ok().json();
    assert_eq!(shown["runs"][0]["runId"], run_id);
    here(&["approvals", "show", &short(&approval)]).ok();
}

#[test]
fn a_demo_ends_with_its_terminal_and_frees_its_port() {
    let dir = dir();
    let mut server = Server::demo(&dir.path().join("data"));
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    server.process.signal(Signal::HUP);
    let status = server.process.ended();
    assert_eq!(status.code(), Some(0), "{}", server.process.stderr());
    TcpListener::bind(&address).unwrap();
}

#[test]
fn a_demo_under_nohup_outlives_its_terminal() {
    let dir = dir();
    let script = "trap '' HUP; exec \"$0\" serve --demo --no-history --listen 0 --data-dir data";
    #[expect(clippy::disallowed_methods, reason = "starts the program as nohup does")]
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(dir.path()).args(["-c", script, crate::support::PROGRAM]);
    let mut server = Server::of(&mut shell);
    server.process.signal(Signal::HUP);
    server
        .process
        .until("the note", |it| it.stderr().contains("no configuration to reload").then_some(()));
    run(dir.path(), &["--url", &server.url, "health"]).ok();
    server.stop();
}

#[test]
fn a_port_alone_is_an_address() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let server = Server::of(toolcrib(dir.path()).args(["serve", "--listen", "0"]));
    assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
    server.stop();
    let refused = run(dir.path(), &["serve", "--listen", "here"]);
    assert!(refused.stderr.contains("an address such as 127.0.0.1:8808, or a port"), "{refused:?}");
}

#[test]
fn the_version_names_the_commit_and_the_features() {
    let dir = dir();
    let number = env!("CARGO_PKG_VERSION");
    let short = run(dir.path(), &["-V"]).ok().stdout;
    assert!(short.starts_with(&format!("toolcrib {number}")), "{short}");
    assert_eq!(short.lines().count(), 1, "{short}");
    let long = run(dir.path(), &["--version"]).ok().stdout;
    assert!(long.starts_with(short.trim_end()), "{long}");
    let features = long.lines().nth(1).and_then(|line| line.strip_prefix("features: ")).unwrap();
    assert!(features == "none" || features.contains("wasm") || !features.is_empty(), "{long}");
    assert_eq!(features.contains("postgres"), cfg!(feature = "postgres"), "{long}");
    assert_eq!(features.contains("test-routes"), cfg!(feature = "test-routes"), "{long}");
    assert!(!long.contains('/'), "no path of a machine: {long}");
    // A tree with Git has a commit.
    let git = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git");
    let commit = short.split_once(" (").map(|(_, rest)| rest.trim_end().trim_end_matches(')'));
    match git.exists() {
        true => {
            let commit = commit.unwrap_or_else(|| panic!("no commit: {short}"));
            assert!(commit.len() == 12 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{short}");
        }
        false => assert_eq!(commit, None),
    }
}

#[test]
fn the_log_of_a_server_has_lines_of_one_format() {
    let dir = dir();
    let odd = "[[role]]\nname = \"odd\"\nscopes = [\"demo:wirte\"]\n";
    let text = config(odd).replace("[source.tools", "tenants = []\n[source.tools");
    let file = write_config(dir.path(), &text);
    let mut server = Server::start(dir.path());
    fs::write(&file, text.clone() + "\n[gate]\nrate = 5\n").unwrap();
    server.process.until("the refusal", |it| it.stderr().contains("was not applied").then_some(()));
    fs::write(&file, text + "\n[gate]\nrate = \"5/s\"\n").unwrap();
    server.process.until("the change", |it| it.stderr().contains("was reloaded").then_some(()));
    let log = server.stop();
    for part in ["has `tenants = []`", "was not applied", "was reloaded"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    for line in log.lines() {
        let mut words = line.split_whitespace();
        let at = words.next().unwrap_or_default();
        let level = words.next().unwrap_or_default();
        assert!(chrono::DateTime::parse_from_rfc3339(at).is_ok(), "{line:?} in\n{log}");
        assert!(["ERROR", "WARN", "INFO"].contains(&level), "{line:?} in\n{log}");
    }
    // The error of a start that fails is for people.
    write_config(dir.path(), "[server]\nlisten = \"0.0.0.0:1\"\n");
    let refused = Process::start(toolcrib(dir.path()).arg("serve")).ended_with();
    assert!(refused.contains("error: 0.0.0.0:1 can be reached"), "{refused}");
}

#[test]
fn times_in_tables_are_sentences() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    key(dir.path(), &["--scope", "demo:read", "--expires", "30d"]);
    let list = run(dir.path(), &["keys", "list"]).ok().stdout;
    assert!(list.contains("expires in 29d") && !list.contains("until in"), "{list}");
}
