//! `audit forwarders`: the status of forwarders and anchors.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    args::Global, client::Client, failure::Exit, printer::Printer, settings::Settings, store, table,
};

/// A member of `GET /v1/record/forwarders`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Forwarder {
    name: String,
    kind: String,
    delivered: u64,
    behind: Option<u64>,
    delivered_at: Option<String>,
    failing_since: Option<String>,
    failures: u64,
    problem: Option<String>,
}

pub(super) async fn run(global: &Global, printer: Printer) -> anyhow::Result<Exit> {
    let shown = match Client::connect(global, printer)? {
        Some(client) => {
            let mut body = client.get(&["v1", "record", "forwarders"], &[]).await?;
            let forwarders = body.get_mut("forwarders").map(Value::take).unwrap_or_default();
            serde_json::from_value(forwarders)?
        }
        None => read_store(global).await?,
    };
    print(&shown, printer)?;
    Ok(Exit::Done)
}

async fn read_store(global: &Global) -> anyhow::Result<Vec<Forwarder>> {
    let config = Settings::load(global)?.config;
    let store = store::open_existing(&config)?;
    let record = store.record();
    let read = async { anyhow::Ok((record.last_position().await?, record.cursors().await?)) };
    let read = read.await;
    store.close().await;
    let (last, cursors) = read?;
    let at =
        |at: chrono::DateTime<chrono::Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let forwards = config.record.forwards.iter().map(|it| (it.name.clone(), "forward"));
    let anchors = (1..=config.record.anchors.len()).map(|it| (format!("anchor-{it}"), "anchor"));
    let shown = forwards.chain(anchors).map(|(name, kind)| {
        let cursor = cursors.iter().find(|cursor| cursor.name == name);
        let delivered = cursor.map_or(0, |cursor| cursor.position);
        Forwarder {
            kind: kind.to_owned(),
            delivered,
            behind: (kind == "forward").then(|| last.saturating_sub(delivered)),
            delivered_at: cursor.and_then(|cursor| cursor.moved_at).map(at),
            failing_since: cursor.and_then(|cursor| cursor.failing_since).map(at),
            failures: cursor.map_or(0, |cursor| cursor.failures),
            problem: cursor.and_then(|cursor| cursor.problem.clone()),
            name,
        }
    });
    Ok(shown.collect())
}

fn print(shown: &[Forwarder], printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(&shown);
    }
    if shown.is_empty() {
        printer.note("there are no forwarders and no anchors");
        return Ok(());
    }
    let rows = shown.iter().map(|it| {
        [
            it.name.clone(),
            it.kind.clone(),
            it.delivered.to_string(),
            it.behind.map(|behind| behind.to_string()).unwrap_or_default(),
            it.failing_since.clone().unwrap_or_default(),
            it.problem.clone().unwrap_or_default(),
        ]
    });
    let head = [
        table::name("name"),
        table::text("kind"),
        table::name("delivered"),
        table::name("behind"),
        table::time("failing"),
        table::text("problem"),
    ];
    printer.table(head, rows)
}
