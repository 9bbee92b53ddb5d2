//! A connector: an OpenAPI document and the address of its service, or a pack.

use std::collections::BTreeMap;

use globset::Glob;
use toolcrib_core::{
    id::SourceId,
    source::{
        UpstreamSpec,
        connector::{ConnectorSpec, DocumentAt},
        pack::PackOffer,
    },
};

use super::mcp::{check_header, check_url};
use crate::config::resolve::{Resolver, file};

/// Keys of a connector with a document.
const OF_DOCUMENTS: &[&str] = &["document", "base_url", "operations", "variables", "headers"];
/// Keys of a connector with a pack.
const OF_PACKS: &[&str] = &["nodes", "grants", "memory", "integrity", "trusted_keys"];

impl Resolver<'_> {
    pub(super) fn connector_source(
        &mut self,
        id: &SourceId,
        typed: &file::Source,
    ) -> Option<UpstreamSpec> {
        let key = |member: &str| format!("source.{id}.{member}");
        let at = typed.id.span().start;
        // The keys of one variant have no meaning for the other.
        let (other, foreign) = match typed.pack.is_some() {
            true => ("document", OF_DOCUMENTS),
            false => ("pack", OF_PACKS),
        };
        for member in foreign.iter().filter(|member| typed.has(member)) {
            let message = format!("is only for a connector with `{other}`");
            self.complain(at, &key(member), message);
        }
        if typed.pack.is_some() {
            return self.pack_source(id, PackOffer::Actions, typed);
        }
        let before = self.problems.len();
        let document = match &typed.document {
            None => {
                let message = "expected the OpenAPI document: `document = \"service.yaml\"`, or an \
                               http or https address; or `pack = \"…\"`";
                let table = format!("source.{id}");
                let at = typed.id.span().start;
                self.complain_of_absence(at, &table, &key("document"), message);
                None
            }
            Some(place) => {
                let base = self.base;
                self.read(&key("document"), Some(place), |text| match is_address(text) {
                    true => check_url(text).map(DocumentAt::Url),
                    false if text.is_empty() => Err("expected a file or an address"),
                    false => Ok(DocumentAt::File(base.join(text))),
                })
            }
        };
        let base_url = self.read(&key("base_url"), typed.base_url.as_ref(), check_url);
        let operations: Vec<String> = typed
            .operations
            .iter()
            .filter_map(|pattern| self.read(&key("operations"), Some(pattern), check_pattern))
            .collect();
        let from_file = matches!(document, Some(DocumentAt::File(_)));
        for (name, value) in &typed.headers {
            let at = value.span().start;
            if let Err(problem) = check_header(name) {
                self.complain(at, &key(&format!("headers.{name}")), problem);
            }
            if from_file && typed.base_url.is_none() {
                let message = "headers go to the configured service alone; say where it is with \
                               `base_url`";
                self.complain(at, &key(&format!("headers.{name}")), message);
            }
        }
        let variables: BTreeMap<String, String> = typed.variables.clone();
        let allow = self.allow_list(id, &typed.allow);
        let headers = self.values(&key("headers"), &typed.headers)?;
        let spec = ConnectorSpec {
            document: document?,
            base_url,
            operations,
            variables,
            headers,
            allow: allow?,
        };
        (self.problems.len() == before).then_some(UpstreamSpec::Connector(spec))
    }
}

/// Returns whether `text` is an address and not a file.
fn is_address(text: &str) -> bool {
    text.split_once("://").is_some()
}

fn check_pattern(pattern: &str) -> Result<String, String> {
    let glob = pattern.strip_prefix('!').unwrap_or(pattern);
    // In paths a placeholder matches literally.
    let glob = match glob.split_once(' ') {
        None => glob.to_owned(),
        Some((method, path)) => format!("{method} {}", path.replace(['{', '}'], "")),
    };
    match Glob::new(&glob) {
        Ok(_) => Ok(pattern.to_owned()),
        Err(error) => Err(format!("is not a glob: {}", error.kind())),
    }
}
