//! A service with accounts that needs no network, and the grants of its callers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use chrono::{Duration, Utc};
use parking_lot::Mutex;
use toolcrib_core::{
    credential::{
        AccountGrant, ClientAuth, Credential, CredentialKind, CredentialNeed, CredentialProblem,
        CredentialRefusal, GrantPlace, GrantSecrets, GrantState, GrantStore, GrantTerms, OAuth2,
        PendingAuthorization, PendingTerms, RefusalCause, Secret,
    },
    id::{CredentialId, PrincipalId, TenantId},
    source::{
        AccountConnector, AccountError, AuthorizationResponse, BegunAuthorization, ConnectRequest,
        Prospect, SourceSpec,
    },
};

/// The code with which the service connects an account.
pub(crate) const CODE: &str = "code-canary";

/// The service.
#[derive(Default)]
pub(crate) struct Service {
    pub(crate) revoked: Mutex<Vec<CredentialId>>,
    pub(crate) begun: AtomicUsize,
    pub(crate) exchanged: AtomicUsize,
    /// Has no address for browsers.
    pub(crate) is_down: AtomicBool,
    /// Cannot revoke tokens.
    pub(crate) cannot_revoke: AtomicBool,
    /// The account that the next person signs in to, in place of `ann@example`.
    pub(crate) account: Mutex<Option<String>>,
    /// The scopes that it requests with `notes`.
    pub(crate) further: Mutex<Vec<String>>,
}

fn oauth2() -> OAuth2 {
    OAuth2 {
        token_url: "https://id.example/token".to_owned(),
        client_id: "crib".to_owned(),
        client_auth: ClientAuth::None,
        scopes: vec!["notes".to_owned()],
        resource: None,
    }
}

impl Service {
    fn asked(&self) -> Vec<String> {
        let mut scopes = oauth2().scopes;
        scopes.extend(self.further.lock().iter().cloned());
        scopes
    }
}

#[async_trait]
impl AccountConnector for Service {
    async fn preview(
        &self,
        _: &SourceSpec,
        _: &GrantPlace,
        _: Option<&AccountGrant>,
    ) -> Result<Prospect, AccountError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(AccountError::Unavailable("the service does not answer".to_owned()));
        }
        Ok(Prospect {
            issuer: "https://id.example".to_owned(),
            authorization: "https://id.example/authorize".to_owned(),
            token: "https://id.example/token".to_owned(),
            scopes: self.asked(),
            earlier_issuer: None,
        })
    }

    async fn begin(&self, request: ConnectRequest<'_>) -> Result<BegunAuthorization, AccountError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if self.is_down.load(Ordering::SeqCst) {
            return Err(AccountError::Unavailable("the service does not answer".to_owned()));
        }
        let pending = PendingAuthorization {
            state: PendingAuthorization::hash(request.state),
            id: request.id,
            place: request.place,
            terms: PendingTerms {
                issuer: "https://id.example".to_owned(),
                redirect_uri: request.redirect_uri.to_owned(),
                oauth2: OAuth2 { scopes: self.asked(), ..oauth2() },
                names_issuer: false,
                revocation_url: None,
                principal: request.principal,
                browser: request.browser,
            },
            created_at: request.expires_at - Duration::minutes(10),
            expires_at: request.expires_at,
        };
        let state = request.state.expose();
        Ok(BegunAuthorization {
            address: format!("https://id.example/authorize?state={state}"),
            pending,
            verifier: Secret::new("verifier-canary".to_owned()),
        })
    }

    async fn finish(
        &self,
        _: &SourceSpec,
        _: &PendingAuthorization,
        verifier: &Secret,
        response: &AuthorizationResponse,
    ) -> Result<(GrantTerms, GrantSecrets), AccountError> {
        assert_eq!(verifier.expose(), "verifier-canary");
        self.exchanged.fetch_add(1, Ordering::SeqCst);
        match (&response.error, &response.code) {
            (Some(_), _) => Err(AccountError::Refused("access_denied")),
            (None, Some(code)) if code.expose() == CODE => {
                let account = self.account.lock().clone().or(terms().account);
                Ok((GrantTerms { account, ..terms() }, secrets()))
            }
            _ => Err(AccountError::NotOurs),
        }
    }

    async fn revoke(&self, grant: &AccountGrant, _: &GrantSecrets) -> bool {
        self.revoked.lock().push(grant.id.clone());
        !self.cannot_revoke.load(Ordering::SeqCst)
    }
}

fn terms() -> GrantTerms {
    GrantTerms {
        issuer: "https://id.example".to_owned(),
        oauth2: oauth2(),
        audiences: vec!["api.example".parse().unwrap()],
        account: Some("ann@example".to_owned()),
        state: GrantState::Active,
        token_expires_at: None,
        missing_scopes: Vec::new(),
        withheld_scopes: Vec::new(),
        revocation_url: None,
        makers: Vec::new(),
    }
}

fn secrets() -> GrantSecrets {
    GrantSecrets {
        access_token: Some(Secret::new("token-canary".to_owned())),
        refresh_token: None,
        client_secret: None,
    }
}

/// The credential that `need` names: the grant of exactly its owner.
pub(crate) async fn find(
    grants: &Arc<dyn GrantStore>,
    need: &CredentialNeed,
    tenant: &TenantId,
    principal: &PrincipalId,
) -> Result<Credential, CredentialRefusal> {
    let CredentialNeed::Account { source, account, destination } = need else { panic!() };
    let place = GrantPlace { owner: account.owner(tenant, principal), source: source.clone() };
    let found = grants.get(&place, Utc::now()).await.unwrap().map(|(grant, _)| grant);
    let refused = |problem| CredentialRefusal {
        cause: RefusalCause::Credential(problem),
        id: found.as_ref().map(|grant| grant.id.clone()),
        destination: destination.clone(),
    };
    match &found {
        None => Err(refused(CredentialProblem::NotConnected)),
        Some(grant) if grant.terms.state == GrantState::NeedsConsent => {
            Err(refused(CredentialProblem::NeedsConsent))
        }
        Some(grant) => Ok(Credential {
            id: grant.id.clone(),
            name: "account".parse().unwrap(),
            owner: grant.place.owner.clone(),
            kind: CredentialKind::Header {
                name: "authorization".to_owned(),
                prefix: "Bearer ".to_owned(),
            },
            audiences: grant.terms.audiences.clone(),
            created_at: grant.created_at,
            rotated_at: grant.changed_at,
            expires_at: None,
            revision: grant.revision,
        }),
    }
}
