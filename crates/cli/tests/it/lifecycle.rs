//! Start, refused start, and shutdown of the server.

use std::{
    fs,
    net::TcpListener,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;
use toolcrib_testkit::upstream::faulty_program;

use crate::support::{
    Process, Server, config, demo_key, dir, eventually, eventually_async, is_running, key, run,
    signal_pid, toolcrib, write_config,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_end_takes_every_child_along_and_closes_every_call() {
    // I-22, I-26
    let dir = dir();
    let data = dir.path().join("data");
    let mut server = Server::demo(&data);
    let children = server.process.children();
    assert_eq!(children.len(), 1, "the demo's source");
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    let call = tokio::spawn(async move {
        admin.recorded("demo__slow", json!({ "steps": 100, "step_ms": 10_000 })).await
    });
    let export = || run(dir.path(), &["--data-dir", "data", "audit", "export"]).stdout;
    eventually("the call began", || export().contains("agent.toolCalled"));
    server.process.signal(Signal::TERM);
    // A second signal aborts running requests.
    server.process.signal(Signal::INT);
    assert_eq!(server.process.ended().code(), Some(0), "{}", server.process.stderr());
    call.await.unwrap();
    for child in children {
        eventually("the child is gone", || !is_running(child));
    }
    let events = export();
    assert_eq!(
        events.lines().filter(|line| line.contains("agent.toolReturned")).count(),
        1,
        "{events}"
    );
}

/// A log that cannot be written, as on a full disk or with a reader that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_written_stops_no_call() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for stderr in [full, fs::File::from(std::os::fd::OwnedFd::from(writer))] {
        let dir = dir();
        write_config(dir.path(), &format!("[log]\naccess = true\n{}", config("")));
        let (_, text) = key(dir.path(), &["--scope", "*"]);
        let server = Server::logging_to(dir.path(), stderr);
        let caller = server.caller(Some(&text));
        eventually_async("a call runs", async || {
            caller.otc("demo__echo", json!({ "text": "x" })).await.0 == 200
        })
        .await;
        // It warns of a key that it does not know.
        assert_eq!(server.caller(Some("tc_unknown")).get("/v1/whoami").await.0, 401);
        assert_eq!(caller.otc("demo__echo", json!({ "text": "x" })).await.0, 200);
        server.stop();
    }
}

// I-27, I-90
#[tokio::test(flavor = "multi_thread")]
async fn sources_that_fail_all_the_time_are_all_tried_again_and_do_not_hold_up_the_end() {
    let dir = dir();
    let program = faulty_program();
    let mut text = "[server]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    for number in 0..24 {
        let start = ["exit", "orphan"][number % 2];
        text += &format!(
            "[[source]]\nid = \"s{number}\"\nkind = \"mcp\"\ncommand = [{program:?}, \"start={start}\"]\n"
        );
    }
    write_config(dir.path(), &text);
    let (_, key) = key(dir.path(), &["--principal", "ada", "--scope", "sources:read"]);
    let mut server = Server::start(dir.path());
    let admin = server.caller(Some(&key));
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let (_, told) = admin.get("/v1/sources").await;
        let sources = told["sources"].as_array().unwrap().clone();
        assert_eq!(sources.len(), 24);
        assert!(sources.iter().all(|source| source["taskFailures"] == 0), "{sources:?}");
        if sources.iter().all(|source| source["restarts"].as_u64().unwrap() >= 4) {
            break;
        }
        assert!(Instant::now() < deadline, "some were not tried again: {sources:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.ended().code(), Some(0), "{}", server.process.stderr());
    assert!(!server.process.stderr().contains("panic"), "{}", server.process.stderr());
}

#[tokio::test]
async fn an_idle_server_ends_at_once_and_well() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(dir.path());
        let children = server.process.children();
        server.process.signal(signal);
        assert_eq!(server.process.ended().code(), Some(0));
        assert!(children.iter().all(|child| !is_running(*child)));
    }
}

/// The streams of pages and approvers never end by themselves. The server does not wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn open_streams_end_when_the_server_stops() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    for path in ["/v1/changes", "/v1/approvals/events"] {
        let server = Server::start(dir.path());
        let stream = server.caller(Some(&text)).open(path).await;
        assert_eq!(stream.status(), 200, "{path}");
        let read = tokio::spawn(stream.text());
        let stderr = server.stop();
        assert!(!stderr.contains("did not end in time"), "{path}: {stderr}");
        let events = read.await.unwrap().expect("a whole body");
        assert!(events.starts_with(":"), "{path}: {events}");
    }
}

