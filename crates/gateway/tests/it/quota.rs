//! Daily quotas, from the callers' point of view.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::json;
use toolcrib_core::{
    call::CallError,
    clock::{Clock, Timestamp},
    id::PrincipalId,
    principal::Principal,
    quota::{Day, Quota, QuotaKey, QuotaReservation, QuotaStore},
    source::SourceFactory,
    store::{Storage as _, StoreError},
};
use toolcrib_gateway::{CallReport, Gateway, GatewayBuilder, QuotaReport};
use toolcrib_store::{MemoryCatalogs, MemoryStorage, Options, SqliteStore};

use crate::support::{Factory, Log, Rig, offer, one_source, parse, principal, storage};

/// A clock that tests set.
#[derive(Default)]
struct Wall(AtomicI64);

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        DateTime::<Utc>::from_timestamp(self.0.load(Ordering::SeqCst), 0).unwrap()
    }
    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::SeqCst)).unwrap() * 1_000_000_000
    }
}

/// Noon of a day, in seconds since 1970.
const NOON: i64 = 20_000 * 86_400 + 43_200;
const TOOLS: &[&str] = &["echo", "down", "strict", "shut", "fail", "other"];

async fn start(text: &str, quotas: Option<Arc<dyn QuotaStore>>, clock: &Arc<Wall>) -> Rig {
    let (log, catalogs) = (Log::default(), MemoryCatalogs::default());
    let factory = Arc::new(Factory::default());
    *factory.offers.lock() = Some(Ok(offer(TOOLS)));
    let mut storage = storage(&log, &catalogs);
    if let Some(quotas) = quotas {
        storage.quotas = quotas;
    }
    let keys = Arc::clone(&storage.keys);
    let sources = Arc::clone(&factory) as Arc<dyn SourceFactory>;
    let builder = GatewayBuilder::new(parse(text), Arc::new(storage), sources);
    let gateway: Gateway =
        builder.clock(Arc::clone(clock) as Arc<dyn Clock>).start().await.unwrap();
    gateway.supply().settle(Duration::from_secs(10)).await;
    Rig { gateway, log, keys, catalogs, factory }
}

fn noon() -> Arc<Wall> {
    Arc::new(Wall(AtomicI64::new(NOON)))
}

