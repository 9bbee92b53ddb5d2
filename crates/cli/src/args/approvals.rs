//! The arguments of `approvals`.

use clap::{Args, Subcommand};
use toolcrib_core::{
    approval::ApprovalState,
    id::{ApprovalId, TenantId},
    suggest,
};

use super::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the approvals, the newest first
    #[command(after_help = "\
Examples:
  toolcrib approvals list --state pending
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt approvals list --json

With --url the server shows the requests of the key and those that it can answer.")]
    List(ApprovalListArgs),

    /// Show one approval: its caller, tool, visible arguments and answers
    #[command(after_help = "\
Example:
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt approvals show 01970c5e-…")]
    Show {
        /// The approval, as `approvals list` or the answer to a call shows it
        approval: ApprovalId,
    },

    /// Grant an approval: the same call may run once
    #[command(after_help = "\
Example:
  toolcrib --url http://127.0.0.1:8808 --key-file key.txt approvals grant 01970c5e-… --comment ok

Without --url the operator of this machine answers, as the principal `operator`. You cannot answer
your own request.")]
    Grant(ApprovalAnswerArgs),

    /// Reject an approval; the same call is refused until the request would have expired
    #[command(after_help = "\
Example:
  toolcrib approvals reject 01970c5e-… --comment 'not in the freeze'")]
    Reject(ApprovalAnswerArgs),

    /// Approve on your own authority, bypassing the quorum; needs a comment, and with --url a key
    /// with the scope approvals:override
    #[command(after_help = "\
Example:
  toolcrib approvals override 01970c5e-… --comment 'incident 42'")]
    Override(ApprovalAnswerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalListArgs {
    /// Only in this state: pending, granted, rejected, expired, used or overridden
    #[arg(long, value_parser = approval_state)]
    pub(crate) state: Option<ApprovalState>,

    /// Maximum number of approvals
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) lines: u32,

    /// Only this tenant's
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalAnswerArgs {
    /// The approval, as `approvals list` or the answer to a call shows it
    pub(crate) approval: ApprovalId,

    /// Reason for people; stored with the approval, not in the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}

fn approval_state(text: &str) -> Result<ApprovalState, String> {
    text.parse().map_err(|_| {
        let suggestion =
            suggest::did_you_mean(text, ApprovalState::ALL.iter().map(|it| it.as_str()));
        format!("expected pending, granted, rejected, expired, used or overridden{suggestion}")
    })
}
