//! `import`: commands of Windows, defaults of variables, encodings, and secrets in arguments.

use serde_json::{Value, json};

use super::restrictions::{import, import_json, is_named, source};

fn words(toml: &toml::Table, id: &str) -> Vec<String> {
    let command = source(toml, id).and_then(|source| source["command"].as_array());
    command.into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[test]
fn commands_of_windows_are_translated_or_comments() {
    let (toml, text, report) = import_json(&json!({ "mcpServers": {
        "shell": { "command": "cmd", "args": ["/c", "npx", "-y", "notes-server"] },
        "ending": { "command": "uvx.exe", "args": ["notes"] },
        "program": { "command": "D:\\tools\\notes.exe" },
        "slashes": { "command": "D:/tools/notes.exe" },
        "argument": { "command": "node", "args": ["D:\\tools\\index.js"] },
        "lines": { "command": "cmd", "args": ["/c", "cd tools && npx notes"] },
        "variable": { "command": "notes", "env": { "NOTES_TOKEN": "%MY_TOKEN%" } },
        "folder": { "command": "notes", "args": ["%APPDATA%\\notes"] },
    } }));
    assert_eq!(words(&toml, "shell"), ["npx", "-y", "notes-server"], "{text}");
    assert_eq!(words(&toml, "ending"), ["uvx", "notes"], "{text}");
    let token = &source(&toml, "variable").unwrap()["env"]["NOTES_TOKEN"]["env"];
    assert_eq!(token.as_str(), Some("MY_TOKEN"), "{text}");
    for id in ["program", "slashes", "argument", "lines", "folder"] {
        assert!(
            source(&toml, id).is_none() && text.contains(&format!("# id = \"{id}\"")),
            "{text}"
        );
        assert!(is_named(&report, &format!("{id}.command")), "{id}\n{report:#}");
    }
    assert!(is_named(&report, "shell.command"), "{report:#}");
}

#[test]
fn a_command_of_one_word_is_split() {
    let (toml, text, report) = import_json(&json!({ "mcpServers": {
        "one": { "command": "npx -y notes-server --port 80" },
        "quoted": { "command": "uvx 'notes server'", "args": ["--debug"] },
        "path": { "command": "/opt/My Notes/server" },
        "shell": { "command": "cd /srv && npx notes" },
    } }));
    assert_eq!(words(&toml, "one"), ["npx", "-y", "notes-server", "--port", "80"], "{text}");
    assert_eq!(words(&toml, "path"), ["/opt/My Notes/server"], "{text}");
    assert!(source(&toml, "shell").is_none(), "{text}");
    for part in ["one.command", "quoted.command", "shell.command"] {
        assert!(is_named(&report, part), "{part}\n{report:#}");
    }
}

#[test]
fn defaults_of_variables_are_named_unless_they_may_be_secrets() {
    let (toml, text, report) = import_json(&json!({ "mcpServers": {
        "a": {
            "command": "notes",
            "args": ["--region", "${REGION:-eu-west-1}"],
            "env": { "DEPTH": "${DEPTH:-3}", "NOTES_KEY": "${NOTES_KEY:-canary-0}" },
        },
        "b": { "url": "https://${HOST:-example.com}/mcp" },
        "c": { "url": "https://c.example.com/mcp", "headers": { "X-Mode": "${C_MODE:-auto}" } },
    } }));
    let all = report.to_string();
    assert!(!all.contains("canary"), "{text}");
    let env = &source(&toml, "a").unwrap()["env"];
    assert_eq!(env["DEPTH"]["env"].as_str(), Some("DEPTH"), "{text}");
    assert_eq!(words(&toml, "a"), ["sh", "-c", "exec notes --region \"$REGION\""], "{text}");
    for (part, reason) in [
        ("a.env.DEPTH", "the default `3` of `DEPTH`"),
        ("a.env.NOTES_KEY", "a default of `NOTES_KEY`"),
        ("a.args[1]", "the default `eu-west-1` of `REGION`"),
        ("b.url", "the default of its variable"),
        ("c.headers.X-Mode", "the default `auto` of `C_MODE`"),
    ] {
        let parts = report["notTranslated"].as_array().unwrap();
        let is_it =
            |it: &&Value| it["part"] == part && it["reason"].as_str().unwrap().contains(reason);
        assert!(parts.iter().any(|it| is_it(&it)), "{part}\n{report:#}");
    }
    assert!(source(&toml, "b").is_none(), "{text}");
}

#[test]
fn secrets_in_arguments_come_from_the_environment() {
    let (toml, text, report) = import_json(&json!({ "mcpServers": {
        "flag": { "command": "npx", "args": ["-y", "notes", "--api-key", "canary-1", "--port", "80"] },
        "joined": { "command": "notes", "args": ["--token=canary-2", "it's mine/x"] },
        "headers": { "command": "npx", "args": [
            "mcp-remote", "https://mcp.example.com/mcp",
            "--header", "Authorization: Bearer canary-3", "--header", "X-Team: canary-4",
            "--header", "X-Site: canary-5",
        ] },
        "box": { "command": "docker", "args": ["run", "-i", "-e", "NOTES_PIN=canary-6", "notes"] },
        "named": { "command": "notes", "args": ["--token", "${env:NOTES_TOKEN}", "${input:db-path}"] },
        "place": { "command": "notes", "args": ["${workspaceFolder}/a"] },
    } }));
    let all = report.to_string();
    assert!(!all.contains("canary"), "{text}");
    for (id, expected) in [
        ("flag", "exec npx -y notes --api-key \"$FLAG_API_KEY\" --port 80"),
        ("joined", "exec notes --token=\"$JOINED_TOKEN\" \"$JOINED_ARG_2\""),
        (
            "headers",
            "exec npx mcp-remote https://mcp.example.com/mcp --header \"$HEADERS_HEADER\" --header \
             \"$HEADERS_HEADERS_HEADER\" --header \"$HEADERS_HEADERS_HEADER_2\"",
        ),
        ("named", "exec notes --token \"$NOTES_TOKEN\" \"$DB_PATH\""),
    ] {
        assert_eq!(words(&toml, id), ["sh", "-c", expected], "{text}");
    }
    let env = |id: &str, name: &str| source(&toml, id).unwrap()["env"][name]["env"].as_str();
    assert_eq!(env("flag", "FLAG_API_KEY"), Some("FLAG_API_KEY"), "{text}");
    assert_eq!(words(&toml, "box"), ["docker", "run", "-i", "-e", "NOTES_PIN", "notes"], "{text}");
    assert_eq!(env("box", "NOTES_PIN"), Some("BOX_NOTES_PIN"), "{text}");
    assert!(source(&toml, "place").is_none(), "{text}");
    for part in ["flag.args[3]", "joined.args[0]", "headers.args[3]", "box.args[3]"] {
        assert!(is_named(&report, part), "{part}\n{report:#}");
    }
    for name in ["FLAG_API_KEY", "JOINED_TOKEN", "HEADERS_HEADER", "BOX_NOTES_PIN", "NOTES_TOKEN"] {
        assert!(report["variables"].as_array().unwrap().contains(&json!(name)), "{report:#}");
    }
}

#[test]
fn usual_packages_and_modes_are_no_secrets() {
    let (toml, text, report) = import_json(&json!({ "mcpServers": { "s": {
        "command": "uvx",
        "args": ["--with", "mcp>=1.2,<2", "@contoso/c365helperservice-mcp@latest"],
        "env": { "LOG_MODE": "lenient", "AUTH_MODE": "lenient" },
    } } }));
    assert_eq!(
        words(&toml, "s"),
        ["uvx", "--with", "mcp>=1.2,<2", "@contoso/c365helperservice-mcp@latest"],
        "{text}"
    );
    assert_eq!(source(&toml, "s").unwrap()["env"]["LOG_MODE"].as_str(), Some("lenient"), "{text}");
    assert_eq!(report["variables"], json!(["AUTH_MODE"]), "{text}");
}

#[test]
fn files_of_windows_are_read_in_their_encoding() {
    let json = "{ \"mcpServers\": { \"café\": { \"command\": \"notes\" } } }";
    let yaml = "mcp_servers:\n  notes: { command: notes, transport: stdio }\n";
    let toml = "[mcp_servers.notes]\ncommand = \"notes\"\n";
    for (file, text) in [("a.json", json), ("a.yaml", yaml), ("a.toml", toml)] {
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            [&b"\xff\xfe"[..], &little].concat(),
            [&b"\xfe\xff"[..], &big].concat(),
            little,
        ] {
            let (_, text, report) = import(file, &bytes);
            assert_eq!(report["sources"], 1, "{file}\n{text}");
        }
    }
}
