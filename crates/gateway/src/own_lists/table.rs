//! The known lists, by caller and source, within bounds.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::Semaphore;
use toolcrib_core::{
    credential::CredentialNeed,
    id::{CredentialId, SourceId, TenantId},
    principal::PrincipalKey,
    share::Shares,
    source::Source,
};

use super::tools::{OwnList, OwnTools};

/// The bytes of a caller without its lists.
const ENTRY: usize = 512;
/// The most bytes of all lists.
const MAX_BYTES: usize = 32 << 20;
/// The bytes that each tenant may always use.
const FLOOR: usize = 256 << 10;
/// How old a list may be when it is used.
const FRESH: u64 = 5 * MINUTE;
/// How often the account of a list is compared with the store, while it is used.
const AGAIN: u64 = 10 * SECOND;
/// How long an unused list is kept.
const IDLE: u64 = 60 * MINUTE;
const MINUTE: u64 = 60 * SECOND;
const SECOND: u64 = Duration::from_secs(1).as_nanos() as u64;
/// Lists of one source that are read at once.
const MAX_READS: usize = 4;

/// The known lists. All times are monotonic nanoseconds.
pub(super) struct Table {
    callers: HashMap<PrincipalKey, Caller>,
    /// The bytes of the lists.
    room: Shares,
    turns: HashMap<SourceId, Arc<Semaphore>>,
    /// The number of the last state.
    last: u64,
}

/// A source at which each caller has a list.
#[derive(Clone)]
pub(super) struct OwnSource {
    pub(super) id: SourceId,
    /// A look must not keep a removed source in use.
    pub(super) source: Weak<dyn Source>,
    /// The credential with which the list is read.
    pub(super) need: CredentialNeed,
    /// The tenant whose principals have accounts there.
    pub(super) tenant: TenantId,
}

/// A request to compare the list of one caller at one source with its account.
pub(crate) struct Look {
    pub(super) caller: PrincipalKey,
    pub(super) source: OwnSource,
    /// The state that it is about.
    number: u64,
    /// Divides the reads of the source.
    pub(super) turns: Arc<Semaphore>,
}

struct Caller {
    states: BTreeMap<SourceId, State>,
    /// Of all lists; `None` without any.
    tools: Option<Arc<OwnTools>>,
    used_at: u64,
}

/// The knowledge about one account.
struct State {
    /// Distinguishes it from earlier and later states of the same place.
    number: u64,
    list: Option<Arc<OwnList>>,
    /// When the list was read, or could not be read.
    read_at: Option<u64>,
    looked_at: Option<u64>,
    is_looking: bool,
}

// === impl Table ===

impl Table {
    pub(super) fn new() -> Self {
        Self {
            callers: HashMap::new(),
            room: Shares::new(MAX_BYTES).with_floor(FLOOR),
            turns: HashMap::new(),
            last: 0,
        }
    }

    /// The known tools of a caller at `sources`, and the looks that are due. `None` without room
    /// for it.
    pub(super) fn used(
        &mut self,
        key: &PrincipalKey,
        sources: &[OwnSource],
        now: u64,
    ) -> Option<(Option<Arc<OwnTools>>, Vec<Look>)> {
        let tools = self.tools_at(key, sources, now)?;
        let Self { callers, turns, .. } = self;
        let caller = callers.get_mut(key)?;
        let mut due = Vec::new();
        for source in sources {
            let id = &source.id;
            let state = caller.states.get_mut(id).filter(|state| state.is_due(now));
            let Some(state) = state else { continue };
            state.is_looking = true;
            let turns = turns.entry(id.clone());
            let turns = turns.or_insert_with(|| Arc::new(Semaphore::new(MAX_READS)));
            due.push(Look {
                caller: key.clone(),
                source: source.clone(),
                number: state.number,
                turns: Arc::clone(turns),
            });
        }
        Some((tools, due))
    }

    /// The known tools of a caller. Its states become those at `sources`.
    fn tools_at(
        &mut self,
        key: &PrincipalKey,
        sources: &[OwnSource],
        now: u64,
    ) -> Option<Option<Arc<OwnTools>>> {
        let Self { callers, room, last, .. } = self;
        if !callers.contains_key(key) {
            if !room.take(key, ENTRY) {
                return None;
            }
            let new = Caller { states: BTreeMap::new(), tools: None, used_at: now };
            callers.insert(key.clone(), new);
        }
        let caller = callers.get_mut(key)?;
        caller.used_at = now;
        let own = || sources.iter().filter(|source| source.tenant == key.tenant);
        for source in own() {
            let id = &source.id;
            if !caller.states.contains_key(id) {
                *last += 1;
                caller.states.insert(id.clone(), State::new(*last));
            }
        }
        let mut gone = Vec::new();
        if caller.states.len() > own().count() {
            // The configuration has changed.
            let is_gone = |id: &&SourceId| !own().any(|source| source.id == **id);
            gone = caller.states.keys().filter(is_gone).cloned().collect();
        }
        for id in gone {
            self.forget(key, &id);
        }
        Some(self.known(key))
    }

