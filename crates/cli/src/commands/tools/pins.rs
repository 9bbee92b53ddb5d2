//! `tools diff` and `tools approve`: shows and approves changes of upstream tools, in the store or on
//! a running server.

use chrono::Utc;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_core::{canonical::Digest, id::PrincipalId, pin::PinStore, suggest};
use toolcrib_gateway::{
    config::Config,
    pins::{PinError, PinReview},
};

use super::diff;
use crate::{
    args::ToolApproveArgs,
    failure::{Exit, advised},
    printer::Printer,
    target::Target,
};

/// Limit of tools approved with one request.
const BATCH: usize = 500;

/// A pin in `GET /v1/pins`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    pub(super) tool_id: String,
    pub(super) source_id: String,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) quarantined: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) approved: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seen: Option<Moment>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Moment {
    pub(super) digest: String,
    pub(super) at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) document: Option<Value>,
}

/// Returns all pins, or the pin of one tool with its documents.
async fn pins_of(target: &Target, tool: Option<&str>) -> anyhow::Result<Vec<Shown>> {
    let value = match target {
        Target::Store(config, store) => {
            let pins = store.pins();
            let review = review(config, &*pins);
            match tool {
                Some(tool) => json!(review.show(tool).await?.into_iter().collect::<Vec<_>>()),
                None => json!(review.list().await?),
            }
        }
        Target::Server(client) => {
            let query: Vec<_> = tool.map(|tool| ("tool", tool)).into_iter().collect();
            let mut value = client.get(&["v1", "pins"], &query).await?;
            value.get_mut("pins").map(Value::take).unwrap_or_default()
        }
    };
    Ok(serde_json::from_value(value)?)
}

async fn approve_all(target: &Target, wanted: &[(String, String)]) -> anyhow::Result<()> {
    match target {
        Target::Store(config, store) => {
            let digest = |(tool, digest): &(String, String)| {
                let digest = Digest::parse(digest)?;
                Some((tool.clone(), digest))
            };
            let wanted: Vec<_> = wanted.iter().filter_map(digest).collect();
            let by = PrincipalId::parse("operator")?;
            let pins = store.pins();
            let approved = review(config, &*pins).approve(&wanted, Some(&by), Utc::now()).await;
            let (_, events) = approved.map_err(|error| match error {
                PinError::Store(error) => anyhow::Error::new(error),
                error => {
                    advised(error.to_string(), "`toolcrib tools diff` shows the pending changes")
                }
            })?;
            store.events().append(events).await?;
        }
        Target::Server(client) => {
            let tool =
                |(tool, digest): &(String, String)| json!({ "toolId": tool, "digest": digest });
            let body = json!({ "tools": wanted.iter().map(tool).collect::<Vec<_>>() });
            client.send(&["v1", "pins", "approve"], &body).await?;
        }
    }
    Ok(())
}

fn review<'a>(config: &'a Config, pins: &'a dyn PinStore) -> PinReview<'a> {
    PinReview { sources: &config.sources, pins, tenant: None }
}

/// Prints the pending changes. The exit code is 0 with and without changes.
pub(super) async fn show(
    tool: Option<&str>,
    target: &Target,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let mut pins = Vec::new();
    match tool {
        Some(tool) => {
            pins = pins_of(target, Some(tool)).await?;
            if pins.is_empty() {
                return Err(unknown(tool, &pins_of(target, None).await?));
            }
        }
        None => {
            for waiting in waiting(pins_of(target, None).await?) {
                pins.extend(pins_of(target, Some(&waiting.tool_id)).await?);
            }
        }
    }
    if printer.wants_json() {
        let value: Vec<_> = pins
            .iter()
            .map(|pin| {
                let mut value = json!(pin);
                if let Some(members) = value.as_object_mut() {
                    members.insert("changes".to_owned(), json!(diff::changes(pin)));
                }
                value
            })
            .collect();
        printer.json(&value)?;
        return Ok(Exit::Done);
    }
    if pins.is_empty() {
        printer.note("no change is pending");
    }
    for pin in &pins {
        printer.line(diff::text(pin))?;
    }
    Ok(Exit::Done)
}

/// Approves the selected pending changes.
pub(super) async fn approve(
    args: &ToolApproveArgs,
    target: &Target,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let mut chosen = Vec::new();
    if args.tools.is_empty() {
        let pins = pins_of(target, None).await?;
        if let Some(source) = &args.source
            && !pins.iter().any(|pin| pin.source_id == source.as_str())
        {
            let known = pins.iter().map(|pin| pin.source_id.as_str());
            let suggestion = suggest::did_you_mean(source.as_str(), known);
            return Err(advised(
                format!("no tools of a source `{source}` have pins{suggestion}"),
                "`toolcrib sources list` shows the sources",
            ));
        }
        let of_source = |pin: &Shown| {
            args.source.as_ref().is_none_or(|source| pin.source_id == source.as_str())
        };
        chosen.extend(waiting(pins).into_iter().filter(of_source));
    } else {
        for tool in &args.tools {
            let Some(pin) = pins_of(target, Some(tool)).await?.pop() else {
                return Err(unknown(tool, &pins_of(target, None).await?));
            };
            if pin.seen.is_none() {
                return Err(advised(
                    format!("no change of {} is pending", pin.tool_id),
                    "`toolcrib tools diff` shows the pending changes",
                ));
            }
            chosen.push(pin);
        }
    }
    let wanted: Vec<(String, String)> =
        chosen.into_iter().filter_map(|pin| Some((pin.tool_id, pin.seen?.digest))).collect();
    for batch in wanted.chunks(BATCH) {
        approve_all(target, batch).await?;
    }
    if printer.wants_json() {
        let row = |(tool, digest): &(String, String)| json!({ "toolId": tool, "approved": digest });
        printer.json(&json!({ "approved": wanted.iter().map(row).collect::<Vec<_>>() }))?;
        return Ok(Exit::Done);
    }
    for (tool, _) in &wanted {
        printer.line(format_args!("approved {tool}"))?;
    }
    if wanted.is_empty() {
        printer.note("no change is pending");
    }
    Ok(Exit::Done)
}

fn waiting(pins: Vec<Shown>) -> Vec<Shown> {
    pins.into_iter().filter(|pin| pin.seen.is_some()).collect()
}

fn unknown(tool: &str, pins: &[Shown]) -> anyhow::Error {
    let known = pins.iter().flat_map(|pin| [pin.name.as_str(), pin.tool_id.as_str()]);
    let suggestion = suggest::did_you_mean(tool, known);
    advised(
        format!("no pin of a tool {tool:?}{suggestion}"),
        "only discovered tools of upstreams have pins; `toolcrib sources list` discovers them",
    )
}
