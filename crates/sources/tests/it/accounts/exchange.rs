//! Tokens of callers that are exchanged for tokens of the service.

use std::collections::BTreeMap;

use serde_json::json;
use toolcrib_core::{
    call::{Invocation, Operation, UpstreamError, UpstreamErrorKind},
    credential::{
        ClientAuth, CredentialCaller, CredentialProblem, Owner, PresetClient, PresetEndpoints,
        RefusalCause, Secret, TokenExchange,
    },
    egress::AllowList,
    id::{CredentialId, PrincipalId, TenantId},
    source::{
        UpstreamSpec,
        connector::{ConnectorSpec, OpenApiLocation},
    },
};
use toolcrib_testkit::upstream::OAuthBehaviour;

use super::{Stage, call, person, tenant};
use crate::rig::{Rig, invocation, outcome, permit_of, secret, text};

const DENIED: Option<CredentialProblem> = Some(CredentialProblem::NotExchanged);

/// A service that exchanges the tokens `token-ann` and `token-bob`.
async fn exchanging(behaviour: OAuthBehaviour) -> Stage {
    let mut stage = Stage::new(behaviour);
    stage.server.add_client("crib", Some("client-canary"));
    for name in ["ann", "bob"] {
        stage.server.exchange(&format!("token-{name}"), name);
    }
    let [authorization, token] = ["/authorize", "/token"].map(|path| stage.server.url(path));
    stage.configure(|account| {
        account.scopes = vec!["read".to_owned()];
        account.exchange = Some(TokenExchange::Standard { audience: Some("notes".to_owned()) });
        let (id, secret) = ("crib".to_owned(), Some(secret("client-canary")));
        account.client = Some(PresetClient { id, secret, auth: ClientAuth::Basic });
        account.endpoints = Some(PresetEndpoints { authorization, token, revocation: None });
    });
    stage.connect(Owner::tenant(tenant()), "robot").await;
    stage
}

/// Both eras of MCP, and a document, each with its source.
async fn stages() -> Vec<(Stage, Option<tempfile::TempDir>)> {
    let mut stages = Vec::new();
    for has_sessions in [false, true] {
        let behaviour = OAuthBehaviour { has_sessions, ..OAuthBehaviour::default() };
        stages.push((exchanging(behaviour).await, None));
    }
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("openapi.json");
    let openapi = json!({ "openapi": "3.1.0", "info": { "title": "t", "version": "1" },
        "paths": { "/whoami": { "get": { "operationId": "whoami" } } } });
    std::fs::write(&document, openapi.to_string()).unwrap();
    let mut stage = exchanging(OAuthBehaviour::default()).await;
    stage.spec.upstream = UpstreamSpec::Connector(ConnectorSpec {
        document: OpenApiLocation::Path(document),
        base_url: Some(stage.server.url("")),
        operations: Vec::new(),
        variables: BTreeMap::new(),
        headers: BTreeMap::new(),
        allow: AllowList::default(),
    });
    stages.push((stage, Some(folder)));
    stages
}

impl Stage {
    fn exchanges(&self) -> usize {
        let requests = self.server.arrived("/token");
        requests.iter().filter(|it| it.body.contains("grant-type:token-exchange")).count()
    }

    /// The requests that arrived at the service itself.
    fn sent(&self) -> usize {
        self.server.arrived("/mcp").len() + self.server.arrived("/whoami").len()
    }
}

fn with<'c>(
    tenant: &'c TenantId,
    principal: &'c PrincipalId,
    token: &'c Secret,
) -> CredentialCaller<'c> {
    CredentialCaller { tenant, principal, presented: Some(token), makers: Some(&[]) }
}

/// Calls `whoami` as `principal`, who came with `token`.
async fn call_with(rig: &Rig, principal: &str, token: &str) -> Result<String, UpstreamError> {
    let permit = permit_of(principal, "whoami", None, None);
    let need = rig.source.credential_for(permit.entry());
    let (principal, token) = (principal.parse().unwrap(), Secret::new(token.to_owned()));
    let resolved = rig.credentials.resolve(&need, with(&tenant(), &principal, &token)).await;
    let refused = |refusal| UpstreamError::without_credential("account", &refusal);
    let credential = resolved.map_err(refused)?;
    let call = Invocation { credential, ..invocation(json!({})) };
    let reply = rig.source.serve(&permit, Operation::CallTool(call)).await?;
    Ok(text(&outcome(reply)))
}

fn problem_of(result: Result<String, UpstreamError>) -> Option<CredentialProblem> {
    match result.unwrap_err().kind {
        UpstreamErrorKind::Credential(problem) => Some(problem),
        other => panic!("{other:?}"),
    }
}

