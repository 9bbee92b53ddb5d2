//! `initialize`, and the differences of the revisions that start with it.

use serde_json::{Value, json};

use super::{
    common::{HANDSHAKE, UNKNOWN_VERSION, WITH_VERSION_HEADER},
    message,
    sessions::{close, open},
    wire::{self, VERSION_HEADER},
};
use crate::{
    Check, CheckResult, Target, checks, fail, require, skip_unless,
    value::{text, texts},
};

pub(super) const CHECKS: &[Check] = checks! {
    "mcp.initialize.shape", Must, "2025-11-25 basic/lifecycle §initialization", has_shape:
        "the result of `initialize` has `protocolVersion`, the object `capabilities` of objects, and \
         `serverInfo` with `name` and `version`";
    "mcp.initialize.version", Must, "2025-11-25 basic/lifecycle §version-negotiation", version:
        "a request for a supported revision gets that revision";
    "mcp.initialize.unknown-version", Must, "2025-11-25 basic/lifecycle §version-negotiation", unknown_version:
        "a request for an unsupported revision gets a supported one";
    "mcp.handshake.ping", Must, "2025-11-25 basic/utilities/ping", ping:
        "`ping` returns an empty result";
    "mcp.handshake.version-header", Must, "2025-11-25 basic/transports §protocol-version-header", version_header:
        "an unsupported `MCP-Protocol-Version` returns 400";
    "mcp.handshake.no-version-header", Should, "2025-11-25 basic/transports §protocol-version-header", no_version_header:
        "a request without that header is handled as 2025-03-26";
    "mcp.handshake.get-stream", Must, "2025-11-25 basic/transports §listening", get_stream:
        "GET returns an event stream or 405";
};

async fn has_shape(target: &Target) -> CheckResult {
    wire::handshake(target).await?;
    let response = wire::initialize(HANDSHAKE[0]).send(target).await?;
    let string = json!({ "type": "string", "minLength": 1 });
    let schema = json!({
        "type": "object",
        "required": ["protocolVersion", "capabilities", "serverInfo"],
        "properties": {
            "protocolVersion": string,
            "capabilities": { "type": "object", "additionalProperties": { "type": "object" } },
            "serverInfo": {
                "type": "object",
                "required": ["name", "version"],
                "properties": { "name": string, "version": string },
            },
            "instructions": { "type": "string" },
        },
    });
    let expected = "a valid result of `initialize`";
    response.expect_valid(&message::result(&response)?, &schema, expected)
}

async fn version(target: &Target) -> CheckResult {
    wire::handshake(target).await?;
    let discovery = wire::discover().send(target).await?;
    let result = message::reply_part(&discovery, "/result");
    let advertised = texts(&result, "supportedVersions");
    for requested in HANDSHAKE {
        let (response, wire) = open(target, requested).await?;
        close(target, &wire).await;
        let offered = wire.version();
        if offered == requested {
            continue;
        }
        let seen = format!("`{offered}`");
        if advertised.contains(&requested) {
            let expected = format!("`protocolVersion` {requested}, which discovery advertises");
            return fail(expected, seen, &[&response, &discovery]);
        }
        // The requested revision is unsupported, so the offered one must be supported.
        let (again, wire) = open(target, offered).await?;
        close(target, &wire).await;
        let seen = format!("`{}`", wire.version());
        let expected = format!("`protocolVersion` {offered}");
        require(wire.version() == offered, expected, seen, &[&response, &again])?;
    }
    Ok(())
}

async fn unknown_version(target: &Target) -> CheckResult {
    wire::handshake(target).await?;
    let (response, wire) = open(target, UNKNOWN_VERSION).await?;
    close(target, &wire).await;
    let result = message::result(&response)?;
    let version = text(&result, "protocolVersion");
    let is_other = version != UNKNOWN_VERSION && !version.is_empty();
    response.expect(is_other, "another `protocolVersion`", format!("`{version}`"))
}

async fn ping(target: &Target) -> CheckResult {
    let wire = wire::handshake(target).await?;
    let response = wire.request("ping", json!({})).send(target).await?;
    let result = message::result(&response)?;
    // Every result may have `_meta`.
    let members = result.as_object().into_iter().flatten().filter(|(name, _)| *name != "_meta");
    response.expect(members.count() == 0, "an empty result", Value::to_string(&result))
}

async fn version_header(target: &Target) -> CheckResult {
    let wire = wire::handshake(target).await?;
    let has_header = wire.version() >= WITH_VERSION_HEADER;
    skip_unless(has_header, "the server supports only a revision without that header")?;
    let rpc = wire.request("tools/list", json!({})).header(VERSION_HEADER, UNKNOWN_VERSION);
    rpc.send(target).await?.expect_status(&[400])
}

async fn no_version_header(target: &Target) -> CheckResult {
    let wire = wire::handshake(target).await?;
    let rpc = wire.request("ping", json!({})).without_header(VERSION_HEADER);
    message::result(&rpc.send(target).await?).map(drop)
}

async fn get_stream(target: &Target) -> CheckResult {
    let wire = wire::handshake(target).await?;
    let request = target.get("").header("accept", "text/event-stream").read_until(|_| true);
    let request =
        wire.session_headers().fold(request, |built, (name, value)| built.header(name, value));
    let response = target.send_once(request.with_key()).await?;
    if response.status() == 405 {
        return Ok(());
    }
    response.expect_status(&[200])?;
    let media_type = response.media_type();
    let seen = format!("`{media_type}`");
    response.expect(media_type == "text/event-stream", "`text/event-stream`", seen)
}
