//! The history of a demo: real calls that it makes itself at its first start.
//!
//! They take the ordinary pipeline in this process, under principals whose names start with
//! [`PREFIX`], so that every chart of the console has data. Times are the real ones.
//!
//! Invariant: a record gets at most one history.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcrib_core::{
    approval::Verdict,
    call::CallError,
    event::{EventBody, EventLog, EventQuery, SessionOutcome},
    id::{ApprovalId, PrincipalId, TenantId},
    principal::{AuthMethod, Principal},
    scope::ScopeSet,
};
use toolcrib_gateway::{CallRequest, Gateway, ToolRef, metrics::Surface};

use crate::printer::Printer;

/// The start of the names of its principals.
const PREFIX: &str = "demo-";
/// The tenant of these principals.
const TENANT: &str = "demo";
/// Calls of each of [`CALLERS`].
const CALLS: usize = 60;
/// The last calls of each caller belong to one interaction, whose run has a timeline.
const TOGETHER: usize = 6;
/// Time between two calls of one caller. It spreads the calls over several bars of a chart.
const PAUSE: Duration = Duration::from_millis(25);
/// Events in one read of the log.
const PAGE: usize = 1_000;
/// Events that are searched for a history. A longer record has enough to show.
const MAX_SEARCHED: usize = 20 * PAGE;

/// Name without the prefix, and scopes.
const CALLERS: [(&str, &[&str]); 5] = [
    ("ada", &["demo:read", "demo:write", "demo:exec"]),
    ("ben", &["demo:read"]),
    ("cleo", &["demo:read", "demo:write"]),
    ("dan", &["demo:read"]),
    ("nightly", &["demo:read", "demo:write"]),
];

/// The name and the scopes of the approver.
const APPROVER: (&str, &[&str]) = ("eve", &["approvals:respond"]);

/// The tools in the order of their calls; popular ones occur several times.
const TOOLS: [&str; 18] = [
    "library__find_books",
    "demo__echo",
    "demo__structured",
    "demo__slow",
    "library__find_books",
    "everyday__cron-next",
    "demo__echo",
    "library__borrow_book",
    "demo__add",
    "demo__structured",
    "demo__fail",
    "library__find_books",
    "host__digest",
    "demo__slow",
    "demo__echo",
    "everyday__json-diff",
    "demo__structured",
    "flows__forecast",
];

/// Every so many calls, one has arguments that its tool does not accept.
const INVALID: usize = 29;

