//! `explain`: the reasons why a principal can or cannot call a tool, or has a certain tool list.
//!
//! On the store of the configuration, the explanation is complete. A running server limits it to what
//! the principal itself may see, and explains other principals only with `explain:others` (I-85).

use std::collections::BTreeMap;

use anyhow::Context as _;
use chrono::Utc;
use serde::Deserialize;
use serde_json::{Value, json};
use toolcrib_config::Config;
use toolcrib_core::{
    authorize::CallContext,
    call::CallInput,
    id::{KeyId, PrincipalId, TenantId},
    principal::{AuthMethod, Principal},
    scope::{Grant, Scope},
    store::KeyRecord,
    suggest,
};
use toolcrib_gateway::{
    authn::{self, Rights},
    explain::{Step, StepName, StepResult, Verdict},
};

use crate::{
    args::ExplainArgs,
    client::Client,
    commands::keys,
    context::Context,
    failure::{Exit, advised, usage},
    local, prefix,
    printer::Printer,
    settings::Settings,
    store,
    text::member,
};

pub(crate) async fn run(args: &ExplainArgs, cx: &Context) -> anyhow::Result<Exit> {
    let explanation = match Client::connect(cx)? {
        Some(client) => remote(args, &client, cx.printer).await?,
        None => here(args, cx).await?,
    };
    print(&explanation, args.tool.as_deref(), cx.printer)?;
    let outcome = member(&explanation, "outcome");
    let passing = [Verdict::Allowed, Verdict::Depends, Verdict::NeedsApproval];
    match passing.iter().any(|verdict| json!(verdict) == outcome) {
        true => Ok(Exit::Done),
        false => Ok(Exit::Failed),
    }
}

/// The server's explanation for the caller, or for another principal of its tenant.
async fn remote(args: &ExplainArgs, client: &Client, printer: Printer) -> anyhow::Result<Value> {
    let for_the_store = args.tenant.is_some()
        || (args.key_id.is_some() && args.principal.is_none())
        || !args.scopes.is_empty()
        || !args.roles.is_empty()
        || args.arguments_shape.is_some();
    if for_the_store {
        return Err(usage(
            "with --url only --tool, --principal and --key-id (of that principal) are possible; for \
             other options run this on the machine of the store",
        ));
    }
    let tool = args.tool.as_deref().map(|tool| ("tool", tool));
    let who = args.principal.as_ref().map(|who| ("principal", who.as_str()));
    let key_id = match &args.key_id {
        // A caller that may not list the keys writes the id in full.
        Some(id) if prefix::is_short(id.as_str()) => {
            let known = client.get_names(&["v1", "keys"], "keys", "id").await.unwrap_or_default();
            Some(completed(id, known)?)
        }
        id => id.clone(),
    };
    let key = key_id.as_ref().map(|key| ("keyId", key.as_str()));
    let query: Vec<(&str, &str)> = [tool, who, key].into_iter().flatten().collect();
    let mut explanation = client.get(&["v1", "explain"], &query).await?;
    // Suggests only names in the caller's own list.
    if let (Some(tool), "unknown") = (args.tool.as_deref(), member(&explanation, "outcome"))
        && let Ok(listed) = client.mcp_tools().await
    {
        let known = listed.iter().map(|entry| entry.name.as_str());
        note_suggestion(&suggest::did_you_mean(tool, known), printer);
    }
    let lacks = ["denied", "hidden"].contains(&member(&explanation, "outcome"));
    // Without `roles:read` they stay unknown.
    if lacks && let Ok(roles) = client.get_member(&["v1", "roles"], &[], "roles").await {
        let roles: Vec<GivenRole> = roles;
        let roles = roles.into_iter().map(|role| {
            let grants = role.scopes.iter().filter_map(|text| Grant::parse(text).ok()).collect();
            (role.name, grants)
        });
        name_roles(&mut explanation, &roles.collect());
    }
    Ok(explanation)
}

/// A role in the response of a server.
#[derive(Deserialize)]
struct GivenRole {
    name: String,
    scopes: Vec<String>,
}

/// Adds to each missing scope of `explanation` the roles that have it.
fn name_roles(explanation: &mut Value, roles: &BTreeMap<String, Vec<Grant>>) {
    let steps = explanation.get_mut("steps").and_then(Value::as_array_mut);
    let required = steps
        .into_iter()
        .flatten()
        .filter_map(|step| step.get_mut("details")?.get_mut("required")?.as_array_mut());
    for needed in required.flatten().filter(|entry| entry.get("grant").is_some_and(Value::is_null))
    {
        let Ok(scope) = Scope::parse(member(needed, "scope")) else { continue };
        let has_it = |grants: &[Grant]| grants.iter().any(|grant| grant.covers(&scope));
        let names: Vec<&String> =
            roles.iter().filter(|(_, grants)| has_it(grants)).map(|(name, _)| name).collect();
        let names = json!(names);
        if let Some(members) = needed.as_object_mut() {
            members.insert("roles".to_owned(), names);
        }
    }
}

