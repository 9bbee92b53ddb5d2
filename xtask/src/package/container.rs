//! The folder of the container image: the program and the few files that it needs, without a base image.
//!
//! The libraries and the certificate authorities are those of this machine, so make it on the
//! oldest maintained system.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::archive::Files;
use super::parts::Parts;

/// The certificate authorities of Debian, and of distributions that follow it.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The user of the image, also in the Containerfile.
const USER: &str = "toolcrib:x:65532:65532:toolcrib:/var/lib/toolcrib:/usr/sbin/nologin\n";

pub(super) fn write(parts: &Parts, out: &Path) -> Result<PathBuf> {
    let mut files = Files::default();
    files.add_executable("rootfs/usr/bin/toolcrib", parts.program_bytes()?);
    for (path, from) in parts.program.library_files()? {
        let content = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        files.add_executable(format!("rootfs{path}"), content);
    }
    let authorities = fs::read(AUTHORITIES)
        .with_context(|| format!("{AUTHORITIES} is missing: install ca-certificates"))?;
    files.add(format!("rootfs{AUTHORITIES}"), authorities);
    files.add("rootfs/etc/passwd", USER);
    files.add("rootfs/etc/group", "toolcrib:x:65532:\n");
    files.add("rootfs/etc/nsswitch.conf", "hosts: files dns\n");
    files.add("rootfs/etc/toolcrib/toolcrib.toml", parts.text("deploy/container/toolcrib.toml")?);
    files.add("rootfs/usr/share/doc/toolcrib/LICENSE", parts.text("LICENSE")?);
    files.add("rootfs/usr/share/doc/toolcrib/THIRD-PARTY-LICENSES", parts.notices.as_str());
    for package in ["libc6", "libgcc-s1", "ca-certificates"] {
        // Other distributions have no such file: the builder of the image adds its licences.
        if let Ok(text) = fs::read(format!("/usr/share/doc/{package}/copyright")) {
            files.add(format!("rootfs/usr/share/doc/{package}/copyright"), text);
        }
    }
    // A runtime mounts something on most of them, and the root is read-only then.
    for path in ["dev", "proc", "sys", "tmp", "run", "var/lib"] {
        files.add_folder(format!("rootfs/{path}"));
    }
    files.add_folder("state");
    files.add("Containerfile", parts.text("deploy/container/Containerfile")?);
    files.add(".containerignore", parts.text("deploy/container/.containerignore")?);
    let folder = out.join("container");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    files.write_folder(&folder)?;
    Ok(folder)
}
