//! One offer of a catalog, its forms that are computed once, and the proof that a principal may use
//! it.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;

use super::words::Words;
use crate::{
    approval::Consent,
    arguments::ArgumentCheck,
    authorize::{Authorizer, CallContext, DenialReason, Resource},
    canonical::Digest,
    descriptor::{SafetyTier, SourceKind, ToolDescriptor},
    event::Transport,
    id::{InvalidId, SourceId, ToolId},
    limit::Rate,
    names::Names,
    offer::Offer,
    principal::Principal,
    quota::Quota,
    tenants::Tenants,
};

/// Counts snapshots; a higher number is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

/// One offer with everything a request needs, computed when the snapshot is built.
#[derive(Clone)]
pub struct Entry {
    /// The kind, with the facts that only this kind has.
    pub offer: Offer,
    /// The description that callers see. Every offer has one: whatever its kind, it has scopes, a
    /// tier and an approval policy.
    pub tool: ToolDescriptor,
    /// The offer's identity, parsed.
    pub id: ToolId,
    /// Its other names.
    pub names: Names,
    /// The source that runs it.
    pub source: SourceId,
    /// The source's own name for the tool.
    pub upstream_name: String,
    /// The tenants that may know of it.
    pub tenants: Tenants,
    /// How it is reached (RFC 0064 §B `transport`).
    pub transport: Transport,
    /// Rate limit of each principal; `None` means unlimited.
    pub rate: Option<Rate>,
    /// Daily calls of each principal; `None` if the tool has no quota.
    pub quota: Option<Quota>,
    /// The longest duration of a call.
    pub timeout: Duration,
    /// The upstream's own hints: untrusted, shown where a dialect has a place for them, never acted
    /// upon.
    pub annotations: Option<serde_json::Value>,
    /// The approval settings.
    pub consent: Consent,
    /// The compiled input schema.
    pub arguments: ArgumentCheck,
    /// Hash of the upstream's own description of the tool; `None` if it has no canonical form.
    pub digest: Option<Digest>,
    /// Hash of the program that the configuration runs for the tool ([`UpstreamSpec::program`]).
    ///
    /// [`UpstreamSpec::program`]: crate::source::UpstreamSpec::program
    pub program: Option<Digest>,
    /// The form that the source must still offer when the tool is called; `None` if pins are not
    /// enforced.
    pub pinned: Option<Digest>,
    /// Each dialect's JSON of this tool, computed on first use.
    pub wire: WireCache,
}

impl Entry {
    /// Creates tool `upstream_name` of `source` with its names and defaults: any arguments, any
    /// tenant, no limit and a timeout of one minute. Without a scope label, no caller may use it
    /// until one is set.
    pub fn new(
        kind: SourceKind,
        source: &SourceId,
        upstream_name: &str,
        tier: SafetyTier,
    ) -> Result<Self, InvalidId> {
        let id = crate::names::tool_id(kind, source, upstream_name)?;
        Ok(Self {
            offer: Offer::Tool,
            tool: ToolDescriptor::new(id.as_str(), kind, tier),
            names: crate::names::names(source, upstream_name, None),
            id,
            source: source.clone(),
            upstream_name: upstream_name.to_owned(),
            tenants: Tenants::All,
            transport: kind.traits().transport,
            rate: None,
            quota: None,
            timeout: Duration::from_secs(60),
            annotations: None,
            consent: Consent::default(),
            arguments: ArgumentCheck::anything(),
            digest: None,
            program: None,
            pinned: None,
            wire: WireCache::default(),
        })
    }

