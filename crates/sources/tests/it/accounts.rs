//! Accounts of people at a real authorization server, over sockets: how they are connected, which
//! calls use them, and how their tokens are renewed.

mod calls;
mod connect;
mod exchange;
mod lists;
mod recipes;
mod renew;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use toolcrib_core::{
    call::UpstreamError,
    canonical::Digest,
    clock::Clock as _,
    credential::{
        AccountGrant, AccountOf, AccountSpec, GrantPlace, GrantStore, Owner, ResourceParameter,
        Secret,
    },
    egress::AllowList,
    id::TenantId,
    source::{
        AccountError, AuthorizationResponse, BegunAuthorization, ConnectRequest, HttpSpec,
        SourceFactory as _, SourceLimits, SourceSpec, UpstreamSpec,
    },
};
use toolcrib_sources::Factory;
use toolcrib_store::MemoryStorage;
use toolcrib_testkit::upstream::{OAuthBehaviour, OAuthServer};

use crate::{
    credentials::Seconds,
    rig::{Rig, invocation, outcome, permit_of, text},
};

const REDIRECT: &str = "https://crib.example/connect/crib/callback";

/// A service with accounts, and a source for it.
struct Stage {
    server: OAuthServer,
    grants: Arc<dyn GrantStore>,
    clock: Arc<Seconds>,
    factory: Factory,
    spec: SourceSpec,
    next: AtomicU64,
}

fn tenant() -> TenantId {
    TenantId::parse("tenant").unwrap()
}

fn person(name: &str) -> Owner {
    Owner::principal(tenant(), name.parse().unwrap())
}

fn factory(clock: &Arc<Seconds>, grants: &Arc<dyn GrantStore>) -> Factory {
    Factory::new(Arc::clone(clock) as _).with_grants(Arc::clone(grants))
}

/// Without and with sessions.
fn eras() -> [OAuthBehaviour; 2] {
    [false, true].map(|has_sessions| OAuthBehaviour { has_sessions, ..OAuthBehaviour::default() })
}

impl Stage {
    /// With the accounts of the tenant, of ann and of bob.
    async fn connected(behaviour: OAuthBehaviour) -> Self {
        let stage = Self::new(behaviour);
        stage.connect(Owner::tenant(tenant()), "robot").await;
        stage.connect(person("ann"), "ann").await;
        stage.connect(person("bob"), "bob").await;
        stage
    }

    fn new(behaviour: OAuthBehaviour) -> Self {
        let server = OAuthServer::start(behaviour);
        let upstream = UpstreamSpec::McpHttp(HttpSpec {
            url: server.url("/mcp"),
            headers: BTreeMap::new(),
            allow: AllowList::default(),
        });
        let account = AccountSpec {
            of: AccountOf::Principal,
            tenant: tenant(),
            scopes: Vec::new(),
            scope_texts: BTreeMap::new(),
            client: None,
            issuer: None,
            endpoints: None,
            resource: ResourceParameter::OfServer,
            trusts_unannounced_pkce: false,
            parameters: Vec::new(),
            scope_separator: " ".to_owned(),
            exchange: None,
        };
        let spec = SourceSpec {
            id: "crib".parse().unwrap(),
            upstream,
            limits: SourceLimits::default(),
            credential: None,
            account: Some(Arc::new(account)),
        };
        Self::over(server, spec)
    }

    fn over(server: OAuthServer, spec: SourceSpec) -> Self {
        let grants = MemoryStorage::default().grants;
        let clock = Arc::new(Seconds::default());
        let factory = factory(&clock, &grants);
        Self { server, grants, clock, factory, spec, next: AtomicU64::new(1) }
    }

    /// Changes the configuration of the accounts.
    fn configure(&mut self, change: impl FnOnce(&mut AccountSpec)) {
        let mut account = (**self.spec.account.as_ref().unwrap()).clone();
        change(&mut account);
        self.spec.account = Some(Arc::new(account));
    }

    fn place(&self, owner: Owner) -> GrantPlace {
        GrantPlace { owner, source: self.spec.id.clone() }
    }

    fn pass(&self, seconds: u64) {
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
    }

    async fn grant(&self, owner: Owner) -> Option<AccountGrant> {
        let found = self.grants.get(&self.place(owner), self.clock.now()).await.unwrap();
        found.map(|(grant, _)| grant)
    }

    async fn begin(&self) -> Result<BegunAuthorization, AccountError> {
        self.begin_for(person("ann"), None).await
    }

    async fn begin_for(
        &self,
        owner: Owner,
        client_document: Option<&str>,
    ) -> Result<BegunAuthorization, AccountError> {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let earlier = self.grant(owner.clone()).await;
        let request = ConnectRequest {
            spec: &self.spec,
            place: self.place(owner),
            principal: "ann".parse().unwrap(),
            browser: Digest::of(b"cookie"),
            redirect_uri: REDIRECT,
            client_document,
            earlier: earlier.as_ref(),
            id: format!("grant-{number}").parse().unwrap(),
            state: &Secret::new(format!("state-{number}")),
            random: [7; 32],
            expires_at: self.clock.now() + Duration::from_secs(600),
        };
        self.factory.accounts().begin(request).await
    }

    /// Lets the person in the browser consent.
    fn consent(&self, begun: &BegunAuthorization) -> AuthorizationResponse {
        let mut answer = self.server.consent(&begun.address);
        AuthorizationResponse {
            code: answer.remove("code").map(Secret::new),
            issuer: answer.remove("iss"),
            error: answer.remove("error"),
        }
    }

    /// Connects an account of the service.
    async fn connect(&self, owner: Owner, account: &str) -> AccountGrant {
        self.server.sign_in(account);
        let begun = self.begin_for(owner, None).await.unwrap();
        let response = self.consent(&begun);
        self.finish(&begun, &response).await.unwrap()
    }

    async fn finish(
        &self,
        begun: &BegunAuthorization,
        response: &AuthorizationResponse,
    ) -> Result<AccountGrant, AccountError> {
        let BegunAuthorization { pending, verifier, .. } = begun;
        let connector = self.factory.accounts();
        let (terms, secrets) = connector.finish(&self.spec, pending, verifier, response).await?;
        let (now, place) = (self.clock.now(), pending.place.clone());
        let grant = AccountGrant {
            id: pending.id.clone(),
            place,
            terms,
            created_at: now,
            changed_at: now,
            expires_at: None,
            last_used_at: None,
            revision: 1,
        };
        self.grants.put(grant.clone(), secrets).await.unwrap();
        Ok(grant)
    }

    fn rig(&self) -> Rig {
        Rig::of(&self.spec, &self.factory)
    }
}

/// Calls a tool as `principal`, and returns its text.
async fn call(rig: &Rig, principal: &str, tool: &str) -> Result<String, UpstreamError> {
    let permit = permit_of(principal, tool, None, None);
    let reply = rig.serve(&permit, invocation(json!({}))).await?;
    Ok(text(&outcome(reply)))
}
