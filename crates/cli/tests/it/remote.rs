//! Commands with `--url`: their output equals that without it.

use serde_json::{Value, json};

use crate::support::{
    CommandOutput, Process, Server, config, demo_key, dir, finish, key, run, toolcrib, write_config,
};

/// A demo, and the command line as one of its callers.
struct Remote {
    dir: tempfile::TempDir,
    server: Server,
}

impl Remote {
    fn start() -> Self {
        let dir = dir();
        let data = dir.path().join("data");
        let server = Server::demo(&data);
        for name in ["admin", "reader"] {
            std::fs::write(dir.path().join(name), demo_key(&data, name)).unwrap();
        }
        Self { dir, server }
    }

    fn run(&self, who: &str, args: &[&str]) -> CommandOutput {
        let to = ["--url", &self.server.url, "--key-file", who];
        run(self.dir.path(), &[&to, args].concat())
    }
}

/// The output without the id and the requester of an approval.
fn without_ids(text: &str) -> String {
    let text = match text.split_once("Approval ") {
        Some((_, rest)) => text.replace(rest.split_once(' ').unwrap().0, "ID"),
        None => text.to_owned(),
    };
    ["operator", "admin"]
        .iter()
        .fold(text, |text, who| text.replace(&format!("made as `{who}`"), "made as WHO"))
}

