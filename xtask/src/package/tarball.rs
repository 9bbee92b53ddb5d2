//! The archive: everything for a machine without a package manager.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::archive::Files;
use super::parts::{CONFIG_SCHEMA, Parts};

/// Files of the tree, with their paths in the archive.
const TEXTS: [(&str, &str); 7] = [
    ("LICENSE", "LICENSE"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("deploy/packages/README.md", "README.md"),
    (CONFIG_SCHEMA, "share/toolcrib/config.schema.json"),
    ("deploy/systemd/toolcrib.service", "systemd/toolcrib.service"),
    ("deploy/systemd/toolcrib.sysusers", "systemd/toolcrib.sysusers"),
    ("deploy/packages/toolcrib.toml", "systemd/toolcrib.toml"),
];

pub(super) fn write(parts: &Parts, out: &Path) -> Result<PathBuf> {
    let mut files = Files::default();
    files.add_executable("bin/toolcrib", parts.program_bytes()?);
    for (from, to) in TEXTS {
        files.add(to, parts.text(from)?);
    }
    let example = parts.example("./share/toolcrib/config.schema.json")?;
    files.add("toolcrib.example.toml", example);
    files.add("THIRD-PARTY-LICENSES", parts.notices.as_str());
    files.add_all("share/man/man1", &parts.manual);
    for (path, content) in parts.completions.iter() {
        let folder = match path {
            "_toolcrib" => "share/zsh/site-functions",
            "toolcrib.fish" => "share/fish/vendor_completions.d",
            _ => "share/bash-completion/completions",
        };
        files.add(format!("{folder}/{}", path.trim_end_matches(".bash")), content);
    }
    let name = format!("toolcrib-{}-{}", parts.version, parts.program.target());
    let file = out.join(format!("{name}.tar.gz"));
    files.write_tar_gz(&file, &name, parts.time, parts.effort)?;
    Ok(file)
}
