//! The command `authorization` of the MCP conformance suite, which is a client of the bridge. A
//! person signs in for it. `suites.rs` has the other commands.

use std::net::TcpListener;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Stage, running::Running};
use crate::suites::{BAD, Run, Suite, on_the_page};

/// The suite as a client that registers itself, and with a document. The page's row is what is
/// counted here.
#[tokio::test]
async fn the_suite_signs_a_person_in_and_finds_nothing() {
    let Some([_, next]) = Suite::both() else { return };
    let Some(stage) = Stage::start().await else { return };
    let (url, resource) = (stage.server.url.clone(), stage.mcp());
    let body = json!({ "client_name": "Suite", "redirect_uris": ["http://127.0.0.1/callback"] });
    let registration = stage.server.http.post(format!("{url}/oauth/register")).json(&body);
    let registered: Value = registration.send().await.unwrap().json().await.unwrap();
    let registered = registered["client_id"].as_str().unwrap_or_else(|| panic!("{registered}"));
    for client in [registered, &stage.document] {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (port, results) = (free.port().to_string(), TempDir::new().unwrap());
        let own = ["authorization", "--url", &url, "--resource", &resource];
        let args = [&own[..], &["--client-id", client, "--port", &port]].concat();
        let mut suite = Running::start(next.command(&args, results.path()));
        let question = stage.answer(&mut suite, "ann").await;
        assert!(question.contains(&format!("http://{free}/callback")), "{question}");
        let (status, said) = suite.end().await;
        let run = Run::read(status == Some(0), said, results.path());
        let bad: Vec<_> = BAD.iter().flat_map(|bad| run.ids(bad)).collect();
        assert!(run.ended_well && bad.is_empty(), "{bad:?}\n{}", run.said);
        on_the_page(&[next.row("authorization", &run)]);
        assert_eq!(stage.clients(&["list", "--all"])[0]["clientId"], json!(client));
        let id = stage.grant("ann")["id"].as_str().unwrap().to_owned();
        stage.clients(&["end", &id]);
    }
}
