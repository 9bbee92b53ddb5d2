//! `cargo xtask ci`: the checks that a change must pass.
//!
//! Cheap checks come first. Lints and documentation share one set of check results of the
//! dependencies; the tests build another. Each dependency is therefore compiled once and checked
//! once.

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
    // Without the optional parts of the program.
    report.part("lints, no features", || {
        let arguments = ["clippy", "--package", "toolcrib-cli", "--no-default-features", "--"];
        shell::run(cargo(&arguments).args(["--deny", "warnings"]))
    });
    report.part("documentation", || {
        // The library and the program share a name, and so the place of their pages. They are built
        // one after the other, because parallel builds remove each other's files.
        for part in [&["--workspace", "--exclude", "toolcrib-cli"][..], &["-p", "toolcrib-cli"]] {
            let arguments = [&["doc", "--no-deps", "--document-private-items", "--quiet"], part];
            shell::run(cargo(&arguments.concat()).env("RUSTDOCFLAGS", "--deny warnings"))?;
        }
        Ok(())
    });
    report.part("fuzz targets", fuzz::check);
    if has("deny") {
        report.part("supply chain", || shell::run(&mut cargo(&["deny", "check"])));
    } else {
        // It needs the advisory database from outside; where it cannot run, it cannot fail.
        report.note("supply chain not checked: cargo-deny is not installed");
    }
    if !without_tests {
        test::all(&mut report)?;
    }
    report.finish("ci")
}
