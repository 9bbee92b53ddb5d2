//! The arguments of `connections`.

use clap::{Args, Subcommand};
use toolcrib_core::id::SourceId;

use super::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ConnectionsCommand {
    /// List the accounts that your calls act with, and those that are not connected yet
    #[command(after_help = "\
Examples:
  toolcrib --url https://crib.example.com --key-file key.txt connections list
  toolcrib connections list --all
  toolcrib connections list --json | jq -r '.[] | select(.state != \"active\") | .source'

The list has the accounts of the key's principal, and each source that still needs one. With --all
it has those of everyone in the tenant; the key then needs the scope connections:manage. Tokens are
never shown.")]
    List(ConnectionListArgs),

    /// Connect your account to a source, in a browser
    #[command(after_help = "\
Examples:
  toolcrib --url https://crib.example.com --key-file key.txt connections connect github
  toolcrib connections connect github --no-wait
  toolcrib connections connect github --tenant

The command says where you sign in and for which access, prints a link, opens it in a browser if it
runs on a terminal, and waits until the account is connected. The link works once, for ten minutes,
and only for the principal of the key: sign in to the console as that principal. A connected account
is replaced.

With --tenant it is the account of the tenant: the source lists its tools with it, and the calls use
it if the source has `oauth.of = \"tenant\"`. The key then needs the scope connections:manage.")]
    Connect(ConnectArgs),

    /// Disconnect an account; calls that need it then ask for it again
    #[command(after_help = "\
Examples:
  toolcrib --url https://crib.example.com --key-file key.txt connections disconnect github
  toolcrib connections disconnect 01970c5e-8d3b-7e6a-9f0e-3a1b2c4d5e6f
  toolcrib connections disconnect github --tenant

The server forgets the tokens, and then requests that the service end them. The command says if the
service does not confirm it.

An account of another principal needs its id and the scope connections:manage.")]
    Disconnect(DisconnectArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ConnectionListArgs {
    /// List the accounts of everyone in the tenant
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// Connect an account to this source
    pub(crate) source: SourceId,

    /// Connect the account of the tenant instead of yours
    #[arg(long)]
    pub(crate) tenant: bool,

    /// Print the link only: open no browser and do not wait
    #[arg(long)]
    pub(crate) no_wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DisconnectArgs {
    /// Disconnect your account at this source, or the account with this id
    #[arg(value_name = "SOURCE|ID")]
    pub(crate) connection: String,

    /// Disconnect the account of the tenant instead of yours
    #[arg(long)]
    pub(crate) tenant: bool,
}
