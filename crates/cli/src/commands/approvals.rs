//! `approvals list|show|grant|reject|override|withdraw`: pending approvals, in the store or on a running
//! server.

use serde_json::{Value, json};
use toolcrib_core::{
    approval::{ApprovalQuery, Verdict},
    clock::Timestamp,
    id::ApprovalId,
    people::People,
    principal::Principal,
    store::Storage,
};
use toolcrib_gateway::{Gateway, approvals};
use toolcrib_store::SealKeys;

use crate::{
    args::{ApprovalAnswerArgs, ApprovalListArgs, ApprovalsCommand},
    client::Client,
    context::Context,
    failure::{Exit, advised, usage},
    local::{self, LocalGateway},
    prefix,
    printer::Printer,
    seal,
    settings::Settings,
    store,
    table::{Column, Kind},
    text::member,
};

pub(crate) async fn run(mut command: ApprovalsCommand, cx: &Context) -> anyhow::Result<Exit> {
    let shown = match Client::connect(cx)? {
        Some(client) => {
            if let Some(typed) = typed(&mut command) {
                let query = [("limit", NEWEST)];
                let found: Vec<Value> =
                    client.get_member(&["v1", "approvals"], &query, "approvals").await?;
                let ids = found.iter().map(|approval| member(approval, "approvalId").to_owned());
                complete(typed, ids)?;
            }
            there(&command, &client).await?
        }
        None => {
            let mut settings = Settings::load(&cx.global)?;
            // Approvals need only the store, so no source is started.
            settings.config.sources.clear();
            let store = store::open_existing(&settings.config).await?;
            // A list has no sealed members, so it needs no key.
            let keys = match &command {
                ApprovalsCommand::List(_) => SealKeys::none(),
                _ => seal::keys(&settings.config.store).await?,
            };
            let local = LocalGateway::start_with(settings, Some(keys), cx.printer).await?;
            let shown = local
                .run(async |gateway| {
                    if let Some(typed) = typed(&mut command) {
                        let ids = all_ids(&*store).await?;
                        complete(typed, ids)?;
                    }
                    here(&command, gateway, &*store).await
                })
                .await;
            store.close().await;
            shown?
        }
    };
    let printer = cx.printer;
    match command {
        ApprovalsCommand::List(args) => {
            let lines = args.page.lines;
            let approvals: Vec<Value> = serde_json::from_value(shown)?;
            printer.list(COLUMNS, &approvals, "there are no approvals")?;
            if usize::try_from(lines) == Ok(approvals.len()) {
                printer.note(format_args!("these are the newest {lines}; --lines shows more"));
            }
        }
        ApprovalsCommand::Show { .. } => show(&shown, printer)?,
        _ => printer.json_or_note(&shown, after_answer(&shown))?,
    }
    Ok(Exit::Done)
}

/// The id in `command` if it may be a prefix.
fn typed(command: &mut ApprovalsCommand) -> Option<&mut ApprovalId> {
    let id = match command {
        ApprovalsCommand::List(_) => return None,
        ApprovalsCommand::Show { approval } => approval,
        ApprovalsCommand::Grant(args)
        | ApprovalsCommand::Reject(args)
        | ApprovalsCommand::Override(args)
        | ApprovalsCommand::Withdraw(args) => &mut args.approval,
    };
    prefix::is_short(id.as_str()).then_some(id)
}

/// Replaces the prefix `typed` by the id that it matches, if there is one.
fn complete(typed: &mut ApprovalId, ids: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
    if let Some(id) = prefix::resolve(typed.as_str(), "approval", ids)? {
        *typed = ApprovalId::parse(id)?;
    }
    Ok(())
}

async fn all_ids(store: &dyn Storage) -> anyhow::Result<Vec<String>> {
    let (mut ids, mut query) = (Vec::new(), ApprovalQuery::default());
    loop {
        let page = store.approvals().list(query.clone()).await?;
        let Some(last) = page.last() else { return Ok(ids) };
        query.older_than = Some((last.created_at, last.id.clone()));
        ids.extend(page.iter().map(|approval| approval.id.to_string()));
    }
}

