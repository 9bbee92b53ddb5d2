//! Tokens of an OpenID provider as published on npm.

use std::{collections::BTreeSet, process::Command, time::Duration};

use serde_json::{Value, json};

use crate::rig::{FILE_TEXT, Foreign, Server, Tools, http_client, tool};

const RESOURCE: &str = "https://crib.example/mcp";

/// `oidc-provider`, with the requests of a client.
struct Issuer {
    host: Foreign,
    http: reqwest::Client,
}

impl Issuer {
    /// Gets a token for `resource` as a client does that knows the issuer alone.
    async fn token(&self, issuer: &str, resource: &str, scope: &str) -> String {
        let discovery = format!("{issuer}/.well-known/openid-configuration");
        let discovery: Value = self.http.get(discovery).send().await.unwrap().json().await.unwrap();
        let form = format!(
            "grant_type=client_credentials&resource={resource}&scope={}",
            scope.replace(' ', "+")
        );
        let request = self
            .http
            .post(discovery["token_endpoint"].as_str().unwrap())
            .basic_auth("agent", Some("agent-secret"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

/// Returns the status of a list request with `token`.
async fn status(server: &Server, token: &str) -> u16 {
    let request = server.http.get(format!("{}/v1/tools", server.url)).bearer_auth(token);
    request.send().await.unwrap().status().as_u16()
}

/// I-62, with a third-party issuer: from the refusal over metadata and discovery to a call, also after
/// the issuer has rotated its key.
#[tokio::test]
async fn an_oauth_client_finds_its_way_to_a_call() {
    let (Some(tools), Some(node)) = (Tools::find(), tool("TOOLCRIB_NODE24")) else { return };
    #[expect(clippy::disallowed_methods, reason = "the issuer is a program of its own")]
    let mut command = Command::new(node);
    let command = command.arg(tools.drivers.join("issuer.mjs")).arg(&tools.clients);
    let mut issuer = Issuer { host: Foreign::start(command), http: http_client() };
    let config = format!(
        r#"
        [auth.resource]
        resource = "{RESOURCE}"
        authorization_servers = ["{url}"]

        [auth.jwt]
        issuer = "{url}"
        audiences = ["{RESOURCE}"]
        claims = {{ tenant = "org.id", roles = "groups" }}
        roles = ["reader"]
        "#,
        url = issuer.host.url
    );
    let mut server = Server::start_with(&tools, &config).await;

    let refused = server.http.post(format!("{}/mcp", server.url)).json(&json!({}));
    let refused = refused.send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
    let metadata = "https://crib.example/.well-known/oauth-protected-resource/mcp";
    assert!(challenge.contains(metadata), "{challenge}");
    // The headers that a proxy in front would add.
    let metadata = metadata.replace("https://crib.example", &server.url);
    let metadata: Value = server.http.get(metadata).send().await.unwrap().json().await.unwrap();
    let named = metadata["authorization_servers"][0].as_str().unwrap().to_owned();

    // The role `reader`, which the token names, gives `files:read`; the token itself gives the rest.
    let reads = issuer.token(&named, RESOURCE, "files:read").await;
    let writes = issuer.token(&named, RESOURCE, "files:read files:write").await;
    let elsewhere = issuer.token(&named, "https://other.example/", "files:read").await;
    assert_eq!(status(&server, &elsewhere).await, 401);

    let listed = async |server: &mut Server, token: &str| {
        token.clone_into(&mut server.admin);
        let list = server.get("/v1/tools").await;
        let ids = list.as_array().unwrap().iter().map(|it| it["toolId"].as_str().unwrap());
        ids.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let seen = listed(&mut server, &reads).await;
    assert!(seen.contains("mcp:files.read_text_file") && !seen.contains("mcp:files.write_file"));
    let params = json!({ "name": "files__read_text_file", "arguments": { "path": server.file() } });
    let answer = server.mcp("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], json!(FILE_TEXT), "{answer}");
    let seen = listed(&mut server, &writes).await;
    assert!(seen.contains("mcp:files.write_file"));

    let told = issuer.host.tell("rotate");
    assert!(told.starts_with("rotated to "), "{told}");
    let after = issuer.token(&named, RESOURCE, "files:read").await;
    // The issuer's keys may have been fetched just before, which delays the next fetch.
    let mut last = 0;
    for _ in 0..300 {
        last = status(&server, &after).await;
        if last == 200 {
            break;
        }
        assert_eq!(last, 401);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(last, 200, "the new key was never fetched");
    assert_eq!(status(&server, &reads).await, 401, "the old key is gone");
}
