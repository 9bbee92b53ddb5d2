//! `import`: no secret of a file is in any output.

use std::fs;

use serde_json::{Value, json};

use crate::support::{dir, run};

/// A secret that only its place gives away.
const CANARY: &str = "hunter2";

/// Returns headers with a secret.
fn headers() -> Vec<Value> {
    let names = ["Authorization", "X-Foo", "X-Auth", "X-Api-Key", "Cookie", "Host", "X-Team"];
    let values = [CANARY.to_owned(), format!("Bearer {CANARY}"), format!("a {CANARY} ${{env:B}}")];
    let mut headers = Vec::new();
    for name in names {
        headers.extend(values.iter().map(|value| json!({ name: value })));
    }
    headers.push(json!({ "User-Agent": format!("Bearer {CANARY}") }));
    headers.push(json!({ "User-Agent": format!("ada:{CANARY}@example.com") }));
    headers
}

/// Returns variables with a secret.
fn variables() -> Vec<Value> {
    let values = [
        CANARY.to_owned(),
        format!("${CANARY}"),
        format!("https://ada:{CANARY}@example.com"),
        format!("https://{CANARY}@example.com"),
        format!("https://example.com/?q={CANARY}"),
        format!("Server=db;Password={CANARY}"),
        format!("/usr/bin/x --token {CANARY}"),
        format!("{{\"key\":\"{CANARY}\"}}"),
        format!("${{A:-{CANARY}}}"),
        format!("a{CANARY}${{A}}"),
    ];
    let mut variables = Vec::new();
    for name in ["FOO", "API_TOKEN", "apiKey", "PATH", "DB_HOST", "MODE"] {
        variables.extend(values.iter().map(|value| json!({ name: value })));
    }
    variables
}

/// Returns the arguments of a program, with a secret.
fn arguments() -> Vec<Value> {
    let mut lists = vec![
        json!([CANARY]),
        json!(["-e", format!("FOO={CANARY}")]),
        json!([format!("FOO={CANARY}")]),
        json!([format!("ada:{CANARY}")]),
        json!([format!("X-Foo: {CANARY}")]),
        json!([format!("-uada:{CANARY}")]),
        json!([format!("-HX-Foo: {CANARY}")]),
        json!([format!("-p{CANARY}")]),
        json!([format!("postgresql://ada:{CANARY}@db/x")]),
        json!([format!("https://{CANARY}@example.com/mcp")]),
        json!([format!("https://example.com/mcp?token={CANARY}")]),
        json!([format!("https://example.com/mcp?q={CANARY}")]),
        json!([format!("${{A:-{CANARY}}}")]),
        json!(["-c", format!("TOKEN={CANARY} node server.js")]),
        json!(["-c", format!("curl --header 'X-Foo: {CANARY}' https://example.com")]),
        json!(["--config", { "apiKey": CANARY }]),
    ];
    for flag in [
        "--header",
        "-H",
        "-u",
        "--user",
        "--bearer",
        "--pat",
        "--key",
        "--api-key",
        "--apiKey",
        "--token",
        "--secret",
        "--password",
        "--pass",
        "--auth",
        "--credential",
        "--connection-string",
        "--dsn",
        "--cookie",
        "--whatever",
        "-x",
    ] {
        for value in [CANARY.to_owned(), format!("ada:{CANARY}"), format!("X-Foo: {CANARY}")] {
            lists.push(json!([flag, value]));
            lists.push(json!([format!("{flag}={value}")]));
        }
    }
    lists
}

/// Returns addresses with a secret.
fn addresses() -> Vec<String> {
    let key = format!("{CANARY}aB3dE5fG7hI9");
    vec![
        format!("https://ada:{CANARY}@example.com/mcp"),
        format!("https://{CANARY}@example.com/mcp"),
        format!("https://{CANARY}#x@example.com/mcp"),
        format!("https://example.com/mcp?api_key={CANARY}"),
        format!("https://example.com/mcp?profile={CANARY}"),
        format!("https://example.com/mcp#{CANARY}"),
        format!("https://example.com/s/{key}/mcp"),
        format!("https://example.com/${{A:-{CANARY}}}/mcp"),
        format!("{CANARY}://example.com"),
        format!("not an address {CANARY}"),
    ]
}

