//! Counts the parts of an upstream that are not offered: resources, prompts, and members of tools.
//!
//! Invariant: a list that fails or never completes costs only its own count. If the connection
//! closes during a count, the upstream is not counted again: the lists may be the cause.

use std::{collections::HashSet, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use toolcrib_core::source::{Amount, FormedOffer, OmittedOffers};
use toolcrib_mcp::{code, method};

use super::{connection::Connection, message::Reply, negotiation::has_content};

/// The most pages of one list.
const MAX_PAGES: usize = 20;
/// How long one list may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The counts of one source.
#[derive(Default)]
pub(crate) struct Remainder(Mutex<State>);

#[derive(Default)]
struct State {
    /// The counts of the last connection; `None` until they are known.
    counts: Option<OmittedOffers>,
    tool_icons: u64,
    tool_meta: u64,
    is_counting: bool,
    /// Whether a connection closed during its count.
    is_cut_short: bool,
}

/// One page of any of the lists.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(alias = "resources", alias = "resourceTemplates", alias = "prompts")]
    entries: Vec<IgnoredAny>,
    #[serde(borrow, default)]
    next_cursor: Option<&'a RawValue>,
}

// === impl Remainder ===

impl Remainder {
    /// Counts members of tools that the upstream's last list has.
    pub(crate) fn set_tools(&self, tools: &[FormedOffer]) {
        let with = |name: &str| {
            let has = |tool: &&FormedOffer| tool.raw.get(name).is_some_and(has_content);
            tools.iter().filter(has).count() as u64
        };
        let (icons, meta) = (with("icons"), with("_meta"));
        let mut state = self.0.lock();
        (state.tool_icons, state.tool_meta) = (icons, meta);
    }

    /// Counts the lists of `connection` that its upstream declares.
    pub(crate) async fn count(&self, connection: &Connection) {
        let may_request = self.begin();
        let count = async |declared: bool, method: &'static str| match (declared, may_request) {
            (false, _) => Amount::default(),
            (true, false) => Amount::UNKNOWN,
            (true, true) => entries(connection, method).await,
        };
        let session = &connection.session;
        let counts = OmittedOffers {
            resources: count(session.has_resources, method::LIST_RESOURCES).await,
            resource_templates: count(session.has_resources, method::LIST_RESOURCE_TEMPLATES).await,
            prompts: count(session.has_prompts, method::LIST_PROMPTS).await,
            instructions: session.instructions,
            server_icons: session.has_icons,
            ..OmittedOffers::default()
        };
        let mut state = self.0.lock();
        state.is_counting = false;
        state.counts = Some(counts);
    }

    /// Starts a count. False if no lists may be requested.
    fn begin(&self) -> bool {
        let mut state = self.0.lock();
        state.is_cut_short |= std::mem::replace(&mut state.is_counting, true);
        !state.is_cut_short
    }

    pub(crate) fn get(&self) -> Option<OmittedOffers> {
        let state = self.0.lock();
        let State { tool_icons, tool_meta, .. } = *state;
        Some(OmittedOffers { tool_icons, tool_meta, ..state.counts? })
    }
}

/// Counts the entries of one list.
async fn entries(connection: &Connection, method: &'static str) -> Amount {
    let mut amount = Amount::UNKNOWN;
    // After a timeout, the amount so far remains as a lower bound.
    let complete = tokio::time::timeout(TIMEOUT, pages(connection, method, &mut amount.count));
    amount.complete = complete.await.is_ok_and(|read| read.is_some());
    amount
}

/// Adds the entries of each page to `count`; `None` if there may be more.
async fn pages(connection: &Connection, method: &'static str, count: &mut u64) -> Option<()> {
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let reply = connection.list_optional(method, cursor.as_deref()).await;
        let page = match reply {
            Ok(Reply::Result(page)) => page,
            // Servers with resources often have no list of templates.
            Ok(Reply::Error(error)) if error.code == code::METHOD_NOT_FOUND => return Some(()),
            Ok(Reply::Error(_)) | Err(_) => return None,
        };
        let page: Page<'_> = serde_json::from_str(page.get()).ok()?;
        *count += page.entries.len() as u64;
        let Some(next) = page.next_cursor.filter(|next| next.get() != "null") else {
            return Some(());
        };
        let next: String = serde_json::from_str(next.get()).ok()?;
        if !cursors.insert(next.clone()) {
            return None;
        }
        cursor = Some(next);
    }
    None
}
