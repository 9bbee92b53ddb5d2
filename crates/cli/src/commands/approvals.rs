//! `approvals list|show|grant|reject|override`: pending approvals, in the store or on a running
//! server.

use serde_json::{Value, json};
use toolcrib_core::{
    approval::{ApprovalQuery, Verdict},
    id::ApprovalId,
    principal::Principal,
    store::Storage,
};
use toolcrib_gateway::{Gateway, approvals};
use toolcrib_store::SealKeys;

use crate::{
    args::{ApprovalAnswerArgs, ApprovalListArgs, ApprovalsCommand, Global},
    client::Client,
    failure::{Exit, advised, usage},
    local::{self, Local},
    printer::Printer,
    seal,
    settings::Settings,
    store, table,
};

pub(crate) async fn run(
    command: ApprovalsCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    match Client::connect(global, printer)? {
        Some(client) => there(&command, &client, printer).await?,
        None => {
            let mut settings = Settings::load(global)?;
            // Approvals need only the store, so no source is started.
            settings.config.sources.clear();
            let store = store::open_existing(&settings.config)?;
            // A list has no sealed members, so it needs no key.
            let keys = match &command {
                ApprovalsCommand::List(_) => SealKeys::none(),
                _ => seal::keys(&settings.config.store).await?,
            };
            let local = Local::start_with(settings, Some(keys)).await?;
            let done = local.run(async |gateway| here(&command, gateway, &*store, printer).await);
            let done = done.await;
            store.close().await;
            done?;
        }
    }
    Ok(Exit::Done)
}

async fn there(
    command: &ApprovalsCommand,
    client: &Client,
    printer: Printer,
) -> anyhow::Result<()> {
    let answer = async |args: &ApprovalAnswerArgs, verdict: &str| {
        let mut body = json!({ "verdict": verdict });
        if let (Some(body), Some(comment)) = (body.as_object_mut(), &args.comment) {
            body.insert("comment".to_owned(), json!(comment));
        }
        client.send(&["v1", "approvals", args.approval.as_str()], &body).await
    };
    match command {
        ApprovalsCommand::List(args) => {
            if args.tenant.is_some() {
                let words = "a server shows the approvals of the key's own tenant; leave out \
                             --tenant";
                return Err(usage(words));
            }
            let lines = args.lines.to_string();
            let mut query = vec![("limit", lines.as_str())];
            query.extend(args.state.map(|state| ("state", state.as_str())));
            let mut response = client.get(&["v1", "approvals"], &query).await?;
            let found = response.get_mut("approvals").map(Value::take).unwrap_or_default();
            list(&serde_json::from_value::<Vec<Value>>(found)?, printer)
        }
        ApprovalsCommand::Show { approval } => {
            let response = client.get(&["v1", "approvals", approval.as_str()], &[]).await?;
            show(&response, printer)
        }
        ApprovalsCommand::Grant(args) => answered(&answer(args, "grant").await?, printer),
        ApprovalsCommand::Reject(args) => answered(&answer(args, "reject").await?, printer),
        ApprovalsCommand::Override(args) => answered(&answer(args, "override").await?, printer),
    }
}

async fn here(
    command: &ApprovalsCommand,
    gateway: &Gateway,
    store: &dyn Storage,
    printer: Printer,
) -> anyhow::Result<()> {
    match command {
        ApprovalsCommand::List(args) => list(&all(args, gateway, store).await?, printer),
        ApprovalsCommand::Show { approval } => {
            let operator = operator_for(approval, store).await?;
            let shown = gateway.approvals().find(&operator, approval).await?;
            let now = gateway.clock().now();
            let arguments = shown.arguments.as_deref();
            show(&approvals::to_json(&shown.approval, arguments, &operator, now), printer)
        }
        ApprovalsCommand::Grant(args) => {
            answer(args, Verdict::Grant, gateway, store, printer).await
        }
        ApprovalsCommand::Reject(args) => {
            answer(args, Verdict::Reject, gateway, store, printer).await
        }
        ApprovalsCommand::Override(args) => {
            answer(args, Verdict::Override, gateway, store, printer).await
        }
    }
}