/// Returns files of all formats with a secret in each place.
fn files() -> Vec<Value> {
    let mut files = Vec::new();
    let address = "https://example.com/mcp";
    let agentgateway = |target: Value| json!({ "mcp": { "targets": [target] } });
    for headers in headers() {
        let server = json!({ "url": address, "headers": headers });
        files.push(json!({ "mcpServers": { "s": server } }));
        files.push(json!({ "servers": { "s": server } }));
        for key in ["headers", "static_headers"] {
            let server = json!({ "url": address, "transport": "http", key: headers });
            files.push(json!({ "mcp_servers": { "s": server } }));
            let server = json!({ "spec_path": "a.json", "url": address, key: headers });
            files.push(json!({ "mcp_servers": { "s": server } }));
        }
        for key in ["add", "set"] {
            let policies = json!({ "requestHeaderModifier": { key: headers } });
            let mcp = json!({ "host": address });
            files.push(agentgateway(json!({ "name": "s", "mcp": mcp, "policies": policies })));
        }
    }
    // Sources that become comments anyway are no exception.
    let mut programs = Vec::new();
    programs.extend(variables().into_iter().map(|env| json!({ "env": env })));
    programs.extend(arguments().into_iter().map(|args| {
        let package = [json!("package")];
        let args = package.into_iter().chain(args.as_array().unwrap().clone());
        json!({ "args": args.collect::<Vec<_>>() })
    }));
    programs.push(json!({ "cwd": format!("/srv/x?{CANARY}") }));
    for mut server in programs {
        for command in ["npx", "docker", "bash", "server"] {
            server["cmd"] = json!(command);
            files.push(agentgateway(json!({ "name": "s", "stdio": server })));
            let mut other = server.clone();
            other.as_object_mut().unwrap().remove("cmd");
            other["command"] = json!(command);
            files.push(json!({ "mcp_servers": { "s": other } }));
            files.push(json!({ "mcpServers": { "s": other } }));
            other["disabled"] = json!(true);
            files.push(json!({ "servers": { "s": other } }));
        }
    }
    let command = format!("npx server --token {CANARY}");
    files.push(json!({ "mcpServers": { "s": { "command": command } } }));
    for url in addresses() {
        files.push(json!({ "mcpServers": { "s": { "url": url } } }));
        files.push(json!({ "servers": { "s": { "type": "sse", "url": url } } }));
        files.push(json!({ "mcp_servers": { "s": { "url": url, "transport": "http" } } }));
        files.push(json!({ "mcp_servers": { "s": { "url": url, "spec_path": url } } }));
        files.push(agentgateway(json!({ "name": "s", "mcp": { "host": url } })));
        let openapi = json!({ "schema": { "url": url }, "host": url });
        files.push(agentgateway(json!({ "name": "s", "openapi": openapi })));
        let gateway = json!({ "name": "s", "url": url, "transport": "STREAMABLEHTTP" });
        files.push(json!({ "version": "1", "entities": { "gateways": [gateway] } }));
        let jwt = json!({ "issuer": url, "audiences": ["a"], "jwks": { "url": url } });
        if !url.contains("/s/") {
            let policies = json!({ "jwtAuth": jwt, "cors": { "allowOrigins": [url] } });
            let target = json!({ "name": "s", "mcp": { "host": address }, "policies": policies });
            files.push(agentgateway(target));
        }
    }
    for policies in [
        json!({ "backendAuth": { "key": CANARY } }),
        json!({ "backendAuth": { "key": { "value": CANARY } } }),
        json!({ "backendAuth": { "basic": { "password": CANARY } } }),
        json!({ "apiKey": { "keys": [{ "key": CANARY }] } }),
        json!({ "basicAuth": { "htpasswd": CANARY } }),
        json!({ "unknown": { "x": CANARY } }),
        json!({ "mcpAuthorization": { "rules": [format!("request.headers['x'] == '{CANARY}'")] } }),
        json!({ "mcpAuthorization": { "rules": [format!("apiKey.key == \"{CANARY}\" ? true : false")] } }),
        json!({ "mcpAuthorization": { "rules": [{ "deny": format!("apiKey.key == '{CANARY}'") }] } }),
        json!({ "timeout": { "requestTimeout": CANARY } }),
    ] {
        let target = json!({ "name": "s", "mcp": { "host": address }, "policies": policies });
        files.push(agentgateway(target));
    }
    for kind in ["bearer", "basic", "authheaders", "oauth", "query_param", CANARY] {
        let gateway = json!({
            "name": "s", "url": address, "transport": "STREAMABLEHTTP", "auth_type": kind,
            "auth_value": CANARY, "auth_headers": [{ "X-Foo": CANARY }], "oauth_config": { "x": CANARY },
        });
        let tool = json!({ "name": "t", "integration_type": CANARY, "headers": { "X": CANARY } });
        let entities = json!({ "gateways": [gateway], "tools": [tool] });
        files.push(json!({ "version": "1", "entities": entities }));
    }
    for kind in
        ["api_key", "authorization", "bearer_token", "basic", "token", "oauth2", "none", CANARY]
    {
        for key in ["auth_value", "authentication_token", "client_secret"] {
            let mut server = json!({ "url": address, "transport": "http", "auth_type": kind });
            server[key] = json!(CANARY);
            files.push(json!({
                "mcp_servers": { "s": server }, "general_settings": { "master_key": CANARY },
            }));
        }
    }
    files
}

