//! `[approvals]` and `approval_when` as they are typed.

use serde::Deserialize;
use toml::Spanned;

use crate::config::file::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Approvals {
    pub(in crate::config) wait: Option<Spanned<String>>,
    pub(in crate::config) timeout: Option<Spanned<String>>,
    pub(in crate::config) quorum: Option<Spanned<u32>>,
    pub(in crate::config) respond_scope: Option<Spanned<String>>,
    pub(in crate::config) show_arguments: bool,
    pub(in crate::config) url: Option<Spanned<String>>,
    pub(in crate::config) webhook: Vec<Webhook>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Webhook {
    pub(in crate::config) url: Spanned<String>,
    pub(in crate::config) secret: Spanned<Value>,
    pub(in crate::config) tenant: Option<Spanned<String>>,
    #[serde(default)]
    pub(in crate::config) allow: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct ApprovalWhen {
    pub(in crate::config) tiers: Vec<Spanned<String>>,
    pub(in crate::config) arguments: Vec<Spanned<ArgumentRule>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct ArgumentRule {
    pub(in crate::config) pointer: String,
    pub(in crate::config) equals: Option<toml::Value>,
    pub(in crate::config) matches: Option<String>,
    pub(in crate::config) above: Option<f64>,
}
