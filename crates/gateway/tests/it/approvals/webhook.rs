//! External receivers: every change is delivered at least once and signed, without content of the
//! call.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use async_trait::async_trait;
use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolcrib_core::{
    approval::Verdict,
    record::{Delivery, DeliveryError, DeliveryFactory, Destination},
};

use super::{ASKS, approver, asking};
use crate::support::{eventually, one_source, parse};

/// A webhook whose secret is [`SECRET`], the value of `{ env = "LONG" }` in these tests.
const HOOK: &str = "[[approvals.webhook]]\nurl = \"https://hooks.example/in\"\n\
                    secret = { env = \"LONG\" }\n";
const SECRET: &str = "a-secret-of-twenty-four-bytes-or-more";

struct Sent {
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Sent {
    fn header(&self, name: &str) -> &str {
        &self.headers.iter().find(|(known, _)| *known == name).unwrap().1
    }
    fn recorded(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Accepts deliveries, or returns the next of `answers`.
#[derive(Clone, Default)]
struct Receiver {
    sent: Arc<Mutex<Vec<Sent>>>,
    answers: Arc<Mutex<VecDeque<DeliveryError>>>,
    built: Arc<Mutex<Vec<Destination>>>,
}

#[async_trait]
impl Delivery for Receiver {
    async fn deliver_with(
        &self,
        headers: &[(&'static str, String)],
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<(), DeliveryError> {
        assert_eq!(content_type, "application/json");
        let body = String::from_utf8(body).unwrap();
        self.sent.lock().push(Sent { headers: headers.to_vec(), body });
        self.answers.lock().pop_front().map_or(Ok(()), Err)
    }
}

impl DeliveryFactory for Receiver {
    fn build(&self, destination: &Destination) -> Result<Arc<dyn Delivery>, String> {
        self.built.lock().push(destination.clone());
        Ok(Arc::new(self.clone()))
    }
}

impl Receiver {
    fn recorded(&self) -> Vec<String> {
        let sent = self.sent.lock();
        sent.iter().map(|sent| sent.recorded()["type"].as_str().unwrap().to_owned()).collect()
    }
    fn number(&self) -> usize {
        self.sent.lock().len()
    }
}

/// I-66.
#[tokio::test]
async fn a_receiver_is_told_each_change_until_it_takes_it() {
    let rig = asking(HOOK, ASKS).await;
    let receiver = Receiver::default();
    // A change from before the first delivery is not delivered.
    rig.ask(json!({"n": 0})).await;
    receiver.answers.lock().extend([DeliveryError::Unreachable, DeliveryError::Status(503)]);
    rig.gateway.approvals().send_webhooks(Arc::new(receiver.clone()));
    eventually("the receiver is there", || receiver.built.lock().len() == 1).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let id = rig.ask(json!({"text": "canary"})).await;
    eventually("it is told a third time", || receiver.number() == 3).await;
    let comment = Some("canary".to_owned());
    rig.gateway.approvals().respond(&approver("bob"), &id, Verdict::Grant, comment).await.unwrap();
    eventually("it is told of the grant", || receiver.number() == 4).await;
    let pending = "approval.pending";
    assert_eq!(receiver.recorded(), [pending, pending, pending, "approval.granted"]);
    let sent = receiver.sent.lock();
    let ids: Vec<_> = sent.iter().map(|sent| sent.header("webhook-id")).collect();
    assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3], "{ids:?}");
    for sent in sent.iter() {
        let (id, at) = (sent.header("webhook-id"), sent.header("webhook-timestamp"));
        let tag = STANDARD.decode(sent.header("webhook-signature").strip_prefix("v1,").unwrap());
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let said = format!("{id}.{at}.{}", sent.body);
        hmac::verify(&key, said.as_bytes(), &tag.unwrap()).unwrap();
        assert!(!sent.body.contains("canary"), "{}", sent.body);
    }
    let recorded = sent[3].recorded();
    assert_eq!(recorded["data"]["approvalId"], id.as_str());
    assert_eq!(
        (&recorded["data"]["principal"], &recorded["data"]["granted"]),
        (&json!("ann"), &json!(1))
    );
}

/// A receiver can be limited to a tenant, and exists as long as the configuration names it.
#[tokio::test]
async fn receivers_follow_the_configuration() {
    let other = HOOK.to_owned() + "tenant = \"u\"\n";
    let rig = asking(&other, ASKS).await;
    let receiver = Receiver::default();
    rig.gateway.approvals().send_webhooks(Arc::new(receiver.clone()));
    eventually("the receiver is there", || receiver.built.lock().len() == 1).await;
    let apply = async |settings: &str| {
        let config = parse(&format!("{settings}\n{}", one_source(ASKS)));
        rig.gateway.apply(config).await.unwrap();
    };
    rig.ask(json!({"n": 1})).await;
    apply(HOOK).await;
    eventually("there is another", || receiver.built.lock().len() == 2).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(receiver.number(), 0, "nothing of another tenant, and nothing of before");
    rig.ask(json!({"n": 2})).await;
    eventually("it is told", || receiver.number() == 1).await;
    apply("").await;
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    rig.ask(json!({"n": 3})).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(receiver.number(), 1, "it is configured no more");
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), 0);
}