    pub(super) fn known(&self, key: &PrincipalKey) -> Option<Arc<OwnTools>> {
        self.callers.get(key)?.tools.clone()
    }

    /// Ends a look that has begun.
    pub(super) fn end(&mut self, look: &Look, now: u64) {
        if let Some(state) = self.state(look) {
            state.is_looking = false;
            state.looked_at = Some(now);
        }
    }

    /// Removes the list of any account other than `grant`. Says whether it had one.
    pub(super) fn drop_other(&mut self, look: &Look, grant: Option<&CredentialId>) -> bool {
        let Some(state) = self.state(look) else { return false };
        let is_other = state.list.as_ref().is_some_and(|list| Some(&list.grant) != grant);
        if is_other {
            state.read_at = None;
            self.drop_list(&look.caller, &look.source.id);
            self.combine(&look.caller);
        }
        is_other
    }

    /// Whether the list has to be read.
    pub(super) fn needs_list(&mut self, look: &Look, now: u64) -> bool {
        let read_at = self.state(look).map(|state| state.read_at);
        read_at.is_some_and(|at| at.is_none_or(|at| now.saturating_sub(at) >= FRESH))
    }

    /// Notes that a list could not be read. The earlier one stays.
    pub(super) fn failed(&mut self, look: &Look, now: u64) {
        if let Some(state) = self.state(look) {
            state.read_at = Some(now);
        }
    }

    /// Keeps a list in place of the earlier one, if the state is still the same and room is left.
    /// Says whether the caller may be offered other tools now.
    pub(super) fn keep(&mut self, look: &Look, list: OwnList, now: u64) -> bool {
        if self.state(look).is_none() {
            return false;
        }
        let (key, source) = (&look.caller, &look.source.id);
        let before = self.known(key).map(|tools| tools.digest());
        self.drop_list(key, source);
        let has_room = self.room.take(key, list.cost());
        if let Some(state) = self.state(look) {
            state.read_at = Some(now);
            state.list = has_room.then(|| Arc::new(list));
        }
        self.combine(key);
        before != self.known(key).map(|tools| tools.digest())
    }

    /// Removes the knowledge about an account. Says whether the caller may be offered other tools
    /// now.
    pub(super) fn forget(&mut self, key: &PrincipalKey, source: &SourceId) -> bool {
        let had = self.drop_list(key, source);
        if let Some(caller) = self.callers.get_mut(key) {
            caller.states.remove(source);
        }
        self.combine(key);
        had
    }

    /// Forgets any account other than `grant`.
    pub(super) fn confirm(
        &mut self,
        key: &PrincipalKey,
        source: &SourceId,
        grant: Option<&CredentialId>,
    ) -> bool {
        let state = self.callers.get(key).and_then(|caller| caller.states.get(source));
        let list = state.and_then(|state| state.list.as_ref());
        list.is_some_and(|list| Some(&list.grant) != grant) && self.forget(key, source)
    }

    /// Removes callers that have not used their lists for long.
    pub(super) fn sweep(&mut self, now: u64) {
        let Self { callers, room, .. } = self;
        callers.retain(|key, caller| {
            let is_kept = now.saturating_sub(caller.used_at) < IDLE;
            if !is_kept {
                let lists = caller.states.values().filter_map(|state| state.list.as_ref());
                let bytes: usize = lists.map(|list| list.cost()).sum();
                room.give_back(key, bytes + ENTRY);
            }
            is_kept
        });
    }

    fn state(&mut self, look: &Look) -> Option<&mut State> {
        let caller = self.callers.get_mut(&look.caller)?;
        let state = caller.states.get_mut(&look.source.id)?;
        Some(state).filter(|state| state.number == look.number)
    }

    fn drop_list(&mut self, key: &PrincipalKey, source: &SourceId) -> bool {
        let state = self.callers.get_mut(key).and_then(|caller| caller.states.get_mut(source));
        let list = state.and_then(|state| state.list.take());
        let Some(list) = list else { return false };
        self.room.give_back(key, list.cost());
        true
    }

    fn combine(&mut self, key: &PrincipalKey) {
        let Some(caller) = self.callers.get_mut(key) else { return };
        let lists = caller.states.iter();
        let lists: BTreeMap<_, _> = lists
            .filter_map(|(source, state)| Some((source.clone(), Arc::clone(state.list.as_ref()?))))
            .collect();
        caller.tools = (!lists.is_empty()).then(|| Arc::new(OwnTools::new(lists)));
    }
}

// === impl OwnSource ===

impl OwnSource {
    /// `None` if all callers of `source` have the same list.
    pub(super) fn of(source: &Arc<dyn Source>) -> Option<Self> {
        let need = source.own_list_need();
        let CredentialNeed::Account { account, .. } = &need else { return None };
        let tenant = account.tenant.clone();
        Some(Self { id: source.id().clone(), source: Arc::downgrade(source), tenant, need })
    }
}

// === impl State ===

impl State {
    fn new(number: u64) -> Self {
        Self { number, list: None, read_at: None, looked_at: None, is_looking: false }
    }