/// I-120
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_token_is_exchanged_again_once() {
    for (stage, _folder) in stages().await {
        let rig = stage.rig();
        rig.ready().await;
        let said = call_with(&rig, "ann", "token-ann").await.unwrap();
        assert!(said.contains("ann"), "{said}");
        assert_eq!(stage.exchanges(), 1);
        stage.server.end_access_tokens();
        let calls = (0..10).map(|_| call_with(&rig, "ann", "token-ann"));
        for said in futures_util::future::join_all(calls).await {
            assert!(said.unwrap().contains("ann"));
        }
        assert_eq!(stage.exchanges(), 2, "one exchange for all calls");

        // A token that is rejected again at once is not helped by a third one.
        stage.server.behave(|it| it.rejects = "ann".to_owned());
        let before = stage.sent();
        assert_eq!(problem_of(call_with(&rig, "ann", "token-ann").await), DENIED);
        assert_eq!(stage.exchanges(), 2);
        assert!(stage.sent() > before);
        let before = stage.sent();
        assert_eq!(problem_of(call_with(&rig, "ann", "token-ann").await), DENIED);
        assert_eq!((stage.exchanges(), stage.sent()), (2, before));
        // Others go on, and so does this one after a minute.
        assert!(call_with(&rig, "bob", "token-bob").await.unwrap().contains("bob"));
        assert_eq!(stage.exchanges(), 3);
        stage.server.behave(|it| it.rejects.clear());
        stage.pass(61);
        assert!(call_with(&rig, "ann", "token-ann").await.unwrap().contains("ann"));
        assert_eq!(stage.exchanges(), 4);
        // The requests of services have no token of a caller.
        let whole = stage.server.whole();
        let of_services = whole.iter().filter(|request| !request.starts_with("POST /token"));
        assert!(of_services.clone().count() > 10);
        for request in of_services {
            assert!(!request.contains("token-ann") && !request.contains("token-bob"), "{request}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_has_no_other_account() {
    let stage = exchanging(OAuthBehaviour::default()).await;
    // An account that she connected earlier does not replace the decision of the provider.
    stage.connect(person("ann"), "ann").await;
    let rig = stage.rig();
    rig.ready().await;
    let before = stage.sent();
    for exchanges in [1, 1, 2] {
        assert_eq!(problem_of(call_with(&rig, "ann", "token-canary").await), DENIED);
        assert_eq!((stage.exchanges(), stage.sent()), (exchanges, before));
        // The second call comes within the pause.
        stage.pass(3);
    }
    // Without a token it is her account that counts.
    assert_eq!(call(&rig, "ann", "whoami").await.unwrap(), "ann");
    assert_eq!(stage.exchanges(), 2);
    // A server in trouble has decided nothing.
    stage.server.behave(|it| it.token_answer = Some((503, "token-canary".to_owned())));
    let failed = call_with(&rig, "ann", "token-ann").await.unwrap_err();
    assert_eq!(failed.kind, UpstreamErrorKind::Unavailable, "{failed:?}");
    assert!(!format!("{failed:?}").contains("canary"), "{failed:?}");
}

/// I-120: a token, its caller and the settings decide which exchanged token is sent.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchanged_token_is_for_its_presenter() {
    let mut stage = exchanging(OAuthBehaviour::default()).await;
    let rig = stage.rig();
    rig.ready().await;
    let id = async |rig: &Rig, principal: &str, token: &str| -> CredentialId {
        let need = rig.source.credential_for(permit_of(principal, "whoami", None, None).entry());
        let (principal, token) = (principal.parse().unwrap(), Secret::new(token.to_owned()));
        let credentials = &rig.credentials;
        let tenant = tenant();
        let caller = with(&tenant, &principal, &token);
        let found = credentials.find(&need, caller).await;
        let resolved = credentials.resolve(&need, caller).await;
        let (found, resolved) = (found.unwrap().unwrap(), resolved.unwrap().unwrap());
        assert_eq!(found.id, resolved.credential.id);
        assert!(!format!("{resolved:?}").contains("token-"), "{resolved:?}");
        found.id
    };
    stage.server.exchange("token-ann-2", "ann");
    let first = id(&rig, "ann", "token-ann").await;
    assert_eq!(id(&rig, "ann", "token-ann").await, first);
    assert_eq!(stage.exchanges(), 1);
    assert_ne!(id(&rig, "ann", "token-ann-2").await, first);
    assert_ne!(id(&rig, "eve", "token-ann").await, first);
    assert_eq!(stage.exchanges(), 3);
    // Its last minute is not used.
    stage.pass(3_539);
    assert_eq!(id(&rig, "ann", "token-ann").await, first);
    stage.pass(2);
    assert_eq!(id(&rig, "ann", "token-ann").await, first);
    assert_eq!(stage.exchanges(), 4);
    stage.configure(|account| account.scopes = vec!["write".to_owned()]);
    let other = stage.rig();
    other.ready().await;
    assert_ne!(id(&other, "ann", "token-ann").await, first);
    // No account of others is found without a token.
    let need = rig.source.credential_for(permit_of("ann", "whoami", None, None).entry());
    let (tenant, ann) = (tenant(), "ann".parse().unwrap());
    let caller = CredentialCaller::without_call(&tenant, &ann);
    let refused = rig.credentials.find(&need, caller).await.unwrap_err();
    let RefusalCause::Credential(problem) = refused.cause else { panic!("{refused:?}") };
    assert_eq!(problem, CredentialProblem::NotConnected);
}
