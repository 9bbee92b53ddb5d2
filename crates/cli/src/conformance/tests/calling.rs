//! Open Tool Calling and OXP.

use toolcrib_testkit::broken::{BrokenHost, CallingFault as F};

use super::{Protocol, all_are_tripped, all_pass, fails};

/// Which check of both dialects each fault trips.
const TRIPS: &[(F, &str)] = &[
    (F::HealthLocked, "health.open"),
    (F::BareList, "list.object"),
    (F::ListUnmarked, "list.schema-marker"),
    (F::GetBodyRefused, "list.with-schema"),
    (F::ListAnyVersion, "list.unsupported-version"),
    (F::EmptyBodyRefused, "list.empty-body"),
    (F::DefinitionOpen, "list.definitions"),
    (F::IdsWithoutToolkit, "list.ids"),
    (F::DuplicateId, "list.unique-ids"),
    (F::VersionsDisagree, "list.versions"),
    (F::ParameterUndescribed, "list.parameter-descriptions"),
    (F::References, "list.no-refs"),
    (F::OtherParameters, "list.parameters"),
    (F::FlatResult, "call.success"),
    (F::ResultUnmarked, "call.schema-marker"),
    (F::NoDuration, "call.duration"),
    (F::SameCallId, "call.generated-id"),
    (F::InputNeeded, "call.input-omitted"),
    (F::VersionNeeded, "call.no-version"),
    (F::MajorIsNewest, "call.major-version"),
    (F::VersionsPadded, "call.malformed-version"),
    (F::UnknownToolNotFound, "call.unknown-tool"),
    (F::UnknownVersionIsNewest, "call.unknown-version"),
    (F::InvalidInputBadRequest, "call.invalid-input"),
    (F::MissingInputPasses, "call.missing-input"),
    (F::NoParameterErrors, "call.parameter-errors"),
    (F::FailureIsServerError, "call.tool-failure"),
    (F::NotJsonUnprocessable, "call.not-json"),
    (F::NoRequestUnprocessable, "call.malformed-request"),
    (F::AnyVersion, "call.unsupported-version"),
    (F::ContentTypeNeeded, "call.content-type"),
    (F::RunsAgain, "call.repeated"),
    (F::ConflictIgnored, "call.conflict"),
    (F::RequirementsIgnored, "call.requirements"),
    (F::Detail, "errors.message"),
    (F::RefusalsUnmarked, "errors.schema-marker"),
    (F::DeveloperTextInMessage, "errors.developer-message"),
    (F::RefusalsEcho, "errors.no-secrets"),
    (F::CallsForbidden, "auth.required"),
    (F::UnknownKeyForbidden, "auth.unknown-key"),
    (F::UnsignedAccepted, "auth.unsigned-token"),
    (F::BearerOnly, "auth.key-header"),
    (F::JunkRefused, "auth.ignored-when-off"),
];

/// Which check of OXP alone.
const OXP_TRIPS: &[(F, &str)] = &[
    (F::NoVersionHeader, "version.header"),
    (F::AnyVersionHeader, "version.unsupported"),
    (F::FlatRefused, "version.flat-call"),
];

#[tokio::test]
async fn hosts_that_do_everything_right_pass() {
    let otc = BrokenHost::otc(true, None).await;
    all_pass(&otc, Protocol::Otc, &["otc.auth.ignored-when-off"]).await;
    let oxp = BrokenHost::oxp(true, None).await;
    all_pass(&oxp, Protocol::Oxp, &["oxp.auth.ignored-when-off"]).await;
    let open = BrokenHost::otc(false, None).await;
    let locked = ["auth.required", "auth.unknown-key", "auth.unsigned-token", "auth.key-header"];
    all_pass(&open, Protocol::Otc, &locked.map(|id| format!("otc.{id}"))).await;
}

#[tokio::test]
async fn every_check_of_open_tool_calling_fails_on_some_host() {
    for (fault, id) in TRIPS {
        let host = BrokenHost::otc(true, Some(*fault)).await;
        fails(&host, Protocol::Otc, &format!("otc.{id}"), &format!("{fault:?}")).await;
    }
    all_are_tripped(Protocol::Otc, TRIPS.iter().map(|(_, id)| format!("otc.{id}")));
}

#[tokio::test]
async fn every_check_of_oxp_fails_on_some_host() {
    // I-33
    for (fault, id) in TRIPS.iter().chain(OXP_TRIPS) {
        let host = BrokenHost::oxp(true, Some(*fault)).await;
        fails(&host, Protocol::Oxp, &format!("oxp.{id}"), &format!("{fault:?}")).await;
    }
    let all = TRIPS.iter().chain(OXP_TRIPS);
    all_are_tripped(Protocol::Oxp, all.clone().map(|(_, id)| format!("oxp.{id}")));
    assert!(F::ALL.iter().all(|fault| all.clone().any(|(used, _)| used == fault)));
}
