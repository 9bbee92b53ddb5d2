//! Tells receivers outside of approvals that are new or have changed: one signed `POST` for each.
//!
//! Invariants (I-66):
//! - a receiver is told of a change before its place in the store moves, so it is told at least once;
//!   what changes again meanwhile it is told once, as it is then;
//! - one page of approvals is all that is held in memory, one request at a time is under way for each
//!   receiver, and no call and no answer waits for any of it;
//! - nothing of arguments, comments or answers is sent.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    approval::{Approval, ApprovalQuery, ApprovalStore},
    record::{Delivery, DeliveryFactory, Destination},
    store::StoreError,
};
use toolcrib_tasks::Policy;

use crate::{Gateway, config::WebhookConfig, gateway::WeakGateway, keeper::backoff};

/// Approvals that are read at once.
const PAGE: usize = 100;
/// How often somebody looks whether the configuration names other receivers.
const LOOK: Duration = Duration::from_millis(500);
/// Pause after the store did not answer.
const STORE_PAUSE: Duration = Duration::from_secs(2);
/// A change whose approval ended so long ago is not tried again.
const GIVE_UP_HOURS: i64 = 24;

impl Gateway {
    /// Tells the receivers of `[[approvals.webhook]]` of approvals from now on, as long as the gateway
    /// is there. Only for the process that serves: each that does tells them all.
    pub fn send_webhooks(&self, deliveries: Arc<dyn DeliveryFactory>) {
        if self.approval_gate().store().is_none() {
            return;
        }
        let ended = self.ended().clone();
        self.spawn_forever("webhooks", move |weak| {
            follow(weak, ended.clone(), Arc::clone(&deliveries))
        });
    }
}

/// Keeps one receiver running for each webhook of the configuration.
async fn follow(weak: WeakGateway, ended: CancellationToken, deliveries: Arc<dyn DeliveryFactory>) {
    let mut running: Vec<(WebhookConfig, Running)> = Vec::new();
    loop {
        let Some(gateway) = weak.upgrade() else { return };
        let wanted = gateway.config().approvals.webhooks.clone();
        running.retain(|(config, _)| wanted.contains(config));
        for config in wanted {
            if running.iter().any(|(other, _)| *other == config) {
                continue;
            }
            match deliveries.build(&Destination::Http(config.http.clone())) {
                Ok(delivery) => {
                    let started = Running::start(&gateway, config.clone(), delivery);
                    running.push((config, started));
                }
                Err(problem) => tracing::error!(problem, "a webhook cannot be used"),
            }
        }
        drop(gateway);
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = ended.cancelled() => return,
        }
    }
}

/// One receiver that is told; ends when dropped.
struct Running {
    end: CancellationToken,
}

impl Running {
    fn start(gateway: &Gateway, config: WebhookConfig, delivery: Arc<dyn Delivery>) -> Self {
        let end = gateway.ended().child_token();
        let hook = Arc::new(Hook { reader: config.reader(), config, delivery });
        let (weak, cancelled) = (gateway.downgrade(), end.clone());
        let run = move || {
            let (hook, weak, cancelled) = (Arc::clone(&hook), weak.clone(), cancelled.clone());
            async move {
                tokio::select! {
                    () = hook.run(&weak) => {}
                    () = cancelled.cancelled() => {}
                }
            }
        };
        gateway.tasks().spawn("webhook", Policy::Forever, end.clone(), run);
        Self { end }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

struct Hook {
    /// Under which name the store keeps its place.
    reader: String,
    config: WebhookConfig,
    delivery: Arc<dyn Delivery>,
}

impl Hook {
    async fn run(&self, weak: &WeakGateway) {
        let Some(mut changes) = weak.upgrade().map(|gateway| gateway.approval_changes()) else {
            return;
        };
        let mut failures = 0_u64;
        loop {
            changes.mark_unchanged();
            let Some(gateway) = weak.upgrade() else { return };
            let pause = match self.round(&gateway, &mut failures).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "approvals cannot be read for a webhook");
                    Some(STORE_PAUSE)
                }
            };
            drop(gateway);
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None if changes.changed().await.is_err() => return,
                None => {}
            }
        }
    }

    /// Tells a page of changes; how long to wait for the next, `None`: until something changes.
    async fn round(
        &self,
        gateway: &Gateway,
        failures: &mut u64,
    ) -> Result<Option<Duration>, StoreError> {
        let Some(store) = gateway.approval_gate().store() else { return Ok(None) };
        let after = store.cursor(&self.reader).await?;
        let query =
            ApprovalQuery { changed_after: Some(after), limit: PAGE, ..ApprovalQuery::default() };
        let page = store.list(query).await?;
        let whole = page.len() >= PAGE;
        for approval in page {
            let told = self.tell(gateway, store.as_ref(), &approval, failures).await?;
            if !told {
                return Ok(Some(backoff::pause(*failures)));
            }
        }
        Ok(whole.then_some(Duration::ZERO))
    }

    /// Tells one change, and moves on; `false` when the receiver is to be tried again.
    async fn tell(
        &self,
        gateway: &Gateway,
        store: &dyn ApprovalStore,
        approval: &Approval,
        failures: &mut u64,
    ) -> Result<bool, StoreError> {
        let now = gateway.clock().now();
        let foreign = self.config.tenant.as_ref().is_some_and(|it| *it != approval.tenant);
        if !foreign {
            let body = message(approval, gateway.config().approvals.url.as_deref()).to_string();
            let id = format!("{}-{}", approval.id, approval.change);
            let headers = self.signed(&id, now.timestamp(), &body);
            match self.delivery.deliver_with(&headers, "application/json", body.into()).await {
                Ok(()) => {
                    if *failures > 0 {
                        tracing::info!("a webhook is told of approvals again");
                    }
                    *failures = 0;
                }
                Err(error) => {
                    let hopeless =
                        now - approval.expires_at > chrono::Duration::hours(GIVE_UP_HOURS);
                    if *failures == 0 || hopeless {
                        tracing::warn!(%error, hopeless, "a webhook is not told of an approval");
                    }
                    *failures += 1;
                    if !hopeless {
                        return Ok(false);
                    }
                }
            }
        }
        store.told(&self.reader, approval.change).await?;
        Ok(true)
    }

    /// The headers of Standard Webhooks: what was said, when, and that it was said by us.
    fn signed(&self, id: &str, at: i64, body: &str) -> Vec<(&'static str, String)> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.config.key());
        let tag = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
        vec![
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", format!("v1,{}", STANDARD.encode(tag))),
        ]
    }
}

/// What a receiver is told of an approval.
fn message(approval: &Approval, base: Option<&str>) -> Value {
    let mut data = json!({
        "approvalId": approval.id,
        "tenant": approval.tenant,
        "state": approval.state,
        "toolId": approval.tool_id,
        "principal": approval.principal,
        "runId": approval.run_id,
        "quorum": approval.quorum,
        "granted": approval.granted(),
        "requiredScope": approval.scope,
        "createdAt": approval.created_at,
        "expiresAt": approval.expires_at,
    });
    if let Some(data) = data.as_object_mut() {
        if let Some(role) = &approval.role {
            data.insert("requiredRole".to_owned(), json!(role));
        }
        if let Some(base) = base {
            data.insert("url".to_owned(), json!(super::link(base, &approval.id)));
        }
    }
    let at = approval.votes.last().map_or(approval.created_at, |vote| vote.at);
    let at = approval.decided_at.map_or(at, |decided| decided.max(at));
    json!({ "type": format!("approval.{}", approval.state.as_str()), "timestamp": at, "data": data })
}
