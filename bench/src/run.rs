//! Starts the servers, measures each pair in turns, and stops the servers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{env, fs, io};

use anyhow::{Context, Result};
use std::io::Write;

use crate::RunOptions;
use crate::histogram::Histogram;
use crate::http1::request;
use crate::load::{Expect, Shot};
use crate::machine::Machine;
use crate::plan::{Pair, Who};
use crate::process::Server;
use crate::report::{self, Measured, Row};
use crate::servers::fixed::TAG;
use crate::subject::{Lists, Subject, direct};

/// How often each server of a pair is measured, in turns, so that a change of the machine's load
/// affects both.
const ROUNDS: u32 = 2;
const WARM_UP: Duration = Duration::from_millis(300);
/// Rows with a server of their own.
const PACK_ROW: &str = "MCP tools/call of a pack";
const CROWD_ROW: &str = "GET /v1/tools, each of 10 000 keys";

/// All servers of a measurement.
struct Bench {
    servers: BTreeMap<Who, Server>,
    subjects: BTreeMap<Who, Subject>,
}

pub(crate) async fn run(options: &RunOptions) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (bench, pairs) = match &options.toolcrib {
        Some(program) => Bench::with(program, options, folder.path()).await?,
        None => Bench::limits(folder.path()).await?,
    };
    let pairs: Vec<Pair> = pairs.into_iter().filter(|it| options.selects(it.name)).collect();
    anyhow::ensure!(!pairs.is_empty(), "--only selects no row");
    let idle = bench.memory()?;
    let mut rows = Vec::new();
    for connections in &options.connections {
        for pair in &pairs {
            let row = bench.measure(pair, *connections, options.seconds).await;
            let row = row.with_context(|| format!("{} with {connections}", pair.name))?;
            say(&report::line(&row))?;
            rows.push(row);
        }
    }
    let page = report::page(&Machine::read(), options, &rows, &idle, &bench.memory()?);
    say(&format!("\n{page}"))?;
    if let Some(file) = &options.write {
        // The page ends with a section that `cargo xtask cold` writes.
        let old = fs::read_to_string(file).unwrap_or_default();
        let cold = old.find("\n## A build from nothing").and_then(|at| old.get(at..));
        fs::write(file, format!("{page}{}", cold.unwrap_or_default()))?;
        say(&format!("written: {}", file.display()))?;
    }
    Ok(())
}

/// Prints a line.
pub(crate) fn say(text: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{text}")?)
}

// === impl Bench ===

impl Bench {
    /// Starts the limit servers, and `program` with the strict and with the relaxed log.
    async fn with(
        program: &Path,
        options: &RunOptions,
        folder: &Path,
    ) -> Result<(Self, Vec<Pair>)> {
        let upstream = own("upstream", &["upstream".into()], folder).await?;
        let strict = Subject::start(program, "strict", upstream.address, folder).await?;
        let relaxed = Subject::start(program, "relaxed", upstream.address, folder).await?;
        let lists = strict.lists().await?;
        let fixed = fixed(&[&lists.openwop, &lists.otc, &lists.explorer], folder).await?;
        let proxy = proxy(&upstream, folder).await?;
        let mut pairs = pairs(&strict, &relaxed, &lists, &fixed, &upstream, &proxy).await?;
        let mut more = Vec::new();
        if options.selects(PACK_ROW) {
            let pack = Subject::with_pack(program, folder).await?;
            // The cost of a WebAssembly instance, compared with a request to a server.
            pairs.push(Pair {
                name: PACK_ROW,
                ours: (Who::Pack, pack.pack_call()),
                limit: (Who::Relaxed, relaxed.mcp_call()),
                goal: 1.0,
            });
            more.push((Who::Pack, pack));
        }
        if options.selects(CROWD_ROW) {
            say("making 10 000 keys of 500 roles")?;
            let crowd = Subject::with_crowd(program, upstream.address, folder).await?;
            pairs.push(Pair {
                name: CROWD_ROW,
                ours: (Who::Crowd, crowd.list_of_the_crowd("/v1/tools", &lists.openwop)),
                limit: (Who::Strict, strict.list("/v1/tools", &lists.openwop)),
                // At most 1.2 times as long.
                goal: 1.0 / 1.2,
            });
            more.push((Who::Crowd, crowd));
        }
        let servers = [(Who::Upstream, upstream), (Who::Static, fixed), (Who::Proxy, proxy)];
        let subjects = [(Who::Strict, strict), (Who::Relaxed, relaxed)];
        let subjects = subjects.into_iter().chain(more).collect();
        Ok((Self { servers: servers.into(), subjects }, pairs))
    }

