//! MCP.

use toolcrib_testkit::broken::{BrokenHost, McpEras, McpFault as F};

use super::{Protocol, all_are_tripped, all_pass, fails};

/// Which check each fault trips.
const TRIPS: &[(F, &str)] = &[
    (F::NoDiscovery, "mcp.discover.answered"),
    (F::DiscoveryShape, "mcp.discover.shape"),
    (F::OwnVersionMissing, "mcp.discover.own-version"),
    (F::DiscoveryAnonymous, "mcp.discover.server-info"),
    (F::DiscoveryUncached, "mcp.discover.caching"),
    (F::UnknownVersionServed, "mcp.version.unsupported"),
    (F::SupportedMissing, "mcp.version.supported"),
    (F::VersionHeaderIgnored, "mcp.headers.version-mismatch"),
    (F::VersionHeaderOptional, "mcp.headers.version-missing"),
    (F::MethodHeaderIgnored, "mcp.headers.method-mismatch"),
    (F::MethodHeaderOptional, "mcp.headers.method-missing"),
    (F::NameHeaderIgnored, "mcp.headers.name-mismatch"),
    (F::NameHeaderOptional, "mcp.headers.name-missing"),
    (F::NameNotDecoded, "mcp.headers.name-encoded"),
    (F::StraySession, "mcp.headers.session-ignored"),
    (F::MetaVersionOptional, "mcp.meta.version"),
    (F::MetaCapabilitiesOptional, "mcp.meta.capabilities"),
    (F::ClientInfoNeeded, "mcp.meta.client-info"),
    (F::IdIsText, "mcp.rpc.id"),
    (F::NoResultType, "mcp.rpc.result-type"),
    (F::ListAnonymous, "mcp.rpc.server-info"),
    (F::UnknownMethodInvalid, "mcp.rpc.unknown-method"),
    (F::UnknownMethodOk, "mcp.rpc.unknown-method-status"),
    (F::PromptsUndeclared, "mcp.rpc.not-offered"),
    (F::PingRemains, "mcp.rpc.removed-methods"),
    (F::NotJsonServerError, "mcp.rpc.not-json"),
    (F::NotRequestParseError, "mcp.rpc.not-a-request"),
    (F::BatchAnswered, "mcp.rpc.batch"),
    (F::NotificationAnswered, "mcp.rpc.notification"),
    (F::AnswerIsPlain, "mcp.http.answer-type"),
    (F::AcceptIgnored, "mcp.http.accept"),
    (F::ContentTypeIgnored, "mcp.http.content-type"),
    (F::OriginIgnored, "mcp.http.origin"),
    (F::HostIgnored, "mcp.http.host"),
    (F::ListRenamed, "mcp.tools.list"),
    (F::ToolsUndeclared, "mcp.tools.capability"),
    (F::SchemaUntyped, "mcp.tools.shape"),
    (F::SchemaBroken, "mcp.tools.schemas"),
    (F::NameWithBlank, "mcp.tools.names"),
    (F::NameTwice, "mcp.tools.unique"),
    (F::ParamHeaderOnNumber, "mcp.tools.param-headers"),
    (F::Unstable, "mcp.tools.stable"),
    (F::ListUncached, "mcp.tools.caching"),
    (F::PagesLoop, "mcp.tools.pages"),
    (F::BadCursorIgnored, "mcp.tools.bad-cursor"),
    (F::ContentIsText, "mcp.call.result"),
    (F::StructuredMissing, "mcp.call.structured"),
    (F::UnknownToolIsResult, "mcp.call.unknown-tool"),
    (F::UnknownToolIsMethod, "mcp.call.unknown-tool-code"),
    (F::NoNameIsResult, "mcp.call.malformed"),
    (F::BadArgumentsPass, "mcp.call.bad-arguments"),
    (F::FailureIsError, "mcp.call.tool-failure"),
    (F::AsksUndeclared, "mcp.call.capability"),
    (F::NobodyForbidden, "mcp.auth.required"),
    (F::UnknownKeyForbidden, "mcp.auth.unknown-key"),
    (F::NoChallenge, "mcp.auth.challenge"),
    (F::MetadataWithoutServers, "mcp.auth.metadata"),
    (F::InitializeBare, "mcp.initialize.shape"),
    (F::VersionFixed, "mcp.initialize.version"),
    (F::UnknownVersionEchoed, "mcp.initialize.unknown-version"),
    (F::PingHasResult, "mcp.handshake.ping"),
    (F::SessionVersionIgnored, "mcp.handshake.version-header"),
    (F::SessionVersionNeeded, "mcp.handshake.no-version-header"),
    (F::GetIsJson, "mcp.handshake.get-stream"),
    (F::SessionWithBlank, "mcp.session.id"),
    (F::SessionShared, "mcp.session.unique"),
    (F::NoSessionServerError, "mcp.session.missing"),
    (F::UnknownSessionBadRequest, "mcp.session.unknown"),
    (F::DeleteForgotten, "mcp.session.delete"),
    (F::SessionIsCredential, "mcp.session.not-a-credential"),
    (F::SessionForAll, "mcp.session.foreign"),
    (F::NotAcknowledged, "mcp.subscriptions.acknowledged"),
];

