//! The end of the log in the memory of the writer thread, where the next event continues.
//!
//! Invariants:
//! - an entry is as the file has it at this place of the transaction. Failed work and a failed
//!   `COMMIT` restore the state exactly;
//! - after another connection has changed the file, the state is read again before it is used;
//! - the memory is bounded: a missing entry is read from the file.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use rusqlite::{Connection, OptionalExtension as _, params};
use toolcrib_core::{
    canonical::Digest,
    id::{CallId, RunId, TenantId},
    record::KnownHeads,
    store::StoreError,
};

use super::{
    chain,
    compact::Id,
    failure::Failure,
    open::SchemaCheck,
    open_calls::{self, CallName, OpenCall, OpenCalls, Opening},
    row::whole,
};

/// The most tenants, the most runs, and half of the most ids of events in memory.
const MAX_ENTRIES: usize = 8192;

/// The most forms of payloads in the file. Later ones are stored as texts.
const MAX_FORMS: i64 = 65_536;

/// The most forms of payloads in memory, of each kind.
const MAX_FORMS_IN_MEMORY: usize = 4096;

/// The bytes of the longest form; common ones have about 150.
const LONGEST_FORM: usize = 1024;

/// Events after which the open calls are stored. Recovery reads about as many events of a dead
/// process, which takes milliseconds.
const CLEAR_EVERY: usize = 4096;

/// A run, which belongs to one tenant.
pub(super) type RunKey = (TenantId, RunId);

/// The place of the next event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) tenant_position: u64,
    pub(super) sequence: u64,
    /// The hash of the event before it in its tenant's log.
    pub(super) prev: Digest,
    pub(super) writer: i64,
}

/// The last event of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    position: u64,
    hash: Digest,
}

/// The row of this process in `writers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Registration {
    number: i64,
    clear_to: i64,
    /// Position and hash of the last event with this number.
    last: Option<(i64, Digest)>,
}

/// A change of the state, with the value before it.
#[derive(Debug)]
enum Change {
    Appended { run: RunKey, head: Option<Head>, next: Option<u64>, last: Option<(i64, Digest)> },
    Claimed(u128),
    NewForm(Box<str>),
    Opened(CallId, i64),
    Closed(OpenCall),
    Registered,
    Cleared(Registration, OpenCalls),
}

/// The state of the log, as the writer thread knows it.
#[derive(Debug)]
pub(super) struct LogState {
    instance: Arc<str>,
    /// SQLite's number of the data that the state was read from.
    data_version: Option<i64>,
    heads: HashMap<TenantId, Head>,
    /// Counts how often entries of `heads` were dropped, which are then read from the file.
    generation: u64,
    /// The next sequence of each run.
    runs: HashMap<RunKey, u64>,
    registration: Option<Registration>,
    /// The calls that this process opened since its registration.
    open: OpenCalls,
    /// Events since the registration.
    appended: usize,
    /// The numbers of the forms of payloads.
    forms: HashMap<Box<str>, i64>,
    /// Forms that occurred once and are not in the file.
    new_forms: HashSet<Box<str>>,
    /// The ids of the last events, and those of the events before them.
    ids: [HashSet<u128>; 2],
    /// The changes of the running transaction.
    changes: Vec<Change>,
}

// === impl LogState ===

impl LogState {
    pub(super) fn new(instance: Arc<str>) -> Self {
        Self {
            instance,
            data_version: None,
            heads: HashMap::new(),
            generation: 0,
            runs: HashMap::new(),
            registration: None,
            open: OpenCalls::default(),
            appended: 0,
            forms: HashMap::new(),
            new_forms: HashSet::new(),
            ids: Default::default(),
            changes: Vec::new(),
        }
    }

    pub(super) fn instance(&self) -> Arc<str> {
        Arc::clone(&self.instance)
    }

