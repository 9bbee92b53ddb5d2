//! The names of a tool. All are computed from (kind, source, the upstream's name), all are looked
//! up in tables, none is ever parsed back.

use sha2::{Digest as _, Sha256};

use crate::{
    descriptor::SourceKind,
    id::{InvalidId, SourceId, ToolId},
};

/// What model APIs accept for a tool's name (`[A-Za-z0-9_-]{1,64}`).
pub const MAX_WIRE_NAME: usize = 64;

/// A tool's names beside its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// `[A-Za-z0-9_-]{1,64}`: the `name` of MCP, explorer and OTC.
    pub wire: String,
    /// `Toolkit.Tool`, the OTC id without its version.
    pub otc: String,
    /// `x.y.z`.
    pub version: String,
}

impl Names {
    /// The OTC id with its version.
    pub fn otc_id(&self) -> String {
        format!("{}@{}", self.otc, self.version)
    }
}

/// The identity of tool `name` of `source`.
///
/// Characters outside `[A-Za-z0-9._-]` become `_`; a name that was changed or cut gets a hash of the
/// original, so that different names stay different.
pub fn tool_id(kind: SourceKind, source: &SourceId, name: &str) -> Result<ToolId, InvalidId> {
    let local = tidy(name, 160, |c| c.is_ascii_alphanumeric() || "._-".contains(c));
    ToolId::parse(match kind {
        SourceKind::Mcp => format!("mcp:{source}.{local}"),
        SourceKind::Connector => format!("connector:{source}.{local}"),
        SourceKind::NodePack => format!("openwop:{source}.{local}"),
        SourceKind::Workflow => format!("openwop:workflow.{local}"),
        SourceKind::HostExtension => format!("x-host-{source}-{local}"),
    })
}

/// The other names of tool `name` of `source`; `version` is what the upstream says of itself.
pub fn names(source: &SourceId, name: &str, version: Option<&str>) -> Names {
    let dotless = name.replace('.', "_");
    let prefix = format!("{source}__");
    let local = tidy_as(name, &dotless, MAX_WIRE_NAME - prefix.len(), |c| {
        c.is_ascii_alphanumeric() || "_-".contains(c)
    });
    let underscored = dotless.replace('-', "_");
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let toolkit = source.as_str().replace('-', "_");
    Names {
        wire: prefix + &local,
        otc: format!("{toolkit}.{}", tidy_as(name, &underscored, MAX_WIRE_NAME, word)),
        version: simple_version(version).unwrap_or_else(|| "1.0.0".to_owned()),
    }
}

fn tidy(name: &str, max: usize, legal: impl Fn(char) -> bool) -> String {
    tidy_as(name, name, max, legal)
}

/// `candidate` with illegal characters replaced, at most `max` long, never empty; with eight hex
/// digits of `original`'s hash when that lost anything.
fn tidy_as(original: &str, candidate: &str, max: usize, legal: impl Fn(char) -> bool) -> String {
    let clean: String = candidate.chars().map(|c| if legal(c) { c } else { '_' }).collect();
    if clean == candidate && clean.len() <= max && !clean.is_empty() {
        return clean;
    }
    let hash = Sha256::digest(original.as_bytes());
    let suffix: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let kept: String = clean.chars().take(max - suffix.len() - 1).collect();
    format!("{kept}_{suffix}")
}

/// `x.y.z` out of a version text: pre-release and build parts are dropped.
fn simple_version(version: Option<&str>) -> Option<String> {
    let core = version?.split(['-', '+']).next()?;
    let parts: Vec<&str> = core.split('.').collect();
    let number = |p: &&str| !p.is_empty() && p.len() <= 9 && p.bytes().all(|b| b.is_ascii_digit());
    (parts.len() == 3 && parts.iter().all(number)).then(|| core.to_owned())
}
