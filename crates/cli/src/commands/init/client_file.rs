//! A file of a desktop client, and the servers in it.
//!
//! Invariant: reading a file always completes: only regular files of a limited size are read, and
//! the number of servers is limited.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use rustix::fs::OFlags;
use serde_json::{Value, json};
use toolcrib_core::text::io_reason;

use super::places;
use crate::{
    commands::{
        decoded::decoded,
        import::{ClientFile as Content, described, encoding_error, no_servers},
        input::bounded,
    },
    failure::hints,
};

/// Size limit, in bytes. The file of Claude Code keeps the history of its prompts too.
const MAX_BYTES: u64 = 64 << 20;
/// The most servers of one file.
const MAX_SERVERS: usize = 500;
/// The most names in a summary.
const MAX_NAMES: usize = 12;

/// A configuration file of an MCP client.
#[derive(Debug)]
pub(super) struct ClientFile {
    client: &'static str,
    path: PathBuf,
    pub(super) content: Content,
    /// Why it could not be read.
    problem: Option<String>,
    /// Whether its servers are imported.
    pub(super) chosen: bool,
}

/// Finds the files of clients that exist and have servers, or cannot be read.
pub(super) fn find() -> Vec<ClientFile> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for (client, path) in places::all() {
        let content = match read(&path) {
            Ok(content) => content,
            Err(error) if is_missing(&error) => continue,
            Err(error) => {
                let problem = Some(describe(&error));
                found.push(ClientFile {
                    client,
                    path,
                    content: Content::default(),
                    problem,
                    chosen: false,
                });
                continue;
            }
        };
        // The home can be this directory, and a file a link to another one.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let Some(content) = content.filter(|found| !found.servers.is_empty() && known.insert(real))
        else {
            continue;
        };
        found.push(ClientFile { client, path, content, problem: None, chosen: false });
    }
    found
}

// === impl ClientFile ===

impl ClientFile {
    /// Reads a file that the command line names; its servers are imported.
    pub(super) fn named(path: &Path) -> anyhow::Result<Self> {
        let content = read(path)?.ok_or_else(|| no_servers(&path.display().to_string()))?;
        let path = path.to_owned();
        Ok(Self { client: "named by --from", path, content, problem: None, chosen: true })
    }

    pub(super) fn label(&self) -> String {
        format!("{} ({})", places::shown(&self.path), self.client)
    }

    pub(super) fn summary(&self) -> String {
        match &self.problem {
            Some(problem) => format!("found {}: not usable: {problem}", self.label()),
            None => format!("found {}: {}", self.label(), self.names()),
        }
    }

    /// The question before its servers are imported.
    pub(super) fn question(&self) -> String {
        format!("import {} from {}?", plural(self.content.servers.len()), self.label())
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "client": self.client,
            "file": self.path,
            "servers": self.content.servers.iter().map(|server| &server.name).collect::<Vec<_>>(),
            "problem": self.problem,
            "imported": self.chosen,
        })
    }

    fn names(&self) -> String {
        let names = self.content.servers.iter().take(MAX_NAMES).map(|server| server.name.as_str());
        let more = match self.content.servers.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = names.collect::<Vec<_>>().join(", ");
        format!("{}: {names}{more}", plural(self.content.servers.len()))
    }
}

fn plural(servers: usize) -> String {
    format!("{servers} server{}", if servers == 1 { "" } else { "s" })
}

/// The servers in the file; `None` if it has no table for them.
fn read(path: &Path) -> anyhow::Result<Option<Content>> {
    let shown = path.display();
    // Opening a pipe would wait for its writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.with_context(|| format!("{shown} cannot be read"))?;
    let about = file.metadata().with_context(|| format!("{shown} cannot be read"))?;
    anyhow::ensure!(about.is_file(), "{shown} is not a file");
    anyhow::ensure!(about.len() <= MAX_BYTES, "{shown} is larger than 64 MiB");
    let bytes = bounded(file).with_context(|| format!("{shown} cannot be read"))?;
    let text = decoded(bytes).ok_or_else(|| encoding_error(&shown.to_string()))?;
    // A new installation can leave an empty file.
    if text.trim().is_empty() {
        return Ok(None);
    }
    let content = described(path, &text)?;
    if let Some(content) = &content {
        let count = content.servers.len();
        anyhow::ensure!(
            count <= MAX_SERVERS,
            "{shown} has {count} servers; at most {MAX_SERVERS} are read"
        );
    }
    Ok(content)
}

fn is_missing(error: &anyhow::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| matches!(cause.kind(), NotFound | NotADirectory))
}

/// The error with its causes and hints on one line.
fn describe(error: &anyhow::Error) -> String {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    match io {
        Some(io) => io_reason(io.kind()).to_string(),
        None => {
            let causes = error.chain().map(ToString::to_string);
            causes.chain(hints(error).map(str::to_owned)).collect::<Vec<_>>().join("; ")
        }
    }
}
