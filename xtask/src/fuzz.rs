//! `cargo xtask fuzz`: runs the targets of `fuzz/` one after the other, for a while each.
//!
//! No sanitizer is enabled: the crates forbid `unsafe`, so the targets look for panics, wrong
//! answers, hangs and memory, and the stable toolchain is enough.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{paths, shell};

/// Options of `fuzz`.
#[derive(Debug, Args)]
pub(crate) struct FuzzOptions {
    /// Targets to run; all of them by default
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 600)]
    seconds: u32,
}

const TARGETS: [&str; 7] =
    ["ids", "canonical_json", "otc_body", "mcp_frame", "compact", "openapi", "token"];
/// An input that takes longer is a finding.
const INPUT_LIMIT: &str = "-timeout=10";
const MEMORY_LIMIT: &str = "-rss_limit_mb=2048";
/// Longest time for start and end, in addition to the run itself.
const GRACE: Duration = Duration::from_secs(300);

/// Runs the targets of `options`. A finding is an error; the output names its input in the cache.
pub(crate) fn run(options: &FuzzOptions) -> Result<()> {
    let known = TARGETS.map(str::to_owned).to_vec();
    let targets = if options.targets.is_empty() { known.clone() } else { options.targets.clone() };
    if let Some(unknown) = targets.iter().find(|target| !known.contains(target)) {
        bail!("there is no target {unknown:?}; there are {}", TARGETS.join(", "));
    }
    let cargo_fuzz = cargo_fuzz()?;
    let cache = paths::cache().join("fuzz");
    let mut found = Vec::new();
    for target in &targets {
        shell::step(format_args!("{target}, {} s", options.seconds));
        let corpus = cache.join("corpus").join(target);
        let findings = cache.join("findings").join(target);
        for folder in [&corpus, &findings] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let fuzz = |verb: &str| {
            let mut command = Command::new(&cargo_fuzz);
            command
                .current_dir(paths::root())
                .env("CARGO_TARGET_DIR", paths::target().join("fuzz"))
                .args(["fuzz", verb, "--sanitizer", "none", target]);
            command
        };
        // A separate step, because the time limit must not apply to the build.
        shell::run(&mut fuzz("build"))?;
        let mut command = fuzz("run");
        command
            .arg(&corpus)
            .args(["--", INPUT_LIMIT, MEMORY_LIMIT, "-print_final_stats=1"])
            .arg(format!("-max_total_time={}", options.seconds))
            .arg(format!("-artifact_prefix={}/", findings.display()));
        let limit = GRACE + Duration::from_secs(options.seconds.into());
        if let Err(error) = shell::run_bounded(&mut command, limit) {
            shell::say(format_args!("{target}: {error:#}; see {}", findings.display()));
            found.push(target.as_str());
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    bail!("findings in {}", found.join(", "))
}

/// Whether the targets still compile; no other build includes them.
pub(crate) fn check() -> Result<()> {
    let manifest = paths::root().join("fuzz").join("Cargo.toml");
    let mut check = crate::cargo::cargo(&["check", "--locked", "--quiet", "--manifest-path"]);
    check
        .arg(manifest)
        .env("RUSTFLAGS", "--cfg fuzzing")
        .env("CARGO_TARGET_DIR", paths::target().join("fuzz"));
    shell::run(&mut check)
}

/// `cargo-fuzz`, installed into the cache when it is not there.
fn cargo_fuzz() -> Result<PathBuf> {
    if let Some(program) = shell::find("cargo-fuzz") {
        return Ok(program);
    }
    let folder = paths::tools().join("cargo-fuzz");
    let program = folder.join("bin").join("cargo-fuzz");
    if !program.is_file() {
        let mut install = crate::cargo::cargo(&["install", "cargo-fuzz", "--locked", "--root"]);
        shell::run(install.arg(&folder))?;
    }
    Ok(program)
}
