//! The choice of the version: the header `OpenWOP-Version` of requests and responses.

use std::collections::BTreeSet;

use serde_json::Value;

use super::common::{
    ABSENT_RUN, RUNS, default_discovery, expect_error, expect_version, listed, major, numbers,
    require_v1, unversioned, with_version,
};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::Request,
    openwop::common::{DISCOVERY, discovery, paths},
    require, skip_unless,
    target::OPENWOP_VERSION,
    value::{text, texts},
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop2.versions.listed", Must, "versioning §1, v2-preferred-version-default", well_formed:
        "discovery lists each version once, as `major.minor`, and prefers one of them; while it \
         lists a 1.x, it prefers a 1.x";
    "openwop2.versions.same-list", Must, "v2-well-known-one-resource", same_list:
        "discovery lists and prefers the same versions in both versions";
    "openwop2.versions.two-forms", Must, "v2-well-known-one-resource", two_forms:
        "the discovery documents of the two versions are different";
    "openwop2.versions.named", Must, "headers, v2-version-header-honored", named:
        "every answer names the version that it follows, errors and 304 included";
    "openwop2.versions.named-by-v1", Must, "headers", named_by_v1:
        "answers below `/v1` name a 1.x as well";
    "openwop2.versions.major", Must, "versioning §1", only_major:
        "only the major number selects: `2`, `2.0` and a later minor version are the same";
    "openwop2.versions.unlisted", Must, "versioning §1, v2-dual-stack-negotiation", unlisted:
        "a version that is not listed returns 406 `protocol_version_unsupported` with the listed \
         versions in `details.protocolVersions`";
    "openwop2.versions.before-auth", Should, "versioning §1", before_auth:
        "the version is checked before the credentials";
    "openwop2.versions.malformed", Should, "reference host", malformed:
        "a header that is empty, repeated or not a version returns 400 `validation_error`";
    "openwop2.versions.mismatch", Must, "versioning §1", mismatch:
        "a path below `/v1` with version 2 returns 400 `protocol_version_mismatch`";
    "openwop2.versions.default-tools", Must, "headers, v2-preferred-version-default", default_tools:
        "`/tools` without the header is version 2";
    "openwop2.versions.default", Must, "headers, v2-preferred-version-default", default_other:
        "other paths without a version are version 2 without the header as well";
    "openwop2.versions.path-space", Must, "versioning §1, v2-advertised-path-space-served", path_space:
        "every list and document below `/v1` is served without the prefix in version 2";
    "openwop2.versions.client-version", Must, "RFC 0219, v2-client-version-header", client_version:
        "`OpenWOP-Client-Version` has no effect, whatever it contains";
    "openwop2.versions.vary", Should, "RFC 9110 §12.5.5", vary:
        "`Vary` names `OpenWOP-Version` where the header changes the answer";
};

/// Checks whether the host lists a version 2.
pub(super) async fn is_listed(target: &Target) -> bool {
    let Ok(response) = default_discovery(target).await else { return false };
    texts(response.value(), "protocolVersions").into_iter().any(|version| major(version) == Some(2))
}

async fn well_formed(target: &Target) -> CheckResult {
    let listed = listed(target).await?;
    let response = discovery(target).await?;
    let distinct: BTreeSet<&String> = listed.iter().collect();
    let is_plain = listed.iter().all(|version| numbers(version).is_some());
    let holds = is_plain && distinct.len() == listed.len();
    let seen = listed.join(", ");
    response.expect(holds, "distinct versions `major.minor`", seen.as_str())?;
    let has = |wanted: u32| listed.iter().any(|version| major(version) == Some(wanted));
    response.expect(has(2), "a version 2.x in the list", seen)?;
    let preferred = text(response.value(), "preferredVersion");
    let is_member = listed.iter().any(|version| version == preferred);
    response.expect(is_member, "`preferredVersion` in the list", preferred)?;
    let holds = !has(1) || major(preferred) == Some(1);
    response.expect(holds, "a preferred version 1.x while one is listed", preferred)
}

async fn same_list(target: &Target) -> CheckResult {
    let (first, second) = (default_discovery(target).await?, discovery(target).await?);
    for member in ["protocolVersions", "preferredVersion"] {
        let is_same = first.value().get(member) == second.value().get(member);
        let seen = "another value without the header";
        require(is_same, format!("the same `{member}`"), seen, &[&first, &second])?;
    }
    Ok(())
}

async fn two_forms(target: &Target) -> CheckResult {
    require_v1(target).await?;
    let (first, second) = (default_discovery(target).await?, discovery(target).await?);
    let differs = first.body() != second.body();
    require(differs, "two documents", "the same document", &[&first, &second])
}

async fn named(target: &Target) -> CheckResult {
    let paths = paths(target);
    let mut requests = vec![
        target.get(DISCOVERY),
        target.get(paths.tools),
        target.get(paths.tools).with_key(),
        target.get(paths.absent[0]).with_key(),
        target.get(ABSENT_RUN).with_key(),
        with_version(target, paths.tools, "97.0").with_key(),
    ];
    let list = target.fetch(paths.tools).await?;
    if let Some(tag) = list.header("etag") {
        requests.push(target.get(paths.tools).with_key().header("if-none-match", tag));
    }
    for request in requests {
        expect_version(target, &target.send_once(request).await?, 2).await?;
    }
    Ok(())
}

