//! `GET /v1/tools` and `GET /v1/tools/{toolId}`.

use reqwest::Method;
use serde_json::{Value, json};

use super::common::{
    EMPTY_CATALOG, SAMPLE, SOURCES, catalog, expect_flat_error, family, id_of, listed, path_of,
    paths, tools,
};
use crate::{
    Check, CheckResult, Target, checks, fail, require, schema, skip,
    target::encode_every_byte,
    value::{kind, text},
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop.catalog.list", Must, "RFC 0078 §B", list:
        "an advertised catalog returns 200 and JSON, also when it is empty";
    "openwop.catalog.bare-array", Should, "OpenAPI `listTools`", bare_array:
        "the list is a bare array, the only form that the SDKs and the published suite read";
    "openwop.catalog.descriptors", Must, "RFC 0078 §C, tool-descriptor.schema.json", descriptors:
        "every tool is a ToolDescriptor with its required members, known values and no other members";
    "openwop.catalog.exec", Must, "RFC 0078 §C, RFC 0069", exec:
        "only host extensions have the tier `exec`";
    "openwop.catalog.no-secrets", Must, "RFC 0078 §security, SR-1", no_secrets:
        "no descriptor contains credentials";
    "openwop.catalog.unique-ids", Must, "RFC 0078 §C", unique_ids:
        "every `toolId` is unique";
    "openwop.catalog.sources", Must, "RFC 0078 §A", sources:
        "the source of every tool is in `toolCatalog.sources`, if the host advertises it";
    "openwop.catalog.sorted", Should, "v2 tool-catalog, ordering", sorted:
        "the list is sorted by `toolId`";
    "openwop.catalog.stable", Should, "v2 tool-catalog, ordering", stable:
        "two consecutive reads return the same bytes";
    "openwop.catalog.by-id", Must, "RFC 0078 §B", by_id:
        "the id of each listed tool returns its descriptor, equal to the one in the list";
    "openwop.catalog.id-encoding", Must, "RFC 3986 §2", id_encoding:
        "an id in the path is percent-decoded exactly once";
    "openwop.catalog.unknown-id", Must, "RFC 0078 §B", unknown_id:
        "an unknown id returns 404";
    "openwop.catalog.malformed-ids", Should, "RFC 0078 §B", strange_ids:
        "an id with an encoded slash, a zero byte or invalid UTF-8 is an unknown id";
    "openwop.catalog.source-filter", Should, "RFC 0078 §B", source_filter:
        "`?source=` returns exactly the tools of that source";
    "openwop.catalog.unknown-source", Should, "RFC 0078 §B", unknown_source:
        "`?source=` with an unknown value does not return the whole list";
    "openwop.catalog.unknown-view", Must, "RFC 0112", unknown_view:
        "`?view=` with an unknown value returns the standard list";
    "openwop.catalog.read-only", Must, "RFC 0078 §B", read_only:
        "the catalog is read-only: other methods are rejected";
    "openwop.catalog.allow", Should, "RFC 9110 §15.5.6", allow:
        "another method returns 405, and `Allow` lists the supported methods";
    "openwop.catalog.head", Should, "RFC 9110 §9.3.2", head:
        "HEAD returns the same as GET, without the body";
    "openwop.catalog.private", Should, "RFC 9111 §3.5", private:
        "shared caches must not store a list that depends on the caller";
    "openwop.catalog.conditional", Should, "RFC 9110 §13.1.2", conditional:
        "the list has an `ETag`, and a request with it returns 304";
};

pub(crate) async fn list(target: &Target) -> CheckResult {
    catalog(target).await?.0.expect_json_type()
}

pub(crate) async fn bare_array(target: &Target) -> CheckResult {
    let (response, _) = catalog(target).await?;
    response.expect(response.value().is_array(), "an array", kind(response.value()))
}

pub(crate) async fn descriptors(target: &Target) -> CheckResult {
    let schema = descriptor_schema();
    expect_no_tool(target, "valid ToolDescriptors", |tool| schema::violation(&schema, tool)).await
}

