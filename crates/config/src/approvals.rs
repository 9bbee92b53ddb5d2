//! `[approvals]` and `approval_when`: the approvers of calls, their time limits, and the conditions
//! of approval.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use sha2::{Digest as _, Sha256};
use toml::Spanned;
use toolcrib_core::{
    approval::{ArgumentRule, Condition, Consent, Test, request::MAX_VOTES},
    credential::Secret,
    descriptor::SafetyTier,
    egress::AllowList,
    hex,
    id::TenantId,
    scope::Scope,
    source::{HttpSpec, SecretValue},
};
use url::Url;

use super::{
    resolver::{Resolver, check_url, has_user},
    secret::Value,
    tokens::check_tenant,
    units::{self as kind, Kind as _},
};

/// Memory limit of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// Consent of people to single calls ([guide](../guides/approvals.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Approvals {
    /// Time that a call itself waits for the answer.
    #[serde(with = "kind::Wait")]
    wait: Duration,
    /// Time for an answer, and then the lifetime of a grant.
    #[serde(with = "kind::Duration")]
    timeout: Duration,
    /// Number of consents, 1 to 32.
    #[serde(deserialize_with = "quorum")]
    quorum: NonZeroU32,
    /// Scope that an approver needs.
    respond_scope: Scope,
    /// Approvers see the redacted arguments; requires `[store] seal_key`.
    show_arguments: bool,
    /// Address of the page for approvers; `#approval=ID` is appended.
    url: Option<String>,
    /// Receivers of changes.
    #[schemars(with = "Vec<Webhook>")]
    webhook: Vec<Spanned<Webhook>>,
}

/// A receiver of every change of an approval
/// ([guide](../guides/approvals.md#notify-approvers-in-a-chat)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Webhook {
    /// Its address.
    url: String,
    /// Secret of at least 24 bytes that signs the requests.
    secret: Value,
    /// The only tenant whose approvals it receives.
    #[schemars(extend("x-default" = "all"))]
    tenant: Option<TenantId>,
    /// Private networks, addresses and hosts that it may use.
    #[serde(default)]
    allow: AllowList,
}

/// Conditions of `approval = "conditional"`; one match is enough.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ApprovalWhen {
    /// Tiers of tools.
    tiers: Vec<SafetyTier>,
    /// Conditions on single arguments.
    #[serde(deserialize_with = "argument_rules")]
    #[schemars(with = "Vec<ArgumentTest>")]
    arguments: Vec<ArgumentRule>,
}

/// A condition on one argument: exactly one of `equals`, `matches` and `above`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArgumentTest {
    /// JSON pointer of the argument.
    pointer: String,
    /// The argument has this value.
    #[schemars(with = "Option<kind::AnyValue>")]
    equals: Option<toml::Value>,
    /// The argument matches this regular expression.
    matches: Option<String>,
    /// The argument is above this number.
    above: Option<f64>,
}

/// Approval of calls.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ApprovalsConfig {
    /// How long a call waits for an approval before its caller must retry.
    pub wait: Duration,
    /// How long approvers have to respond, and then the lifetime of a grant.
    pub timeout: Duration,
    /// Number of required approvals.
    pub quorum: NonZeroU32,
    /// The scope that an approver must have.
    pub respond_scope: Scope,
    /// Whether approvers see the redacted arguments; requires a seal key.
    pub show_arguments: bool,
    /// The address of the page for approvers; the approval's id is appended.
    pub url: Option<String>,
    /// External receivers of changes.
    pub webhooks: Vec<WebhookConfig>,
}

impl ApprovalsConfig {
    /// The scope that an approver of a tool with `consent` must have.
    pub fn required_scope<'c>(&'c self, consent: &'c Consent) -> &'c Scope {
        consent.scope.as_ref().unwrap_or(&self.respond_scope)
    }

    /// The number of approvals that a tool with `consent` requires.
    pub fn required_quorum(&self, consent: &Consent) -> NonZeroU32 {
        consent.quorum.unwrap_or(self.quorum)
    }
}

/// An external receiver of changes of approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// Its address.
    pub http: HttpSpec,
    /// The secret that signs requests.
    pub secret: SecretValue,
    /// The tenant whose approvals it receives; `None` for all.
    pub tenant: Option<TenantId>,
}

impl Default for Approvals {
    fn default() -> Self {
        Self {
            wait: Duration::ZERO,
            timeout: Duration::from_secs(15 * 60),
            quorum: NonZeroU32::MIN,
            respond_scope: Scope::declared("approvals:respond"),
            show_arguments: false,
            url: None,
            webhook: Vec::new(),
        }
    }
}

impl WebhookConfig {
    /// Shortest key, in bytes.
    pub(crate) const MIN_KEY: usize = 24;

    /// The name under which the webhook's progress is stored. A new address starts new progress; a
    /// new secret keeps it.
    pub fn reader(&self) -> String {
        let digest = Sha256::digest(self.http.url.as_bytes());
        let short = hex::encode(digest.split_at(16).0);
        let tenant = self.tenant.as_ref().map(TenantId::as_str).unwrap_or_default();
        format!("webhook {short} {tenant}")
    }