    /// Starts a transaction: forgets what another connection may have changed, and then compares
    /// the schema too. Requires that the write lock is held, so that the file cannot change later.
    pub(super) fn begin(
        &mut self,
        connection: &Connection,
        schema: &SchemaCheck,
    ) -> Result<(), Failure> {
        self.changes.clear();
        if self.heads.len() > MAX_ENTRIES {
            self.forget();
        }
        if self.runs.len() > MAX_ENTRIES {
            self.runs.clear();
        }
        let [last, before] = &mut self.ids;
        if last.len() > MAX_ENTRIES {
            // Both keep their memory: growing them again would move every id several times.
            std::mem::swap(last, before);
            last.clear();
        }
        let mut statement = connection.prepare_cached("PRAGMA data_version")?;
        let found = Some(statement.query_row([], |row| row.get(0))?);
        if self.data_version != found {
            self.data_version = None;
            schema.run(connection)?;
            self.forget();
            self.forms.clear();
            self.confirm_registration(connection)?;
            self.data_version = found;
        }
        Ok(())
    }

    /// Forgets the entries that can be read from the file.
    pub(super) fn forget(&mut self) {
        self.heads.clear();
        self.runs.clear();
        self.generation += 1;
    }

    /// The last positions and hashes of the logs in memory.
    pub(super) fn known_heads(&self) -> KnownHeads {
        let heads =
            self.heads.iter().map(|(tenant, head)| (tenant.clone(), (head.position, head.hash)));
        KnownHeads { generation: self.generation, heads: heads.collect() }
    }

    /// Drops the registration unless the file continues the one that this process wrote: a restored
    /// file may have other events at the positions of the open calls. Those that it has stay
    /// derivable, because their row in `writers` stays.
    fn confirm_registration(&mut self, connection: &Connection) -> Result<(), Failure> {
        let Some(own) = self.registration else { return Ok(()) };
        let sql = "SELECT 1 FROM writers WHERE number = ?1 AND instance = ?2 AND clear_to = ?3";
        let key = params![own.number, &*self.instance, own.clear_to];
        let mut is_kept = connection.prepare_cached(sql)?.exists(key)?;
        if let Some((position, hash)) = own.last {
            let sql = "SELECT 1 FROM events WHERE position = ?1 AND hash = ?2 AND writer = ?3";
            let key = params![position, hash.0, own.number];
            is_kept = is_kept && connection.prepare_cached(sql)?.exists(key)?;
        }
        if is_kept {
            let read_to = own.last.map_or(own.clear_to, |(position, _)| position);
            return self.open.remove_closed(connection, read_to, own.number);
        }
        self.registration = None;
        self.open = OpenCalls::default();
        Ok(())
    }

    /// The place of the next event of a run.
    pub(super) fn place(
        &mut self,
        connection: &Connection,
        run: &RunKey,
    ) -> Result<Place, Failure> {
        let head = match self.heads.get(&run.0) {
            Some(head) => *head,
            None => {
                let (position, hash) = chain::last(connection, run.0.as_str())?;
                Head { position, hash }
            }
        };
        let sequence = match self.runs.get(run) {
            Some(next) => *next,
            None => next_sequence(connection, run)?,
        };
        let writer = match self.registration {
            Some(own) => own.number,
            None => self.register(connection)?,
        };
        Ok(Place { tenant_position: head.position + 1, sequence, prev: head.hash, writer })
    }