    /// Starts the limit servers only.
    async fn limits(folder: &Path) -> Result<(Self, Vec<Pair>)> {
        let upstream = own("upstream", &["upstream".into()], folder).await?;
        let body = direct(upstream.address, "tools/list").once().await?;
        let fixed = fixed(&[&body], folder).await?;
        let proxy = proxy(&upstream, folder).await?;
        let pairs = vec![
            Pair {
                name: "list: MCP server against memory",
                ours: (Who::Upstream, direct(upstream.address, "tools/list")),
                limit: (Who::Static, from_memory(&fixed, 0, &body)),
                goal: 0.0,
            },
            Pair {
                name: "list: tag known against memory",
                ours: (Who::Static, known(&fixed, 0)),
                limit: (Who::Static, from_memory(&fixed, 0, &body)),
                goal: 0.0,
            },
            Pair {
                name: "list: proxy against MCP server",
                ours: (Who::Proxy, direct(proxy.address, "tools/list")),
                limit: (Who::Upstream, direct(upstream.address, "tools/list")),
                goal: 0.0,
            },
            Pair {
                name: "call: proxy against MCP server",
                ours: (Who::Proxy, direct(proxy.address, "tools/call")),
                limit: (Who::Upstream, direct(upstream.address, "tools/call")),
                goal: 0.0,
            },
        ];
        let servers = [(Who::Upstream, upstream), (Who::Static, fixed), (Who::Proxy, proxy)];
        Ok((Self { servers: servers.into(), subjects: BTreeMap::new() }, pairs))
    }

    /// Measures limit, ours, limit, ours.
    async fn measure(&self, pair: &Pair, connections: u32, seconds: u32) -> Result<Row> {
        let slice = Duration::from_secs(seconds.into()) / ROUNDS;
        let mut sides = [Measured::new(pair.limit.0), Measured::new(pair.ours.0)];
        let shots = [&pair.limit.1, &pair.ours.1];
        for shot in shots {
            shot.fire(connections, WARM_UP).await?;
        }
        for _ in 0..ROUNDS {
            for (side, shot) in sides.iter_mut().zip(shots) {
                self.slice(side, shot, connections, slice).await?;
            }
        }
        let [limit, ours] = sides;
        Ok(Row { name: pair.name, connections, ours, limit, goal: pair.goal })
    }

    async fn slice(
        &self,
        side: &mut Measured,
        shot: &Shot,
        connections: u32,
        time: Duration,
    ) -> Result<()> {
        let server = self.server(side.who)?;
        let before = server.processor_time()?;
        let outcome = shot.fire(connections, time).await.context(side.who.name())?;
        side.processor += server.processor_time()?.saturating_sub(before);
        side.elapsed += outcome.elapsed;
        side.latencies.merge(&outcome.latencies);
        Ok(())
    }

    fn server(&self, who: Who) -> Result<&Server> {
        let subject = self.subjects.get(&who).map(|subject| &subject.server);
        subject.or_else(|| self.servers.get(&who)).context("a server that was not started")
    }

    fn memory(&self) -> Result<BTreeMap<Who, u64>> {
        let known = self.servers.keys().chain(self.subjects.keys());
        known.map(|who| Ok((*who, self.server(*who)?.memory()?))).collect()
    }
}

impl Measured {
    fn new(who: Who) -> Self {
        let (elapsed, processor) = (Duration::ZERO, Duration::ZERO);
        Self { who, latencies: Histogram::new(), elapsed, processor }
    }
}

async fn pairs(
    strict: &Subject,
    relaxed: &Subject,
    lists: &Lists,
    fixed: &Server,
    upstream: &Server,
    proxy: &Server,
) -> Result<Vec<Pair>> {
    let list = |name, path, number, body: &[u8]| Pair {
        name,
        ours: (Who::Strict, strict.list(path, body)),
        limit: (Who::Static, from_memory(fixed, number, body)),
        goal: 0.80,
    };
    let call = |name, who, shot, goal| Pair {
        name,
        ours: (who, shot),
        limit: (Who::Proxy, direct(proxy.address, "tools/call")),
        goal,
    };
    Ok(vec![
        list("GET /v1/tools", "/v1/tools", 0, &lists.openwop),
        list("GET /tools", "/tools", 1, &lists.otc),
        list("GET /explorer/tools", "/explorer/tools", 2, &lists.explorer),
        Pair {
            name: "GET /v1/tools, If-None-Match",
            ours: (Who::Strict, strict.not_modified("/v1/tools").await?),
            limit: (Who::Static, known(fixed, 0)),
            goal: 0.95,
        },
        Pair {
            name: "MCP tools/list",
            ours: (Who::Strict, strict.mcp_list()),
            limit: (Who::Upstream, direct(upstream.address, "tools/list")),
            goal: 0.60,
        },
        Pair {
            name: "MCP tools/list in a session",
            ours: (Who::Strict, strict.session_list().await?),
            limit: (Who::Upstream, direct(upstream.address, "tools/list")),
            goal: 0.60,
        },
        call("MCP tools/call", Who::Strict, strict.mcp_call(), 0.50),
        call("MCP tools/call, relaxed log", Who::Relaxed, relaxed.mcp_call(), 0.75),
        call("MCP tools/call in a session", Who::Strict, strict.session_call().await?, 0.50),
        call("OTC call", Who::Strict, strict.otc_call(&lists.otc)?, 0.50),
        call("OTC call, relaxed log", Who::Relaxed, relaxed.otc_call(&lists.otc)?, 0.75),
    ])
}

/// Starts this program in another role.
async fn own(name: &str, arguments: &[String], folder: &Path) -> Result<Server> {
    let mut command = Command::new(env::current_exe()?);
    Server::start(name, command.args(arguments), folder).await
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
        expect: Expect::Body(body.into()),
    }
}

fn known(fixed: &Server, number: usize) -> Shot {
    let headers = [("if-none-match", TAG)];
    let request = request("GET", fixed.address, &format!("/{number}"), &headers, "");
    Shot {
        address: fixed.address,
        requests: [request].into(),
        status: 304,
        expect: Expect::Body([].into()),
    }
}
