//! The faulty upstream over stdin and stdout.

use std::{
    fs::OpenOptions,
    io::{BufRead as _, Write as _},
    process::{Command, Stdio, exit},
    sync::Arc,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::script::{Behaviour, Script, Step};

/// Runs until stdin ends.
pub fn run(words: &[String]) {
    let script = Arc::new(Script::new(Behaviour::parse(words)));
    complain(&format!("starting as asked: {}", script.behaviour.start));
    match script.behaviour.start.as_str() {
        "late" => thread::sleep(Duration::from_millis(800)),
        "exit" => {
            complain("cannot open the database");
            exit(4);
        }
        "orphan" => {
            orphan();
            exit(4);
        }
        "noise" => print("Welcome to the faulty server!\nListening\n"),
        "hang" => loop {
            thread::sleep(Duration::from_secs(60));
        },
        _ => {}
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if let Some(file) = &script.behaviour.record {
            let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if message["id"].is_null() || message["method"].is_null() {
            continue;
        }
        let script = Arc::clone(&script);
        // A thread for each request: a slow one does not delay the others.
        thread::spawn(move || script.answer(&message).into_iter().for_each(perform));
    }
}

#[expect(clippy::zombie_processes, reason = "the descendant is meant to be left behind")]
fn perform(step: Step) {
    match step {
        Step::Say(message) => print(&format!("{message}\n")),
        Step::Raw(bytes) => print_bytes(&[&bytes, b"\n" as &[u8]].concat()),
        Step::Big(id, bytes) => {
            let text = "x".repeat(bytes);
            print(&format!(
                "{{\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n"
            ));
        }
        Step::Complain(line) => complain(&line),
        Step::Wait(duration) => thread::sleep(duration),
        Step::Hang => loop {
            thread::sleep(Duration::from_secs(60));
        },
        Step::Die => {
            complain("dying as asked");
            exit(3);
        }
        Step::ListChanged => {
            let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            print(&format!("{changed}\n"));
        }
        Step::Grandchild(request) => {
            let child = Command::new("sh")
                .args(["-c", "trap '' TERM HUP INT; while :; do sleep 1; done"])
                .stdin(Stdio::null())
                .stdout(Stdio::inherit())
                .stderr(Stdio::null())
                .spawn()
                .expect("sh can be run");
            let content = json!([{ "type": "text", "text": child.id().to_string() }]);
            let body = json!({ "content": content, "resultType": "complete" });
            let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": body });
            print(&format!("{answer}\n"));
        }
    }
}

/// Starts a descendant that leaves the process group and holds stdout open for a while.
#[expect(clippy::zombie_processes, reason = "the descendant is meant to be left behind")]
fn orphan() {
    use std::os::unix::process::CommandExt as _;
    Command::new("sleep")
        .arg("3")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::inherit())
        .stderr(Stdio::null())
        .spawn()
        .expect("sleep can be run");
}

fn print(text: &str) {
    print_bytes(text.as_bytes());
}

fn print_bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    // A closed reader is normal: the client closes stdin too.
    if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
        exit(0);
    }
}

fn complain(text: &str) {
    std::io::stderr().lock().write_all(format!("{text}\n").as_bytes()).ok();
}
