//! Every check passes on a host that does everything right, and fails on a host that does one thing
//! wrong.

mod calling;
mod explorer;
mod mcp;
mod openwop;

use std::{
    collections::BTreeSet,
    sync::{Arc, Once},
};

use serde_json::Map;
use toolcrib_core::credential::Secret;
use toolcrib_testkit::broken::{BrokenHost, KEY, SECOND_KEY};
use url::Url;

use super::*;

#[test]
fn ids_are_unique_and_say_their_protocol() {
    let mut seen = BTreeSet::new();
    for suite in suites() {
        for check in suite.all() {
            assert!(check.id.starts_with(&format!("{}.", suite.protocol)), "{}", check.id);
            assert!(seen.insert(check.id), "{}", check.id);
            assert!(!check.sentence.ends_with('.') && !check.section.is_empty(), "{}", check.id);
        }
    }
}

#[test]
fn a_group_is_not_a_prefix_of_a_word() {
    assert!(matches("openwop.catalog.sorted", "openwop.catalog"));
    assert!(matches("openwop.catalog.sorted", "openwop.catalog.sorted"));
    assert!(!matches("openwop.catalog.sorted", "openwop.cat"));
}

/// The report on `host`, which knows both keys of the broken hosts and has the tools `echo` and
/// `fail`.
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
        require_behavior: true,
    };
    let plan = Plan {
        protocols: vec![protocol],
        paths: match protocol {
            // Without a prefix it has one page only.
            Protocol::Explorer => Vec::new(),
            // Each broken host speaks one protocol, at its root.
            _ => vec![(protocol, String::new())],
        },
        only: only.iter().map(|only| (*only).to_owned()).collect(),
        options,
    };
    run(&under_test, &plan, |_| {}).await
}

/// Fails when the host without a fault fails a check, or skips one that is not in `skipped`.
async fn all_pass(host: &BrokenHost, protocol: Protocol, skipped: &[impl AsRef<str>]) {
    let report = report(host, protocol, &[]).await;
    let failures = report.failures();
    assert!(failures.is_empty(), "{failures}");
    let seen: Vec<&str> = report
        .findings
        .iter()
        .filter(|finding| finding.word() == "skip")
        .map(|finding| finding.check.id)
        .collect();
    let skipped: Vec<&str> = skipped.iter().map(AsRef::as_ref).collect();
    assert_eq!(seen, skipped, "{:#}", report.json());
}

/// Fails unless the check `id` fails on `host`.
async fn fails(host: &BrokenHost, protocol: Protocol, id: &str, fault: &str) {
    let report = report(host, protocol, &[id]).await;
    let words: Vec<&str> = report.findings.iter().map(Finding::word).collect();
    assert_eq!(words, ["fail"], "{fault} does not trip {id}: {:#}", report.json());
}

/// Fails when a check of `protocol` is tripped by no fault.
fn all_are_tripped<T: Into<String>>(protocol: Protocol, tripped: impl Iterator<Item = T>) {
    let tripped: BTreeSet<String> = tripped.map(Into::into).collect();
    let suite = suites().iter().find(|suite| suite.protocol == protocol).unwrap();
    let all: BTreeSet<String> = suite.all().map(|check| check.id.to_owned()).collect();
    let none: Vec<&String> = Vec::new();
    assert_eq!(all.difference(&tripped).collect::<Vec<_>>(), none, "cannot fail");
    assert_eq!(tripped.difference(&all).collect::<Vec<_>>(), none, "no such check");
}
