//! SIGHUP.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Caller, Server, config, dir, eventually, key, write_config};

fn tools(caller: &Caller) -> Vec<Value> {
    let listed = caller.get("/v1/tools");
    let listed =
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(listed)).1;
    listed.as_array().cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_file_is_taken_over_and_a_bad_one_is_not() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let mut server = Server::start(dir.path());
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let caller = server.caller(Some(&text));
    eventually("the tools are there", || tools(&caller).len() == 6);
    let child = server.process.children();

    write_config(
        dir.path(),
        &config("[source.tools.wipe]\nhide = true\n[source.tools.echo]\nsafety_tier = \"pure\"\n"),
    );
    server.process.signal(Signal::HUP);
    eventually("the rules are in force", || tools(&caller).len() == 5);
    let echo = tools(&caller).into_iter().find(|tool| tool["toolId"] == "mcp:demo.echo").unwrap();
    assert_eq!(echo["safetyTier"], "pure");
    assert_eq!(server.process.children(), child, "a source that did not change goes on running");

    write_config(dir.path(), &config("[source.tools.fail]\nsafety_tier = \"exec\"\n"));
    server.process.signal(Signal::HUP);
    let said = server.process.until("the refusal", |it| {
        let said = it.stderr();
        said.contains("the configuration was not taken over").then_some(said)
    });
    assert!(said.contains("toolcrib.toml:") && said.contains("\"exec\" is only for"), "{said}");
    assert_eq!(tools(&caller).len(), 5, "the old one stays");

    std::fs::remove_file(dir.path().join("toolcrib.toml")).unwrap();
    write_config(dir.path(), &config("").replace("127.0.0.1:0", "127.0.0.1:1"));
    server.process.signal(Signal::HUP);
    eventually("a rule less", || tools(&caller).len() == 6);
    server.process.until("what needs a restart", |it| {
        it.stderr().contains("[server] changed; that takes a restart").then_some(())
    });
}
