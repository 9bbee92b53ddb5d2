//! Installs the packages from their files in empty places, and runs them there.
//!
//! The program is that of the tests, stripped, so that this part needs no separate build.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::archive::Effort;
use super::deploy;
use super::make::make;
use crate::gate::{Report, SkippedItem};
use crate::install::Tools;
use crate::paths;
use crate::server::Demo;
use crate::shell::{self, say};

/// The search path of a package's program: only the system's own programs.
const PATH: &str = "/usr/bin:/bin";

pub(crate) fn test(report: &mut Report, tools: &Tools, program: &Path) {
    report.part("packages", || of_tests(program));
    report.part("container files", || deploy::container(tools));
    report.part("systemd unit", || deploy::unit(program));
    deploy::with_tools(report, tools, program);
    if shell::find("man").is_none() && shell::find("groff").is_none() {
        report.skip(SkippedItem::new(
            "rendering of the manual",
            "neither man nor groff is installed",
        ));
    }
}

fn of_tests(program: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary directory")?;
    let stripped = folder.path().join("toolcrib");
    strip(program, &stripped)?;
    let out = folder.path().join("out");
    let started = Instant::now();
    make(&stripped, &out, &[], Effort::Quick)?;
    say(format_args!("packages made in {:.1} s", started.elapsed().as_secs_f64()));
    packages(&out)
}

/// Installs and runs every package in `out`.
pub(super) fn packages(out: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary directory")?;
    shell::run(
        Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(out),
    )?;

    let place = |name: &str| -> Result<PathBuf> {
        let place = folder.path().join(name);
        fs::create_dir(&place)?;
        Ok(place)
    };
    tarball(&found(out, ".tar.gz")?, &place("tarball")?)?;
    debian(&found(out, ".deb")?, &place("debian")?)?;
    wheel(&found(out, ".whl")?, &place("wheel")?)?;
    npm(&found(out, ".tgz")?, &place("npm")?)?;
    container(&out.join("container"))?;
    bill(&found(out, ".cdx.json")?)
}

/// Copies the program without the names and lines for debuggers, which are most of its size.
fn strip(program: &Path, to: &Path) -> Result<()> {
    match shell::find("strip") {
        Some(strip) => shell::run(Command::new(strip).arg("-o").arg(to).arg(program)),
        None => fs::copy(program, to).map(drop).context("cannot copy the program"),
    }
}

fn tarball(file: &Path, place: &Path) -> Result<()> {
    let started = Instant::now();
    shell::run(
        Command::new("tar").args(["--strip-components=1", "-xzf"]).arg(file).arg("-C").arg(place),
    )?;
    answers("tarball", &place.join("bin/toolcrib"), started)?;
    for path in [
        "LICENSE",
        "README.md",
        "share/toolcrib/config.schema.json",
        "systemd/toolcrib.service",
        "toolcrib.example.toml",
    ] {
        ensure!(place.join(path).is_file(), "the archive has no {path}");
    }
    for path in ["bash-completion/completions/toolcrib", "zsh/site-functions/_toolcrib"] {
        let script = fs::read_to_string(place.join("share").join(path))?;
        ensure!(script.contains("toolcrib"), "{path} has no completions");
    }
    ensure!(
        fs::read_to_string(place.join("THIRD-PARTY-LICENSES"))?.contains("tokio "),
        "the licences of others are incomplete"
    );
    let pages = place.join("share/man/man1");
    manual(&pages.join("toolcrib.1"), "NAME")?;
    manual(&pages.join("toolcrib-keys-create.1"), "--principal")
}

