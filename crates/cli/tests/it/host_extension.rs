//! Commands of this machine as tools: what reaches the program, what it may reach, and what comes
//! back. The programs are the system's own.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Ran, dir, eventually, run, write_config};

/// A host extension with `commands`, none of which asks for approval.
fn configure(dir: &Path, commands: &str) {
    write_config(
        dir,
        &format!(
            "[[source]]\nid = \"ops\"\nkind = \"host-extension\"\n{commands}\n\
             [source.tools.\"*\"]\nscopes = []\napproval = \"never\"\n\
             approval_reason = \"they are for tests\"\n"
        ),
    );
}

fn call(dir: &Path, tool: &str, arguments: &Value) -> Ran {
    std::fs::write(dir.join("arguments.json"), arguments.to_string()).unwrap();
    run(dir, &["call", &format!("ops__{tool}"), "@arguments.json"])
}

/// What the tool answered; the program ends it with a line break of its own.
fn called(dir: &Path, tool: &str, arguments: &Value) -> String {
    let told = call(dir, tool, arguments).ok().stdout;
    told.strip_suffix('\n').unwrap_or(&told).to_owned()
}

/// Prints its arguments, each in brackets.
const ARGUMENTS: &str = r#"
[source.commands.show]
program = "/usr/bin/printf"
args = ["[%s]", "--name={a}", "--", "{b}"]
[source.commands.show.parameters]
a = { type = "string" }
b = { type = "string" }
"#;

/// The injection suite: arguments arrive exactly, and nothing else runs.
#[test]
fn a_callers_value_is_one_argument_and_nothing_more() {
    let dir = dir();
    configure(dir.path(), ARGUMENTS);
    let trap = dir.path().join("trap");
    let trap = trap.display();
    for hostile in [
        "two words".to_owned(),
        "'single' \"double\" `ticks`".to_owned(),
        format!("; touch {trap}"),
        format!("$(touch {trap})"),
        format!("`touch {trap}`"),
        format!("a && touch {trap} || b | c > {trap}"),
        format!("one\ntouch {trap}\n"),
        "-rf".to_owned(),
        "--".to_owned(),
        "--help".to_owned(),
        "* ? [a-z] ~ $HOME %s \\n {a}".to_owned(),
        String::new(),
        "größe 😀 \u{202e}".to_owned(),
        "x".repeat(100_000),
    ] {
        let seen = called(dir.path(), "show", &json!({ "a": hostile, "b": hostile }));
        assert_eq!(seen, format!("[--name={hostile}][--][{hostile}]"), "{hostile:.40}");
    }
    assert!(!dir.path().join("trap").exists(), "something else ran");
}

#[test]
fn what_no_program_can_be_given_is_refused() {
    let dir = dir();
    configure(dir.path(), ARGUMENTS);
    for (value, why) in [
        ("zero \0 byte".to_owned(), "`a` has a zero byte"),
        ("x".repeat(200_000), "`a` is longer than"),
    ] {
        let ran = call(dir.path(), "show", &json!({ "a": value, "b": "" }));
        assert_eq!(ran.code, 1);
        assert!(ran.stdout.contains(why) && ran.stdout.contains("was not run"), "{ran:?}");
    }
    let bare = r#"
[source.commands.bare]
program = "/usr/bin/printf"
args = ["[%s]", "{a}"]
parameters = { a = { type = "string" } }
"#;
    configure(dir.path(), bare);
    let ran = call(dir.path(), "bare", &json!({ "a": "--help" }));
    assert!(ran.code == 1 && ran.stdout.contains("must not begin with `-`"), "{ran:?}");
    let ran = call(dir.path(), "bare", &json!({ "a": "x", "other": 1 }));
    assert!(ran.code == 1 && ran.stderr.contains("other"), "{ran:?}");
}