async fn all(
    args: &ApprovalListArgs,
    gateway: &Gateway,
    store: &dyn Storage,
) -> anyhow::Result<Vec<Value>> {
    let query = ApprovalQuery {
        tenant: args.tenant.clone(),
        state: args.state,
        limit: usize::try_from(args.lines)?,
        ..ApprovalQuery::default()
    };
    let now = gateway.clock().now();
    let found = store.approvals().list(query).await?;
    let rows = found.iter().map(|approval| {
        let operator = local::operator(approval.tenant.clone(), Vec::new())?;
        Ok(approvals::to_json(approval, None, &operator, now))
    });
    rows.collect()
}

async fn answer(
    args: &ApprovalAnswerArgs,
    verdict: Verdict,
    gateway: &Gateway,
    store: &dyn Storage,
    printer: Printer,
) -> anyhow::Result<()> {
    let operator = operator_for(&args.approval, store).await?;
    let answer =
        gateway.approvals().respond(&operator, &args.approval, verdict, args.comment.clone());
    let approval = answer.await?;
    let now = gateway.clock().now();
    answered(&approvals::to_json(&approval, None, &operator, now), printer)
}

/// Returns the operator as a principal in the tenant of `approval`.
async fn operator_for(approval: &ApprovalId, store: &dyn Storage) -> anyhow::Result<Principal> {
    let unknown =
        || advised("there is no such approval", "`toolcrib approvals list` shows the approvals");
    let found = store.approvals().list(ApprovalQuery::default()).await?;
    let found = found.into_iter().find(|it| it.id == *approval).ok_or_else(unknown)?;
    local::operator(found.tenant, Vec::new())
}

fn text<'a>(approval: &'a Value, member: &str) -> &'a str {
    approval.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn progress(approval: &Value) -> String {
    let number = |member: &str| approval.get(member).and_then(Value::as_u64).unwrap_or_default();
    format!("{} of {}", number("granted"), number("quorum"))
}

fn list(approvals: &[Value], printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(&approvals);
    }
    if approvals.is_empty() {
        printer.note("there are no approvals");
        return Ok(());
    }
    let rows = approvals.iter().map(|approval| {
        let text = |member| text(approval, member).to_owned();
        [
            text("state"),
            text("principal"),
            progress(approval),
            text("expiresAt"),
            text("toolId"),
            text("approvalId"),
        ]
    });
    let head = [
        table::state("state"),
        table::text("principal"),
        table::name("granted"),
        table::time("expires"),
        table::text("tool"),
        table::name("approval"),
    ];
    printer.table(head, rows)
}

fn show(approval: &Value, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(approval);
    }
    for (name, member) in [
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
        let value = text(approval, member);
        if !value.is_empty() {
            printer.foreign(&format!("{name}: {value}"))?;
        }
    }
    printer.line(format_args!("granted: {}", progress(approval)))?;
    let members = |name: &str| approval.get(name).and_then(Value::as_array);
    for argument in members("arguments").into_iter().flatten() {
        let bytes = argument.get("bytes").and_then(Value::as_u64).unwrap_or_default();
        let (name, kind) = (text(argument, "name"), text(argument, "type"));
        printer.foreign(&format!("argument {name}: {kind}, {bytes} bytes"))?;
    }
    if let Some(shown) = approval.get("redactedArguments") {
        printer.foreign(&serde_json::to_string_pretty(shown)?)?;
    }
    for vote in members("votes").into_iter().flatten() {
        let comment = text(vote, "comment");
        let comment = if comment.is_empty() { String::new() } else { format!(": {comment}") };
        let (verdict, who) = (text(vote, "verdict"), text(vote, "principal"));
        printer.foreign(&format!("{verdict} by {who} at {}{comment}", text(vote, "at")))?;
    }
    Ok(())
}

fn answered(approval: &Value, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(approval);
    }
    match text(approval, "state") {
        "pending" => printer.note(format_args!("{} have consented", progress(approval))),
        "rejected" => printer.note("refused"),
        state => printer.note(format_args!("{state}: the same call may be made once")),
    }
    Ok(())
}