    /// The signing key: the decoded Base64 after `whsec_`, or the text itself.
    pub fn key(&self) -> Vec<u8> {
        key_of(&self.secret.0).unwrap_or_default()
    }
}

/// Decodes the key in `secret`; `None` if its Base64 is invalid.
fn key_of(secret: &Secret) -> Option<Vec<u8>> {
    let text = secret.expose();
    match text.strip_prefix("whsec_") {
        Some(encoded) => STANDARD.decode(encoded).ok(),
        None => Some(text.as_bytes().to_vec()),
    }
}

impl Resolver<'_> {
    pub(super) fn approvals(&mut self, typed: Approvals) -> ApprovalsConfig {
        let url = typed.url.as_deref().map(web_address).transpose();
        let url = self.check("approvals.url", url).flatten();
        let mut webhooks: Vec<WebhookConfig> = Vec::new();
        for webhook in typed.webhook {
            let key = self.element("approvals.webhook", &webhook.span());
            let Some(webhook) = self.webhook(&key, webhook.into_inner()) else { continue };
            if webhooks.iter().any(|other| other.reader() == webhook.reader()) {
                self.complain(&format!("{key}.url"), "is defined twice for the same tenant");
            }
            webhooks.push(webhook);
        }
        ApprovalsConfig {
            wait: typed.wait,
            timeout: typed.timeout,
            quorum: typed.quorum,
            respond_scope: typed.respond_scope,
            show_arguments: typed.show_arguments,
            url,
            webhooks,
        }
    }

    fn webhook(&mut self, key: &str, typed: Webhook) -> Option<WebhookConfig> {
        let url = self.check(&format!("{key}.url"), check_url(&typed.url));
        let tenant = typed.tenant.map(check_tenant).transpose();
        let tenant = self.check(&format!("{key}.tenant"), tenant);
        let key = format!("{key}.secret");
        let secret = self.secret(&key, &typed.secret)?;
        self.check(&key, check_key(&secret))?;
        let http = HttpSpec { url: url?, headers: BTreeMap::new(), allow: typed.allow };
        Some(WebhookConfig { http, secret: SecretValue(secret), tenant: tenant? })
    }
}

fn check_key(secret: &Secret) -> Result<(), String> {
    match key_of(secret).map(|key| key.len()) {
        None => Err("has no Base64 after `whsec_`".to_owned()),
        Some(length) if length < WebhookConfig::MIN_KEY => {
            Err(format!("is shorter than {} bytes", WebhookConfig::MIN_KEY))
        }
        Some(_) => Ok(()),
    }
}

/// Deserializes a number of approvals, also as `Some` of an optional field.
pub(super) fn quorum<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<NonZeroU32>,
{
    let number = NonZeroU32::new(u32::deserialize(deserializer)?);
    let number = number.filter(|number| number.get() as usize <= MAX_VOTES);
    let expected = || de::Error::custom(format!("expected a number from 1 to {MAX_VOTES}"));
    number.map(T::from).ok_or_else(expected)
}

/// Deserializes `approval_when`.
pub(super) fn condition<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Condition>, D::Error> {
    let ApprovalWhen { tiers, arguments } = ApprovalWhen::deserialize(d)?;
    if tiers.is_empty() && arguments.is_empty() {
        let message = "has no condition; add `tiers` or `arguments`, or use \"always\"";
        return Err(de::Error::custom(message));
    }
    Ok(Some(Condition { tiers, arguments }))
}

fn argument_rules<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<ArgumentRule>, D::Error> {
    let tests = Vec::<ArgumentTest>::deserialize(d)?;
    tests.into_iter().map(|test| argument_rule(test).map_err(de::Error::custom)).collect()
}

fn argument_rule(typed: ArgumentTest) -> Result<ArgumentRule, &'static str> {
    if !typed.pointer.starts_with('/') {
        return Err("`pointer` is a JSON pointer such as \"/amount\"");
    }
    let test = match (typed.equals, typed.matches, typed.above) {
        (Some(value), None, None) => {
            Test::Equals(serde_json::to_value(value).map_err(|_| "`equals` has no JSON form")?)
        }
        (None, Some(pattern), None) => Test::Matches(
            RegexBuilder::new(&pattern)
                .size_limit(MAX_PATTERN)
                .build()
                .map_err(|_| "`matches` is not a regular expression")?,
        ),
        (None, None, Some(bound)) if bound.is_finite() => Test::Above(bound),
        _ => return Err("expected exactly one of `equals`, `matches` and `above`"),
    };
    Ok(ArgumentRule { pointer: typed.pointer, test })
}

/// Validates an address for people: http or https.
fn web_address(text: &str) -> Result<String, &'static str> {
    let is_fine =
        |url: Url| matches!(url.scheme(), "http" | "https") && url.has_host() && !has_user(&url);
    match Url::parse(text).is_ok_and(is_fine) {
        true => Ok(text.to_owned()),
        false => Err("expected an address such as \"https://gate.example.com/approvals\""),
    }
}