#[test]
fn groups_of_arguments_input_and_exit_codes_do_what_the_configuration_says() {
    let dir = dir();
    let commands = r#"
[source.commands.find]
program = "/usr/bin/grep"
args = [["-m", "{most}"], "-n", "--", "{pattern}"]
stdin = "text"
success = [0, 1]
[source.commands.find.parameters]
pattern = { type = "string" }
text = { type = "string" }
most = { type = "integer", minimum = 1 }
[source.commands.parse]
program = "/usr/bin/cat"
stdin = "text"
output = "json"
parameters = { text = { type = "string" } }
[source.commands.fail]
program = "/usr/bin/ls"
args = ["--", "/no/such/place"]
"#;
    configure(dir.path(), commands);
    let text = "one\ntwo\nthree\ntwo\n";
    let found = |arguments: Value| called(dir.path(), "find", &arguments);
    assert_eq!(found(json!({ "pattern": "two", "text": text })), "2:two\n4:two\n");
    assert_eq!(found(json!({ "pattern": "two", "text": text, "most": 1 })), "2:two\n");
    assert_eq!(found(json!({ "pattern": "four", "text": text })), "", "1 is no failure here");

    let document = json!({ "a": [1, 2.5, null] });
    let run_json = ["--json", "call", "ops__parse", "@arguments.json"];
    let arguments = json!({ "text": document.to_string() });
    std::fs::write(dir.path().join("arguments.json"), arguments.to_string()).unwrap();
    let answer = run(dir.path(), &run_json).ok().json();
    assert_eq!(answer["structuredContent"], document, "{answer}");
    let ran = call(dir.path(), "parse", &json!({ "text": "{not json" }));
    assert_eq!(ran.code, 1, "{ran:?}");

    let failed = call(dir.path(), "fail", &json!({}));
    assert_eq!(failed.code, 1);
    assert!(failed.stdout.contains("exited with status 2"), "{failed:?}");
    assert!(failed.stdout.contains("No such file"), "{failed:?}");
}

/// The environment is what the configuration says, and its secrets do not come back.
#[test]
fn a_command_has_the_environment_that_it_is_given() {
    let dir = dir();
    std::fs::write(dir.path().join("secret"), "s3cr3t-canary-value\n").unwrap();
    let commands = r#"
[source.commands.environment]
program = "/usr/bin/env"
env = { PLAIN = "visible", API_TOKEN = { file = "secret" } }
"#;
    configure(dir.path(), commands);
    let mut lines: Vec<String> =
        called(dir.path(), "environment", &json!({})).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["API_TOKEN=[REDACTED:API_TOKEN]", "PLAIN=visible"]);
}

#[test]
fn a_command_reaches_what_it_was_given_and_nothing_else() {
    let dir = dir();
    let inside = dir.path().join("inside");
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("a"), "in reach\n").unwrap();
    std::fs::write(outside.path().join("b"), "out of reach\n").unwrap();
    let commands = r#"
[source.commands.read]
program = "/usr/bin/cat"
args = ["--", "{path}"]
cwd = "inside"
parameters = { path = { type = "string" } }
[source.commands.write]
program = "/usr/bin/tee"
args = ["--", "{path}"]
stdin = "text"
cwd = "inside"
sandbox = { write = ["written"] }
parameters = { path = { type = "string" }, text = { type = "string" } }
"#;
    std::fs::create_dir(dir.path().join("written")).unwrap();
    configure(dir.path(), commands);
    assert_eq!(called(dir.path(), "read", &json!({ "path": "a" })), "in reach\n");
    let out_of_reach = outside.path().join("b");
    let link = inside.join("link");
    std::os::unix::fs::symlink(&out_of_reach, &link).unwrap();
    for path in [out_of_reach.to_str().unwrap(), "link", "/etc/shadow", "/proc/self/environ"] {
        let ran = call(dir.path(), "read", &json!({ "path": path }));
        assert!(ran.code == 1 && ran.stdout.contains("Permission denied"), "{path}: {ran:?}");
    }
    let write = |path: &str| call(dir.path(), "write", &json!({ "path": path, "text": "x" }));
    write("../written/new").ok();
    assert_eq!(std::fs::read_to_string(dir.path().join("written/new")).unwrap(), "x");
    for path in ["a", "../toolcrib.toml", "/tmp/toolcrib-was-here"] {
        let ran = write(path);
        assert!(ran.code == 1 && ran.stdout.contains("Permission denied"), "{path}: {ran:?}");
    }
    assert_eq!(std::fs::read_to_string(inside.join("a")).unwrap(), "in reach\n");
}

