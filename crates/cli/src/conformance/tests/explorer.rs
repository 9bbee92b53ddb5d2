//! The embedded explorer.

use toolcrib_testkit::broken::{BrokenHost, ExplorerFault as F, ExplorerSetup as S};

use super::{Protocol, all_are_tripped, all_pass, fails};

/// Which check each fault trips, on a host that is set up how.
const TRIPS: &[(F, S, &str)] = &[
    (F::PageIsText, S::Usual, "explorer.page.html"),
    (F::OnePath, S::Usual, "explorer.page.both-paths"),
    (F::OtherHeading, S::Usual, "explorer.page.title"),
    (F::TitleRaw, S::Usual, "explorer.page.title-escaped"),
    (F::PlaceholderLeft, S::Usual, "explorer.page.placeholders"),
    (F::FlagQuoted, S::Usual, "explorer.page.execute-flag"),
    (F::FlagLies, S::Usual, "explorer.page.flag-agrees"),
    (F::FlagLies, S::Disabled, "explorer.page.flag-agrees"),
    (F::LinkWithoutName, S::Usual, "explorer.page.project"),
    (F::LinkRuns, S::Usual, "explorer.page.link-schemes"),
    (F::LoadsFromElsewhere, S::Usual, "explorer.page.self-contained"),
    (F::ListWrapped, S::Usual, "explorer.list.array"),
    (F::NoDescription, S::Usual, "explorer.list.summaries"),
    (F::HintsAreTexts, S::Usual, "explorer.list.annotations"),
    (F::NullAnnotations, S::Usual, "explorer.list.no-nulls"),
    (F::DuplicateName, S::Usual, "explorer.list.unique-names"),
    (F::DisabledHidesTools, S::Disabled, "explorer.list.when-disabled"),
    (F::NoInputSchema, S::Usual, "explorer.detail.members"),
    (F::DetailDiffers, S::Usual, "explorer.detail.same-facts"),
    (F::NotDecoded, S::Usual, "explorer.detail.encoded"),
    (F::DecodesTwice, S::Usual, "explorer.detail.decoded-once"),
    (F::UnknownIsFound, S::Usual, "explorer.detail.unknown"),
    (F::UnknownShownEncoded, S::Usual, "explorer.detail.unknown-decoded"),
    (F::EmptyNameIsTool, S::Usual, "explorer.detail.empty-name"),
    (F::NoIsError, S::Usual, "explorer.call.success"),
    (F::ContentIsText, S::Usual, "explorer.call.content"),
    (F::NullTrace, S::Usual, "explorer.call.trace"),
    (F::NotJsonRefused, S::Usual, "explorer.call.not-json"),
    (F::FailureIsOk, S::Usual, "explorer.call.tool-failure"),
    (F::FailureSilent, S::Usual, "explorer.call.failure-says"),
    (F::UnknownCallBadRequest, S::Usual, "explorer.call.unknown"),
    (F::OtherWords, S::Disabled, "explorer.call.disabled"),
    (F::DisabledInPageOnly, S::Disabled, "explorer.call.disabled"),
    (F::ErrorsWhenValid, S::Usual, "explorer.validate.valid"),
    (F::MissingPasses, S::Usual, "explorer.validate.missing"),
    (F::MissingAtRoot, S::Usual, "explorer.validate.missing-path"),
    (F::PathsAreNames, S::Usual, "explorer.validate.type-path"),
    (F::NoKeywords, S::Usual, "explorer.validate.keywords"),
    (F::RootIsSlash, S::Usual, "explorer.validate.root-path"),
    (F::NotEscaped, S::Usual, "explorer.validate.pointers"),
    (F::FirstOnly, S::Usual, "explorer.validate.all-violations"),
    (F::NoMessages, S::Usual, "explorer.validate.entries"),
    (F::NotJsonIsOk, S::Usual, "explorer.validate.not-json"),
    (F::UnknownValidates, S::Usual, "explorer.validate.unknown"),
    (F::NoSchemaRefuses, S::Usual, "explorer.validate.no-schema"),
    (F::BadSchemaPasses, S::Usual, "explorer.validate.bad-schema"),
    (F::ValidateCalls, S::Usual, "explorer.validate.calls-nothing"),
    (F::DisabledValidation, S::Disabled, "explorer.validate.when-disabled"),
    (F::DetailLocked, S::Usual, "explorer.auth.discovery"),
    (F::DetailOpen, S::Guarded, "explorer.auth.discovery"),
    (F::JunkRefused, S::Usual, "explorer.auth.junk-ignored"),
    (F::CallsForbidden, S::Usual, "explorer.auth.required"),
    (F::AnyKey, S::Usual, "explorer.auth.unknown-key"),
    (F::Reasons, S::Usual, "explorer.auth.body"),
    (F::UnknownBeforeDisabled, S::Disabled, "explorer.order.disabled-before-unknown"),
    (F::AuthBeforeDisabled, S::Disabled, "explorer.order.disabled-before-auth"),
    (F::AuthBeforeUnknown, S::Usual, "explorer.order.unknown-before-auth"),
    (F::BodyBeforeUnknown, S::Usual, "explorer.order.unknown-before-body"),
    (F::Codes, S::Usual, "explorer.errors.body"),
    (F::JsonIsText, S::Usual, "explorer.errors.content-type"),
    (F::ListByPost, S::Usual, "explorer.errors.method"),
    (F::GetCalls, S::Usual, "explorer.errors.get-calls-nothing"),
    (F::NoHead, S::Usual, "explorer.errors.head"),
    (F::PageForAnything, S::Usual, "explorer.errors.unknown-path"),
    (F::StrangeNamesText, S::Usual, "explorer.errors.strange-names"),
];

