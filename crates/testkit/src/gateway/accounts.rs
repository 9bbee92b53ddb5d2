//! A service at which the callers of a source connect accounts, without a network. Grants, links and
//! authorizations are in the real store.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use chrono::{Duration, Utc};
use toolcrib_core::{
    credential::{
        AccessToken, AccountGrant, ClientAuth, Credential, CredentialCaller, CredentialKind,
        CredentialNeed, CredentialProblem, CredentialRefusal, CredentialResolver,
        CredentialStoreError, FoundCredential, GrantPlace, GrantSecrets, GrantState, GrantStore,
        GrantTerms, Material, OAuth2, PendingAuthorization, PendingTerms, RefusalCause,
        ResolvedCredential, Secret,
    },
    source::{
        AccountConnector, AccountError, AuthorizationResponse, BegunAuthorization, ConnectRequest,
        Prospect, SourceSpec,
    },
};

/// The service. Its address for browsers is `https://id.example/authorize?state=STATE`.
#[derive(Clone, Default)]
pub struct TestAccounts(Arc<OnceLock<Arc<dyn GrantStore>>>);

impl TestAccounts {
    /// The code with which the service connects an account.
    pub const CODE: &str = "account-code-canary";
    /// The access token of every account.
    pub const TOKEN: &str = "account-token-canary";

    pub(super) fn set_store(&self, grants: Arc<dyn GrantStore>) {
        self.0.get_or_init(|| grants);
    }

    async fn grant(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<Credential>, CredentialRefusal> {
        let CredentialCaller { tenant, principal, makers, .. } = caller;
        let CredentialNeed::Account { source, account, destination } = need else {
            return Ok(None);
        };
        let place = GrantPlace { owner: account.owner(tenant, principal), source: source.clone() };
        let grants = self.0.get().unwrap();
        let refused = |problem, grant: Option<&AccountGrant>| CredentialRefusal {
            cause: RefusalCause::Credential(problem),
            id: grant.map(|grant| grant.id.clone()),
            destination: destination.clone(),
        };
        let found = match grants.get(&place, Utc::now()).await {
            Err(CredentialStoreError::OtherKey(_)) => {
                return Err(refused(CredentialProblem::OtherKey, None));
            }
            found => found.unwrap().map(|(grant, _)| grant),
        };
        let refused = |problem| refused(problem, found.as_ref());
        match &found {
            None => Err(refused(CredentialProblem::NotConnected)),
            Some(grant) if makers.is_some_and(|makers| !grant.is_for(makers)) => {
                Err(refused(CredentialProblem::OtherMakers))
            }
            Some(grant) if grant.terms.state == GrantState::NeedsConsent => {
                Err(refused(CredentialProblem::NeedsConsent))
            }
            Some(grant) => Ok(Some(Credential {
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
            })),
        }
    }
}

fn resolved(credential: Credential) -> Arc<ResolvedCredential> {
    let value = Secret::new(TestAccounts::TOKEN.to_owned());
    let token = Some(Arc::new(AccessToken::new(value.clone())));
    let material = Material { value, client_secret: None };
    Arc::new(ResolvedCredential { credential, material, token })
}

fn found(credential: Credential) -> FoundCredential {
    FoundCredential { id: credential.id, owner: credential.owner }
}

#[async_trait]
impl CredentialResolver for TestAccounts {
    async fn resolve(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<Arc<ResolvedCredential>>, CredentialRefusal> {
        Ok(self.grant(need, caller).await?.map(resolved))
    }

    async fn find(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<FoundCredential>, CredentialRefusal> {
        Ok(self.grant(need, caller).await?.map(found))
    }
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

#[async_trait]
impl AccountConnector for TestAccounts {
    async fn preview(
        &self,
        _: &SourceSpec,
        _: &GrantPlace,
        _: Option<&AccountGrant>,
    ) -> Result<Prospect, AccountError> {
        Ok(Prospect {
            issuer: "https://id.example".to_owned(),
            authorization: "https://id.example/authorize".to_owned(),
            token: "https://id.example/token".to_owned(),
            scopes: oauth2().scopes,
            earlier_issuer: None,
        })
    }

    async fn begin(&self, request: ConnectRequest<'_>) -> Result<BegunAuthorization, AccountError> {
        let pending = PendingAuthorization {
            state: PendingAuthorization::hash(request.state),
            id: request.id,
            place: request.place,
            terms: PendingTerms {
                issuer: "https://id.example".to_owned(),
                redirect_uri: request.redirect_uri.to_owned(),
                oauth2: oauth2(),
                names_issuer: false,
                revocation_url: None,
                principal: request.principal,
                browser: request.browser,
            },
            created_at: request.expires_at - Duration::minutes(10),
            expires_at: request.expires_at,
        };
        Ok(BegunAuthorization {
            address: format!("https://id.example/authorize?state={}", request.state.expose()),
            pending,
            verifier: Secret::new("account-verifier-canary".to_owned()),
        })
    }

    async fn finish(
        &self,
        _: &SourceSpec,
        _: &PendingAuthorization,
        _: &Secret,
        response: &AuthorizationResponse,
    ) -> Result<(GrantTerms, GrantSecrets), AccountError> {
        match (&response.error, &response.code) {
            (Some(_), _) => Err(AccountError::Refused("access_denied")),
            (None, Some(code)) if code.expose() == Self::CODE => Ok((
                GrantTerms {
                    issuer: "https://id.example".to_owned(),
                    oauth2: oauth2(),
                    audiences: vec!["notes.example".parse().unwrap()],
                    account: Some("someone at the service".to_owned()),
                    state: GrantState::Active,
                    token_expires_at: None,
                    missing_scopes: Vec::new(),
                    withheld_scopes: Vec::new(),
                    revocation_url: None,
                    makers: Vec::new(),
                },
                GrantSecrets {
                    access_token: Some(Secret::new(Self::TOKEN.to_owned())),
                    ..GrantSecrets::default()
                },
            )),
            _ => Err(AccountError::NotOurs),
        }
    }

    async fn revoke(&self, _: &AccountGrant, _: &GrantSecrets) -> bool {
        true
    }
}
