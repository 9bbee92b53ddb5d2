//! The conformance checks against third-party hosts: the report contains their deviations and no
//! others.

use std::process::Command;

use serde_json::Value;

use crate::rig::{Foreign, tool, toolcrib};

/// Returns the runner's report on `url`.
pub(crate) fn report(url: &str, args: &[&str]) -> Value {
    let mut command = toolcrib();
    let output = command.args(["conformance", "--json", "--url", url]).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// The ids of the checks that ended in `outcome`, in order.
pub(crate) fn ids<'a>(report: &'a Value, outcome: &str) -> Vec<&'a str> {
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
        // 404 for unknown tools and versions.
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
        // A `call_id` is echoed without any effect.
        "otc.call.conflict",
        // Errors have `detail`; those with `message` repeat the whole request.
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

/// `server-everything` 2026.8.31 uses the TypeScript SDK 1.x and supports only the handshake era.
#[test]
fn the_deviations_of_server_everything_are_named_and_no_others() {
    let (Some(node), Some(clients), Some(drivers)) =
        (tool("TOOLCRIB_NODE"), tool("TOOLCRIB_CLIENTS_DIR"), tool("TOOLCRIB_CLIENT_DRIVERS"))
    else {
        return;
    };
    #[expect(clippy::disallowed_methods, reason = "the host under test is a program of its own")]
    let mut command = Command::new(node);
    let host = Foreign::start(command.arg(drivers.join("everything.mjs")).arg(clients));
    let report = report(&host.url, &["--protocol", "mcp"]);
    let deviations = [
        // JSON that is no request is "Parse error", and an array of requests is answered.
        "mcp.rpc.not-a-request",
        "mcp.rpc.batch",
        // Every page may use it, and it listens to every name.
        "mcp.http.origin",
        "mcp.http.host",
        // Cursors are ignored.
        "mcp.tools.bad-cursor",
        // An unknown tool is a result with `isError`.
        "mcp.call.unknown-tool",
        "mcp.call.unknown-tool-code",
        // A session that has ended, or never was, is 400.
        "mcp.session.unknown",
        "mcp.session.delete",
    ];
    assert_eq!(ids(&report, "fail"), deviations, "{report:#}");
    let checks = report["checks"].as_array().unwrap().iter();
    let skipped = checks.filter(|check| check["outcome"] == "skip");
    for check in skipped {
        let why = check["reason"].as_str().unwrap();
        let known = [
            "the server does not support 2026-07-28",
            "the server requires no credentials",
            "the server declares all capabilities",
            "the server supports a revision with GET and DELETE",
            "needs a tool that fails: --failing-tool",
            "needs the key of another principal: --second-key",
        ];
        assert!(known.contains(&why), "{check:#}");
    }
}

/// A server of the Python SDK 2.3.0 speaks both eras.
#[test]
fn the_deviations_of_a_server_in_both_eras_are_named_and_no_others() {
    let (Some(python), Some(drivers)) = (tool("TOOLCRIB_PYTHON"), tool("TOOLCRIB_CLIENT_DRIVERS"))
    else {
        return;
    };
    #[expect(clippy::disallowed_methods, reason = "the host under test is a program of its own")]
    let mut command = Command::new(python);
    let host = Foreign::start(command.arg(drivers.join("mcp_server.py")));
    let report = report(&host.url, &["--protocol", "mcp", "--failing-tool", "fail"]);
    let deviations = [
        // The header alone decides the era, so the body is not compared with it.
        "mcp.headers.version-mismatch",
        // Cursors are ignored.
        "mcp.tools.bad-cursor",
        // An unknown tool is a result with `isError`.
        "mcp.call.unknown-tool",
        "mcp.call.unknown-tool-code",
    ];
    assert_eq!(ids(&report, "fail"), deviations, "{report:#}");
    let skipped = [
        "mcp.http.post-only",
        // It was started without authentication.
        "mcp.auth.required",
        "mcp.auth.unknown-key",
        "mcp.auth.challenge",
        "mcp.auth.metadata",
        "mcp.auth.resource",
        "mcp.auth.scope",
        "mcp.session.not-a-credential",
        "mcp.session.foreign",
    ];
    assert_eq!(ids(&report, "skip"), skipped, "{report:#}");
}
