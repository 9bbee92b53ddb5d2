//! `keys create|list|rotate|revoke`: on the store, which running servers follow, or through a
//! running server.

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use toolcrib_core::{
    clock::Timestamp,
    id::{KeyId, PrincipalId, TenantId},
    store::KeyStore as _,
};
use toolcrib_gateway::authn::{
    self, KeyRequest, NewKey,
    manage::{self, KeyInfo, moment},
};
use toolcrib_store::SqliteStore;

use crate::{
    args::{Global, KeyCreateArgs, KeysCommand},
    client::Client,
    failure::{Exit, advised, usage},
    printer::Printer,
    settings::Settings,
    store,
};

/// Where keys are kept.
enum Place {
    Here(SqliteStore),
    Remote(Client),
}

pub(crate) async fn run(
    command: KeysCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    if let KeysCommand::Create(args) = &command {
        check(args)?;
    }
    let place = match Client::connect(global, printer)? {
        Some(client) => Place::Remote(client),
        None => {
            let settings = Settings::load(global)?;
            Place::Here(match &command {
                KeysCommand::Create(args) => {
                    check_roles(args, &settings, printer);
                    store::open(&settings.config)?
                }
                _ => store::open_existing(&settings.config)?,
            })
        }
    };
    let result = match command {
        KeysCommand::Create(args) => create(args, &place, printer).await,
        KeysCommand::List => list(&place, printer).await,
        KeysCommand::Rotate { id, overlap } => rotate(&id, overlap, &place, printer).await,
        KeysCommand::Revoke { id } => revoke(&id, &place, printer).await,
    };
    if let Place::Here(store) = place {
        store.close().await;
    }
    result
}

/// A key that can do nothing is almost always a mistake.
fn check(args: &KeyCreateArgs) -> anyhow::Result<()> {
    if args.roles.is_empty() && args.scopes.is_empty() {
        return Err(usage("a key needs at least one --role or --scope, or it may use nothing"));
    }
    Ok(())
}

/// One with an unknown role may be early.
fn check_roles(args: &KeyCreateArgs, settings: &Settings, printer: Printer) {
    for role in &args.roles {
        if !settings.config.roles.contains_key(role) {
            printer.warning(format_args!(
                "there is no role `{role}` in the configuration; until there is, it gives nothing"
            ));
        }
    }
}

async fn create(args: KeyCreateArgs, place: &Place, printer: Printer) -> anyhow::Result<Exit> {
    let principal = match args.principal {
        Some(principal) => principal,
        None => PrincipalId::parse(&args.name)
            .map_err(|_| usage("this name cannot be a principal too; say --principal"))?,
    };
    if authn::is_kept_for_tokens(&principal) {
        return Err(usage("a principal with `|` is kept for tokens; choose another --principal"));
    }
    let now = Utc::now();
    let expires_at = match args.expires {
        None => None,
        Some(lifetime) => Some(now + chrono::Duration::from_std(lifetime)?),
    };
    match place {
        Place::Remote(client) => {
            if args.tenant.is_some() {
                return Err(usage(
                    "the server makes keys in the caller's tenant; leave --tenant out",
                ));
            }
            let scopes: Vec<_> = args.scopes.iter().map(ToString::to_string).collect();
            let mut body = json!({
                "name": args.name,
                "principal": principal,
                "roles": args.roles,
                "scopes": scopes,
            });
            if let (Some(end), Some(body)) = (expires_at, body.as_object_mut()) {
                body.insert("expiresAt".to_owned(), json!(moment(end)));
            }
            show_told(client.send(&["v1", "keys"], &body).await?, printer)
        }
        Place::Here(store) => {
            let tenant = match args.tenant {
                Some(tenant) => tenant,
                None => TenantId::parse("default")?,
            };
            if tenant.as_str() == TenantId::OPERATOR {
                return Err(usage("the tenant `-` is the record's own; choose another name"));
            }
            let (name, roles, scopes) = (args.name, args.roles, args.scopes);
            let request = KeyRequest { name, tenant, principal, roles, scopes, expires_at };
            let key = authn::new_key(request, now)?;
            store.insert(key.record.clone()).await.context("the key was not stored")?;
            show(&key, None, printer)
        }
    }
}