/// What a host that runs tools gives no occasion for.
const RUNS: [&str; 5] = [
    "explorer.list.when-disabled",
    "explorer.call.disabled",
    "explorer.validate.when-disabled",
    "explorer.order.disabled-before-unknown",
    "explorer.order.disabled-before-auth",
];

#[tokio::test]
async fn hosts_that_do_everything_right_pass() {
    let usual = BrokenHost::explorer(S::Usual, None).await;
    all_pass(&usual, Protocol::Explorer, &RUNS).await;

    let guarded = BrokenHost::explorer(S::Guarded, None).await;
    // What stands around it refuses first.
    let [list, call, validate, unknown, auth] = RUNS;
    let (junk, before) = ("explorer.auth.junk-ignored", "explorer.order.unknown-before-auth");
    let skipped = [list, call, validate, junk, unknown, auth, before];
    all_pass(&guarded, Protocol::Explorer, &skipped).await;

    let free = BrokenHost::explorer(S::Free, None).await;
    let locks = ["explorer.auth.required", "explorer.auth.unknown-key", "explorer.auth.body"];
    let skipped = [&[list, call, validate][..], &locks, &[unknown, auth, before]].concat();
    all_pass(&free, Protocol::Explorer, &skipped).await;

    let disabled = BrokenHost::explorer(S::Disabled, None).await;
    let calls = ["success", "content", "trace", "not-json", "tool-failure", "failure-says"];
    let mut skipped: Vec<String> =
        calls.iter().map(|name| format!("explorer.call.{name}")).collect();
    skipped.push("explorer.call.unknown".to_owned());
    skipped.extend(locks.iter().chain(&[before]).map(|id| (*id).to_owned()));
    all_pass(&disabled, Protocol::Explorer, &skipped).await;
}

#[tokio::test]
async fn every_check_fails_on_some_host() {
    // I-33
    for (fault, setup, id) in TRIPS {
        let host = BrokenHost::explorer(*setup, Some(*fault)).await;
        fails(&host, Protocol::Explorer, id, &format!("{fault:?}")).await;
    }
    all_are_tripped(Protocol::Explorer, TRIPS.iter().map(|(_, _, id)| *id));
    assert!(F::ALL.iter().all(|fault| TRIPS.iter().any(|(used, ..)| used == fault)));
}
