//! `[approvals]` and `approval_when`, as in the file.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::config::file::Value;
use crate::config::kinds;

/// Consent of people to single calls ([guide](../guides/approvals.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Approvals {
    /// Time that a call itself waits for the answer.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "0s"))]
    pub(in crate::config) wait: Option<Spanned<String>>,
    /// Time for an answer, and then the lifetime of a grant.
    #[schemars(with = "Option<kinds::Duration>", extend("default" = "15m"))]
    pub(in crate::config) timeout: Option<Spanned<String>>,
    /// Number of consents, 1 to 32.
    #[schemars(with = "Option<u32>", extend("default" = 1))]
    pub(in crate::config) quorum: Option<Spanned<u32>>,
    /// Scope that an approver needs.
    #[schemars(with = "Option<String>", extend("default" = "approvals:respond"))]
    pub(in crate::config) respond_scope: Option<Spanned<String>>,
    /// Approvers see the redacted arguments; requires `[store] seal_key`.
    #[schemars(with = "bool", extend("default" = false))]
    pub(in crate::config) show_arguments: bool,
    /// Address of the page for approvers; `#approval=ID` is appended.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) url: Option<Spanned<String>>,
    /// Receivers of changes.
    #[schemars(with = "Vec<Webhook>", extend("x-default" = "none"))]
    pub(in crate::config) webhook: Vec<Webhook>,
}

/// A receiver of every change of an approval
/// ([guide](../guides/approvals.md#notify-approvers-in-a-chat)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Webhook {
    /// Its address.
    #[schemars(with = "String")]
    pub(in crate::config) url: Spanned<String>,
    /// Secret of at least 24 bytes that signs the requests.
    #[schemars(with = "kinds::Secret")]
    pub(in crate::config) secret: Spanned<Value>,
    /// The only tenant whose approvals it receives.
    #[schemars(with = "Option<String>", extend("x-default" = "all"))]
    pub(in crate::config) tenant: Option<Spanned<String>>,
    /// Private networks, addresses and hosts that it may use.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    #[serde(default)]
    pub(in crate::config) allow: Vec<Spanned<String>>,
}

/// Conditions of `approval = "conditional"`; one that holds is enough.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct ApprovalWhen {
    /// Tiers of tools.
    #[schemars(with = "Vec<String>", extend("x-default" = "none"))]
    pub(in crate::config) tiers: Vec<Spanned<String>>,
    /// Conditions on single arguments.
    #[schemars(with = "Vec<ArgumentRule>", extend("x-default" = "none"))]
    pub(in crate::config) arguments: Vec<Spanned<ArgumentRule>>,
}

/// A condition on one argument: exactly one of `equals`, `matches` and `above`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct ArgumentRule {
    /// JSON pointer of the argument.
    #[schemars(with = "String")]
    pub(in crate::config) pointer: String,
    /// The argument has this value.
    #[schemars(with = "Option<kinds::Any>", extend("x-default" = "none"))]
    pub(in crate::config) equals: Option<toml::Value>,
    /// The argument matches this regular expression.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) matches: Option<String>,
    /// The argument is above this number.
    #[schemars(with = "Option<f64>", extend("x-default" = "none"))]
    pub(in crate::config) above: Option<f64>,
}
