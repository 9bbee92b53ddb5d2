//! The arguments of `approvals`.

use clap::{Args, Subcommand};
use toolcrib_core::{approval::ApprovalState, id::ApprovalId};

use super::{output::PageArgs, parsers::one_of};

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the approvals, newest first
    #[command(after_help = "\
Examples:
  toolcrib approvals list --state pending
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt approvals list --json

With --url the server lists the requests of the key and those that the key can answer.")]
    List(ApprovalListArgs),

    /// Show the caller, tool, visible arguments and answers of one approval
    #[command(after_help = "\
Example:
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt approvals show 01970c5e-…")]
    Show {
        /// Show the approval with this id
        approval: ApprovalId,
    },

    /// Grant an approval; the same call may then run once
    #[command(after_help = "\
Example:
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt approvals grant 01970c5e-… --comment ok

Without --url you answer as the principal `operator`. You cannot answer your own request.")]
    Grant(ApprovalAnswerArgs),

    /// Reject an approval; the same call is then refused until the request expires
    #[command(after_help = "\
Example:
  toolcrib approvals reject 01970c5e-… --comment 'not in the freeze'")]
    Reject(ApprovalAnswerArgs),

    /// Approve on your own authority, bypassing the quorum
    #[command(after_help = "\
Example:
  toolcrib approvals override 01970c5e-… --comment 'incident 42'

The command requires a comment. With --url the key needs the scope approvals:override.")]
    Override(ApprovalAnswerArgs),

    /// Withdraw a grant that no call has used; the call then needs a new approval
    #[command(after_help = "\
Example:
  toolcrib approvals withdraw 01970c5e-… --comment 'the wrong account'

Its approvers, and everyone who could have approved it, can withdraw a grant.")]
    Withdraw(ApprovalAnswerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalListArgs {
    /// Select only approvals in this state
    #[arg(long, value_parser = one_of(ApprovalState::ALL, ApprovalState::as_str))]
    pub(crate) state: Option<ApprovalState>,

    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalAnswerArgs {
    /// Answer the approval with this id
    pub(crate) approval: ApprovalId,

    /// Store this reason with the approval, not in the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}
