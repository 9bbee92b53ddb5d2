//! The mounts that this process sees.

use std::{os::unix::ffi::OsStringExt as _, path::PathBuf};

use rustix::mount::MountFlags;

/// One line of `/proc/self/mountinfo`.
pub(super) struct Mount {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    pub(super) flags: MountFlags,
}

impl Mount {
    /// Reads the mounts of this process.
    pub(super) fn all() -> Result<Vec<Self>, String> {
        let table = std::fs::read("/proc/self/mountinfo")
            .map_err(|error| format!("the list of mounts cannot be read: {error}"))?;
        Ok(table.split(|byte| *byte == b'\n').filter_map(Self::parse).collect())
    }

    /// Parses `id parent device root path options …`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let path = fields.nth(3)?;
        let mut flags = MountFlags::empty();
        for option in fields.next()?.split(|byte| *byte == b',') {
            flags |= match option {
                b"nosuid" => MountFlags::NOSUID,
                b"nodev" => MountFlags::NODEV,
                b"noexec" => MountFlags::NOEXEC,
                _ => continue,
            };
        }
        Some(Self { id, path: unescaped(path), flags })
    }
}

/// Decodes a path in which some bytes are written as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_mount_table_are_read() {
        let line =
            b"31 23 0:28 / /mnt/a\\040b\\134c ro,nosuid,noexec,relatime shared:1 - tmpfs x rw";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.id, mount.path), (31, PathBuf::from("/mnt/a b\\c")));
        assert_eq!(mount.flags, MountFlags::NOSUID | MountFlags::NOEXEC);
        assert!(Mount::parse(b"").is_none());
    }
}
