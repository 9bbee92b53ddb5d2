//! Host commands as tools: the arguments and environment of the program, its sandbox, and its output.
//! The programs are those of the system.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Caller, CommandOutput, Server, dir, eventually, key, run, write_config};

/// A host extension with `commands` that require no approval.
fn configure(dir: &Path, commands: &str) {
    write_config(
        dir,
        &format!(
            "{AS_ROOT}[[source]]\nid = \"ops\"\nkind = \"host-extension\"\n{commands}\n\
             [source.tools.\"*\"]\nscopes = []\napproval = \"never\"\n\
             approval_reason = \"they are for tests\"\n"
        ),
    );
}

/// The tests may run as root.
const AS_ROOT: &str = "[sources]\nsandbox_as_root = true\n";

fn call(dir: &Path, tool: &str, arguments: &Value) -> CommandOutput {
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
    assert!(ran.code == 1 && ran.stdout.contains("must not start with `-`"), "{ran:?}");
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

/// The environment is the configured one, and results do not contain its secrets.
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
        // Depends on the layer of the sandbox that refuses it first.
        let refusals = ["Permission denied", "Read-only file system"];
        let is_refused = refusals.iter().any(|it| ran.stdout.contains(it));
        assert!(ran.code == 1 && is_refused, "{path}: {ran:?}");
    }
    assert_eq!(std::fs::read_to_string(inside.join("a")).unwrap(), "in reach\n");
}

/// I-26: the child processes of a command end with its call.
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
    eventually("the program is gone", || !is_mentioned(&marker.to_string()));

    let spun = call(dir.path(), "spin", &json!({}));
    assert!(spun.code == 1 && spun.stdout.contains("was killed by signal"), "{spun:?}");
    let large = call(dir.path(), "large", &json!({}));
    assert_eq!(large.code, 1, "{large:?}");
}

/// I-15: commands require an approval, unless the operator gives a reason against it.
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
        ("approval = \"never\"", "a command requires approval"),
        ("approval = \"never\"\napproval_reason = \" \"", "a command requires approval"),
        ("approval_reason = \"because\"", "has no effect, because the command requires approval"),
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
        ("program = \"/bin/x\"\noutput = \"xml\"", "expected `text` or `json`"),
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

/// Whether a process has `text` in its command line.
fn is_mentioned(text: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(text))
}

/// A number of seconds that only one test sleeps for.
fn seconds(test: u32) -> String {
    format!("8{}.{test}", std::process::id())
}

const READ: &str = r#"
[source.commands.read]
program = "/usr/bin/cat"
args = ["--", "{path}"]
parameters = { path = { type = "string" } }
"#;

#[test]
fn no_command_reaches_the_data_directory_a_key_or_a_secret() {
    let dir = dir();
    std::fs::write(dir.path().join("seal.key"), "0".repeat(64)).unwrap();
    std::fs::write(dir.path().join("token"), "a secret").unwrap();
    std::fs::write(dir.path().join("notes"), "a note").unwrap();
    let listing = r#"
[source.commands.list]
program = "/usr/bin/ls"
args = ["-A"]
[source.commands.where]
program = "/usr/bin/pwd"
[source.commands.other]
program = "/usr/bin/true"
env = { API_TOKEN = { file = "token" } }
"#;
    let keys = "[store]\nseal_key = { file = \"seal.key\" }\n";
    let source = "[[source]]\nid = \"ops\"\nkind = \"host-extension\"\n";
    let rules = "[source.tools.\"*\"]\nscopes = []\napproval = \"never\"\n\
                 approval_reason = \"they are for tests\"\n";
    write_config(dir.path(), &format!("{keys}{AS_ROOT}{source}{READ}{listing}{rules}"));
    // The first call makes the store and its signing key.
    assert_eq!(called(dir.path(), "list", &json!({})), "", "it runs in an empty directory");
    let place = called(dir.path(), "where", &json!({}));
    assert!(!Path::new(place.trim()).exists(), "{place} is gone with the call");
    let data = std::fs::read_dir(dir.path().join(".toolcrib")).unwrap().flatten();
    let mut files: Vec<_> = data.map(|entry| entry.path()).filter(|it| it.is_file()).collect();
    assert!(files.iter().any(|it| it.ends_with("toolcrib.db")), "{files:?}");
    files.extend(["seal.key", "token", "toolcrib.toml", "notes"].map(|it| dir.path().join(it)));
    for file in files {
        let ran = call(dir.path(), "read", &json!({ "path": file }));
        assert!(ran.code == 1 && ran.stdout.contains("Permission denied"), "{file:?}: {ran:?}");
    }
}

