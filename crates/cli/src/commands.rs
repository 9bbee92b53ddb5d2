//! One module per command. Each prints its result and returns an [`Exit`].

mod approvals;
mod audit;
mod call;
mod completions;
mod config;
mod conformance;
mod credentials;
mod explain;
mod generate;
mod hash;
mod import;
mod input;
mod keys;
mod mcp;
mod packs;
mod runs;
mod serve;
mod sources;
pub(crate) mod tools;

use crate::{
    args::{Args, Command, DemoCommand},
    demo,
    failure::Exit,
    logging::{self, Usual},
    printer::Printer,
};

/// Runs the command of `args`.
pub(crate) async fn run(args: Args, printer: &Printer) -> anyhow::Result<Exit> {
    let Args { global, command } = args;
    let usual = match command {
        Command::Serve(_) => Usual::Server,
        _ => Usual::Command,
    };
    logging::start(&global, usual);
    let printer = *printer;
    match command {
        Command::Serve(args) => serve::run(&args, &global, printer).await,
        Command::Mcp(args) => mcp::run(args, &global, printer).await,
        Command::Demo(DemoCommand::Keys { name }) => {
            demo::print_keys(name.as_deref(), &global, printer)
        }
        Command::Tools(command) => tools::run(command, &global, printer).await,
        Command::Call(args) => call::run(args, &global, printer).await,
        Command::Explain(args) => explain::run(&args, &global, printer).await,
        Command::Sources(command) => sources::run(&command, &global, printer).await,
        Command::Keys(command) => keys::run(command, &global, printer).await,
        Command::Credentials(command) => credentials::run(command, &global, printer).await,
        Command::Packs(command) => packs::run(command, &global, printer).await,
        Command::Runs(command) => runs::run(command, &global, printer).await,
        Command::Approvals(command) => approvals::run(command, &global, printer).await,
        Command::Audit(command) => audit::run(command, &global, printer).await,
        Command::Config(command) => config::run(command, &global, printer).await,
        Command::Conformance(args) => conformance::run(*args, &global, printer).await,
        Command::Import(args) => import::run(&args, printer),
        Command::Hash(args) => hash::run(&args, printer),
        Command::Completions { shell } => completions::run(shell, printer),
        Command::Gen(args) => generate::run(&args, printer),
        Command::DemoUpstream => demo::upstream::run().await.map(|()| Exit::Done),
    }
}
