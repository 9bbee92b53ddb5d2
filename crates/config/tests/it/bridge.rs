//! The authorization server for MCP clients: `[auth.bridge]`.

use std::time::Duration;

use crate::support::{complaint, parse};

const PUBLIC: &str = "[server]\npublic_url = \"https://crib.example\"\n";
const ISSUER: &str = "[[auth.jwt]]\nissuer = \"https://id.example\"\naudiences = [\"crib\"]\n\
                      tenant = \"acme\"\n";
const BRIDGE: &str = "[auth.bridge]\nissuer = \"https://id.example\"\nclient_id = \"c\"\n";

fn with(more: &str) -> String {
    format!("{PUBLIC}{ISSUER}{BRIDGE}{more}\n")
}

#[test]
fn a_bridge_needs_a_provider_and_makes_the_server_a_resource() {
    let config = parse(&with(""));
    let bridge = config.bridge.unwrap();
    assert_eq!(bridge.own_issuer, "https://crib.example");
    assert_eq!((bridge.provider.as_str(), bridge.registration), ("https://id.example", false));
    assert_eq!(bridge.access_lifetime, Duration::from_secs(3_600));
    assert!(bridge.client_documents.is_empty() && bridge.clients.is_empty());
    let resource = config.resource.unwrap();
    assert_eq!(resource.resource, "https://crib.example/mcp");
    assert_eq!(resource.authorization_servers, ["https://crib.example"]);

    let more = "[auth.resource]\nresource = \"https://crib.example\"\n\
                authorization_servers = [\"https://id.example\"]";
    let resource = parse(&with(more)).resource.unwrap();
    let servers = ["https://crib.example", "https://id.example"];
    assert_eq!(resource.authorization_servers, servers);
    assert!(parse(&format!("{PUBLIC}{ISSUER}")).resource.is_none());
}

#[test]
fn the_settings_of_a_bridge_are_read() {
    let bridge = parse(&with(
        "client_secret = { env = \"SET\" }\nscopes = [\"offline_access\"]\n\
         parameters = { access_type = \"offline\" }\nrequire = { hd = \"acme.com\" }\n\
         client_documents = [\"Claude.ai\", \"a.example:8443\"]\nregistration = true\n\
         redirect_schemes = [\"cursor\"]\nassertion_issuers = [\"https://id.example\"]\n\
         access_lifetime = \"5m\"\nrefresh_lifetime = \"7d\"\n\
         [[auth.bridge.client]]\nid = \"desk\"\nname = \"Desk\"\nsecret = { env = \"LONG\" }\n\
         redirect_uris = [\"cursor://x/cb\", \"http://127.0.0.1/cb\"]",
    ))
    .bridge
    .unwrap();
    assert_eq!(bridge.client_secret.as_ref().unwrap().0.expose(), "s3cret-value");
    assert_eq!(
        (bridge.require.len(), bridge.client_documents.as_slice()),
        (1, &["claude.ai".to_owned(), "a.example:8443".to_owned()][..])
    );
    assert_eq!(bridge.clients[0].redirect_uris.len(), 2);
    assert!(!format!("{bridge:?}").contains("s3cret"), "{bridge:?}");
}

#[test]
fn a_bridge_that_cannot_work_is_refused_with_a_reason() {
    assert!(complaint(&format!("{ISSUER}{BRIDGE}")).contains("needs `[server] public_url`"));
    let unknown = complaint(&format!("{PUBLIC}{BRIDGE}"));
    assert!(unknown.contains("expected the `issuer` of an [[auth.jwt]]"), "{unknown}");
    let client = "[[auth.bridge.client]]\nname = \"Desk\"\nid = ";
    for (more, said) in [
        ("provider = \"x\"", "unknown field `provider`"),
        ("client_secret = \"plain\"", "a secret must not be in this file"),
        ("scopes = [\"a b\"]", "is not a scope"),
        ("parameters = { state = \"x\" }", "`state` is set by the protocol itself"),
        ("require = { \"a..b\" = \"x\" }", "expected the place of a claim"),
        ("client_documents = [\"https://claude.ai\"]", "expected a host"),
        ("client_documents = [\"claude.ai:443\"]", "expected a host"),
        ("client_documents = [\"claude.ai:x\"]", "expected a host"),
        ("redirect_schemes = [\"javascript\"]", "expected a private scheme"),
        ("redirect_schemes = [\"https\"]", "expected a private scheme"),
        ("assertion_issuers = [\"https://other.example\"]", "expected the `issuer` of an"),
        ("access_lifetime = \"2h\"", "expected 1 minute to 1 hour"),
        ("refresh_lifetime = \"100d\"", "expected 1 hour to 90 days"),
        (&format!("{client}\"https://a.example/c\""), "without `:` and `/`"),
        (&format!("{client}\"tcc_1\""), "not `tcc_`"),
        (&format!("{client}\"a\"\n{client}\"a\""), "another client has this id"),
        (&format!("{client}\"a\"\nsecret = {{ env = \"SET\" }}"), "shorter than 32 bytes"),
        (&format!("{client}\"a\"\nredirect_uris = [\"http://a.example\"]"), "a redirect URI is"),
        ("[auth.resource]\nresource = \"https://other.example/mcp\"", "or its `/mcp`"),
    ] {
        let message = complaint(&with(more));
        assert!(message.contains(said), "{more}: {message}");
    }
}