/// The schema of a descriptor in version 1.
pub(crate) fn descriptor_schema() -> Value {
    let document = json!({ "type": "object" });
    json!({
        "type": "object",
        "required": ["toolId", "source", "safetyTier"],
        "additionalProperties": false,
        "properties": {
            "toolId": { "type": "string", "minLength": 1 },
            "source": { "enum": SOURCES },
            "title": { "type": "string" },
            "description": { "type": "string" },
            "inputSchema": document,
            "outputSchema": document,
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
    })
}

pub(crate) async fn exec(target: &Target) -> CheckResult {
    expect_no_tool(target, "only host extensions with the tier `exec`", |tool| {
        let is_wrong =
            text(tool, "safetyTier") == "exec" && text(tool, "source") != "host-extension";
        is_wrong.then(|| "has another source".to_owned())
    })
    .await
}

pub(crate) async fn no_secrets(target: &Target) -> CheckResult {
    const NAMES: [&str; 6] = ["secret", "credential", "credentials", "token", "apiKey", "password"];
    expect_no_tool(target, "descriptors without credentials", |tool| {
        let member = NAMES.iter().find(|name| tool.get(**name).is_some());
        let member = member.map(|name| format!("has a member `{name}`"));
        let key =
            || key_prefix(&tool.to_string()).map(|prefix| format!("contains a key `{prefix}…`"));
        member.or_else(key)
    })
    .await
}

/// Fails the check with the first problem that `problem` finds in a tool.
pub(crate) async fn expect_no_tool(
    target: &Target,
    expected: &str,
    problem: impl Fn(&Value) -> Option<String>,
) -> CheckResult {
    let (response, tools) = tools(target).await?;
    response.expect_no_problem(&tools, id_of, expected, problem)
}

/// Finds the prefix of a word in `text` that looks like the key of a well-known service.
fn key_prefix(text: &str) -> Option<&'static str> {
    const PREFIXES: [&str; 7] = ["sk-", "AKIA", "ASIA", "ghp_", "gho_", "ghs_", "xoxb-"];
    /// Minimum length of the rest of a key.
    const MIN_REST: usize = 12;
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Some("-----BEGIN");
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split(|c| !is_part(c)).find_map(|word| {
        let is_key =
            |prefix: &&str| word.len() >= prefix.len() + MIN_REST && word.starts_with(prefix);
        PREFIXES.into_iter().find(|prefix| is_key(prefix))
    })
}

pub(crate) async fn unique_ids(target: &Target) -> CheckResult {
    let (response, tools) = tools(target).await?;
    response.expect_unique(tools.iter().map(id_of), "unique `toolId`s")
}

pub(crate) async fn sources(target: &Target) -> CheckResult {
    let family = family(target, "toolCatalog").await?.unwrap_or_default();
    let Some(advertised) = family.get("sources").and_then(Value::as_array) else {
        return skip("the host does not advertise `toolCatalog.sources`");
    };
    expect_no_tool(target, "tools of advertised sources", |tool| {
        let source = tool.get("source").filter(|source| !advertised.contains(source))?;
        Some(format!("has the source {source}"))
    })
    .await
}

pub(crate) async fn sorted(target: &Target) -> CheckResult {
    let (response, tools) = tools(target).await?;
    let units: Vec<Vec<u16>> =
        tools.iter().map(|tool| id_of(tool).encode_utf16().collect()).collect();
    response.expect(units.is_sorted(), "ids sorted by UTF-16 code units", "another order")
}

pub(crate) async fn stable(target: &Target) -> CheckResult {
    let (first, _) = catalog(target).await?;
    let second = target.send(target.get(paths(target).tools).with_key()).await?;
    let is_same = first.body() == second.body();
    require(is_same, "the same bytes twice", "different bytes", &[&first, &second])
}

pub(crate) async fn by_id(target: &Target) -> CheckResult {
    let (list, tools) = tools(target).await?;
    for tool in tools.iter().take(SAMPLE) {
        let response = target.fetch(&path_of(target, id_of(tool))).await?;
        response.expect_status(&[200])?;
        let is_same = response.json()? == tool;
        require(is_same, "the descriptor of the list", "something else", &[&response, &list])?;
    }
    Ok(())
}

pub(crate) async fn id_encoding(target: &Target) -> CheckResult {
    let (_, tools) = tools(target).await?;
    let Some(id) = tools.first().map(id_of) else { return skip(EMPTY_CATALOG) };
    let (path, encoded) = (paths(target).tools, encode_every_byte(id));
    let once = target.fetch(&format!("{path}/{encoded}")).await?;
    once.expect_status(&[200])?;
    let seen = id_of(once.json()?);
    once.expect(seen == id, format!("the tool `{id}`"), format!("`{seen}`"))?;
    let twice = target.fetch(&format!("{path}/{}", encoded.replace('%', "%25"))).await?;
    twice.expect_status(&[404])
}

pub(crate) async fn unknown_id(target: &Target) -> CheckResult {
    catalog(target).await?;
    for path in paths(target).absent {
        target.fetch(path).await?.expect_status(&[404])?;
    }
    Ok(())
}

