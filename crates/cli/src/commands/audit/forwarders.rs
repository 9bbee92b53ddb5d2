//! `audit forwarders`: the status of forwarders and anchors.

use serde::{Deserialize, Serialize};

use crate::{
    args::GlobalOptions,
    client::Client,
    context::Context,
    failure::Exit,
    settings::Settings,
    store,
    table::{Column, Kind},
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

const COLUMNS: &[Column<Forwarder>] = &[
    Column(Kind::Name, "name", |forwarder| forwarder.name.clone()),
    Column(Kind::Text, "kind", |forwarder| forwarder.kind.clone()),
    Column(Kind::Name, "delivered", |forwarder| forwarder.delivered.to_string()),
    Column(Kind::Name, "behind", |forwarder| {
        forwarder.behind.map(|count| count.to_string()).unwrap_or_default()
    }),
    Column(Kind::Time, "failing", |forwarder| forwarder.failing_since.clone().unwrap_or_default()),
    Column(Kind::Text, "problem", |forwarder| forwarder.problem.clone().unwrap_or_default()),
];

pub(super) async fn run(cx: &Context) -> anyhow::Result<Exit> {
    let shown = match Client::connect(cx)? {
        Some(client) => {
            client.get_member(&["v1", "record", "forwarders"], &[], "forwarders").await?
        }
        None => read_store(&cx.global).await?,
    };
    cx.printer.list(COLUMNS, &shown, "there are no forwarders and no anchors")?;
    Ok(Exit::Done)
}

async fn read_store(global: &GlobalOptions) -> anyhow::Result<Vec<Forwarder>> {
    let config = Settings::load(global)?.config;
    let store = store::open_existing(&config).await?;
    let record = store.record();
    let read = async { anyhow::Ok((record.last_position().await?, record.cursors().await?)) };
    let read = read.await;
    store.close().await;
    let (last, cursors) = read?;
    let at =
        |at: chrono::DateTime<chrono::Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let forwards = config.record.forwards.iter().map(|forward| (forward.name.clone(), "forward"));
    let anchors =
        (1..=config.record.anchors.len()).map(|number| (format!("anchor-{number}"), "anchor"));
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
