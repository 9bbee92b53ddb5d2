//! The discovery document of version 2: closed, with a record for each family of capabilities.

use serde_json::{Value, json};

use super::common::{default_discovery, listed, numbers};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::Response,
    openwop::{
        common::{DISCOVERY, SOURCES, discovery},
        discovery as v1,
    },
    schema, skip, skip_unless,
    value::text,
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop2.discovery.public", Must, "capabilities, RFC 8615", v1::public:
        "the document is public JSON";
    "openwop2.discovery.closed", Must, "v2-capabilities-root-closed", closed:
        "every member of the document is one of the 17 of the schema or the record of a family";
    "openwop2.discovery.metadata", Must, "schemas/v2/capabilities", metadata:
        "the members that describe the host have their types";
    "openwop2.discovery.records", Must, "v2-capability-record-shape", records:
        "a record has `status`, `since` and `witness`, `until` unless it is stable, and no \
         `supported`";
    "openwop2.discovery.maturity", Must, "v2-maturity-bounded", maturity:
        "`since` is listed, `until` is a date or above all listed versions, and `toolCatalog` and \
         `toolHooks` are experimental";
    "openwop2.discovery.facets", Must, "schemas/v2/capabilities", facets:
        "`toolCatalog` and `toolHooks` have only their facets";
    "openwop2.discovery.mcp", Must, "facets/mcp", mcp:
        "`mcp` has its revisions, the preferred and the least one, and when they were checked";
    "openwop2.discovery.same-for-everyone", Must, "RFC 0011", v1::same_for_everyone:
        "the document is the same for every caller, unless the host advertises otherwise";
    "openwop2.discovery.reveals-no-tools", Must, "capabilities §security", v1::reveals_no_tools:
        "the public document contains no id of a tool in the catalog";
    "openwop2.discovery.cache-control", Should, "capabilities", v1::cache_control:
        "the document has a `Cache-Control` header";
    "openwop2.discovery.etag", Must, "capabilities", v1::etag:
        "the document has an `ETag`, and a request with it returns 304";
    "openwop2.discovery.etag-per-version", Must, "RFC 9110 §8.8.3", etag_per_version:
        "the `ETag` of one version's document does not match the document of the other";
};

/// The members that are no families.
const METADATA: [&str; 17] = [
    "protocolVersion",
    "protocolVersions",
    "preferredVersion",
    "extensions",
    "implementation",
    "engineVersion",
    "eventLogSchemaVersion",
    "configurable",
    "observability",
    "minClientVersion",
    "runtimeCapabilities",
    "testing",
    "conformance",
    "fixtures",
    "compliance",
    "discovery",
    "signingKeys",
];
/// Members of version 1 that look like families but are not.
const GONE: [&str; 5] = ["supportedTransports", "profiles", "wrapper", "capabilities", "host"];

/// The members of the document, without its metadata.
async fn families(target: &Target) -> CheckResult<(Response, Vec<(String, Value)>)> {
    let response = discovery(target).await?;
    let Some(members) = response.value().as_object() else {
        return fail("an object", "another type", &[&response]);
    };
    let families = members.iter().filter(|(name, _)| !METADATA.contains(&name.as_str()));
    let families = families.map(|(name, record)| (name.clone(), record.clone())).collect();
    Ok((response, families))
}

async fn closed(target: &Target) -> CheckResult {
    let (response, families) = families(target).await?;
    for (name, record) in families {
        let is_known = !GONE.contains(&name.as_str()) && !name.contains('.');
        let is_record = record.get("status").is_some();
        response.expect(is_known && is_record, "only known members and records", name)?;
    }
    Ok(())
}

async fn metadata(target: &Target) -> CheckResult {
    let string = json!({ "type": "string" });
    let schema = json!({
        "type": "object",
        "required": ["protocolVersions", "preferredVersion"],
        "properties": {
            "protocolVersion": string,
            "protocolVersions": { "type": "array", "minItems": 1, "items": string },
            "preferredVersion": string,
            "extensions": { "type": "object" },
            "implementation": {
                "type": "object",
                "additionalProperties": false,
                "properties": { "name": string, "version": string, "vendor": string, "url": string },
            },
            "engineVersion": { "type": "integer" },
            "eventLogSchemaVersion": { "type": "integer" },
            "minClientVersion": string,
        },
    });
    v1::expect_part(target, "", &schema).await
}

