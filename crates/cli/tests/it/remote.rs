//! Commands with `--url`: what they print is what they print without it.

use serde_json::{Value, json};

use crate::support::{
    Process, Ran, Server, config, demo_key, dir, finish, key, run, toolcrib, write_config,
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

    fn run(&self, who: &str, args: &[&str]) -> Ran {
        let to = ["--url", &self.server.url, "--key-file", who];
        run(self.dir.path(), &[&to, args].concat())
    }
}

/// What was printed, but for the id of what a person was asked.
fn without_ids(text: &str) -> String {
    match text.split_once("(approval ") {
        Some((before, rest)) => format!("{before}({}", rest.split_once(')').unwrap().1),
        None => text.to_owned(),
    }
}

#[test]
fn a_call_there_prints_what_a_call_here_prints() {
    let remote = Remote::start();
    write_config(remote.dir.path(), &config("[source.tools.wipe]\napproval = \"always\"\n"));
    // What is logged is not what is printed.
    let run =
        |args: &[&str]| finish(toolcrib(remote.dir.path()).env("TOOLCRIB_LOG", "off").args(args));
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
            // Each has asked for itself.
            let asked = answer.pointer_mut("/error/details").and_then(Value::as_object_mut);
            for (name, value) in asked.into_iter().flat_map(|details| details.iter_mut()) {
                let text = value.as_str().unwrap();
                let is_moment = text.contains('T') && text.ends_with('Z');
                assert!(name == "approvalId" || is_moment, "{args:?}: {name} {text}");
                *value = Value::Null;
            }
            if let Some(Value::String(message)) = answer.pointer_mut("/error/message") {
                *message = without_ids(message);
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
    assert!(forbidden.stderr.contains("hint: the key lacks a scope"), "{}", forbidden.stderr);
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
    for part in ["/a", "/b", "hint: `toolcrib tools show` shows the schema"] {
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
