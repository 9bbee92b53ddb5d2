//! The PyPI client of OpenWOP, in both generations, unmodified and with the same address.

use serde_json::{Value, json};

use crate::{
    rig::{Server, tool},
    third_party::{program, run},
};

const WORKFLOW: &str = "id: tally-flow
steps: [{ id: a, tool: 'mcp:tally.count', arguments: { note: n } }]
outputs: {}
";

/// Drives the client of the generation at a server over `tally_server.py`, with a run of a workflow.
async fn drive(generation: &str) -> Option<Value> {
    let python = tool(&format!("TOOLCRIB_PYTHON_OPENWOP_{generation}"))?;
    let (upstream, drivers) = (tool("TOOLCRIB_PYTHON_OTC")?, tool("TOOLCRIB_CLIENT_DRIVERS")?);
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let file = folder.path().join("tally-flow.yaml");
    std::fs::write(&file, WORKFLOW).unwrap();
    let config = format!(
        r#"
        [[role]]
        name = "reader"
        scopes = ["tools:tally", "tools:flows"]

        [[source]]
        id = "tally"
        kind = "mcp"
        command = [{upstream:?}, {script:?}, {marks:?}]

        [[source]]
        id = "flows"
        kind = "workflow"
        files = [{file:?}]
        "#,
        script = drivers.join("tally_server.py"),
    );
    let server = Server::over(tempfile::tempdir().unwrap(), &config, &["tally"]).await;
    let call = json!({ "request": { "tool_id": "flows__tally-flow" } });
    let (status, called) = server.post("/tools/call", &call).await;
    assert_eq!(status, 200, "{called}");
    let runs = server.get("/v1/runs").await;
    let id = runs["runs"][0]["runId"].as_str().unwrap_or_else(|| panic!("{called} {runs}"));
    let mut command = program(&python);
    command.arg(drivers.join("openwop_steps.py")).args([&server.url, "mcp:tally.count", id]);
    command.env("TOOLCRIB_KEY", &server.admin);
    Some(run(command).await)
}

/// Checks what both generations can do.
fn check_tools(results: &Value) {
    for (step, result) in results.as_object().unwrap() {
        assert!(result.get("broken").is_none(), "{step}: {result}");
    }
    let ids = |list: &Value| -> Vec<String> {
        let tools = list["gave"].as_array().unwrap_or_else(|| panic!("{list}")).iter();
        tools.map(|tool| tool["toolId"].as_str().unwrap().to_owned()).collect()
    };
    let expected = [
        "mcp:tally.count",
        "mcp:tally.die",
        "mcp:tally.fail",
        "mcp:tally.none",
        "openwop:workflow.tally-flow",
    ];
    assert_eq!(ids(&results["list"]), expected);
    assert_eq!(ids(&results["compact"]), expected);
    assert_eq!(results["by_id"]["gave"], results["list"]["gave"][0]);
    assert_eq!(results["unknown"]["gave"], Value::Null);
    for step in ["list_with_a_wrong_key", "by_id_with_a_wrong_key"] {
        assert_eq!(results[step]["raised"], 401, "{results}");
        assert_eq!(results[step]["envelope"]["error"], "unauthenticated");
    }
    assert!(results["description"]["gave"]["paths"].is_object(), "{results}");
}

#[tokio::test]
async fn the_client_of_the_first_generation_works_as_before() {
    let Some(results) = drive("1").await else { return };
    check_tools(&results);
    assert_eq!(results["discovery"]["gave"]["protocolVersion"], "1.0");
}

#[tokio::test]
async fn the_client_of_the_second_generation_works() {
    let Some(results) = drive("2").await else { return };
    check_tools(&results);
    let found = &results["discovery"]["gave"];
    assert_eq!(found["protocolVersions"], json!(["1.0", "2.0"]));
    assert_eq!(found["families"]["toolCatalog"]["facets"]["compactView"], true, "{found}");
    let run = &results["run"]["gave"];
    assert_eq!((&run["status"], &results["runs"]["gave"]["runs"][0]), (&json!("completed"), run));
    let events = results["events"]["gave"].as_array().unwrap();
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "agent.tool-called",
        "tool.session-opened",
        "agent.tool-called",
        "agent.tool-returned",
        "tool.session-closed",
        "agent.tool-returned",
    ];
    assert_eq!(names, expected);
    assert_eq!(events[0]["runId"], run["runId"]);
}
