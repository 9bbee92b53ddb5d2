//! `[approvals]`, and the approval settings of rules.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use regex::RegexBuilder;
use toml::Spanned;
use toolcrib_core::{
    approval::{ArgumentRule, Condition, Consent, Test, request::MAX_VOTES},
    scope::Scope,
    source::{HttpSpec, SecretValue},
};
use url::Url;

use super::{Resolver, file, parse_duration, source::check_url, tokens::tenant};
use crate::config::{
    ApprovalsConfig, WebhookConfig,
    approvals::{key_of, typed},
};

/// Memory limit of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

impl Resolver<'_> {
    pub(super) fn approvals(&mut self, config: &mut ApprovalsConfig, typed: typed::Approvals) {
        let wait = |text: &str| match text {
            "0" | "0s" => Ok(Duration::ZERO),
            text => parse_duration(text),
        };
        if let Some(wait) = self.read("approvals.wait", typed.wait.as_ref(), wait) {
            config.wait = wait;
        }
        if let Some(timeout) =
            self.read("approvals.timeout", typed.timeout.as_ref(), parse_duration)
        {
            config.timeout = timeout;
        }
        if let Some(quorum) = self.quorum("approvals.quorum", typed.quorum.as_ref()) {
            config.quorum = quorum;
        }
        let scope = typed.respond_scope.as_ref();
        if let Some(scope) = self.read("approvals.respond_scope", scope, Scope::parse) {
            config.respond_scope = scope;
        }
        config.show_arguments = typed.show_arguments;
        config.url = self.read("approvals.url", typed.url.as_ref(), web_address);
        for webhook in &typed.webhook {
            let Some(read) = self.webhook(webhook) else { continue };
            if config.webhooks.iter().any(|other| other.reader() == read.reader()) {
                let message = "is defined twice for the same tenant";
                self.complain(webhook.url.span().start, "approvals.webhook.url", message);
            }
            config.webhooks.push(read);
        }
    }

    fn webhook(&mut self, typed: &typed::Webhook) -> Option<WebhookConfig> {
        let url = self.read("approvals.webhook.url", Some(&typed.url), check_url);
        let allow = self.allowed("approvals.webhook.allow", &typed.allow);
        let before = self.problems.len();
        let tenant = self.read("approvals.webhook.tenant", typed.tenant.as_ref(), tenant);
        let key = "approvals.webhook.secret";
        let at = typed.secret.span().start;
        let secret = self.secret(key, &typed.secret);
        if let Some(secret) = &secret {
            match key_of(secret).map(|key| key.len()) {
                None => self.complain(at, key, "has no Base64 after `whsec_`"),
                Some(length) if length < WebhookConfig::MIN_KEY => {
                    let words = format!("is shorter than {} bytes", WebhookConfig::MIN_KEY);
                    self.complain(at, key, words);
                }
                Some(_) => {}
            }
        }
        if self.problems.len() > before {
            return None;
        }
        let http = HttpSpec { url: url?, headers: BTreeMap::new(), allow: allow? };
        Some(WebhookConfig { http, secret: SecretValue(secret?), tenant })
    }

    fn quorum(&mut self, key: &str, typed: Option<&Spanned<u32>>) -> Option<NonZeroU32> {
        let typed = typed?;
        let number = NonZeroU32::new(*typed.get_ref());
        let number = number.filter(|number| number.get() as usize <= MAX_VOTES);
        if number.is_none() {
            let message = format!("expected a number from 1 to {MAX_VOTES}");
            self.complain(typed.span().start, key, message);
        }
        number
    }

    /// Resolves the approval settings of a rule.
    pub(super) fn consent(&mut self, key: &dyn Fn(&str) -> String, rule: &file::Tool) -> Consent {
        let role = self.read(&key("approval_role"), rule.approval_role.as_ref(), |text| match text
            .is_empty()
        {
            true => Err("is empty"),
            false => Ok(text.to_owned()),
        });
        Consent {
            when: rule
                .approval_when
                .as_ref()
                .map(|when| self.condition(&key("approval_when"), when)),
            quorum: self.quorum(&key("approval_quorum"), rule.approval_quorum.as_ref()),
            role,
            scope: self.read(&key("approval_scope"), rule.approval_scope.as_ref(), Scope::parse),
            by_parts: false,
        }
    }

    fn condition(&mut self, key: &str, typed: &Spanned<typed::ApprovalWhen>) -> Condition {
        let when = typed.get_ref();
        if when.tiers.is_empty() && when.arguments.is_empty() {
            let message = "has no condition; add `tiers` or `arguments`, or use \"always\"";
            self.complain(typed.span().start, key, message);
        }
        let tiers = when
            .tiers
            .iter()
            .filter_map(|tier| self.read(&format!("{key}.tiers"), Some(tier), str::parse));
        let tiers = tiers.collect();
        let mut arguments = Vec::new();
        for rule in &when.arguments {
            match argument_rule(rule.get_ref()) {
                Ok(rule) => arguments.push(rule),
                Err(message) => {
                    self.complain(rule.span().start, &format!("{key}.arguments"), message);
                }
            }
        }
        Condition { tiers, arguments }
    }
}

fn argument_rule(typed: &typed::ArgumentRule) -> Result<ArgumentRule, String> {
    if !typed.pointer.starts_with('/') {
        return Err("`pointer` is a JSON pointer such as \"/amount\"".to_owned());
    }
    let test = match (&typed.equals, &typed.matches, typed.above) {
        (Some(value), None, None) => Test::Equals(
            serde_json::to_value(value).map_err(|_| "`equals` has no JSON form".to_owned())?,
        ),
        (None, Some(pattern), None) => Test::Matches(
            RegexBuilder::new(pattern)
                .size_limit(MAX_PATTERN)
                .build()
                .map_err(|_| "`matches` is not a regular expression".to_owned())?,
        ),
        (None, None, Some(bound)) if bound.is_finite() => Test::Above(bound),
        _ => return Err("expected exactly one of `equals`, `matches` and `above`".to_owned()),
    };
    Ok(ArgumentRule { pointer: typed.pointer.clone(), test })
}

/// Validates an address for people: http or https.
fn web_address(text: &str) -> Result<String, String> {
    let wrong = || "expected an address such as \"https://gate.example.com/approvals\"".to_owned();
    let url = Url::parse(text).map_err(|_| wrong())?;
    let fine = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none();
    if fine { Ok(text.to_owned()) } else { Err(wrong()) }
}
