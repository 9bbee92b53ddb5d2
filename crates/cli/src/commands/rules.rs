//! `rules propose|add|set|remove`: rules of sources, and changes of the configuration file.

use serde_json::{Map, Value as Json, json};
use toolcrib_config::edit::{Change, EditAction};
use toolcrib_core::{id::SourceId, text::is_hidden};
use toolcrib_gateway::RuleProposal;

use super::edit;
use crate::{
    args::{ApprovalArg, RuleArgs, RulesCommand, TierArg},
    client::Client,
    context::Context,
    failure::{Exit, usage},
    local,
    settings::Settings,
};

pub(crate) async fn run(command: &RulesCommand, cx: &Context) -> anyhow::Result<Exit> {
    match command {
        RulesCommand::Propose { source } => propose(source.as_ref(), cx).await,
        RulesCommand::Add(args) => change(EditAction::Add, args, cx).await,
        RulesCommand::Set(args) => change(EditAction::Set, args, cx).await,
        RulesCommand::Remove { source, glob, edit: args } => {
            let change = Change::of_rule(EditAction::Remove, source, glob, Map::new());
            edit::run(cx, args, |_| Ok(vec![change])).await
        }
    }
}

async fn propose(source: Option<&SourceId>, cx: &Context) -> anyhow::Result<Exit> {
    let printer = cx.printer;
    let proposals: Vec<Json> = match Client::connect(cx)? {
        Some(client) => client.get_member(&["v1", "config", "rules"], &[], "proposals").await?,
        None => {
            let Settings { config, data_dir, .. } = Settings::load(&cx.global)?;
            let found: Vec<RuleProposal> =
                local::with_sources(config, &data_dir, printer, async |gateway| {
                    Ok(gateway.supply().proposed_rules(None))
                })
                .await?;
            found.iter().map(serde_json::to_value).collect::<Result<_, _>>()?
        }
    };
    let wanted = |proposal: &&Json| {
        source.is_none_or(|id| proposal.get("source").and_then(Json::as_str) == Some(id.as_str()))
    };
    let proposals: Vec<&Json> = proposals.iter().filter(wanted).collect();
    if printer.wants_json() {
        printer.json(&proposals)?;
        return Ok(Exit::Done);
    }
    if proposals.is_empty() {
        printer.note("no rules to propose");
    }
    for proposal in proposals {
        let text = |pointer: &str| {
            proposal.pointer(pointer).and_then(Json::as_str).unwrap_or_default().to_owned()
        };
        let tools = proposal.get("tools").and_then(Json::as_array).into_iter().flatten();
        let tools: Vec<&str> = tools.filter_map(Json::as_str).collect();
        printer.foreign(&format!("source {}: {}", text("/source"), tools.join(", ")))?;
        printer.foreign(&format!("  {}", text("/reason")))?;
        let settings = proposal.pointer("/change/settings").and_then(Json::as_object);
        let settings = settings.into_iter().flatten().map(|(key, value)| match value {
            Json::String(value) => format!(" --set {key}={value}"),
            value => format!(" --set {key}={value}"),
        });
        let (action, name) = (text("/change/action"), quoted(&text("/change/name")));
        let source = text("/source");
        let settings: String = settings.collect();
        printer.foreign(&format!("  toolcrib rules {action} {source} {name}{settings}"))?;
    }
    Ok(Exit::Done)
}

/// Returns `text` as one word of a shell.
fn quoted(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control() && !is_hidden(*c)).collect();
    format!("'{}'", text.replace('\'', "'\\''"))
}

async fn change(action: EditAction, args: &RuleArgs, cx: &Context) -> anyhow::Result<Exit> {
    let mut settings = Map::new();
    if let Some(approval) = args.approval {
        let word = match approval {
            ApprovalArg::Never => "never",
            ApprovalArg::Always => "always",
        };
        settings.insert("approval".to_owned(), json!(word));
    }
    if let Some(tier) = args.tier {
        let word = match tier {
            TierArg::Pure => "pure",
            TierArg::Read => "read",
            TierArg::Write => "write",
        };
        settings.insert("safety_tier".to_owned(), json!(word));
    }
    if !args.scopes.is_empty() {
        settings.insert("scopes".to_owned(), json!(args.scopes));
    }
    settings.extend(edit::settings_of(&args.settings)?);
    if settings.is_empty() {
        return Err(usage("the rule is empty: use --approval, --tier, --scope, --set or --unset"));
    }
    let change = Change::of_rule(action, &args.source, &args.glob, settings);
    edit::run(cx, &args.edit, |_| Ok(vec![change])).await
}