#[test]
fn a_taken_port_is_said_to_be() {
    let dir = dir();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let ran = run(dir.path(), &["serve", "--listen", &taken]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains(&format!("error: {taken} is in use")), "{}", ran.stderr);
    assert!(ran.stderr.contains("--listen 127.0.0.1:0"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");

    // The default port is in use, by this listener or by another program.
    let _holder = TcpListener::bind("127.0.0.1:8808");
    let ran = run(dir.path(), &["serve", "--demo"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("error: 127.0.0.1:8808 is in use\n"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: `--listen 127.0.0.1:0` takes a free port\n"),
        "{}",
        ran.stderr
    );
    assert!(!dir.path().join(".toolcrib").exists());
}

#[test]
fn nothing_leaves_this_machine_unprotected() {
    // I-30
    let dir = dir();
    for args in
        [&["serve", "--listen", "0.0.0.0:0"][..], &["serve", "--demo", "--listen", "[::]:0"]]
    {
        let ran = run(dir.path(), args);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains("behind_proxy = true"), "{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
    write_config(dir.path(), "[server]\nlisten = \"0.0.0.0:0\"\n");
    assert_eq!(run(dir.path(), &["serve"]).code, 1);
    write_config(dir.path(), "[server]\nlisten = \"0.0.0.0:0\"\nbehind_proxy = true\n");
    let server = Server::start(dir.path());
    assert!(server.url.starts_with("http://0.0.0.0:"), "{}", server.url);
    server.stop();
}

#[test]
fn a_store_that_cannot_be_made_is_explained() {
    let dir = dir();
    fs::write(dir.path().join("file"), "").unwrap();
    let ran = run(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--data-dir", "file/data"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("error: the store file/data/toolcrib.db cannot be opened"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);

    fs::write(
        dir.path().join("toolcrib.db"),
        "this is no database, and long enough to be seen as such",
    )
    .unwrap();
    let ran = run(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--data-dir", "."]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("caused by: "), "{}", ran.stderr);
}

#[test]
fn a_data_directory_that_may_only_be_read_is_explained() {
    use std::os::unix::fs::PermissionsExt as _;
    if rustix::process::geteuid().is_root() {
        // The superuser may write everywhere; the error path is the one of the test above.
        return;
    }
    let dir = dir();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o500)).unwrap();
    let ran = run(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("cannot be created"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_dies_takes_only_its_call_and_comes_back() {
    // I-19, I-25, I-26
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    let child = server.process.children()[0];
    let slow = {
        let admin = admin.clone();
        tokio::spawn(async move {
            admin.otc("demo__slow", json!({ "steps": 100, "step_ms": 10_000 })).await
        })
    };
    let export = || run(dir.path(), &["--data-dir", "data", "audit", "export"]).stdout;
    eventually("the call began", || export().contains("agent.toolCalled"));
    signal_pid(child, Signal::KILL);
    let (status, body) = slow.await.unwrap();
    assert_eq!((status, &body["result"]["success"]), (200, &json!(false)), "{body}");
    let message = body["result"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("went away during the call"), "{message}");
    assert!(export().contains("upstream_died"), "{}", export());
    let listed = admin.get("/v1/tools?source=mcp").await.1;
    assert_eq!(listed.as_array().unwrap().len(), 6, "its tools stay listed");
    let back = || {
        let call = admin.otc("demo__echo", json!({ "text": "back" }));
        let body =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(call)).1;
        body["result"]["success"] == json!(true)
    };
    eventually("the tool is back", back);
    assert!(!is_running(child), "no zombie");
    let children = server.process.children();
    assert_eq!(children.len(), 1, "{children:?}");
    assert_ne!(children[0], child);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_dead_source_costs_the_other_nothing() {
    // I-25
    let dir = dir();
    let second = config("").split_once("[[source]]").unwrap().1.replace("\"demo\"", "\"other\"");
    write_config(dir.path(), &config(&format!("[[source]]{second}")));
    let key = key(dir.path(), &["--scope", "*"]).1;
    let server = Server::start(dir.path());
    let caller = server.caller(Some(&key));
    let call = |tool: &'static str, input: serde_json::Value| {
        let caller = caller.clone();
        async move { caller.otc(tool, input).await.1["result"]["success"] == json!(true) }
    };
    let both_answer = || {
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                call("demo__echo", json!({ "text": "a" })).await
                    && call("other__echo", json!({ "text": "b" })).await
            })
        })
    };
    eventually("both are there", both_answer);
    let steps = json!({ "steps": 2, "step_ms": 1_500 });
    let slow =
        [tokio::spawn(call("demo__slow", steps.clone())), tokio::spawn(call("other__slow", steps))];
    let begun = || run(dir.path(), &["audit", "export"]).stdout.matches(".slow\"").count();
    eventually("both calls began", || begun() == 2);
    let children = server.process.children();
    assert_eq!(children.len(), 2, "{children:?}");
    signal_pid(children[0], Signal::KILL);
    let [demo, other] = slow;
    let outcomes = [demo.await.unwrap(), other.await.unwrap()];
    assert!(outcomes[0] != outcomes[1], "one call died, the other ended well: {outcomes:?}");
    eventually("both are back", both_answer);
}

#[test]
fn without_a_configuration_it_serves_nothing_and_says_so() {
    let dir = dir();
    let mut process =
        Process::start(toolcrib(dir.path()).args(["serve", "--listen", "127.0.0.1:0"]));
    process.until("`listening on`", |it| {
        it.stdout().contains("listening on http://127.0.0.1:").then_some(())
    });
    assert!(process.stderr().contains("there is no configuration here"), "{}", process.stderr());
}

#[test]
fn a_demo_does_not_go_unnoticed_in_a_store_of_ones_own() {
    let dir = dir();
    crate::support::key(dir.path(), &["--scope", "a"]);
    let server =
        Server::of(toolcrib(dir.path()).args(["serve", "--demo", "--listen", "127.0.0.1:0"]));
    assert!(server.stop().contains("WARN toolcrib: .toolcrib/toolcrib.db already exists"));
    write_config(dir.path(), &config(""));
    let server = Server::start(dir.path());
    assert!(server.stop().contains("WARN toolcrib: the keys of a demo are accepted here too"));
}