    /// Distinguishes it from the other offers of its source.
    pub fn key(&self) -> Cow<'_, str> {
        self.offer.kind().key(&self.upstream_name)
    }

    /// Whether the upstream claims that the tool may delete or overwrite data. The claim can only
    /// make people more careful.
    pub fn is_said_destructive(&self) -> bool {
        let hint = self.annotations.as_ref().and_then(|hints| hints.get("destructiveHint"));
        hint.and_then(serde_json::Value::as_bool) == Some(true)
    }

    /// The upstream's name of the tool for people: its title, or else that of its annotations.
    pub fn title(&self) -> Option<&str> {
        let claimed = || self.annotations.as_ref()?.get("title")?.as_str();
        self.tool.title.as_deref().or_else(claimed).filter(|title| !title.trim().is_empty())
    }

    /// The part of this tool that decisions may depend on.
    pub fn resource(&self) -> Resource<'_> {
        Resource {
            tool: &self.tool,
            id: &self.id,
            name: &self.names.wire,
            source: &self.source,
            upstream_name: &self.upstream_name,
            tenants: &self.tenants,
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("id", &self.id).finish_non_exhaustive()
    }
}

/// How a dialect writes a list. A dialect has one constant of this type per list it serves.
#[derive(Debug)]
pub struct ListFormat {
    /// Unique among formats.
    pub key: &'static str,
    /// Written before the first tool.
    pub open: &'static str,
    /// Written after the last tool.
    pub close: &'static str,
    /// Appends one tool's JSON.
    pub item: fn(&Entry, &mut Vec<u8>),
}

impl ListFormat {
    /// Joins `written`, the JSON of tools, to a list that starts with `open`.
    pub(super) fn list(&self, open: &str, written: &[Arc<[u8]>]) -> Vec<u8> {
        [open.as_bytes(), &written.join(&b','), self.close.as_bytes()].concat()
    }
}

/// Proof that a principal may call an entry of a catalog generation. Only [`Permit::new`] creates
/// it.
#[derive(Debug, Clone)]
pub struct Permit {
    principal: Principal,
    entry: Arc<Entry>,
    generation: Generation,
}

impl Permit {
    /// Creates a permit if `authorizer` permits `call`; this is the only constructor.
    pub fn new(
        authorizer: &dyn Authorizer,
        principal: &Principal,
        entry: &Arc<Entry>,
        generation: Generation,
        call: CallContext<'_>,
    ) -> Result<Self, DenialReason> {
        authorizer.authorize_call(principal.subject(), entry.resource(), call)?;
        Ok(Self { principal: principal.clone(), entry: Arc::clone(entry), generation })
    }

    /// The permitted caller.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The permitted tool.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// The catalog generation of the decision.
    pub fn generation(&self) -> Generation {
        self.generation
    }
}

/// Values computed once per tool: each format's JSON, and its search words.
#[derive(Default)]
pub struct WireCache {
    written: Mutex<Vec<FormatJson>>,
    words: OnceLock<Arc<Words>>,
}

/// A format's key and one tool's JSON in it.
type FormatJson = (&'static str, Arc<[u8]>);

impl WireCache {
    /// The tool's JSON in `format`, computed once.
    pub fn get(&self, entry: &Entry, format: &ListFormat) -> Arc<[u8]> {
        let find = |written: &[FormatJson]| {
            written.iter().find(|(key, _)| *key == format.key).map(|(_, json)| Arc::clone(json))
        };
        if let Some(json) = find(&self.written.lock()) {
            return json;
        }
        // Computed without the lock, because `item` may need another format of the same tool.
        let mut json = Vec::new();
        (format.item)(entry, &mut json);
        let mut written = self.written.lock();
        find(&written).unwrap_or_else(|| {
            let json: Arc<[u8]> = json.into();
            written.push((format.key, Arc::clone(&json)));
            json
        })
    }

    pub(super) fn words(&self, entry: &Entry) -> Arc<Words> {
        let read = || Words::of(&entry.names.wire, &entry.source, &entry.tool);
        Arc::clone(self.words.get_or_init(|| Arc::new(read())))
    }
}

/// A clone computes its own values, because it may be changed before it is used.
impl Clone for WireCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}