/// Completes `typed` to the one of `known` that it equals or starts; `typed` if none matches.
fn completed(typed: &KeyId, known: impl IntoIterator<Item = String>) -> anyhow::Result<KeyId> {
    let found = prefix::resolve(typed.as_str(), "key", known)?;
    Ok(found.map(KeyId::parse).transpose()?.unwrap_or_else(|| typed.clone()))
}

/// Suggests the tool with the closest name, if there is one.
fn note_suggestion(suggestion: &str, printer: Printer) {
    if !suggestion.is_empty() {
        printer.note(format_args!("no such tool{suggestion}"));
    }
}

async fn here(args: &ExplainArgs, cx: &Context) -> anyhow::Result<Value> {
    let input: Option<Value> = args
        .arguments_shape
        .as_deref()
        .map(serde_json::from_str)
        .transpose()
        .map_err(|_| usage("--arguments-shape must be JSON, such as '{\"path\": \"x\"}'"))?;
    let input = input.map(CallInput::from);
    let Settings { config, data_dir, .. } = Settings::load(&cx.global)?;
    let (who, identity) = identify(args, &config).await?;
    let roles = config.roles.clone();
    let mut explanation = local::with_sources(config, &data_dir, cx.printer, async |gateway| {
        let call = input.as_ref().map(|input| CallContext { surface: &args.surface, input });
        let explanation = gateway.explain(&who, args.tool.as_deref(), call).await;
        if let (Some(tool), Verdict::Unknown) = (args.tool.as_deref(), explanation.outcome) {
            note_suggestion(&local::suggestion(gateway, tool), cx.printer);
        }
        Ok(explanation)
    })
    .await?;
    if identity.result == StepResult::Stop {
        explanation.outcome = Verdict::Denied;
    }
    explanation.steps.insert(0, identity);
    let mut explanation = serde_json::to_value(&explanation)?;
    name_roles(&mut explanation, &roles);
    Ok(explanation)
}

/// The principal to explain, and the identity step with the validity of its key.
async fn identify(args: &ExplainArgs, config: &Config) -> anyhow::Result<(Principal, Step)> {
    if !args.scopes.is_empty() || !args.roles.is_empty() {
        let id = match &args.principal {
            Some(id) => id.clone(),
            None => PrincipalId::parse("somebody")?,
        };
        let tenant = args.tenant.clone().map_or_else(|| TenantId::parse("default"), Ok)?;
        let roles = known_roles(config, &args.roles)?;
        let who = principal(id, tenant, &args.scopes, roles, config, AuthMethod::Operator);
        let message = "uses the given scopes and roles; no key was checked";
        return Ok((who, Step::new(StepName::Identity, StepResult::Pass, message)));
    }
    if args.principal.is_none() && args.key_id.is_none() {
        return Err(usage("select a principal with --principal, --key-id, or --scope and --role"));
    }
    let store = store::open_existing(config).await?;
    let keys = store.keys().list().await.context("the keys could not be read");
    store.close().await;
    let key = chosen(args, &keys?)?;
    let auth = AuthMethod::ApiKey(key.id.clone());
    let (id, tenant) = (key.principal.clone(), key.tenant.clone());
    let who = principal(id, tenant, &key.scopes, &key.roles, config, auth);
    Ok((who, identity(&key, config)))
}

/// Selects the key of the arguments.
///
/// Prefers valid keys. Fails if no key matches, or if valid keys differ in scopes or roles.
fn chosen(args: &ExplainArgs, keys: &[KeyRecord]) -> anyhow::Result<KeyRecord> {
    let now = Utc::now();
    let known = keys.iter().filter(|key| key.session.is_none()).map(|key| key.id.to_string());
    let key_id = args.key_id.as_ref().map(|id| completed(id, known)).transpose()?;
    let matching = |key: &&KeyRecord| {
        key.session.is_none()
            && key_id.as_ref().is_none_or(|id| key.id == *id)
            && args.principal.as_ref().is_none_or(|id| key.principal == *id)
            && (args.tenant.as_ref().is_none_or(|tenant| key.tenant == *tenant))
            && (args.tenant.is_some() || args.key_id.is_some() || key.tenant.as_str() == "default")
    };
    let matching: Vec<&KeyRecord> = keys.iter().filter(matching).collect();
    let holds =
        |key: &KeyRecord| key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now);
    let live: Vec<&KeyRecord> = matching.iter().copied().filter(|key| holds(key)).collect();
    let Some(first) = live.first().or(matching.last()) else {
        return Err(advised(
            "no key matches",
            "`toolcrib keys list` shows keys with principals and tenants; for a principal of a token \
             use --scope and --role",
        ));
    };
    let same = |key: &&KeyRecord| key.scopes == first.scopes && key.roles == first.roles;
    if !live.iter().all(same) {
        let ids: Vec<&str> = live.iter().map(|key| key.id.as_str()).collect();
        return Err(usage(format!(
            "this principal has keys with different scopes or roles; select one with --key-id ({})",
            ids.join(", ")
        )));
    }
    Ok((*first).clone())
}

