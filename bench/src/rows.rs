//! Starts the servers of a measurement and lists its rows.
//!
//! A server that does not start leaves out its own rows only; the report names them with the reason.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::http1::request;
use crate::load::{ExpectedBody, Shot};
use crate::options::RunOptions;
use crate::peers::{self, CALL, LIST, SESSION_CALL, SESSION_LIST};
use crate::plan::{Durability, MeasuredServer, MissingMeasurement, Pair};
use crate::process::Server;
use crate::servers::fixed::TAG;
use crate::subject::{Lists, SourceKind, Subject, direct, direct_service};
use crate::terminal::say;

/// Rows with a separate server.
const OPENING_ROW: &str = "MCP tools/call, opening log";
const PACK_ROW: &str = "MCP tools/call of a pack";
const ACCOUNT_ROW: &str = "MCP tools/call with the caller's account, against a header";
const CROWD_ROW: &str = "GET /v1/tools, each of 10 000 keys";
const SOURCES: [(SourceKind, &str); 3] = [
    (SourceKind::Stdio, "MCP tools/call of a stdio upstream"),
    (SourceKind::Connector, "MCP tools/call of a connector"),
    (SourceKind::Workflow, "MCP tools/call of a workflow of three steps"),
];

/// The goals of calls, as shares of the bare reverse proxy.
const CALL_GOAL: f64 = 0.50;
const RELAXED_CALL_GOAL: f64 = 0.70;
/// The goals of lists: of bytes from memory, and of the MCP server called directly.
const LIST_GOAL: f64 = 0.90;
const MCP_LIST_GOAL: f64 = 0.80;

/// All servers and rows of a measurement.
#[derive(Debug, Default)]
pub(crate) struct Bench {
    pub(crate) servers: BTreeMap<MeasuredServer, Server>,
    pub(crate) subjects: BTreeMap<MeasuredServer, Subject>,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) absent: Vec<MissingMeasurement>,
    /// The versions of the other gateways.
    pub(crate) versions: Vec<String>,
}

/// The limit servers.
struct Limits {
    upstream: Server,
    fixed: Server,
    proxy: Server,
}

impl Bench {
    /// Starts the limit servers, `program` with the strict and with the relaxed log, and the servers
    /// of the other selected rows.
    pub(crate) async fn with(program: &Path, options: &RunOptions, folder: &Path) -> Result<Self> {
        let upstream = upstream(folder).await?;
        let strict = Subject::start(program, "strict", upstream.address, folder).await?;
        let relaxed = Subject::start(program, "relaxed", upstream.address, folder).await?;
        let lists = strict.lists().await?;
        let fixed = fixed(&[&lists.openwop, &lists.otc, &lists.explorer], folder).await?;
        let proxy = proxy(&upstream, folder).await?;
        let limits = Limits { upstream, fixed, proxy };
        let mut bench = Self::default();
        bench.add_lists(&strict, &lists, &limits).await;
        bench.add_calls(&strict, &relaxed, &lists, &limits).await;
        bench.add_sources(program, options, &limits, folder).await?;
        if options.selects(OPENING_ROW) {
            let opening =
                Subject::start(program, "opening", limits.upstream.address, folder).await?;
            let (shot, limit) = (Ok(opening.mcp_call()), limits.proxied_call());
            bench.add(OPENING_ROW, MeasuredServer::Opening, shot, limit, 0.0);
            bench.subjects.insert(MeasuredServer::Opening, opening);
        }
        if options.selects(PACK_ROW) {
            // The cost of a WebAssembly instance, compared with a request to a server.
            let limit = (MeasuredServer::Relaxed, relaxed.mcp_call());
            match Subject::with_pack(program, folder).await {
                Ok(pack) => {
                    bench.add(PACK_ROW, MeasuredServer::Pack, Ok(pack.pack_call()), limit, 1.0);
                    bench.subjects.insert(MeasuredServer::Pack, pack);
                }
                Err(error) => bench.leave_out(PACK_ROW, &error)?,
            }
        }
        if options.selects(ACCOUNT_ROW) {
            match Subject::with_account(program, limits.upstream.address, folder).await {
                Ok(account) => {
                    let limit = (MeasuredServer::Account, account.header_call());
                    let shot = Ok(account.account_call());
                    bench.add(ACCOUNT_ROW, MeasuredServer::Account, shot, limit, 0.0);
                    bench.subjects.insert(MeasuredServer::Account, account);
                }
                Err(error) => bench.leave_out(ACCOUNT_ROW, &error)?,
            }
        }
        if options.selects(CROWD_ROW) {
            say("making 10 000 keys of 500 roles")?;
            let limit = (MeasuredServer::Strict, strict.list("/v1/tools", &lists.openwop));
            match Subject::with_crowd(program, limits.upstream.address, folder).await {
                Ok(crowd) => {
                    let shot = crowd.list_of_the_crowd("/v1/tools", &lists.openwop);
                    // At most 1.2 times as long.
                    bench.add(CROWD_ROW, MeasuredServer::Crowd, Ok(shot), limit, 1.0 / 1.2);
                    bench.subjects.insert(MeasuredServer::Crowd, crowd);
                }
                Err(error) => bench.leave_out(CROWD_ROW, &error)?,
            }
        }
        bench.add_peers(options, &limits, folder).await?;
        bench
            .subjects
            .extend([(MeasuredServer::Strict, strict), (MeasuredServer::Relaxed, relaxed)]);
        bench.keep(limits);
        Ok(bench)
    }

