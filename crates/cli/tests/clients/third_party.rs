//! Third-party clients list and call tools through `/mcp`, in both protocol eras.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::rig::{FILE_TEXT, Server, Tools, tool};

/// Runs a client; its one line of output.
pub(crate) async fn run(mut command: Command) -> Value {
    let output =
        tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output().unwrap());
    let output = output.await.unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}{stdout}");
    serde_json::from_str(stdout.trim()).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

pub(crate) fn program(path: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "a client is a program of its own")]
    Command::new(path)
}

/// Lists and reads the file with a driver script; checks what it says.
async fn drive(server: &Server, tools: &Tools, with: &Path, script: &str, mode: &str) -> Value {
    drive_at(&format!("{}/mcp", server.url), server, tools, with, script, mode).await
}

/// As [`drive`], with the `address` of the server for the script.
async fn drive_at(
    address: &str,
    server: &Server,
    tools: &Tools,
    with: &Path,
    script: &str,
    mode: &str,
) -> Value {
    let mut command = program(with);
    command
        .arg(tools.drivers.join(script))
        .args([address, "files__read_text_file"])
        .args([json!({ "path": server.file() }).to_string(), mode.to_owned()])
        .env("TOOLCRIB_KEY", &server.admin)
        .env("TOOLCRIB_URL", &server.url)
        .env("TOOLCRIB_CLIENTS_DIR", &tools.clients);
    let told = run(command).await;
    let listed = told["tools"].as_array().unwrap();
    assert!(listed.contains(&json!("files__write_file")), "{told}");
    assert!(listed.contains(&json!("clock__get_current_time")), "{told}");
    assert_eq!(told["result"]["content"][0]["text"], json!(FILE_TEXT), "{told}");
    told
}

#[tokio::test]
async fn the_typescript_sdks_list_and_call_in_both_eras() {
    let Some(tools) = Tools::find() else { return };
    // They read every page.
    let server = Server::start_with(&tools, "[mcp]\npage_size = 5").await;
    let told = drive(&server, &tools, &tools.node, "ts-v1.mjs", "legacy").await;
    assert_eq!(told["protocolVersion"], json!("2025-11-25"));
    let told = drive(&server, &tools, &tools.node, "ts-v2.mjs", "legacy").await;
    assert_eq!(told["protocolVersion"], json!("2025-11-25"));
    let told = drive(&server, &tools, &tools.node, "ts-v2.mjs", "2026-07-28").await;
    assert_eq!(told["protocolVersion"], json!("2026-07-28"));
}

/// Its `listChanged` callback is called, whichever way the notification arrives.
#[tokio::test]
async fn the_typescript_sdk_hears_of_changes_in_both_eras() {
    let Some(tools) = Tools::find() else { return };
    let server = Server::start(&tools).await;
    for mode in ["legacy", "2026-07-28"] {
        let mut command = program(&tools.node);
        command
            .arg(tools.drivers.join("ts-v2-changes.mjs"))
            .args([&format!("{}/mcp", server.url), "", "", mode])
            .env("TOOLCRIB_KEY", &server.admin)
            .env("TOOLCRIB_CLIENTS_DIR", &tools.clients)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut client = command.spawn().unwrap();
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let listening = lines.next().unwrap().unwrap();
        assert!(listening.contains("clock__convert_time"), "{listening}");
        let heard = tokio::task::spawn_blocking(move || lines.next().unwrap().unwrap());
        // It may list before it listens, so that a single change could come too early for it.
        for hide in [true, false, true, false, true, false, true] {
            if heard.is_finished() {
                break;
            }
            server.reconfigure(&format!("[source.tools.convert_time]\nhide = {hide}\n"));
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        let heard = tokio::time::timeout(Duration::from_secs(20), heard).await;
        let heard = heard.expect("it never hears").unwrap();
        assert!(heard.contains("changed") && heard.contains("clock__get_current_time"), "{heard}");
        assert!(client.wait().unwrap().success());
        server.reconfigure("");
        // The next client lists at once, and must see the tool again.
        let is_offered = async || {
            let tools = server.get("/v1/tools").await;
            tools.as_array().unwrap().iter().any(|it| it["toolId"] == "mcp:clock.convert_time")
        };
        for _ in 0..600 {
            if is_offered().await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn the_python_clients_list_and_call_in_both_eras() {
    let (Some(tools), Some(current), Some(legacy)) =
        (Tools::find(), tool("TOOLCRIB_PYTHON"), tool("TOOLCRIB_PYTHON_LEGACY"))
    else {
        return;
    };
    let server = Server::start(&tools).await;
    let told = drive(&server, &tools, &current, "python_client.py", "auto").await;
    assert_eq!(told["protocolVersion"], json!("2026-07-28"));
    let told = drive(&server, &tools, &current, "python_client.py", "legacy").await;
    assert_eq!(told["protocolVersion"], json!("2025-11-25"));
    let told = drive(&server, &tools, &legacy, "python_client.py", "auto").await;
    assert_eq!(told["protocolVersion"], json!("2025-11-25"));
}

/// As a client that only starts programs: `toolcrib mcp` forwards to the server.
#[tokio::test]
async fn the_python_clients_list_and_call_over_the_bridge() {
    let (Some(tools), Some(current), Some(legacy)) =
        (Tools::find(), tool("TOOLCRIB_PYTHON"), tool("TOOLCRIB_PYTHON_LEGACY"))
    else {
        return;
    };
    let server = Server::start(&tools).await;
    for (python, mode, revision) in [
        (&current, "auto", "2026-07-28"),
        (&current, "legacy", "2025-11-25"),
        (&legacy, "auto", "2025-11-25"),
    ] {
        let bridge = env!("CARGO_BIN_EXE_toolcrib");
        let told = drive_at(bridge, &server, &tools, python, "python_client.py", mode).await;
        assert_eq!(told["protocolVersion"], json!(revision));
    }
}

#[tokio::test]
async fn the_inspector_lists_and_calls_in_both_eras() {
    let (Some(tools), Some(node24)) = (Tools::find(), tool("TOOLCRIB_NODE24")) else { return };
    let server = Server::start(&tools).await;
    let inspector = inspector(&tools);
    for era in ["legacy", "modern"] {
        let ask = |method: &str, more: &[String]| {
            let mut command = program(&node24);
            command
                .arg(&inspector)
                .args(["--cli", &format!("{}/mcp", server.url), "--transport", "http"])
                .args(["--method", method, "--protocol-era", era, "--format", "json", "-q"])
                .args(["--stored-auth-only", "--header"])
                .arg(format!("Authorization: Bearer {}", server.admin))
                .args(more)
                .env("MCP_INSPECTOR_SECRET_STORE", "memory")
                .env("HOME", server.folder.path());
            run(command)
        };
        let listed = ask("tools/list", &[]).await;
        assert!(listed.to_string().contains("\"files__read_text_file\""), "{era}: {listed}");
        let call = [
            "--tool-name".to_owned(),
            "files__read_text_file".to_owned(),
            "--tool-args-json".to_owned(),
            json!({ "path": server.file() }).to_string(),
        ];
        let read = ask("tools/call", &call).await;
        assert!(read.to_string().contains("4711"), "{era}: {read}");
    }
}

/// The program that the package installs as `mcp-inspector`.
pub(crate) fn inspector(tools: &Tools) -> std::path::PathBuf {
    let package = tools.package("@modelcontextprotocol/inspector");
    let manifest = std::fs::read_to_string(package.join("package.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    package.join(manifest["bin"]["mcp-inspector"].as_str().unwrap())
}
