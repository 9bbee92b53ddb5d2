//! `keys create|list|rotate|revoke`, and `list` and `revoke` of browser sessions: in the store, which
//! running servers poll, or through a running server.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_config::Config;
use toolcrib_core::{
    clock::Timestamp,
    event::{EventBody, KeyAction, SignInEnded},
    id::{KeyId, PrincipalId, TenantId},
    store::{KeyRecord, KeyRotation, Storage, StoreError},
    suggest,
};
use toolcrib_gateway::{
    authn::{
        self, KeyRequest, NewKey,
        manage::{self, KeyInfo, moment},
        session::SessionInfo,
    },
    key_event,
};
use toolcrib_store::Options;

use crate::{
    args::{KeyCreateArgs, KeysCommand},
    client::Client,
    context::Context,
    failure::{Exit, advised, usage},
    local, prefix,
    printer::Printer,
    settings::Settings,
    store,
    table::{Column, Kind},
    target::Target,
    text::member,
};

/// The most attempts to store an event, and the pause between two.
const RECORD_ATTEMPTS: u32 = 30;
const RECORD_PAUSE: Duration = Duration::from_secs(1);

/// A new key, in the JSON form of the server.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedKey {
    /// The text of the key.
    key: String,
    #[serde(flatten)]
    info: KeyInfo,
    /// When the replaced key expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_key_ends_at: Option<String>,
}

const COLUMNS: &[Column<KeyInfo>] = &[
    Column(Kind::Text, "name", |key| key.name.clone()),
    Column(Kind::State, "state", |key| state(key, Utc::now())),
    Column(Kind::Text, "principal", |key| key.principal.clone()),
    Column(Kind::Wide, "tenant", |key| key.tenant.clone()),
    Column(Kind::Text, "roles", |key| key.roles.join(" ")),
    Column(Kind::Text, "scopes", |key| key.scopes.join(" ")),
    Column(Kind::Wide, "used", |key| {
        key.last_used_at.clone().unwrap_or_else(|| "never".to_owned())
    }),
    Column(Kind::Wide, "created", |key| key.created_at.clone()),
    Column(Kind::Id, "id", |key| key.id.clone()),
];

const SESSION_COLUMNS: &[Column<SessionInfo>] = &[
    Column(Kind::Text, "principal", |session| session.principal.clone()),
    Column(Kind::Text, "browser", |session| session.browser.clone()),
    Column(Kind::Wide, "tenant", |session| session.tenant.clone()),
    Column(Kind::Wide, "key", |session| session.key_id.clone().unwrap_or_default()),
    Column(Kind::Wide, "used", |session| {
        session.last_used_at.clone().unwrap_or_else(|| "never".to_owned())
    }),
    Column(Kind::Wide, "began", |session| session.created_at.clone()),
    Column(Kind::Time, "expires", |session| session.expires_at.clone().unwrap_or_default()),
    Column(Kind::Id, "id", |session| session.id.clone()),
];

pub(crate) async fn run(command: KeysCommand, cx: &Context) -> anyhow::Result<Exit> {
    if let KeysCommand::Create(args) = &command {
        check(args)?;
    }
    let printer = cx.printer;
    let target = match (Client::connect(cx)?, &command) {
        // The first key creates the store.
        (None, KeysCommand::Create(args)) => {
            let settings = Settings::load(&cx.global)?;
            check_grants(args, &settings.config, printer)?;
            store::refuse_second(&settings).await?;
            let store = store::open_or_create(&settings, Options::default(), printer).await?;
            Target::Store(Box::new(settings.config), store)
        }
        (server, _) => Target::of(server, &cx.global).await?,
    };
    let result = executed(command, &target, printer).await;
    target.close().await;
    result.map(|()| Exit::Done)
}

async fn executed(command: KeysCommand, target: &Target, printer: Printer) -> anyhow::Result<()> {
    match command {
        KeysCommand::Create(args) => create(args, target, printer).await,
        KeysCommand::List(args) if args.sessions => list_sessions(target, printer).await,
        KeysCommand::List(_) => list(target, printer).await,
        KeysCommand::Rotate { id, overlap } => {
            let id = completed(id, target, false).await?;
            rotate(&id, overlap, target, printer).await
        }
        KeysCommand::Revoke { id } => {
            let id = completed(id, target, true).await?;
            revoke(&id, target, printer).await
        }
    }
}

