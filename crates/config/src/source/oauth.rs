//! The accounts of a source: `[source.oauth]`.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib_core::{
    catalog::Tenants,
    credential::{
        AccountOf, AccountSpec, ClientAuth, PresetClient, PresetEndpoints, ResourceParameter,
        TokenExchange,
    },
    egress::AllowList,
    source::SecretValue,
};
use toolcrib_oauth::{authorization::is_reserved, metadata::is_private_enough, scopes::is_scope};
use url::Url;

use crate::{
    resolver::{Resolver, check_url},
    secret::Value,
};

/// The most bytes of the words for a scope.
const MAX_TEXT: usize = 200;

/// Accounts that people connect to the service of a source ([guide](../guides/accounts.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Accounts {
    /// Whose account a call uses: the caller's own, or one of the tenant for all its callers.
    of: AccountOf,
    /// Scopes to request, and the most that the service can require.
    #[serde(default)]
    #[schemars(extend("x-default" = "those that the service names, at most 64"))]
    scopes: Vec<String>,
    /// What scopes mean, in words for the person who connects an account, such as
    /// `{ "repo" = "read and write your code" }`.
    #[serde(default)]
    scope_texts: BTreeMap<String, String>,
    /// Id of the client that you registered at the service.
    #[serde(default)]
    #[schemars(extend("x-default" = "toolcrib registers itself"))]
    client_id: Option<String>,
    /// Secret of this client.
    #[serde(default)]
    client_secret: Option<Value>,
    /// How the client sends its secret.
    #[serde(default)]
    client_auth: SecretAuth,
    /// The authorization server, for a service that does not name it, or names another one than the
    /// one where its accounts are connected.
    #[serde(default)]
    issuer: Option<String>,
    /// Authorization endpoint, for a service without metadata; with `token_url`.
    #[serde(default)]
    authorization_url: Option<String>,
    /// Token endpoint, for a service without metadata.
    #[serde(default)]
    token_url: Option<String>,
    /// Revocation endpoint, for a service without metadata.
    #[serde(default)]
    revocation_url: Option<String>,
    /// The parameter `resource` of requests (RFC 8707); `""` leaves it out.
    #[serde(default)]
    #[schemars(extend("x-default" = "the resource that the service names"))]
    resource: Option<String>,
    /// `unannounced` also uses a service whose metadata does not announce PKCE. PKCE is always sent.
    #[serde(default)]
    pkce: Pkce,
    /// Further parameters of the authorization request, such as `access_type`.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    /// How the token of a caller is exchanged for a token of the service. Callers with a token of
    /// an issuer connect no account then. Needs `of = "principal"`, a client and both endpoints.
    #[serde(default)]
    exchange: Option<Exchange>,
    /// Name of the service at the authorization server, for `exchange = "token-exchange"`.
    #[serde(default)]
    audience: Option<String>,
    /// Text between the scopes.
    #[serde(default = "blank")]
    scope_separator: String,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SecretAuth {
    /// In the header `Authorization`.
    #[default]
    Basic,
    /// In the form.
    Post,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Pkce {
    /// The metadata must announce it.
    #[default]
    Announced,
    /// The metadata may leave it out.
    Unannounced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Exchange {
    /// RFC 8693.
    TokenExchange,
    /// The flow of Microsoft Entra ID.
    OnBehalfOf,
}

fn blank() -> String {
    " ".to_owned()
}

impl Resolver<'_> {
    /// Resolves the accounts of a source. They are those of one tenant, whose own account discovers
    /// the tools.
    pub(super) fn accounts(
        &mut self,
        source: &str,
        typed: Accounts,
        tenants: &Tenants,
    ) -> Option<Arc<AccountSpec>> {
        let key = |member: &str| format!("{source}.oauth.{member}");
        let before = self.problems.len();
        let message = "the accounts of a source are those of one tenant: say which with \
                       `tenants = [\"…\"]`";
        let tenant = self.only_tenant(&format!("{source}.oauth"), tenants, message);
        if let Some(bad) = typed.scopes.iter().find(|scope| !is_scope(scope)) {
            self.complain(&key("scopes"), format!("{bad:?} is not a scope"));
        }
        self.check_texts(&key("scope_texts"), &typed);
        let client = self.preset_client(&key, &typed);
        let endpoints = self.preset_endpoints(&key, &typed);
        if let Some(issuer) = &typed.issuer {
            self.check(&key("issuer"), private_url(issuer));
            if endpoints.is_some() {
                let message = "`authorization_url` and `token_url` replace the issuer; give either";
                self.complain(&key("issuer"), message);
            }
        }
        let names_server = typed.issuer.is_some() || endpoints.is_some();
        if client.as_ref().is_some_and(|client| client.secret.is_some()) && !names_server {
            let message = "say which authorization server gets it: give `issuer`, or \
                           `authorization_url` and `token_url`; otherwise the service decides";
            self.complain(&key("client_secret"), message);
        }
        for name in typed.parameters.keys().filter(|name| is_reserved(name)) {
            self.complain(&key("parameters"), format!("`{name}` is set by the protocol itself"));
        }
        if !matches!(typed.scope_separator.as_str(), " " | "," | "+") {
            self.complain(&key("scope_separator"), "expected \" \", \",\" or \"+\"");
        }
        let exchange = self.exchange(&key, &typed);
        let resource = match typed.resource {
            None => ResourceParameter::OfServer,
            Some(text) if text.is_empty() => ResourceParameter::Omitted,
            Some(text) => {
                let is_resource = Url::parse(&text).is_ok_and(|url| url.fragment().is_none());
                if !is_resource {
                    let message = "expected an address without a fragment, or \"\"";
                    self.complain(&key("resource"), message);
                }
                ResourceParameter::Given(text)
            }
        };
        if self.problems.len() > before {
            return None;
        }
        Some(Arc::new(AccountSpec {
            of: typed.of,
            tenant: tenant?,
            scopes: typed.scopes,
            scope_texts: typed.scope_texts,
            client,
            issuer: typed.issuer,
            endpoints,
            resource,
            trusts_unannounced_pkce: typed.pkce == Pkce::Unannounced,
            parameters: typed.parameters.into_iter().collect(),
            scope_separator: typed.scope_separator,
            exchange,
        }))
    }

    fn check_texts(&mut self, key: &str, typed: &Accounts) {
        for (scope, text) in &typed.scope_texts {
            if !is_scope(scope) || !(typed.scopes.is_empty() || typed.scopes.contains(scope)) {
                self.complain(key, format!("{scope:?} is not one of `scopes`"));
            }
            if text.is_empty() || text.len() > MAX_TEXT || text.chars().any(char::is_control) {
                let message = format!("expected a line of at most {MAX_TEXT} bytes for {scope:?}");
                self.complain(key, message);
            }
        }
    }

    fn exchange(
        &mut self,
        key: &impl Fn(&str) -> String,
        typed: &Accounts,
    ) -> Option<TokenExchange> {
        let Some(exchange) = typed.exchange else {
            if typed.audience.is_some() {
                let message = "is for `exchange = \"token-exchange\"`";
                self.complain(&key("audience"), message);
            }
            return None;
        };
        if typed.of != AccountOf::Principal {
            let message = "the token of a caller is exchanged with `of = \"principal\"` only";
            self.complain(&key("exchange"), message);
        }
        if typed.client_id.is_none() || typed.token_url.is_none() {
            let message = "needs `client_id`, `authorization_url` and `token_url`";
            self.complain(&key("exchange"), message);
        }
        let audience = typed.audience.clone();
        if audience.as_ref().is_some_and(|it| it.is_empty() || it.chars().any(char::is_control)) {
            self.complain(&key("audience"), "expected a name without control characters");
        }
        Some(match exchange {
            Exchange::TokenExchange => TokenExchange::Standard { audience },
            Exchange::OnBehalfOf => {
                if audience.is_some() {
                    let message = "is for `exchange = \"token-exchange\"`";
                    self.complain(&key("audience"), message);
                }
                TokenExchange::OnBehalfOf
            }
        })
    }

    fn preset_client(
        &mut self,
        key: &impl Fn(&str) -> String,
        typed: &Accounts,
    ) -> Option<PresetClient> {
        let secret = typed.client_secret.as_ref();
        let secret = secret.and_then(|secret| self.secret(&key("client_secret"), secret));
        let Some(id) = typed.client_id.clone() else {
            if typed.client_secret.is_some() {
                self.complain(&key("client_secret"), "is that of a client: give its `client_id`");
            }
            return None;
        };
        if id.is_empty() || id.chars().any(char::is_control) {
            self.complain(&key("client_id"), "expected the id of a client");
        }
        let auth = match (&secret, typed.client_auth) {
            (None, _) => ClientAuth::None,
            (Some(_), SecretAuth::Basic) => ClientAuth::Basic,
            (Some(_), SecretAuth::Post) => ClientAuth::Post,
        };
        Some(PresetClient { id, secret: secret.map(SecretValue), auth })
    }

    fn preset_endpoints(
        &mut self,
        key: &impl Fn(&str) -> String,
        typed: &Accounts,
    ) -> Option<PresetEndpoints> {
        let Accounts { authorization_url, token_url, revocation_url, .. } = typed;
        for (member, url) in [
            ("authorization_url", authorization_url),
            ("token_url", token_url),
            ("revocation_url", revocation_url),
        ] {
            let checked = url.as_deref().map(private_url).transpose();
            self.check(&key(member), checked);
        }
        match (authorization_url.clone(), token_url.clone()) {
            (Some(authorization), Some(token)) => {
                if typed.client_id.is_none() {
                    let message = "a service without metadata registers no clients: give the id of \
                                   the client that you registered there";
                    self.complain(&key("client_id"), message);
                }
                let revocation = revocation_url.clone();
                Some(PresetEndpoints { authorization, token, revocation })
            }
            (None, None) => {
                if revocation_url.is_some() {
                    let message = "give `authorization_url` and `token_url` too";
                    self.complain(&key("revocation_url"), message);
                }
                None
            }
            _ => {
                let message = "`authorization_url` and `token_url` belong together";
                self.complain(&key("token_url"), message);
                None
            }
        }
    }
}

/// Checks an address that receives secrets: `https`, or `http` to this machine.
fn private_url(text: &str) -> Result<(), String> {
    check_url(text)?;
    match Url::parse(text) {
        Ok(url) if url.fragment().is_some() => Err("must not have a fragment".to_owned()),
        Ok(url) if is_private_enough(&url, &AllowList::default()) => Ok(()),
        _ => Err("expected an https address".to_owned()),
    }
}
