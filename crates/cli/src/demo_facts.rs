//! `demo.json`: the URL and the API keys of the demo.
//!
//! Invariant: only the owner can read the file, also while it is written.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// Size limit of the file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The callers: name of the key and of the principal, tenant, scopes.
pub(crate) const CALLERS: [(&str, &str, &[&str]); 4] = [
    ("admin", "demo", &["*", "metrics:all", "pins:approve"]),
    ("reader", "demo", &["demo:read"]),
    ("approver", "demo", &["approvals:respond"]),
    ("other-tenant", "other", &["*"]),
];

/// The names in [`CALLERS`].
pub(crate) const CALLER_NAMES: [&str; 4] = [CALLERS[0].0, CALLERS[1].0, CALLERS[2].0, CALLERS[3].0];

/// Creates a file that only its owner can read.
pub(crate) fn new_private_file(file: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) url: String,
    pub(crate) keys: BTreeMap<String, String>,
}

impl Facts {
    /// Reads the file of an earlier demo; `None` if it is missing or invalid.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let reader = fs::File::open(file).ok()?.take(MAX_BYTES);
        serde_json::from_reader(io::BufReader::new(reader)).ok()
    }

    /// Replaces the file atomically.
    pub(crate) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let fresh = file.with_extension("json.new");
        let write = || -> std::io::Result<()> {
            // `mode` applies only to a file that this call creates.
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut out = new_private_file(&fresh)?;
            serde_json::to_writer_pretty(&mut out, self)?;
            out.write_all(b"\n")?;
            fs::rename(&fresh, file)
        };
        write().with_context(|| format!("{} cannot be written", file.display()))
    }
}