fn caller(name: &str, roles: &[&str]) -> Principal {
    Principal {
        id: PrincipalId::parse(name).unwrap(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..principal("t", &["tools:s"])
    }
}

/// Returns the wait and the limit, if a quota is used up.
fn over(called: &CallReport) -> Option<(Duration, u32)> {
    match called.result {
        Err(CallError::RateLimited { retry_after, limit, daily: true, .. }) => {
            Some((retry_after, limit))
        }
        _ => None,
    }
}

/// Returns how many calls of `tool` start before a quota refuses one.
async fn quota(rig: &Rig, who: &Principal) -> Result<Option<QuotaReport>, StoreError> {
    rig.gateway.quotas().report(&rig.gateway.snapshot().gate, who).await
}

async fn calls(rig: &Rig, who: &Principal, tool: &str) -> usize {
    for count in 0..200 {
        let called = rig.call(who, tool, json!({})).await;
        if over(&called).is_some() {
            return count;
        }
        assert!(called.duration.is_some(), "{called:?}");
    }
    panic!("no end");
}

fn with(gate: &str, rules: &str) -> String {
    format!("[gate]\nrate = \"off\"\n{gate}\n{}", one_source(rules))
}

/// I-79: every started call counts until midnight, whatever its result; each principal has its own
/// quota.
#[tokio::test]
async fn a_principal_has_so_many_calls_on_a_day() {
    let clock = noon();
    let rig = start(&with("quota = \"3/d\"", ""), None, &clock).await;
    let (ann, bob) = (caller("ann", &[]), caller("bob", &[]));
    for tool in ["s__echo", "s__fail", "s__other"] {
        assert!(rig.call(&ann, tool, json!({})).await.duration.is_some());
    }
    let refused = rig.call(&ann, "s__echo", json!({})).await;
    assert_eq!(over(&refused), Some((Duration::from_secs(43_200), 3)));
    assert!(refused.result.unwrap_err().to_string().contains("try again in 43200 s"));
    assert_eq!(calls(&rig, &bob, "s__echo").await, 3);
    let report = quota(&rig, &ann).await.unwrap().unwrap();
    assert_eq!((report.limit, report.used), (3, 3));
    assert_eq!(report.resets_at.timestamp(), NOON + 43_200);
    let metrics = rig.gateway.metrics().encode();
    let line = "toolcrib_source_calls_refused_total{source=\"s\",limit=\"quota\"} 2";
    assert!(metrics.contains(line), "{metrics}");
    clock.0.fetch_add(43_200, Ordering::SeqCst);
    assert_eq!(calls(&rig, &ann, "s__echo").await, 3, "a new day");
    // A clock that is set back frees nothing.
    clock.0.fetch_sub(43_200, Ordering::SeqCst);
    assert_eq!(calls(&rig, &ann, "s__echo").await, 0);
}

/// I-79: calls that did not start do not count.
#[tokio::test]
async fn calls_that_do_not_start_are_not_counted() {
    let rules = "breaker = \"off\"\n[source.tools.shut]\nscopes = [\"other\"]\n\
                 [source.tools.other]\nrate = \"1/d\"\n[source.tools.echo]\napproval = \"always\"";
    let rig = start(&with("quota = \"2/d\"", rules), None, &noon()).await;
    let ann = caller("ann", &[]);
    for tool in ["s__absent", "s__shut", "s__strict", "s__down", "s__echo"] {
        for _ in 0..3 {
            let called = rig.call(&ann, tool, json!({})).await;
            assert!(called.result.is_err() && called.duration.is_none(), "{tool}: {called:?}");
            assert!(over(&called).is_none(), "{tool}");
        }
    }
    assert_eq!(quota(&rig, &ann).await.unwrap().unwrap().used, 0);
    assert!(rig.call(&ann, "s__other", json!({})).await.result.is_ok());
    for _ in 0..3 {
        let limited = rig.call(&ann, "s__other", json!({})).await;
        assert!(limited.result.is_err() && over(&limited).is_none(), "the bucket comes first");
    }
    assert_eq!(calls(&rig, &ann, "s__fail").await, 1);
    // No approval is requested for a call that could not run.
    assert!(over(&rig.call(&ann, "s__echo", json!({})).await).is_some());
}

/// Quotas of roles and rules.
#[tokio::test]
async fn roles_and_tools_have_quotas_of_their_own() {
    let roles = "[[role]]\nname = \"few\"\nscopes = []\nquota = \"1/d\"\n\
                 [[role]]\nname = \"many\"\nscopes = []\nquota = \"4/d\"\n\
                 [[role]]\nname = \"free\"\nscopes = []\nquota = \"off\"\n\
                 [[role]]\nname = \"plain\"\nscopes = []\n";
    let rules = "[source.tools.\"*\"]\nquota = \"9/d\"\n[source.tools.other]\nquota = \"2/d\"\n\
                 [source.tools.fail]\nquota = \"off\"";
    let text = with(&format!("quota = \"3/d\"\n{roles}"), rules);
    let rig = start(&text, None, &noon()).await;
    for (name, roles, expected) in [
        ("a", &[][..], 3),
        ("b", &["plain", "unknown"], 3),
        ("c", &["few"], 1),
        ("d", &["few", "many"], 4),
        ("e", &["free", "few"], 9),
    ] {
        assert_eq!(calls(&rig, &caller(name, roles), "s__echo").await, expected, "{roles:?}");
    }
    let free = caller("f", &["free"]);
    assert_eq!(calls(&rig, &free, "s__other").await, 2);
    assert_eq!(calls(&rig, &free, "s__echo").await, 9, "each tool for itself");
    for _ in 0..20 {
        assert!(rig.call(&free, "s__fail", json!({})).await.duration.is_some());
    }
    assert!(quota(&rig, &free).await.unwrap().is_none());
    // A reload keeps the counts.
    rig.gateway.apply(parse(&with("quota = \"5/d\"", ""))).await.unwrap();
    assert_eq!(calls(&rig, &caller("a", &[]), "s__echo").await, 2);
}

/// I-79: two processes on one store, one after the other and at the same time.
#[tokio::test]
async fn counts_are_those_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db"), Options::default()).unwrap();
    let clock = noon();
    let text = with("quota = \"200/d\"", "");
    let open = async || start(&text, Some(Arc::new(store.clone())), &clock).await;
    let ann = caller("ann", &[]);
    let rig = open().await;
    for _ in 0..5 {
        rig.call(&ann, "s__echo", json!({})).await;
    }
    rig.gateway.close().await;
    let rig = open().await;
    assert_eq!(quota(&rig, &ann).await.unwrap().unwrap().used, 5);
    // Calls count at the store before they start, a few of them early.
    let key = QuotaKey { tenant: ann.tenant.clone(), principal: ann.id.clone(), tool: None };
    for made in 1..=150_u64 {
        rig.call(&ann, "s__echo", json!({})).await;
        let stored = store.add(Day(20_000), vec![(key.clone(), 0)]).await.unwrap()[0];
        let early = stored - (5 + made);
        assert!(early <= (200 - made) / 16, "{early} after {made}");
    }
    assert_eq!(quota(&rig, &ann).await.unwrap().unwrap().used, 155);
    rig.gateway.close().await;
    let rig = open().await;
    assert_eq!(calls(&rig, &ann, "s__echo").await, 45);
    // The next day starts at zero.
    clock.0.fetch_add(86_400, Ordering::SeqCst);
    assert!(rig.call(&ann, "s__echo", json!({})).await.result.is_ok());
    rig.gateway.close().await;
    for (day, left) in [(20_000, 0), (20_001, 1)] {
        let key = QuotaKey { tenant: ann.tenant.clone(), principal: ann.id.clone(), tool: None };
        assert_eq!(store.add(Day(day), vec![(key, 0)]).await.unwrap(), [left], "day {day}");
    }
    store.close().await;
}