async fn records(target: &Target) -> CheckResult {
    let record = json!({
        "type": "object",
        "required": ["status", "since", "witness"],
        "properties": {
            "status": { "enum": ["stable", "experimental", "deprecated"] },
            "since": { "type": "string" },
            "until": { "type": "string" },
            "witness": { "enum": [
                "witnessable-unaided", "witnessable-gated", "seam-gated", "claims-check",
                "negative-existence",
            ] },
            "supported": false,
        },
        "if": { "properties": { "status": { "const": "stable" } } },
        "then": { "properties": { "until": false } },
        "else": { "required": ["until"] },
    });
    let (response, families) = families(target).await?;
    skip_unless(!families.is_empty(), "the host advertises no families")?;
    for (name, family) in families {
        response.expect_valid(&family, &record, format!("`{name}` as a valid record"))?;
    }
    Ok(())
}

async fn maturity(target: &Target) -> CheckResult {
    let listed = listed(target).await?;
    let newest = listed.iter().filter_map(|version| numbers(version)).max();
    let (response, families) = families(target).await?;
    skip_unless(!families.is_empty(), "the host advertises no families")?;
    for (name, family) in families {
        let since = text(&family, "since");
        let is_listed = listed.iter().any(|version| version == since);
        response.expect(is_listed, format!("`{name}.since` in the list"), since)?;
        if let Some(until) = family.get("until").and_then(Value::as_str) {
            let is_later =
                numbers(until).is_some_and(|until| newest.is_none_or(|version| until > version));
            let expected = format!("`{name}.until` as a date, or above the listed versions");
            response.expect(is_later || is_date(until), expected, until)?;
        }
        let is_early = matches!(name.as_str(), "toolCatalog" | "toolHooks");
        let status = text(&family, "status");
        let holds = !is_early || status != "stable";
        response.expect(holds, format!("`{name}` is not stable yet"), status)?;
    }
    Ok(())
}

fn is_date(text: &str) -> bool {
    schema::violation(&json!({ "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" }), &json!(text)).is_none()
}

async fn facets(target: &Target) -> CheckResult {
    let flag = json!({ "type": "boolean" });
    let sources = json!({ "type": "array", "uniqueItems": true, "items": { "enum": SOURCES } });
    let families = [
        (
            "toolCatalog",
            json!({ "sources": sources, "sessionLifecycle": flag, "compactView": flag }),
        ),
        (
            "toolHooks",
            json!({ "prePostEvents": flag, "perToolAuthorization": flag, "perToolRateLimit": flag }),
        ),
    ];
    let response = discovery(target).await?;
    let mut present = 0;
    for (name, facets) in families {
        let Some(family) = response.value().get(name) else { continue };
        present += 1;
        let mut members = facets;
        for record in ["status", "since", "until", "witness"] {
            members = crate::value::with(members, record, json!({ "type": "string" }));
        }
        let schema = json!({ "additionalProperties": false, "properties": members });
        response.expect_valid(family, &schema, format!("`{name}` with its facets"))?;
    }
    skip_unless(present > 0, "the host advertises neither `toolCatalog` nor `toolHooks`")
}

async fn mcp(target: &Target) -> CheckResult {
    let response = discovery(target).await?;
    let Some(record) = response.value().get("mcp") else {
        return skip("the host does not advertise `mcp`");
    };
    let date = json!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}" });
    let schema = json!({
        "required": ["revisions", "preferredVersion", "minimumRevision", "refreshedAt"],
        "properties": {
            "revisions": { "type": "array", "minItems": 1, "items": date },
            "preferredVersion": date, "minimumRevision": date, "refreshedAt": date,
        },
    });
    response.expect_valid(record, &schema, "`mcp` valid against its schema")
}

async fn etag_per_version(target: &Target) -> CheckResult {
    let (first, second) = (default_discovery(target).await?, discovery(target).await?);
    skip_unless(first.body() != second.body(), "the host has one document for both versions")?;
    let Some(tag) = first.header("etag") else {
        return skip("the document of the default version has no `ETag`");
    };
    let response = target.send(target.get(DISCOVERY).header("if-none-match", tag)).await?;
    response.expect_status(&[200])
}