#[test]
fn a_call_there_prints_what_a_call_here_prints() {
    let remote = Remote::start();
    write_config(remote.dir.path(), &config("[source.tools.wipe]\napproval = \"always\"\n"));
    // Log lines on stderr are not part of the output.
    let run =
        |args: &[&str]| finish(toolcrib(remote.dir.path()).env("TOOLCRIB_LOG", "off").args(args));
    // The first command creates the store, and says so.
    run(&["call", "demo__echo", r#"{"text":"hi"}"#]);
    for args in [
        &["call", "demo__echo", r#"{"text":"hi"}"#][..],
        &["call", "mcp:demo.add", r#"{"a":1,"b":2}"#],
        &["call", "demo.structured", r#"{"city":"Bonn"}"#],
        &["call", concat!("demo.echo@", env!("CARGO_PKG_VERSION")), r#"{"text":"hi"}"#],
        &["call", "demo__fail", r#"{"message":"no luck"}"#],
        &["call", "demo__slow", r#"{"steps":3,"step_ms":1}"#],
        &["call", "demo__wipe"],
    ] {
        let (here, there) = (run(args), remote.run("admin", args));
        assert_eq!(
            (here.code, here.stdout, without_ids(&here.stderr)),
            (there.code, there.stdout, without_ids(&there.stderr)),
            "{args:?}"
        );
        let json = [&["--json"], args].concat();
        let (mut here, mut there) = (run(&json).json(), remote.run("admin", &json).json());
        assert!(there["runId"].is_string(), "{there}");
        // Of these only the machine that runs the tool knows.
        for name in ["runId", "callId", "durationMs"] {
            here.as_object_mut().unwrap().shift_remove(name);
            there.as_object_mut().unwrap().shift_remove(name);
        }
        for answer in [&mut here, &mut there] {
            // Each caller has its own approval request.
            let asked = answer.pointer_mut("/error/details").and_then(Value::as_object_mut);
            for (name, value) in asked.into_iter().flat_map(|details| details.iter_mut()) {
                let text = value.as_str().unwrap();
                let is_moment = text.contains('T') && text.ends_with('Z');
                assert!(name == "approvalId" || is_moment, "{args:?}: {name} {text}");
                *value = Value::Null;
            }
            let message =
                answer.pointer("/error/message").and_then(Value::as_str).map(str::to_owned);
            for member in ["/error/message", "/error/hint"] {
                if let (Some(Value::String(text)), Some(message)) =
                    (answer.pointer_mut(member), &message)
                {
                    let both = without_ids(&format!("{message}\n{text}"));
                    *text = both.split_once('\n').unwrap().1.to_owned();
                }
            }
        }
        assert_eq!(here, there, "{args:?}");
    }
}

#[test]
fn progress_comes_while_the_tool_runs() {
    // I-28
    let remote = Remote::start();
    let slow = remote.run("admin", &["call", "demo__slow", r#"{"steps": 3}"#]).ok();
    assert_eq!(slow.stdout, "counted to 3\n");
    assert_eq!(
        slow.stderr.lines().collect::<Vec<_>>(),
        ["progress 1/3 step 1 of 3", "progress 2/3 step 2 of 3", "progress 3/3 step 3 of 3"]
    );
    // Seen before the answer, which is far away.
    let args = ["--url", &remote.server.url, "--key-file", "admin", "call", "demo__slow"];
    let mut call = Process::start(
        toolcrib(remote.dir.path()).args(args).arg(r#"{"steps": 100, "step_ms": 2000}"#),
    );
    call.until("the first step", |it| it.stderr().contains("progress 1/100").then_some(()));
    assert_eq!(call.stdout(), "");
}

#[test]
fn a_refused_call_says_why_and_what_to_do() {
    let remote = Remote::start();
    let forbidden = remote.run("reader", &["call", "demo__fail"]);
    assert_eq!((forbidden.code, forbidden.stdout.as_str()), (1, ""));
    assert!(
        forbidden.stderr.contains("hint: the key lacks a required scope"),
        "{}",
        forbidden.stderr
    );
    assert!(forbidden.stderr.contains("`demo:write`"), "{}", forbidden.stderr);
    let told = remote.run("reader", &["--json", "call", "demo__fail"]).json();
    assert_eq!(told["error"]["code"], "forbidden");
    assert_eq!(told["error"]["details"]["requiredScopes"], json!(["demo:write"]));

    for name in ["demo__nothing", "mcp:demo.nothing", "demo.nothing", "größe"] {
        let unknown = remote.run("admin", &["call", name]);
        assert_eq!((unknown.code, unknown.stdout.as_str()), (1, ""), "{unknown:?}");
        assert!(unknown.stderr.starts_with("error: no such tool\n"), "{}", unknown.stderr);
        assert!(unknown.stderr.contains("hint: `toolcrib tools list`"), "{}", unknown.stderr);
    }

    let wrong = remote.run("admin", &["call", "demo__add", r#"{"a":"x"}"#]);
    assert_eq!(wrong.code, 1);
    for part in ["/a", "/b", "hint: see the schema with `toolcrib tools show`"] {
        assert!(wrong.stderr.contains(part), "{}", wrong.stderr);
    }

    std::fs::write(remote.dir.path().join("wrong"), "tc_wrong").unwrap();
    for args in [&["call", "demo__echo"][..], &["tools", "list"], &["--json", "call", "demo__echo"]]
    {
        let denied = remote.run("wrong", args);
        assert_eq!(denied.code, 1);
        assert!(denied.stderr.contains("(401)"), "{}", denied.stderr);
        assert!(denied.stderr.contains("hint: set TOOLCRIB_KEY"), "{}", denied.stderr);
        assert!(!denied.stderr.contains("tools show"), "{}", denied.stderr);
    }
    let told = remote.run("wrong", &["--json", "call", "demo__echo"]).json();
    assert!(told["error"]["hint"].as_str().unwrap().contains("TOOLCRIB_KEY"), "{told}");
}

#[test]
fn a_caller_who_is_too_fast_is_told_when_to_come_back() {
    let dir = dir();
    write_config(dir.path(), &config("[source.tools.echo]\nrate = \"1/h\"\n"));
    let server = Server::start(dir.path());
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    std::fs::write(dir.path().join("key"), text).unwrap();
    let call = |more: &[&str]| {
        let to = ["--url", &server.url, "--key-file", "key"];
        run(dir.path(), &[&to, more, &["call", "demo__echo", r#"{"text":"hi"}"#]].concat())
    };
    // The source may still be starting; what did not run costs nothing twice.
    crate::support::eventually("it is limited", || call(&[]).stderr.contains("too many calls"));
    let limited = call(&[]);
    assert_eq!((limited.code, limited.stdout.as_str()), (1, ""));
    assert!(limited.stderr.contains("hint: try again in "), "{}", limited.stderr);
    let told = call(&["--json"]).json();
    assert_eq!(told["error"]["code"], "rate_limited");
    assert!(told["error"]["details"]["retryAfterMs"].is_u64(), "{told}");
}

#[test]
fn tools_are_listed_and_shown_alike_here_and_there() {
    let remote = Remote::start();
    let file = remote.dir.path().join("toolcrib.toml");
    // What the demo says about its MCP server.
    let rules = "[source.tools.\"{echo,add}\"]\nsafety_tier = \"pure\"\nrate = \"off\"\n\
                 replay_policy = \"deterministic\"\n\
                 [source.tools.\"{fail,wipe}\"]\nscopes = [\"demo:write\"]\nsafety_tier = \"write\"\n\
                 [source.tools.wipe]\napproval = \"always\"\n";
    let text = config(rules)
        .replace("safety_tier = \"read\"", "safety_tier = \"read\"\negress = \"none\"");
    std::fs::write(file, text).unwrap();
    let here = |args: &[&str]| run(remote.dir.path(), args).ok().stdout;
    let there = |args: &[&str]| remote.run("admin", args).ok().stdout;
    let list = ["tools", "list", "--source", "mcp"];
    assert_eq!(here(&list), there(&list));
    let search = ["tools", "search", "weather"];
    let head = |text: String| -> Vec<String> {
        text.lines().next().unwrap().split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(head(here(&search)), head(there(&search)), "the same columns");
    let operators = |line: &&str| !line.starts_with("upstream:") && !line.starts_with("tenants:");
    for name in [
        "demo__fail",
        "mcp:demo.fail",
        "demo.fail",
        concat!("demo.fail@", env!("CARGO_PKG_VERSION")),
    ] {
        let (here, there) = (here(&["tools", "show", name]), there(&["tools", "show", name]));
        let here: Vec<&str> = here.lines().filter(operators).collect();
        assert_eq!(here, there.lines().collect::<Vec<_>>(), "{name}");
        let told = remote.run("admin", &["explain", "--tool", name]).ok().stdout;
        assert!(told.contains("a call would run"), "{name}: {told}");
    }
    let json = remote.run("admin", &["--json", "tools", "show", "demo.fail"]).ok().json();
    assert_eq!(
        json!([json["wireName"], json["sourceId"], json["toolId"]]),
        json!(["demo__fail", "demo", "mcp:demo.fail"])
    );
    let unknown = remote.run("admin", &["tools", "show", "demo__ehco"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("did you mean `demo__echo`?"), "{}", unknown.stderr);
    let unknown = remote.run("admin", &["call", "demo__ehco"]);
    assert!(unknown.stderr.contains("did you mean `demo__echo`?"), "{}", unknown.stderr);
}

#[test]
fn a_pin_is_found_by_every_name_of_its_tool() {
    let remote = Remote::start();
    for name in ["demo__echo", "mcp:demo.echo", "demo.echo", "demo.echo@9.9.9"] {
        let shown = remote.run("admin", &["--json", "tools", "diff", name]).ok().json();
        assert_eq!(shown[0]["toolId"], "mcp:demo.echo", "{name}");
    }
}

#[test]
fn a_call_that_waits_for_consent_says_who_asked_and_who_can_answer() {
    let remote = Remote::start();
    let refused = remote.run("admin", &["call", "demo__wipe"]);
    assert_eq!(refused.code, 1);
    let hint = "hint: the request was made as `admin`; another principal with the scope \
                `approvals:respond` can grant it: `toolcrib approvals grant ";
    assert!(refused.stderr.contains(hint), "{}", refused.stderr);
}

#[test]
fn a_name_that_does_not_exist_there_is_compared_with_those_that_do() {
    let remote = Remote::start();
    let refused = |args: &[&str]| {
        let ran = remote.run("admin", args);
        assert_eq!(ran.code, 1, "{ran:?}");
        ran.stderr
    };
    let create = ["keys", "create", "--json", "--name", "laptop", "--scope", "demo:read"];
    let made = remote.run("admin", &create).ok().json();
    let id = made["id"].as_str().unwrap();
    for (args, said) in [
        (
            &["keys", "revoke", "laptop"][..],
            format!("did you mean `{id}`, which is called laptop?"),
        ),
        (&["keys", "rotate", &format!("{id}0")], format!("did you mean `{id}`?")),
        (&["keys", "revoke", "something-else"], "`toolcrib keys list` shows the ids".to_owned()),
        (&["sources", "logs", "dmeo"], "no such source; did you mean `demo`?".to_owned()),
        (&["tools", "list", "--toolset", "x"], "no such toolset".to_owned()),
        (
            &["explain", "--tool", "demo__ech"],
            "no such tool; did you mean `demo__echo`?".to_owned(),
        ),
        (&["approvals", "show", "nothing"], "`toolcrib approvals list`".to_owned()),
        (&["runs", "show", "nothing"], "`toolcrib runs list`".to_owned()),
    ] {
        let stderr = refused(args);
        assert!(stderr.contains(&said), "{args:?}: {stderr}");
    }
    let unknown = remote.run("admin", &["explain", "--tool", "demo__ech"]).stdout;
    assert!(unknown.contains("tool demo__ech\n"), "{unknown}");
    // Suggestions contain only tools that the reader may use.
    let hidden = remote.run("reader", &["explain", "--tool", "demo__wip"]).stderr;
    assert!(!hidden.contains("demo__wipe"), "{hidden}");
}
