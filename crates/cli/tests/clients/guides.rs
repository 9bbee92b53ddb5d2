//! The snippets of docs/guides/clients, as their readers use them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    rig::{Foreign, Server, Tools, tool},
    third_party::program,
};

/// The address and the key in the pages.
const ADDRESS: &str = "http://127.0.0.1:8808";
const KEY: &str = "YOUR_KEY";

/// A tool that every client of these tests must see.
const TOOL: &str = "files__read_text_file";

/// Longer than any client needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The snippet of a client's page, for this server: the first block that is not part of a list.
fn snippet(client: &str, server: &Server) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/guides/clients")
        .join(format!("{client}.md"));
    let page = std::fs::read_to_string(page).unwrap();
    let lines = page.lines().skip_while(|line| !line.starts_with("```")).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("```")).collect();
    let text = lines.join("\n").replace(ADDRESS, &server.url).replace(KEY, &server.admin);
    text.strip_prefix("$ ").unwrap_or(&text).to_owned()
}

/// Runs a command to its end; its output and errors.
async fn finished(mut command: Command) -> (bool, String) {
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = tokio::time::timeout(LIMIT, output).await.expect("it does not end").unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

async fn server(tools: &Tools) -> Server {
    Server::start_with(tools, "[oxp]\nenabled = true").await
}

#[tokio::test]
async fn the_commands_for_plain_http_list_tools() {
    let Some(tools) = Tools::find() else { return };
    let server = server(&tools).await;
    for client in ["curl", "openwop", "oxp"] {
        let mut command = program(Path::new("bash"));
        command.args(["-c", &format!("{} --silent --fail", snippet(client, &server))]);
        let (succeeded, output) = finished(command).await;
        assert!(succeeded && output.contains("read_text_file"), "{client}: {output}");
    }
}

/// Claude Desktop, Cursor and VS Code do not run here: the Python SDK does what their files say.
#[tokio::test]
async fn the_files_of_desktop_clients_lead_to_the_tools() {
    let (Some(tools), Some(python)) = (Tools::find(), tool("TOOLCRIB_PYTHON")) else { return };
    let server = server(&tools).await;
    let bin = Path::new(env!("CARGO_BIN_EXE_toolcrib")).parent().unwrap();
    for client in ["claude-desktop", "stdio", "cursor", "vscode"] {
        // VS Code puts the key in by itself.
        let text = snippet(client, &server).replace("${input:toolcrib-key}", &server.admin);
        let file = server.folder.path().join("client.json");
        std::fs::write(&file, text).unwrap();
        let mut command = program(&python);
        command.arg(tools.drivers.join("entry_client.py"));
        command.env("PATH", with_path(bin));
        command.stdin(std::fs::File::open(file).unwrap()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let said =
            String::from_utf8_lossy(&[output.stdout.clone(), output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{client}: {said}");
        let names: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(names.as_array().unwrap().contains(&json!(TOOL)), "{client}: {said}");
    }
}

#[tokio::test]
async fn the_lines_for_langchain_find_and_call_tools() {
    let (Some(tools), Some(python)) = (Tools::find(), tool("TOOLCRIB_PYTHON_LANGCHAIN")) else {
        return;
    };
    let server = server(&tools).await;
    let rest = format!(
        "[read] = [tool for tool in tools if tool.name == {TOOL:?}]\n\
         print(await read.ainvoke({{\"path\": {:?}}}))\n",
        server.file()
    );
    let output = python_lines("langchain", &rest, &python, &tools, &server).await;
    assert!(output.contains("4711"), "{output}");
}

#[tokio::test]
async fn the_lines_for_openai_agents_find_and_call_tools() {
    let (Some(tools), Some(python)) = (Tools::find(), tool("TOOLCRIB_PYTHON_AGENTS")) else {
        return;
    };
    let server = server(&tools).await;
    // The last line of the page is in a block.
    let rest = format!(
        "    print([tool.name for tool in await agent.mcp_servers[0].list_tools()])\n    \
             print(await server.call_tool({TOOL:?}, {{\"path\": {:?}}}))\n",
        server.file()
    );
    let output = python_lines("openai-agents", &rest, &python, &tools, &server).await;
    assert!(output.contains(TOOL) && output.contains("4711"), "{output}");
}

#[tokio::test]
async fn the_lines_for_the_python_sdk_find_and_call_tools() {
    let (Some(tools), Some(python)) = (Tools::find(), tool("TOOLCRIB_PYTHON")) else { return };
    let server = server(&tools).await;
    // The last line of the page is in a block.
    let rest = format!(
        "    print([tool.name for tool in tools])\n    \
             print(await client.call_tool({TOOL:?}, {{\"path\": {:?}}}))\n",
        server.file()
    );
    let output = python_lines("python", &rest, &python, &tools, &server).await;
    assert!(output.contains(TOOL) && output.contains("4711"), "{output}");
}

#[tokio::test]
async fn the_lines_for_the_typescript_sdk_find_and_call_tools() {
    let Some(tools) = Tools::find() else { return };
    let server = server(&tools).await;
    let folder = server.folder.path();
    std::os::unix::fs::symlink(tools.clients.join("node_modules"), folder.join("node_modules"))
        .unwrap();
    let call = json!({ "name": TOOL, "arguments": { "path": server.file() } });
    let lines = format!(
        "{}\nconsole.log(tools.map((tool) => tool.name), JSON.stringify(await \
         client.callTool({call})));\nprocess.exit(0);\n",
        snippet("typescript", &server)
    );
    std::fs::write(folder.join("snippet.mjs"), lines).unwrap();
    let mut command = program(&tools.node);
    command.arg(folder.join("snippet.mjs"));
    let (succeeded, output) = finished(command).await;
    assert!(succeeded && output.contains(TOOL) && output.contains("4711"), "{output}");
}

async fn python_lines(
    client: &str,
    rest: &str,
    python: &Path,
    tools: &Tools,
    server: &Server,
) -> String {
    let folder = server.folder.path();
    let files = [("snippet.py", snippet(client, server)), ("rest.py", rest.to_owned())];
    let mut command = program(python);
    command.arg(tools.drivers.join("run_snippet.py"));
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
        command.arg(folder.join(name));
    }
    let (succeeded, output) = finished(command).await;
    assert!(succeeded, "{client}: {output}");
    output
}

#[tokio::test]
async fn claude_code_connects_by_the_command_of_its_page() {
    let (Some(tools), Some(claude)) = (Tools::find(), tool("TOOLCRIB_CLAUDE_CODE")) else { return };
    let server = server(&tools).await;
    let folder = server.folder.path();
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(&claude, bin.join("claude")).unwrap();
    let run = async |line: &str| {
        let mut command = program(Path::new("bash"));
        command.args(["-c", line]).current_dir(folder).env("PATH", with_path(&bin));
        command.env("HOME", folder).env("CLAUDE_CONFIG_DIR", folder.join("claude"));
        // It connects to this server alone.
        command
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1");
        finished(command).await
    };
    let (succeeded, output) = run(&snippet("claude-code", &server)).await;
    assert!(succeeded, "{output}");
    let (_, listed) = run("claude mcp list").await;
    let line = listed.lines().find(|line| line.starts_with("toolcrib:"));
    assert!(line.is_some_and(|line| line.contains("Connected")), "{listed}");
}

#[tokio::test]
async fn codex_offers_the_tools_of_its_page_to_a_model() {
    let (Some(tools), Some(codex), Some(python)) =
        (Tools::find(), tool("TOOLCRIB_CODEX"), tool("TOOLCRIB_PYTHON"))
    else {
        return;
    };
    let server = server(&tools).await;
    let mut model = Foreign::start(program(&python).arg(tools.drivers.join("model.py")));
    let home = server.folder.path().join("codex");
    std::fs::create_dir(&home).unwrap();
    let config = format!(
        "model = \"test\"\nmodel_provider = \"test\"\n\n{}\n\n\
         [model_providers.test]\nname = \"test\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n",
        snippet("codex", &server),
        model.url,
    );
    std::fs::write(home.join("config.toml"), config).unwrap();
    let mut command = program(&codex);
    command.args(["exec", "--skip-git-repo-check", "hello"]).current_dir(&home);
    command.env("CODEX_HOME", &home).env("HOME", &home).env("TOOLCRIB_KEY", &server.admin);
    let (succeeded, output) = finished(command).await;
    assert!(succeeded, "{output}");
    let offered = model.next_line();
    assert!(offered.contains("read_text_file"), "{offered}\n{output}");
}

/// The search path, with a folder before it.
fn with_path(folder: &Path) -> std::ffi::OsString {
    #[expect(clippy::disallowed_methods, reason = "a client finds its programs")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).collect::<Vec<PathBuf>>();
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(others)).unwrap()
}
