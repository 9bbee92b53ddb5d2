//! `initialize`, and what is different in the revisions that begin with it.

use serde_json::json;

use super::{
    HANDSHAKE, NO_VERSION, STATELESS, discover, message,
    sessions::{close, opened},
    wire::{self, SESSION_HEADER, VERSION_HEADER, Wire},
};
use crate::conformance::{Check, Site, Verdict, check, fail, shape, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "mcp.initialize.shape",
        Must,
        "2025-11-25 basic/lifecycle §initialization",
        "`initialize` answers `protocolVersion`, `capabilities`, an object of objects, and \
         `serverInfo` with `name` and `version`",
        has_shape
    ),
    check!(
        "mcp.initialize.version",
        Must,
        "2025-11-25 basic/lifecycle §version-negotiation",
        "a revision that the server speaks is settled as it was asked for",
        version
    ),
    check!(
        "mcp.initialize.unknown-version",
        Must,
        "2025-11-25 basic/lifecycle §version-negotiation",
        "asked for one that it does not speak, it answers with one that it speaks",
        unknown_version
    ),
    check!(
        "mcp.handshake.ping",
        Must,
        "2025-11-25 basic/utilities/ping",
        "`ping` is answered with an empty result",
        ping
    ),
    check!(
        "mcp.handshake.version-header",
        Must,
        "2025-11-25 basic/transports §protocol-version-header",
        "an `MCP-Protocol-Version` that the server does not speak is 400",
        version_header
    ),
    check!(
        "mcp.handshake.no-version-header",
        Should,
        "2025-11-25 basic/transports §protocol-version-header",
        "a request without that header is served as of 2025-03-26",
        no_version_header
    ),
    check!(
        "mcp.handshake.get-stream",
        Must,
        "2025-11-25 basic/transports §listening",
        "GET is an event stream, or 405",
        get_stream
    ),
];

async fn has_shape(site: &Site) -> Verdict {
    wire::handshake(site).await?;
    let got = wire::initialize(HANDSHAKE[0]).send(site).await?;
    let text = json!({ "type": "string", "minLength": 1 });
    let shape = json!({
        "type": "object",
        "required": ["protocolVersion", "capabilities", "serverInfo"],
        "properties": {
            "protocolVersion": text,
            "capabilities": { "type": "object", "additionalProperties": { "type": "object" } },
            "serverInfo": {
                "type": "object",
                "required": ["name", "version"],
                "properties": { "name": text, "version": text },
            },
            "instructions": { "type": "string" },
        },
    });
    match shape::violation(&shape, &message::result(&got)?) {
        None => Ok(()),
        Some(what) => fail("the shape of an initialization", what, &[&got]),
    }
}

async fn version(site: &Site) -> Verdict {
    wire::handshake(site).await?;
    let discovered = wire::discover().send(site).await?;
    let answer = message::of(&discovered).unwrap_or_default();
    let result = answer.get("result").cloned().unwrap_or_default();
    let announced = discover::versions(&result, "supportedVersions");
    for asked in HANDSHAKE {
        let (got, wire) = opened(site, asked).await?;
        close(site, &wire).await;
        let settled = wire.version();
        if settled == asked {
            continue;
        }
        if announced.contains(&asked) {
            let seen = format!("`{settled}`, though discovery names {asked}");
            return fail(format!("`protocolVersion` {asked}"), seen, &[&got, &discovered]);
        }
        // Then it is one that it does not speak, and what it says instead is one that it does.
        let (again, wire) = opened(site, settled).await?;
        close(site, &wire).await;
        if wire.version() != settled {
            let seen = format!("`{}`", wire.version());
            return fail(format!("`protocolVersion` {settled}"), seen, &[&got, &again]);
        }
    }
    Ok(())
}

async fn unknown_version(site: &Site) -> Verdict {
    wire::handshake(site).await?;
    let (got, wire) = opened(site, NO_VERSION).await?;
    close(site, &wire).await;
    let result = message::result(&got)?;
    let said = result.get("protocolVersion").and_then(|it| it.as_str()).unwrap_or_default();
    let is_other = said != NO_VERSION && !said.is_empty();
    got.expect(is_other, "another `protocolVersion`", format!("`{said}`"))
}

async fn ping(site: &Site) -> Verdict {
    let wire = wire::handshake(site).await?;
    let got = wire.request("ping", json!({})).send(site).await?;
    let mut result = message::result(&got)?;
    if let Some(result) = result.as_object_mut() {
        // Any result may have it.
        result.remove("_meta");
    }
    got.expect(result == json!({}), "an empty result", "more than that")
}

async fn version_header(site: &Site) -> Verdict {
    let wire = wire::handshake(site).await?;
    if wire.version() < "2025-06-18" {
        return skip("the server speaks only a revision without that header");
    }
    let rpc = wire.request("tools/list", json!({})).says(VERSION_HEADER, NO_VERSION);
    rpc.send(site).await?.expect_status(&[400])
}

async fn no_version_header(site: &Site) -> Verdict {
    let wire = wire::handshake(site).await?;
    let got = wire.request("ping", json!({})).silent(VERSION_HEADER).send(site).await?;
    message::result(&got).map(drop)
}

async fn get_stream(site: &Site) -> Verdict {
    let wire = wire::handshake(site).await?;
    let mut ask = site.get("").header("accept", "text/event-stream").until(|_| true);
    if let Wire::Handshake { version, session } = &wire {
        if version != STATELESS && version.as_str() >= "2025-06-18" {
            ask = ask.header(VERSION_HEADER, version);
        }
        if let Some(session) = session {
            ask = ask.header(SESSION_HEADER, session);
        }
    }
    let got = site.once(ask.by_first()).await?;
    if got.status() == 405 {
        return Ok(());
    }
    got.expect_status(&[200])?;
    let kind = got.header("content-type").unwrap_or_default().to_ascii_lowercase();
    got.expect(kind.starts_with("text/event-stream"), "`text/event-stream`", format!("`{kind}`"))
}
