//! `GET /v1/tools` and `GET /v1/tools/{toolId}`.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    ABSENT, ALSO_ABSENT, TOOLS, catalog, facet, family, flat, id_of, kind, listed, segment, tools,
};
use crate::conformance::{Check, Site, Verdict, check, fail, shape, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "openwop.catalog.list",
        Must,
        "RFC 0078 §B",
        "an advertised catalog is answered as JSON: 200 with the tools, also when there are none",
        list
    ),
    check!(
        "openwop.catalog.bare-array",
        Should,
        "OpenAPI `listTools`",
        "the list is a bare array, the only shape that the SDKs and the published suite read",
        bare_array
    ),
    check!(
        "openwop.catalog.descriptors",
        Must,
        "RFC 0078 §C, tool-descriptor.schema.json",
        "every tool is a ToolDescriptor: its required members, known values, nothing else",
        descriptors
    ),
    check!(
        "openwop.catalog.exec",
        Must,
        "RFC 0078 §C, RFC 0069",
        "the tier `exec` belongs to host extensions alone",
        exec
    ),
    check!(
        "openwop.catalog.no-secrets",
        Must,
        "RFC 0078 §security, SR-1",
        "no descriptor holds credential material",
        no_secrets
    ),
    check!(
        "openwop.catalog.unique-ids",
        Must,
        "RFC 0078 §C",
        "a `toolId` stands for one tool",
        unique_ids
    ),
    check!(
        "openwop.catalog.sources",
        Must,
        "RFC 0078 §A",
        "every tool is of a source that `toolCatalog.sources` names, when it names any",
        sources
    ),
    check!(
        "openwop.catalog.sorted",
        Should,
        "v2 tool-catalog, ordering",
        "the list is sorted by `toolId`",
        sorted
    ),
    check!(
        "openwop.catalog.stable",
        Should,
        "v2 tool-catalog, ordering",
        "two reads in a row are the same, byte for byte",
        stable
    ),
    check!(
        "openwop.catalog.by-id",
        Must,
        "RFC 0078 §B",
        "each listed tool is answered by its id, as one bare descriptor, the same as in the list",
        by_id
    ),
    check!(
        "openwop.catalog.id-encoding",
        Must,
        "RFC 3986 §2",
        "an id in the path is percent-decoded exactly once",
        id_encoding
    ),
    check!(
        "openwop.catalog.unknown-id",
        Must,
        "RFC 0078 §B",
        "an id that is not there is 404",
        unknown_id
    ),
    check!(
        "openwop.catalog.strange-ids",
        Should,
        "RFC 0078 §B",
        "an encoded slash, a zero byte or bytes that are no text are ids that are not there",
        strange_ids
    ),
    check!(
        "openwop.catalog.source-filter",
        Should,
        "RFC 0078 §B",
        "`?source=` leaves exactly the tools of that source",
        source_filter
    ),
    check!(
        "openwop.catalog.unknown-source",
        Should,
        "RFC 0078 §B",
        "`?source=` with a value that is no source never answers the whole list",
        unknown_source
    ),
    check!(
        "openwop.catalog.unknown-view",
        Must,
        "RFC 0112",
        "`?view=` with a value that is no view answers the standard list",
        unknown_view
    ),
    check!(
        "openwop.catalog.read-only",
        Must,
        "RFC 0078 §B",
        "the catalog is read-only: no other method does anything",
        read_only
    ),
    check!(
        "openwop.catalog.allow",
        Should,
        "RFC 9110 §15.5.6",
        "another method is 405 and `Allow` names those that there are",
        allow
    ),
    check!(
        "openwop.catalog.head",
        Should,
        "RFC 9110 §9.3.2",
        "HEAD is answered as GET, without the body",
        head
    ),
    check!(
        "openwop.catalog.private",
        Should,
        "RFC 9111 §3.5",
        "what depends on the caller may not be kept by shared caches",
        private
    ),
    check!(
        "openwop.catalog.conditional",
        Should,
        "RFC 9110 §13.1.2",
        "the list has an `ETag`, and whoever presents it is answered 304",
        conditional
    ),
];

