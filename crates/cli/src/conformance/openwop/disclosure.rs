//! Nobody learns what he may not use: hidden looks like unknown.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{ABSENT, ALSO_ABSENT, TOOLS, catalog, flat, id_of, listed, segment};
use crate::conformance::{Ask, Check, Got, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "openwop.disclosure.no-hints",
        Must,
        "RFC 0200, auth-challenge-no-oracle",
        "a 404 carries no challenge that names scopes",
        no_hints
    ),
    check!(
        "openwop.disclosure.same-404",
        Must,
        "RFC 0074, RFC 0078 §B",
        "all ids that are not there get the same answer: status, headers and body",
        same_404
    ),
    check!(
        "openwop.disclosure.hidden",
        Must,
        "RFC 0078 §B",
        "a tool that a principal may not use is answered to it like an id that is not there, \
         headers included",
        hidden
    ),
    check!(
        "openwop.disclosure.listed-is-readable",
        Must,
        "RFC 0078 §B",
        "another principal, too, is answered every tool that its list names",
        listed_is_readable
    ),
    check!(
        "openwop.disclosure.etag",
        Must,
        "RFC 9110 §13.1.2, CTI-1",
        "the `ETag` of one principal's list tells another nothing about its own",
        etag
    ),
];

async fn no_hints(site: &Site) -> Verdict {
    catalog(site).await?;
    for path in [ABSENT, ALSO_ABSENT] {
        let got = site.once(site.get(path).by_first()).await?;
        got.expect_status(&[404])?;
        let said = got.header("www-authenticate").unwrap_or_default();
        let hints = said.contains("insufficient_scope") || said.contains("scope=");
        got.expect(!hints, "no challenge that names scopes", said)?;
    }
    Ok(())
}

async fn same_404(site: &Site) -> Verdict {
    catalog(site).await?;
    let first = site.once(site.get(ABSENT).by_first()).await?;
    let second = site.once(site.get(ALSO_ABSENT).by_first()).await?;
    same(&first, &second)
}

/// Fails unless nobody could tell the two answers apart.
fn same(one: &Got, other: &Got) -> Verdict {
    let seen = if one.status() != other.status() {
        format!("status {} and {}", one.status(), other.status())
    } else if one.body() != other.body() {
        "other bodies".to_owned()
    } else if one.lasting_headers() != other.lasting_headers() {
        "other headers".to_owned()
    } else {
        return Ok(());
    };
    fail("two answers that cannot be told apart", seen, &[one, other])
}

async fn hidden(site: &Site) -> Verdict {
    const SOME: usize = 5;
    let (mine, theirs) = both(site).await?;
    let (own, other) = (ids(&mine.1), ids(&theirs.1));
    type Asks = fn(Ask) -> Ask;
    let views: [(Vec<&String>, Asks); 2] = [
        (own.difference(&other).collect(), Ask::by_second),
        (other.difference(&own).collect(), Ask::by_first),
    ];
    let mut compared = 0;
    for (hidden, by) in views {
        let absent = site.once(by(site.get(ABSENT))).await?;
        absent.expect_status(&[404])?;
        flat(&absent)?;
        for id in hidden.into_iter().take(SOME) {
            for query in ["", "?view=compact"] {
                let path = format!("{TOOLS}/{}{query}", segment(id));
                same(&site.once(by(site.get(&path))).await?, &absent)?;
                compared += 1;
            }
        }
    }
    match compared {
        0 => skip("both keys see the same tools"),
        _ => Ok(()),
    }
}

async fn listed_is_readable(site: &Site) -> Verdict {
    const SOME: usize = 5;
    let (_, (_, theirs)) = both(site).await?;
    if theirs.is_empty() {
        return skip("the second key sees no tools");
    }
    for tool in theirs.iter().take(SOME) {
        let path = format!("{TOOLS}/{}", segment(id_of(tool)));
        site.once(site.get(&path).by_second()).await?.expect_status(&[200])?;
    }
    Ok(())
}

async fn etag(site: &Site) -> Verdict {
    let ((mine, _), (theirs, _)) = both(site).await?;
    let Some(tag) = mine.header("etag") else { return skip("the list has no `ETag`") };
    if mine.body() == theirs.body() {
        return skip("both keys see the same tools");
    }
    let got = site.send(site.get(TOOLS).by_second().header("if-none-match", tag)).await?;
    match got.status() {
        304 => fail("the second key's own list", "status 304", &[&got, &mine]),
        _ => Ok(()),
    }
}

type View = (Got, Vec<Value>);

/// The lists of both keys.
async fn both(site: &Site) -> Verdict<(View, View)> {
    let mine = catalog(site).await?;
    if !site.host().has_second_key() {
        return skip("needs the key of another principal: --second-key");
    }
    let got = site.once(site.get(TOOLS).by_second()).await?;
    got.expect_status(&[200])?;
    let theirs = listed(&got)?;
    Ok((mine, (got, theirs)))
}

fn ids(tools: &[Value]) -> BTreeSet<String> {
    tools.iter().map(|tool| id_of(tool).to_owned()).collect()
}
