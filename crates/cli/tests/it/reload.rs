//! Reloading the configuration with SIGHUP.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    Caller, Process, Server, config, dir, eventually, key, toolcrib, write_config,
};

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
        said.contains("the configuration was not applied").then_some(said)
    });
    assert!(said.contains("toolcrib.toml:") && said.contains("\"exec\" is only for"), "{said}");
    assert_eq!(tools(&caller).len(), 5, "the old one stays");

    std::fs::remove_file(dir.path().join("toolcrib.toml")).unwrap();
    let fixed = config("[oxp]\nenabled = false\n[openwop]\nv2 = \"off\"\n")
        .replace("127.0.0.1:0", "127.0.0.1:1");
    write_config(dir.path(), &fixed);
    server.process.signal(Signal::HUP);
    eventually("a rule less", || tools(&caller).len() == 6);
    server.process.until("what needs a restart", |it| {
        let said = it.stderr();
        let takes = |section| {
            said.contains(&format!("[{section}] changed; restart the server to apply it"))
        };
        (takes("server") && takes("oxp") && takes("openwop")).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_json_lines_like_the_rest_of_the_log() {
    let dir = dir();
    let json = config("[log]\nformat = \"json\"\n");
    write_config(dir.path(), &json);
    let mut server = Server::start(dir.path());
    let line = |it: &Process, message: &str| -> Option<Value> {
        let stderr = it.stderr();
        let mut lines = stderr.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
        lines.find(|line| line["message"].as_str().is_some_and(|it| it.contains(message)))
    };
    write_config(dir.path(), &(json.clone() + "[gate]\nrate = \"many\"\n"));
    server.process.signal(Signal::HUP);
    let refused =
        server.process.until("the refusal", |it| line(it, "the configuration was not applied"));
    assert_eq!(refused["level"], "ERROR");
    assert!(refused["causes"].to_string().contains("`gate.rate`"), "{refused}");
    write_config(dir.path(), &(json + "[oxp]\nenabled = false\n"));
    server.process.signal(Signal::HUP);
    let applied =
        server.process.until("the reload", |it| line(it, "the configuration was reloaded"));
    assert_eq!((&applied["level"], &applied["target"]), (&"INFO".into(), &"toolcrib".into()));
    assert!(applied["timestamp"].as_str().unwrap().ends_with('Z'), "{applied}");
    let warning = line(&server.process, "restart the server to apply it").unwrap();
    assert_eq!(warning["level"], "WARN");
    // From the configuration on, every line is JSON.
    let stderr = server.process.stderr();
    let first = stderr.lines().position(|line| line.starts_with('{')).unwrap();
    assert!(stderr.lines().skip(first).all(|line| line.starts_with('{')), "{stderr}");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_has_become_empty_changes_nothing_unless_it_may() {
    let roles = "[[role]]\nname = \"reader\"\nscopes = [\"demo:read\"]\n";
    for allowed in [false, true] {
        let dir = dir();
        let file = write_config(dir.path(), &config(""));
        let args: &[&str] = if allowed { &["--allow-empty"] } else { &[] };
        let listen = ["serve", "--listen", "127.0.0.1:0"];
        let mut server = Server::of(toolcrib(dir.path()).args(listen).args(args));
        let (_, text) = key(dir.path(), &["--scope", "*"]);
        let caller = server.caller(Some(&text));
        eventually("the tools are there", || tools(&caller).len() == 6);
        if allowed {
            write_config(dir.path(), "");
            server.process.signal(Signal::HUP);
            eventually("the tools are gone", || tools(&caller).is_empty());
            continue;
        }
        let refused = |it: &Process| it.stderr().matches("was not applied").count();
        for (at, (emptied, why)) in [
            (Some(""), "the configuration file is empty or missing"),
            (Some("# sources will come\n\n"), "the configuration file is empty or missing"),
            (Some(roles), "the configuration has no sources any more"),
            (None, "the configuration file is empty or missing"),
        ]
        .into_iter()
        .enumerate()
        {
            match emptied {
                Some(text) => drop(write_config(dir.path(), text)),
                None => std::fs::remove_file(&file).unwrap(),
            }
            // Whether the change or the signal comes first, it is refused.
            server.process.signal(Signal::HUP);
            let said = server.process.until(why, |it| {
                let said = it.stderr();
                (refused(it) > at && said.contains(why) && said.contains("--allow-empty"))
                    .then_some(said)
            });
            assert_eq!(tools(&caller).len(), 6, "the old one stays: {said}");
        }
        write_config(dir.path(), &config("[source.tools.wipe]\nhide = true\n"));
        eventually("a whole file is taken over", || tools(&caller).len() == 5);
        server.stop();
    }
}
