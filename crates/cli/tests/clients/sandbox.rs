//! Servers from npm and PyPI work in a sandbox, and cannot leave it.

use serde_json::json;

use crate::rig::{FILE_TEXT, Server, Tools};

#[tokio::test]
async fn the_filesystem_server_works_in_a_sandbox() {
    let Some(tools) = Tools::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (shared, hidden) = (folder.path().join("shared"), folder.path().join("hidden"));
    for (place, text) in [(&shared, FILE_TEXT), (&hidden, "out of reach")] {
        std::fs::create_dir(place).unwrap();
        std::fs::write(place.join("note.txt"), text).unwrap();
    }
    // The server itself would allow both directories.
    let config = format!(
        "[sources]\nsandbox_as_root = true\n[[role]]\nname = \"reader\"\nscopes = []\n[[source]]\nid = \"files\"\nkind = \"mcp\"\n\
         command = [{:?}, {:?}, {shared:?}, {hidden:?}]\n\
         sandbox = {{ read = [{:?}], write = [{shared:?}] }}\n",
        tools.node,
        tools.package("@modelcontextprotocol/server-filesystem/dist/index.js"),
        tools.clients,
    );
    let server = Server::over(folder, &config, &["files"]).await;
    let call = async |tool: &str, arguments: serde_json::Value| {
        let params = json!({ "name": format!("files__{tool}"), "arguments": arguments });
        server.mcp("tools/call", params).await["result"].clone()
    };
    let read = call("read_text_file", json!({ "path": shared.join("note.txt") })).await;
    assert_eq!(read["content"][0]["text"], FILE_TEXT, "{read}");
    let new = shared.join("new.txt");
    let written = call("write_file", json!({ "path": new, "content": "written" })).await;
    assert_ne!(written["isError"], true, "{written}");
    assert_eq!(std::fs::read_to_string(new).unwrap(), "written");
    let read = call("read_text_file", json!({ "path": hidden.join("note.txt") })).await;
    assert!(read["isError"] == true && read.to_string().contains("EACCES"), "{read}");
    let new = hidden.join("new.txt");
    let written = call("write_file", json!({ "path": new, "content": "written" })).await;
    assert!(written["isError"] == true && !new.exists(), "{written}");
}

#[tokio::test]
async fn a_python_server_works_in_a_sandbox() {
    let Some(tools) = Tools::find() else { return };
    let environment = tools.time_server.ancestors().nth(2).unwrap();
    // The interpreter and its library, which may be outside of `/usr`.
    let python = environment.join("bin/python").canonicalize().unwrap();
    let prefix = python.ancestors().nth(2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[sources]\nsandbox_as_root = true\n[[role]]\nname = \"reader\"\nscopes = []\n\
         [[source]]\nid = \"time\"\nkind = \"mcp\"\n\
         command = [{:?}, \"--local-timezone\", \"UTC\"]\n\
         sandbox = {{ read = [{environment:?}, {prefix:?}] }}\n",
        tools.time_server,
    );
    let server = Server::over(folder, &config, &["time"]).await;
    let arguments =
        json!({ "source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo" });
    let params = json!({ "name": "time__convert_time", "arguments": arguments });
    let converted = server.mcp("tools/call", params).await["result"].clone();
    assert!(converted.to_string().contains("21:30"), "{converted}");
}
