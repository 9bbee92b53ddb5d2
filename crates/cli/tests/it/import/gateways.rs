//! `import`: the configurations of other gateways.

use std::fs;

use serde_json::json;

use super::imported;
use crate::support::{dir, run};

/// The texts that secrets of the inputs contain.
const CANARY: &str = "canary";

#[test]
fn agentgateway() {
    let (toml, ran) = imported(
        r#"
config:
  adminAddr: localhost:15000
binds:
- port: 3000
  listeners:
  - hostname: gate.example.com
    tls: { cert: cert.pem, key: key.pem }
    routes:
    - name: tools
      matches:
      - path: { pathPrefix: /mcp }
      policies:
        cors:
          allowOrigins: ["https://app.example.com", "*"]
        jwtAuth:
          issuer: https://id.example.com
          audiences: [tools]
          jwks: { url: https://id.example.com/keys }
        mcpAuthorization:
          rules:
          - 'mcp.tool.name == "echo"'
          - 'jwt.sub == "test-user" && mcp.tool.name == "add"'
          - deny: 'mcp.tool.name == "wipe"'
        timeout: { requestTimeout: 30s }
      backends:
      - mcp:
          prefixMode: always
          targets:
          - name: everything
            stdio:
              cmd: npx
              args: ["-y", "@modelcontextprotocol/server-everything"]
              env: { API_TOKEN: canary-1, LOG: debug, HOME_KEY: $MY_KEY }
          - name: remote
            mcp: { host: "https://mcp.example.com/mcp" }
            policies:
              backendAuth: { key: canary-2 }
          - name: parts
            mcp: { host: 127.0.0.1, port: 9000, path: mcp }
          - name: old
            sse: { host: "http://127.0.0.1:9001/sse" }
          - name: orders
            openapi:
              schema: { file: orders.json }
              host: localhost:8080
    - name: limited
      policies:
        localRateLimit: [{ maxTokens: 10, tokensPerFill: 1, fillInterval: 60s }]
      backends:
      - mcp: { targets: [{ name: everything, stdio: { cmd: other, clearEnv: true } }] }
    - backends: [{ ai: { name: x } }]
    - policies: { extAuthz: { host: "localhost:9" }, somethingNew: {} }
      backends: [{ backend: shared }]
backends:
- name: shared
  mcp: { targets: [{ name: shared, mcp: { host: "http://127.0.0.1:9100/mcp" } }] }
llm: {}
"#,
    );
    assert!(!toml.contains(CANARY) && !ran.stderr.contains(CANARY), "{toml}\n{}", ran.stderr);
    insta::assert_snapshot!(toml, @r#"
    # Created by `toolcrib import` from client.json.
    #
    # By default, a tool of source S requires the scope `tools:S` and has the tier `write`. Rules
    # belong to their source; later rules override earlier ones:
    #
    # [source.tools."read_*"]
    # scopes = ["files:read"]
    # safety_tier = "read"
    #
    # Not translated:
    # - config: it is a setting of agentgateway's own process
    # - llm: toolcrib serves tools of MCP servers, HTTP services and commands only
    # - binds[0].listeners[0].tls: write `[server] tls = { cert = …, key = … }`, with `client_ca` for client certificates; paths start from the directory of this file
    # - binds[0].listeners[0].routes[0].matches[0].path: clients use /mcp for all sources, or /mcp/NAME with `[toolset.NAME]`
    # - binds[0].listeners[0].routes[0].policies.cors.allowOrigins: list each origin in `[server] allowed_origins`; wildcards are not accepted
    # - binds[0].listeners[0].routes[0].backends[0].mcp.prefixMode: tools are called SOURCE__TOOL; `names = "bare"` keeps their own names
    # - binds[0].listeners[0].routes[0].policies.mcpAuthorization.rules[1]: the condition `jwt.sub == "test-user"` became the scope `tools:SOURCE:rule-2`; grant it to those callers only
    # - binds[0].listeners[0].routes[0].backends[0].mcp.targets[0].stdio.clearEnv: a child gets only PATH, HOME, LANG, TMPDIR and USER of the server's variables; name others in `env`
    # - binds[0].listeners[0].routes[1].policies.localRateLimit: it limits all callers of the route together; rates are for each principal and tool (`rate`, `quota`)
    # - binds[0].listeners[0].routes[2].backends[0]: toolcrib serves tools of MCP servers, HTTP services and commands only
    # - binds[0].listeners[0].routes[3].policies.extAuthz: use scopes, roles, `[policy]` and approvals
    # - binds[0].listeners[0].routes[3].policies.somethingNew: it has no equivalent

    [server]
    listen = "127.0.0.1:3000"
    allowed_hosts = ["gate.example.com"]
    allowed_origins = ["https://app.example.com"]

    # A token may use the tools whose scopes are in its claim `scope`, such as `tools:SOURCE`.
    [[auth.jwt]]
    issuer = "https://id.example.com"
    audiences = ["tools"]
    jwks_url = "https://id.example.com/keys"
    tenant = "default"

    [[source]]
    id = "everything"
    kind = "mcp"
    command = ["npx", "-y", "@modelcontextprotocol/server-everything"]
    [source.env]
    API_TOKEN = { env = "API_TOKEN" }
    LOG = "debug"
    HOME_KEY = { env = "MY_KEY" }
    [source.tools."*"]
    hide = true
    timeout = "30s"
    # Grant `tools:everything:rule-2` only to callers for which this holds: jwt.sub == "test-user"
    [source.tools."add"]
    hide = false
    scopes = ["tools:everything:rule-2"]
    [source.tools."echo"]
    hide = false
    scopes = ["tools:everything"]
    [source.tools."wipe"]
    hide = true

    [[source]]
    id = "remote"
    kind = "mcp"
    url = "https://mcp.example.com/mcp"
    [source.headers]
    Authorization = { env = "REMOTE_AUTHORIZATION" }
    [source.tools."*"]
    hide = true
    timeout = "30s"
    # Grant `tools:remote:rule-2` only to callers for which this holds: jwt.sub == "test-user"
    [source.tools."add"]
    hide = false
    scopes = ["tools:remote:rule-2"]
    [source.tools."echo"]
    hide = false
    scopes = ["tools:remote"]
    [source.tools."wipe"]
    hide = true

    [[source]]
    id = "parts"
    kind = "mcp"
    url = "http://127.0.0.1:9000/mcp"
    [source.tools."*"]
    hide = true
    timeout = "30s"
    # Grant `tools:parts:rule-2` only to callers for which this holds: jwt.sub == "test-user"
    [source.tools."add"]
    hide = false
    scopes = ["tools:parts:rule-2"]
    [source.tools."echo"]
    hide = false
    scopes = ["tools:parts"]
    [source.tools."wipe"]
    hide = true

    # Not in force: it speaks the deprecated HTTP+SSE transport; use its streamable HTTP address.
    # [[source]]
    # id = "old"
    # kind = "mcp"
    # url = "http://127.0.0.1:9001/sse"
    # [source.tools."*"]
    # hide = true
    # timeout = "30s"
    # # Grant `tools:old:rule-2` only to callers for which this holds: jwt.sub == "test-user"
    # [source.tools."add"]
    # hide = false
    # scopes = ["tools:old:rule-2"]
    # [source.tools."echo"]
    # hide = false
    # scopes = ["tools:old"]
    # [source.tools."wipe"]
    # hide = true

    [[source]]
    id = "orders"
    kind = "connector"
    document = "orders.json"
    base_url = "http://localhost:8080"
    [source.tools."*"]
    hide = true
    timeout = "30s"
    # Grant `tools:orders:rule-2` only to callers for which this holds: jwt.sub == "test-user"
    [source.tools."add"]
    hide = false
    scopes = ["tools:orders:rule-2"]
    [source.tools."echo"]
    hide = false
    scopes = ["tools:orders"]
    [source.tools."wipe"]
    hide = true

    # Not in force: `localRateLimit` is not translated: it limits all callers of the route together; rates are for each principal and tool (`rate`, `quota`).
    # [[source]]
    # id = "everything-2"
    # kind = "mcp"
    # command = ["other"]

    # Not in force: `extAuthz` is not translated: use scopes, roles, `[policy]` and approvals.
    # [[source]]
    # id = "shared"
    # kind = "mcp"
    # url = "http://127.0.0.1:9100/mcp"
    "#);
    insta::assert_snapshot!(ran.stderr, @r#"
    not translated: config: it is a setting of agentgateway's own process
    not translated: llm: toolcrib serves tools of MCP servers, HTTP services and commands only
    not translated: binds[0].listeners[0].tls: write `[server] tls = { cert = …, key = … }`, with `client_ca` for client certificates; paths start from the directory of this file
    not translated: binds[0].listeners[0].routes[0].matches[0].path: clients use /mcp for all sources, or /mcp/NAME with `[toolset.NAME]`
    not translated: binds[0].listeners[0].routes[0].policies.cors.allowOrigins: list each origin in `[server] allowed_origins`; wildcards are not accepted
    not translated: binds[0].listeners[0].routes[0].backends[0].mcp.prefixMode: tools are called SOURCE__TOOL; `names = "bare"` keeps their own names
    not translated: binds[0].listeners[0].routes[0].policies.mcpAuthorization.rules[1]: the condition `jwt.sub == "test-user"` became the scope `tools:SOURCE:rule-2`; grant it to those callers only
    not translated: binds[0].listeners[0].routes[0].backends[0].mcp.targets[0].stdio.clearEnv: a child gets only PATH, HOME, LANG, TMPDIR and USER of the server's variables; name others in `env`
    not translated: binds[0].listeners[0].routes[1].policies.localRateLimit: it limits all callers of the route together; rates are for each principal and tool (`rate`, `quota`)
    not translated: binds[0].listeners[0].routes[2].backends[0]: toolcrib serves tools of MCP servers, HTTP services and commands only
    not translated: binds[0].listeners[0].routes[3].policies.extAuthz: use scopes, roles, `[policy]` and approvals
    not translated: binds[0].listeners[0].routes[3].policies.somethingNew: it has no equivalent
    `old` stays a comment: it speaks the deprecated HTTP+SSE transport; use its streamable HTTP address
    `everything` stays a comment: `localRateLimit` is not translated: it limits all callers of the route together; rates are for each principal and tool (`rate`, `quota`)
    `shared` stays a comment: `extAuthz` is not translated: use scopes, roles, `[policy]` and approvals
    set these variables where `toolcrib serve` runs:
      API_TOKEN  for `API_TOKEN` of source `everything`: the value it has in the client
      MY_KEY  for `HOME_KEY` of source `everything`
      REMOTE_AUTHORIZATION  for `Authorization` of source `remote`: the value it has in the client
    or store a secret header as a credential, sealed in the store, and write `credential = "NAME"` in place of the header (docs/guides/credentials.md):
      toolcrib credentials set remote --header Authorization --audience mcp.example.com --value-env REMOTE_AUTHORIZATION
    4 sources imported
    "#);
}

#[test]
fn agentgateway_with_targets_alone() {
    let (toml, _) = imported(
        r#"{ "mcp": { "port": 3000, "targets": [
            { "name": "files", "stdio": { "cmd": "server", "clearEnv": true } }
        ] } }"#,
    );
    insta::assert_snapshot!(toml, @r#"
    # Created by `toolcrib import` from client.json.
    #
    # By default, a tool of source S requires the scope `tools:S` and has the tier `write`. Rules
    # belong to their source; later rules override earlier ones:
    #
    # [source.tools."read_*"]
    # scopes = ["files:read"]
    # safety_tier = "read"

    [server]
    listen = "127.0.0.1:3000"

    [[source]]
    id = "files"
    kind = "mcp"
    command = ["server"]
    "#);
}

/// Whatever restricts a route and is not translated keeps its sources out of force.
#[test]
fn nothing_of_agentgateway_becomes_more_permissive() {
    let targets = json!([{ "name": "files", "stdio": { "cmd": "server", "clearEnv": true } }]);
    let route =
        |policies| json!({ "policies": policies, "backends": [{ "mcp": { "targets": targets } }] });
    let file = |route| json!({ "binds": [{ "port": 3000, "listeners": [{ "routes": [route] }] }] });
    let mut files = vec![
        json!({ "mcp": { "targets": targets }, "policies": [{ "name": "p" }] }),
        json!({ "mcp": { "targets": targets }, "frontendPolicies": { "networkAuthorization": {} } }),
        json!({ "mcp": { "targets": targets, "unknown": 1 } }),
        json!({ "mcp": { "targets": [{ "name": "f", "stdio": { "cmd": "s" }, "unknown": 1 }] } }),
        file(json!({
            "matches": [{ "headers": [{ "name": "x", "value": { "exact": "y" } }] }],
            "backends": [{ "mcp": { "targets": targets } }],
        })),
        json!({ "binds": [{ "listeners": [{
            "tls": { "cert": "c", "key": "k", "root": "r" },
            "routes": [{ "backends": [{ "mcp": { "targets": targets } }] }],
        }] }] }),
    ];
    for name in [
        "authorization",
        "extAuthz",
        "extProc",
        "mcpGuardrails",
        "transformations",
        "localRateLimit",
        "remoteRateLimit",
        "urlRewrite",
        "directResponse",
        "backendTunnel",
        "newPolicy",
    ] {
        files.push(file(route(json!({ name: { "x": 1 } }))));
        files.push(json!({ "binds": [{ "listeners": [{
            "policies": { name: { "x": 1 } },
            "routes": [{ "backends": [{ "mcp": { "targets": targets } }] }],
        }] }] }));
    }
    files.push(file(route(json!({ "mcpAuthorization": { "rules": [{ "require": "jwt.x" }] } }))));
    files.push(file(route(json!({ "mcpAuthorization": { "rules": "x" } }))));
    let dir = dir();
    for file in files {
        fs::write(dir.path().join("a.json"), file.to_string()).unwrap();
        let ran = run(dir.path(), &["--json", "import", "a.json"]).ok().json();
        assert_eq!(ran["sources"], 0, "{file}\n{}", ran["toml"].as_str().unwrap());
        assert_eq!(ran["leftOut"].as_array().unwrap().len(), 1, "{file}");
    }
}

#[test]
fn contextforge() {
    let export = json!({
        "version": "2025-03-26",
        "exported_at": "2026-11-24T10:00:00Z",
        "exported_by": "admin",
        "source_gateway": "http://127.0.0.1:4444",
        "encryption_method": "AES-256-GCM",
        "entities": {
            "tools": [
                { "name": "weather", "url": "https://api.example.com/weather", "integration_type": "REST",
                  "request_type": "GET", "headers": { "X-Api-Key": "canary-1" } },
                { "name": "agent", "integration_type": "A2A" },
            ],
            "gateways": [
                { "name": "Time Server", "url": "http://127.0.0.1:8001/mcp", "transport": "STREAMABLEHTTP",
                  "description": "time", "capabilities": {}, "is_active": true, "tags": [],
                  "passthrough_headers": [], "health_check": {} },
                { "name": "crm", "url": "https://crm.example.com/mcp", "transport": "STREAMABLEHTTP",
                  "is_active": true, "auth_type": "bearer", "auth_value": "canary-2",
                  "passthrough_headers": ["X-Tenant"], "visibility": "team" },
                { "name": "old", "url": "http://127.0.0.1:8002/sse", "transport": "SSE", "is_active": true },
                { "name": "off", "url": "http://127.0.0.1:8003/mcp", "transport": "STREAMABLEHTTP",
                  "is_active": false },
                { "name": "custom", "url": "http://127.0.0.1:8004/mcp", "transport": "STREAMABLEHTTP",
                  "is_active": true, "auth_type": "authheaders", "auth_value": "canary-3" },
            ],
            "servers": [{ "name": "desk", "tool_ids": ["crm-find", "weather"], "is_active": true }],
            "prompts": [{ "name": "greet" }],
            "resources": [],
        },
        "metadata": {},
    });
    let (toml, ran) = imported(&export.to_string());
    assert!(!toml.contains(CANARY) && !ran.stderr.contains(CANARY), "{toml}\n{}", ran.stderr);
    insta::assert_snapshot!(toml, @r#"
    # Created by `toolcrib import` from client.json.
    #
    # By default, a tool of source S requires the scope `tools:S` and has the tier `write`. Rules
    # belong to their source; later rules override earlier ones:
    #
    # [source.tools."read_*"]
    # scopes = ["files:read"]
    # safety_tier = "read"
    #
    # Not translated:
    # - entities.tools.weather: a REST tool; describe its service in an OpenAPI document, and add a source of kind `connector`
    # - entities.tools.agent: tools of type `A2A` have no equivalent
    # - entities.gateways.Time Server.description, capabilities, tags, health_check: it only describes the gateway
    # - entities.gateways.crm.passthrough_headers: headers of callers are not forwarded
    # - entities.gateways.crm.visibility: only callers with the scope `tools:SOURCE` see the tools; use `tenants` for teams that must not know of each other
    # - entities.servers.desk: a virtual server; write `[toolset.NAME]` with `allow` for its tools, which is served at /mcp/NAME. The export calls them crm-find, weather
    # - entities.prompts: 1 are not translated; toolcrib serves tools only
    # - version, exported_at, exported_by, source_gateway, encryption_method, metadata: it only describes the export

    [[source]]
    id = "time-server"
    kind = "mcp"
    url = "http://127.0.0.1:8001/mcp"

    [[source]]
    id = "crm"
    kind = "mcp"
    url = "https://crm.example.com/mcp"
    [source.headers]
    Authorization = { env = "CRM_AUTHORIZATION" }

    # Not in force: it speaks the deprecated HTTP+SSE transport; use its streamable HTTP address.
    # [[source]]
    # id = "old"
    # kind = "mcp"
    # url = "http://127.0.0.1:8002/sse"

    # Not in force: it is switched off in ContextForge.
    # [[source]]
    # id = "off"
    # kind = "mcp"
    # url = "http://127.0.0.1:8003/mcp"

    # Not in force: its `auth_type` is `authheaders`, and the values are encrypted; write `headers`, or store a credential with `toolcrib credentials set`.
    # [[source]]
    # id = "custom"
    # kind = "mcp"
    # url = "http://127.0.0.1:8004/mcp"
    "#);
    insta::assert_snapshot!(ran.stderr, @r#"
    not translated: entities.tools.weather: a REST tool; describe its service in an OpenAPI document, and add a source of kind `connector`
    not translated: entities.tools.agent: tools of type `A2A` have no equivalent
    not translated: entities.gateways.Time Server.description, capabilities, tags, health_check: it only describes the gateway
    not translated: entities.gateways.crm.passthrough_headers: headers of callers are not forwarded
    not translated: entities.gateways.crm.visibility: only callers with the scope `tools:SOURCE` see the tools; use `tenants` for teams that must not know of each other
    not translated: entities.servers.desk: a virtual server; write `[toolset.NAME]` with `allow` for its tools, which is served at /mcp/NAME. The export calls them crm-find, weather
    not translated: entities.prompts: 1 are not translated; toolcrib serves tools only
    not translated: version, exported_at, exported_by, source_gateway, encryption_method, metadata: it only describes the export
    `old` stays a comment: it speaks the deprecated HTTP+SSE transport; use its streamable HTTP address
    `off` stays a comment: it is switched off in ContextForge
    `custom` stays a comment: its `auth_type` is `authheaders`, and the values are encrypted; write `headers`, or store a credential with `toolcrib credentials set`
    set these variables where `toolcrib serve` runs:
      CRM_AUTHORIZATION  for `Authorization` of source `crm`: `Bearer ` and the token that ContextForge uses
    or store a secret header as a credential, sealed in the store, and write `credential = "NAME"` in place of the header (docs/guides/credentials.md):
      toolcrib credentials set crm --header Authorization --audience crm.example.com --value-env CRM_AUTHORIZATION
    2 sources imported
    "#);
}

#[test]
fn litellm() {
    let (toml, ran) = imported(
        r#"
model_list:
  - model_name: m
    litellm_params: { model: openai/m, api_key: canary-1 }
general_settings: { master_key: canary-2 }
mcp_servers:
  zapier:
    url: https://actions.example.com/mcp
    transport: http
    auth_type: bearer_token
    auth_value: os.environ/ZAPIER_TOKEN
    description: Actions
    allowed_tools: [find_row, "zapier-add_row"]
    access_groups: [dev]
  keyed:
    url: https://keyed.example.com/mcp
    transport: http
    auth_type: authorization
    auth_value: os.environ/KEYED
    static_headers: { X-Team: crib, X-Api-Key: canary-3 }
    disallowed_tools: [delete_all]
  local:
    transport: stdio
    command: npx
    args: ["-y", "server"]
    env: { SERVICE_TOKEN: os.environ/SERVICE_TOKEN, MODE: fast }
  service:
    url: https://api.example.com
    spec_path: openapi.json
    auth_type: api_key
    auth_value: canary-4
  legacy: { url: "https://legacy.example.com/sse" }
  oauth: { url: "https://oauth.example.com/mcp", transport: http, auth_type: oauth2 }
  narrow:
    url: https://narrow.example.com/mcp
    transport: http
    allowed_params: { find: [a] }
"#,
    );
    assert!(!toml.contains(CANARY) && !ran.stderr.contains(CANARY), "{toml}\n{}", ran.stderr);
    insta::assert_snapshot!(toml, @r#"
    # Created by `toolcrib import` from client.json.
    #
    # By default, a tool of source S requires the scope `tools:S` and has the tier `write`. Rules
    # belong to their source; later rules override earlier ones:
    #
    # [source.tools."read_*"]
    # scopes = ["files:read"]
    # safety_tier = "read"
    #
    # Not translated:
    # - model_list: only `mcp_servers` and `mcp_builtin_servers` are about tools
    # - general_settings: only `mcp_servers` and `mcp_builtin_servers` are about tools
    # - mcp_servers.zapier.description: it only describes the server
    # - mcp_servers.zapier.access_groups: grant the scope `tools:SOURCE` to the callers of the group
    # - mcp_servers.zapier.allowed_tools: it became rules with `hide`
    # - mcp_servers.keyed.disallowed_tools: it became rules with `hide`
    # - mcp_servers.narrow.allowed_params: it is not translated

    [[source]]
    id = "zapier"
    kind = "mcp"
    url = "https://actions.example.com/mcp"
    [source.headers]
    Authorization = { env = "ZAPIER_AUTHORIZATION" }
    [source.tools."*"]
    hide = true
    [source.tools."find_row"]
    hide = false
    [source.tools."zapier-add_row"]
    hide = false
    [source.tools."add_row"]
    hide = false

    [[source]]
    id = "keyed"
    kind = "mcp"
    url = "https://keyed.example.com/mcp"
    [source.headers]
    X-Team = { env = "KEYED_X_TEAM" }
    X-Api-Key = { env = "KEYED_X_API_KEY" }
    Authorization = { env = "KEYED" }
    [source.tools."delete_all"]
    hide = true

    [[source]]
    id = "local"
    kind = "mcp"
    command = ["npx", "-y", "server"]
    [source.env]
    SERVICE_TOKEN = { env = "SERVICE_TOKEN" }
    MODE = "fast"

    [[source]]
    id = "service"
    kind = "connector"
    document = "openapi.json"
    base_url = "https://api.example.com"
    [source.headers]
    X-API-Key = { env = "SERVICE_X_API_KEY" }

    # Not in force: it has no `transport`, which means HTTP+SSE; use its streamable HTTP address.
    # [[source]]
    # id = "legacy"
    # kind = "mcp"
    # url = "https://legacy.example.com/sse"

    # Not in force: its `auth_type` is `oauth2`; store a credential with `toolcrib credentials set`, and name it in `credential`.
    # [[source]]
    # id = "oauth"
    # kind = "mcp"
    # url = "https://oauth.example.com/mcp"

    # Not in force: its setting `allowed_params` is not translated.
    # [[source]]
    # id = "narrow"
    # kind = "mcp"
    # url = "https://narrow.example.com/mcp"
    "#);
    insta::assert_snapshot!(ran.stderr, @r#"
    not translated: model_list: only `mcp_servers` and `mcp_builtin_servers` are about tools
    not translated: general_settings: only `mcp_servers` and `mcp_builtin_servers` are about tools
    not translated: mcp_servers.zapier.description: it only describes the server
    not translated: mcp_servers.zapier.access_groups: grant the scope `tools:SOURCE` to the callers of the group
    not translated: mcp_servers.zapier.allowed_tools: it became rules with `hide`
    not translated: mcp_servers.keyed.disallowed_tools: it became rules with `hide`
    not translated: mcp_servers.narrow.allowed_params: it is not translated
    `legacy` stays a comment: it has no `transport`, which means HTTP+SSE; use its streamable HTTP address
    `oauth` stays a comment: its `auth_type` is `oauth2`; store a credential with `toolcrib credentials set`, and name it in `credential`
    `narrow` stays a comment: its setting `allowed_params` is not translated
    set these variables where `toolcrib serve` runs:
      ZAPIER_AUTHORIZATION  for `Authorization` of source `zapier`: the whole value, in the client `Bearer ${env:ZAPIER_TOKEN}`
      KEYED_X_TEAM  for `X-Team` of source `keyed`: the value it has in the client
      KEYED_X_API_KEY  for `X-Api-Key` of source `keyed`: the value it has in the client
      KEYED  for `Authorization` of source `keyed`
      SERVICE_TOKEN  for `SERVICE_TOKEN` of source `local`
      SERVICE_X_API_KEY  for `X-API-Key` of source `service`: the value it has in the client
    or store a secret header as a credential, sealed in the store, and write `credential = "NAME"` in place of the header (docs/guides/credentials.md):
      toolcrib credentials set zapier --header Authorization --audience actions.example.com --value-env ZAPIER_AUTHORIZATION
      toolcrib credentials set service --header X-API-Key --audience api.example.com --value-env SERVICE_X_API_KEY
    4 sources imported
    "#);
}

#[test]
fn a_text_that_is_no_yaml_is_refused_with_its_line() {
    let dir = dir();
    for (text, part) in [
        ("mcp_servers:\n  a: {\n", "a.yaml is not YAML"),
        ("mcp_servers: { a: 1 }\nmcp_servers: { a: 2 }\n", "a.yaml is not YAML at line 2"),
        ("key: value\n", "has no MCP servers"),
    ] {
        fs::write(dir.path().join("a.yaml"), text).unwrap();
        let ran = run(dir.path(), &["import", "a.yaml"]);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains(part), "{text}: {}", ran.stderr);
    }
}
