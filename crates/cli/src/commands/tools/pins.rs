//! `tools diff` and `tools approve`: shows and approves changes of upstream tools, in the store or on
//! a running server.

use chrono::Utc;
use serde_json::json;
use toolcrib_config::Config;
use toolcrib_core::{
    canonical::Digest,
    id::{PrincipalId, TenantId},
    pin::{EarlierForms, PinStore},
    principal::PrincipalKey,
    suggest,
};
use toolcrib_gateway::pins::{PinError, PinReport, PinReview, PinWish};

use super::diff;
use crate::{args::ToolApproveArgs, failure::advised, printer::Printer, target::Target};

/// Limit of tools approved with one request.
const BATCH: usize = 500;

/// All pins, or the pin of one tool with its documents.
async fn pins_of(target: &Target, tool: Option<&str>) -> anyhow::Result<Vec<PinReport>> {
    match (target, tool) {
        (Target::Store(config, store), Some(tool)) => {
            Ok(review(config, &*store.pins()).show(tool).await?.into_iter().collect())
        }
        (Target::Store(config, store), None) => Ok(review(config, &*store.pins()).list().await?),
        (Target::Server(client), tool) => {
            let query: Vec<_> = tool.map(|tool| ("tool", tool)).into_iter().collect();
            client.get_member(&["v1", "pins"], &query, "pins").await
        }
    }
}

async fn approve_all(
    target: &Target,
    wanted: &[(String, String)],
    earlier: EarlierForms,
) -> anyhow::Result<()> {
    match target {
        Target::Store(config, store) => {
            let wish = |(tool, digest): &(String, String)| {
                Some(PinWish { tool: tool.clone(), digest: Digest::parse(digest)?, earlier })
            };
            let wanted: Vec<_> = wanted.iter().filter_map(wish).collect();
            let tenant = TenantId::parse(TenantId::OPERATOR)?;
            let by = PrincipalKey { tenant, principal: PrincipalId::parse("operator")? };
            let pins = store.pins();
            let approved = review(config, &*pins).approve(&wanted, Some(&by), Utc::now()).await;
            let (_, events) = approved.map_err(|error| match error {
                PinError::Store(error) => anyhow::Error::new(error),
                error => {
                    advised(error.to_string(), "`toolcrib tools diff` shows the pending changes")
                }
            })?;
            store.events().append(&events).await?;
        }
        Target::Server(client) => {
            let tool = |(tool, digest): &(String, String)| json!({ "toolId": tool, "digest": digest, "earlier": earlier });
            let body = json!({ "tools": wanted.iter().map(tool).collect::<Vec<_>>() });
            client.post(&["v1", "pins", "approve"], Some(&body)).await?;
        }
    }
    Ok(())
}

fn review<'a>(config: &'a Config, pins: &'a dyn PinStore) -> PinReview<'a> {
    PinReview { sources: &config.sources, pins, tenant: None }
}

/// Prints the pending changes.
pub(super) async fn show(
    tool: Option<&str>,
    target: &Target,
    printer: Printer,
) -> anyhow::Result<()> {
    let mut pins = Vec::new();
    match tool {
        Some(tool) => {
            pins = pins_of(target, Some(tool)).await?;
            if pins.is_empty() {
                return Err(unknown(tool, &pins_of(target, None).await?));
            }
        }
        None => {
            for changed in pending(pins_of(target, None).await?) {
                pins.extend(pins_of(target, Some(changed.tool_id.as_str())).await?);
            }
        }
    }
    if printer.wants_json() {
        let value: Vec<_> = pins
            .iter()
            .map(|pin| {
                let mut value = json!(pin);
                if let Some(members) = value.as_object_mut() {
                    members.insert("changes".to_owned(), json!(diff::changes_of(pin)));
                }
                value
            })
            .collect();
        return printer.json(&value);
    }
    if pins.is_empty() {
        printer.note("no change is pending");
    }
    pins.iter().try_for_each(|pin| printer.line(diff::text(pin)))
}

/// Approves the selected pending changes.
pub(super) async fn approve(
    args: &ToolApproveArgs,
    target: &Target,
    printer: Printer,
) -> anyhow::Result<()> {
    let mut chosen = Vec::new();
    if args.which.tools.is_empty() {
        let pins = pins_of(target, None).await?;
        if let Some(source) = &args.which.source
            && !pins.iter().any(|pin| pin.source_id == *source)
        {
            let known = pins.iter().map(|pin| pin.source_id.as_str());
            let suggestion = suggest::did_you_mean(source.as_str(), known);
            return Err(advised(
                format!("no tools of a source `{source}` have pins{suggestion}"),
                "`toolcrib sources list` shows the sources",
            ));
        }
        let of_source = |pin: &PinReport| {
            args.which.source.as_ref().is_none_or(|source| pin.source_id == *source)
        };
        chosen.extend(pending(pins).into_iter().filter(of_source));
    } else {
        for tool in &args.which.tools {
            let Some(pin) = pins_of(target, Some(tool)).await?.pop() else {
                return Err(unknown(tool, &pins_of(target, None).await?));
            };
            let withdraws = !args.keep_earlier && !pin.earlier.is_empty();
            if pin.seen.is_none() && !withdraws {
                return Err(advised(
                    format!("no change of {} is pending", pin.tool_id),
                    "`toolcrib tools diff` shows the pending changes",
                ));
            }
            chosen.push(pin);
        }
    }
    let earlier = match args.keep_earlier {
        true => EarlierForms::Keep,
        false => EarlierForms::Replace,
    };
    let form = |pin: PinReport| Some((pin.tool_id.to_string(), pin.seen.or(pin.approved)?.digest));
    let wanted: Vec<(String, String)> = chosen.into_iter().filter_map(form).collect();
    for batch in wanted.chunks(BATCH) {
        approve_all(target, batch, earlier).await?;
    }
    if printer.wants_json() {
        let row = |(tool, digest): &(String, String)| json!({ "toolId": tool, "approved": digest });
        return printer.json(&json!({ "approved": wanted.iter().map(row).collect::<Vec<_>>() }));
    }
    for (tool, _) in &wanted {
        printer.line(format_args!("approved {tool}"))?;
    }
    if wanted.is_empty() {
        printer.note("no change is pending");
    }
    Ok(())
}

fn pending(pins: Vec<PinReport>) -> Vec<PinReport> {
    pins.into_iter().filter(|pin| pin.seen.is_some()).collect()
}

fn unknown(tool: &str, pins: &[PinReport]) -> anyhow::Error {
    let known = pins.iter().flat_map(|pin| [pin.name.as_str(), pin.tool_id.as_str()]);
    let suggestion = suggest::did_you_mean(tool, known);
    advised(
        format!("no pin of a tool {tool:?}{suggestion}"),
        "only discovered tools of upstreams have pins; `toolcrib sources list` discovers them",
    )
}
