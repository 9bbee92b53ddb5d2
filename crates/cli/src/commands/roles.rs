//! `roles list|show|add|set|remove`: the roles, what they see, and changes of the configuration file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use toolcrib_config::{
    Config,
    edit::{Change, ChangeKind, EditAction},
};
use toolcrib_core::{id::TenantId, suggest};
use toolcrib_gateway::Gateway;

use super::edit;
use crate::{
    args::{RoleAddArgs, RoleSetArgs, RolesCommand},
    client::Client,
    context::Context,
    failure::{Exit, advised, usage},
    local,
    settings::Settings,
    table::{Column, Kind},
    text::counted,
};

/// A role in the JSON form of the server.
#[derive(Debug, Serialize, Deserialize)]
struct Role {
    name: String,
    scopes: Vec<String>,
    may: Vec<String>,
    tools: usize,
}

/// A tool that a role sees, in the JSON form of the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleTool {
    name: String,
    tool_id: String,
    source: String,
    safety_tier: String,
    approval: String,
}

/// A role with its tools, in the JSON form of the server.
#[derive(Debug, Serialize, Deserialize)]
struct RoleView {
    role: Role,
    tools: Vec<RoleTool>,
}

const COLUMNS: &[Column<Role>] = &[
    Column(Kind::Name, "role", |role| role.name.clone()),
    Column(Kind::Name, "tools", |role| role.tools.to_string()),
    Column(Kind::Text, "scopes", |role| role.scopes.join(" ")),
];

const TOOL_COLUMNS: &[Column<RoleTool>] = &[
    Column(Kind::Name, "tool", |tool| tool.name.clone()),
    Column(Kind::Text, "source", |tool| tool.source.clone()),
    Column(Kind::State, "tier", |tool| tool.safety_tier.clone()),
    Column(Kind::State, "approval", |tool| tool.approval.clone()),
    Column(Kind::Wide, "id", |tool| tool.tool_id.clone()),
];

pub(crate) async fn run(command: &RolesCommand, cx: &Context) -> anyhow::Result<Exit> {
    match command {
        RolesCommand::List(args) => {
            let roles: Vec<Role> = match Client::connect(cx)? {
                Some(client) => client.get_member(&["v1", "roles"], &[], "roles").await?,
                None => here(cx, |gateway| reread(&gateway.roles_in(&args.tenant))).await?,
            };
            cx.printer.list(COLUMNS, &roles, "no role has grants in this tenant")?;
            Ok(Exit::Done)
        }
        RolesCommand::Show { name, of } => show(name, &of.tenant, cx).await,
        RolesCommand::Add(args) => add(args, cx).await,
        RolesCommand::Set(args) => set(args, cx).await,
        RolesCommand::Remove(args) => {
            let change = change(EditAction::Remove, &args.name, Map::new());
            edit::run(cx, &args.edit, |_| Ok(vec![change])).await
        }
    }
}

async fn show(name: &str, tenant: &TenantId, cx: &Context) -> anyhow::Result<Exit> {
    let view: RoleView = match Client::connect(cx)? {
        Some(client) => serde_json::from_value(client.get(&["v1", "roles", name], &[]).await?)?,
        None => {
            here(cx, |gateway| match gateway.role_in(tenant, name) {
                Some((role, tools)) => reread(&json!({ "role": role, "tools": tools })),
                None => Err(unknown(name, gateway)),
            })
            .await?
        }
    };
    let printer = cx.printer;
    if printer.wants_json() {
        printer.json(&view)?;
        return Ok(Exit::Done);
    }
    printer.foreign(&format!("role {}", view.role.name))?;
    printer.line(format_args!("scopes: {}", view.role.scopes.join(" ")))?;
    if !view.role.may.is_empty() {
        printer.line(format_args!("routes: {}", view.role.may.join(" ")))?;
    }
    printer.line(counted(view.tools.len() as u64, "tool"))?;
    if !view.tools.is_empty() {
        printer.table(TOOL_COLUMNS, &view.tools)?;
    }
    Ok(Exit::Done)
}

fn unknown(name: &str, gateway: &Gateway) -> anyhow::Error {
    let roles = gateway.config().roles.clone();
    let suggestion = suggest::did_you_mean(name, roles.keys().map(String::as_str));
    let problem = match roles.contains_key(name) {
        true => "this role has no grants in this tenant".to_owned(),
        false => format!("no such role{suggestion}"),
    };
    advised(problem, "`toolcrib roles list` shows the roles; --tenant selects the tenant")
}

/// Runs `read` with a gateway whose sources have listed their tools.
async fn here<T>(
    cx: &Context,
    read: impl FnOnce(&Gateway) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let Settings { config, data_dir, .. } = Settings::load(&cx.global)?;
    local::with_sources(config, &data_dir, cx.printer, async |gateway| read(gateway)).await
}

/// Converts `value` to the form that a server sends.
fn reread<T: for<'a> Deserialize<'a>>(value: &impl Serialize) -> anyhow::Result<T> {
    Ok(serde_json::from_value(serde_json::to_value(value)?)?)
}

async fn add(args: &RoleAddArgs, cx: &Context) -> anyhow::Result<Exit> {
    edit::run_named(cx, &args.edit, args.own_scope, |_| {
        let mut scopes = args.scopes.clone();
        let mut seen = std::collections::BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        let mut settings = Map::from_iter([("scopes".to_owned(), json!(scopes))]);
        settings.extend(edit::settings_of(&args.settings)?);
        let change = change(EditAction::Add, &args.name, settings);
        Ok(Change { tools: args.tools.clone(), ..change })
    })
    .await
}

async fn set(args: &RoleSetArgs, cx: &Context) -> anyhow::Result<Exit> {
    let settings = edit::settings_of(&args.settings)?;
    let of_scopes = [&args.scopes, &args.tools, &args.remove_scope];
    if settings.is_empty() && of_scopes.iter().all(|list| list.is_empty()) {
        return Err(usage(
            "no change is given: use --scope, --tools, --remove-scope, --set or --unset",
        ));
    }
    edit::run_named(cx, &args.edit, args.own_scope, |config: &Config| {
        let mut settings = settings;
        if of_scopes.iter().any(|list| !list.is_empty()) {
            let current = config.roles.get(&args.name).into_iter().flatten();
            let mut scopes: Vec<String> = current.map(ToString::to_string).collect();
            for scope in &args.remove_scope {
                if !scopes.contains(scope) {
                    let hint = "`toolcrib roles show` prints its scopes";
                    return Err(advised(format!("the role has no scope {scope}"), hint));
                }
            }
            scopes.retain(|scope| !args.remove_scope.contains(scope));
            for scope in &args.scopes {
                if !scopes.contains(scope) {
                    scopes.push(scope.clone());
                }
            }
            settings.insert("scopes".to_owned(), json!(scopes));
        }
        let change = change(EditAction::Set, &args.name, settings);
        Ok(Change { tools: args.tools.clone(), ..change })
    })
    .await
}

fn change(action: EditAction, name: &str, settings: Map<String, serde_json::Value>) -> Change {
    Change::new(action, ChangeKind::Role, name, settings)
}
