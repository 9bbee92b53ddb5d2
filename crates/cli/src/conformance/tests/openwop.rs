//! OpenWOP.

use toolcrib_testkit::broken::{BrokenHost, OpenwopFault as F};

use super::{Protocol, all_are_tripped, all_pass, fails};

/// Which check each fault trips.
const TRIPS: &[(F, &str)] = &[
    (F::DiscoveryLocked, "openwop.discovery.public"),
    (F::MemberMissing, "openwop.discovery.members"),
    (F::LimitsOpen, "openwop.discovery.limits"),
    (F::FamiliesWrapped, "openwop.discovery.families-at-root"),
    (F::CatalogAdvertText, "openwop.discovery.tool-catalog"),
    (F::HooksAdvertText, "openwop.discovery.tool-hooks"),
    (F::McpWithoutUrls, "openwop.discovery.other-families"),
    (F::DiscoveryPersonal, "openwop.discovery.same-for-everyone"),
    (F::DiscoveryNamesTools, "openwop.discovery.reveals-no-tools"),
    (F::NoCacheControl, "openwop.discovery.cache-control"),
    (F::DiscoveryNever304, "openwop.discovery.etag"),
    (F::OldOpenapi, "openwop.discovery.openapi"),
    (F::CatalogPublic, "openwop.auth.required"),
    (F::RoutingFirst, "openwop.auth.before-routing"),
    (F::UnknownKeyForbidden, "openwop.auth.unknown-key"),
    (F::MalformedIsBadRequest, "openwop.auth.malformed"),
    (F::NoChallenge, "openwop.auth.challenge"),
    (F::SchemeCaseMatters, "openwop.auth.scheme-case"),
    (F::NestedErrors, "openwop.errors.envelope"),
    (F::PlainTextRefusals, "openwop.errors.json"),
    (F::RunsAccepted, "openwop.errors.unknown-run"),
    (F::ErrorsEcho, "openwop.errors.no-echo"),
    (F::LimitWithoutRetryAfter, "openwop.errors.rate-limit"),
    (F::ListFails, "openwop.catalog.list"),
    (F::ListWrapped, "openwop.catalog.bare-array"),
    (F::DescriptorOpen, "openwop.catalog.descriptors"),
    (F::ExecFromMcp, "openwop.catalog.exec"),
    (F::KeyInDescription, "openwop.catalog.no-secrets"),
    (F::DuplicateId, "openwop.catalog.unique-ids"),
    (F::UnadvertisedSource, "openwop.catalog.sources"),
    (F::Unsorted, "openwop.catalog.sorted"),
    (F::Unstable, "openwop.catalog.stable"),
    (F::ByIdDiffers, "openwop.catalog.by-id"),
    (F::DecodesTwice, "openwop.catalog.id-encoding"),
    (F::UnknownIsFound, "openwop.catalog.unknown-id"),
    (F::StrangeIdsBadRequest, "openwop.catalog.strange-ids"),
    (F::SourceIgnored, "openwop.catalog.source-filter"),
    (F::UnknownSourceIgnored, "openwop.catalog.unknown-source"),
    (F::UnknownViewRefused, "openwop.catalog.unknown-view"),
    (F::Writable, "openwop.catalog.read-only"),
    (F::NoAllow, "openwop.catalog.allow"),
    (F::NoHead, "openwop.catalog.head"),
    (F::ListCachedPublicly, "openwop.catalog.private"),
    (F::ListNever304, "openwop.catalog.conditional"),
    (F::CompactUnadvertised, "openwop.compact.unadvertised"),
    (F::CompactBare, "openwop.compact.list"),
    (F::CompactKeepsAuth, "openwop.compact.descriptors"),
    (F::CompactKeepsAnyOf, "openwop.compact.keywords"),
    (F::CompactLacksTool, "openwop.compact.same-tools"),
    (F::CompactIgnoresSource, "openwop.compact.with-source"),
    (F::CompactByIdWrapped, "openwop.compact.by-id"),
    (F::NotFoundNamesScopes, "openwop.disclosure.no-hints"),
    (F::NotFoundDiffers, "openwop.disclosure.same-404"),
    (F::HiddenIsForbidden, "openwop.disclosure.hidden"),
    (F::HiddenHasHeader, "openwop.disclosure.hidden"),
    (F::ListedNotReadable, "openwop.disclosure.listed-is-readable"),
    (F::ForeignEtag, "openwop.disclosure.etag"),
    (F::SeamsOpen, "openwop.seams.authenticated"),
    (F::ArgumentsShown, "openwop.hooks.content-free"),
    (F::HashNotCanonical, "openwop.hooks.args-hash"),
    (F::FailsOpen, "openwop.hooks.fail-closed"),
    (F::LimitedHasDuration, "openwop.hooks.rate-limited"),
    (F::SeamWithoutRetryAfter, "openwop.hooks.rate-limit-headers"),
    (F::SecretsShown, "openwop.hooks.redaction"),
    (F::SecretsHashed, "openwop.hooks.redacted-before-hash"),
    (F::FailureHidden, "openwop.hooks.failure-honesty"),
    (F::ClosesEarly, "openwop.sessions.order"),
    (F::OutcomeAborted, "openwop.sessions.outcome"),
    (F::SessionShowsResult, "openwop.sessions.content-free"),
    (F::NoCause, "openwop.sessions.pairs"),
    (F::EventSeq, "openwop.sessions.envelope"),
    (F::UnknownRunHasEvents, "openwop.seams.unknown-run"),
    (F::TypeIgnored, "openwop.seams.filter"),
    (F::ForeignRunReadable, "openwop.seams.foreign-run"),
];

/// What the healthy host gives no occasion for: it limits nobody, and it advertises the view.
const SKIPPED: [&str; 2] = ["openwop.errors.rate-limit", "openwop.compact.unadvertised"];

#[tokio::test]
async fn a_host_that_does_everything_right_passes() {
    all_pass(&BrokenHost::openwop(None).await, Protocol::Openwop, &SKIPPED).await;
}

#[tokio::test]
async fn every_check_fails_on_some_host() {
    // I-33
    for (fault, id) in TRIPS {
        let host = BrokenHost::openwop(Some(*fault)).await;
        fails(&host, Protocol::Openwop, id, &format!("{fault:?}")).await;
    }
    all_are_tripped(Protocol::Openwop, TRIPS.iter().map(|(_, id)| *id));
    assert!(F::ALL.iter().all(|fault| TRIPS.iter().any(|(used, _)| used == fault)));
}
