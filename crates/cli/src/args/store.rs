//! The arguments of `store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Copy a whole store into a new one, from SQLite to PostgreSQL or back
    #[command(after_help = "\
Examples:
  toolcrib store copy sqlite:.toolcrib/toolcrib.db postgres://toolcrib@db.example/toolcrib \\
    --to-password-file db.password
  toolcrib store copy postgres://toolcrib@db.example/toolcrib sqlite:copy.db

Stop all servers of both stores first. The copy has every event with its position and hash, the
checkpoints, keys, pins, approvals, credentials, runs, idempotent calls, quotas and catalogs. It is
compared with the original before it counts; a failed copy is removed, and the next copy removes
the files PATH.partial of a killed one.

Credentials and stored answers stay sealed with the same seal key, and the record continues with the
same signing key: give the new server both keys, and the witness of the old one.")]
    Copy(StoreCopyArgs),

    /// Create or migrate the tables of the configured store
    #[command(after_help = "\
Examples:
  toolcrib store migrate
  toolcrib store migrate --config /etc/toolcrib/toolcrib.toml

`toolcrib serve` does this itself. Use this to do it with a database user of higher rights, or before
the first server of a new version starts.")]
    Migrate,

    /// Check that the configured store can be read, and count its events
    #[command(after_help = "\
Examples:
  toolcrib store check
  toolcrib store check --json

This checks files and tables. `toolcrib audit verify` checks that no event was changed.")]
    Check,
}

#[derive(Debug, Args)]
pub(crate) struct StoreCopyArgs {
    /// The store to copy: sqlite:PATH or postgres://USER@HOST/DATABASE
    #[arg(value_name = "FROM")]
    pub(crate) from: String,

    /// The new store, which must not exist or be empty
    #[arg(value_name = "TO")]
    pub(crate) to: String,

    /// Read the password of the PostgreSQL user in FROM from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) from_password_file: Option<PathBuf>,

    /// Read the password of the PostgreSQL user in TO from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) to_password_file: Option<PathBuf>,
}
