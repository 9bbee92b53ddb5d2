//! The part of a source that its form resolves: the upstream, its pins and its credential.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_core::{
    catalog::Tenants,
    credential::{AccountSpec, CredentialRef},
    id::{CredentialName, TenantId},
    source::{SecretValue, UpstreamSpec},
};

use super::oauth::Accounts;
use crate::{places::member, resolver::Resolver, secret::Value};

/// The parts of a source that depend on its form.
pub(super) struct Upstream {
    /// `None` if it is invalid.
    pub(super) spec: Option<UpstreamSpec>,
    pub(super) pins: PinPolicy,
    pub(super) credential: Option<CredentialRef>,
    pub(super) account: Option<Arc<AccountSpec>>,
}

impl Upstream {
    /// Creates an upstream that the operator defines: without pins and credential.
    pub(super) fn own(spec: Option<UpstreamSpec>) -> Self {
        Self { spec, pins: PinPolicy::OFF, credential: None, account: None }
    }
}

/// Treatment of tools that differ from their approved form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinPolicy {
    /// The treatment of changed tools.
    pub mode: PinMode,
    /// The treatment of new tools.
    pub first: PinFirst,
}

/// The treatment of a tool that differs from its approved form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// It is hidden until its current form is approved, or until it matches its approved form
    /// again.
    #[default]
    Enforce,
    /// It is offered, reported and recorded.
    Warn,
    /// Pins are not checked.
    Off,
}

/// The treatment of a tool on its first discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PinFirst {
    /// It is approved automatically.
    #[default]
    Trust,
    /// It requires explicit approval.
    Approve,
}

impl PinPolicy {
    /// For sources that the operator defines.
    pub const OFF: Self = Self { mode: PinMode::Off, first: PinFirst::Trust };
}

impl Resolver<'_> {
    /// Resolves the environment of a child: the shared one, overridden by its own.
    pub(super) fn child_env(
        &mut self,
        key: &str,
        own: &BTreeMap<String, Value>,
    ) -> Option<BTreeMap<String, SecretValue>> {
        self.check_variables(key, own);
        let own = self.values(key, own)?;
        let mut env = self.shared_env.clone();
        env.extend(own);
        Some(env)
    }

    /// The one tenant of a source; reports `message` if there are others.
    pub(super) fn only_tenant(
        &mut self,
        key: &str,
        tenants: &Tenants,
        message: &str,
    ) -> Option<TenantId> {
        if let Tenants::Only(only) = tenants
            && let [tenant] = only.as_slice()
        {
            return Some(tenant.clone());
        }
        self.complain(key, message);
        None
    }

    /// Reports what would authorize requests in addition to the credential or the accounts.
    pub(super) fn check_authorization(
        &mut self,
        key: &str,
        credential: Option<&CredentialName>,
        accounts: Option<&Accounts>,
        headers: &BTreeMap<String, Value>,
    ) {
        let message = match (credential, accounts) {
            (_, Some(_)) => "the source has `oauth` accounts; both would authorize it",
            (Some(_), None) => "the source has a `credential`; both would authorize it",
            (None, None) => return,
        };
        if credential.is_some() && accounts.is_some() {
            self.complain(&format!("{key}.credential"), message);
        }
        let header = headers.keys().find(|name| name.eq_ignore_ascii_case("authorization"));
        if let Some(header) = header {
            self.complain(&member(&format!("{key}.headers"), header), message);
        }
    }
}
