//! Calls of a process that was stopped between their authorization and their start (I-110, I-111).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use chrono::Utc;
use parking_lot::Mutex;
use serde_json::json;
use toolcrib_core::{
    call::{CallError, UpstreamErrorKind},
    clock::{Clock, Timestamp},
    event::{EventBody, EventLog, EventQuery, LoggedEvent, NewEvent},
    id::{KeyId, PrincipalId, TenantId},
    scope::Grant,
    source::SourceFactory,
    store::{KeyStore, StoreError},
};
use toolcrib_gateway::{
    GatewayBuilder,
    authn::{KeyRequest, new_key},
};
use toolcrib_store::{MemoryLog, MemoryStorage};

use crate::support::{Factory, Log, Rig, offer, one_source, parse, recorded};

/// A clock that tests move on.
#[derive(Default)]
struct Moved(AtomicU64);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Utc::now()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What happens while the process is stopped, before an append returns.
enum Pause {
    None,
    /// Another process revokes a key.
    Revoked(Arc<dyn KeyStore>, KeyId),
    /// Another server closes the call.
    Closed,
}

struct Pausing {
    log: MemoryLog,
    clock: Arc<Moved>,
    pause: Arc<Mutex<Pause>>,
}

#[async_trait]
impl EventLog for Pausing {
    async fn append(&self, events: &[NewEvent]) -> Result<Vec<u64>, StoreError> {
        let opens = events.iter().any(|it| matches!(it.body, EventBody::ToolCalled(_)));
        let ends = events.iter().any(|it| matches!(it.body, EventBody::ToolReturned(_)));
        let mut revoked = None;
        match &*self.pause.lock() {
            Pause::Revoked(keys, id) if opens => revoked = Some((Arc::clone(keys), id.clone())),
            Pause::Closed if ends => return Err(StoreError::TakenOver),
            _ => {}
        }
        let stored = self.log.append(events).await;
        if let Some((keys, id)) = revoked {
            keys.revoke(&id, Utc::now()).await.unwrap();
            self.clock.0.fetch_add(8_000_000_000, Ordering::SeqCst);
        }
        stored
    }

    async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        self.log.read(query).await
    }

    async fn at(&self, positions: &[u64]) -> Result<Vec<LoggedEvent>, StoreError> {
        self.log.at(positions).await
    }
}

async fn start() -> (Rig, Arc<Mutex<Pause>>, MemoryLog) {
    let (log, clock, pause) =
        (MemoryLog::default(), Arc::new(Moved::default()), Arc::new(Mutex::new(Pause::None)));
    let pausing =
        Pausing { log: log.clone(), clock: Arc::clone(&clock), pause: Arc::clone(&pause) };
    let factory = Arc::new(Factory::default());
    *factory.offers.lock() = Some(Ok(offer(&["echo"])));
    let storage = MemoryStorage::with_events(pausing);
    let keys = Arc::clone(&storage.keys);
    let sources = Arc::clone(&factory) as Arc<dyn SourceFactory>;
    let builder = GatewayBuilder::new(parse(&one_source("")), Arc::new(storage), sources);
    let gateway = builder.clock(clock as Arc<dyn Clock>).start().await.unwrap();
    gateway.supply().settle(Duration::from_secs(10)).await;
    let rig = Rig { gateway, log: Log::default(), keys, catalogs: Default::default(), factory };
    (rig, pause, log)
}

fn events(log: &MemoryLog) -> Vec<String> {
    log.events().iter().map(|logged| recorded(&logged.event.body)).collect()
}

/// I-110: a call that was recorded before a pause does not run with a key that was revoked meanwhile.
#[tokio::test]
async fn a_call_is_authorized_again_when_it_starts_late() {
    let (rig, pause, log) = start().await;
    let request = KeyRequest {
        name: "ann".to_owned(),
        tenant: TenantId::parse("t").unwrap(),
        principal: PrincipalId::parse("ann").unwrap(),
        roles: Vec::new(),
        scopes: vec![Grant::parse("tools:s").unwrap()],
        expires_at: None,
    };
    let key = new_key(request, Utc::now()).unwrap();
    rig.keys.insert(key.record.clone()).await.unwrap();
    rig.gateway.authenticator().refresh().await;
    let ann = rig.gateway.authenticator().authenticate(key.text.expose()).unwrap();
    assert!(rig.call(&ann, "s__echo", json!({})).await.result.is_ok());

    *pause.lock() = Pause::Revoked(Arc::clone(&rig.keys), key.record.id.clone());
    let late = rig.call(&ann, "s__echo", json!({})).await;
    assert!(matches!(late.result, Err(CallError::NoSuchTool)), "{late:?}");
    assert_eq!(late.duration, None, "it did not run");
    let events = events(&log);
    assert_eq!(events.len(), 4, "{events:?}");
    assert!(!events[3].contains("ran"), "{events:?}");
}

/// I-111: the answer says what the record says.
#[tokio::test]
async fn a_call_that_another_server_closed_is_no_success() {
    let (rig, pause, log) = start().await;
    let who = crate::support::principal("t", &["tools:s"]);
    assert!(rig.call(&who, "s__echo", json!({})).await.result.is_ok());
    *pause.lock() = Pause::Closed;
    let ended = rig.call(&who, "s__echo", json!({})).await;
    match ended.result {
        Err(CallError::Upstream(error)) => assert_eq!(error.kind, UpstreamErrorKind::Interrupted),
        other => panic!("{other:?}"),
    }
    assert_eq!(events(&log).len(), 3, "the end is the other server's");
}
