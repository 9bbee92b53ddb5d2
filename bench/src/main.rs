//! `toolcrib-bench run`: measures a running toolcrib against the limit of this machine.
//! `toolcrib-bench log`: measures the event log alone against plain SQLite.
//! `toolcrib-bench soak`: keeps a server busy for a long time and samples what must not grow.
//! `toolcrib-bench catalog`: measures large catalogs and many keys.
//! `toolcrib-bench cluster`: measures several servers over one database against one.
//! `toolcrib-bench cost`: counts system calls, switches, allocations and instructions of a request.
//! `toolcrib-bench search`: measures searches of a large record.
//! `toolcrib-bench growth`: computes what limits a deployment, from measured constants.
//!
//! Every relevant figure is a ratio of two servers measured in turns in one run, because absolute
//! figures depend on the state of the machine. The servers to compare with are this program too,
//! started as separate processes on loopback. The limit for a list is axum with bytes in memory.
//! The limit for a call is a reverse proxy in front of an MCP server with prepared responses.

mod catalog;
mod cluster;
mod comparison;
mod cost;
mod earlier;
mod endpoint;
mod growth;
mod histogram;
mod http1;
mod load;
mod log;
mod machine;
mod options;
mod others;
mod peers;
mod plan;
mod process;
mod report;
mod rows;
mod run;
mod search;
mod section;
mod servers;
mod soak;
mod subject;
mod terminal;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "toolcrib-bench")]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Start all servers, measure, and print the table
    Run(options::RunOptions),
    /// Measure the event log alone, against plain SQLite
    Log(log::LogOptions),
    /// Keep a server busy, and print whether its memory, descriptors, threads and latencies are flat
    Soak(soak::SoakOptions),
    /// Measure large catalogs and many keys
    Catalog(catalog::CatalogOptions),
    /// Measure several servers over one PostgreSQL database against one server
    Cluster(cluster::ClusterOptions),
    /// Compute what limits a number of servers over PostgreSQL, or measure the constants of that
    Growth(growth::GrowthOptions),
    /// Count system calls, switches, allocations and instructions of a request
    Cost(cost::CostOptions),
    /// Measure searches of a large record
    Search(search::SearchOptions),
    /// Write the generated pages of this program under a folder
    #[command(hide = true)]
    Gen {
        #[arg(long)]
        out: PathBuf,
    },
    /// Serve bytes from memory: `GET /N` is the N-th file
    #[command(hide = true)]
    Static {
        #[arg(long)]
        body: Vec<PathBuf>,
    },
    /// Forward every request
    #[command(hide = true)]
    Proxy {
        #[arg(long)]
        to: String,
    },
    /// Run an MCP server with prepared responses
    #[command(hide = true)]
    Upstream {
        /// Serve the caller of this program instead of a port
        #[arg(long)]
        stdio: bool,
    },
    /// Stop a process group when stdin is closed
    #[command(hide = true)]
    Watch { group: u32 },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    // These two only wait for stdin.
    match arguments.role {
        Role::Watch { group } => {
            process::watch(group);
            return Ok(());
        }
        Role::Upstream { stdio: true } => return servers::upstream::serve_stdio(),
        _ => (),
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            outcome = play(arguments.role) => outcome,
            // A signal counts as a failure, so that servers are stopped and files removed.
            signal = process::ended_by_signal() => bail!("stopped by {}", signal?),
        }
    })
}

async fn play(role: Role) -> Result<()> {
    match role {
        Role::Run(options) => run::run(&options).await,
        Role::Log(options) => log::run(&options).await,
        Role::Soak(options) => soak::run(&options).await,
        Role::Catalog(options) => catalog::run(&options).await,
        Role::Cluster(options) => cluster::run(&options).await,
        Role::Growth(options) => growth::run(&options).await,
        Role::Cost(options) => cost::run(&options).await,
        Role::Search(options) => search::run(options).await,
        Role::Gen { out } => growth::generate(&out),
        Role::Static { body } => servers::fixed::serve(&body).await,
        Role::Proxy { to } => servers::proxy::serve(&to).await,
        Role::Upstream { .. } => servers::upstream::serve().await,
        Role::Watch { .. } => Ok(()),
    }
}
