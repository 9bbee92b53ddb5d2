//! `[gate]`, `[[role]]` and `[anonymous]`: the defaults of calls, and the rights of callers.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toolcrib_core::{
    id::TenantId,
    idempotency::KEPT_FOR,
    limit::Rate,
    principal::Principal,
    quota::Quota,
    scope::{Grant, ScopeSet},
};

use super::{
    resolver::Resolver,
    units::{self as kind, Kind as _},
};

const MAX_IDEMPOTENCY_TTL: Duration = Duration::from_secs(30 * 86_400);

/// Defaults for all tools; a rule of a source overrides `rate`, `burst` and `timeout`
/// ([limits](../guides/limits.md)).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct GateConfig {
    /// Calls of each principal and tool.
    #[serde(with = "kind::Rate")]
    pub rate: Option<Rate>,
    /// Calls that may come at once.
    #[schemars(extend("x-default" = "the number in `rate`"))]
    pub burst: Option<NonZeroU32>,
    /// Calls of each principal per UTC day.
    #[serde(with = "kind::Quota")]
    pub quota: Option<Quota>,
    /// Daily quotas by role.
    #[serde(skip)]
    pub role_quotas: BTreeMap<String, Option<Quota>>,
    /// Time for which the response to an [idempotent
    /// call](../explanation/protocols.md#idempotent-calls) is repeated.
    #[serde(with = "kind::Age")]
    #[schemars(with = "kind::Duration")]
    pub idempotency_ttl: Duration,
    /// Deadline of a call.
    #[serde(with = "kind::Duration")]
    pub timeout: Duration,
    /// Largest result.
    #[serde(rename = "max_result", with = "kind::Size")]
    pub max_result_bytes: usize,
    /// Answer to a call without the scope; `not_found` makes it equal to an unknown tool
    /// ([guide](../guides/teams.md#hide-denied-tools)).
    pub denied_calls: DeniedCalls,
}

/// The response to a call of a tool that the caller may not use. A foreign tenant's tool is always
/// "not found".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeniedCalls {
    /// 403 with the tool's name and scopes (RFC 0064 §C).
    Forbidden,
    /// The same response as for an unknown tool.
    NotFound,
}

/// A named list of scopes ([guide](../guides/teams.md#define-roles)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Role {
    /// The name.
    name: String,
    /// Scopes such as `files:read`; `*` is one segment, a trailing `*` the rest.
    scopes: Vec<Grant>,
    /// Calls per UTC day of principals with this role; of several roles, the most generous counts.
    #[serde(default, with = "kind::Quota")]
    #[schemars(extend("x-default" = "that of `[gate]`"))]
    quota: Option<Option<Quota>>,
}

/// Rights of callers without a key, on mounts that admit them
/// ([guide](../guides/teams.md#admit-callers-without-a-key)).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AnonymousConfig {
    /// Their tenant.
    pub tenant: TenantId,
    /// Their scopes.
    pub scopes: ScopeSet,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self {
            rate: Rate::parse("600/m").ok(),
            burst: None,
            quota: None,
            role_quotas: BTreeMap::new(),
            idempotency_ttl: KEPT_FOR,
            timeout: Duration::from_secs(300),
            max_result_bytes: 4 << 20,
            denied_calls: DeniedCalls::Forbidden,
        }
    }
}

impl GateConfig {
    /// Returns the quota of `principal` for a day: the most generous of its roles, or the general
    /// one if its roles set none.
    pub fn quota_of(&self, principal: &Principal) -> Option<Quota> {
        let of_roles = principal.roles.iter().filter_map(|role| self.role_quotas.get(role));
        match of_roles.copied().reduce(|one, other| Some(one?.max(other?))) {
            Some(quota) => quota,
            None => self.quota,
        }
    }
}

impl Resolver<'_> {
    pub(super) fn gate(&mut self, mut gate: GateConfig) -> GateConfig {
        if let Some(burst) = gate.burst {
            gate.rate = gate.rate.map(|rate| rate.with_burst(burst));
        }
        if gate.idempotency_ttl > MAX_IDEMPOTENCY_TTL {
            self.complain("gate.idempotency_ttl", "is more than 30 days");
        }
        gate
    }

    /// Resolves the grants of the roles, and adds their quotas to `quotas`.
    pub(super) fn roles(
        &mut self,
        typed: Vec<Spanned<Role>>,
        quotas: &mut BTreeMap<String, Option<Quota>>,
    ) -> BTreeMap<String, Vec<Grant>> {
        let mut roles = BTreeMap::new();
        for role in typed {
            let key = self.element("role", &role.span());
            let Role { name, scopes, quota } = role.into_inner();
            if name.is_empty() {
                self.complain(&format!("{key}.name"), "is empty");
            }
            quotas.extend(quota.map(|quota| (name.clone(), quota)));
            if roles.insert(name, scopes).is_some() {
                self.complain(&key, "is defined twice");
            }
        }
        roles
    }
}
