//! Every request for a path of v2, by every caller: the status and the headers of the answer, and its
//! body by the schemas that are written from the text of v2. A new route is one more [`Row`].

use futures_util::future::join_all;
use http::{HeaderMap, Method, header};
use serde_json::{Value, json};
use toolcrib_core::store::Storage as _;
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestSource, TestTool};

use super::schemas;

const VARY: &str = "OpenWOP-Version, Authorization, Accept, Accept-Encoding";

/// A request, and its answers to an administrator, a reader without the runs of others, an
/// administrator of another tenant, and callers without valid credentials. The word after the status
/// states whether the answer names data of the first tenant.
struct Row {
    method: Method,
    /// `PLAIN` is a run of a call, `ASKED` one of a rejected approval, `FLOW` one of a workflow; all of
    /// them are the administrator's.
    path: &'static str,
    answers: [&'static str; 4],
    /// The body of the answers with status 200.
    form: Form,
    /// Where the answer is the same without the header `OpenWOP-Version`.
    unnamed: Unnamed,
}

#[derive(Clone, Copy, PartialEq)]
enum Unnamed {
    Everywhere,
    /// Only with `v2 = "root"`: the path is Open Tool Calling's, too.
    AtRoot,
    /// The first version, or none, has the path.
    Never,
}

#[derive(Clone, Copy)]
enum Form {
    /// JSON by this schema, which caches of everyone may keep.
    Public(fn() -> Value),
    /// JSON by this schema, which the caller may keep and must revalidate.
    Private(fn() -> Value),
    /// JSON by this schema, which is not kept.
    Fresh(fn() -> Value),
    /// A stream of events, in frames of the named kind; without a name, of the types of the events.
    Stream(Option<&'static str>),
    /// There is no such answer.
    Absent,
}

const OPEN: [&str; 4] = ["200", "200", "200", "200"];
/// Everyone with valid credentials may learn that the path does not exist.
const NONE: [&str; 4] = ["404", "404", "404", "401"];
const NOWHERE: [&str; 4] = ["404", "404", "404", "404"];
const MALFORMED: [&str; 4] = ["400", "400", "400", "401"];

fn rows() -> Vec<Row> {
    let row = |method, path, answers, form| Row {
        method,
        path,
        answers,
        form,
        unnamed: Unnamed::Everywhere,
    };
    let get = |path, answers, form| row(Method::GET, path, answers, form);
    let named = |row| Row { unnamed: Unnamed::Never, ..row };
    let at_root = |row| Row { unnamed: Unnamed::AtRoot, ..row };
    let lists = ["200 sees", "200 sees", "200 blind", "401"];
    let runs = ["200 sees", "200 blind", "200 blind", "401"];
    let tool = ["200 sees", "200 sees", "404", "401"];
    let own = ["200 sees", "404", "404", "401"];
    let bound = ["200 sees", "404", "403", "401"];
    let none = Form::Absent;
    vec![
        named(get("/.well-known/openwop", OPEN, Form::Public(schemas::discovery))),
        get("/openapi.json", OPEN, Form::Public(schemas::description)),
        at_root(get("/tools", lists, Form::Private(schemas::tools))),
        at_root(get("/tools?view=compact", lists, Form::Private(schemas::compact_tools))),
        get("/tools/mcp%3Acrib.read", tool, Form::Private(schemas::tool)),
        get("/tools/mcp:crib.read?view=compact", tool, Form::Private(schemas::compact_tool)),
        get("/tools/mcp%3Acrib.write", own, Form::Private(schemas::tool)),
        get("/tools/mcp%3Acrib.absent", NONE, none),
        get("/runs", runs, Form::Fresh(schemas::runs)),
        get("/runs?limit=1", runs, Form::Fresh(schemas::runs)),
        get("/runs?limit=0", MALFORMED, none),
        get("/runs/FLOW", own, Form::Private(schemas::run)),
        get("/runs/acme~2FFLOW", bound, Form::Private(schemas::run)),
        get("/runs/acme~2Fabsent", ["404", "404", "403", "401"], none),
        // A call that is no workflow has events, and no snapshot.
        get("/runs/PLAIN", NONE, none),
        get("/runs/absent", NONE, none),
        get("/runs/a~2", MALFORMED, none),
        get("/runs/ASKED/events", own, Form::Stream(None)),
        get("/runs/acme~2FASKED/events?bufferMs=10", bound, Form::Stream(Some("batch"))),
        get("/runs/PLAIN/events?streamMode=debug", own, Form::Stream(None)),
        get("/runs/FLOW/events?streamMode=debug", own, Form::Stream(None)),
        get("/runs/FLOW/events?streamMode=updates,debug", own, Form::Stream(Some("debug"))),
        get("/runs/absent/events", NONE, none),
        get("/runs/FLOW/events?streamMode=values", MALFORMED, none),
        get("/runs/FLOW/events?bufferMs=x", MALFORMED, none),
        // It has ended.
        row(Method::POST, "/runs/FLOW/cancel", ["409", "404", "404", "401"], none),
        row(Method::POST, "/runs/acme~2FFLOW/cancel", ["409", "404", "403", "401"], none),
        row(Method::POST, "/runs/absent/cancel", NONE, none),
        // Paths without a route.
        named(get("/", NOWHERE, none)),
        named(get("/nowhere", NOWHERE, none)),
        named(get("/toolsets", NOWHERE, none)),
        named(get("/.well-known/nothing", NOWHERE, none)),
        named(row(Method::POST, "/nowhere/at/all", NOWHERE, none)),
        get("/tools/a/b", NONE, none),
        get("/runs/FLOW/nowhere", NONE, none),
        // No code is registered for a wrong method.
        named(row(Method::POST, "/.well-known/openwop", NOWHERE, none)),
        row(Method::POST, "/openapi.json", NOWHERE, none),
        at_root(row(Method::POST, "/tools", NONE, none)),
        row(Method::DELETE, "/tools/mcp%3Acrib.read", NONE, none),
        row(Method::PUT, "/runs", NONE, none),
        row(Method::PATCH, "/runs/FLOW", NONE, none),
        row(Method::POST, "/runs/FLOW/events", NONE, none),
        get("/runs/FLOW/cancel", NONE, none),
    ]
}

/// A gateway with runs of an administrator, and its callers.
struct Tested {
    gw: TestGateway,
    /// Each with the index of its answer in a row.
    callers: Vec<(&'static str, Actor, usize)>,
    /// The names of runs in paths, and their ids.
    runs: [(&'static str, String); 3],
}

async fn tested(mode: &str) -> Tested {
    let tool = |name: &str| TestTool::new(name).scopes(["files:read"]).tier("read");
    let gw = TestGateway::builder()
        .config(&format!("[openwop]\nv2 = \"{mode}\""))
        .source(
            TestSource::new("crib")
                .tenants(["acme"])
                .tool(tool("read"))
                .tool(TestTool::new("write").scopes(["files:write"]))
                .tool(tool("ask").rule("approval = \"always\"")),
        )
        .workflow("crib-flow", "steps: [{ id: a, tool: 'mcp:crib.read' }]\noutputs: {}")
        .start()
        .await;
    let admin = gw.principal("admin", ["*"]).await;
    let voter = gw.principal("voter", ["approvals:respond"]).await;
    let call = async |tool: &str| {
        let body = json!({ "request": { "tool_id": tool } });
        let run = admin.post("/otc/tools/call", body).await.header("toolcrib-run-id").to_owned();
        assert!(!run.is_empty(), "{tool}");
        run
    };
    let runs = [
        ("PLAIN", call("crib.read").await),
        ("ASKED", call("crib.ask").await),
        ("FLOW", call("flows__crib-flow").await),
    ];
    let asked = voter.get("/v1/approvals").await.json()["approvals"][0]["approvalId"].clone();
    let vote = format!("/v1/approvals/{}", asked.as_str().unwrap());
    assert_eq!(voter.post(&vote, json!({ "verdict": "reject" })).await.status, 200);
    let callers = vec![
        ("admin", admin, 0),
        ("reader", gw.principal("reader", ["files:read"]).await, 1),
        ("other tenant", gw.principal_of("other", "admin", &["*"]).await, 2),
        ("expired key", gw.expired("late").await, 3),
        ("no key", gw.anonymous(), 3),
        ("wrong key", gw.bearer("tc_wrong"), 3),
    ];
    Tested { gw, callers, runs }
}

/// One request of a row by one caller, with the faults that were found in its answers.
struct Case<'a> {
    row: &'a Row,
    path: String,
    /// The caller without `OpenWOP-Version`.
    caller: &'a Actor,
    expected: &'static str,
    name: String,
    faults: Vec<String>,
}

impl Case<'_> {
    fn fault(&mut self, text: impl std::fmt::Display) {
        self.faults.push(format!("{}: {text}", self.name));
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, of: &str, found: T, expected: T) {
        if found != expected {
            self.fault(format!("{of}: {found:?}, not {expected:?}"));
        }
    }

    fn valid(&mut self, of: &str, schema: &Value, body: &Value) {
        for problem in schemas::problems(schema, body) {
            self.fault(format!("{of}: {problem}"));
        }
    }

    async fn send(&self, caller: &Actor, method: &Method) -> Reply {
        caller.send(method.clone(), &self.path, None).await
    }

    /// Sends the request in every version and form.
    async fn run(mut self) -> Vec<String> {
        let second = self.caller.with("openwop-version", "2.0");
        let reply = self.send(&second, &self.row.method).await;
        self.check(&reply);
        let unnamed = match self.row.unnamed {
            Unnamed::Everywhere => true,
            Unnamed::AtRoot => self.name.starts_with("root"),
            Unnamed::Never => false,
        };
        if unnamed {
            let unnamed = self.send(self.caller, &self.row.method).await;
            self.same("without a version", &unnamed, &reply);
        }
        if self.row.method == Method::GET {
            let head = self.send(&second, &Method::HEAD).await;
            self.equal("length of HEAD", head.body.len(), 0);
            let body = reply.body.clone();
            self.same("HEAD", &Reply { body, ..head }, &reply);
            self.check_revalidation(&second, &reply).await;
        }
        self.check_versions().await;
        self.faults
    }

    /// Checks an answer of the second version.
    fn check(&mut self, reply: &Reply) {
        let answer = match self.expected.split_once(' ') {
            None => reply.status.to_string(),
            Some(_) if reply.text().contains("crib") => format!("{} sees", reply.status),
            Some(_) => format!("{} blind", reply.status),
        };
        self.equal("status", &*answer, self.expected);
        if reply.status == 200 {
            self.check_found(reply);
        } else {
            self.check_error("2.0", reply);
        }
    }

    fn check_found(&mut self, reply: &Reply) {
        let (schema, control, vary) = match self.row.form {
            Form::Public(schema) => {
                (schema, "public, max-age=300", "OpenWOP-Version, Accept-Encoding")
            }
            Form::Private(schema) => (schema, "private, no-cache", VARY),
            Form::Fresh(schema) => (schema, "no-store", VARY),
            Form::Stream(kind) => {
                self.check_headers("2.0", reply, ["text/event-stream", "no-cache", VARY]);
                return self.check_frames(kind, &reply.text());
            }
            Form::Absent => return self.fault("an answer with status 200"),
        };
        self.check_headers("2.0", reply, ["application/json", control, vary]);
        let tagged = matches!(self.row.form, Form::Public(_) | Form::Private(_));
        self.equal("ETag", reply.header("etag").starts_with('"'), tagged);
        self.valid("body", &schema(), &reply.json());
    }

    fn check_frames(&mut self, kind: Option<&str>, stream: &str) {
        let fields = |frame: &str, name: &str| -> Vec<String> {
            let values = frame.lines().filter_map(|line| line.strip_prefix(name));
            values.map(|value| value.trim_start_matches(": ").to_owned()).collect()
        };
        let frames = stream.split("\n\n").filter(|frame| frame.contains("data:"));
        let frames: Vec<&str> = frames.collect();
        if frames.is_empty() {
            self.fault("a stream without events");
        }
        for frame in frames {
            let (data, names) = (fields(frame, "data"), fields(frame, "event"));
            let documents: Value = serde_json::from_str(&data.concat()).unwrap_or_default();
            let documents = match documents {
                Value::Array(documents) => documents,
                document => vec![document],
            };
            for document in &documents {
                self.valid("event", &schemas::event(), document);
            }
            let Some(last) = documents.last() else { continue };
            let name = kind.or(last["type"].as_str()).unwrap_or_default();
            // With two modes, a frame names the mode of its event.
            let updates = kind == Some("debug") && names == ["updates"];
            if names != [name] && !updates {
                self.fault(format!("a frame {names:?}, not {name:?}"));
            }
            self.equal("id", fields(frame, "id"), vec![last["sequence"].to_string()]);
        }
    }

    /// Checks an error that `version` answers.
    fn check_error(&mut self, version: &str, reply: &Reply) {
        // Caches must not mix up the forms of this path, whatever the status.
        let shared = self.path.split(['?', '/']).nth(1) == Some("tools");
        let control = if shared { "private, no-cache" } else { "no-store" };
        self.check_headers(version, reply, ["application/json", control, VARY]);
        self.equal("ETag of an error", reply.header("etag"), "");
        let challenge = if reply.status == 401 { "Bearer" } else { "" };
        self.equal("challenge", reply.header("www-authenticate"), challenge);
        let body = serde_json::from_slice(&reply.body).unwrap_or_default();
        self.valid("error", &schemas::error(reply.status), &body);
    }

    /// Checks the headers of every answer. `[kind, control, vary]` are `Content-Type`,
    /// `Cache-Control` and `Vary`.
    fn check_headers(&mut self, version: &str, reply: &Reply, [kind, control, vary]: [&str; 3]) {
        self.equal("version", reply.header("openwop-version"), version);
        self.equal("Content-Type", reply.header("content-type"), kind);
        self.equal("Cache-Control", reply.header("cache-control"), control);
        self.equal("Vary", reply.header("vary"), vary);
        self.equal("times of Vary", reply.headers.get_all(header::VARY).iter().count(), 1);
        self.equal("Allow", reply.header("allow"), "");
        let seconds = reply.header("retry-after").parse::<u32>().is_ok();
        self.equal("Retry-After", seconds, reply.status == 429);
    }

    /// Checks 304: only for who has the current form, and never instead of an error.
    async fn check_revalidation(&mut self, second: &Actor, reply: &Reply) {
        let tag = reply.header("etag").to_owned();
        if tag.is_empty() {
            if reply.header("content-type") != "text/event-stream" {
                let any = self.send(&second.with("if-none-match", "*"), &Method::GET).await;
                self.same("If-None-Match: *", &any, reply);
            }
            return;
        }
        for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            let again = self.send(&second.with("if-none-match", &known), &Method::GET).await;
            self.equal("status of 304", (again.status, again.body.len()), (304, 0));
            for name in ["openwop-version", "etag", "vary", "cache-control"] {
                self.equal(&format!("{name} of 304"), again.header(name), reply.header(name));
            }
        }
        let stale = self.send(&second.with("if-none-match", "\"x\""), &Method::GET).await;
        self.same("another tag", &stale, reply);
    }

