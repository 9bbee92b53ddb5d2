//! Prepares the page of `src/ui` for the program: joins its modules and its styles into few files, and
//! compresses them once for all requests. It requires only Rust.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "cargo and a build script talk by output and environment"
)]

mod link;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, error, fs, io};

use flate2::{Compression, write::GzEncoder};
use sha2::{Digest as _, Sha256};

type Error = Box<dyn error::Error>;

/// The module that starts the page.
const ENTRY: &str = "app.js";

/// The styles that all others build on; they come first.
const FIRST_STYLES: [&str; 2] = ["style.css", "lib/screens.css"];

/// Files that are served as they are.
const PLAIN: [&str; 1] = ["favicon.svg"];

fn main() -> Result<(), Error> {
    let source = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("src/ui");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed={}", source.display());
    let texts = texts(&source)?;
    let mut files = Vec::new();
    let modules =
        texts.iter().filter(|(path, _)| path.ends_with(".js") && *path != "theme-init.js");
    let modules = modules.map(|(path, text)| (path.clone(), text.clone())).collect();
    for chunk in link::link(&modules, ENTRY)? {
        files.push((chunk.name, "text/javascript; charset=utf-8", chunk.text));
    }
    files.push(("style.css".to_owned(), "text/css; charset=utf-8", styles(&texts)));
    for name in PLAIN {
        let text = texts.get(name).ok_or_else(|| format!("{name}: there is no such file"))?;
        files.push((name.to_owned(), "image/svg+xml", text.clone()));
    }
    write(&out, &files)
}

/// Returns the texts of all files in `folder`, by path.
fn texts(folder: &Path) -> Result<BTreeMap<String, String>, Error> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![String::new()];
    while let Some(inside) = waiting.pop() {
        for entry in fs::read_dir(folder.join(&inside))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().ok_or("a file name is not UTF-8")?;
            let path = if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") };
            match entry.file_type()?.is_dir() {
                true => waiting.push(path),
                false => {
                    let text = fs::read_to_string(entry.path())
                        .map_err(|error| format!("{path}: {error}"))?;
                    found.insert(path, text);
                }
            }
        }
    }
    Ok(found)
}

/// Returns the styles of all parts as one text.
fn styles(texts: &BTreeMap<String, String>) -> String {
    let others = texts.keys().map(String::as_str).filter(|path| path.ends_with(".css"));
    let others = others.filter(|path| !FIRST_STYLES.contains(path));
    let all = FIRST_STYLES.into_iter().chain(others);
    all.filter_map(|path| texts.get(path)).map(String::as_str).collect()
}

/// Writes the files, each as it is and compressed, and the table of them as Rust.
fn write(out: &Path, files: &[(String, &str, String)]) -> Result<(), Error> {
    let mut hash = Sha256::new();
    let mut table = String::from("static FILES: &[File] = &[\n");
    for (name, content_type, text) in files {
        hash.update(name);
        hash.update([0]);
        hash.update(text);
        hash.update([0]);
        fs::write(out.join(name), text)?;
        fs::write(out.join(format!("{name}.br")), brotli(text.as_bytes())?)?;
        fs::write(out.join(format!("{name}.gz")), gzip(text.as_bytes())?)?;
        writeln!(
            table,
            "    File {{ name: {name:?}, content_type: {content_type:?}, bytes: CompressedBytes {{"
        )?;
        for (member, suffix) in [("plain", ""), ("brotli", ".br"), ("gzip", ".gz")] {
            let path = format!("/{name}{suffix}");
            writeln!(
                table,
                "        {member}: include_bytes!(concat!(env!(\"OUT_DIR\"), {path:?})),"
            )?;
        }
        table.push_str("    } },\n");
    }
    let version = hash.finalize();
    let version: String = version.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    writeln!(table, "];\npub(super) const VERSION: &str = {version:?};")?;
    fs::write(out.join("page.rs"), table)?;
    Ok(())
}

fn brotli(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 1 << 16, 11, 22);
    writer.write_all(bytes)?;
    writer.flush()?;
    Ok(writer.into_inner())
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    writer.finish()
}
