//! Finds and reads the files of the configuration, within bounds.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use toolcrib_core::text::io_reason;

/// Entries to read of one directory.
const MAX_ENTRIES: usize = 10_000;

/// The files that match `pattern`, which may have wildcards in its last segment.
pub fn find(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let name = name_of(pattern);
    if !name.contains(['*', '?', '[', '{']) {
        return Ok(vec![pattern.to_owned()]);
    }
    let glob = globset::Glob::new(&name).map_err(|_| format!("{name}: is not a glob"))?;
    let glob = glob.compile_matcher();
    let directory = match pattern.parent() {
        None => Path::new("."),
        Some(here) if here.as_os_str().is_empty() => Path::new("."),
        Some(directory) => directory,
    };
    let directory_name = name_of(directory);
    let entries = std::fs::read_dir(directory).map_err(|error| {
        format!("{directory_name}/: cannot be read ({})", io_reason(error.kind()))
    })?;
    let mut found = Vec::new();
    for entry in entries.take(MAX_ENTRIES) {
        let entry = entry.map_err(|error| {
            format!("{directory_name}/: cannot be read ({})", io_reason(error.kind()))
        })?;
        let file = entry.file_name();
        if glob.is_match(Path::new(&file)) && !file.to_string_lossy().starts_with('.') {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The text of a file of at most `most` bytes.
pub fn read(file: &Path, most: usize) -> Result<String, String> {
    let broken = |error: std::io::Error| format!("cannot be read ({})", io_reason(error.kind()));
    let about = std::fs::metadata(file).map_err(broken)?;
    // Reading a pipe would wait for its writer.
    if !about.is_file() {
        return Err("is not a file".to_owned());
    }
    let mut text = String::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let opened = std::fs::File::open(file).map_err(broken)?;
    match opened.take(limit).read_to_string(&mut text) {
        Ok(_) if text.len() <= most => Ok(text),
        Err(error) if about.len() < limit => Err(broken(error)),
        // Too long, and maybe cut in the middle of a character.
        Ok(_) | Err(_) => Err(format!("is larger than {} KiB", most >> 10)),
    }
}

/// The last part of `path`, for people.
pub fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