#[test]
fn paths_that_lead_to_what_is_protected_are_refused_when_the_configuration_is_loaded() {
    let dir = dir();
    let there = dir.path();
    std::fs::write(there.join("token"), "a secret").unwrap();
    std::fs::write(there.join("seal.key"), "00".repeat(32)).unwrap();
    for name in ["inside", ".toolcrib"] {
        std::fs::create_dir(there.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(".toolcrib", there.join("link")).unwrap();
    std::os::unix::fs::symlink("/", there.join("inside/root")).unwrap();
    let absolute = format!("sandbox = {{ read = [\"{}\"] }}", there.display());
    let data = "the data directory or a key";
    let cases = [
        ("cwd = \".\"", data),
        ("cwd = \"\"", data),
        ("cwd = \"inside/..\"", data),
        ("sandbox = { read = [\"inside\", \"/\"] }", data),
        ("sandbox = { read = [\"..\"] }", data),
        ("sandbox = { read = [\"link\"] }", data),
        ("sandbox = { read = [\".toolcrib/packs/new\"] }", data),
        ("sandbox = { read = [\"inside/root\"] }", data),
        ("sandbox = { read = [\"missing/../.toolcrib\"] }", data),
        ("sandbox = { read = [\"seal.key\"] }", data),
        (absolute.as_str(), data),
        ("sandbox = { read = [\"/proc\"] }", "the environment of the server"),
        ("sandbox = { read = [\"/proc/self/environ\"] }", "the environment of the server"),
        ("sandbox = { write = [\"token\"] }", "a file with a secret"),
        ("sandbox = { write = [\"toolcrib.toml\"] }", "the configuration"),
    ];
    let with = |line: &str| {
        let text = format!(
            "[store]\nseal_key = {{ file = \"seal.key\" }}\n[[source]]\nid = \"ops\"\n\
             kind = \"host-extension\"\n[source.commands.x]\nprogram = \"/usr/bin/cat\"\n\
             env = {{ API_TOKEN = {{ file = \"token\" }} }}\n{line}\n"
        );
        write_config(there, &text);
        run(there, &["config", "check"])
    };
    for (line, what) in cases {
        let ran = with(line);
        let said = ran.stdout + &ran.stderr;
        assert!(ran.code == 1 && said.contains(what), "{line}: {said}");
        assert!(
            said.contains("toolcrib.toml:9") && said.contains("source.ops.commands.x"),
            "{said}"
        );
        let call = run(there, &["call", "ops__x", "{}"]);
        assert!(call.code == 1 && call.stderr.contains(what), "{line}: {call:?}");
    }
    // Naming a secret file itself is explicit configuration and allowed.
    for line in ["sandbox = { read = [\"inside\", \"token\"] }", "cwd = \"inside\""] {
        with(line).ok();
    }
}

/// Waits for the only tool of the configuration, which is discovered after the server listens.
async fn until_listed(caller: &Caller) {
    for _ in 0..400 {
        if caller.get("/v1/tools").await.1.as_array().is_some_and(|tools| tools.len() == 1) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the tool is not there");
}

/// Paths are resolved again at each start of a command.
#[tokio::test]
async fn links_that_are_made_later_lead_nowhere() {
    let dir = dir();
    let there = dir.path();
    std::fs::create_dir(there.join("place")).unwrap();
    std::fs::write(there.join("place/note"), "a note").unwrap();
    let read = format!("{READ}sandbox = {{ read = [\"place\"] }}\n");
    configure(there, &read);
    let file = there.join("toolcrib.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("[server]\nlisten = \"127.0.0.1:0\"\n{text}")).unwrap();
    let (_, admin) = key(there, &["--principal", "ada", "--scope", "*"]);
    let server = Server::start(there);
    let caller = Caller::new(&server.url, Some(&admin));
    until_listed(&caller).await;
    let read = async |path: &str| {
        let path = there.join(path);
        caller.otc("ops.read", json!({ "path": path })).await.1.to_string()
    };
    assert!(read("place/note").await.contains("a note"));
    std::fs::hard_link(there.join(".toolcrib/toolcrib.db"), there.join("place/other")).unwrap();
    let said = read("place/other").await;
    assert!(!said.contains("SQLite") && said.contains("upstream_unavailable"), "{said}");
    // The error names the file for the operator, but not for the caller.
    assert!(!said.contains("hard link") && !said.contains("toolcrib.db"), "{said}");
    let log = server.process.stderr();
    let named = log.lines().find(|line| line.contains("has a second name (hard link)")).unwrap();
    assert!(named.contains("tool call failed") && named.contains("read"), "{named}");
    assert!(named.contains(".toolcrib/toolcrib.db has a second name"), "{named}");
    std::fs::remove_dir_all(there.join("place")).unwrap();
    std::os::unix::fs::symlink(".toolcrib", there.join("place")).unwrap();
    let said = read("place/toolcrib.db").await;
    assert!(!said.contains("SQLite") && said.contains("upstream_unavailable"), "{said}");
}

/// A started command counts as run, whatever its output.
#[tokio::test]
async fn a_command_that_imitates_a_failed_start_runs_once() {
    let dir = dir();
    let there = dir.path();
    let ran = there.join("ran");
    std::fs::create_dir(&ran).unwrap();
    let script = format!(
        "echo run >> {}/log; echo 'toolcrib-confined: it cannot be confined' >&2; exit 125",
        ran.display()
    );
    configure(
        there,
        &format!(
            "[source.commands.liar]\nprogram = \"/bin/sh\"\nargs = [\"-c\", \"{script}\"]\n\
             sandbox = {{ write = [\"ran\"] }}\n"
        ),
    );
    let file = there.join("toolcrib.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("[server]\nlisten = \"127.0.0.1:0\"\n{text}")).unwrap();
    let (_, admin) = key(there, &["--principal", "ada", "--scope", "*"]);
    let server = Server::start(there);
    let caller = Caller::new(&server.url, Some(&admin));
    until_listed(&caller).await;
    let request = json!({ "request": { "call_id": "one", "tool_id": "ops.liar", "input": {} } });
    for _ in 0..2 {
        let (status, answer) = caller.post("/tools/call", &request).await;
        assert_eq!(status, 200, "{answer}");
        assert!(answer.to_string().contains("exited with status 125"), "{answer}");
    }
    assert_eq!(std::fs::read_to_string(ran.join("log")).unwrap(), "run\n");
}

#[test]
fn a_program_that_cannot_be_started_is_told_from_one_that_failed() {
    let dir = dir();
    let text = dir.path().join("text");
    std::fs::write(&text, "#!/nowhere/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&text, mode).unwrap();
    configure(dir.path(), &format!("[source.commands.x]\nprogram = \"{}\"", text.display()));
    let ran = call(dir.path(), "x", &json!({}));
    assert!(ran.code == 1 && ran.stderr.contains("not available right now"), "{ran:?}");
    assert!(!ran.stderr.contains("exited with status"), "{ran:?}");
}

/// I-26: also for processes that left the process group and the session and lost their parent.
#[test]
fn what_a_command_leaves_behind_is_gone_when_it_is_answered() {
    let dir = dir();
    let (near, far) = (seconds(1), seconds(2));
    let script = format!(
        "setsid sleep {near} & setsid sh -c 'setsid sleep {far} & exit' & sleep 0.3; echo done"
    );
    configure(
        dir.path(),
        &format!(
            "[source.commands.daemon]\nprogram = \"/bin/sh\"\nargs = [\"-c\", \"{script}\"]\n"
        ),
    );
    assert_eq!(called(dir.path(), "daemon", &json!({})), "done\n");
    assert!(!is_mentioned(&near) && !is_mentioned(&far), "a descendant is still there");
}

/// A stdio server with a descendant that left its session, as a source of a running server.
fn with_daemon(dir: &Path, seconds: &str, more: &str) -> Server {
    let program = crate::support::PROGRAM;
    let script = format!("setsid sleep {seconds} & exec {program} demo-upstream");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n{more}[[source]]\nid = \"demo\"\nkind = \"mcp\"\n\
         command = [\"/bin/sh\", \"-c\", \"{script}\"]\n"
    );
    write_config(dir, &text);
    let server = Server::start(dir);
    eventually("the source has started", || is_mentioned(seconds));
    server
}

// I-26
#[test]
fn what_a_server_of_a_source_leaves_behind_ends_with_the_source() {
    let dir = dir();
    let marker = seconds(3);
    let server = with_daemon(dir.path(), &marker, "");
    // The source is closed when it is taken out.
    let other = "[server]\nlisten = \"127.0.0.1:0\"\n[[source]]\nid = \"other\"\n\
                 kind = \"host-extension\"\n[source.commands.x]\nprogram = \"/bin/true\"\n";
    write_config(dir.path(), other);
    server.process.signal(rustix::process::Signal::HUP);
    eventually("the descendant is gone", || !is_mentioned(&marker));
    server.stop();
}

// I-26
#[test]
fn nothing_is_left_of_a_source_when_its_server_is_ended_or_killed() {
    let dir = dir();
    let marker = seconds(4);
    with_daemon(dir.path(), &marker, "").stop();
    assert!(!is_mentioned(&marker), "a server that has ended has ended its sources");
    let mut server = with_daemon(dir.path(), &marker, "");
    server.process.kill();
    eventually("the descendant is gone", || !is_mentioned(&marker));
}

/// A stdio server in a sandbox reads, writes and connects only where it is allowed to.
#[tokio::test]
async fn a_sandboxed_server_reaches_what_it_was_given_and_nothing_else() {
    let dir = dir();
    let there = dir.path();
    for name in ["shared", "written"] {
        std::fs::create_dir(there.join(name)).unwrap();
    }
    std::fs::write(there.join("shared/note"), "x").unwrap();
    std::fs::write(there.join("secret"), "x").unwrap();
    let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = |it: &std::net::TcpListener| it.local_addr().unwrap().port();
    let (open, closed) = (port(&open), port(&closed));
    let base = there.display();
    // Each successful attempt leaves a file; afterwards the process becomes the demo's server.
    let attempt = |name: &str, command: String| {
        format!("if {command} 2>/dev/null; then : > {base}/written/{name}; fi; ")
    };
    let connect = |port: u16| format!("(exec 3<>/dev/tcp/127.0.0.1/{port})");
    let script = [
        attempt("read-shared", format!("(: < {base}/shared/note)")),
        attempt("read-secret", format!("(: < {base}/secret)")),
        attempt("read-data", format!("(: < {base}/.toolcrib/toolcrib.db)")),
        attempt("write-shared", format!("(: > {base}/shared/new)")),
        attempt("write-outside", format!("(: > {base}/new)")),
        attempt("connect-open", connect(open)),
        attempt("connect-closed", connect(closed)),
        format!("exec {} demo-upstream", crate::support::PROGRAM),
    ]
    .concat();
    let program = Path::new(crate::support::PROGRAM).display();
    let with = |sandbox: &str| {
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{AS_ROOT}[[source]]\nid = \"demo\"\nkind = \"mcp\"\n\
             command = [\"/bin/bash\", \"-c\", \"{script}\"]\n{sandbox}\n\
             [source.tools.\"*\"]\nscopes = []\n"
        );
        write_config(there, &text);
    };
    with(&format!(
        "sandbox = {{ read = [\"shared\", \"{program}\"], write = [\"written\"], connect = [{open}] }}"
    ));
    let (_, admin) = key(there, &["--principal", "ada", "--scope", "*"]);
    let server = Server::start(there);
    let caller = Caller::new(&server.url, Some(&admin));
    eventually("it is connected", || there.join("written/connect-open").exists());
    let mut answer = Value::Null;
    for _ in 0..200 {
        answer = caller.otc("demo.add", json!({ "a": 2, "b": 3 })).await.1;
        if answer["result"]["success"] == true {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(answer["result"]["success"], true, "{answer}");
    let mut done: Vec<_> = std::fs::read_dir(there.join("written"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    done.sort();
    assert_eq!(done, ["connect-open", "read-shared"]);
    server.stop();

    for (sandbox, what) in [
        ("sandbox = { read = [\".\"] }", "the data directory"),
        ("cwd = \".\"\nsandbox = {}", "the data directory"),
        ("sandbox = { connect = \"all\" }", "expected TCP ports"),
        ("sandbox = { mode = \"off\" }", "mode_reason"),
        ("sandbox = { network = true }", "unknown field"),
    ] {
        with(sandbox);
        let ran = run(there, &["config", "check"]);
        let said = ran.stdout + &ran.stderr;
        assert!(ran.code == 1 && said.contains(what), "{sandbox}: {said}");
    }
}