fn debian(file: &Path, place: &Path) -> Result<()> {
    let control = shell::output(Command::new("dpkg-deb").arg("--field").arg(file))?;
    for line in ["Package: toolcrib", "Section: net"] {
        ensure!(control.contains(line), "the control file has no line {line}:\n{control}");
    }
    ensure!(control.contains("libc6 (>= 2."), "no version of libc6:\n{control}");
    let conffiles =
        shell::output(Command::new("dpkg-deb").args(["--info"]).arg(file).arg("conffiles"))?;
    ensure!(conffiles == "/etc/toolcrib/toolcrib.toml\n", "unexpected conffiles: {conffiles}");
    let started = Instant::now();
    shell::run(Command::new("dpkg-deb").arg("--extract").arg(file).arg(place))?;
    let program = place.join("usr/bin/toolcrib");
    answers("Debian package", &program, started)?;
    let configuration = place.join("etc/toolcrib/toolcrib.toml");
    shell::run(isolated(&program).args(["config", "check"]).arg(configuration))?;
    ensure!(place.join("lib/systemd/system/toolcrib.service").is_file(), "there is no unit");
    let schema = "usr/share/toolcrib/config.schema.json";
    ensure!(place.join(schema).is_file(), "the package has no {schema}");
    let example = "usr/share/doc/toolcrib/examples/toolcrib.example.toml";
    ensure!(
        fs::read_to_string(place.join(example))?
            .starts_with(&format!("#:schema file:///{schema}\n")),
        "the example names another schema"
    );
    manual(&place.join("usr/share/man/man1/toolcrib.1.gz"), "NAME")?;

    let Some(mut contained) = contained("debian.sh") else {
        say("no root or no unshare: the package is not installed with dpkg");
        return Ok(());
    };
    match contained.arg(file).stdin(Stdio::null()).status()?.code() {
        Some(0) => Ok(()),
        Some(77) => {
            say("no overlay file system: the package is not installed with dpkg");
            Ok(())
        }
        code => bail!("tests/deploy/debian.sh failed: {code:?}"),
    }
}

fn wheel(file: &Path, place: &Path) -> Result<()> {
    let started = Instant::now();
    shell::run(Command::new("python3").args(["-m", "venv"]).arg(place))?;
    let mut pip = Command::new(place.join("bin/python"));
    pip.args(["-m", "pip", "install", "--no-index", "--disable-pip-version-check", "--quiet"]);
    shell::run(pip.arg(file))?;
    answers("wheel", &place.join("bin/toolcrib"), started)?;
    let mut show = Command::new(place.join("bin/python"));
    show.args(["-m", "pip", "show", "--files", "--disable-pip-version-check", "toolcrib"]);
    let shown = shell::output(&mut show)?;
    ensure!(shown.contains("bin/toolcrib"), "pip does not know the program:\n{shown}");
    ensure!(shown.contains(env!("CARGO_PKG_VERSION")), "pip shows another version:\n{shown}");
    Ok(())
}

fn npm(file: &Path, place: &Path) -> Result<()> {
    let started = Instant::now();
    let cache = place.join("cache");
    let mut install = Command::new("npm");
    install.args([
        "install",
        "--offline",
        "--no-audit",
        "--no-fund",
        "--loglevel",
        "error",
        "--cache",
    ]);
    shell::run(install.arg(&cache).arg("--prefix").arg(place).arg(file))?;
    let launcher = place.join("node_modules/.bin/toolcrib");
    answers("npm package", &launcher, started)?;
    // The launcher passes arguments and the exit code on.
    let failed = isolated(&launcher).args(["config", "check", "no-such-file.toml"]).output()?;
    ensure!(failed.status.code() == Some(1), "the launcher lost the exit code: {failed:?}");
    Ok(())
}

/// The image's files are complete: the program serves without any other file, as an unprivileged
/// user on a read-only root. A script does what a container runtime does.
fn container(folder: &Path) -> Result<()> {
    match contained("container.sh") {
        Some(mut contained) => shell::run(contained.arg(folder.join("rootfs"))),
        None => {
            say("no root or no unshare: the files of the container are not run");
            Ok(())
        }
    }
}

/// A command that runs a script of `tests/deploy` with separate mounts, network and processes.
fn contained(script: &str) -> Option<Command> {
    if shell::first_line("id", &["-u"]).as_deref() != Some("0") || shell::find("unshare").is_none()
    {
        return None;
    }
    let mut contained = Command::new("unshare");
    contained.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh"]);
    contained.arg(paths::root().join("tests/deploy").join(script));
    contained.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    Some(contained)
}

