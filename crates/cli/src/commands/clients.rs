//! `clients list|end`: the clients that act for people after a sign-in in a browser, on a running
//! server.

use serde_json::{Value, json};

use crate::{
    args::ClientsCommand,
    client::Client,
    context::Context,
    failure::Exit,
    prefix,
    table::{Column, Kind},
    text::member,
};

const COLUMNS: &[Column<Value>] = &[
    Column(Kind::Name, "name", |it| member(it, "name").to_owned()),
    Column(Kind::Text, "principal", |it| member(it, "principal").to_owned()),
    Column(Kind::Text, "client", |it| member(it, "clientId").to_owned()),
    Column(Kind::Text, "vouched by", voucher),
    Column(Kind::Time, "since", |it| member(it, "createdAt").to_owned()),
    Column(Kind::Time, "used", |it| member(it, "lastUsedAt").to_owned()),
    Column(Kind::Time, "expires", |it| member(it, "expiresAt").to_owned()),
    Column(Kind::Id, "id", |it| member(it, "id").to_owned()),
];

pub(crate) async fn run(command: ClientsCommand, cx: &Context) -> anyhow::Result<Exit> {
    let client = Client::at_server(cx, "clients sign in")?;
    let printer = cx.printer;
    match command {
        ClientsCommand::List(args) => {
            let found = clients(&client, args.all).await?;
            let none = match args.all {
                true => "no client acts for anyone in the tenant",
                false => "no client acts for the principal of this key; --all shows the others",
            };
            printer.list(COLUMNS, &found, none)?;
        }
        ClientsCommand::End { id } => {
            let id = completed(id.as_str(), &client).await?;
            client.delete(&["v1", "clients", &id]).await?;
            printer.json_or_note(&json!({ "id": id }), "the access has ended")?;
        }
    }
    Ok(Exit::Done)
}

/// The clients of the caller; with `all` those of everyone in the tenant.
async fn clients(client: &Client, all: bool) -> anyhow::Result<Vec<Value>> {
    let query: &[_] = if all { &[("all", "true")] } else { &[] };
    client.get_member(&["v1", "clients"], query, "clients").await
}

/// The id that `typed` equals or starts; `typed` if no visible one does.
async fn completed(typed: &str, client: &Client) -> anyhow::Result<String> {
    if !prefix::is_short(typed) {
        return Ok(typed.to_owned());
    }
    // Among all that the caller may end, so that an id of its own does not hide another one.
    let all = client.may("keys:manage").await?;
    let found = resolved(typed, &clients(client, all).await?)?;
    Ok(found.unwrap_or_else(|| typed.to_owned()))
}

fn resolved(typed: &str, clients: &[Value]) -> anyhow::Result<Option<String>> {
    prefix::resolve(typed, "client", clients.iter().map(|it| member(it, "id").to_owned()))
}

/// Who says that the client is what its name says.
fn voucher(client: &Value) -> String {
    match (member(client, "vouchedBy"), member(client, "host")) {
        ("operator", _) => "the operator".to_owned(),
        ("host", host) => host.to_owned(),
        _ => "itself".to_owned(),
    }
}
