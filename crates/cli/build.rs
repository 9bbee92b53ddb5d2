//! Passes the commit of the source tree to the program, for `--version`. A tree without Git has none.
//!
//! The files of Git are read without its program, which a machine that builds may not have.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Digits of the commit that are shown.
const DIGITS: usize = 12;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let commit = repository().and_then(|git| commit(&git)).unwrap_or_default();
    println!("cargo:rustc-env=TOOLCRIB_COMMIT={commit}");
}

#[expect(clippy::disallowed_methods, reason = "cargo names the package in it")]
fn package() -> Option<PathBuf> {
    // Read when it runs: clones that share a target directory share this script.
    std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from)
}

/// Returns the directory of Git of this source tree. A package of the source may be inside another
/// repository, whose commit it is not.
fn repository() -> Option<PathBuf> {
    let git = package()?.parent()?.parent()?.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    // A linked worktree has a file that names its directory.
    let named = fs::read_to_string(&git).ok()?;
    Some(git.parent()?.join(named.strip_prefix("gitdir:")?.trim()))
}

fn commit(git: &Path) -> Option<String> {
    let read = |file: PathBuf| {
        println!("cargo:rerun-if-changed={}", file.display());
        fs::read_to_string(file).ok()
    };
    let head = read(git.join("HEAD"))?;
    let Some(branch) = head.strip_prefix("ref:").map(str::trim) else { return short(&head) };
    // A worktree shares the branches of its repository.
    let common = fs::read_to_string(git.join("commondir")).ok();
    let common = common.map_or_else(|| git.to_owned(), |path| git.join(path.trim()));
    let loose = common.join(branch);
    if loose.is_file() {
        return short(&read(loose)?);
    }
    let packed = read(common.join("packed-refs"))?;
    let line = packed.lines().find(|line| line.split(' ').nth(1) == Some(branch))?;
    short(line)
}

fn short(text: &str) -> Option<String> {
    let digits = text.trim().get(..DIGITS)?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| digits.to_owned())
}