/// I-26: what a command started is gone when its call is.
#[test]
fn bounds_of_time_output_and_resources_hold() {
    let dir = dir();
    let commands = r#"
[source.commands.endless]
program = "/usr/bin/yes"
max_output = "64KiB"
[source.commands.sleep]
program = "/usr/bin/sleep"
args = ["{seconds}"]
parameters = { seconds = { type = "number" } }
[source.commands.spin]
program = "/usr/bin/sha256sum"
args = ["/dev/zero"]
limits = { cpu = "1s" }
[source.commands.large]
program = "/usr/bin/head"
args = ["-c", "200000000", "/dev/zero"]
limits = { memory = "1MiB" }
[source.tools.sleep]
timeout = "300ms"
"#;
    // `configure` appends its own rules, so this one has to come after them.
    let (commands, rule) = commands.split_once("[source.tools.sleep]").unwrap();
    configure(dir.path(), commands);
    let file = dir.path().join("toolcrib.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}[source.tools.sleep]{rule}")).unwrap();

    let endless = call(dir.path(), "endless", &json!({}));
    assert!(endless.code == 1 && endless.stderr.contains("larger than the limit"), "{endless:?}");

    let marker = 86_399.25;
    let slept = call(dir.path(), "sleep", &json!({ "seconds": marker }));
    assert!(slept.code == 1 && slept.stderr.contains("did not answer in time"), "{slept:?}");
    eventually("the program is gone", || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
        let wanted = marker.to_string();
        !lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(&wanted))
    });

    let spun = call(dir.path(), "spin", &json!({}));
    assert!(spun.code == 1 && spun.stdout.contains("was ended by signal"), "{spun:?}");
    let large = call(dir.path(), "large", &json!({}));
    assert_eq!(large.code, 1, "{large:?}");
}

/// I-15: what runs programs asks, unless the operator says why not.
#[test]
fn a_command_asks_for_approval_unless_a_reason_is_given() {
    let dir = dir();
    let source = format!("[[source]]\nid = \"ops\"\nkind = \"host-extension\"\n{ARGUMENTS}");
    write_config(dir.path(), &format!("{source}\n[source.tools.\"*\"]\nscopes = []\n"));
    let shown = run(dir.path(), &["--json", "tools", "list"]).ok().json();
    assert_eq!(shown[0]["toolId"], "x-host-ops-show");
    assert_eq!(shown[0]["safetyTier"], "exec");
    assert_eq!(shown[0]["approval"], "always");
    assert_eq!(shown[0]["egress"], "host-owned");
    let ran = call(dir.path(), "show", &json!({ "a": "", "b": "" }));
    assert!(ran.code == 1 && ran.stderr.contains("approval required"), "{ran:?}");

    for (rule, complaint) in [
        ("approval = \"never\"", "asks for approval unless you say why"),
        ("approval = \"never\"\napproval_reason = \" \"", "asks for approval unless you say why"),
        ("approval_reason = \"because\"", "says why a command need not ask, but it does"),
        ("safety_tier = \"read\"", "always of tier \"exec\""),
    ] {
        write_config(dir.path(), &format!("{source}\n[source.tools.\"*\"]\n{rule}\n"));
        let ran = run(dir.path(), &["config", "check"]);
        assert!(ran.code == 1 && (ran.stdout + &ran.stderr).contains(complaint), "{rule}");
    }
}

#[test]
fn commands_that_can_never_work_are_told_apart() {
    let dir = dir();
    for (command, complaint) in [
        ("program = \"grep\"", "expected an absolute path"),
        ("program = \"/bin/x\"\nargs = [\"{a}\"]", "has no entry in `parameters`"),
        (
            "program = \"/bin/x\"\nargs = [\"{a}{b}\"]\nparameters = { a = { type = \"string\" }, b = { type = \"string\" } }",
            "two placeholders",
        ),
        (
            "program = \"/bin/x\"\nargs = [\"{a}\"]\nparameters = { a = { type = \"array\" } }",
            "becomes one argument",
        ),
        ("program = \"/bin/x\"\nparameters = { a = { type = \"string\" } }", "used by no argument"),
        ("program = \"/bin/x\"\nsandbox = { mode = \"off\" }", "mode_reason"),
        ("program = \"/bin/x\"\nshell = true", "unknown field"),
        ("program = \"/bin/x\"\nlimits = { files = 1 }", "at least 8"),
        ("program = \"/bin/x\"\noutput = \"xml\"", "expected \"text\" or \"json\""),
    ] {
        configure(dir.path(), &format!("[source.commands.x]\n{command}"));
        let ran = run(dir.path(), &["config", "check"]);
        let said = ran.stdout + &ran.stderr;
        assert!(ran.code == 1 && said.contains(complaint), "{command}: {said}");
    }
    configure(dir.path(), "[source.commands.x]\nprogram = \"/no/such/program\"");
    let listed = run(dir.path(), &["sources", "check"]);
    let said = listed.stdout + &listed.stderr;
    assert!(said.contains("is not a program that can be run"), "{said}");
}
