//! One module per command. Each prints its result and returns an [`Exit`].

mod approvals;
mod audit;
mod call;
mod clients;
mod completions;
mod config;
mod conformance;
mod connections;
mod credentials;
mod decoded;
mod edit;
mod explain;
mod generate;
mod hash;
mod health;
mod import;
mod init;
mod input;
mod keys;
mod man;
mod mcp;
mod packs;
mod roles;
mod rules;
mod runs;
mod serve;
mod sources;
mod store;
mod tools;
mod toolsets;
mod top;
mod tour;

use crate::{
    args::{Args, Command, DemoCommand},
    context::Context,
    demo,
    failure::Exit,
    logging::{self, DefaultLevel},
    printer::Printer,
};

pub(crate) async fn run(args: Args, printer: Printer) -> anyhow::Result<Exit> {
    let Args { global, command } = args;
    let level = match command {
        Command::Serve(_) => DefaultLevel::Server,
        _ => DefaultLevel::Command,
    };
    logging::start(&global, level);
    let cx = &Context { global, printer };
    match command {
        Command::Serve(args) => serve::run(&args, cx).await,
        Command::Mcp(args) => mcp::run(args, cx).await,
        Command::Try(args) => tour::run(&args, cx).await,
        Command::Demo(DemoCommand::Keys { name }) => demo::print_keys(name.as_deref(), cx),
        Command::Demo(DemoCommand::Change { undo }) => demo::change(undo, cx),
        Command::Tools(command) => tools::run(command, cx).await,
        Command::Call(args) => call::run(args, cx).await,
        Command::Explain(args) => explain::run(&args, cx).await,
        Command::Sources(command) => sources::run(&command, cx).await,
        Command::Roles(command) => roles::run(&command, cx).await,
        Command::Toolsets(command) => toolsets::run(&command, cx).await,
        Command::Rules(command) => rules::run(&command, cx).await,
        Command::Top(args) => top::run(args, cx).await,
        Command::Keys(command) => keys::run(command, cx).await,
        Command::Credentials(command) => credentials::run(command, cx).await,
        Command::Packs(command) => packs::run(command, cx).await,
        Command::Runs(command) => runs::run(command, cx).await,
        Command::Connections(command) => connections::run(command, cx).await,
        Command::Clients(command) => clients::run(command, cx).await,
        Command::Approvals(command) => approvals::run(command, cx).await,
        Command::Audit(command) => audit::run(command, cx).await,
        Command::Store(command) => store::run(command, cx).await,
        Command::Config(command) => config::run(command, cx).await,
        Command::Conformance(args) => conformance::run(*args, cx).await,
        Command::Health(args) => health::run(&args, cx).await,
        Command::Init(args) => init::run(&args, cx),
        Command::Import(args) => import::run(&args, printer),
        Command::Hash(args) => hash::run(&args, cx).await,
        Command::Completions { shell } => completions::run(shell, printer),
        Command::Man { directory } => man::run(&directory, printer),
        Command::Gen(args) => generate::run(&args, printer),
        Command::DemoUpstream(args) => {
            demo::upstream::run(args.changed_by).await.map(|()| Exit::Done)
        }
    }
}