    fn is_due(&self, now: u64) -> bool {
        !self.is_looking && self.looked_at.is_none_or(|at| now.saturating_sub(at) >= AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use async_trait::async_trait;
    use toolcrib_core::{
        call::{Operation, Reply, UpstreamError},
        catalog::Permit,
        clock::Timestamp,
        descriptor::SourceKind,
        source::{Discovered, SourceState, SourceStatus},
    };

    use super::*;

    struct Silent(SourceId);

    #[async_trait]
    impl Source for Silent {
        fn id(&self) -> &SourceId {
            &self.0
        }
        fn kind(&self) -> SourceKind {
            SourceKind::Mcp
        }
        async fn discover(&self) -> Result<Discovered, UpstreamError> {
            Ok(Discovered::default())
        }
        async fn serve(&self, _: &Permit, call: Operation) -> Result<Reply, UpstreamError> {
            call.into_tool_call().map(|_| unreachable!("never called"))
        }
        fn status(&self) -> SourceStatus {
            let (since, detail) = (Timestamp::UNIX_EPOCH, None);
            SourceStatus { state: SourceState::Ready, detail, since, restarts: 0 }
        }
        async fn close(&self) {}
    }

    fn source(id: &str, tenant: &str) -> OwnSource {
        let id: SourceId = id.parse().unwrap();
        let source: Arc<dyn Source> = Arc::new(Silent(id.clone()));
        OwnSource {
            id,
            source: Arc::downgrade(&source),
            need: CredentialNeed::None,
            tenant: tenant.parse().unwrap(),
        }
    }

    fn key(tenant: &str, principal: &str) -> PrincipalKey {
        PrincipalKey { tenant: tenant.parse().unwrap(), principal: principal.parse().unwrap() }
    }

    fn list(grant: &str, names: impl IntoIterator<Item = String>) -> OwnList {
        let names: HashSet<String> = names.into_iter().collect();
        OwnList::new(grant.parse().unwrap(), names).unwrap()
    }

    fn large(grant: &str) -> OwnList {
        list(grant, (0..1_000).map(|number| format!("{number:060}")))
    }

    #[test]
    fn no_tenant_fills_the_table() {
        let mut table = Table::new();
        let sources = [source("a", "t"), source("b", "u")];
        let mut kept = 0;
        for number in 0..1_000 {
            let key = key("t", &format!("p{number}"));
            let Some((_, due)) = table.used(&key, &sources, 0) else { continue };
            assert_eq!(due.len(), 1);
            kept += usize::from(table.keep(&due[0], large("g"), 0));
            table.end(&due[0], 0);
        }
        assert!((200..400).contains(&kept), "{kept}");
        assert!(table.room.used() <= MAX_BYTES);
        // The other tenant still has room.
        let other = key("u", "p");
        let due = table.used(&other, &sources, 0).unwrap().1;
        assert!(table.keep(&due[0], large("g"), 0));
        // Unused lists make room.
        table.used(&other, &sources, IDLE).unwrap();
        table.sweep(IDLE);
        assert_eq!(table.callers.len(), 1);
        assert_eq!(table.room.used(), ENTRY + large("g").cost());
        assert!(table.forget(&other, &sources[1].id));
        assert_eq!(table.room.used(), ENTRY);
    }

    #[test]
    fn an_oversized_list_is_not_kept() {
        let many = (0..2_001).map(|number| number.to_string()).collect();
        assert!(OwnList::new("g".parse().unwrap(), many).is_none());
        let long = ["x".repeat(65 << 10)].into_iter().collect();
        assert!(OwnList::new("g".parse().unwrap(), long).is_none());
    }

    #[test]
    fn a_late_list_counts_for_nothing_and_one_look_runs_at_a_time() {
        let mut table = Table::new();
        let (sources, ann) = ([source("a", "t")], key("t", "ann"));
        let first = table.used(&ann, &sources, 0).unwrap().1;
        assert!(table.used(&ann, &sources, AGAIN).unwrap().1.is_empty(), "one is running");
        table.forget(&ann, &sources[0].id);
        let second = table.used(&ann, &sources, 1).unwrap().1;
        assert!(!table.keep(&first[0], list("old", ["x".to_owned()]), 1));
        assert!(table.known(&ann).is_none());
        table.end(&first[0], 1);
        assert!(table.used(&ann, &sources, AGAIN).unwrap().1.is_empty(), "the second one runs");
        assert!(table.keep(&second[0], list("new", ["y".to_owned()]), 1));
        table.end(&second[0], 1);
        assert!(!table.needs_list(&second[0], FRESH));
        assert!(table.needs_list(&second[0], FRESH + 1));
        assert!(!table.confirm(&ann, &sources[0].id, Some(&"new".parse().unwrap())));
        assert!(table.confirm(&ann, &sources[0].id, None));
        // A source that has no accounts any more has no lists.
        let due = table.used(&ann, &sources, 2).unwrap().1;
        assert!(table.keep(&due[0], list("new", []), 2));
        assert!(table.used(&ann, &[], 3).unwrap().0.is_none());
        assert_eq!(table.room.used(), ENTRY);
    }
}
