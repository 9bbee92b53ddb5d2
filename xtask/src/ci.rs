//! `cargo xtask ci`: what a change must pass.
//!
//! Cheap things first. Lints and documentation share one set of check results of the dependencies;
//! the tests build another, so each dependency is compiled once and checked once.

use anyhow::Result;

use crate::cargo::{cargo, has};
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
    report.part("documentation", || {
        let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"];
        shell::run(cargo(&arguments).env("RUSTDOCFLAGS", "--deny warnings"))
    });
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
