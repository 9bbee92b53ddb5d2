//! The code of the bundled packs: `packs/NAME`, each a separate workspace. Its WebAssembly is next
//! to the manifest of the pack in `crates/cli/packs/NAME`, so that the published crate contains it.
//!
//! The code is kept in the tree, so that the program builds without the target for it. `NAME.built`
//! names the sources of the code, and the check compares only those: another compiler makes other
//! bytes of the same sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::cargo::cargo;
use crate::shell::say;
use crate::{paths, shell};

/// The target that runs the code.
const TARGET: &str = "wasm32-unknown-unknown";
const PACKS: &[&str] = &["everyday"];

/// Rebuilds the code of packs whose sources have changed.
pub(crate) fn build() -> Result<()> {
    for name in PACKS {
        if !is_current(name)? {
            build_one(name)?;
            say(format_args!("written: crates/cli/packs/{name}/{name}.wasm"));
        }
    }
    Ok(())
}

/// Fails if the code of a pack was built from other sources.
pub(crate) fn check() -> Result<()> {
    for name in PACKS {
        if !is_current(name)? {
            bail!("crates/cli/packs/{name}/{name}.wasm is not current: run `cargo xtask gen`");
        }
    }
    Ok(())
}

/// Runs the tests of the packs, on this machine.
pub(crate) fn test() -> Result<()> {
    for name in PACKS {
        let manifest = folder(name).join("Cargo.toml");
        let mut test = cargo(&["test", "--locked", "--quiet", "--manifest-path"]);
        shell::run(test.arg(manifest).env("CARGO_TARGET_DIR", paths::target().join("packs")))?;
    }
    Ok(())
}

fn build_one(name: &str) -> Result<()> {
    let folder = folder(name);
    let target = paths::target().join("packs");
    let mut build = cargo(&["build", "--release", "--locked", "--target", TARGET]);
    build.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    build.env("CARGO_TARGET_DIR", &target).env("CARGO_ENCODED_RUSTFLAGS", remapped()?);
    shell::run(&mut build).with_context(|| format!("`rustup target add {TARGET}` may help"))?;
    let made = target.join(TARGET).join("release").join(format!("{name}.wasm"));
    fs::write(code(name), fs::read(made)?)?;
    fs::write(folder.join(format!("{name}.built")), built(name)?)?;
    Ok(())
}

/// Flags that keep this machine's directories out of the code.
fn remapped() -> Result<String> {
    let home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => std::env::home_dir().context("there is no home directory")?.join(".cargo"),
    };
    let mut places = BTreeSet::from([home.clone(), paths::root()]);
    if let Ok(registries) = fs::read_dir(home.join("registry").join("src")) {
        for registry in registries {
            places.insert(registry?.path());
        }
    }
    // The compiler applies the last prefix that matches, so the longest come last.
    let flags = places.iter().map(|place| format!("--remap-path-prefix={}=/", place.display()));
    Ok(flags.collect::<Vec<_>>().join("\u{1f}"))
}

fn is_current(name: &str) -> Result<bool> {
    let said = fs::read_to_string(folder(name).join(format!("{name}.built"))).unwrap_or_default();
    Ok(said == built(name)?)
}

/// The current state of the sources and the code.
fn built(name: &str) -> Result<String> {
    let mut sources = Sha256::new();
    let folder = folder(name);
    let mut files = vec![folder.join("Cargo.toml"), folder.join("Cargo.lock")];
    for entry in fs::read_dir(folder.join("src"))? {
        files.push(entry?.path());
    }
    files.sort();
    for file in files {
        let text = fs::read(&file)?;
        sources.update(file.strip_prefix(&folder)?.to_string_lossy().as_bytes());
        sources.update((text.len() as u64).to_le_bytes());
        sources.update(text);
    }
    let code = fs::read(code(name)).unwrap_or_default();
    Ok(format!("sources {}\ncode {}\n", hex(&sources.finalize()), hex(&Sha256::digest(code))))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn folder(name: &str) -> PathBuf {
    paths::root().join("packs").join(name)
}

fn code(name: &str) -> PathBuf {
    paths::root().join("crates/cli/packs").join(name).join(format!("{name}.wasm"))
}
