//! Every check passes on a conforming host and fails on a host with one fault.
#![cfg(test)]

mod explorer;
mod mcp;
mod open_tool_calling;
mod openwop;
mod openwop2;

use std::{
    collections::BTreeSet,
    sync::{Arc, Once},
};

use serde_json::Map;
use toolcrib_conformance::{
    Host, HostKeys, NamedTool, Options, Plan, Protocol, Report,
    broken::{BrokenHost, KEY, ORIGIN, SECOND_KEY},
    run, suites,
};
use toolcrib_core::credential::Secret;
use url::Url;

/// Runs checks of `protocol` against `host`, which has the tools `echo` and `fail`.
async fn report(host: &BrokenHost, protocol: Protocol, only: &[&str]) -> Report {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    });
    let secret = |text: &str| Some(Secret::new(text.to_owned()));
    let keys = HostKeys { first: secret(KEY), second: secret(SECOND_KEY) };
    let under_test = Arc::new(Host::new(&Url::parse(&host.url).unwrap(), keys).unwrap());
    let named = |name: &str, arguments| Some(NamedTool { name: name.to_owned(), arguments });
    let options = Options {
        tool: named("echo", None),
        failing_tool: named("fail", Some(Map::new())),
        origin: Some(ORIGIN.to_owned()),
        require_behavior: true,
    };
    let plan = Plan {
        protocols: vec![protocol],
        paths: match protocol {
            // At the root there is only one path of the page.
            Protocol::Explorer => Vec::new(),
            // Each broken host serves one protocol, at its root.
            _ => vec![(protocol, String::new())],
        },
        only: only.iter().map(|only| (*only).to_owned()).collect(),
        options,
    };
    run(&under_test, &plan, |_| {}).await
}

/// Requires that `host` passes all checks except `skipped`, which are skipped.
async fn assert_passes(host: &BrokenHost, protocol: Protocol, skipped: &[impl AsRef<str>]) {
    let report = report(host, protocol, &[]).await;
    let failures = report.failures();
    assert!(failures.is_empty(), "{failures}");
    let seen = report.findings.iter().filter(|finding| finding.outcome.as_str() == "skip");
    let seen: Vec<&str> = seen.map(|finding| finding.check.id).collect();
    let skipped: Vec<&str> = skipped.iter().map(AsRef::as_ref).collect();
    assert_eq!(seen, skipped, "{:#}", report.to_json());
}

/// Requires that `host` fails the check `check` (`area.requirement`) of `protocol`.
async fn assert_fails(host: &BrokenHost, protocol: Protocol, check: &str) {
    let id = format!("{protocol}.{check}");
    let report = report(host, protocol, &[&id]).await;
    let outcomes: Vec<&str> = report.findings.iter().map(|it| it.outcome.as_str()).collect();
    assert_eq!(outcomes, ["fail"], "{id}: {:#}", report.to_json());
}

/// Requires that `failed` contains exactly the checks of `protocol`.
fn assert_all_fail(protocol: Protocol, failed: impl Iterator<Item = &'static str>) {
    // I-33
    let failed: BTreeSet<String> = failed.map(|check| format!("{protocol}.{check}")).collect();
    let suite = suites().iter().find(|suite| suite.protocol == protocol).unwrap();
    let all: BTreeSet<String> = suite.all().map(|check| check.id.to_owned()).collect();
    assert_eq!(all, failed);
}
