//! Webhooks: one signed `POST` to each receiver for every new or changed approval.
//!
//! Invariants (I-66):
//! - the cursor of a receiver moves after a delivery, so each change is delivered at least once; several
//!   changes of one approval may be delivered as one;
//! - each receiver has one page of approvals in memory and one request in flight, and never delays
//!   a call;
//! - arguments, comments and answers are never sent.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::DropGuard;
use toolcrib_config::WebhookConfig;
use toolcrib_core::{
    approval::{Approval, ApprovalQuery, ApprovalStore},
    record::{Delivery, DeliveryFactory, Destination},
    store::StoreError,
};
use toolcrib_tasks::Policy;

use super::{Approvals, render::present};
use crate::audit::DELIVERY_RETRY;

/// Approvals in one page.
const PAGE: usize = 100;
/// How often the receivers are compared with the configuration.
const CONFIG_INTERVAL: Duration = Duration::from_millis(500);
/// The pause after an error of the store.
const STORE_PAUSE: Duration = Duration::from_secs(2);
/// Interval at which a server checks whether the server that sends the webhook has died.
const LOOK_FOR_WORK: Duration = Duration::from_secs(5);
/// How long after the close of an approval its changes are retried.
const GIVE_UP_HOURS: i64 = 24;

impl Approvals {
    /// Sends approvals to the receivers of `[[approvals.webhook]]` until the gateway stops. Only
    /// for the serving process: every process that calls this sends all of them.
    pub fn send_webhooks(self: &Arc<Self>, deliveries: Arc<dyn DeliveryFactory>) {
        let Some(store) = self.store.clone() else { return };
        let approvals = Arc::clone(self);
        let running: Arc<Mutex<Vec<(WebhookConfig, DropGuard)>>> = Arc::default();
        self.services.background.every("webhooks", CONFIG_INTERVAL, move || {
            let (approvals, store) = (Arc::clone(&approvals), Arc::clone(&store));
            approvals.configure_receivers(&store, deliveries.as_ref(), &mut running.lock());
            std::future::ready(())
        });
    }

    /// Runs one receiver for each webhook of the configuration.
    fn configure_receivers(
        self: &Arc<Self>,
        store: &Arc<dyn ApprovalStore>,
        deliveries: &dyn DeliveryFactory,
        running: &mut Vec<(WebhookConfig, DropGuard)>,
    ) {
        let wanted = self.services.config().approvals.webhooks.clone();
        running.retain(|(config, _)| wanted.contains(config));
        for config in wanted {
            if running.iter().any(|(other, _)| *other == config) {
                continue;
            }
            match deliveries.build(&Destination::Http(config.http.clone())) {
                Ok(delivery) => {
                    let receiver = start(self, store, config.clone(), delivery);
                    running.push((config, receiver));
                }
                Err(problem) => tracing::error!(problem, "a webhook cannot be used"),
            }
        }
    }
}

/// Starts a receiver, which stops when the returned guard is dropped.
fn start(
    approvals: &Arc<Approvals>,
    store: &Arc<dyn ApprovalStore>,
    config: WebhookConfig,
    delivery: Arc<dyn Delivery>,
) -> DropGuard {
    let background = &approvals.services.background;
    let end = background.ended().child_token();
    let webhook = Arc::new(Webhook {
        reader: config.reader(),
        config,
        delivery,
        approvals: Arc::clone(approvals),
        store: Arc::clone(store),
    });
    let cancelled = end.clone();
    let run = move || {
        let (webhook, cancelled) = (Arc::clone(&webhook), cancelled.clone());
        async move {
            tokio::select! {
                () = webhook.run() => {}
                () = cancelled.cancelled() => {}
            }
        }
    };
    background.tasks().spawn("webhook", Policy::Forever, end.clone(), run);
    end.drop_guard()
}

struct Webhook {
    /// The name of its cursor in the store.
    reader: String,
    config: WebhookConfig,
    delivery: Arc<dyn Delivery>,
    approvals: Arc<Approvals>,
    store: Arc<dyn ApprovalStore>,
}

impl Webhook {
    async fn run(&self) {
        let mut changes = self.approvals.changes();
        let mut failures = 0_u64;
        loop {
            changes.mark_unchanged();
            let pause = match self.deliver_page(&mut failures).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "approvals cannot be read for a webhook");
                    Some(STORE_PAUSE)
                }
            };
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None if changes.changed().await.is_err() => return,
                None => {}
            }
        }
    }

    /// Delivers a page of changes. Returns the pause before the next page; `None` waits for a
    /// change.
    async fn deliver_page(&self, failures: &mut u64) -> Result<Option<Duration>, StoreError> {
        let store = &self.store;
        let duty = format!("webhook {}", self.reader);
        if !self.approvals.services.storage.leads(&duty).await? {
            return Ok(Some(LOOK_FOR_WORK));
        }
        let after = store.cursor(&self.reader).await?;
        let query =
            ApprovalQuery { changed_after: Some(after), limit: PAGE, ..ApprovalQuery::default() };
        let page = store.list(query).await?;
        let whole = page.len() >= PAGE;
        for approval in page {
            if !self.deliver(&approval, failures).await? {
                return Ok(Some(DELIVERY_RETRY.after(*failures)));
            }
        }
        Ok(whole.then_some(Duration::ZERO))
    }

    /// Delivers one change and moves the cursor; `false` if the delivery must be retried.
    async fn deliver(&self, approval: &Approval, failures: &mut u64) -> Result<bool, StoreError> {
        let now = self.approvals.services.now();
        let foreign = self.config.tenant.as_ref().is_some_and(|tenant| *tenant != approval.tenant);
        if !foreign {
            let config = self.approvals.services.config();
            let body = message(approval, config.approvals.url.as_deref()).to_string();
            let id = format!("{}-{}", approval.id, approval.change);
            let headers = self.signed(&id, now.timestamp(), &body);
            match self.delivery.deliver_with(&headers, "application/json", body.into()).await {
                Ok(()) => {
                    if *failures > 0 {
                        tracing::info!("a webhook receives approvals again");
                    }
                    *failures = 0;
                }
                Err(error) => {
                    let hopeless =
                        now - approval.expires_at > chrono::Duration::hours(GIVE_UP_HOURS);
                    if *failures == 0 || hopeless {
                        tracing::warn!(%error, hopeless, "an approval could not be sent to a webhook");
                    }
                    *failures += 1;
                    if !hopeless {
                        return Ok(false);
                    }
                }
            }
        }
        self.store.acknowledge(&self.reader, approval.change).await?;
        Ok(true)
    }

    /// The headers of Standard Webhooks: id, time and signature.
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

/// The body of a delivery.
fn message(approval: &Approval, base: Option<&str>) -> Value {
    let data = present(json!({
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
        "requiredRole": approval.role,
        "url": base.map(|base| super::link(base, &approval.id)),
    }));
    let at = approval.votes.last().map_or(approval.created_at, |vote| vote.at);
    let at = approval.decided_at.map_or(at, |decided| decided.max(at));
    json!({ "type": format!("approval.{}", approval.state.as_str()), "timestamp": at, "data": data })
}