async fn list(site: &Site) -> Verdict {
    let (got, _) = catalog(site).await?;
    let kind = got.header("content-type").unwrap_or("(none)").to_owned();
    got.expect(got.says_json() || kind.contains("json"), "content type application/json", kind)
}

async fn bare_array(site: &Site) -> Verdict {
    let (got, _) = catalog(site).await?;
    got.expect(got.value().is_array(), "an array", kind(got.value()))
}

async fn descriptors(site: &Site) -> Verdict {
    let schema = json!({ "type": "object" });
    let shape = json!({
        "type": "object",
        "required": ["toolId", "source", "safetyTier"],
        "additionalProperties": false,
        "properties": {
            "toolId": { "type": "string", "minLength": 1 },
            "source": { "enum": ["node-pack", "workflow", "mcp", "connector", "host-extension"] },
            "title": { "type": "string" },
            "description": { "type": "string" },
            "inputSchema": schema,
            "outputSchema": schema,
            "auth": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "scopes": {
                        "type": "array", "uniqueItems": true, "items": { "type": "string" },
                    },
                    "credentialRef": { "type": "boolean" },
                },
            },
            "egress": { "enum": ["none", "safe-fetch", "host-mediated", "host-owned"] },
            "approval": { "enum": ["never", "conditional", "always"] },
            "replayPolicy": { "enum": ["deterministic", "idempotent", "non-deterministic"] },
            "safetyTier": { "enum": ["pure", "read", "write", "exec"] },
            "costHint": { "enum": ["low", "medium", "high"] },
            "latencyHint": { "enum": ["low", "medium", "high"] },
        },
    });
    let (got, tools) = tools(site).await?;
    for tool in &tools {
        if let Some(what) = shape::violation(&shape, tool) {
            return fail("a ToolDescriptor", format!("`{}`: {what}", id_of(tool)), &[&got]);
        }
    }
    Ok(())
}

async fn exec(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    let is = |tool: &Value, name: &str, value: &str| tool.get(name).is_some_and(|it| it == value);
    let wrong = tools
        .iter()
        .find(|tool| is(tool, "safetyTier", "exec") && !is(tool, "source", "host-extension"));
    match wrong {
        None => Ok(()),
        Some(tool) => {
            let seen = format!("`{}` is not one", id_of(tool));
            fail("`exec` tools are host extensions", seen, &[&got])
        }
    }
}

async fn no_secrets(site: &Site) -> Verdict {
    const NAMES: [&str; 6] = ["secret", "credential", "credentials", "token", "apiKey", "password"];
    let (got, tools) = tools(site).await?;
    for tool in &tools {
        let owned = NAMES.iter().find(|name| tool.get(**name).is_some());
        if let Some(name) = owned {
            let seen = format!("`{}` has a member `{name}`", id_of(tool));
            return fail("no credential material", seen, &[&got]);
        }
        if let Some(start) = key_in(&tool.to_string()) {
            let seen = format!("`{}` holds a text that starts with `{start}`", id_of(tool));
            return fail("no credential material", seen, &[&got]);
        }
    }
    Ok(())
}

/// How a word of `text` starts that looks like the key of a well-known service.
fn key_in(text: &str) -> Option<&'static str> {
    const STARTS: [&str; 7] = ["sk-", "AKIA", "ASIA", "ghp_", "gho_", "ghs_", "xoxb-"];
    /// What follows the start in a key.
    const LEAST: usize = 12;
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Some("-----BEGIN");
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split(|c| !is_part(c)).find_map(|word| {
        let is_key = |start: &&str| word.len() >= start.len() + LEAST && word.starts_with(start);
        STARTS.into_iter().find(|start| is_key(start))
    })
}

