//! `cargo xtask release`: makes the files of a release, signs them, and publishes them with `--publish`.
//!
//! Invariant: without `--publish` only the output folder changes, and no data is sent.
//! Invariant: a release is made of one commit, whose version, changelog and tag agree.

mod sign;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::shell::{say, step};
use crate::{dist, package, paths, shell};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The page that describes how a release is built.
const PAGE: &str = "docs/reference/releases.md";

/// The public keys that may sign releases, in the form of `ssh-keygen`.
const SIGNERS: &str = "deploy/release/allowed_signers";

#[derive(Debug, Args)]
pub(crate) struct ReleaseOptions {
    /// The program to pack; by default it is built as by `cargo xtask dist`
    #[arg(long)]
    program: Option<PathBuf>,
    /// The folder for the files [default: `release` in the build directory]
    #[arg(long)]
    out: Option<PathBuf>,
    /// The private key that signs, in the form of `ssh-keygen`; without it a key for this run alone
    #[arg(long)]
    key: Option<PathBuf>,
    /// Tag the commit and publish the files, instead of printing the commands that do it
    #[arg(long, requires = "key")]
    publish: bool,
}

pub(crate) fn run(options: &ReleaseOptions) -> Result<()> {
    step(format_args!("release {VERSION}: ready?"));
    let missing = missing()?;
    for reason in &missing {
        say(format_args!("not ready: {reason}"));
    }
    if options.publish && !missing.is_empty() {
        bail!("{} things are missing; the release was not made", missing.len());
    }
    let program = match &options.program {
        Some(program) => std::path::absolute(program)?,
        None => dist::guided()?,
    };
    let out = options.out.clone().unwrap_or_else(|| paths::target().join("release"));

    step("packages");
    let made = package::make_all(&program, &out)?;
    let mut files: Vec<PathBuf> = made.into_iter().filter(|path| path.is_file()).collect();
    files.retain(|file| !file.ends_with("SHA256SUMS"));
    step("provenance, checksums and signature");
    let provenance = out.join(format!("toolcrib-{VERSION}.provenance.json"));
    let statement = provenance_of(&package::checksums(&files)?, &commit()?, &compiler()?)?;
    fs::write(&provenance, serde_json::to_string_pretty(&statement)? + "\n")?;
    files.push(provenance);
    let sums = out.join("SHA256SUMS");
    fs::write(&sums, package::checksums(&files)?)?;
    let signers = paths::root().join(SIGNERS);
    let signature = sign::sign(&sums, options.key.as_deref(), &signers)?;
    if options.key.is_none() {
        say("signed with a key for this run alone: name the key of the project with --key");
    }
    files.extend([sums, signature]);

    let notes = out.join("notes.md");
    let changelog = fs::read_to_string(paths::root().join("CHANGELOG.md"))?;
    fs::write(&notes, notes_of(&changelog).unwrap_or_default())?;
    for file in files.iter().chain([&notes]) {
        say(format_args!("written: {}", file.display()));
    }
    let commands = commands(&files, &notes);
    if options.publish {
        step("publish");
        return run_all(&commands);
    }
    step("not published; `--publish` with `--key` runs:");
    for command in &commands {
        say(format_args!("$ {}", command.join(" ")));
    }
    Ok(())
}

/// The reasons why this commit cannot be a release.
fn missing() -> Result<Vec<String>> {
    let mut missing = Vec::new();
    if !git(&["status", "--porcelain"])?.trim().is_empty() {
        missing.push("the tree has changes that are not committed".to_owned());
    }
    if !git(&["tag", "--list", &tag()])?.trim().is_empty() {
        missing.push(format!("there is a tag {} already: raise the version", tag()));
    }
    let changelog = fs::read_to_string(paths::root().join("CHANGELOG.md"))?;
    if !changelog.lines().any(|line| is_heading(line, VERSION)) {
        missing.push(format!("CHANGELOG.md has no section `## {VERSION}`: rename `## Unreleased`"));
    }
    if !paths::root().join(SIGNERS).is_file() {
        missing.push(format!("{SIGNERS} is missing: {PAGE} says how to make it"));
    }
    Ok(missing)
}

fn tag() -> String {
    format!("v{VERSION}")
}

fn git(arguments: &[&str]) -> Result<String> {
    shell::output(Command::new("git").args(arguments).current_dir(paths::root()))
}

fn commit() -> Result<String> {
    Ok(git(&["rev-parse", "HEAD"])?.trim().to_owned())
}

fn compiler() -> Result<String> {
    Ok(shell::output(Command::new("rustc").arg("--version"))?.trim().to_owned())
}

fn is_heading(line: &str, version: &str) -> bool {
    let words = line.strip_prefix("## ").map(str::split_whitespace);
    words.and_then(|mut words| words.next()) == Some(version)
}

/// The section of this version, or of the changes after the last one.
fn notes_of(changelog: &str) -> Option<String> {
    let section = |version: &str| {
        let mut lines = changelog.lines().skip_while(|line| !is_heading(line, version));
        lines.next()?;
        let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
        Some(lines.join("\n").trim().to_owned() + "\n")
    };
    section(VERSION).or_else(|| section("Unreleased"))
}

