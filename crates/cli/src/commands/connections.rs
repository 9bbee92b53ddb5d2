//! `connections list|connect|disconnect`: the accounts of callers at the services of sources, on a
//! running server.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::{
    args::{ConnectArgs, ConnectionsCommand, DisconnectArgs},
    browser,
    client::Client,
    context::Context,
    failure::{Exit, advised},
    prefix,
    printer::Printer,
    table::{Column, Kind},
    text::member,
};

/// The pause between two looks at whether the account is connected.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest wait, whatever the server says about its link.
const LONGEST_WAIT: chrono::Duration = chrono::Duration::minutes(30);

const COLUMNS: &[Column<Value>] = &[
    Column(Kind::Name, "source", |it| member(it, "source").to_owned()),
    Column(Kind::State, "state", state),
    Column(Kind::Text, "owner", owner),
    Column(Kind::Text, "account", |it| member(it, "account").to_owned()),
    Column(Kind::Text, "host", |it| member(it, "host").to_owned()),
    Column(Kind::Wide, "scopes", |it| texts(it, "scopes")),
    Column(Kind::Wide, "missing scopes", |it| texts(it, "missingScopes")),
    Column(Kind::Time, "connected", |it| member(it, "connectedAt").to_owned()),
    Column(Kind::Time, "used", |it| member(it, "lastUsedAt").to_owned()),
    Column(Kind::Wide, "tools", |it| texts(it, "toolNames")),
    Column(Kind::Id, "id", |it| member(it, "id").to_owned()),
];

pub(crate) async fn run(command: ConnectionsCommand, cx: &Context) -> anyhow::Result<Exit> {
    let client = Client::at_server(cx, "accounts are connected")?;
    let printer = cx.printer;
    match command {
        ConnectionsCommand::List(args) => {
            let found = connections(&client, args.all).await?;
            printer.list(COLUMNS, &found, "no source needs an account")?;
        }
        ConnectionsCommand::Connect(args) => connect(&args, &client, printer).await?,
        ConnectionsCommand::Disconnect(args) => disconnect(&args, &client, printer).await?,
    }
    Ok(Exit::Done)
}

/// The connections of the caller; with `all` those of everyone in the tenant.
async fn connections(client: &Client, all: bool) -> anyhow::Result<Vec<Value>> {
    let query: &[_] = if all { &[("all", "true")] } else { &[] };
    client.get_member(&["v1", "connections"], query, "connections").await
}

/// The caller's own connection to `source`, or that of the tenant, which managers see too.
async fn connection(client: &Client, source: &str, tenant: bool) -> anyhow::Result<Option<Value>> {
    let mut found = connections(client, false).await?.into_iter();
    Ok(found.find(|it| member(it, "source") == source && is_of_tenant(it) == tenant))
}

async fn connect(args: &ConnectArgs, client: &Client, printer: Printer) -> anyhow::Result<()> {
    let source = args.source.as_str();
    let earlier = connection(client, source, args.tenant).await?;
    let earlier = earlier.as_ref().map(|it| member(it, "id")).unwrap_or_default();
    let mut body = json!({ "source": source });
    if let (Some(body), true) = (body.as_object_mut(), args.tenant) {
        body.insert("tenant".to_owned(), json!(true));
    }
    let preview = client.post(&["v1", "connections", "preview"], Some(&body)).await?;
    let mut made = client.post(&["v1", "connections", "link"], Some(&body)).await?;
    if let Some(made) = made.as_object_mut() {
        for name in ["host", "servers", "earlierServer", "scopes", "scopeTexts"] {
            made.extend(preview.get(name).map(|value| (name.to_owned(), value.clone())));
        }
    }
    let link = member(&made, "link");
    anyhow::ensure!(!link.is_empty(), "the server returned a response without link");
    match printer.wants_json() {
        true => printer.json_line(&made)?,
        false => {
            printer.note_foreign(&asked(source, &preview));
            printer.foreign(link)?;
        }
    }
    if args.no_wait {
        return Ok(());
    }
    let expires_at: DateTime<Utc> = member(&made, "expiresAt")
        .parse()
        .context("the server returned a response without expiresAt")?;
    let is_opened = !printer.wants_json() && printer.can_ask() && browser::open(link);
    printer.note(match is_opened {
        true => "waiting for the browser; open the link yourself if no page appears",
        false => "open the link in a browser and sign in as the principal of this key; waiting",
    });
    let end = expires_at.min(Utc::now() + LONGEST_WAIT);
    while Utc::now() < end {
        tokio::time::sleep(PAUSE).await;
        let now = connection(client, source, args.tenant).await?;
        let is_new = |it: &Value| member(it, "state") == "active" && member(it, "id") != earlier;
        if let Some(connected) = now.filter(is_new) {
            return match printer.wants_json() {
                true => printer.json_line(&connected),
                false => {
                    printer.note(format_args!("the account at `{source}` is connected"));
                    Ok(())
                }
            };
        }
    }
    Err(advised(
        format!("no account was connected to `{source}` in time"),
        "run the command again for a new link",
    ))
}