async fn unique_ids(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    let mut seen = BTreeSet::new();
    match tools.iter().map(id_of).find(|id| !seen.insert(*id)) {
        None => Ok(()),
        Some(id) => fail("every `toolId` once", format!("`{id}` twice"), &[&got]),
    }
}

async fn sources(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    let family = family(site, "toolCatalog").await?.unwrap_or_default();
    let Some(advertised) = family.get("sources").and_then(Value::as_array) else {
        return skip("the host does not say which sources it projects");
    };
    let foreign = tools
        .iter()
        .find(|tool| tool.get("source").is_some_and(|source| !advertised.contains(source)));
    match foreign {
        None => Ok(()),
        Some(tool) => {
            let source = tool.get("source").and_then(Value::as_str).unwrap_or_default();
            let seen = format!("`{}` of the source `{source}`", id_of(tool));
            fail("tools of advertised sources", seen, &[&got])
        }
    }
}

async fn sorted(site: &Site) -> Verdict {
    let (got, tools) = tools(site).await?;
    let units: Vec<Vec<u16>> =
        tools.iter().map(|tool| id_of(tool).encode_utf16().collect()).collect();
    got.expect(units.is_sorted(), "ids in the order of their UTF-16 code units", "another order")
}

async fn stable(site: &Site) -> Verdict {
    let (first, _) = catalog(site).await?;
    let second = site.send(site.get(TOOLS).by_first()).await?;
    match first.body() == second.body() {
        true => Ok(()),
        false => fail("the same bytes twice", "other bytes the second time", &[&first, &second]),
    }
}

async fn by_id(site: &Site) -> Verdict {
    const SOME: usize = 5;
    let (list, tools) = tools(site).await?;
    for tool in tools.iter().take(SOME) {
        let path = format!("{TOOLS}/{}", segment(id_of(tool)));
        let got = site.once(site.get(&path).by_first()).await?;
        got.expect_status(&[200])?;
        if got.json()? != tool {
            return fail("the descriptor of the list", "something else", &[&got, &list]);
        }
    }
    Ok(())
}

async fn id_encoding(site: &Site) -> Verdict {
    let (_, tools) = tools(site).await?;
    let Some(id) = tools.first().map(id_of) else { return skip("the key sees no tools") };
    let every: String = id.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let once = site.once(site.get(&format!("{TOOLS}/{every}")).by_first()).await?;
    once.expect_status(&[200])?;
    let seen = id_of(once.json()?);
    once.expect(seen == id, "the tool whose id it is", format!("`{seen}`"))?;
    let twice = every.replace('%', "%25");
    let twice = site.once(site.get(&format!("{TOOLS}/{twice}")).by_first()).await?;
    twice.expect_status(&[404])
}

async fn unknown_id(site: &Site) -> Verdict {
    catalog(site).await?;
    for path in [ABSENT, ALSO_ABSENT] {
        site.once(site.get(path).by_first()).await?.expect_status(&[404])?;
    }
    Ok(())
}

async fn strange_ids(site: &Site) -> Verdict {
    catalog(site).await?;
    for id in ["conformance%2Fabsent", "%FF%FE", "conformance%00absent", "%E2%82"] {
        let got = site.once(site.get(&format!("{TOOLS}/{id}")).by_first()).await?;
        got.expect_status(&[404])?;
        flat(&got)?;
    }
    Ok(())
}

async fn source_filter(site: &Site) -> Verdict {
    let (_, tools) = tools(site).await?;
    for source in ["node-pack", "workflow", "mcp", "connector", "host-extension"] {
        let wanted: Vec<&str> = tools
            .iter()
            .filter(|tool| tool.get("source").is_some_and(|it| it == source))
            .map(id_of)
            .collect();
        let got = site.once(site.get(&format!("{TOOLS}?source={source}")).by_first()).await?;
        got.expect_status(&[200])?;
        let filtered = listed(&got)?;
        let seen: Vec<&str> = filtered.iter().map(id_of).collect();
        let expected = format!("the {} tools of the source `{source}`", wanted.len());
        got.expect(seen == wanted, expected, format!("{} tools", seen.len()))?;
    }
    Ok(())
}