/// The members of a bill of materials that the check reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bill {
    bom_format: String,
    metadata: Metadata,
    components: Vec<Component>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Metadata {
    component: Component,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    #[serde(rename = "bom-ref")]
    reference: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    #[serde(default)]
    depends_on: Vec<String>,
}

/// The bill of materials is complete, and each dependency is one of its components.
fn bill(file: &Path) -> Result<()> {
    let bill: Bill = serde_json::from_slice(&fs::read(file)?).context("bill of materials")?;
    ensure!(bill.bom_format == "CycloneDX", "it is no CycloneDX, but {}", bill.bom_format);
    ensure!(bill.metadata.component.name == "toolcrib", "the program is missing");
    let named = |name: &str| bill.components.iter().any(|component| component.name == name);
    ensure!(named("tokio") && named("rustls") && !named("insta"), "unexpected components");
    let all = bill.components.iter().chain([&bill.metadata.component]);
    let references: BTreeSet<&str> = all.map(|component| component.reference.as_str()).collect();
    for name in bill.dependencies.iter().flat_map(|dependency| &dependency.depends_on) {
        ensure!(references.contains(name.as_str()), "{name} is no component");
    }
    say(format_args!("  {} components in the bill of materials", bill.components.len()));
    Ok(())
}

/// The program prints its version, and a demo of it answers; prints how long that took since its
/// start and since the start of the installation.
fn answers(what: &str, program: &Path, installing: Instant) -> Result<()> {
    let version = shell::output(isolated(program).arg("-V"))?;
    let expected = format!("toolcrib {}", env!("CARGO_PKG_VERSION"));
    let number = version.split(" (").next().unwrap_or_default().trim();
    ensure!(number == expected, "{what}: {version:?} instead of {expected:?}");
    let started = Instant::now();
    let demo = Demo::of(&mut isolated(program))?;
    let ready = shell::output(isolated(program).args(["--url", &demo.facts.url, "health"]))?;
    let answered = started.elapsed();
    ensure!(ready.trim() == "ready", "{what}: the demo is {ready:?}\n{}", demo.log_tail());
    say(format_args!(
        "--- {what}: a demo answers {:.2} s after its start, {:.1} s after the start of the installation",
        answered.as_secs_f64(),
        installing.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// A command with an empty environment, except for the system's programs.
fn isolated(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH);
    // The launcher of the npm package needs Node.js, which may be elsewhere.
    if let Some(folder) = shell::find("node").and_then(|node| Some(node.parent()?.to_path_buf())) {
        command.env("PATH", format!("{PATH}:{}", folder.display()));
    }
    command
}

/// Renders a page and looks for `text` in it.
fn manual(page: &Path, text: &str) -> Result<()> {
    let mut command = match (shell::find("man"), shell::find("groff")) {
        (Some(man), _) => {
            let mut command = Command::new(man);
            command.args(["--warnings", "--local-file"]);
            command
        }
        (None, Some(groff)) if page.extension().is_some_and(|extension| extension == "1") => {
            let mut command = Command::new(groff);
            command.args(["-man", "-Tutf8"]);
            command
        }
        _ => return Ok(()),
    };
    command.arg(page).env("LC_ALL", "C.UTF-8").env("MANPAGER", "cat").env("GROFF_NO_SGR", "1");
    let rendered = command.env("MANWIDTH", "100").output()?;
    let warnings = String::from_utf8_lossy(&rendered.stderr);
    ensure!(warnings.is_empty(), "{}: {warnings}", page.display());
    let rendered = String::from_utf8_lossy(&rendered.stdout);
    ensure!(rendered.contains(text), "{} shows no {text}:\n{rendered}", page.display());
    Ok(())
}

fn found(folder: &Path, end: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(end) {
            return Ok(path);
        }
    }
    bail!("no package has the ending {end}")
}