    /// Starts the limit servers only.
    pub(crate) async fn limits(folder: &Path) -> Result<Self> {
        let upstream = upstream(folder).await?;
        let body = direct(upstream.address, "tools/list").once().await?;
        let fixed = fixed(&[&body], folder).await?;
        let proxy = proxy(&upstream, folder).await?;
        let limits = Limits { upstream, fixed, proxy };
        let memory = || (MeasuredServer::Static, from_memory(&limits.fixed, 0, &body));
        let direct_list = limits.direct_list();
        let direct_call = (MeasuredServer::Upstream, direct(limits.upstream.address, "tools/call"));
        let proxied = |method| Ok(direct(limits.proxy.address, method));
        let mut bench = Self::default();
        let list = Ok(direct_list.1.clone());
        bench.add("list: MCP server against memory", MeasuredServer::Upstream, list, memory(), 0.0);
        let known = Ok(known(&limits.fixed, 0));
        bench.add("list: tag known against memory", MeasuredServer::Static, known, memory(), 0.0);
        let list = proxied("tools/list");
        bench.add("list: proxy against MCP server", MeasuredServer::Proxy, list, direct_list, 0.0);
        let call = proxied("tools/call");
        bench.add("call: proxy against MCP server", MeasuredServer::Proxy, call, direct_call, 0.0);
        bench.keep(limits);
        Ok(bench)
    }

    pub(crate) fn server(&self, who: &MeasuredServer) -> Result<&Server> {
        let subject = self.subjects.get(who).map(|subject| &subject.server);
        subject.or_else(|| self.servers.get(who)).context("the server was not started")
    }

    async fn add_lists(&mut self, strict: &Subject, lists: &Lists, limits: &Limits) {
        for (number, path, body) in [
            (0, "/v1/tools", &lists.openwop),
            (1, "/tools", &lists.otc),
            (2, "/explorer/tools", &lists.explorer),
        ] {
            let limit = (MeasuredServer::Static, from_memory(&limits.fixed, number, body));
            let shot = Ok(strict.list(path, body));
            self.add(&format!("GET {path}"), MeasuredServer::Strict, shot, limit, LIST_GOAL);
        }
        let (name, limit) =
            ("GET /v1/tools, If-None-Match", (MeasuredServer::Static, known(&limits.fixed, 0)));
        self.add(
            name,
            MeasuredServer::Strict,
            strict.not_modified("/v1/tools").await,
            limit,
            LIST_GOAL,
        );
        let list = Ok(strict.mcp_list());
        self.add(LIST, MeasuredServer::Strict, list, limits.direct_list(), MCP_LIST_GOAL);
        let list = strict.session_list().await;
        self.add(SESSION_LIST, MeasuredServer::Strict, list, limits.direct_list(), MCP_LIST_GOAL);
    }

    async fn add_calls(
        &mut self,
        strict: &Subject,
        relaxed: &Subject,
        lists: &Lists,
        limits: &Limits,
    ) {
        for (name, ours, without_record) in [
            (CALL, Ok(strict.mcp_call()), Ok(relaxed.mcp_call())),
            (SESSION_CALL, strict.session_call().await, relaxed.session_call().await),
            ("OTC call", strict.otc_call(&lists.otc), relaxed.otc_call(&lists.otc)),
            ("explorer call", Ok(strict.explorer_call()), Ok(relaxed.explorer_call())),
        ] {
            self.add(name, MeasuredServer::Strict, ours, limits.proxied_call(), CALL_GOAL);
            let name = format!("{name}{}", Durability::Relaxed.suffix());
            let limit = limits.proxied_call();
            self.add(&name, MeasuredServer::Relaxed, without_record, limit, RELAXED_CALL_GOAL);
        }
    }

