//! `demo.json`: where the demo is and with which keys it can be used.
//!
//! Invariant: the file is readable by its owner only, also while it is being written.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// Most bytes that are read of the file.
const MAX_BYTES: u64 = 1 << 20;

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) url: String,
    pub(crate) keys: BTreeMap<String, String>,
}

impl Facts {
    /// What an earlier demo wrote, if it is there and makes sense.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let reader = fs::File::open(file).ok()?.take(MAX_BYTES);
        serde_json::from_reader(io::BufReader::new(reader)).ok()
    }

    /// Writes the file in one step: a reader sees the old one or the new one.
    pub(crate) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let fresh = file.with_extension("json.new");
        let write = || -> std::io::Result<()> {
            // The mode only counts for a file that is made here.
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut out =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
            serde_json::to_writer_pretty(&mut out, self)?;
            out.write_all(b"\n")?;
            fs::rename(&fresh, file)
        };
        write().with_context(|| format!("{} cannot be written", file.display()))
    }
}
