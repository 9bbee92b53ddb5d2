//! `audit accept`: accepts the current state of the event log.

use std::sync::Arc;

use chrono::Utc;
use serde_json::json;
use toolcrib_core::record::WitnessStore;
use toolcrib_gateway::audit;

use crate::{
    args::AcceptArgs,
    context::Context,
    failure::{Exit, advised},
    lock::Lock,
    settings::{self, Settings},
    signing, store,
};

pub(super) async fn run(args: &AcceptArgs, cx: &Context) -> anyhow::Result<Exit> {
    settings::no_url(&cx.global, "`toolcrib audit accept` works")?;
    let settings = Settings::load(&cx.global)?;
    store::require(&settings.config.store)?;
    // A running server keeps its last checkpoint in memory, too.
    let _lock = Lock::take(&settings)?;
    let config = settings.config;
    let store = store::open_existing(&config).await?;
    let Some(key) = signing::existing(&config).await? else {
        return Err(advised(
            "there is no signing key, so the record was never signed",
            "the first `toolcrib serve` creates one",
        ));
    };
    let witness: Arc<dyn WitnessStore> = Arc::new(signing::witness(&config));
    let accepted = audit::accept(&*store, &key, &witness, args.reason.as_deref(), Utc::now()).await;
    store.close().await;
    let (accepted, printer) = (accepted?, cx.printer);
    if printer.wants_json() {
        let rows =
            accepted.iter().map(|log| json!({ "tenant": log.tenant, "problem": log.problem }));
        printer.json(&json!({ "accepted": rows.collect::<Vec<_>>() }))?;
        return Ok(Exit::Done);
    }
    if accepted.is_empty() {
        printer.line("the record continues the signed state; it needs no acceptance")?;
    }
    for log in &accepted {
        printer.foreign(&format!("accepted the log of {}: {}", log.tenant, log.problem))?;
    }
    Ok(Exit::Done)
}
