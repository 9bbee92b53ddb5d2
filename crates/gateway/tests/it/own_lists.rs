//! What a caller is offered of a source at which it has an account of its own.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::sync::Notify;
use toolcrib_core::{
    call::CallError,
    catalog::ListFormat,
    credential::{AccountGrant, GrantPlace, GrantSecrets, Owner},
    principal::{AuthMethod, Principal},
};
use toolcrib_store::MemoryCatalogs;

use crate::{
    connections::{PUBLIC, ann, bob, source, text},
    support::{Hand, Rig, Scripted, eventually, offer, rig_at},
};

const MINUTE: u64 = 60_000_000_000;

const ALL: [&str; 3] = ["mcp:s.echo", "mcp:s.extra", "mcp:s.keyed"];

const IDS: ListFormat = ListFormat {
    key: "test-ids",
    open: "[",
    close: "]",
    item: |entry, json| json.extend_from_slice(format!("{:?}", entry.id.as_str()).as_bytes()),
};

struct Stage {
    rig: Rig,
    source: Arc<Scripted>,
    clock: Arc<Hand>,
}

impl Stage {
    /// A source with three tools, of which accounts can have fewer.
    async fn new() -> Self {
        let clock = Arc::new(Hand(AtomicU64::new(MINUTE)));
        let text =
            format!("[gate]\ndenied_calls = \"not_found\"\n{PUBLIC}{}", text("principal", ""));
        let tools = Some(Ok(offer(&["echo", "extra"])));
        let rig = rig_at(tools, &text, MemoryCatalogs::default(), Arc::clone(&clock) as _).await;
        let source = rig.source();
        *source.own.lock() = Some(BTreeMap::new());
        source.offer(&["echo", "extra", "keyed"]);
        let stage = Self { rig, source, clock };
        stage.sees(&bob(), &ALL).await;
        stage
    }