/// The outcome of a request for approval.
#[derive(Clone, Copy)]
enum End {
    /// It is answered, and the call is repeated.
    Answered(Verdict, &'static str),
    /// It stays open for the person who opens the demo.
    Open,
}

/// The calls that require an approval: caller, tool, target, end.
const REQUESTS: [(&str, &str, &str, End); 6] = [
    ("ada", "host__version", "", End::Answered(Verdict::Grant, "")),
    (
        "ada",
        "demo__wipe",
        "last year's reports",
        End::Answered(Verdict::Grant, "they are archived"),
    ),
    (
        "cleo",
        "demo__wipe",
        "the customer table",
        End::Answered(Verdict::Reject, "that one is in use"),
    ),
    ("nightly", "demo__wipe", "old backups", End::Answered(Verdict::Grant, "")),
    ("ada", "demo__wipe", "the test data", End::Answered(Verdict::Grant, "go ahead")),
    ("cleo", "demo__wipe", "the staging cache", End::Open),
];

/// Makes the history, unless the record has one.
pub(super) async fn make(gateway: Gateway, log: Arc<dyn EventLog>, printer: Printer) {
    let made = async {
        let tenant = TenantId::parse(TENANT)?;
        if exists(&*log, &tenant).await? {
            printer.detail("the record has the demo's history already");
            return anyhow::Ok(());
        }
        let calls = calls(&gateway, &tenant).await?;
        printer.note(format_args!(
            "the demo has made its history: {calls} calls by principals named {PREFIX}…"
        ));
        Ok(())
    };
    let made = tokio::select! {
        made = made => made,
        () = gateway.until_closed() => return,
    };
    if let Err(error) = made {
        printer.warning(format_args!("the demo's history was not made: {error:#}"));
    }
}

/// Whether the record has events of such principals.
async fn exists(log: &dyn EventLog, tenant: &TenantId) -> anyhow::Result<bool> {
    let (mut after, mut searched) = (None, 0);
    loop {
        let query = EventQuery {
            tenant: Some(tenant.clone()),
            after,
            limit: PAGE,
            ..EventQuery::default()
        };
        let page = log.read(query).await?;
        if page.iter().any(|logged| caller(&logged.event.body).is_some_and(is_own)) {
            return Ok(true);
        }
        searched += page.len();
        after = page.last().map(|logged| logged.position);
        if page.len() < PAGE || searched >= MAX_SEARCHED {
            return Ok(searched >= MAX_SEARCHED);
        }
    }
}

fn caller(body: &EventBody) -> Option<&PrincipalId> {
    match body {
        EventBody::ToolCalled(called) => Some(&called.principal),
        EventBody::AuthorizationDecided(decided) => Some(&decided.principal),
        _ => None,
    }
}

fn is_own(principal: &PrincipalId) -> bool {
    principal.as_str().starts_with(PREFIX)
}

fn principal((name, scopes): (&str, &[&str]), tenant: &TenantId) -> anyhow::Result<Principal> {
    Ok(Principal {
        id: PrincipalId::parse(format!("{PREFIX}{name}"))?,
        tenant: tenant.clone(),
        scopes: ScopeSet::parse(scopes.iter().copied())?,
        roles: Vec::new(),
        makers: Vec::new(),
        session: None,
        auth: AuthMethod::Operator,
    })
}

/// Makes all calls; returns their number.
async fn calls(gateway: &Gateway, tenant: &TenantId) -> anyhow::Result<usize> {
    let mut callers = Vec::new();
    let mut work = JoinSet::new();
    for (at, caller) in CALLERS.into_iter().enumerate() {
        let caller = principal(caller, tenant)?;
        work.spawn(calls_of(gateway.clone(), caller.clone(), at * 7));
        callers.push(caller);
    }
    let mut made = requests(gateway, &callers, principal(APPROVER, tenant)?).await;
    while let Some(calls) = work.join_next().await {
        made += calls?;
    }
    Ok(made)
}

/// Makes the calls of one caller, starting with the tool `first`.
async fn calls_of(gateway: Gateway, caller: Principal, first: usize) -> usize {
    let missing = |tool: &str| gateway.snapshot().catalog.find_all(tool).is_empty();
    // A build without WebAssembly has no pack.
    let tools: Vec<&str> = TOOLS.into_iter().filter(|tool| !missing(tool)).collect();
    let plan = tools.into_iter().cycle().skip(first).zip(first..).take(CALLS);
    let mut together = None;
    let mut made = 0;
    for (tool, number) in plan {
        let request = request(&gateway, tool, arguments(tool, number));
        if made + TOGETHER == CALLS {
            together = gateway.interaction(&caller).ok();
        }
        match &together {
            Some(interaction) => interaction.call(&caller, request).await,
            None => gateway.call(&caller, request).await,
        };
        made += 1;
        tokio::time::sleep(PAUSE).await;
    }
    if let Some(interaction) = together {
        interaction.close(SessionOutcome::Completed).await;
    }
    made
}

/// Makes the calls that require an approval, and answers all requests but the last. Returns the
/// number of calls.
async fn requests(gateway: &Gateway, callers: &[Principal], approver: Principal) -> usize {
    let mut made = 0;
    for (name, tool, target, end) in REQUESTS {
        let by_name =
            |principal: &&Principal| principal.id.as_str().strip_prefix(PREFIX) == Some(name);
        let Some(caller) = callers.iter().find(by_name) else { continue };
        let arguments = match tool {
            "demo__wipe" => json!({ "target": target }),
            _ => json!({}),
        };
        let requested = ask(gateway, caller, tool, arguments.clone()).await;
        made += 1;
        let (Some(id), End::Answered(verdict, comment)) = (requested, end) else { continue };
        tokio::time::sleep(PAUSE * 8).await;
        let comment = Some(comment.to_owned()).filter(|text| !text.is_empty());
        match gateway.approvals().respond(&approver, &id, verdict, comment).await {
            Ok(_) => {
                ask(gateway, caller, tool, arguments).await;
                made += 1;
            }
            Err(error) => tracing::warn!(%error, "the demo could not answer its own request"),
        }
    }
    made
}

/// Calls a tool that requires an approval; returns the open request if there is one.
async fn ask(
    gateway: &Gateway,
    caller: &Principal,
    tool: &str,
    arguments: Value,
) -> Option<ApprovalId> {
    let request = request(gateway, tool, arguments);
    match gateway.call(caller, request).await.result {
        Err(CallError::ApprovalRequired { pending, .. }) => Some(pending?.approval),
        _ => None,
    }
}

fn request<'a>(gateway: &Gateway, tool: &'a str, arguments: Value) -> CallRequest<'a> {
    CallRequest::new(gateway.snapshot(), Surface::CLI, ToolRef::Wire(tool), arguments)
}

/// The arguments of the call with this number.
fn arguments(tool: &str, number: usize) -> Value {
    let pick = |texts: [&'static str; 4]| texts.into_iter().cycle().nth(number % 4);
    let city = pick(["Bonn", "Lima", "Oslo", "Riga"]);
    if number % INVALID == INVALID - 1 {
        return json!({ "unknown": number });
    }
    match tool {
        "library__find_books" => json!({ "author": pick(["austen", "homer", "twain", "nobody"]) }),
        "library__borrow_book" => {
            let isbn = pick(["9780140449136", "9780141439518", "9780141439587", "0000000000000"]);
            json!({ "isbn": isbn, "body": { "days": number % 50 + 1 } })
        }
        "demo__echo" => json!({ "text": format!("message {number}") }),
        "demo__add" => json!({ "a": number, "b": 2 }),
        "demo__structured" => json!({ "city": city }),
        "demo__slow" => json!({ "steps": number % 4 + 1, "step_ms": number * 7 % 60 + 5 }),
        "everyday__cron-next" => {
            json!({ "expression": "0 6 * * 1", "after": "2026-01-01T00:00:00Z" })
        }
        "everyday__json-diff" => json!({ "from": { "n": number }, "to": { "n": number + 1 } }),
        "host__digest" => json!({ "document": format!("{{\"n\":{number}}}") }),
        "flows__forecast" => json!({ "cities": [city, "Rome"] }),
        _ => json!({}),
    }
}