    fn register(&mut self, connection: &Connection) -> Result<i64, Failure> {
        let sql = "INSERT INTO writers (instance, clear_to) \
                   SELECT ?1, coalesce(max(position), 0) FROM events RETURNING number, clear_to";
        let (number, clear_to) = connection
            .prepare_cached(sql)?
            .query_row([&*self.instance], |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.registration = Some(Registration { number, clear_to, last: None });
        self.appended = 0;
        self.changes.push(Change::Registered);
        Ok(number)
    }

    /// Refuses the id of one of the last events. Ids are random, so this finds an event that is
    /// appended twice.
    pub(super) fn claim_id(&mut self, id: u128) -> Result<(), Failure> {
        let [last, before] = &mut self.ids;
        if before.contains(&id) || !last.insert(id) {
            return Err(StoreError::Conflict("an event with this id".to_owned()).into());
        }
        self.changes.push(Change::Claimed(id));
        Ok(())
    }

    /// The number of a form of payloads; `None` when the payload is to be stored as its text. A
    /// form is stored when it occurs again, so one that never does takes no place.
    pub(super) fn form(
        &mut self,
        connection: &Connection,
        text: &str,
    ) -> Result<Option<i64>, Failure> {
        if text.len() > LONGEST_FORM {
            return Ok(None);
        }
        if let Some(number) = self.forms.get(text) {
            return Ok(Some(*number));
        }
        let sql = "SELECT number FROM forms WHERE text = ?1";
        let mut find = connection.prepare_cached(sql)?;
        let number = match find.query_row([text], |row| row.get(0)).optional()? {
            Some(number) => number,
            None if self.new_forms.remove(text) => {
                let sql = "INSERT INTO forms (text) SELECT ?1 \
                           WHERE (SELECT coalesce(max(number), 0) FROM forms) < ?2 \
                           RETURNING number";
                let mut insert = connection.prepare_cached(sql)?;
                let added = insert.query_row(params![text, MAX_FORMS], |row| row.get(0));
                let Some(number) = added.optional()? else { return Ok(None) };
                self.changes.push(Change::NewForm(text.into()));
                number
            }
            None => {
                if self.new_forms.len() >= MAX_FORMS_IN_MEMORY {
                    self.new_forms.clear();
                }
                self.new_forms.insert(text.into());
                return Ok(None);
            }
        };
        if self.forms.len() >= MAX_FORMS_IN_MEMORY {
            self.forms.clear();
        }
        self.forms.insert(text.into(), number);
        Ok(Some(number))
    }

    /// Notes that an event was stored at `place` and at `position` of the whole log.
    pub(super) fn appended(&mut self, run: &RunKey, place: Place, position: i64, hash: Digest) {
        let head = Head { position: place.tenant_position, hash };
        let own = self.registration.as_mut();
        self.changes.push(Change::Appended {
            run: run.clone(),
            head: self.heads.insert(run.0.clone(), head),
            next: self.runs.insert(run.clone(), place.sequence + 1),
            last: own.as_ref().and_then(|own| own.last),
        });
        if let Some(own) = own {
            own.last = Some((position, hash));
        }
        self.appended += 1;
    }

    /// Notes that the event at `position` opened a call.
    pub(super) fn opened(&mut self, position: i64, opening: Arc<Opening>) {
        self.changes.push(Change::Opened(opening.call.clone(), position));
        self.open.insert(OpenCall { position, opening });
    }

    /// Closes the call that a return names: the open one that `cause` opened, or else the oldest of
    /// this name. Returns its position when it is not in the table `open_calls`.
    pub(super) fn close(
        &mut self,
        connection: &Connection,
        name: CallName<'_>,
        cause: Option<&str>,
    ) -> Result<Option<i64>, Failure> {
        if let Some(cause) = cause {
            if let Some(call) = self.open.take_caused(name, cause) {
                return Ok(Some(self.closed(call)));
            }
            if open_calls::remove_caused(connection, name, cause)? {
                return Ok(None);
            }
        }
        let own = self.registration.map(|own| own.number);
        let others = open_calls::of_other_writers(connection, name, own)?;
        let is_cause = |open: &&OpenCall| Some(open.opening.event.as_str()) == cause;
        if let Some(call) = others.iter().find(is_cause) {
            return Ok(Some(call.position));
        }
        if let Some(call) = self.open.take_oldest(name) {
            return Ok(Some(self.closed(call)));
        }
        if open_calls::remove_oldest(connection, name)? {
            return Ok(None);
        }
        Ok(others.first().map(|call| call.position))
    }

    fn closed(&mut self, call: OpenCall) -> i64 {
        let position = call.position;
        self.changes.push(Change::Closed(call));
        position
    }

    /// Whether enough events were stored for a [`LogState::clear`].
    pub(super) fn is_clear_due(&self) -> bool {
        self.appended >= CLEAR_EVERY && self.registration.is_some()
    }

    /// Whether this process is in `writers`.
    pub(super) fn is_registered(&self) -> bool {
        self.registration.is_some()
    }

    /// Stores the open calls in the table and removes the registration, so that no earlier event
    /// has to be read to find them.
    pub(super) fn clear(&mut self, connection: &Connection) -> Result<(), Failure> {
        let Some(own) = self.registration else { return Ok(()) };
        open_calls::store(connection, self.open.iter(), &self.instance)?;
        let sql = "DELETE FROM writers WHERE number = ?1";
        connection.prepare_cached(sql)?.execute([own.number])?;
        self.registration = None;
        self.changes.push(Change::Cleared(own, std::mem::take(&mut self.open)));
        Ok(())
    }

    /// The mark to return to with [`LogState::roll_back_to`].
    pub(super) fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Undoes every change after `mark`.
    pub(super) fn roll_back_to(&mut self, mark: usize) {
        while self.changes.len() > mark {
            let Some(change) = self.changes.pop() else { break };
            self.undo(change);
        }
    }

    fn undo(&mut self, change: Change) {
        match change {
            Change::Appended { run, head, next, last } => {
                if let Some(own) = &mut self.registration {
                    own.last = last;
                }
                self.appended = self.appended.saturating_sub(1);
                // An entry missing in memory is read again; it may come from an event undone with
                // this one.
                match head {
                    Some(head) => self.heads.insert(run.0.clone(), head),
                    None => {
                        self.generation += 1;
                        self.heads.remove(&run.0)
                    }
                };
                match next {
                    Some(next) => self.runs.insert(run, next),
                    None => self.runs.remove(&run),
                };
            }
            Change::Claimed(id) => {
                let [last, _] = &mut self.ids;
                last.remove(&id);
            }
            Change::NewForm(form) => {
                self.forms.remove(&form);
            }
            Change::Opened(call, position) => self.open.remove(&call, position),
            Change::Closed(call) => self.open.insert(call),
            Change::Registered => self.registration = None,
            Change::Cleared(own, open) => (self.registration, self.open) = (Some(own), open),
        }
    }

    /// Fails when an entry differs from the file.
    #[cfg(test)]
    pub(super) fn compare(&self, connection: &Connection) -> Result<(), Failure> {
        for (tenant, head) in &self.heads {
            assert_eq!(chain::last(connection, tenant.as_str())?, (head.position, head.hash));
        }
        for (run, next) in &self.runs {
            assert_eq!(next_sequence(connection, run)?, *next, "{run:?}");
        }
        for (form, number) in &self.forms {
            let sql = "SELECT 1 FROM forms WHERE text = ?1 AND number = ?2";
            assert!(connection.prepare(sql)?.exists(params![form, number])?, "{form}");
        }
        let Some(own) = self.registration else {
            assert_eq!(self.open, OpenCalls::default());
            return Ok(());
        };
        let mut derived = OpenCalls::default();
        for call in open_calls::derive(connection, own.number, own.clear_to)? {
            derived.insert(call);
        }
        assert_eq!(self.open, derived);
        Ok(())
    }
}

/// Reads the next sequence of a run. Within a run, sequences and positions have the same order.
fn next_sequence(connection: &Connection, (tenant, run): &RunKey) -> Result<u64, Failure> {
    let sql = "SELECT sequence + 1 FROM events INDEXED BY events_by_run \
               WHERE run_id = ?1 AND tenant = ?2 ORDER BY position DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let key = params![Id::new(run.as_str()), tenant.as_str()];
    let found = statement.query_row(key, |row| row.get(0)).optional()?;
    whole(found.unwrap_or(0))
}