async fn named_by_v1(target: &Target) -> CheckResult {
    require_v1(target).await?;
    for path in ["/v1/tools", "/v1/conformance-nothing-is-here"] {
        for request in [unversioned(target, path), unversioned(target, path).with_key()] {
            expect_version(target, &target.send_once(request).await?, 1).await?;
        }
    }
    Ok(())
}

async fn only_major(target: &Target) -> CheckResult {
    let reference = discovery(target).await?;
    for version in ["2", "2.97"] {
        let response = target.send_once(with_version(target, DISCOVERY, version)).await?;
        let is_same = response.status() == 200 && response.body() == reference.body();
        let seen = format!("status {}", response.status());
        require(is_same, "the document of version 2.0", seen, &[&response, &reference])?;
    }
    Ok(())
}

async fn unlisted(target: &Target) -> CheckResult {
    let listed = listed(target).await?;
    for path in [DISCOVERY, paths(target).tools, ABSENT_RUN] {
        let request = with_version(target, path, "97.0").with_key();
        let response = target.send_once(request).await?;
        expect_error(&response, 406, "protocol_version_unsupported")?;
        let details = response.value().get("details").unwrap_or(&Value::Null);
        let named = texts(details, "protocolVersions");
        response.expect(named == listed, "the listed versions", named.join(", "))?;
    }
    Ok(())
}

async fn before_auth(target: &Target) -> CheckResult {
    let response = target.send_once(with_version(target, paths(target).tools, "97.0")).await?;
    response.expect_status(&[406])
}

async fn malformed(target: &Target) -> CheckResult {
    for path in [DISCOVERY, paths(target).tools] {
        let repeated = with_version(target, path, "2.0").header(OPENWOP_VERSION, "2.0");
        let values = ["", "two", "2.0.0"];
        let wrong = values.map(|value| with_version(target, path, value));
        for request in wrong.into_iter().chain([repeated]) {
            let response = target.send_once(request.with_key()).await?;
            expect_error(&response, 400, "validation_error")?;
        }
    }
    Ok(())
}

async fn mismatch(target: &Target) -> CheckResult {
    require_v1(target).await?;
    let response = target.fetch("/v1/tools").await?;
    expect_error(&response, 400, "protocol_version_mismatch")
}

async fn default_tools(target: &Target) -> CheckResult {
    let request = unversioned(target, paths(target).tools).with_key();
    expect_version(target, &target.send_once(request).await?, 2).await
}

async fn default_other(target: &Target) -> CheckResult {
    for path in [RUNS, ABSENT_RUN, paths(target).absent[0]] {
        let response = target.send_once(unversioned(target, path).with_key()).await?;
        expect_version(target, &response, 2).await?;
    }
    Ok(())
}

async fn path_space(target: &Target) -> CheckResult {
    require_v1(target).await?;
    let mut compared = 0;
    for path in ["/tools", "/openapi.json", "/runs"] {
        let prefixed = unversioned(target, &format!("/v1{path}")).with_key();
        if matches!(target.send_once(prefixed).await?.status(), 404 | 405 | 501) {
            continue;
        }
        compared += 1;
        let response = target.fetch(path).await?;
        let is_served = !matches!(response.status(), 404 | 405 | 501);
        let seen = format!("status {}", response.status());
        response.expect(is_served, format!("`{path}`, as `/v1{path}` is served"), seen)?;
        response.expect_json_type()?;
        expect_version(target, &response, 2).await?;
    }
    skip_unless(compared > 0, "these paths are missing below `/v1`")
}

async fn client_version(target: &Target) -> CheckResult {
    let reference = discovery(target).await?;
    let mut values = vec!["97.0", "97.0.1", "not a version", ""];
    if reference.value().get("minClientVersion").is_none() {
        values.push("0.1");
    }
    let with = |path: &str, value: &str| target.get(path).header("openwop-client-version", value);
    for path in [DISCOVERY, paths(target).tools] {
        let plain = target.fetch(path).await?;
        for value in &values {
            let response = target.send_once(Request::with_key(with(path, value))).await?;
            let is_same = response.status() == plain.status() && response.body() == plain.body();
            let seen = format!("status {}", response.status());
            require(is_same, "the same answer", seen, &[&response, &plain])?;
        }
    }
    Ok(())
}

async fn vary(target: &Target) -> CheckResult {
    for response in [discovery(target).await?, target.fetch(paths(target).tools).await?] {
        let vary = response.header_text("vary").to_ascii_lowercase();
        if !vary.split(',').any(|name| matches!(name.trim(), OPENWOP_VERSION | "*")) {
            return fail("`Vary` with `OpenWOP-Version`", vary, &[&response]);
        }
    }
    Ok(())
}