    fn own(&self, principal: &str, names: &[&'static str]) {
        let names = names.to_vec();
        self.source.own.lock().as_mut().unwrap().insert(principal.to_owned(), names);
    }

    fn pass(&self, minutes: u64) {
        self.clock.0.fetch_add(minutes * MINUTE, Ordering::SeqCst);
    }

    fn reads(&self) -> usize {
        self.source.own_reads.load(Ordering::SeqCst)
    }

    /// Waits until exactly these tools are listed.
    async fn sees(&self, caller: &Principal, ids: &[&str]) {
        eventually(&format!("{ids:?}"), || self.rig.listed(caller) == ids).await;
    }

    /// Waits until the looks that have begun are over.
    async fn settled(&self, reads: usize) {
        eventually("the lists are read", || self.reads() >= reads).await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert_eq!(self.reads(), reads);
    }

    fn etag(&self, caller: &Principal) -> String {
        self.rig.gateway.list(caller, &IDS, None).etag.clone()
    }

    async fn refused(&self, caller: &Principal, tool: &str) -> CallError {
        self.rig.call(caller, tool, json!({})).await.result.unwrap_err()
    }

    /// Another server connects an account of Ann.
    async fn connected_elsewhere(&self, grant: &AccountGrant, id: &str) {
        let grant = AccountGrant { id: id.parse().unwrap(), ..grant.clone() };
        let grants = self.rig.factory.vault.grants.lock().clone().unwrap();
        grants.put(grant, GrantSecrets::default()).await.unwrap();
    }

    async fn grant(&self) -> AccountGrant {
        let grants = self.rig.factory.vault.grants.lock().clone().unwrap();
        let owner = Owner::principal("t".parse().unwrap(), ann().id);
        let place = GrantPlace { owner, source: source() };
        grants.get(&place, chrono::DateTime::UNIX_EPOCH).await.unwrap().unwrap().0
    }
}

/// I-119
#[tokio::test]
async fn a_caller_is_offered_what_its_own_account_has_too() {
    let stage = Stage::new().await;
    // The account has another tool than the tenant.
    stage.own("ann", &["echo", "more"]);
    stage.own("bob", &["extra"]);
    stage.sees(&ann(), &ALL).await;
    let before = stage.etag(&ann());
    let mut changes = stage.rig.gateway.supply().changes();
    changes.mark_unchanged();
    let connected = stage.rig.connect(&ann(), false).await;
    stage.sees(&ann(), &ALL[..1]).await;
    assert!(changes.has_changed().unwrap(), "listeners are told");
    assert_ne!(stage.etag(&ann()), before);
    // Bob has the same scopes, and no account yet.
    stage.sees(&bob(), &ALL).await;
    assert_eq!(stage.etag(&bob()), before);
    let snapshot = stage.rig.gateway.snapshot();
    assert_eq!(snapshot.view(&ann()).search("extra", None, 9).len(), 0);
    assert_eq!(snapshot.view(&bob()).search("extra", None, 9).len(), 1);

    // A call is answered as that of an unknown name.
    let unknown = stage.refused(&ann(), "s__nothing").await;
    for tool in ["s__extra", "s__more"] {
        assert_eq!(format!("{:?}", stage.refused(&ann(), tool).await), format!("{unknown:?}"));
    }
    assert_eq!(stage.source.invoked.load(Ordering::SeqCst), 0);
    let decided = "decided tools:call mcp:s.extra account".to_owned();
    assert!(stage.rig.log.recorded().contains(&decided), "{:?}", stage.rig.log.recorded());
    stage.rig.call(&ann(), "s__echo", json!({})).await.result.unwrap();

    let explained = async |who: &Principal| {
        let explained = stage.rig.gateway.explain_to(who, Some("s__extra")).await;
        serde_json::to_value(explained).unwrap()
    };
    let step = |explained: &Value| {
        let steps = explained["steps"].as_array().unwrap().clone();
        steps.into_iter().find(|step| step["step"] == "connection").unwrap()["message"].clone()
    };
    let of_ann = explained(&ann()).await;
    assert_eq!(of_ann["outcome"], "hidden", "{of_ann}");
    assert_eq!(step(&of_ann), "the caller's own account does not have this tool");
    let of_bob = explained(&bob()).await;
    assert_eq!(of_bob["outcome"], "unavailable", "{of_bob}");
    let list = stage.rig.gateway.explain(&ann(), None, None).await;
    assert_eq!(list.tools, Some(1));

    stage.rig.connect(&bob(), false).await;
    stage.sees(&bob(), &ALL[1..2]).await;
    stage.sees(&ann(), &ALL[..1]).await;
    // The list goes with the account, and the next account has its own.
    stage.rig.gateway.disconnect(&ann(), connected.id.as_ref().unwrap()).await.unwrap();
    assert_eq!(stage.rig.listed(&ann()), ALL);
    assert_eq!(stage.etag(&ann()), before);
    stage.own("ann", &[]);
    stage.rig.connect(&ann(), false).await;
    stage.sees(&ann(), &[]).await;
    // An account without tools can be replaced.
    let shown = stage.rig.gateway.connections_of(&ann()).await.unwrap();
    assert_eq!((shown.len(), shown[0].tools), (1, 0));
    stage.own("ann", &["keyed"]);
    stage.rig.connect(&ann(), false).await;
    stage.sees(&ann(), &ALL[2..]).await;
}

#[tokio::test]
async fn a_list_is_read_in_the_background_when_it_is_used() {
    let stage = Stage::new().await;
    stage.own("ann", &["echo"]);
    stage.rig.connect(&ann(), false).await;
    stage.sees(&ann(), &ALL[..1]).await;
    assert_eq!(stage.reads(), 1);
    for _ in 0..20 {
        stage.rig.listed(&ann());
        stage.etag(&ann());
    }
    stage.settled(1).await;
    // After a minute only the account is compared, and after five the list is read again.
    stage.pass(2);
    stage.own("ann", &["extra"]);
    assert_eq!(stage.rig.listed(&ann()), ALL[..1]);
    stage.settled(1).await;
    stage.pass(4);
    assert_eq!(stage.rig.listed(&ann()), ALL[..1], "a list does not wait");
    stage.sees(&ann(), &ALL[1..2]).await;
    // A list that cannot be read changes nothing.
    stage.source.own.lock().as_mut().unwrap().clear();
    stage.pass(6);
    stage.rig.listed(&ann());
    stage.settled(3).await;
    assert_eq!(stage.rig.listed(&ann()), ALL[1..2]);
    // Callers without an account, and anonymous ones, have no list.
    let anonymous = Principal { auth: AuthMethod::Anonymous, ..ann() };
    assert_eq!(stage.rig.listed(&anonymous), ALL);
    let foreign = Principal { tenant: "u".parse().unwrap(), ..ann() };
    assert_eq!(stage.rig.listed(&foreign), [""; 0]);
}

/// I-119: also if another server connects an account.
#[tokio::test]
async fn a_list_of_one_account_is_not_that_of_another() {
    let stage = Stage::new().await;
    stage.own("ann", &["echo"]);
    stage.rig.connect(&ann(), false).await;
    stage.sees(&ann(), &ALL[..1]).await;
    let grant = stage.grant().await;
    stage.own("ann", &["extra"]);
    stage.connected_elsewhere(&grant, "elsewhere-1").await;
    // A call finds the other account.
    stage.rig.call(&ann(), "s__echo", json!({})).await.result.unwrap();
    stage.sees(&ann(), &ALL[1..2]).await;
    // So does the next comparison.
    stage.own("ann", &["keyed"]);
    stage.connected_elsewhere(&grant, "elsewhere-2").await;
    stage.pass(2);
    stage.sees(&ann(), &ALL[2..]).await;

    // A list that arrives after its account is disconnected counts for nothing.
    let gate = Arc::new(Notify::new());
    *stage.source.own_gate.lock() = Some(Arc::clone(&gate));
    let begun = stage.source.own_begun.load(Ordering::SeqCst);
    let connected = stage.rig.connect(&ann(), false).await;
    let has_begun = || stage.source.own_begun.load(Ordering::SeqCst) > begun;
    eventually("the list is requested", has_begun).await;
    assert_eq!(stage.rig.listed(&ann()), ALL);
    stage.rig.gateway.disconnect(&ann(), connected.id.as_ref().unwrap()).await.unwrap();
    let reads = stage.reads();
    gate.notify_waiters();
    stage.settled(reads + 1).await;
    assert_eq!(stage.rig.listed(&ann()), ALL);
    assert!(stage.rig.gateway.connections_of(&ann()).await.unwrap()[0].id.is_none());
}
