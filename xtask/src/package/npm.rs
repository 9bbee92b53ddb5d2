//! The npm package: a launcher and the program of one platform.
//!
//! The launcher looks for the package `@toolcrib/OS-CPU` first. A release for several platforms thus moves
//! each program to such a package, names them in `optionalDependencies`, and keeps the launcher.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::archive::Files;
use super::parts::{Parts, REPOSITORY, SUMMARY};

pub(super) fn write(parts: &Parts, out: &Path) -> Result<PathBuf> {
    let cpu = parts.program.architecture.node;
    let manifest = json!({
        "name": "toolcrib",
        "version": parts.version,
        "description": SUMMARY,
        "license": "Apache-2.0",
        "repository": { "type": "git", "url": format!("git+{REPOSITORY}.git") },
        "keywords": ["mcp", "tools", "agents", "gateway"],
        "bin": { "toolcrib": "bin/toolcrib.js" },
        "files": ["bin", "platforms", "THIRD-PARTY-LICENSES"],
        "os": ["linux"],
        "cpu": [cpu],
        "libc": ["glibc"],
        "engines": { "node": ">=18" },
    });
    let mut files = Files::default();
    files.add("package.json", format!("{manifest:#}\n"));
    files.add_executable("bin/toolcrib.js", parts.text("deploy/npm/toolcrib.js")?);
    files.add_executable(format!("platforms/linux-{cpu}/toolcrib"), parts.program_bytes()?);
    files.add("README.md", parts.text("deploy/packages/README.md")?);
    files.add("LICENSE", parts.text("LICENSE")?);
    files.add("THIRD-PARTY-LICENSES", parts.notices.as_str());
    let file = out.join(format!("toolcrib-{}-linux-{cpu}.tgz", parts.version));
    files.write_tar_gz(&file, "package", parts.time, parts.effort)?;
    Ok(file)
}