async fn rotate(
    id: &KeyId,
    overlap: std::time::Duration,
    place: &Place,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let now = Utc::now();
    let until = manage::end_of_overlap(now, overlap)
        .ok_or_else(|| usage("an overlap is at most 30 days"))?;
    let store = match place {
        Place::Remote(client) => {
            let body = json!({ "overlapSeconds": overlap.as_secs() });
            let told = client.send(&["v1", "keys", id.as_str(), "rotate"], &body).await?;
            return show_told(told, printer);
        }
        Place::Here(store) => store,
    };
    let keys = store.list().await?;
    let gone =
        || advised("there is no key of this id that works", "`toolcrib keys list` shows the ids");
    let old = keys.iter().find(|key| key.id == *id).ok_or_else(gone)?;
    if manage::is_followed(&keys, id) {
        return Err(advised(
            "another key follows this one already",
            "rotate that one; `toolcrib keys list --json` shows what it replaces",
        ));
    }
    let key = authn::next_key(old, now)?;
    if !store.rotate(id, key.record.clone(), until).await.context("the key was not stored")? {
        return Err(gone());
    }
    show(&key, Some(old.expires_at.map_or(until, |end| end.min(until))), printer)
}

async fn list(place: &Place, printer: Printer) -> anyhow::Result<Exit> {
    let keys: Vec<KeyInfo> = match place {
        Place::Here(store) => store.list().await?.iter().map(KeyInfo::from).collect(),
        Place::Remote(client) => {
            let told = client.get(&["v1", "keys"], &[]).await?;
            serde_json::from_value(told.get("keys").cloned().unwrap_or(Value::Null))?
        }
    };
    if printer.wants_json() {
        printer.json(&keys)?;
        return Ok(Exit::Done);
    }
    if keys.is_empty() {
        printer.note("there are no keys; `toolcrib keys create` makes one");
        return Ok(Exit::Done);
    }
    let rows = keys.into_iter().map(|key| {
        let state = state(&key, Utc::now());
        [
            key.id,
            key.name,
            key.tenant,
            key.principal,
            key.roles.join(" "),
            key.scopes.join(" "),
            key.created_at,
            key.last_used_at.unwrap_or_else(|| "never".to_owned()),
            state,
        ]
    });
    let head = ["id", "name", "tenant", "principal", "roles", "scopes", "created", "used", "state"];
    printer.table(head, rows)?;
    Ok(Exit::Done)
}

async fn revoke(id: &KeyId, place: &Place, printer: Printer) -> anyhow::Result<Exit> {
    let (at, note) = match place {
        Place::Remote(client) => {
            let told = client.delete(&["v1", "keys", id.as_str()]).await?;
            let at = told.get("revokedAt").and_then(Value::as_str).unwrap_or_default().to_owned();
            (at, "revoked; the server refuses it from now on")
        }
        Place::Here(store) => {
            let now = Utc::now();
            if !store.revoke(id, now).await? {
                return Err(advised(
                    "there is no key of this id that is not revoked already",
                    "`toolcrib keys list` shows the ids",
                ));
            }
            (moment(now), "revoked; running servers refuse it within a second")
        }
    };
    match printer.wants_json() {
        true => printer.json(&json!({ "id": id, "revokedAt": at }))?,
        false => printer.note(note),
    }
    Ok(Exit::Done)
}

/// Prints a key that was made here, and when the one before it ends.
fn show(key: &NewKey, until: Option<Timestamp>, printer: Printer) -> anyhow::Result<Exit> {
    let mut told = Map::new();
    told.insert("id".to_owned(), json!(key.record.id));
    told.insert("key".to_owned(), json!(key.text.expose()));
    if let Value::Object(rest) = serde_json::to_value(KeyInfo::from(&key.record))? {
        told.extend(rest);
    }
    if let Some(until) = until {
        told.insert("oldKeyEndsAt".to_owned(), json!(moment(until)));
    }
    show_told(Value::Object(told), printer)
}

/// Prints a key that was made, as it is told.
fn show_told(told: Value, printer: Printer) -> anyhow::Result<Exit> {
    if printer.wants_json() {
        printer.json(&told)?;
        return Ok(Exit::Done);
    }
    let text = |name: &str| told.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("key").is_empty() {
        return Err(advised("the server told no key", "is this the address of a toolcrib server?"));
    }
    printer.note(format_args!(
        "key {} of principal {} in tenant {}; this is the only time its text is shown:",
        text("id"),
        text("principal"),
        text("tenant")
    ));
    if let Some(end) = told.get("oldKeyEndsAt").and_then(Value::as_str) {
        printer.note(format_args!("key {} works until {end}", text("replaces")));
    }
    printer.line(text("key"))?;
    Ok(Exit::Done)
}

fn state(key: &KeyInfo, now: DateTime<Utc>) -> String {
    let ended = |end: &str| DateTime::parse_from_rfc3339(end).is_ok_and(|end| end <= now);
    match (&key.revoked_at, &key.expires_at) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(end)) if ended(end) => format!("expired {end}"),
        (None, Some(end)) => format!("until {end}"),
        (None, None) => "active".to_owned(),
    }
}
