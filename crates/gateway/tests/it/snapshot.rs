//! One snapshot per request, even if the configuration changes meanwhile.

use std::{
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use toolcrib_core::{
    id::TenantId,
    limit::{BucketKey, LimitError, Rate, RateLimiter},
    source::SourceFactory,
    store::StoreError,
};
use toolcrib_gateway::{
    CallReport, CallRequest, Gateway, GatewayBuilder, ToolRef,
    idempotency::{ClientKey, IdempotentOutcome},
    metrics::Surface,
};
use toolcrib_store::MemoryCatalogs;

use crate::support::{Factory, Log, Rig, eventually, offer, one_source, parse, principal, storage};

/// A limiter that removes every source from the configuration before it admits the first call.
#[derive(Default)]
struct Reloads(OnceLock<Gateway>);

#[async_trait]
impl RateLimiter for Reloads {
    async fn take(&self, _: &BucketKey, _: Rate) -> Result<(), LimitError> {
        if let Some(gateway) = self.0.get() {
            gateway.apply(parse("")).await.unwrap();
        }
        Ok(())
    }

    async fn reset(&self, _: &TenantId) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Returns a gateway whose source `s` is removed while one of its calls passes the limiter.
async fn reloaded_during_calls() -> Rig {
    let (log, catalogs) = (Log::default(), MemoryCatalogs::default());
    let (factory, limiter) = (Arc::new(Factory::default()), Arc::new(Reloads::default()));
    *factory.offers.lock() = Some(Ok(offer(&["echo"])));
    let storage = storage(&log, &catalogs);
    let keys = Arc::clone(&storage.keys);
    let config = parse(&one_source("[source.tools.\"*\"]\nrate = \"10/s\""));
    let sources = Arc::clone(&factory) as Arc<dyn SourceFactory>;
    let builder = GatewayBuilder::new(config, Arc::new(storage), sources);
    let limits = Arc::clone(&limiter) as Arc<dyn RateLimiter>;
    let gateway = builder.limiter(limits).start().await.unwrap();
    gateway.supply().settle(Duration::from_secs(10)).await;
    limiter.0.set(gateway.clone()).ok();
    Rig { gateway, log, keys, catalogs, factory }
}

fn request(rig: &Rig) -> CallRequest<'static> {
    let tool = ToolRef::Wire("s__echo");
    CallRequest::new(rig.gateway.snapshot(), Surface::new("otc", "Otc"), tool, json!({}))
}

// I-23
#[tokio::test]
async fn a_call_runs_at_the_source_that_was_there_when_it_came() {
    let rig = reloaded_during_calls().await;
    let source = rig.source();
    let report = rig.gateway.call(&principal("t", &["*"]), request(&rig)).await;
    report.result.unwrap();
    assert_eq!(source.invoked.load(Ordering::SeqCst), 1);
    assert!(rig.gateway.snapshot().sources.is_empty(), "the configuration has no source any more");
    assert!(rig.call(&principal("t", &["*"]), "s__echo", json!({})).await.result.is_err());
    eventually("the source is closed after its call", || source.closed.load(Ordering::SeqCst) == 1)
        .await;
}

// I-23
#[tokio::test]
async fn an_idempotent_call_runs_at_the_source_that_was_there_when_it_came() {
    let rig = reloaded_during_calls().await;
    let key = ClientKey { space: "test", text: "one" };
    let keep = |_: &CallReport| Some(Bytes::from_static(b"kept"));
    let caller = Arc::new(principal("t", &["*"]));
    let once = rig.gateway.call_idempotent(&caller, key, request(&rig), keep).await.unwrap();
    let IdempotentOutcome::Report(report) = once else {
        panic!("the first call was answered from the store")
    };
    assert!(report.result.is_ok(), "{report:?}");
}

// I-23
#[tokio::test]
async fn a_tool_that_left_the_catalog_is_found_in_the_snapshot_of_the_request() {
    let rig = reloaded_during_calls().await;
    let (caller, before) = (principal("t", &["*"]), rig.gateway.snapshot());
    rig.gateway.apply(parse("")).await.unwrap();
    let tool = ToolRef::Wire("s__echo");
    let scope = toolcrib_gateway::CatalogScope::default();
    assert!(rig.gateway.find(&before, &caller, tool, &scope).is_some());
    assert!(rig.gateway.find(&rig.gateway.snapshot(), &caller, tool, &scope).is_none());
}