    /// Adds the calls of other sources. A connector is compared with the proxy in front of its
    /// service, the others with the proxy in front of the MCP server over HTTP.
    async fn add_sources(
        &mut self,
        program: &Path,
        options: &RunOptions,
        limits: &Limits,
        folder: &Path,
    ) -> Result<()> {
        for (kind, name) in SOURCES {
            for durability in Durability::ALL {
                let name = format!("{name}{}", durability.suffix());
                if !options.selects(&name) {
                    continue;
                }
                let limit = match kind {
                    SourceKind::Connector => {
                        (MeasuredServer::Proxy, direct_service(limits.proxy.address))
                    }
                    SourceKind::Stdio | SourceKind::Workflow => limits.proxied_call(),
                };
                let (who, address) =
                    (MeasuredServer::Source(kind, durability), limits.upstream.address);
                let subject =
                    Subject::with_source(program, kind, durability.name(), address, folder).await;
                match subject {
                    Ok(subject) => {
                        self.add(&name, who.clone(), Ok(subject.source_call(kind)), limit, 0.0);
                        self.subjects.insert(who, subject);
                    }
                    Err(error) => self.leave_out(&name, &error)?,
                }
            }
        }
        Ok(())
    }

    /// Starts the other gateways and adds each of their rows after the same row of toolcrib.
    async fn add_peers(
        &mut self,
        options: &RunOptions,
        limits: &Limits,
        folder: &Path,
    ) -> Result<()> {
        for peer in peers::configured()? {
            let program = options.peers.as_deref().and_then(|installed| peer.find(installed));
            let Some(program) = program else {
                self.absent.push(MissingMeasurement::new(&peer.name, "not installed"));
                continue;
            };
            say(&format!("starting {}", peer.name))?;
            let running = match peer.start(&program, limits.upstream.address, folder).await {
                Ok(running) => running,
                Err(error) => {
                    self.leave_out(&peer.name, &error)?;
                    continue;
                }
            };
            let who = MeasuredServer::Peer(peer.name.as_str().into());
            for (row, shot) in running.shots {
                let same = self.pairs.iter().rposition(|pair| pair.name == row);
                let Some(same) = same else { continue };
                let limit = match &*row {
                    LIST | SESSION_LIST => limits.direct_list(),
                    _ => limits.proxied_call(),
                };
                let pair = Pair { name: row, ours: (who.clone(), shot), limit, goal: 0.0 };
                self.pairs.insert(same + 1, pair);
            }
            self.versions.push(format!("{} ({})", peer.name, running.version));
            self.servers.insert(who, running.server);
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        who: MeasuredServer,
        shot: Result<Shot>,
        limit: (MeasuredServer, Shot),
        goal: f64,
    ) {
        match shot {
            Ok(shot) => self.pairs.push(Pair { name: name.into(), ours: (who, shot), limit, goal }),
            Err(error) => self.absent.push(MissingMeasurement::new(name, format!("{error:#}"))),
        }
    }

    /// Notes that `what` is not measured, and prints the whole reason.
    fn leave_out(&mut self, what: &str, error: &anyhow::Error) -> Result<()> {
        self.absent.push(MissingMeasurement::new(what, format!("{error:#}")));
        say(&format!("{what} is not measured: {error:#}"))
    }

    fn keep(&mut self, limits: Limits) {
        self.servers.extend([
            (MeasuredServer::Upstream, limits.upstream),
            (MeasuredServer::Static, limits.fixed),
            (MeasuredServer::Proxy, limits.proxy),
        ]);
    }
}

impl Limits {
    fn direct_list(&self) -> (MeasuredServer, Shot) {
        (MeasuredServer::Upstream, direct(self.upstream.address, "tools/list"))
    }

    fn proxied_call(&self) -> (MeasuredServer, Shot) {
        (MeasuredServer::Proxy, direct(self.proxy.address, "tools/call"))
    }
}

/// Starts this program in another role.
async fn own(name: &str, arguments: &[String], folder: &Path) -> Result<Server> {
    let mut command = Command::new(env::current_exe()?);
    Server::start(name, command.args(arguments), folder).await
}

pub(crate) async fn upstream(folder: &Path) -> Result<Server> {
    own("upstream", &["upstream".into()], folder).await
}

async fn fixed(bodies: &[&[u8]], folder: &Path) -> Result<Server> {
    let mut arguments = vec!["static".to_owned()];
    for (number, body) in bodies.iter().enumerate() {
        let file = folder.join(format!("{number}.json"));
        fs::write(&file, body)?;
        arguments.extend(["--body".to_owned(), file.display().to_string()]);
    }
    own("static", &arguments, folder).await
}

async fn proxy(upstream: &Server, folder: &Path) -> Result<Server> {
    let to = format!("http://{}", upstream.address);
    own("proxy", &["proxy".into(), "--to".into(), to], folder).await
}

fn from_memory(fixed: &Server, number: usize, body: &[u8]) -> Shot {
    let request = request("GET", fixed.address, &format!("/{number}"), &[], "");
    Shot {
        address: fixed.address,
        requests: [request].into(),
        status: 200,
        expect: ExpectedBody::Body(body.into()),
    }
}

fn known(fixed: &Server, number: usize) -> Shot {
    let headers = [("if-none-match", TAG)];
    let request = request("GET", fixed.address, &format!("/{number}"), &headers, "");
    Shot {
        address: fixed.address,
        requests: [request].into(),
        status: 304,
        expect: ExpectedBody::Body([].into()),
    }
}