/// A store that fails on demand.
struct Frail(Arc<dyn QuotaStore>, AtomicBool);

#[async_trait]
impl QuotaStore for Frail {
    async fn reserve(
        &self,
        day: Day,
        key: QuotaKey,
        quota: Quota,
    ) -> Result<QuotaReservation, StoreError> {
        match self.1.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("the disk is full".to_owned())),
            false => self.0.reserve(day, key, quota).await,
        }
    }
    async fn add(&self, day: Day, counts: Vec<(QuotaKey, i64)>) -> Result<Vec<u64>, StoreError> {
        match self.1.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("the disk is full".to_owned())),
            false => self.0.add(day, counts).await,
        }
    }
    async fn forget_before(&self, day: Day) -> Result<usize, StoreError> {
        self.0.forget_before(day).await
    }
}

/// I-79: calls that cannot be counted are refused once the calls that were set aside are made.
#[tokio::test]
async fn calls_that_cannot_be_counted_are_refused() {
    let store = Arc::new(Frail(MemoryStorage::default().quotas, AtomicBool::new(false)));
    let text = with("quota = \"100/d\"", "");
    let rig = start(&text, Some(Arc::clone(&store) as _), &noon()).await;
    let ann = caller("ann", &[]);
    assert!(rig.call(&ann, "s__echo", json!({})).await.result.is_ok());
    store.1.store(true, Ordering::SeqCst);
    let bob = rig.call(&caller("bob", &[]), "s__echo", json!({})).await;
    assert!(matches!(bob.result, Err(CallError::NotAccountable("counted"))), "nobody knows of him");
    let mut ran = 1;
    let refused = loop {
        let called = rig.call(&ann, "s__echo", json!({})).await;
        if called.result.is_err() || ran > 90 {
            break called;
        }
        ran += 1;
    };
    assert!(matches!(refused.result, Err(CallError::NotAccountable("counted"))), "{refused:?}");
    assert_eq!(ran, 6, "a sixteenth of the quota");
    store.1.store(false, Ordering::SeqCst);
    assert_eq!(calls(&rig, &ann, "s__echo").await, 100 - ran);
}

/// I-79: four servers with one store make no more calls than a quota allows, and no fewer.
#[tokio::test]
async fn several_servers_have_one_quota_together() {
    let store = MemoryStorage::default().quotas;
    let text = with("quota = \"60/d\"", "[source.tools.other]\nquota = \"20/d\"");
    let (clock, mut rigs) = (noon(), Vec::new());
    for _ in 0..4 {
        rigs.push(start(&text, Some(Arc::clone(&store)), &clock).await);
    }
    let ann = caller("ann", &[]);
    let each = async |rig: &Rig, tool: &str| {
        let mut ran = 0;
        for _ in 0..80 {
            ran += usize::from(rig.call(&ann, tool, json!({})).await.duration.is_some());
        }
        ran
    };
    let all = async |tool: &str| -> usize {
        futures_util::future::join_all(rigs.iter().map(|rig| each(rig, tool))).await.iter().sum()
    };
    let others = all("s__other").await;
    assert!(others <= 20, "{others}");
    let ran = others + all("s__echo").await;
    assert!(ran <= 60, "{ran}");
    // The calls that a server has set aside and not made are free for the others when it ends.
    for rig in &rigs[1..] {
        rig.gateway.close().await;
    }
    clock.0.fetch_add(2, Ordering::SeqCst);
    let last = each(&rigs[0], "s__other").await + each(&rigs[0], "s__echo").await;
    let key = QuotaKey { tenant: ann.tenant.clone(), principal: ann.id.clone(), tool: None };
    assert_eq!(store.add(Day(20_000), vec![(key, 0)]).await.unwrap(), [60]);
    assert_eq!(ran + last, 60, "{ran} and {last}");
}
