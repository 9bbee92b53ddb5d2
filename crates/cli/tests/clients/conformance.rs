//! The conformance runner against hosts that others wrote: it names what they do otherwise, and
//! nothing else.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::rig::{tool, toolcrib};

/// A host that ends with its standard input, which ends with this.
struct Foreign {
    child: Child,
    url: String,
}

impl Foreign {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
        Self { child, url: url.expect("it ended before it listened") }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// What the runner reports on `url`.
fn report(url: &str, args: &[&str]) -> Value {
    let mut command = toolcrib();
    let output = command.args(["conformance", "--json", "--url", url]).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// The ids of the checks that ended in `outcome`, in order.
fn ids<'a>(report: &'a Value, outcome: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().unwrap().iter();
    let those = checks.filter(|check| check["outcome"] == outcome);
    those.map(|check| check["id"].as_str().unwrap()).collect()
}

/// `universal-tool-server` 0.0.3 speaks the dialect of LangChain under the name `otc://1.0`.
#[test]
fn the_deviations_of_universal_tool_server_are_named_and_no_others() {
    let (Some(python), Some(drivers)) =
        (tool("TOOLCRIB_PYTHON_TOOL_SERVER"), tool("TOOLCRIB_CLIENT_DRIVERS"))
    else {
        return;
    };
    #[expect(clippy::disallowed_methods, reason = "the host under test is a program of its own")]
    let mut command = Command::new(python);
    let host = Foreign::start(command.arg(drivers.join("tool_server.py")));
    let report =
        report(&host.url, &["--protocol", "otc", "--tool", "echo", "--failing-tool", "fail"]);
    let deviations = [
        // The list is a bare array, so there is no place for `$schema`; bodies of GET are not read.
        "otc.list.object",
        "otc.list.schema-marker",
        "otc.list.unsupported-version",
        // `echo@1.0.0` has no toolkit.
        "otc.list.ids",
        // The result of a call has no envelope, no `$schema` and no `duration`.
        "otc.call.success",
        "otc.call.schema-marker",
        "otc.call.duration",
        // `@1.0` is padded to 1.0.0.
        "otc.call.malformed-version",
        // 404 for tools and versions that there are not.
        "otc.call.unknown-tool",
        "otc.call.unknown-version",
        // Input is 400, everything else that is wrong with the body is 422.
        "otc.call.invalid-input",
        "otc.call.missing-input",
        "otc.call.parameter-errors",
        // An exception in a tool is a 500 in plain text.
        "otc.call.tool-failure",
        "otc.call.not-json",
        "otc.call.malformed-request",
        "otc.call.unsupported-version",
        "otc.call.content-type",
        // A `call_id` is echoed and means nothing.
        "otc.call.conflict",
        // Refusals say `detail`, and those that say `message` repeat the whole request.
        "otc.errors.message",
        "otc.errors.schema-marker",
        "otc.errors.developer-message",
        "otc.errors.no-secrets",
        // `input_schema` is the schema itself.
        "otc.list.parameters",
    ];
    assert_eq!(ids(&report, "fail"), deviations, "{report:#}");
    let skipped = [
        // Tools of this server cannot say that they are harmless, and the named one needs input.
        "otc.call.input-omitted",
        "otc.call.requirements",
        // It was started without authentication.
        "otc.auth.required",
        "otc.auth.unknown-key",
        "otc.auth.unsigned-token",
        "otc.auth.key-header",
    ];
    assert_eq!(ids(&report, "skip"), skipped, "{report:#}");
}