    /// Checks versions other than the second one, which are judged before credentials.
    async fn check_versions(&mut self) {
        let method = &self.row.method;
        for text in ["", "two", "2.", "02.0", "2,2"] {
            let malformed = self.caller.with("openwop-version", text);
            let malformed = self.send(&malformed, method).await;
            self.equal("status of a malformed version", malformed.status, 400);
            self.check_error("2.0", &malformed);
        }
        let twice = self.caller.with("openwop-version", "2.0").with("openwop-version", "2.0");
        let twice = self.send(&twice, method).await;
        self.equal("status of a repeated version", twice.status, 400);
        self.check_error("2.0", &twice);
        for text in ["3.0", "0.9", "99"] {
            let foreign = self.send(&self.caller.with("openwop-version", text), method).await;
            self.equal("status of a foreign version", foreign.status, 406);
            self.check_error("2.0", &foreign);
        }
        // The first version has an address here only.
        if self.path != "/.well-known/openwop" {
            let first = self.send(&self.caller.with("openwop-version", "1.0"), method).await;
            self.equal("status of the first version", first.status, 404);
            self.check_error("1.0", &first);
        }
    }

    /// Checks that two answers are the same but for the time.
    fn same(&mut self, of: &str, found: &Reply, expected: &Reply) {
        self.equal(of, comparable(found), comparable(expected));
    }
}

fn comparable(reply: &Reply) -> (u16, HeaderMap, String) {
    let mut headers = reply.headers.clone();
    for name in ["date", "x-request-id", "transfer-encoding"] {
        headers.remove(name);
    }
    (reply.status, headers, reply.text())
}

impl Tested {
    fn case<'a>(&self, row: &'a Row, caller: &'a (&str, Actor, usize), mode: &str) -> Case<'a> {
        let (name, caller, answer) = caller;
        let path =
            self.runs.iter().fold(row.path.to_owned(), |path, (run, id)| path.replace(run, id));
        let name = format!("{mode}: {} {} by {name}", row.method, row.path);
        Case { row, path, caller, expected: row.answers[*answer], name, faults: Vec::new() }
    }
}

/// Sends every row of the table by every caller, and fails with all faults.
async fn check_every_answer(mode: &str) {
    let (tested, rows) = (tested(mode).await, rows());
    let mut faults = Vec::new();
    for caller in &tested.callers {
        // Streams stay open for a moment after the last event.
        let cases = rows.iter().map(|row| tested.case(row, caller, mode).run());
        faults.extend(join_all(cases).await.into_iter().flatten());
    }
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

// I-9, I-11
#[tokio::test]
async fn every_answer_is_as_the_text_says() {
    check_every_answer("header").await;
}

#[tokio::test]
async fn every_answer_at_the_root_is_as_the_text_says() {
    check_every_answer("root").await;
}

/// A route of the description without a row with another answer than 404 fails.
#[tokio::test]
async fn every_described_route_has_a_row() {
    let gw = TestGateway::builder().start().await;
    let document = gw.anonymous().get("/openapi.json").await.json();
    let rows = rows();
    for (route, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let found = rows.iter().any(|row| {
                row.method.as_str().eq_ignore_ascii_case(method)
                    && row.answers[0] != "404"
                    && is_of(row.path, route)
            });
            assert!(found, "{method} {route}");
        }
    }
}

/// Returns whether `path` is one of `route`, in which segments in braces are variable.
fn is_of(path: &str, route: &str) -> bool {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    path.split('/').count() == route.split('/').count()
        && path.split('/').zip(route.split('/')).all(|(one, of)| one == of || of.starts_with('{'))
}

/// Fails with the faults of answers that are errors of the named statuses.
fn check_errors(tested: &Tested, errors: Vec<(&'static str, &'static str, Reply)>) {
    let mut faults = Vec::new();
    for (path, status, reply) in errors {
        let (method, answers, form) = (Method::GET, [status; 4], Form::Absent);
        let row = Row { method, path, answers, form, unnamed: Unnamed::Never };
        let mut case = tested.case(&row, &tested.callers[0], "header");
        case.check(&reply);
        faults.extend(case.faults);
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[tokio::test]
async fn refusals_outside_of_routes_are_as_the_text_says() {
    let tested = tested("header").await;
    let admin = tested.callers[0].1.with("openwop-version", "2.0");
    let mut errors = Vec::new();
    for path in ["/.well-known/openwop", "/openapi.json", "/tools", "/runs", "/nowhere"] {
        let page = admin.with("origin", "https://evil.example").get(path).await;
        errors.push((path, "403", page));
    }
    let cancel = format!("/runs/{}/cancel", tested.runs[2].1);
    let large = "x".repeat(2 << 20);
    for (body, status) in [(&*large, "413"), ("x", "400"), ("{\"reason\":1}", "400")] {
        errors.push(("/runs/FLOW/cancel", status, admin.post_text(&cancel, body.to_owned()).await));
    }
    // With as many streams as one principal may have.
    let reader = tested.callers[1].1.with("openwop-version", "2.0");
    let ask = json!({ "request": { "tool_id": "crib.ask" } });
    let run = reader.post("/otc/tools/call", ask).await.header("toolcrib-run-id").to_owned();
    let path = format!("/runs/{run}/events");
    let mut open = Vec::new();
    for _ in 0..toolcrib_gateway::listeners::MAX_LISTENERS_OF_ONE {
        open.push(reader.open(Method::GET, &path, None).await);
    }
    errors.push(("/runs/ASKED/events", "429", reader.get(&path).await));
    drop(open);
    check_errors(&tested, errors);
}

#[tokio::test]
async fn without_a_store_the_answers_are_as_the_text_says() {
    let tested = tested("header").await;
    let admin = tested.callers[0].1.with("openwop-version", "2.0");
    tested.gw.store.close().await;
    let mut errors = Vec::new();
    for path in ["/runs", "/runs/FLOW", "/runs/FLOW/events"] {
        let reply = admin.get(&path.replace("FLOW", &tested.runs[2].1)).await;
        errors.push((path, "503", reply));
    }
    check_errors(&tested, errors);
}
