//! The PyPI clients of Open Tool Calling and of OXP, over an upstream whose runs can be counted.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::rig::{Server, tool};
use crate::third_party::{program, run};

/// Python with the clients, and the folder of the drivers.
struct Clients {
    python: PathBuf,
    drivers: PathBuf,
}

impl Clients {
    fn find() -> Option<Self> {
        Some(Self {
            python: tool("TOOLCRIB_PYTHON_OTC")?,
            drivers: tool("TOOLCRIB_CLIENT_DRIVERS")?,
        })
    }

    /// A server over `tally_server.py`, which writes into `marks`.
    async fn serve(&self, marks: &Path) -> Server {
        let config = format!(
            r#"
            [[role]]
            name = "reader"
            scopes = ["tools:tally"]

            [[source]]
            id = "tally"
            kind = "mcp"
            command = [{python:?}, {script:?}, {marks:?}]
            "#,
            python = self.python,
            script = self.drivers.join("tally_server.py"),
        );
        Server::over(tempfile::tempdir().unwrap(), &config, &["tally"]).await
    }

    async fn drive(&self, script: &str, url: &str, mode: &str, key: &str) -> Value {
        let mut command = program(&self.python);
        command.arg(self.drivers.join(script)).args([url, mode]).env("TOOLCRIB_KEY", key);
        run(command).await
    }
}

/// How often each tool has run.
fn runs(marks: &Path) -> [usize; 4] {
    let text = std::fs::read_to_string(marks).unwrap();
    ["count", "fail", "none", "die"].map(|name| text.lines().filter(|line| *line == name).count())
}

#[tokio::test]
async fn oxp_lists_and_calls_and_never_runs_a_tool_again() {
    let Some(clients) = Clients::find() else { return };
    for mode in ["sync", "async", "strict"] {
        let folder = tempfile::tempdir().unwrap();
        let marks = folder.path().join("marks");
        let server = clients.serve(&marks).await;
        let url = format!("{}/oxp", server.url);
        let told = clients.drive("oxp_client.py", &url, mode, &server.admin).await;

        for step in ["health", "health_with_a_bad_key"] {
            assert_eq!(told[step]["attempts"], 1, "{mode} {step}: {told}");
            assert!(told[step].get("raised").is_none(), "{mode} {step}: {told}");
        }
        let items = told["list"]["gave"]["items"].as_array().unwrap();
        let ids: Vec<&str> = items.iter().map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(
            ids,
            ["tally.count@2.1.0", "tally.die@2.1.0", "tally.fail@2.1.0", "tally.none@2.1.0"]
        );
        assert_eq!(items[0]["input_schema"]["properties"]["note"]["description"], "note");
        assert_eq!(
            (&items[0]["name"], &items[0]["version"]),
            (&json!("tally__count"), &json!("2.1.0"))
        );

        for step in ["call", "call_with_schema", "named", "lost_on_the_way"] {
            let result = &told[step]["gave"]["result"];
            assert_eq!(result["success"], true, "{mode} {step}: {told}");
            assert_eq!(result["value"], "count: n", "{mode} {step}");
            assert!(result["duration"].is_number() && result["call_id"].is_string());
        }
        assert_eq!(told["call_without_input"]["gave"]["result"]["success"], true, "{told}");
        assert_eq!(told["named_again"]["gave"], told["named"]["gave"]);
        assert_eq!(told["named_otherwise"]["raised"], "BadRequestError");

        let failure = &told["tool_failure"]["gave"]["result"];
        assert_eq!(
            (&failure["success"], &failure["error"]["message"]),
            (&json!(false), &json!("fail: n"))
        );
        let died = &told["dies"]["gave"]["result"];
        assert_eq!((&died["success"], &died["error"]["can_retry"]), (&json!(false), &json!(false)));
        for (step, raised) in [
            ("list_with_a_bad_key", "AuthenticationError"),
            ("call_with_a_bad_key", "AuthenticationError"),
            ("unknown", "BadRequestError"),
            ("invalid", "UnprocessableEntityError"),
        ] {
            assert_eq!(told[step]["raised"], raised, "{mode} {step}: {told}");
            assert_eq!(told[step]["body"]["$schema"], "urn:oxp:1.0");
            assert_eq!(told[step]["attempts"], 1, "{mode} {step} was repeated");
        }
        assert!(told["invalid"]["body"]["parameter_errors"]["note"].is_string(), "{told}");

        // The package repeats what is 5xx; nothing that ran is. Where the way back breaks, a call
        // that has an id of its own still runs once.
        for step in ["tool_failure", "dies"] {
            assert_eq!(told[step]["attempts"], 1, "{mode} {step} was repeated");
        }
        assert_eq!(told["lost_on_the_way"]["attempts"], 3);
        assert_eq!(runs(&marks), [4, 1, 1, 1], "{mode}");
        assert_eq!(told["versions"], json!(["1.0"]), "on every answer");
    }
}

/// All features of this client work with an Open Tool Calling server, except its LangChain adapter,
/// which expects a bare array instead of the protocol's object.
#[tokio::test]
async fn universal_tool_client_lists_and_calls() {
    let Some(clients) = Clients::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let server = clients.serve(&marks).await;
    for mode in ["sync", "async"] {
        let told = clients.drive("universal_client.py", &server.url, mode, &server.admin).await;
        for step in ["health", "health_of_nobody"] {
            assert_eq!(told[step]["gave"], json!({ "status": "OK" }), "{mode}: {told}");
        }
        assert_eq!(told["info"]["status"], 404, "the protocol has no /info");
        let list = &told["list"]["gave"];
        assert_eq!(
            (&list["$schema"], list["tools"].as_array().unwrap().len()),
            (&json!("otc://1.0"), 4)
        );
        assert_eq!(told["list_by_header"]["gave"], *list);
        for step in ["list_of_nobody", "list_with_a_bare_key"] {
            assert_eq!(told[step]["status"], 401, "{mode} {step}: {told}");
        }
        for step in ["call", "call_by_name", "named"] {
            let result = &told[step]["gave"]["result"];
            assert_eq!(
                (&result["success"], &result["value"]),
                (&json!(true), &json!("count: n")),
                "{told}"
            );
        }
        assert_eq!(told["call_without_input"]["gave"]["result"]["success"], true, "{told}");
        assert_eq!(told["named_again"]["gave"], told["named"]["gave"]);
        let failure = &told["tool_failure"]["gave"]["result"];
        assert_eq!(
            (&failure["success"], &failure["error"]["message"]),
            (&json!(false), &json!("fail: n"))
        );
        for (step, status) in [("invalid", 422), ("unknown", 400)] {
            assert_eq!(told[step]["status"], status, "{mode} {step}: {told}");
            let note: Value =
                serde_json::from_str(told[step]["notes"][0].as_str().unwrap()).unwrap();
            assert!(note["message"].is_string(), "{note}");
        }
        assert_eq!(told["as_langchain_tools"]["raised"], "TypeError");
    }
    assert_eq!(runs(&marks), [6, 2, 2, 0]);
}
