//! Fuzzes a running demo against its descriptions with all checks of schemathesis. `tests/clients/schemathesis.toml` and
//! `schemathesis-v2.toml` have its settings, and the exceptions with reasons.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    rig::{tool, toolcrib},
    third_party::program,
};

/// `toolcrib serve --demo`, on any port.
struct Demo {
    child: Child,
    folder: TempDir,
    facts: Value,
}

impl Demo {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let log = folder.path().join("log");
        let mut child = toolcrib()
            .current_dir(folder.path())
            .args(["serve", "--demo", "--no-history", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let listens = lines.any(|line| line.starts_with("listening on "));
        assert!(listens, "{}", std::fs::read_to_string(&log).unwrap());
        // Drains its remaining output.
        std::thread::spawn(move || lines.for_each(drop));
        let facts = std::fs::read(data.join("demo.json")).unwrap();
        Self { child, folder, facts: serde_json::from_slice(&facts).unwrap() }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

/// I-6: every response conforms to the description, and so does every accepted or rejected request.
#[test]
fn a_fuzzer_finds_nothing_that_differs_from_the_description() {
    fuzz("schemathesis.toml", "/v1/openapi.json");
}

#[test]
fn a_fuzzer_finds_nothing_that_differs_from_the_description_of_v2() {
    fuzz("schemathesis-v2.toml", "/openapi.json");
}

/// Fuzzes a demo against its description at `path`, with `settings`.
fn fuzz(settings: &str, path: &str) {
    let (Some(fuzzer), Some(drivers)) =
        (tool("TOOLCRIB_SCHEMATHESIS"), tool("TOOLCRIB_CLIENT_DRIVERS"))
    else {
        return;
    };
    let demo = Demo::start();
    let output = program(&fuzzer)
        .current_dir(demo.folder.path())
        .arg("--config-file")
        .arg(drivers.join(settings))
        .arg("run")
        .arg(format!("{}{path}", demo.facts["url"].as_str().unwrap()))
        .env("TOOLCRIB_KEY", demo.facts["keys"]["admin"].as_str().unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("Operations:"), "it looked at nothing: {told}");
    let log = std::fs::read_to_string(demo.folder.path().join("log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}