pub(crate) async fn strange_ids(target: &Target) -> CheckResult {
    catalog(target).await?;
    for id in ["conformance%2Fabsent", "%FF%FE", "conformance%00absent", "%E2%82"] {
        let response = target.fetch(&format!("{}/{id}", paths(target).tools)).await?;
        response.expect_status(&[404])?;
        expect_flat_error(&response)?;
    }
    Ok(())
}

pub(crate) async fn source_filter(target: &Target) -> CheckResult {
    let (_, tools) = tools(target).await?;
    for source in SOURCES {
        let wanted = tools.iter().filter(|tool| text(tool, "source") == source);
        let wanted: Vec<&str> = wanted.map(id_of).collect();
        let response = target.fetch(&format!("{}?source={source}", paths(target).tools)).await?;
        response.expect_status(&[200])?;
        let filtered = listed(&response)?;
        let seen: Vec<&str> = filtered.iter().map(id_of).collect();
        let expected = format!("the {} tools of the source `{source}`", wanted.len());
        response.expect(seen == wanted, expected, format!("{} tools", seen.len()))?;
    }
    Ok(())
}

pub(crate) async fn unknown_source(target: &Target) -> CheckResult {
    let (_, tools) = tools(target).await?;
    let response =
        target.fetch(&format!("{}?source=conformance-none", paths(target).tools)).await?;
    if response.status() == 200 {
        let count = listed(&response)?.len();
        let seen = format!("{count} of {} tools", tools.len());
        return response.expect(count == 0, "no tools, or status 400", seen);
    }
    response.expect_status(&[400])?;
    expect_flat_error(&response)
}

pub(crate) async fn unknown_view(target: &Target) -> CheckResult {
    let (standard, _) = catalog(target).await?;
    let response = target.fetch(&format!("{}?view=conformance-none", paths(target).tools)).await?;
    response.expect_status(&[200])?;
    let is_same = response.value() == standard.value();
    require(is_same, "the standard list", "something else", &[&response, &standard])
}

pub(crate) async fn read_only(target: &Target) -> CheckResult {
    catalog(target).await?;
    let (tools, [absent, _]) = (paths(target).tools, paths(target).absent);
    for request in [target.post(tools), target.request(Method::PUT, absent), target.post(absent)] {
        target.send_once(request.json(&json!({})).with_key()).await?.expect_client_error()?;
    }
    Ok(())
}

pub(crate) async fn allow(target: &Target) -> CheckResult {
    catalog(target).await?;
    let response =
        target.send_once(target.post(paths(target).tools).json(&json!({})).with_key()).await?;
    response.expect_status(&[405])?;
    let allow = response.header("allow").unwrap_or("none");
    let has_get = allow.split(',').any(|method| method.trim() == "GET");
    response.expect(has_get, "`Allow` with GET", allow)
}

pub(crate) async fn head(target: &Target) -> CheckResult {
    let (get, _) = catalog(target).await?;
    let response =
        target.send_once(target.request(Method::HEAD, paths(target).tools).with_key()).await?;
    response.expect_status(&[200])?;
    response.expect(response.body().is_empty(), "no body", "a body")?;
    let is_same = response.header("content-type") == get.header("content-type");
    response.expect(is_same, "the headers of GET", "another content type")
}

pub(crate) async fn private(target: &Target) -> CheckResult {
    let (response, _) = catalog(target).await?;
    let directives = response.header_text("cache-control").to_ascii_lowercase();
    let has = |name: &str| {
        directives.split(',').any(|directive| directive.trim().split('=').next() == Some(name))
    };
    let is_shared = has("public") || has("s-maxage");
    let is_private = has("private") || has("no-store") || has("no-cache");
    let seen = response.header("cache-control").unwrap_or("no `Cache-Control`");
    let expected = "`Cache-Control` with private, no-store or no-cache";
    response.expect(!is_shared && is_private, expected, seen)
}

pub(crate) async fn conditional(target: &Target) -> CheckResult {
    let (response, _) = catalog(target).await?;
    let Some(tag) = response.header("etag") else { return fail("an `ETag`", "none", &[&response]) };
    let request = target.get(paths(target).tools).header("if-none-match", tag);
    target.send(request.clone().with_key()).await?.expect_status(&[304])?;
    // A caller without access to the list must not learn that it is unchanged.
    target.send(request).await?.expect_status(&[401])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_distinguished_from_words() {
        assert_eq!(key_prefix("use sk-abcdefghijklmnop here"), Some("sk-"));
        assert_eq!(key_prefix("AKIAIOSFODNN7EXAMPLE"), Some("AKIA"));
        assert_eq!(key_prefix("ask-me-anything-about-keys sk-short, risk-assessments"), None);
    }
}