#[test]
fn no_secret_is_in_any_output_of_any_format() {
    let dir = dir();
    for file in files() {
        assert!(file.to_string().contains(CANARY), "{file}");
        fs::write(dir.path().join("a.json"), file.to_string()).unwrap();
        let ran = run(dir.path(), &["--json", "import", "a.json"]).ok();
        let output = format!("{}\n{}", ran.stdout, ran.stderr).to_lowercase();
        assert!(!output.contains(CANARY), "{file}\n{output}");
        // The text of the file is in the JSON too.
        let toml = ran.json()["toml"].as_str().unwrap().to_owned();
        let read: toml::Table = toml.parse().unwrap();
        assert!(read.is_empty() || read.contains_key("source") || read.contains_key("server"));
    }
}

#[test]
fn a_secret_argument_becomes_a_variable_and_a_secret_address_a_comment() {
    let dir = dir();
    let file = json!({ "mcpServers": {
        "jira": { "command": "npx", "args": [
            "-y", "mcp-remote", "https://jira.example.com/mcp", "--header",
            format!("Authorization: Bearer {CANARY}"),
        ] },
        "logs": { "url": format!("https://logs.example.com/mcp?access={CANARY}") },
        "kept": { "command": "npx", "args": ["-y", "server"], "env": { "FOO": CANARY, "DEBUG": true } },
    } });
    fs::write(dir.path().join("a.json"), file.to_string()).unwrap();
    let ran = run(dir.path(), &["--json", "import", "a.json"]).ok();
    let (listed, stderr) = (ran.json(), ran.stderr);
    let toml = listed["toml"].as_str().unwrap();
    insta::assert_snapshot!(toml.split_once("# Not translated").unwrap().1, @r#"
    :
    # - jira.args[4]: it may be a secret; `sh` takes it from the variable JIRA_HEADER
    # - logs.url: it may contain a secret

    [[source]]
    id = "jira"
    kind = "mcp"
    command = ["sh", "-c", 'exec npx -y mcp-remote https://jira.example.com/mcp --header "$JIRA_HEADER"']
    [source.env]
    JIRA_HEADER = { env = "JIRA_HEADER" }

    # Not in force: its address may contain a secret; write it, or send it in `headers`.
    # [[source]]
    # id = "logs"
    # kind = "mcp"
    # url = "https://logs.example.com/[redacted]"

    [[source]]
    id = "kept"
    kind = "mcp"
    command = ["npx", "-y", "server"]
    [source.env]
    FOO = { env = "FOO" }
    DEBUG = "true"
    "#);
    insta::assert_snapshot!(stderr, @r"
    not translated: jira.args[4]: it may be a secret; `sh` takes it from the variable JIRA_HEADER
    not translated: logs.url: it may contain a secret
    `logs` stays a comment: its address may contain a secret; write it, or send it in `headers`
    set these variables where `toolcrib serve` runs:
      JIRA_HEADER  for an argument of source `jira`: the value it has in the client
      FOO  for `FOO` of source `kept`: the value it has in the client
    2 sources imported
    ");
    assert_eq!(listed["sources"], 2);
    assert_eq!(
        listed["notTranslated"],
        json!([
            {
                "part": "jira.args[4]",
                "reason": "it may be a secret; `sh` takes it from the variable JIRA_HEADER",
            },
            { "part": "logs.url", "reason": "it may contain a secret" },
        ])
    );
}
