//! Hidden tools: a caller cannot distinguish them from unknown ones.

use serde_json::Value;

use super::common::{SAMPLE, catalog, expect_flat_error, id_of, ids, listed, path_of, paths};
use crate::{
    Check, CheckResult, Target, checks,
    http::{Request, Response},
    require, skip, skip_unless,
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop.disclosure.no-hints", Must, "RFC 0200, auth-challenge-no-oracle", no_hints:
        "a 404 has no challenge with scopes";
    "openwop.disclosure.same-404", Must, "RFC 0074, RFC 0078 §B", same_404:
        "all unknown ids return the same response: status, headers and body";
    "openwop.disclosure.hidden", Must, "RFC 0078 §B", hidden:
        "a tool that the principal may not use returns the response for an unknown id, headers included";
    "openwop.disclosure.listed-is-readable", Must, "RFC 0078 §B", listed_is_readable:
        "another principal can read every tool of its list";
    "openwop.disclosure.etag", Must, "RFC 9110 §13.1.2, CTI-1", etag:
        "the `ETag` of one principal's list does not match the list of another principal";
};

const SAME_TOOLS: &str = "both keys see the same tools";

pub(crate) async fn no_hints(target: &Target) -> CheckResult {
    catalog(target).await?;
    for path in paths(target).absent {
        let response = target.fetch(path).await?;
        response.expect_status(&[404])?;
        let challenge = response.header_text("www-authenticate");
        let has_hint = challenge.contains("insufficient_scope") || challenge.contains("scope=");
        response.expect(!has_hint, "no challenge with scopes", challenge)?;
    }
    Ok(())
}

pub(crate) async fn same_404(target: &Target) -> CheckResult {
    catalog(target).await?;
    let [first, second] = paths(target).absent;
    target.fetch(first).await?.expect_indistinguishable(&target.fetch(second).await?)
}

pub(crate) async fn hidden(target: &Target) -> CheckResult {
    let (mine, theirs) = both(target).await?;
    let (own, other) = (ids(&mine.1), ids(&theirs.1));
    type AddKey = fn(Request) -> Request;
    let views: [(Vec<&&str>, AddKey); 2] = [
        (own.difference(&other).collect(), Request::with_second_key),
        (other.difference(&own).collect(), Request::with_key),
    ];
    skip_unless(views.iter().any(|(hidden, _)| !hidden.is_empty()), SAME_TOOLS)?;
    for (hidden, add_key) in views {
        let absent = target.send_once(add_key(target.get(paths(target).absent[0]))).await?;
        absent.expect_status(&[404])?;
        expect_flat_error(&absent)?;
        for id in hidden.into_iter().take(SAMPLE) {
            for query in ["", "?view=compact"] {
                let request = add_key(target.get(&format!("{}{query}", path_of(target, id))));
                target.send_once(request).await?.expect_indistinguishable(&absent)?;
            }
        }
    }
    Ok(())
}

pub(crate) async fn listed_is_readable(target: &Target) -> CheckResult {
    let (_, (_, theirs)) = both(target).await?;
    skip_unless(!theirs.is_empty(), "the second key sees no tools")?;
    for tool in theirs.iter().take(SAMPLE) {
        let request = target.get(&path_of(target, id_of(tool))).with_second_key();
        target.send_once(request).await?.expect_status(&[200])?;
    }
    Ok(())
}

pub(crate) async fn etag(target: &Target) -> CheckResult {
    let ((mine, _), (theirs, _)) = both(target).await?;
    let Some(tag) = mine.header("etag") else { return skip("the list has no `ETag`") };
    skip_unless(mine.body() != theirs.body(), SAME_TOOLS)?;
    let request = target.get(paths(target).tools).with_second_key().header("if-none-match", tag);
    let response = target.send(request).await?;
    let is_other = response.status() != 304;
    require(is_other, "the list of the second key", "status 304", &[&response, &mine])
}

type View = (Response, Vec<Value>);

/// Reads the lists of both keys.
async fn both(target: &Target) -> CheckResult<(View, View)> {
    let mine = catalog(target).await?;
    target.require_second_key()?;
    let response = target.send_once(target.get(paths(target).tools).with_second_key()).await?;
    response.expect_status(&[200])?;
    let theirs = listed(&response)?;
    Ok((mine, (response, theirs)))
}