/// Runs the command on a server, with the server's response as the result.
async fn there(command: &ApprovalsCommand, client: &Client) -> anyhow::Result<Value> {
    let answer = async |args: &ApprovalAnswerArgs, verdict: Verdict| {
        let mut body = json!({ "verdict": verdict });
        if let (Some(body), Some(comment)) = (body.as_object_mut(), &args.comment) {
            body.insert("comment".to_owned(), json!(comment));
        }
        client.post(&["v1", "approvals", args.approval.as_str()], Some(&body)).await
    };
    match command {
        ApprovalsCommand::List(args) => {
            if args.page.tenant.is_some() {
                let words = "a server shows the approvals of the key's own tenant; leave out \
                             --tenant";
                return Err(usage(words));
            }
            let lines = args.page.lines.to_string();
            let mut query = vec![("limit", lines.as_str())];
            query.extend(args.state.map(|state| ("state", state.as_str())));
            client.get_member(&["v1", "approvals"], &query, "approvals").await
        }
        ApprovalsCommand::Show { approval } => {
            client.get(&["v1", "approvals", approval.as_str()], &[]).await
        }
        ApprovalsCommand::Grant(args) => answer(args, Verdict::Grant).await,
        ApprovalsCommand::Reject(args) => answer(args, Verdict::Reject).await,
        ApprovalsCommand::Override(args) => answer(args, Verdict::Override).await,
        ApprovalsCommand::Withdraw(args) => answer(args, Verdict::Withdraw).await,
    }
}

/// Runs the command on the store, with the result that a server would return.
async fn here(
    command: &ApprovalsCommand,
    gateway: &Gateway,
    store: &dyn Storage,
) -> anyhow::Result<Value> {
    let now = gateway.clock().now();
    let config = gateway.config();
    let people = &config.people;
    let answer = async |args: &ApprovalAnswerArgs, verdict: Verdict| {
        let operator = operator_for(&args.approval, store).await?;
        let (id, comment) = (&args.approval, args.comment.clone());
        let approval = gateway.approvals().respond(&operator, id, verdict, comment).await?;
        let now = gateway.clock().now();
        anyhow::Ok(approvals::to_json(&approval, None, &operator, people, now))
    };
    match command {
        ApprovalsCommand::List(args) => Ok(all(args, people, now, store).await?.into()),
        ApprovalsCommand::Show { approval } => {
            let operator = operator_for(approval, store).await?;
            let shown = gateway.approvals().find(&operator, approval).await?;
            let input = shown.input.as_deref();
            Ok(approvals::to_json(&shown.approval, input, &operator, people, now))
        }
        ApprovalsCommand::Grant(args) => answer(args, Verdict::Grant).await,
        ApprovalsCommand::Reject(args) => answer(args, Verdict::Reject).await,
        ApprovalsCommand::Override(args) => answer(args, Verdict::Override).await,
        ApprovalsCommand::Withdraw(args) => answer(args, Verdict::Withdraw).await,
    }
}

async fn all(
    args: &ApprovalListArgs,
    people: &People,
    now: Timestamp,
    store: &dyn Storage,
) -> anyhow::Result<Vec<Value>> {
    let query = ApprovalQuery {
        tenant: args.page.tenant.clone(),
        state: args.state,
        limit: usize::try_from(args.page.lines)?,
        ..ApprovalQuery::default()
    };
    let found = store.approvals().list(query).await?;
    let rows = found.iter().map(|approval| {
        let operator = local::operator(approval.tenant.clone(), Vec::new())?;
        Ok(approvals::to_json(approval, None, &operator, people, now))
    });
    rows.collect()
}

/// The operator as a principal in the tenant of `approval`.
async fn operator_for(approval: &ApprovalId, store: &dyn Storage) -> anyhow::Result<Principal> {
    let unknown =
        || advised("no approval with this id", "`toolcrib approvals list` shows the approvals");
    let mut query = ApprovalQuery::default();
    loop {
        let page = store.approvals().list(query.clone()).await?;
        if let Some(found) = page.iter().find(|listed| listed.id == *approval) {
            return local::operator(found.tenant.clone(), Vec::new());
        }
        let last = page.last().ok_or_else(unknown)?;
        query.older_than = Some((last.created_at, last.id.clone()));
    }
}

