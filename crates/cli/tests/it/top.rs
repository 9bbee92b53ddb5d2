//! `top` and `/readyz?verbose` of a real server.

use serde_json::{Value, json};

use crate::support::{CommandOutput, Server, config, dir, finish, key, toolcrib, write_config};

fn top(server: &Server, dir: &std::path::Path, key: &str, args: &[&str]) -> CommandOutput {
    let mut command = toolcrib(dir);
    command.args(["--url", &server.url]).env("TOOLCRIB_KEY", key).arg("top").args(args);
    finish(&mut command)
}

#[tokio::test(flavor = "multi_thread")]
async fn top_shows_a_running_server() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let (_, operator) = key(dir.path(), &["--scope", "metrics:all"]);
    let (_, agent) = key(dir.path(), &["--scope", "demo:read", "--tenant", "acme"]);
    let server = Server::start(dir.path());
    let caller = server.caller(Some(&agent));
    // The source lists its tools in the background.
    while caller.otc("demo__echo", json!({ "text": "x" })).await.0 != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    caller.otc("demo__fail", json!({})).await;
    let shown = top(&server, dir.path(), &operator, &["--once", "--json", "--interval", "100ms"]);
    let shown: Value = shown.ok().json();
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    assert!(shown["calls"]["total"].as_f64().unwrap() >= 2.0, "{shown}");
    assert_eq!(
        (&shown["sources"][0]["source"], &shown["sources"][0]["up"]),
        (&json!("demo"), &json!(true))
    );
    let tools: Vec<_> =
        shown["tools"].as_array().unwrap().iter().map(|it| it["tool"].clone()).collect();
    assert!(
        tools.contains(&json!("mcp:demo.echo")) && tools.contains(&json!("mcp:demo.fail")),
        "{shown}"
    );
    assert_eq!(shown["tenants"][0]["tenant"], "acme");
    assert_eq!(shown["pendingApprovals"].as_f64(), Some(0.0));

    // Without a terminal it prints once, too.
    let shown = top(&server, dir.path(), &operator, &["--interval", "100ms"]).ok().stdout;
    for text in ["approvals pending 0", "\nSOURCE", "\nTOOL", "\nTENANT", "mcp:demo.echo", "acme"] {
        assert!(shown.contains(text), "{text} is not in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");

    let refused = top(&server, dir.path(), &agent, &["--once", "--interval", "100ms"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("metrics:read"), "{}", refused.stderr);
    let nowhere = finish(toolcrib(dir.path()).args(["top", "--once"]));
    assert_eq!(nowhere.code, 2);
    assert!(nowhere.stderr.contains("name the server with --url"), "{}", nowhere.stderr);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_get_a_report_without_names() {
    let dir = dir();
    let more = "[[source]]\nid = \"gone\"\nkind = \"mcp\"\nurl = \"http://127.0.0.1:1/mcp\"\n\
                [record]\ncheckpoint_interval = \"1s\"\n";
    let file = write_config(dir.path(), &config(more));
    let (_, operator) = key(dir.path(), &["--scope", "metrics:all"]);
    let (_, agent) = key(dir.path(), &["--scope", "demo:read", "--tenant", "acme"]);
    let server = Server::start(dir.path());
    let report = async |key: &str| server.caller(Some(key)).get("/readyz?verbose").await.1;
    let eventually = async |what: &str, is_so: &dyn Fn(&Value) -> bool| {
        for _ in 0..600 {
            let report = report(&operator).await;
            if is_so(&report) {
                return report;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("not within a minute: {what}: {}", report(&operator).await);
    };
    eventually("the tools", &|it| it["catalog"]["tools"] == 6).await;
    server.caller(Some(&agent)).otc("demo__echo", json!({ "text": "x" })).await;
    let signed = |it: &Value| it["record"]["lastCheckpointAt"].is_string();
    let shown = eventually("a checkpoint", &signed).await;
    assert_eq!(shown["sources"], json!({ "configured": 2, "up": 1, "breakersOpen": 0 }));
    assert_eq!(shown["configuration"]["generation"], 1);
    assert_eq!(shown["configuration"]["refused"], 0);
    assert_eq!(shown["build"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(shown["catalog"]["tools"], 6);
    assert_eq!((&shown["store"]["answers"], &shown["store"]["queue"]), (&json!(true), &json!(0)));
    assert!(shown["store"]["bytes"].as_u64().unwrap() > 0);
    assert_eq!(shown["approvals"]["pending"], 0);
    for name in ["acme", "gone", "demo"] {
        assert!(!shown.to_string().contains(name), "{shown}");
    }
    // Others get the checks alone, and unknown parameters change nothing.
    let others = report(&agent).await;
    let members: Vec<_> = others.as_object().unwrap().keys().collect();
    assert_eq!(members, ["status", "checks"]);
    let plain = server.caller(Some(&operator)).get("/readyz?verbos&x=1").await.1;
    assert_eq!(plain, json!({ "status": "ready" }));
    std::fs::write(&file, "[sever]\n").unwrap();
    eventually("a refused configuration", &|it| it["configuration"]["refused"] == 1).await;
    server.stop();
}