/// Completes `typed` to the id of the key, with `sessions` also of the session, that it equals or
/// starts; `typed` if none matches.
async fn completed(typed: KeyId, target: &Target, sessions: bool) -> anyhow::Result<KeyId> {
    if !prefix::is_short(typed.as_str()) {
        return Ok(typed);
    }
    let mut ids: Vec<String> = keys_of(target).await?.into_iter().map(|key| key.id).collect();
    if sessions {
        ids.extend(sessions_of(target).await?.into_iter().map(|session| session.id));
    }
    let found = prefix::resolve(typed.as_str(), "key", ids)?;
    Ok(found.map(KeyId::parse).transpose()?.unwrap_or(typed))
}

async fn keys_of(target: &Target) -> anyhow::Result<Vec<KeyInfo>> {
    match target {
        Target::Store(_, store) => here(&**store).await,
        Target::Server(client) => there(client).await,
    }
}

/// Checks the arguments before a store is opened or created. Requires at least one role or scope: a
/// key without any is almost always a mistake.
fn check(args: &KeyCreateArgs) -> anyhow::Result<()> {
    if authn::is_kept_for_tokens(&principal(args)?) {
        return Err(usage(
            "principals with `|` are reserved for tokens; choose another --principal",
        ));
    }
    if args.tenant.as_ref().is_some_and(|tenant| tenant.as_str() == TenantId::OPERATOR) {
        return Err(usage("the tenant `-` is the record's own; choose another name"));
    }
    if args.roles.is_empty() && args.scopes.is_empty() {
        return Err(usage("a key without --role and --scope permits no tool; give at least one"));
    }
    Ok(())
}

fn principal(args: &KeyCreateArgs) -> anyhow::Result<PrincipalId> {
    match &args.principal {
        Some(principal) => Ok(principal.clone()),
        None => PrincipalId::parse(&args.name)
            .map_err(|_| usage("the name is not a valid principal; set --principal")),
    }
}

/// Fails on an unknown role; warns about a scope that resembles a required one and is likely misspelt.
fn check_grants(args: &KeyCreateArgs, config: &Config, printer: Printer) -> anyhow::Result<()> {
    if let Some(role) = args.roles.iter().find(|role| !config.roles.contains_key(*role)) {
        return Err(unknown_role(role, config));
    }
    let known = config.known_scopes();
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    for scope in &args.scopes {
        let text = scope.to_string();
        let suggestion = suggest::closest(&text, known.iter().map(String::as_str));
        if let Some(suggestion) = suggestion.filter(|suggestion| *suggestion != text) {
            printer.warning(format_args!(
                "the configuration requires no scope `{text}`; did you mean `{suggestion}`?"
            ));
        }
    }
    Ok(())
}

/// Creates the error for a role that `config` does not define.
pub(crate) fn unknown_role(role: &str, config: &Config) -> anyhow::Error {
    let suggestion = suggest::did_you_mean(role, config.roles.keys().map(String::as_str));
    usage(format!("there is no role `{role}` in the configuration{suggestion}"))
}

/// Creates the error for an unknown or inactive key.
fn unknown_key(message: &str, id: &KeyId, keys: &[KeyInfo]) -> anyhow::Error {
    let named = keys.iter().find(|key| key.name == id.as_str());
    let suggestion = match named {
        Some(key) => format!("; did you mean `{}`, which is called {}?", key.id, key.name),
        None => suggest::did_you_mean(id.as_str(), keys.iter().map(|key| key.id.as_str())),
    };
    advised(format!("{message}{suggestion}"), "`toolcrib keys list` shows the ids")
}

/// Refines `error`, the server's refusal to change key `id`: a key missing in the server's list is
/// reported as unknown.
async fn refused(error: anyhow::Error, id: &KeyId, client: &Client) -> anyhow::Error {
    match there(client).await {
        Ok(keys) if !keys.iter().any(|key| key.id == id.as_str()) => {
            unknown_key("no active key with this id", id, &keys)
        }
        Ok(_) | Err(_) => error,
    }
}

