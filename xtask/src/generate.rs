//! `cargo xtask gen [--check]`: files of the tree that the program itself writes (I-6).
//!
//! `toolcrib gen --out FOLDER` and `toolcrib-bench gen --out FOLDER` write them with their paths in
//! the tree. Their names are unknown here: a new generated file needs no change of this task. The
//! code of packs and the files of npm packages come first (`packs`, `vendor`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::cargo::built_program;
use crate::shell::say;
use crate::{packs, paths, shell, vendor};

pub(crate) fn run(check: bool) -> Result<()> {
    // The program contains these files, so they come first.
    if !check {
        packs::build()?;
        vendor::build()?;
    }
    let program = built_program()?;
    if check { check_with(&program) } else { write_with(&program) }
}

/// Names every generated file that differs from the program's output.
pub(crate) fn check_with(program: &Path) -> Result<()> {
    packs::check()?;
    vendor::check()?;
    let folder = generated(program)?;
    let stale = stale(folder.path(), &paths::root())?;
    for file in &stale {
        say(format_args!("stale: {}", file.display()));
    }
    if !stale.is_empty() {
        bail!("{} generated files are not current: run `cargo xtask gen`", stale.len());
    }
    Ok(())
}

fn write_with(program: &Path) -> Result<()> {
    let folder = generated(program)?;
    for file in stale(folder.path(), &paths::root())? {
        let (from, to) = (folder.path().join(&file), paths::root().join(&file));
        if from.exists() {
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(&from, &to)?;
            say(format_args!("written: {}", file.display()));
        } else {
            fs::remove_file(&to)?;
            say(format_args!("removed: {}", file.display()));
        }
    }
    Ok(())
}

fn generated(program: &Path) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    // Both programs of one build.
    for program in [program, &program.with_file_name("toolcrib-bench")] {
        let mut command = Command::new(program);
        shell::run(command.args(["gen", "--out"]).arg(folder.path()).current_dir(paths::root()))?;
    }
    if files(folder.path())?.is_empty() {
        bail!("`toolcrib gen` wrote no files");
    }
    Ok(folder)
}

/// Folders in which every file is generated.
const WHOLE_FOLDERS: [&str; 2] = ["docs/guides/clients", "docs/reference/schemas"];

/// Paths, in the tree, of files that differ from the generated ones; also of files in
/// [`WHOLE_FOLDERS`] that the program does not generate any more.
fn stale(generated: &Path, tree: &Path) -> Result<Vec<PathBuf>> {
    let current = files(generated)?;
    let mut stale: Vec<PathBuf> = current
        .iter()
        .filter(|file| fs::read(generated.join(file)).ok() != fs::read(tree.join(file)).ok())
        .cloned()
        .collect();
    for folder in WHOLE_FOLDERS.map(Path::new) {
        if generated.join(folder).exists() && tree.join(folder).exists() {
            let kept = files(&tree.join(folder))?.into_iter().map(|file| folder.join(file));
            stale.extend(kept.filter(|file| !current.contains(file)));
        }
    }
    stale.sort();
    Ok(stale)
}

/// Every file under a folder, with paths relative to it.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        for entry in fs::read_dir(folder.join(&inner))? {
            let entry = entry?;
            let path = inner.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn changed_missing_and_left_over_files_are_stale() {
        // I-6
        let (new, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (file, text) in [
            ("docs/reference/cli.md", "1"),
            ("docs/reference/openapi.json", "1"),
            ("docs/reference/schemas/a", "1"),
            ("docs/guides/clients/new", "1"),
        ] {
            write(new.path(), file, text);
        }
        write(tree.path(), "docs/reference/cli.md", "1");
        write(tree.path(), "docs/reference/openapi.json", "0");
        write(tree.path(), "docs/reference/schemas/old", "1");
        write(tree.path(), "docs/guides/clients/old", "1");
        write(tree.path(), "docs/guides/limits", "by hand");
        write(tree.path(), "docs/explanation/architecture.md", "by hand");
        let stale = stale(new.path(), tree.path()).unwrap();
        let names: Vec<_> = stale.iter().map(|file| file.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "docs/guides/clients/new",
                "docs/guides/clients/old",
                "docs/reference/openapi.json",
                "docs/reference/schemas/a",
                "docs/reference/schemas/old"
            ]
        );
    }
}
