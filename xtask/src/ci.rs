//! `cargo xtask ci`: the checks that a change must pass.
//!
//! Cheap things first. Lints and documentation share one set of check results of the dependencies;
//! the tests build another, so each dependency is compiled once and checked once.

use anyhow::Result;

use crate::cargo::{cargo, has};
use crate::crates::{self, CratesOptions};
use crate::gate::Report;
use crate::{fuzz, shell, test, tidy};

pub(crate) fn run(without_tests: bool) -> Result<()> {
    let mut report = Report::default();
    report.part("format", || shell::run(&mut cargo(&["fmt", "--all", "--check"])));
    report.part("tidy", tidy::run);
    report.part("lints", || {
        let arguments = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        shell::run(&mut cargo(&arguments))
    });
    // Without the optional features of the program.
    report.part("lints, no features", || {
        let arguments = ["clippy", "--package", "toolcrib", "--no-default-features", "--"];
        shell::run(cargo(&arguments).args(["--deny", "warnings"]))
    });
    report.part("documentation", || {
        // The library and the program have one name, so their pages have one place: one after the
        // other, since two at a time remove each other's files.
        for part in [&["--workspace", "--exclude", "toolcrib"][..], &["-p", "toolcrib"]] {
            let arguments = [&["doc", "--no-deps", "--document-private-items", "--quiet"], part];
            shell::run(cargo(&arguments.concat()).env("RUSTDOCFLAGS", "--deny warnings"))?;
        }
        Ok(())
    });
    report.part("published crates", || crates::run(&CratesOptions::default()));
    report.part("fuzz targets", fuzz::check);
    if has("deny") {
        report.part("supply chain", || shell::run(&mut cargo(&["deny", "check"])));
    } else {
        // Needs the advisory database from outside; where it cannot run, it cannot fail.
        report.note("supply chain not checked: cargo-deny is not installed");
    }
    if !without_tests {
        test::all(&mut report)?;
    }
    report.finish("ci")
}
