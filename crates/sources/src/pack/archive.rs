//! Reads and writes `.tgz` archives.

use std::io::{Read, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use tar::{Archive, Builder, EntryType, Header};

use super::{
    error::{PackCode, PackError},
    files::{Files, MAX_TOTAL},
};

/// Bytes that headers and padding may add to the files of an archive.
const OVERHEAD: u64 = 4 << 20;

/// Reads the files of the archive `bytes`, without a common `package/` directory as in npm
/// packages.
pub(super) fn read(bytes: &[u8]) -> Result<Files, PackError> {
    let unreadable = |_| PackCode::Unreadable.error("the archive is not a valid .tgz");
    let mut files = Files::default();
    // Limited before any parsing: a decompression bomb fails as a truncated archive.
    let plain = GzDecoder::new(bytes).take(MAX_TOTAL as u64 + OVERHEAD);
    for entry in Archive::new(plain).entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        files.count()?;
        match entry.header().entry_type() {
            EntryType::Regular => {}
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            _ => return PackCode::Unreadable.refuse("the archive holds a link or a device"),
        }
        let path = entry.path_bytes();
        let Ok(path) = std::str::from_utf8(&path).map(str::to_owned) else {
            return PackCode::Unreadable.refuse("the name of a file is not UTF-8");
        };
        if entry.size() > MAX_TOTAL as u64 {
            return PackCode::Unreadable.refuse(format!("a pack holds over {MAX_TOTAL} bytes"));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(unreadable)?;
        if content.len() as u64 != entry.size() {
            return PackCode::Unreadable.refuse("the archive is truncated");
        }
        files.insert(path.strip_prefix("./").unwrap_or(&path), content)?;
    }
    Ok(files.without_prefix("package/"))
}

/// Creates a reproducible archive of `files`.
pub(super) fn write(files: &Files) -> Result<Vec<u8>, PackError> {
    let failed = |_| PackCode::Unreadable.error("the pack cannot be archived");
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, content) in files.iter() {
        let mut header = Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(EntryType::Regular);
        builder.append_data(&mut header, path, content).map_err(failed)?;
    }
    let mut gzip = builder.into_inner().map_err(failed)?;
    gzip.flush().map_err(failed)?;
    gzip.finish().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an archive of entries with arbitrary headers.
    fn raw(entries: &[(&[u8], EntryType, u64, &[u8])]) -> Vec<u8> {
        let mut tar = Vec::new();
        for (path, kind, size, content) in entries {
            let mut header = Header::new_ustar();
            header.as_mut_bytes()[..path.len()].copy_from_slice(path);
            header.set_entry_type(*kind);
            header.set_size(*size);
            header.set_mode(0o644);
            header.set_cksum();
            tar.extend_from_slice(header.as_bytes());
            tar.extend_from_slice(content);
            tar.resize(tar.len().div_ceil(512) * 512, 0);
        }
        tar.extend_from_slice(&[0; 1024]);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&tar).unwrap();
        gzip.finish().unwrap()
    }

    fn file<'a>(path: &'a str, content: &'a [u8]) -> (&'a [u8], EntryType, u64, &'a [u8]) {
        (path.as_bytes(), EntryType::Regular, content.len() as u64, content)
    }

    #[test]
    fn archives_are_read_back_and_reproducible() {
        let long = "d/".repeat(7) + &"n".repeat(150);
        let files = read(&raw(&[
            file("package/pack.json", b"{}"),
            file("./package/dist/a.wasm", &[0, 255]),
            (b"package/dist", EntryType::Directory, 0, b""),
        ]))
        .unwrap();
        assert_eq!(files.get("pack.json"), Some(&b"{}"[..]));
        assert_eq!(files.get("./dist/a.wasm"), Some(&[0, 255][..]));
        let mut files = files;
        files.insert(&long, vec![1]).unwrap();
        let written = write(&files).unwrap();
        let again = read(&written).unwrap();
        assert!(files.iter().eq(again.iter()));
        assert_eq!(write(&again).unwrap(), written);
    }

    // I-41
    #[test]
    fn hostile_archives_are_refused() {
        let many: Vec<String> = (0..1_001).map(|n| format!("f{n}")).collect();
        let many: Vec<_> = many.iter().map(|path| file(path, b"")).collect();
        let zeros = vec![0; MAX_TOTAL / 2 + 1];
        let hostile: [(&str, Vec<u8>); 12] = [
            ("no gzip", b"hello".to_vec()),
            ("nothing", Vec::new()),
            ("up and out", raw(&[file("../../x", b"1")])),
            ("from the root", raw(&[file("/etc/x", b"1")])),
            ("twice", raw(&[file("a", b"1"), file("a", b"2")])),
            ("link", raw(&[(b"a", EntryType::Symlink, 0, b"")])),
            ("hard link", raw(&[(b"a", EntryType::Link, 0, b"")])),
            ("device", raw(&[(b"a", EntryType::Char, 0, b"")])),
            ("many", raw(&many)),
            ("bomb", raw(&[file("a", &zeros), file("b", &zeros)])),
            ("lies about its size", raw(&[(b"a", EntryType::Regular, u64::MAX / 2, b"1")])),
            ("no text", raw(&[(&[0xff, 0xfe], EntryType::Regular, 0, b"")])),
        ];
        for (what, bytes) in hostile {
            let result = read(&bytes);
            let Err(error) = result else { panic!("{what} was read") };
            assert_eq!(error.code, PackCode::Unreadable, "{what}");
        }
        let sound = raw(&[file("a", &zeros)]);
        assert!(read(&sound).is_ok(), "half a bomb is none");
        assert!(read(&sound[..sound.len() / 2]).is_err(), "breaks off");
    }
}
