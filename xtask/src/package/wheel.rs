//! The Python wheel: the program as a script, so that `pip install` and `uvx toolcrib` give the command.

use std::path::{Path, PathBuf};

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::archive::Files;
use super::parts::Parts;

pub(super) fn write(parts: &Parts, out: &Path) -> Result<PathBuf> {
    let version = &parts.version;
    let (major, minor) = parts.program.glibc;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", parts.program.architecture.machine);
    let info = format!("toolcrib-{version}.dist-info");

    let mut files = Files::default();
    files.add_executable(
        format!("toolcrib-{version}.data/scripts/toolcrib"),
        parts.program_bytes()?,
    );
    files.add(format!("{info}/licenses/LICENSE"), parts.text("LICENSE")?);
    files.add(format!("{info}/licenses/THIRD-PARTY-LICENSES"), parts.notices.as_str());
    files.add(format!("{info}/METADATA"), metadata(parts)?);
    files.add(
        format!("{info}/WHEEL"),
        format!(
            "Wheel-Version: 1.0\nGenerator: toolcrib {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
        ),
    );
    let record = record(&files, &format!("{info}/RECORD"));
    files.add(format!("{info}/RECORD"), record);

    let file = out.join(format!("toolcrib-{version}-{tag}.whl"));
    files.write_zip(&file, parts.effort)?;
    Ok(file)
}

fn metadata(parts: &Parts) -> Result<String> {
    let lines = [
        "Metadata-Version: 2.4".to_owned(),
        "Name: toolcrib".to_owned(),
        format!("Version: {}", parts.version),
        format!("Summary: {}", super::parts::SUMMARY),
        format!("Project-URL: Repository, {}", super::parts::REPOSITORY),
        "License-Expression: Apache-2.0".to_owned(),
        "License-File: LICENSE".to_owned(),
        "License-File: THIRD-PARTY-LICENSES".to_owned(),
        "Keywords: mcp,tools,agents,gateway".to_owned(),
        "Classifier: Operating System :: POSIX :: Linux".to_owned(),
        "Requires-Python: >=3.8".to_owned(),
        "Description-Content-Type: text/markdown".to_owned(),
    ];
    Ok(format!("{}\n\n{}", lines.join("\n"), parts.text("deploy/packages/README.md")?))
}

/// The list of all files with their digests. Its own line has no digest.
fn record(files: &Files, own: &str) -> String {
    let mut lines: String = files
        .iter()
        .map(|(path, content)| {
            let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(content));
            format!("{path},sha256={digest},{}\n", content.len())
        })
        .collect();
    lines.push_str(&format!("{own},,\n"));
    lines
}
