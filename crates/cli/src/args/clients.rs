//! The arguments of `clients`.

use clap::{Args, Subcommand};
use toolcrib_core::id::CredentialId;

use super::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ClientsCommand {
    /// List the clients that act for you after you signed in with them in a browser
    #[command(after_help = "\
Examples:
  toolcrib --url https://crib.example.com --key-file key.txt clients list
  toolcrib clients list --all
  toolcrib clients list --json | jq -r '.[] | select(.vouchedBy == \"itself\") | .id'

The list has the clients of the key's principal. With --all it has those of everyone in the tenant;
the key then needs the scope keys:manage. A client chooses its own name: the column `vouched by` has
the host of its document, `the operator`, or `itself` for a client that registered here. The last
use is missing if it was more than a day ago.

Clients act for the person who signed in at the identity provider, which is rarely the principal of
a key. Present a token of that provider in place of the key, or use the console.")]
    List(ClientListArgs),

    /// End the access of a client at once
    #[command(after_help = "\
Examples:
  toolcrib --url https://crib.example.com --key-file key.txt clients end 01970c5e
  toolcrib clients end 01970c5e-8d3b-7e6a-9f0e-3a1b2c4d5e6f

Its access and refresh tokens are refused from now on, on every server. The client can open the page
for consent again. A client of another principal needs the scope keys:manage.")]
    End {
        /// End the access with this id, or with the only id that starts so
        #[arg(value_name = "ID")]
        id: CredentialId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ClientListArgs {
    /// List the clients of everyone in the tenant
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}
