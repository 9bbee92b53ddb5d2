//! `conformance`: arguments, reports and exit codes. The tests of `toolcrib-conformance` prove that
//! each check can fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;
use toolcrib_conformance::broken::{
    BrokenHost, KEY, OpenToolCallingFault, OpenwopFault, SECOND_KEY,
};

use crate::support::{
    CommandOutput, Server, config, demo_key, dir, eventually, finish, key, run, toolcrib,
    write_config,
};

/// Runs against `host` with both of its keys.
async fn check(host: &BrokenHost, args: &[&str]) -> CommandOutput {
    let dir = dir();
    let mut command = toolcrib(dir.path());
    command.args(["conformance", "--url", &host.url]).args(args);
    command.env("TOOLCRIB_KEY", KEY).env("TOOLCRIB_SECOND_KEY", SECOND_KEY);
    // The host runs on another thread.
    tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap()
}

#[test]
fn what_makes_no_sense_is_a_wrong_request() {
    let dir = dir();
    let url = ["--url", "http://127.0.0.1:9"];
    for args in [
        &[][..],
        &["--protocol", "smtp"],
        &["--only", "openwop.nothing"],
        &["--at", "mcp"],
        &["--at", "mcp=no-slash"],
        &["--arguments", "{}"],
        &["--tool", "a", "--arguments", "[]"],
        &["--failing-arguments", "{}"],
    ] {
        let url = if args.is_empty() { &[][..] } else { &url };
        let ran = run(dir.path(), &[&["conformance"], url, args].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {ran:?}");
    }
    for url in ["http://127.0.0.1:9/?a=b", "127.0.0.1:9", "http://user:pw@127.0.0.1:9"] {
        let ran = run(dir.path(), &["conformance", "--url", url]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(!ran.stderr.contains("pw@"), "{ran:?}");
    }
}

#[test]
fn a_host_that_is_not_there_is_one_clear_error() {
    let dir = dir();
    // Bound and dropped, so the port is closed.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let ran = run(dir.path(), &["conformance", "--url", &url, "--json"]);
    assert_eq!(ran.code, 1);
    let told = ran.json();
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("does not answer") && message.contains(&url), "{told}");
    assert!(told["error"]["hint"].as_str().unwrap().contains("running"), "{told}");
}

#[test]
fn the_list_needs_no_host() {
    let dir = dir();
    let all = run(dir.path(), &["conformance", "--list", "--json"]).ok().json();
    let all = all.as_array().unwrap();
    assert!(all.len() > 200, "{}", all.len());
    for check in all {
        for member in ["id", "level", "section", "requirement"] {
            assert!(!check[member].as_str().unwrap().is_empty(), "{check}");
        }
    }
    let some = run(dir.path(), &["conformance", "--list", "--only", "otc.health"]).ok();
    assert_eq!(some.stdout.lines().count(), 2, "{}", some.stdout);
    assert!(some.stdout.contains("otc.health.open"), "{}", some.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_shows_the_exchange_without_the_keys() {
    let host = BrokenHost::openwop(Some(OpenwopFault::DuplicateId)).await;
    let ran = check(&host, &["--json"]).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    for key in [KEY, SECOND_KEY] {
        assert!(!ran.stdout.contains(key) && !ran.stderr.contains(key));
    }
    let report = ran.json();
    let checks = report["checks"].as_array().unwrap();
    let count = |outcome: &str, level: &str| {
        let those = checks.iter().filter(|it| it["outcome"] == outcome && it["level"] == level);
        those.count()
    };
    let summary = &report["summary"];
    assert_eq!(summary["failed"], count("fail", "must"));
    assert_eq!(summary["missedShould"], count("fail", "should"));
    assert_eq!(summary["passed"], count("pass", "must") + count("pass", "should"));
    assert_eq!(report["url"].as_str(), Some(host.url.as_str()));
    // The host serves only one of the protocols.
    let served: Vec<&Value> =
        report["protocols"].as_array().unwrap().iter().filter(|it| it["served"] == true).collect();
    assert_eq!(served.len(), 1, "{}", report["protocols"]);
    let failed = checks.iter().find(|it| it["id"] == "openwop.catalog.unique-ids").unwrap();
    assert_eq!(failed["outcome"], "fail");
    let request = &failed["exchanges"][0]["request"];
    assert_eq!(request["line"], "GET /v1/tools");
    assert_eq!(request["headers"][0], "authorization: Bearer *** (key)");
    assert_eq!(failed["exchanges"][0]["response"]["status"], 200);

    let text = check(&host, &["--only", "openwop.catalog.unique-ids"]).await;
    assert_eq!(text.code, 1);
    assert!(text.stdout.contains("> GET /v1/tools") && text.stdout.contains("< status 200"));
    assert!(text.stdout.ends_with("0 passed, 1 failed, 0 skipped\n"), "{}", text.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_host_only_should_do_counts_when_strict() {
    let host = BrokenHost::openwop(Some(OpenwopFault::Unsorted)).await;
    let only = ["--only", "openwop.catalog.sorted"];
    let ran = check(&host, &only).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("OUTCOME") && ran.stdout.contains("FAIL"), "{}", ran.stdout);
    let ran = check(&host, &[&only[..], &["--strict"]].concat()).await;
    assert_eq!(ran.code, 1, "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_nobody_named_and_that_is_not_harmless_is_not_called() {
    // I-33
    let host = BrokenHost::otc(true, Some(OpenToolCallingFault::NoDuration)).await;
    // The explorer of this host is at its usual place and says that two tools are harmless.
    let ran = check(&host, &["--protocol", "otc", "--json", "--at", "explorer=/nowhere"]).await;
    let report = ran.json();
    let skipped: BTreeSet<&str> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["outcome"] == "skip")
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert!(skipped.contains("otc.call.success"), "{skipped:?}");
    // Checks of requests that fail before a tool runs need no tool.
    assert!(!skipped.contains("otc.call.unknown-tool"), "{skipped:?}");
    let named = check(&host, &["--only", "otc.call.success", "--tool", "echo"]).await;
    assert!(named.ok().stdout.contains("PASS"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_junit_report_is_xml_with_the_same_numbers() {
    let host = BrokenHost::openwop(Some(OpenwopFault::KeyInDescription)).await;
    let folder = dir();
    let file = folder.path().join("report.xml");
    let ran = check(&host, &["--json", "--junit", file.to_str().unwrap()]).await;
    let report = ran.json();
    let xml = std::fs::read_to_string(&file).unwrap();
    let names = well_formed(&xml);
    let count = |name: &str| names.iter().filter(|it| *it == name).count();
    assert_eq!(count("testcase"), report["checks"].as_array().unwrap().len());
    assert_eq!(count("failure"), report["summary"]["failed"]);
    assert!(xml.contains("name=\"openwop.catalog.no-secrets\""));
    assert!(xml.contains("failures=\"1\""), "{}", xml.lines().nth(1).unwrap());
    assert!(!xml.contains(KEY));
}

/// The results in `docs/reference/conformance.md` equal those of the runner for the demo.
#[test]
fn the_demo_does_what_the_table_of_checks_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reference/conformance.md")).unwrap();
    let mut said: BTreeMap<&str, &str> = BTreeMap::new();
    for row in page.lines().filter(|row| row.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [.., id, "must" | "should", status] = cells[..] {
            said.insert(id.trim_matches('`'), status);
        }
    }
    assert!(said.len() > 100, "{}", said.len());

    let dir = dir();
    let data = dir.path().join("data");
    let mut command = toolcrib(dir.path());
    command.args([
        "serve",
        "--demo",
        "--no-history",
        "--test-routes",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
    ]);
    let server = Server::of(command.arg(&data));
    run_twice(dir.path(), &server, &demo_key(&data, "admin"), "flows__welcome");
    // A principal of the same tenant shows what is hidden, one of another what is foreign.
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for second in ["reader", "other-tenant"] {
        let mut command = toolcrib(dir.path());
        command
            .args(["conformance", "--json", "--require-behavior", "--url", &server.url])
            .args(["--tool", "demo__echo", "--failing-tool", "demo__fail"])
            .env("TOOLCRIB_KEY", demo_key(&data, "admin"))
            .env("TOOLCRIB_SECOND_KEY", demo_key(&data, second));
        let report = finish(&mut command).json();
        for check in report["checks"].as_array().unwrap() {
            let text = |name: &str| check[name].as_str().unwrap().to_owned();
            let is_known = said.get(&*text("id")).is_some_and(|it| it.starts_with("fails: "));
            assert!(text("outcome") != "fail" || is_known, "{check:#}");
            let best = seen.entry(text("id")).or_insert_with(|| text("outcome"));
            if text("outcome") == "pass" {
                *best = "pass".to_owned();
            }
        }
    }
    for (id, status) in said {
        let outcome = match status.split_once(':') {
            Some(("skipped", _)) => "skip",
            Some(("fails", _)) => "fail",
            _ => "pass",
        };
        assert_eq!(seen.get(id).map(String::as_str), Some(outcome), "{id} {status}");
    }
}

/// Calls the workflow `tool`, so that there are two runs. Its sources may still start.
fn run_twice(dir: &Path, server: &Server, key: &str, tool: &str) {
    for run in ["the first run", "the second run"] {
        eventually(run, || {
            let mut command = toolcrib(dir);
            command.args(["call", tool, r#"{"name":"Ann"}"#, "--url", &server.url]);
            finish(command.env("TOOLCRIB_KEY", key)).code == 0
        });
    }
}

const GREETING: &str = "
id: greeting
inputs: { type: object, properties: { name: { type: string } }, required: [name] }
steps:
  - { id: greet, tool: 'mcp:demo.echo', arguments: { text: { $ref: /inputs/name } } }
outputs: {}
";

/// The demo keeps `/tools` without a version for Open Tool Calling, and grants access to no origin.
#[test]
fn a_host_whose_root_is_openwop_v2_fails_no_check_of_it() {
    const ORIGIN: &str = "https://page.example";
    let dir = dir();
    std::fs::create_dir_all(dir.path().join("flows")).unwrap();
    std::fs::write(dir.path().join("flows/greeting.yaml"), GREETING).unwrap();
    let more = "[[source]]\nid = \"flows\"\nkind = \"workflow\"\nfiles = [\"flows/*.yaml\"]\n\
                [openwop]\nv2 = \"root\"\n";
    let origins = format!("[server]\nallowed_origins = [\"{ORIGIN}\"]");
    write_config(dir.path(), &config(more).replace("[server]", &origins));
    let (_, first) = key(dir.path(), &["--principal", "ann", "--scope", "*"]);
    let (_, second) = key(dir.path(), &["--principal", "bob", "--scope", "demo:read"]);
    let server = Server::start(dir.path());
    run_twice(dir.path(), &server, &first, "flows__greeting");
    let mut command = toolcrib(dir.path());
    command
        .args(["conformance", "--json", "--strict", "--protocol", "openwop2", "--origin", ORIGIN])
        .args(["--url", &server.url])
        .env("TOOLCRIB_KEY", first)
        .env("TOOLCRIB_SECOND_KEY", second);
    let report = finish(&mut command).ok().json();
    let checks = report["checks"].as_array().unwrap();
    let skipped: Vec<&str> = checks
        .iter()
        .filter(|check| check["outcome"] == "skip")
        .map(|check| check["id"].as_str().unwrap())
        .collect();
    assert_eq!(skipped, ["openwop2.discovery.mcp", "openwop2.errors.rate-limit"]);
}

/// The demo has no authorization server, so it leaves this out.
#[test]
fn resource_metadata_is_looked_at_where_it_is_announced() {
    let dir = dir();
    let resource = r#"[auth.resource]
resource = "https://tools.example.com/mcp"
authorization_servers = ["https://login.example.com"]
scopes = ["demo:read"]
"#;
    write_config(dir.path(), &config(resource));
    let (_, key) = key(dir.path(), &["--scope", "*"]);
    let server = Server::start(dir.path());
    let mut command = toolcrib(dir.path());
    command.args(["conformance", "--only", "mcp.auth", "--url", &server.url]);
    let ran = finish(command.env("TOOLCRIB_KEY", key)).ok();
    assert!(ran.stdout.ends_with("6 passed, 0 failed, 0 skipped\n"), "{ran:?}");
}

/// The names of all elements of `xml`, which must be nested well.
fn well_formed(xml: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, part) in xml.split('<').skip(1).enumerate() {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("no end: {part}"));
        assert!(!text.contains('>'), "{text}");
        if at == 0 {
            assert!(tag.starts_with("?xml"), "{tag}");
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.split([' ', '/']).next().unwrap();
        names.push(name.to_owned());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    names
}
