//! The Debian package, built by Debian's own `dpkg-deb`.
//!
//! It creates the user `toolcrib` and does not start the server, which has no tools before
//! `/etc/toolcrib/toolcrib.toml` names some. An upgrade restarts a running one. The state in
//! `/var/lib/toolcrib` stays when the package is removed or purged, because it contains the record.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::archive::{Effort, Files, gzip};
use super::parts::{CONFIG_SCHEMA, Parts, REPOSITORY, SUMMARY};
use crate::shell;

/// The revision of the package of one version.
const REVISION: &str = "1";
const MAINTAINER: &str = "The toolcrib authors <toolcrib@users.noreply.github.com>";

pub(super) fn write(parts: &Parts, out: &Path) -> Result<PathBuf> {
    if shell::find("dpkg-deb").is_none() {
        bail!("dpkg-deb is missing: install the package dpkg, or leave this kind out with --only");
    }
    let version = format!("{}-{REVISION}", parts.version);
    let files = files(parts, &version)?;
    let mut control = Files::default();
    control.add("control", self::control(parts, &version, files.size()));
    control.add("conffiles", "/etc/toolcrib/toolcrib.toml\n");
    for script in ["postinst", "prerm", "postrm"] {
        control.add_executable(script, parts.text(&format!("deploy/packages/debian/{script}"))?);
    }

    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    files.write_folder(&root)?;
    control.write_folder(&root.join("DEBIAN"))?;
    let file = out.join(format!("toolcrib_{version}_{}.deb", parts.program.architecture.debian));
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", parts.time.to_string());
    let compression: &[&str] = match parts.effort {
        Effort::Small => &["-Zxz", "-z6"],
        Effort::Quick => &["-Zgzip", "-z1"],
    };
    build.arg("--root-owner-group").args(compression).arg("--build").arg(&root).arg(&file);
    // Its messages belong to no reader of this task's output.
    shell::run(build.env("DPKG_COLORS", "never")).context("dpkg-deb")?;
    Ok(file)
}

fn files(parts: &Parts, version: &str) -> Result<Files> {
    let mut files = Files::default();
    files.add_executable("usr/bin/toolcrib", parts.program_bytes()?);
    files
        .add("lib/systemd/system/toolcrib.service", parts.text("deploy/systemd/toolcrib.service")?);
    files.add("etc/toolcrib/toolcrib.toml", parts.text("deploy/packages/toolcrib.toml")?);
    let doc = "usr/share/doc/toolcrib";
    files.add(format!("{doc}/copyright"), copyright());
    files.add(format!("{doc}/changelog.Debian.gz"), gzip(changelog(parts, version)?.as_bytes())?);
    files.add(format!("{doc}/THIRD-PARTY-LICENSES.gz"), gzip(parts.notices.as_bytes())?);
    files.add(format!("{doc}/README.md"), parts.text("deploy/packages/README.md")?);
    files.add("usr/share/toolcrib/config.schema.json", parts.text(CONFIG_SCHEMA)?);
    let example = parts.example("file:///usr/share/toolcrib/config.schema.json")?;
    files.add(format!("{doc}/examples/toolcrib.example.toml"), example);
    for (name, page) in parts.manual.iter() {
        files.add(format!("usr/share/man/man1/{name}.gz"), gzip(page)?);
    }
    for (name, script) in parts.completions.iter() {
        let path = match name {
            "toolcrib.bash" => "bash-completion/completions/toolcrib".to_owned(),
            "_toolcrib" => "zsh/vendor-completions/_toolcrib".to_owned(),
            other => format!("fish/vendor_completions.d/{other}"),
        };
        files.add(format!("usr/share/{path}"), script);
    }
    Ok(files)
}

fn control(parts: &Parts, version: &str, size: usize) -> String {
    let (major, minor) = parts.program.glibc;
    let architecture = parts.program.architecture.debian;
    let mut depends = vec![format!("libc6 (>= {major}.{minor})")];
    if parts.program.libraries.iter().any(|name| name.starts_with("libgcc_s")) {
        depends.push("libgcc-s1".to_owned());
    }
    depends.push("adduser".to_owned());
    format!(
        "Package: toolcrib\n\
         Version: {version}\n\
         Section: net\n\
         Priority: optional\n\
         Architecture: {architecture}\n\
         Depends: {}\n\
         Recommends: ca-certificates\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {}\n\
         Homepage: {REPOSITORY}\n\
         Description: gateway for the tools of AI agents\n \
         {SUMMARY}.\n \
         .\n \
         toolcrib connects to tool servers, lists for each caller the tools that it\n \
         may use, checks every call against the rules of its operator, and records\n \
         what happened.\n",
        depends.join(", "),
        size.div_ceil(1024),
    )
}

fn changelog(parts: &Parts, version: &str) -> Result<String> {
    let date = shell::output(
        Command::new("date")
            .args(["-u", "-R", "-d", &format!("@{}", parts.time)])
            .env("LC_ALL", "C"),
    )?;
    Ok(format!(
        "toolcrib ({version}) unstable; urgency=medium\n\n  * Version {}; see {REPOSITORY} for the changes.\n\n \
         -- {MAINTAINER}  {}\n",
        parts.version,
        date.trim()
    ))
}

fn copyright() -> String {
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: toolcrib\n\
         Source: {REPOSITORY}\n\n\
         Files: *\n\
         Copyright: 2026 The toolcrib authors\n\
         License: Apache-2.0\n \
         On Debian systems, the full text of the Apache License 2.0 is in\n \
         /usr/share/common-licenses/Apache-2.0.\n\
         Comment: The program contains other software; its licences are in\n \
         /usr/share/doc/toolcrib/THIRD-PARTY-LICENSES.gz.\n"
    )
}
