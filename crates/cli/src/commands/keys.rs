//! `keys create|list|revoke`: on the store; running servers follow it.

use anyhow::Context as _;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use toolcrib_core::{
    id::{KeyId, PrincipalId, TenantId},
    store::{KeyRecord, KeyStore as _},
};
use toolcrib_gateway::authn::{self, KeyRequest};
use toolcrib_store::SqliteStore;

use crate::{
    args::{Global, KeyCreateArgs, KeysCommand},
    failure::{Exit, advised, usage},
    printer::Printer,
    settings::{self, Settings},
    store,
};

pub(crate) async fn run(
    command: KeysCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    settings::no_url(global, "keys are managed")?;
    let settings = Settings::load(global)?;
    let store = match &command {
        KeysCommand::Create(args) => {
            check(args, &settings, printer)?;
            store::open(&settings.config)?
        }
        KeysCommand::List | KeysCommand::Revoke { .. } => store::open_existing(&settings.config)?,
    };
    let result = match command {
        KeysCommand::Create(args) => create(args, &store, printer).await,
        KeysCommand::List => list(&store, printer).await,
        KeysCommand::Revoke { id } => revoke(&id, &store, printer).await,
    };
    store.close().await;
    result
}

/// A key that can do nothing is almost always a mistake; one with an unknown role may be early.
fn check(args: &KeyCreateArgs, settings: &Settings, printer: Printer) -> anyhow::Result<()> {
    if args.roles.is_empty() && args.scopes.is_empty() {
        return Err(usage("a key needs at least one --role or --scope, or it may use nothing"));
    }
    for role in &args.roles {
        if !settings.config.roles.contains_key(role) {
            printer.warning(format_args!(
                "there is no role `{role}` in the configuration; until there is, it gives nothing"
            ));
        }
    }
    Ok(())
}

async fn create(
    args: KeyCreateArgs,
    store: &SqliteStore,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let principal = match args.principal {
        Some(principal) => principal,
        None => PrincipalId::parse(&args.name)
            .map_err(|_| usage("this name cannot be a principal too; say --principal"))?,
    };
    if args.tenant.as_str() == TenantId::OPERATOR {
        return Err(usage("the tenant `-` is the record's own; choose another name"));
    }
    let now = Utc::now();
    let expires_at = match args.expires {
        None => None,
        Some(lifetime) => Some(now + chrono::Duration::from_std(lifetime)?),
    };
    let request = KeyRequest {
        name: args.name,
        tenant: args.tenant,
        principal,
        roles: args.roles,
        scopes: args.scopes,
        expires_at,
    };
    let key = authn::new_key(request, now)?;
    store.insert(key.record.clone()).await.context("the key was not stored")?;
    match printer.wants_json() {
        true => {
            let mut shown = json!({ "id": key.record.id, "key": key.text.expose() });
            if let (Some(shown), Value::Object(rest)) = (shown.as_object_mut(), public(&key.record))
            {
                shown.extend(rest);
            }
            printer.json(&shown)?;
        }
        false => {
            printer.note(format_args!(
                "key {} of principal {} in tenant {}; this is the only time its text is shown:",
                key.record.id, key.record.principal, key.record.tenant
            ));
            printer.line(key.text.expose())?;
        }
    }
    Ok(Exit::Done)
}

async fn list(store: &SqliteStore, printer: Printer) -> anyhow::Result<Exit> {
    let keys = store.list().await?;
    if printer.wants_json() {
        printer.json(&keys.iter().map(public).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    if keys.is_empty() {
        printer.note("there are no keys; `toolcrib keys create` makes one");
        return Ok(Exit::Done);
    }
    let rows = keys.iter().map(|key| {
        [
            key.id.to_string(),
            key.name.clone(),
            key.tenant.to_string(),
            key.principal.to_string(),
            key.roles.join(" "),
            scopes(key).join(" "),
            moment(key.created_at),
            state(key, Utc::now()),
        ]
    });
    let head = ["id", "name", "tenant", "principal", "roles", "scopes", "created", "state"];
    printer.table(head, rows)?;
    Ok(Exit::Done)
}

async fn revoke(id: &KeyId, store: &SqliteStore, printer: Printer) -> anyhow::Result<Exit> {
    let now = Utc::now();
    if !store.revoke(id, now).await? {
        return Err(advised(
            "there is no key of this id that is not revoked already",
            "`toolcrib keys list` shows the ids",
        ));
    }
    match printer.wants_json() {
        true => printer.json(&json!({ "id": id, "revokedAt": moment(now) }))?,
        false => printer.note("revoked; running servers refuse it within a second"),
    }
    Ok(Exit::Done)
}

/// A key without its digest.
fn public(key: &KeyRecord) -> Value {
    json!({
        "id": key.id,
        "name": key.name,
        "tenant": key.tenant,
        "principal": key.principal,
        "roles": key.roles,
        "scopes": scopes(key),
        "createdAt": moment(key.created_at),
        "expiresAt": key.expires_at.map(moment),
        "revokedAt": key.revoked_at.map(moment),
    })
}

fn scopes(key: &KeyRecord) -> Vec<&str> {
    key.scopes.iter().map(|grant| grant.as_str()).collect()
}

fn state(key: &KeyRecord, now: DateTime<Utc>) -> String {
    match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {}", moment(at)),
        (None, Some(end)) if end <= now => format!("expired {}", moment(end)),
        (None, Some(end)) => format!("until {}", moment(end)),
        (None, None) => "active".to_owned(),
    }
}

fn moment(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}