/// How many approvals of a server are searched for a prefix: one page of the server.
const NEWEST: &str = "500";

const COLUMNS: &[Column<Value>] = &[
    Column(Kind::State, "state", |approval| member(approval, "state").to_owned()),
    Column(Kind::Text, "principal", |approval| member(approval, "principal").to_owned()),
    Column(Kind::Name, "granted", progress),
    Column(Kind::Time, "expires", |approval| member(approval, "expiresAt").to_owned()),
    Column(Kind::Text, "tool", |approval| member(approval, "toolId").to_owned()),
    Column(Kind::Id, "approval", |approval| member(approval, "approvalId").to_owned()),
];

fn progress(approval: &Value) -> String {
    let number = |member: &str| approval.get(member).and_then(Value::as_u64).unwrap_or_default();
    format!("{} of {}", number("granted"), number("quorum"))
}

fn show(approval: &Value, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(approval);
    }
    for (name, path) in [
        ("approval", "approvalId"),
        ("state", "state"),
        ("tool", "toolId"),
        ("principal", "principal"),
        ("run", "runId"),
        ("needs scope", "requiredScope"),
        ("needs role", "requiredRole"),
        ("created", "createdAt"),
        ("expires", "expiresAt"),
        ("used by", "usedBy"),
    ] {
        let value = member(approval, path);
        if !value.is_empty() {
            printer.foreign(&format!("{name}: {value}"))?;
        }
    }
    printer.line(format_args!("granted: {}", progress(approval)))?;
    let members = |name: &str| approval.get(name).and_then(Value::as_array);
    for argument in members("arguments").into_iter().flatten() {
        let bytes = argument.get("bytes").and_then(Value::as_u64).unwrap_or_default();
        let (name, kind) = (member(argument, "name"), member(argument, "type"));
        printer.foreign(&format!("argument {name}: {kind}, {bytes} bytes"))?;
    }
    let number = |name: &str| approval.get(name).and_then(Value::as_u64);
    if let Some(more) = number("moreArguments") {
        printer.line(format_args!("and {more} more arguments, which are not shown"))?;
    }
    for response in members("inputResponses").into_iter().flatten() {
        let bytes = response.get("bytes").and_then(Value::as_u64).unwrap_or_default();
        printer.foreign(&format!("answer to {}: {bytes} bytes", member(response, "name")))?;
    }
    if let Some(more) = number("moreInputResponses") {
        printer.line(format_args!("and {more} more answers, which are not shown"))?;
    }
    if let Some(bytes) = number("inputTooLarge") {
        printer.line(format_args!("the values are not shown: they are {bytes} bytes of JSON"))?;
    }
    if let Some(bytes) = approval.get("requestStateBytes") {
        printer.line(format_args!("state of an earlier round: {bytes} bytes"))?;
    }
    for (name, path) in [
        ("arguments", "redactedArguments"),
        ("answers", "redactedInputResponses"),
        ("state", "redactedRequestState"),
    ] {
        if let Some(shown) = approval.get(path) {
            printer.foreign(&format!("{name}: {}", serde_json::to_string_pretty(shown)?))?;
        }
    }
    let has_values = ["redactedArguments", "redactedInputResponses", "redactedRequestState"]
        .iter()
        .any(|path| approval.get(path).is_some());
    if !has_values && number("inputTooLarge").is_none() && member(approval, "state") == "pending" {
        printer.note(
            "the values are not shown: that requires `[approvals] show_arguments` and `[store] seal_key` \
             when the request is made",
        );
    }
    for vote in members("votes").into_iter().flatten() {
        let comment = member(vote, "comment");
        let comment = if comment.is_empty() { String::new() } else { format!(": {comment}") };
        let (verdict, who) = (member(vote, "verdict"), member(vote, "principal"));
        printer.foreign(&format!("{verdict} by {who} at {}{comment}", member(vote, "at")))?;
    }
    Ok(())
}

/// Describes the state after an answer.
fn after_answer(approval: &Value) -> String {
    match member(approval, "state") {
        "pending" => format!("{} have consented", progress(approval)),
        "rejected" => "rejected".to_owned(),
        "withdrawn" => "withdrawn: the call needs a new approval".to_owned(),
        state => format!("{state}: the same call may be made once"),
    }
}
