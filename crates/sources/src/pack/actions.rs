//! A connector pack (RFC 0045): offers its actions in place of its nodes.
//!
//! An action is a node under another title, optionally with a rate limit. Calls are never repeated
//! here, so `idempotent` is only shown as a hint.

use std::{num::NonZeroU32, time::Duration};

use serde_json::json;
use toolcrib_core::limit::Rate;

use super::{
    error::{PackCode, PackError},
    load::{Pack, PackNode},
    manifest::{Action, Connector, RateLimit},
};

/// Replaces the nodes of `pack` with its actions. An action whose node is not available is left out
/// and reported.
pub(super) fn offer(pack: &mut Pack, has_credential: bool) -> Result<(), PackError> {
    let Some(connector) = &pack.manifest.connector else {
        return PackCode::KindInvalid
            .refuse("it is not a connector: its manifest has no `connector` block");
    };
    if connector.auth.get("type").is_some() && !has_credential {
        let hint = "its `auth` requires a credential: name a stored one with `credential`";
        pack.problems.push(hint.to_owned());
    }
    let nodes = std::mem::take(&mut pack.nodes);
    for action in &connector.actions {
        let name = name(&pack.manifest.name, &action.type_id);
        // Nodes that were left out have already been reported.
        let Some(node) = nodes.iter().find(|node| node.type_id == action.type_id) else { continue };
        if pack.nodes.iter().any(|known| known.tool.name == name) {
            pack.problems.push(format!("action `{name}` is listed twice; the first one is used"));
            continue;
        }
        if let Some(rate) = action.rate_limit.and_then(RateLimit::rate) {
            pack.rates.insert(name.to_owned(), rate);
        }
        pack.nodes.push(node.clone().into_action(name, connector, action));
    }
    Ok(())
}

/// The tool name of the node `type_id` of `pack`.
fn name<'t>(pack: &str, type_id: &'t str) -> &'t str {
    let rest = type_id.strip_prefix(pack).and_then(|rest| rest.strip_prefix('.'));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(type_id)
}

impl RateLimit {
    fn rate(self) -> Option<Rate> {
        let calls = NonZeroU32::new(self.requests)?;
        let period = Duration::from_secs(self.per_seconds.into());
        (!period.is_zero()).then_some(Rate { calls, period, burst: None })
    }
}

impl PackNode {
    fn into_action(mut self, name: &str, connector: &Connector, action: &Action) -> Self {
        name.clone_into(&mut self.tool.name);
        self.tool.title = Some(action.display_name.clone());
        self.tool.annotations = action.idempotent.then(|| json!({ "idempotentHint": true }));
        if let Some(raw) = self.tool.raw.as_object_mut() {
            raw.insert("connector".to_owned(), json!([connector.id, connector.display_name]));
            raw.insert(
                "action".to_owned(),
                json!({
                    "displayName": action.display_name,
                    "idempotent": action.idempotent,
                    "paginated": action.paginated,
                    "rateLimit": action.rate_limit.map(|limit| json!([limit.requests, limit.per_seconds])),
                }),
            );
        }
        self
    }
}