/// Which of a server of the stateless revision alone.
const STATELESS_TRIPS: &[(F, &str)] = &[(F::GetIsJson, "mcp.http.post-only")];

/// What cannot be looked at without a handshake.
const OF_HANDSHAKES: [&str; 14] = [
    "mcp.initialize.shape",
    "mcp.initialize.version",
    "mcp.initialize.unknown-version",
    "mcp.handshake.ping",
    "mcp.handshake.version-header",
    "mcp.handshake.no-version-header",
    "mcp.handshake.get-stream",
    "mcp.session.id",
    "mcp.session.unique",
    "mcp.session.missing",
    "mcp.session.unknown",
    "mcp.session.delete",
    "mcp.session.not-a-credential",
    "mcp.session.foreign",
];

/// What cannot be looked at in a server that does not speak the stateless revision.
const OF_THE_STATELESS: [&str; 27] = [
    "mcp.discover.answered",
    "mcp.discover.shape",
    "mcp.discover.own-version",
    "mcp.discover.server-info",
    "mcp.discover.caching",
    "mcp.version.unsupported",
    "mcp.version.supported",
    "mcp.headers.version-mismatch",
    "mcp.headers.version-missing",
    "mcp.headers.method-mismatch",
    "mcp.headers.method-missing",
    "mcp.headers.name-mismatch",
    "mcp.headers.name-missing",
    "mcp.headers.name-encoded",
    "mcp.headers.session-ignored",
    "mcp.meta.version",
    "mcp.meta.capabilities",
    "mcp.meta.client-info",
    "mcp.rpc.result-type",
    "mcp.rpc.server-info",
    "mcp.rpc.unknown-method-status",
    "mcp.rpc.removed-methods",
    "mcp.http.post-only",
    "mcp.tools.param-headers",
    "mcp.tools.caching",
    "mcp.call.capability",
    "mcp.subscriptions.acknowledged",
];

#[tokio::test]
async fn hosts_that_do_everything_right_pass() {
    let both = BrokenHost::mcp(McpEras::Both, None).await;
    all_pass(&both, Protocol::Mcp, &["mcp.http.post-only"]).await;
    let stateless = BrokenHost::mcp(McpEras::Stateless, None).await;
    all_pass(&stateless, Protocol::Mcp, &OF_HANDSHAKES).await;
    let handshake = BrokenHost::mcp(McpEras::Handshake, None).await;
    all_pass(&handshake, Protocol::Mcp, &OF_THE_STATELESS).await;
}

#[tokio::test]
async fn every_check_fails_on_some_host() {
    // I-33
    for (eras, trips) in [(McpEras::Both, TRIPS), (McpEras::Stateless, STATELESS_TRIPS)] {
        for (fault, id) in trips {
            let host = BrokenHost::mcp(eras, Some(*fault)).await;
            fails(&host, Protocol::Mcp, id, &format!("{fault:?}")).await;
        }
    }
    let all = TRIPS.iter().chain(STATELESS_TRIPS);
    all_are_tripped(Protocol::Mcp, all.map(|(_, id)| *id));
    assert!(F::ALL.iter().all(|fault| TRIPS.iter().any(|(used, _)| used == fault)));
}