fn identity(key: &KeyRecord, config: &Config) -> Step {
    let now = Utc::now();
    let details = json!({ "keyId": key.id, "roles": key.roles });
    let (result, message) = if key.revoked_at.is_some() {
        (StepResult::Stop, format!("the key {} is revoked", key.id))
    } else if key.expires_at.is_some_and(|end| end <= now) {
        (StepResult::Stop, format!("the key {} has expired", key.id))
    } else {
        let unknown: Vec<&str> = key
            .roles
            .iter()
            .filter(|role| !config.roles.contains_key(*role))
            .map(String::as_str)
            .collect();
        let message = match unknown.is_empty() {
            true => format!("the key {} is valid", key.id),
            false => format!(
                "the key {} is valid; these roles are not in the configuration and have no effect: {}",
                key.id,
                unknown.join(", ")
            ),
        };
        (StepResult::Pass, message)
    };
    Step::new(StepName::Identity, result, message).with(details)
}

fn known_roles<'a>(config: &Config, roles: &'a [String]) -> anyhow::Result<&'a [String]> {
    match roles.iter().find(|role| !config.roles.contains_key(*role)) {
        Some(role) => Err(keys::unknown_role(role, config)),
        None => Ok(roles),
    }
}

fn principal(
    id: PrincipalId,
    tenant: TenantId,
    scopes: &[Grant],
    roles: &[String],
    config: &Config,
    auth: AuthMethod,
) -> Principal {
    let Rights { roles, scopes } = authn::rights(&config.roles, roles, scopes);
    Principal { id, tenant, scopes, roles, makers: Vec::new(), auth, session: None }
}

fn print(explanation: &Value, requested: Option<&str>, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(explanation);
    }
    let text = |name: &str| member(explanation, name);
    let array = |name: &str| {
        explanation.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    };
    let grants: Vec<&str> = array("grants").iter().filter_map(Value::as_str).collect();
    let held = if grants.is_empty() { "nothing".to_owned() } else { grants.join(" ") };
    let actors: Vec<&str> = array("actors").iter().filter_map(Value::as_str).collect();
    let acting = match actors.as_slice() {
        [] => String::new(),
        actors => format!(", for whom {} acts", actors.join(", and for that ")),
    };
    printer.foreign(&format!(
        "principal {} of tenant {}{acting}, holding {held}",
        text("principal"),
        text("tenant")
    ))?;
    match explanation.get("tools").and_then(Value::as_u64) {
        Some(tools) => printer.foreign(&format!("its lists show {tools} tools"))?,
        None => {
            // The response omits the name of an unknown tool.
            let tool = Some(text("tool")).filter(|tool| !tool.is_empty()).or(requested);
            printer.foreign(&format!("tool {}", tool.unwrap_or_default()))?;
        }
    }
    for step in array("steps") {
        let text = |name: &str| member(step, name);
        let line = format!("  {:<8}{:<9} {}", text("result"), text("step"), text("message"));
        printer.foreign(&line)?;
        let required = step.pointer("/details/required").and_then(Value::as_array);
        for needed in required.into_iter().flatten() {
            let Some(roles) = needed.get("roles").and_then(Value::as_array) else { continue };
            let names: Vec<&str> = roles.iter().filter_map(Value::as_str).collect();
            let scope = member(needed, "scope");
            let line = match names.as_slice() {
                [] => format!("no role has `{scope}`"),
                names => format!("roles with `{scope}`: {}", names.join(", ")),
            };
            printer.foreign(&format!("  {:<18}{line}", ""))?;
        }
    }
    let outcome = match (text("outcome"), explanation.get("tools").is_some()) {
        ("allowed", true) => "it sees tools",
        ("hidden", true) => "its list is empty",
        ("allowed", false) => "a call would run",
        ("depends", _) => "a call would run or not, depending on its arguments",
        ("needs_approval", _) => "a call would wait until a person consents",
        ("unavailable", _) => {
            "a call would be permitted, but its source or its credential is unavailable"
        }
        ("denied", _) => "a call would be refused",
        ("hidden", false) => "no list shows it, and a call would be refused",
        _ => "no such tool",
    };
    printer.foreign(&format!("{}: {outcome}", text("outcome")))
}