async fn here(store: &dyn Storage) -> anyhow::Result<Vec<KeyInfo>> {
    Ok(infos(&store.keys().list().await?))
}

/// Describes `keys`, without sessions.
fn infos(keys: &[KeyRecord]) -> Vec<KeyInfo> {
    keys.iter().filter(|key| key.session.is_none()).map(KeyInfo::from).collect()
}

async fn there(client: &Client) -> anyhow::Result<Vec<KeyInfo>> {
    client.get_member(&["v1", "keys"], &[], "keys").await
}

async fn create(args: KeyCreateArgs, target: &Target, printer: Printer) -> anyhow::Result<()> {
    let principal = principal(&args)?;
    let now = Utc::now();
    let expires_at = args.expires.map(|lifetime| now + lifetime);
    match target {
        Target::Server(client) => {
            if args.tenant.is_some() {
                return Err(usage(
                    "the server creates keys in the caller's tenant; remove --tenant",
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
            show(client.post(&["v1", "keys"], Some(&body)).await?, printer)
        }
        Target::Store(_, store) => {
            let tenant = args.tenant.map_or_else(|| TenantId::parse("default"), Ok)?;
            let (name, roles, scopes) = (args.name, args.roles, args.scopes);
            let request = KeyRequest { name, tenant, principal, roles, scopes, expires_at };
            let key = authn::new_key(request, now)?;
            record(&**store, KeyAction::Created, &key.record, printer).await?;
            store.keys().insert(key.record.clone()).await.context("the key was not stored")?;
            show(created(&key, None)?, printer)
        }
    }
}

async fn rotate(
    id: &KeyId,
    overlap: Duration,
    target: &Target,
    printer: Printer,
) -> anyhow::Result<()> {
    let now = Utc::now();
    let until = manage::end_of_overlap(now, overlap)
        .ok_or_else(|| usage("an overlap is at most 30 days"))?;
    let storage = match target {
        Target::Server(client) => {
            let body = json!({ "overlapSeconds": overlap.as_secs() });
            return match client.post(&["v1", "keys", id.as_str(), "rotate"], Some(&body)).await {
                Ok(created) => show(created, printer),
                Err(error) => Err(refused(error, id, client).await),
            };
        }
        Target::Store(_, store) => store,
    };
    let store = storage.keys();
    let mut keys = store.list().await?;
    keys.retain(|key| key.session.is_none());
    let gone = || unknown_key("no active key with this id", id, &infos(&keys));
    let rotated = |rotation| match rotation {
        KeyRotation::Rotated => Ok(()),
        KeyRotation::NoActiveKey => Err(gone()),
        KeyRotation::AlreadyReplaced => Err(advised(
            "another key follows this one already",
            "rotate that key; `toolcrib keys list --json` shows it under `replaces`",
        )),
    };
    let old = keys.iter().find(|key| key.id == *id).ok_or_else(gone)?;
    rotated(manage::rotation(&keys, old, now))?;
    let key = authn::next_key(old, now)?;
    record(&**storage, KeyAction::Created, &key.record, printer).await?;
    let stored = store.rotate(id, key.record.clone(), until).await;
    rotated(stored.context("the key was not stored")?)?;
    show(created(&key, Some(old.expires_at.map_or(until, |end| end.min(until))))?, printer)
}

async fn list(target: &Target, printer: Printer) -> anyhow::Result<()> {
    let keys = keys_of(target).await?;
    printer.list(COLUMNS, &keys, "there are no keys; create one with `toolcrib keys create`")
}

async fn list_sessions(target: &Target, printer: Printer) -> anyhow::Result<()> {
    let sessions = sessions_of(target).await?;
    printer.list(SESSION_COLUMNS, &sessions, "no active sessions")
}

async fn sessions_of(target: &Target) -> anyhow::Result<Vec<SessionInfo>> {
    match target {
        Target::Store(_, store) => {
            let now = Utc::now();
            let mut keys = store.keys().list().await?;
            keys.retain(|key| {
                key.is_session()
                    && key.revoked_at.is_none()
                    && key.expires_at.is_none_or(|end| now < end)
            });
            Ok(keys.iter().map(SessionInfo::from).collect())
        }
        Target::Server(client) => client.get_member(&["v1", "sessions"], &[], "sessions").await,
    }
}

async fn revoke(id: &KeyId, target: &Target, printer: Printer) -> anyhow::Result<()> {
    let (at, note) = match target {
        Target::Server(client) => {
            let response = match client.delete(&["v1", "keys", id.as_str()]).await {
                Ok(response) => response,
                Err(error) => return Err(refused(error, id, client).await),
            };
            (
                member(&response, "revokedAt").to_owned(),
                "revoked; the server refuses it from now on",
            )
        }
        Target::Store(_, store) => {
            let now = Utc::now();
            let all = store.keys().list().await?;
            let revoked = all.iter().find(|key| key.id == *id);
            let Some(key) = revoked.filter(|key| key.revoked_at.is_none()) else {
                let keys = infos(&all);
                return Err(unknown_key("no active key with this id", id, &keys));
            };
            store.keys().revoke(id, now).await?;
            record(&**store, KeyAction::Revoked, key, printer)
                .await
                .context("the key is revoked; its event is missing in the record")?;
            (moment(now), "revoked; running servers refuse it within a second")
        }
    };
    printer.json_or_note(&json!({ "id": id, "revokedAt": at }), note)
}

/// Records an action of the operator on a key, or the end of a session.
async fn record(
    store: &dyn Storage,
    action: KeyAction,
    key: &KeyRecord,
    printer: Printer,
) -> anyhow::Result<()> {
    let operator = local::operator(key.tenant.clone(), Vec::new())?;
    let mut event = key_event(&operator, action, key, Utc::now());
    if key.session.is_some() {
        event.body = EventBody::SignInEnded(SignInEnded {
            principal: key.principal.clone(),
            session_id: key.id.to_string(),
            by: Some(operator.id),
        });
    }
    // Servers that share the store may hold it for a moment.
    let mut attempts = 1;
    loop {
        match store.events().append(std::slice::from_ref(&event)).await {
            Err(StoreError::Unavailable(_)) if attempts < RECORD_ATTEMPTS => {
                if attempts == 1 {
                    printer.note("the record is busy; waiting to store the event of this change");
                }
                attempts += 1;
            }
            recorded => return recorded.map(drop).context("the change cannot be recorded"),
        }
        tokio::time::sleep(RECORD_PAUSE).await;
    }
}

/// The JSON form of a key that was created in the store; `until` is when the rotated key expires.
fn created(key: &NewKey, until: Option<Timestamp>) -> anyhow::Result<Value> {
    let (text, info) = (key.text.expose().to_owned(), KeyInfo::from(&key.record));
    Ok(serde_json::to_value(CreatedKey { key: text, info, old_key_ends_at: until.map(moment) })?)
}

/// Prints a created key in the JSON form of the server.
fn show(created: Value, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(&created);
    }
    let Ok(CreatedKey { key, info, old_key_ends_at }) = serde_json::from_value(created) else {
        return Err(advised(
            "the server returned no key",
            "is this the address of a toolcrib server?",
        ));
    };
    let KeyInfo { id, principal, tenant, replaces, .. } = info;
    printer.note(format_args!(
        "key {id} of principal {principal} in tenant {tenant}; this is the only time its text is \
         shown:"
    ));
    if let Some(end) = old_key_ends_at {
        printer.note(format_args!("key {} works until {end}", replaces.unwrap_or_default()));
    }
    printer.line(key)
}

fn state(key: &KeyInfo, now: DateTime<Utc>) -> String {
    let ended = |end: &str| DateTime::parse_from_rfc3339(end).is_ok_and(|end| end <= now);
    match (&key.revoked_at, &key.expires_at) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(end)) if ended(end) => format!("expired {end}"),
        (None, Some(end)) => format!("expires {end}"),
        (None, None) => "active".to_owned(),
    }
}