async fn disconnect(
    args: &DisconnectArgs,
    client: &Client,
    printer: Printer,
) -> anyhow::Result<()> {
    let typed = args.connection.as_str();
    let id = match connection(client, typed, args.tenant).await? {
        Some(found) => match member(&found, "id") {
            "" => {
                let words = format!("no account is connected to `{typed}`");
                return Err(advised(words, "`toolcrib connections list` shows the accounts"));
            }
            id => id.to_owned(),
        },
        None => completed(typed, client).await?,
    };
    let removed = client.delete(&["v1", "connections", &id]).await?;
    let is_told = removed.get("revoked").and_then(Value::as_bool).unwrap_or(false);
    let words = match is_told {
        true => "disconnected",
        false => {
            "disconnected here; the service did not confirm that it ended the tokens: to be sure, \
             end the access in the settings of the account there"
        }
    };
    printer.json_or_note(&json!({ "id": id, "revoked": is_told }), words)
}

/// The consent that the person will give, and where.
fn asked(source: &str, preview: &Value) -> String {
    let host = member(preview, "host");
    let servers = list(preview, "servers").join(" and ");
    let scopes = match list(preview, "scopes") {
        scopes if scopes.is_empty() => vec!["those that it shows before you agree".to_owned()],
        scopes => scopes.into_iter().map(|scope| described(scope, preview)).collect(),
    };
    let scopes = scopes.join(", ");
    let earlier = match member(preview, "earlierServer") {
        "" => String::new(),
        earlier => format!(" (before, accounts were connected at {earlier})"),
    };
    format!(
        "the account for `{source}` is at {host}; you sign in at {servers}{earlier}, for: {scopes}"
    )
}

/// A scope with what the operator says of it.
fn described(scope: &str, preview: &Value) -> String {
    let text = preview.get("scopeTexts").and_then(|texts| texts.get(scope));
    match text.and_then(Value::as_str) {
        Some(text) => format!("{text} ({scope})"),
        None => scope.to_owned(),
    }
}

/// The id that `typed` equals or starts; `typed` if no visible one does.
async fn completed(typed: &str, client: &Client) -> anyhow::Result<String> {
    if !prefix::is_short(typed) {
        return Ok(typed.to_owned());
    }
    // Among all that the caller may end, so that an id of its own does not hide another one.
    let all = client.may("connections:manage").await?;
    let found = resolved(typed, &connections(client, all).await?)?;
    Ok(found.unwrap_or_else(|| typed.to_owned()))
}

fn resolved(typed: &str, connections: &[Value]) -> anyhow::Result<Option<String>> {
    let ids = connections.iter().map(|it| member(it, "id").to_owned());
    prefix::resolve(typed, "connection", ids.filter(|id| !id.is_empty()))
}

fn is_of_tenant(connection: &Value) -> bool {
    member(connection, "of") == "tenant"
}

fn state(connection: &Value) -> String {
    match member(connection, "state") {
        "absent" => "not connected".to_owned(),
        "active" => "connected".to_owned(),
        "needs_consent" => "connect again".to_owned(),
        other => other.to_owned(),
    }
}

fn owner(connection: &Value) -> String {
    match (is_of_tenant(connection), member(connection, "principal")) {
        (true, _) => "(the tenant)".to_owned(),
        (false, principal) => principal.to_owned(),
    }
}

fn texts(connection: &Value, name: &str) -> String {
    list(connection, name).join(" ")
}

fn list<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    let list = value.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}
