//! How an account is connected.

use toolcrib_core::{
    credential::{ClientAuth, GrantState, PresetClient, PresetEndpoints, Secret, SecretValue},
    source::{AccountError, AuthorizationResponse, Prospect, SourceFactory as _, UpstreamSpec},
};
use toolcrib_testkit::upstream::{OAuthBehaviour, OAuthServer};
use url::Url;

use super::{REDIRECT, Stage, person};

const DOCUMENT: &str = "https://crib.example/connect/client.json";

fn parameter(address: &str, name: &str) -> Option<String> {
    let url = Url::parse(address).unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_client_connects_an_account() {
    let stage = Stage::new(OAuthBehaviour::default());
    let begun = stage.begin().await.unwrap();
    let asked = |name| parameter(&begun.address, name);
    assert_eq!(asked("redirect_uri").as_deref(), Some(REDIRECT));
    assert_eq!(asked("resource"), Some(stage.server.url("/mcp")));
    assert_eq!(asked("scope").as_deref(), Some("read"), "the challenge comes before the metadata");
    assert_eq!(asked("state").as_deref(), Some("state-1"));
    assert!(!begun.address.contains(begun.verifier.expose()));
    let response = stage.consent(&begun);
    let grant = stage.finish(&begun, &response).await.unwrap();
    assert_eq!(grant.terms.issuer, stage.server.issuer());
    assert_eq!(grant.terms.oauth2.scopes, ["read"]);
    assert_eq!(grant.terms.oauth2.client_auth, ClientAuth::None);
    let origin = stage.server.url("").parse().unwrap();
    assert_eq!(grant.terms.audiences, [origin], "with its port");
    assert_eq!(grant.terms.account.as_deref(), Some("ann@service.example"));
    assert_eq!(grant.terms.state, GrantState::Active);
    // The client is registered once, also for the next person.
    stage.connect(person("bob"), "bob").await;
    assert_eq!(stage.server.arrived("/register").len(), 1);
    // A code is valid once.
    let again = stage.finish(&begun, &response).await.unwrap_err();
    assert_eq!(again, AccountError::Refused("invalid_grant"));
    // A removed grant is revoked.
    let (grant, secrets) =
        stage.grants.get(&stage.place(person("ann")), grant.created_at).await.unwrap().unwrap();
    assert_eq!(stage.server.tokens_of("ann"), 2);
    stage.rig();
    assert!(stage.factory.accounts().revoke(&grant, &secrets).await);
    assert_eq!(stage.server.tokens_of("ann"), 0);
    // The caller hears of a service that does not answer.
    let mut untold = grant;
    untold.terms.revocation_url = None;
    assert!(!stage.factory.accounts().revoke(&untold, &secrets).await);
    untold.terms.revocation_url = Some(stage.server.url("/whoami"));
    assert!(!stage.factory.accounts().revoke(&untold, &secrets).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_servers_are_found() {
    let usual = OAuthBehaviour::default;
    for (what, behaviour) in [
        ("well-known", OAuthBehaviour { challenges: false, ..usual() }),
        ("challenge", OAuthBehaviour { has_resource: false, ..usual() }),
        ("path", OAuthBehaviour { issuer_path: "/realms/a".to_owned(), ..usual() }),
        ("its own", OAuthBehaviour { challenges: false, has_resource: false, ..usual() }),
        ("no name", OAuthBehaviour { names_issuer: false, ..usual() }),
    ] {
        let stage = Stage::new(behaviour);
        let grant = stage.connect(person("ann"), "ann").await;
        assert_eq!(grant.terms.issuer, stage.server.issuer(), "{what}");
        assert_eq!(grant.terms.oauth2.resource, Some(stage.server.url("/mcp")), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_issuer_or_endpoints_come_first() {
    let path = "/realms/b".to_owned();
    let mut stage = Stage::new(OAuthBehaviour { issuer_path: path, ..OAuthBehaviour::default() });
    let issuer = stage.server.issuer();
    stage.configure(|account| account.issuer = Some(issuer));
    stage.connect(person("ann"), "ann").await;
    let asked = stage.server.arrived("/.well-known/oauth-protected-resource/mcp");
    assert!(asked.is_empty() && stage.server.arrived("/mcp").is_empty());

    let mut stage = Stage::new(OAuthBehaviour::default());
    stage.server.add_client("preset", Some("client-canary"));
    let [authorization, token] = ["/authorize", "/token"].map(|path| stage.server.url(path));
    stage.configure(|account| {
        account.endpoints = Some(PresetEndpoints { authorization, token, revocation: None });
        account.scopes = vec!["read".to_owned(), "write".to_owned()];
        account.parameters = vec![("access_type".to_owned(), "offline".to_owned())];
        account.client = Some(PresetClient {
            id: "preset".to_owned(),
            secret: Some(SecretValue(Secret::new("client-canary".to_owned()))),
            auth: ClientAuth::Basic,
        });
    });
    let begun = stage.begin().await.unwrap();
    assert_eq!(parameter(&begun.address, "access_type").as_deref(), Some("offline"));
    assert_eq!(parameter(&begun.address, "scope").as_deref(), Some("read write"));
    assert_eq!(parameter(&begun.address, "resource"), None);
    let response = stage.consent(&begun);
    let grant = stage.finish(&begun, &response).await.unwrap();
    assert_eq!(grant.terms.oauth2.scopes, ["read", "write"]);
    let shown = format!("{grant:?}{:?}{}", begun.pending, begun.address);
    assert!(!shown.contains("canary"), "{shown}");
    assert!(stage.server.arrived("/register").is_empty());
    stage.configure(|account| {
        account.parameters = vec![("redirect_uri".to_owned(), "https://evil.example".to_owned())];
    });
    assert!(matches!(stage.begin().await, Err(AccountError::Unsupported(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_document_needs_no_registration() {
    let stage = Stage::new(OAuthBehaviour { documents: true, ..OAuthBehaviour::default() });
    let begun = stage.begin_for(person("ann"), Some(DOCUMENT)).await.unwrap();
    assert_eq!(parameter(&begun.address, "client_id").as_deref(), Some(DOCUMENT));
    let response = stage.consent(&begun);
    stage.finish(&begun, &response).await.unwrap();
    assert!(stage.server.arrived("/register").is_empty());
    // Without a document that the server can fetch, the client is registered.
    stage.begin().await.unwrap();
    assert_eq!(stage.server.arrived("/register").len(), 1);
}

fn problem(error: AccountError) -> String {
    assert!(
        matches!(error, AccountError::Unsupported(_) | AccountError::Unavailable(_)),
        "{error:?}"
    );
    error.to_string()
}

async fn refused(stage: &Stage) -> String {
    match stage.begin().await {
        Ok(begun) => panic!("it begins at {}", begun.address),
        Err(error) => problem(error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_servers_are_refused() {
    let usual = OAuthBehaviour::default;
    let huge = format!("{{\"issuer\":\"{}\"}}", "x".repeat(1 << 20));
    let answer =
        |status, location: &str, body: &str| Some((status, location.to_owned(), body.to_owned()));
    let elsewhere = "http://127.0.0.1:1/canary";
    for (behaviour, said) in [
        (OAuthBehaviour { other_issuer: Some("canary".to_owned()), ..usual() }, "another issuer"),
        (OAuthBehaviour { announces_pkce: false, ..usual() }, "`pkce = \"unannounced\"`"),
        (OAuthBehaviour { registers: false, ..usual() }, "`client_id`"),
        (OAuthBehaviour { metadata_answer: answer(302, elsewhere, ""), ..usual() }, "not found"),
        (OAuthBehaviour { metadata_answer: answer(200, "", &huge), ..usual() }, "not found"),
        (OAuthBehaviour { metadata_answer: answer(500, "", "canary"), ..usual() }, "not found"),
    ] {
        let what = format!("{behaviour:.200?}");
        let mut stage = Stage::new(behaviour);
        let reason = refused(&stage).await;
        assert!(reason.contains(said) && !reason.contains("canary"), "{reason}: {what}");
        if said.contains("pkce") {
            stage.configure(|account| account.trusts_unannounced_pkce = true);
            stage.begin().await.unwrap();
        }
    }
}

/// A service can move to another authorization server, where a new client is registered. The person
/// sees it before.
#[tokio::test(flavor = "multi_thread")]
async fn another_authorization_server_is_announced() {
    let other = OAuthServer::start(OAuthBehaviour::default());
    let mut stage = Stage::new(OAuthBehaviour::default());
    let UpstreamSpec::McpHttp(http) = &mut stage.spec.upstream else { unreachable!() };
    http.allow = ["127.0.0.1".parse().unwrap()].into_iter().collect();
    stage.connect(person("ann"), "ann").await;
    let preview = async |stage: &Stage| {
        let (connector, place) = (stage.factory.accounts(), stage.place(person("bob")));
        connector.preview(&stage.spec, &place, None).await.unwrap()
    };
    assert_eq!(preview(&stage).await.earlier_issuer, None);
    stage.server.behave(|it| it.servers = Some(vec![other.issuer()]));
    let moved = preview(&stage).await;
    assert_eq!((moved.issuer, moved.earlier_issuer), (other.issuer(), Some(stage.server.issuer())));
    assert!(other.arrived("/register").is_empty());
    let begun = stage.begin_for(person("bob"), None).await.unwrap();
    assert!(begun.address.starts_with(&other.url("/authorize")), "{}", begun.address);
    assert_eq!(other.arrived("/register").len(), 1, "a client of its own");
    // One of several servers is still the earlier one, wherever it is in the list.
    let both = vec![other.issuer(), stage.server.issuer()];
    stage.server.behave(|it| it.servers = Some(both));
    let both = preview(&stage).await;
    assert_eq!((both.issuer, both.earlier_issuer), (stage.server.issuer(), None));
    // The operator decides.
    let issuer = other.issuer();
    stage.configure(|account| account.issuer = Some(issuer));
    let decided = preview(&stage).await;
    assert_eq!((decided.issuer, decided.earlier_issuer), (other.issuer(), None));
}

/// A preview names the contents of a consent, and registers no client.
#[tokio::test(flavor = "multi_thread")]
async fn a_preview_says_what_is_asked() {
    let stage = Stage::new(OAuthBehaviour::default());
    let (connector, place) = (stage.factory.accounts(), stage.place(person("ann")));
    let preview = connector.preview(&stage.spec, &place, None).await.unwrap();
    assert!(stage.server.arrived("/register").is_empty());
    assert_eq!(preview.issuer, stage.server.issuer());
    assert_eq!(preview.authorization, stage.server.url("/authorize"));
    assert_eq!(preview.token, stage.server.url("/token"));
    assert_eq!(preview.scopes, ["read"]);
    let begun = stage.begin().await.unwrap().prospect();
    assert!(begun.authorization.starts_with(&preview.authorization));
    assert_eq!(Prospect { authorization: preview.authorization.clone(), ..begun }, preview);
}

/// I-35: metadata cannot direct requests into the operator's network.
#[tokio::test(flavor = "multi_thread")]
async fn a_private_authorization_server_requires_the_operator() {
    let other = OAuthServer::start(OAuthBehaviour::default());
    let servers = Some(vec![other.issuer()]);
    let mut stage = Stage::new(OAuthBehaviour { servers, ..OAuthBehaviour::default() });
    let reason = refused(&stage).await;
    assert!(!reason.contains("127.0.0.1"), "{reason}");
    assert!(other.arrived("/.well-known/oauth-authorization-server").is_empty());
    let UpstreamSpec::McpHttp(http) = &mut stage.spec.upstream else { unreachable!() };
    http.allow = ["127.0.0.1".parse().unwrap()].into_iter().collect();
    let begun = stage.begin().await.unwrap();
    assert!(begun.address.starts_with(&other.url("/authorize")), "{}", begun.address);
}

/// I-35: nor can it direct the browser of a person there.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_is_sent_to_public_addresses_only() {
    let mut stage = Stage::new(OAuthBehaviour::default());
    for address in [
        "https://127.0.0.1/authorize",
        "https://10.0.0.1/authorize",
        "https://192.168.1.1/authorize",
        "https://169.254.169.254/authorize",
        "https://[::1]/authorize",
        "https://[::ffff:10.0.0.1]/authorize",
        "https://2130706433/authorize",
        "https://localhost/authorize",
        "https://a.localhost/authorize",
        "http://localhost:1/authorize",
        "http://id.example/authorize",
        "https://id.example@10.0.0.1/authorize",
        "https://canary@1.1.1.1/authorize",
        "javascript:alert(1)",
        "data:text/html,canary",
        "no address",
    ] {
        stage.server.behave(|it| it.other_authorization = Some(address.to_owned()));
        let reason = refused(&stage).await;
        assert!(reason.contains("`allow`") && !reason.contains("canary"), "{address}: {reason}");
        assert!(!reason.contains("10.0.0.1"), "{reason}");
    }
    let public = "https://1.1.1.1/authorize";
    stage.server.behave(|it| it.other_authorization = Some(public.to_owned()));
    assert!(stage.begin().await.unwrap().address.starts_with(public));
    // The operator permits a private one.
    let private = "https://10.0.0.1/authorize";
    stage.server.behave(|it| it.other_authorization = Some(private.to_owned()));
    let UpstreamSpec::McpHttp(http) = &mut stage.spec.upstream else { unreachable!() };
    http.allow = ["10.0.0.0/8".parse().unwrap()].into_iter().collect();
    assert!(stage.begin().await.unwrap().address.starts_with(private));
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_of_others_and_refusals_connect_nothing() {
    let stage = Stage::new(OAuthBehaviour::default());
    let begun = stage.begin().await.unwrap();
    let good = stage.consent(&begun);
    let issuer = Some(stage.server.issuer());
    let code = || Some(Secret::new("canary".to_owned()));
    for (response, expected) in [
        (
            AuthorizationResponse {
                issuer: Some("https://evil.example".to_owned()),
                ..good.clone()
            },
            AccountError::NotOurs,
        ),
        (AuthorizationResponse { issuer: None, ..good.clone() }, AccountError::NotOurs),
        (
            AuthorizationResponse {
                code: None,
                error: Some("access_denied".to_owned()),
                issuer: issuer.clone(),
            },
            AccountError::Refused("access_denied"),
        ),
        (
            AuthorizationResponse { code: code(), error: None, issuer },
            AccountError::Refused("invalid_grant"),
        ),
    ] {
        assert_eq!(stage.finish(&begun, &response).await.unwrap_err(), expected);
    }
    stage.server.behave(|it| it.token_answer = Some((503, "canary".to_owned())));
    let error = stage.finish(&begun, &good).await.unwrap_err();
    assert!(matches!(&error, AccountError::Unavailable(why) if !why.contains("canary")));
    stage.server.behave(|it| it.token_answer = None);
    assert!(stage.finish(&begun, &good).await.is_ok(), "the code was not used");
    // A server that has forgotten its client gets another one.
    let begun = stage.begin().await.unwrap();
    let response = stage.consent(&begun);
    stage.server.forget_clients();
    let error = stage.finish(&begun, &response).await.unwrap_err();
    assert!(problem(error).contains("try again"));
    stage.connect(person("ann"), "ann").await;
    assert_eq!(stage.server.arrived("/register").len(), 2);
}
