//! Requests with and without a version, and the versions that a host lists.

use crate::{
    CheckResult, Target, fail,
    http::{Request, Response},
    openwop::common::{DISCOVERY, discovery},
    skip_unless,
    target::OPENWOP_VERSION,
    value::{text, texts},
};
use reqwest::Method;

pub(super) const RUNS: &str = "/runs";
/// A run that no host has.
pub(super) const ABSENT_RUN: &str = "/runs/conformance-absent-run-5f1d0c93";

/// Creates a `GET` request without a version.
pub(super) fn unversioned(target: &Target, path: &str) -> Request {
    target.plain_request(Method::GET, path)
}

/// Creates a `GET` request with `version` in the header.
pub(super) fn with_version(target: &Target, path: &str, version: &str) -> Request {
    unversioned(target, path).header(OPENWOP_VERSION, version)
}

/// Reads the discovery document for requests without a version.
pub(super) async fn default_discovery(target: &Target) -> CheckResult<Response> {
    let response = target.send_once(unversioned(target, DISCOVERY)).await?;
    response.expect_status(&[200])?;
    response.json()?;
    Ok(response)
}

/// Reads the versions that the host lists in discovery for version 2.
pub(super) async fn listed(target: &Target) -> CheckResult<Vec<String>> {
    let response = discovery(target).await?;
    let versions = texts(response.value(), "protocolVersions");
    match versions.is_empty() {
        true => fail("`protocolVersions`, an array of versions", "none", &[&response]),
        false => Ok(versions.into_iter().map(str::to_owned).collect()),
    }
}

/// Skips the check unless the host lists a version 1.
pub(super) async fn require_v1(target: &Target) -> CheckResult {
    let has_v1 = listed(target).await?.iter().any(|version| major(version) == Some(1));
    skip_unless(has_v1, "the host lists no version 1")
}

/// Fails the check unless `response` names a listed version whose major number is `wanted`.
pub(super) async fn expect_version(
    target: &Target,
    response: &Response,
    wanted: u32,
) -> CheckResult {
    let listed = listed(target).await?;
    let named = response.header(OPENWOP_VERSION).unwrap_or("none");
    let holds = major(named) == Some(wanted) && listed.iter().any(|version| version == named);
    let expected = format!("`OpenWOP-Version` with a listed version {wanted}.x");
    response.expect(holds, expected, named)
}

/// Fails the check unless the response is an error with `code` and `status`, the only status of
/// `code`.
pub(super) fn expect_error(response: &Response, status: u16, code: &str) -> CheckResult {
    response.expect_status(&[status])?;
    let seen = text(response.json()?, "error");
    response.expect(seen == code, format!("the code `{code}`"), format!("`{seen}`"))
}

/// The major number of a version such as `2.0`.
pub(super) fn major(version: &str) -> Option<u32> {
    numbers(version).map(|(major, _)| major)
}

/// Parses a version such as `2.0`, whose numbers have no leading zeros.
pub(super) fn numbers(version: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let is_plain = text == "0" || !text.starts_with('0');
        let digits = is_plain && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let (major, minor) = version.split_once('.')?;
    Some((number(major)?, number(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_two_plain_numbers() {
        assert_eq!(numbers("2.0"), Some((2, 0)));
        assert_eq!(numbers("10.31"), Some((10, 31)));
        for text in ["2", "2.", ".0", "02.0", "2.00", "2.0.0", "v2.0", "+2.0", ""] {
            assert_eq!(numbers(text), None, "{text}");
        }
    }
}