async fn unknown_source(site: &Site) -> Verdict {
    let (_, tools) = tools(site).await?;
    let got = site.once(site.get(&format!("{TOOLS}?source=conformance-none")).by_first()).await?;
    match got.status() {
        200 => {
            let seen = listed(&got)?.len();
            let seen = format!("{seen} of {} tools", tools.len());
            got.expect(seen.starts_with("0 "), "no tools, or 400", seen)
        }
        _ => {
            got.expect_status(&[400])?;
            flat(&got)
        }
    }
}

async fn unknown_view(site: &Site) -> Verdict {
    let (standard, _) = catalog(site).await?;
    let got = site.once(site.get(&format!("{TOOLS}?view=conformance-none")).by_first()).await?;
    got.expect_status(&[200])?;
    match got.value() == standard.value() {
        true => Ok(()),
        false => fail("the standard list", "something else", &[&got, &standard]),
    }
}

async fn read_only(site: &Site) -> Verdict {
    catalog(site).await?;
    for ask in [site.post(TOOLS), site.ask(Method::PUT, ABSENT), site.post(ABSENT)] {
        let got = site.once(ask.json(&json!({})).by_first()).await?;
        let refused = (400..500).contains(&got.status());
        got.expect(refused, "a status from 400 to 499", format!("status {}", got.status()))?;
    }
    Ok(())
}

async fn allow(site: &Site) -> Verdict {
    catalog(site).await?;
    let got = site.once(site.post(TOOLS).json(&json!({})).by_first()).await?;
    got.expect_status(&[405])?;
    let said = got.header("allow").unwrap_or_default();
    let names_get = said.split(',').any(|method| method.trim() == "GET");
    got.expect(names_get, "`Allow` with GET", if said.is_empty() { "none" } else { said })
}

async fn head(site: &Site) -> Verdict {
    let (whole, _) = catalog(site).await?;
    let got = site.once(site.ask(Method::HEAD, TOOLS).by_first()).await?;
    got.expect_status(&[200])?;
    got.expect(got.body().is_empty(), "no body", "a body")?;
    let (own, other) = (got.header("content-type"), whole.header("content-type"));
    got.expect(own == other, "the headers of GET", "another content type")
}

async fn private(site: &Site) -> Verdict {
    let (got, _) = catalog(site).await?;
    let said = got.header("cache-control").unwrap_or_default().to_ascii_lowercase();
    let has = |name: &str| said.split(',').any(|it| it.trim().split('=').next() == Some(name));
    let shared = has("public") || has("s-maxage");
    let kept_apart = has("private") || has("no-store") || has("no-cache");
    let seen = if said.is_empty() { "no `Cache-Control`".to_owned() } else { said.clone() };
    got.expect(!shared && kept_apart, "`Cache-Control` with private, no-store or no-cache", seen)
}

async fn conditional(site: &Site) -> Verdict {
    let (got, _) = catalog(site).await?;
    let Some(tag) = got.header("etag") else { return fail("an `ETag`", "none", &[&got]) };
    let again = site.send(site.get(TOOLS).by_first().header("if-none-match", tag)).await?;
    again.expect_status(&[304])?;
    // Without the right to the list there is nothing that may be called unchanged.
    let open = site.send(site.get(TOOLS).header("if-none-match", tag)).await?;
    open.expect_status(&[401])
}

/// Whether the compact view is advertised.
pub(super) async fn is_compact(site: &Site) -> Verdict<bool> {
    facet(site, "toolCatalog", "compactView").await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_words() {
        assert_eq!(key_in("use sk-abcdefghijklmnop here"), Some("sk-"));
        assert_eq!(key_in("AKIAIOSFODNN7EXAMPLE"), Some("AKIA"));
        assert_eq!(key_in("ask-me-anything-about-keys sk-short, risk-assessments"), None);
    }
}