/// The origin of the files: SLSA provenance 1.0 in an in-toto statement. `sums` has lines of
/// `sha256sum`.
fn provenance_of(sums: &str, commit: &str, compiler: &str) -> Result<Value> {
    let subjects = sums.lines().map(|line| {
        let (digest, name) = line.split_once("  ").context("a line of checksums has two parts")?;
        Ok(json!({ "name": name, "digest": { "sha256": digest } }))
    });
    let page = format!("{REPOSITORY}/blob/{}/{PAGE}", tag());
    let lock = package::checksums(&[paths::root().join("Cargo.lock")])?;
    let lock = lock.split(' ').next().unwrap_or_default();
    Ok(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects.collect::<Result<Vec<_>>>()?,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{page}#build"),
                "externalParameters": { "command": "cargo xtask release", "version": VERSION },
                "internalParameters": { "compiler": compiler },
                "resolvedDependencies": [
                    { "uri": format!("git+{REPOSITORY}@refs/tags/{}", tag()), "digest": { "gitCommit": commit } },
                    { "name": "Cargo.lock", "digest": { "sha256": lock } },
                ],
            },
            "runDetails": { "builder": { "id": format!("{page}#builder") } },
        },
    }))
}

/// The commands that publish a release, in order: those that cannot be undone last.
fn commands(files: &[PathBuf], notes: &Path) -> Vec<Vec<String>> {
    let tag = tag();
    let text = |path: &Path| path.display().to_string();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut commands = vec![
        words(&format!("git tag --sign --message toolcrib-{VERSION} {tag}")),
        words(&format!("git push origin {tag}")),
    ];
    let mut release =
        words(&format!("gh release create {tag} --verify-tag --title {tag} --notes-file"));
    release.push(text(notes));
    release.extend(files.iter().map(|file| text(file)));
    commands.push(release);
    let ending = |ending: &str| files.iter().find(|file| text(file).ends_with(ending));
    if let Some(wheel) = ending(".whl") {
        commands.push([words("python3 -m twine upload"), vec![text(wheel)]].concat());
    }
    if let Some(npm) = ending(".tgz") {
        commands.push([words("npm publish --access public"), vec![text(npm)]].concat());
    }
    commands.push(words("cargo publish --workspace --locked"));
    commands
}

/// Runs the commands in the tree, up to the first that fails.
fn run_all(commands: &[Vec<String>]) -> Result<()> {
    for (done, command) in commands.iter().enumerate() {
        let [program, arguments @ ..] = command.as_slice() else { continue };
        shell::run(Command::new(program).args(arguments).current_dir(paths::root())).with_context(
            || format!("{done} of {} commands have run; run the others by hand", commands.len()),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_the_section_of_the_version() {
        let text = format!(
            "# Changelog\n\n## Unreleased\n\nnew\n\n## {VERSION} (2027-01-01)\n\na\n\n## 0.0.1\n\nold\n"
        );
        assert_eq!(notes_of(&text).unwrap(), "a\n");
        assert_eq!(notes_of("## Unreleased\n\nnew\n### More\n").unwrap(), "new\n### More\n");
        assert_eq!(notes_of("## 0.0.1\n"), None);
    }

    #[test]
    fn provenance_names_each_file_and_the_commit() {
        let made = provenance_of("aa  one.deb\nbb  two.whl\n", "c0ffee", "rustc 1").unwrap();
        assert_eq!(made["subject"][1], json!({ "name": "two.whl", "digest": { "sha256": "bb" } }));
        let from = &made["predicate"]["buildDefinition"]["resolvedDependencies"];
        assert_eq!(from[0]["digest"]["gitCommit"], "c0ffee");
        assert_eq!(from[1]["digest"]["sha256"].as_str().unwrap().len(), 64);
        assert!(provenance_of("no line\n", "", "").is_err());
    }

    #[test]
    fn each_file_is_published_where_it_belongs() {
        let files = ["a.deb", "b.whl", "c.tgz"].map(PathBuf::from);
        let lines: Vec<String> =
            commands(&files, Path::new("notes.md")).iter().map(|words| words.join(" ")).collect();
        assert!(
            lines[0].starts_with("git tag --sign")
                && lines[2].ends_with("notes.md a.deb b.whl c.tgz")
        );
        assert!(lines[3].ends_with("b.whl") && lines[4].ends_with("c.tgz"));
        assert_eq!(lines.last().unwrap(), "cargo publish --workspace --locked");
    }

    #[test]
    fn the_first_command_that_fails_is_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let mark = |name: &str| folder.path().join(name).display().to_string();
        let touch = |name: &str| vec!["touch".to_owned(), mark(name)];
        let commands = [touch("one"), vec!["false".to_owned()], touch("two")];
        let error = format!("{:#}", run_all(&commands).unwrap_err());
        assert!(error.contains("1 of 3"), "{error}");
        assert!(Path::new(&mark("one")).exists() && !Path::new(&mark("two")).exists());
    }
}
