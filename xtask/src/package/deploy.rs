//! The files of `deploy/`, checked by the programs that read them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::gate::{Report, SkippedItem};
use crate::install::Tools;
use crate::paths;
use crate::shell::{self, say};

/// The exposure that `systemd-analyze security` may find at most, of 100; without any protection it is 96.
const EXPOSURE: &str = "25";

/// The Containerfile has no findings of hadolint.
pub(super) fn container(tools: &Tools) -> Result<()> {
    let Some(hadolint) = tools.get("TOOLCRIB_HADOLINT") else {
        say("hadolint is not available");
        return Ok(());
    };
    shell::run(Command::new(hadolint).arg(paths::root().join("deploy/container/Containerfile")))
}

/// systemd accepts the unit and finds it confined.
pub(super) fn unit(program: &Path) -> Result<()> {
    if shell::find("systemd-analyze").is_none() {
        say("systemd-analyze is not available");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let unit = folder.path().join("toolcrib.service");
    let text = fs::read_to_string(paths::root().join("deploy/systemd/toolcrib.service"))
        .context("cannot read the unit")?;
    ensure!(text.contains("\nTimeoutStopSec=30\n"), "the unit does not wait for the shutdown");
    // WebAssembly and the confinement of commands fail with these.
    for key in ["MemoryDenyWriteExecute", "RestrictSUIDSGID"] {
        ensure!(!text.contains(&format!("\n{key}=")), "the unit must not set {key}");
    }
    // The program need not be installed on this machine.
    fs::write(&unit, text.replace("/usr/bin/toolcrib", &program.display().to_string()))?;
    let verified =
        Command::new("systemd-analyze").args(["--man=no", "verify"]).arg(&unit).output()?;
    let messages = String::from_utf8_lossy(&verified.stderr);
    let own: Vec<&str> = messages.lines().filter(|line| line.contains("toolcrib")).collect();
    ensure!(own.is_empty(), "systemd-analyze verify:\n{}", own.join("\n"));

    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--threshold", EXPOSURE, "--no-pager"]).arg(&unit);
    let report = security.output()?;
    let report_text = String::from_utf8_lossy(&report.stdout);
    let last = report_text.lines().last().unwrap_or_default().trim();
    ensure!(report.status.success(), "systemd-analyze security:\n{report_text}");
    say(last);
    Ok(())
}

/// The checks that need tools from a registry.
pub(super) fn with_tools(report: &mut Report, tools: &Tools, program: &Path) {
    let Some(python) = tools.get("TOOLCRIB_PYTHON_DEPLOY") else {
        report.skip(SkippedItem::new(
            "checks of the chart and of the Compose file",
            "no Python for them",
        ));
        return;
    };
    let script = |name: &str| {
        let mut command = Command::new(&python);
        command.arg(paths::root().join("tests/deploy").join(name)).arg(program);
        command.current_dir(paths::root());
        command
    };
    report.part("Helm chart", || shell::run(&mut script("chart.py")));
    report.part("Compose file", || shell::run(&mut script("compose.py")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_the_version_of_the_workspace() {
        let chart = paths::root().join("deploy/helm/toolcrib/Chart.yaml");
        let chart = fs::read_to_string(chart).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert!(chart.contains(&format!("\nversion: {version}\n")), "{chart}");
        assert!(chart.contains(&format!("\nappVersion: \"{version}\"\n")), "{chart}");
    }
}
