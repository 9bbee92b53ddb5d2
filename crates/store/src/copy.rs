//! Copies a whole store into an empty one, of the same engine or of another.
//!
//! Invariants:
//! - an event is copied with its position and its hash, so that the chain, the checkpoints and the
//!   cursors of readers stay true;
//! - a copy that fails or is killed leaves no store behind: a file gets its name, and a database
//!   commits its rows, only at the end (`begin` and `commit` of [`Engine`]);
//! - before that, the copy is compared with the original, row by row and event by event.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use toolcrib_core::{
    clock::Timestamp,
    record::{StoredEvent, StoredQuery},
    store::{Storage, StoreError},
};

#[cfg(feature = "postgres")]
use crate::PostgresStore;
use crate::{Options, SqliteStore};

/// Rows and events that are copied together.
const PAGE: usize = 1_000;

/// The size of a complete copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopySummary {
    /// The number of copied events.
    pub events: u64,
    /// The number of copied rows of every other table, by its name.
    pub rows: Vec<(&'static str, u64)>,
}

/// The current part of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Rows other than events.
    Rows,
    /// Events, with the number of copied events and of all.
    Events(u64, u64),
    /// The comparison, with the number of compared events and of all.
    Comparison(u64, u64),
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Bytes,
    Flag,
    Time,
    /// As `Time`; SQLite keeps it as milliseconds since the Unix epoch.
    Millis,
    /// The order of creation, which SQLite keeps as the number of the row.
    Order,
}

/// A value of a column. Only `None` is null.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(Option<String>),
    Number(Option<i64>),
    Bytes(Option<Vec<u8>>),
    Flag(bool),
    Time(Option<Timestamp>),
}

/// A table that every engine with SQL has, with the order of its rows.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, Kind)],
    pub(crate) order: &'static str,
}

/// All tables except the events and the data derived from them. Locks, leases, duties and the
/// buckets of rate limits belong to running servers.
pub(crate) const TABLES: &[Table] = {
    use Kind::{Bytes, Flag, Millis, Number, Order, Text, Time};
    &[
        Table {
            name: "keys",
            columns: &[
                ("id", Text),
                ("name", Text),
                ("tenant", Text),
                ("principal", Text),
                ("digest", Bytes),
                ("roles", Text),
                ("scopes", Text),
                ("created_at", Time),
                ("expires_at", Time),
                ("revoked_at", Time),
                ("last_used_at", Time),
                ("replaces", Text),
                ("makers", Text),
                ("session", Text),
                ("inserted", Order),
                ("changed", Number),
            ],
            order: "created_at, id",
        },
        Table {
            name: "catalogs",
            columns: &[("source", Text), ("catalog", Text), ("saved_at", Time)],
            order: "source",
        },
        Table {
            name: "checkpoints",
            columns: &[
                ("tenant", Text),
                ("number", Number),
                ("kind", Text),
                ("position", Number),
                ("hash", Bytes),
                ("signed_at", Time),
                ("public_key", Bytes),
                ("prev", Bytes),
                ("signature", Bytes),
            ],
            order: "tenant, number",
        },
        Table {
            name: "cursors",
            columns: &[
                ("name", Text),
                ("position", Number),
                ("moved_at", Time),
                ("failing_since", Time),
                ("failures", Number),
                ("problem", Text),
            ],
            order: "name",
        },
        Table {
            name: "credentials",
            columns: &[
                ("id", Text),
                ("tenant", Text),
                ("principal", Text),
                ("name", Text),
                ("kind", Text),
                ("audiences", Text),
                ("created_at", Time),
                ("rotated_at", Time),
                ("expires_at", Time),
                ("revision", Number),
                ("sealed", Bytes),
            ],
            order: "id",
        },
        Table {
            name: "account_grants",
            columns: &[
                ("id", Text),
                ("tenant", Text),
                ("principal", Text),
                ("source", Text),
                ("terms", Text),
                ("created_at", Time),
                ("changed_at", Time),
                ("expires_at", Time),
                ("last_used_at", Time),
                ("revision", Number),
                ("sealed", Bytes),
            ],
            order: "id",
        },
        Table {
            name: "pending_authorizations",
            columns: &[
                ("state", Bytes),
                ("id", Text),
                ("tenant", Text),
                ("owner", Text),
                ("source", Text),
                ("principal", Text),
                ("terms", Text),
                ("created_at", Time),
                ("expires_at", Time),
                ("sealed", Bytes),
            ],
            order: "id",
        },
        Table {
            name: "connect_links",
            columns: &[
                ("hash", Bytes),
                ("tenant", Text),
                ("owner", Text),
                ("source", Text),
                ("principal", Text),
                ("created_at", Time),
                ("expires_at", Time),
            ],
            order: "hash",
        },
        Table {
            name: "oauth_clients",
            columns: &[
                ("id", Text),
                ("issuer", Text),
                ("redirect_uri", Text),
                ("client_id", Text),
                ("client_auth", Text),
                ("created_at", Time),
                ("expires_at", Time),
                ("sealed", Bytes),
            ],
            order: "id",
        },
        Table {
            name: "bridge_items",
            columns: &[
                ("id", Text),
                ("kind", Text),
                ("tenant", Text),
                ("principal", Text),
                ("created_at", Time),
                ("expires_at", Time),
                ("revision", Number),
                ("sealed", Bytes),
            ],
            order: "id",
        },
        Table {
            name: "runs",
            columns: &[
                ("tenant", Text),
                ("call_id", Text),
                ("run_id", Text),
                ("tool_id", Text),
                ("digest", Text),
                ("principal", Text),
                ("key_id", Text),
                ("parent", Text),
                ("state", Text),
                ("code", Text),
                ("durable", Flag),
                ("inputs", Bytes),
                ("instance", Text),
                ("adopted", Flag),
                ("cancelled", Flag),
                ("started_at", Time),
                ("ended_at", Time),
            ],
            order: "tenant, call_id",
        },
        Table {
            name: "run_results",
            columns: &[("tenant", Text), ("call_id", Text), ("step", Text), ("result", Bytes)],
            order: "tenant, call_id, step",
        },
        Table {
            name: "pins",
            columns: &[
                ("source", Text),
                ("tool", Text),
                ("approved_digest", Bytes),
                ("approved", Text),
                ("approved_at", Time),
                ("approved_by", Text),
                ("approved_tenant", Text),
                ("seen_digest", Bytes),
                ("seen", Text),
                ("seen_at", Time),
                ("change_count", Number),
            ],
            order: "source, tool",
        },
        Table {
            name: "earlier_forms",
            columns: &[
                ("source", Text),
                ("tool", Text),
                ("digest", Bytes),
                ("form", Text),
                ("approved_at", Time),
                ("approved_by", Text),
                ("approved_tenant", Text),
            ],
            order: "source, tool, digest",
        },
        Table {
            name: "approvals",
            columns: &[
                ("tenant", Text),
                ("id", Text),
                ("principal", Text),
                ("state", Text),
                ("live", Text),
                ("revision", Number),
                ("change", Number),
                ("created_at", Time),
                ("expires_at", Time),
                ("body", Text),
                ("shown", Bytes),
            ],
            order: "tenant, id",
        },
        Table {
            name: "approval_readers",
            columns: &[("reader", Text), ("change", Number)],
            order: "reader",
        },
        Table {
            name: "once_calls",
            columns: &[
                ("tenant", Text),
                ("principal", Text),
                ("key", Bytes),
                ("state", Text),
                ("instance", Text),
                ("run_id", Text),
                ("call_id", Text),
                ("call", Bytes),
                ("answer", Bytes),
                ("bytes", Number),
                ("until", Millis),
            ],
            order: "id",
        },
        Table {
            name: "quotas",
            columns: &[
                ("day", Number),
                ("tenant", Text),
                ("principal", Text),
                ("tool", Text),
                ("calls", Number),
            ],
            order: "day, tenant, principal, tool",
        },
        Table {
            name: "session_notices",
            columns: &[
                ("number", Number),
                ("session", Bytes),
                ("request", Text),
                ("opened", Number),
                ("until", Number),
            ],
            order: "number",
        },
        Table {
            name: "saved",
            columns: &[
                ("id", Text),
                ("tenant", Text),
                ("kind", Text),
                ("tool", Text),
                ("name", Text),
                ("principal", Text),
                ("saved_at", Time),
                ("content", Bytes),
            ],
            order: "id",
        },
    ]
};

/// The names of the epochs, in the order of [`SingleValues::epochs`].
pub(crate) const EPOCHS: [&str; 5] =
    ["keys_epoch", "pins_epoch", "cancellations", "session_notices", "sessions_ended"];

/// Reads the single values, in the order of the fields of [`SingleValues`].
pub(crate) const SINGLE: &str = "SELECT (SELECT value FROM meta WHERE name = 'keys_epoch'), \
                                 (SELECT value FROM meta WHERE name = 'pins_epoch'), \
                                 (SELECT value FROM meta WHERE name = 'cancellations'), \
                                 (SELECT value FROM meta WHERE name = 'session_notices'), \
                                 (SELECT value FROM meta WHERE name = 'sessions_ended'), \
                                 key, change FROM approval_state WHERE id = 1";

/// The single values of a store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SingleValues {
    /// The numbers of [`EPOCHS`].
    pub(crate) epochs: [i64; 5],
    /// The fingerprint key of approvals, sealed where there is a seal key, and their last change.
    pub(crate) approvals: (Option<Vec<u8>>, i64),
}

/// An engine that copies rows.
#[async_trait]
pub(crate) trait Engine: Send + Sync {
    fn storage(&self) -> &dyn Storage;

    /// Reads up to `limit` rows of `table` after the first `skip`, in its order.
    async fn rows(
        &self,
        table: &Table,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Vec<Value>>, StoreError>;

    async fn single(&self) -> Result<SingleValues, StoreError>;

    /// Reads the next events after position `after`.
    async fn events(&self, after: u64) -> Result<Vec<StoredEvent>, StoreError> {
        self.storage().record().stored(page(after)).await
    }

    /// The last position of the log.
    async fn last_position(&self) -> Result<u64, StoreError> {
        self.storage().record().last_position().await
    }

    /// Starts to fill this store. Its rows take effect with [`commit`](Self::commit).
    async fn begin(&self) -> Result<(), StoreError>;

    async fn insert(&self, table: &'static Table, rows: Vec<Vec<Value>>) -> Result<(), StoreError>;

    /// Inserts events with their positions and hashes.
    async fn insert_events(&self, events: Vec<StoredEvent>) -> Result<(), StoreError>;

    /// Stores the single values and the data derived from the events. `last` is the last position
    /// of the whole log. Only this engine can read them.
    async fn finish(&self, single: SingleValues, last: u64) -> Result<(), StoreError>;

    /// Puts everything stored since [`begin`](Self::begin) into effect.
    async fn commit(&self) -> Result<(), StoreError>;
}

/// A store by its URL.
#[derive(Debug, Clone)]
pub struct Place {
    /// `sqlite:PATH`, or `postgres://USER@HOST/DATABASE`.
    pub url: String,
    /// How to open it.
    pub options: Options,
}

/// Copies everything of the store at `from` into the empty store at `to`, and compares both.
/// `report` receives the progress. No server may use either of them.
///
/// # Errors
/// [`StoreError::Unsuitable`] when a server uses one of the stores, or `to` is not empty; other
/// errors as in the engines. After an error, `to` is unchanged.
pub async fn copy(
    from: Place,
    to: Place,
    mut report: impl FnMut(Step),
) -> Result<CopySummary, StoreError> {
    // Opening it would create it.
    if let Some(path) = path_of(&from.url).filter(|path| !path.is_file()) {
        return Err(StoreError::Unavailable(format!(
            "{} is not a file; check the path of the store to copy",
            path.display()
        )));
    }
    let source = open(&from.url, from.options).await?;
    let copied = copy_from(&*source, to, &mut report).await;
    source.storage().close().await;
    copied
}

async fn copy_from(
    source: &dyn Engine,
    to: Place,
    report: &mut impl FnMut(Step),
) -> Result<CopySummary, StoreError> {
    alone(source, "the store to copy").await?;
    if is_empty(source).await? {
        return Err(StoreError::Unsuitable("the store to copy is empty; check its URL".to_owned()));
    }
    // Closes calls of servers that have died, so that no open call is copied.
    source.storage().recover(chrono::Utc::now()).await?;
    let target = Target::of(&to.url)?;
    let destination = open(&target.url(), to.options).await?;
    let filled = async {
        alone(&*destination, "the store to fill").await?;
        if !is_empty(&*destination).await? {
            return Err(StoreError::Unsuitable(
                "the store to fill is not empty; name a new one".to_owned(),
            ));
        }
        fill(source, &*destination, report).await
    };
    let filled = filled.await;
    destination.storage().close().await;
    drop(destination);
    match filled {
        Ok(copied) => target.name().map(|()| copied),
        Err(error) => {
            target.discard();
            Err(error)
        }
    }
}

/// Requires that no other process has the store open.
async fn alone(engine: &dyn Engine, which: &str) -> Result<(), StoreError> {
    match engine.storage().instances().await?.len() {
        0 | 1 => Ok(()),
        _ => Err(StoreError::Unsuitable(format!(
            "a server uses {which}; stop all servers, or wait 30 seconds after one was killed"
        ))),
    }
}

async fn is_empty(engine: &dyn Engine) -> Result<bool, StoreError> {
    let mut is_empty = engine.last_position().await? == 0;
    for table in TABLES {
        is_empty &= engine.rows(table, 0, 1).await?.is_empty();
    }
    Ok(is_empty)
}

async fn fill(
    source: &dyn Engine,
    destination: &dyn Engine,
    report: &mut impl FnMut(Step),
) -> Result<CopySummary, StoreError> {
    let last = source.last_position().await?;
    destination.begin().await?;
    report(Step::Rows);
    let mut copied = CopySummary::default();
    for table in TABLES {
        let mut count = 0;
        loop {
            let rows = source.rows(table, count, PAGE).await?;
            let read = rows.len();
            count += read;
            if read > 0 {
                destination.insert(table, rows).await?;
            }
            if read < PAGE {
                break;
            }
        }
        copied.rows.push((table.name, u64::try_from(count).unwrap_or(u64::MAX)));
    }
    let mut after = 0;
    loop {
        let events = source.events(after).await?;
        let Some(end) = events.last() else { break };
        after = end.position;
        copied.events += u64::try_from(events.len()).unwrap_or(u64::MAX);
        destination.insert_events(events).await?;
        report(Step::Events(after, last));
    }
    destination.finish(source.single().await?, last).await?;
    compare(source, destination, last, report).await?;
    destination.commit().await?;
    Ok(copied)
}

/// Reads both stores and requires that they are equal.
async fn compare(
    source: &dyn Engine,
    destination: &dyn Engine,
    last: u64,
    report: &mut impl FnMut(Step),
) -> Result<(), StoreError> {
    let differs = |what: &str| StoreError::Corrupt(format!("the copy differs in {what}"));
    if destination.last_position().await? != last {
        return Err(differs("the position of the log"));
    }
    if source.single().await? != destination.single().await? {
        return Err(differs("the numbers of changes"));
    }
    for table in TABLES {
        let mut skip = 0;
        loop {
            let rows = source.rows(table, skip, PAGE).await?;
            if !same_rows(table, &rows, &destination.rows(table, skip, PAGE).await?) {
                return Err(differs(table.name));
            }
            skip += rows.len();
            if rows.len() < PAGE {
                break;
            }
        }
    }
    let mut after = 0;
    loop {
        let events = source.events(after).await?;
        if events != destination.events(after).await? {
            return Err(differs(&format!("the events after position {after}")));
        }
        let Some(end) = events.last() else { return Ok(()) };
        after = end.position;
        report(Step::Comparison(after, last));
    }
}

/// Whether rows are equal; the engines number the order of creation differently.
fn same_rows(table: &Table, one: &[Vec<Value>], other: &[Vec<Value>]) -> bool {
    let same = |(one, other): (&Vec<Value>, &Vec<Value>)| {
        let values = one.iter().zip(other).zip(table.columns);
        values.into_iter().all(|((one, other), (_, kind))| *kind == Kind::Order || one == other)
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

pub(crate) fn page(after: u64) -> StoredQuery {
    StoredQuery { after, limit: PAGE, ..StoredQuery::default() }
}

async fn open(url: &str, options: Options) -> Result<Box<dyn Engine>, StoreError> {
    if let Some(path) = path_of(url) {
        return Ok(Box::new(SqliteStore::open(path, options)?));
    }
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Box::new(PostgresStore::open(url, options).await?.filling()));
    }
    Err(StoreError::Unavailable(
        "a store is written like `sqlite:PATH` or, in a build with the feature `postgres`, \
         `postgres://USER@HOST/DATABASE`"
            .to_owned(),
    ))
}

fn path_of(url: &str) -> Option<&Path> {
    url.strip_prefix("sqlite:").filter(|path| !path.is_empty()).map(Path::new)
}

/// Where a copy is made.
enum Target {
    /// In a new file, renamed when the copy is complete.
    File { partial: PathBuf, path: PathBuf },
    /// In the database at this URL.
    Database(String),
}

// === impl Target ===

impl Target {
    fn of(url: &str) -> Result<Self, StoreError> {
        let Some(path) = path_of(url) else { return Ok(Self::Database(url.to_owned())) };
        if path.exists() {
            return Err(StoreError::Unsuitable(format!(
                "{} exists; name a new file",
                path.display()
            )));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let target = Self::File { partial, path: path.to_owned() };
        // Left by an interrupted copy.
        target.discard();
        Ok(target)
    }

    fn url(&self) -> String {
        match self {
            Self::File { partial, .. } => format!("sqlite:{}", partial.display()),
            Self::Database(url) => url.clone(),
        }
    }

    /// Gives the finished file its name.
    fn name(&self) -> Result<(), StoreError> {
        let Self::File { partial, path } = self else { return Ok(()) };
        std::fs::rename(partial, path).map_err(|error| {
            StoreError::Unavailable(format!(
                "{} cannot be renamed to {} ({error})",
                partial.display(),
                path.display()
            ))
        })?;
        self.discard();
        crate::directory::sync_name(path).map_err(|error| {
            std::fs::remove_file(path).ok();
            StoreError::Unavailable(format!("the copy was not synced ({error})"))
        })
    }

    /// Removes the unfinished file and SQLite's files next to it.
    fn discard(&self) {
        let Self::File { partial, .. } = self else { return };
        for ending in ["", "-wal", "-shm", "-journal"] {
            let mut path = partial.as_os_str().to_owned();
            path.push(ending);
            std::fs::remove_file(path).ok();
        }
        let mut instances = partial.as_os_str().to_owned();
        instances.push(".instances");
        std::fs::remove_dir_all(instances).ok();
    }
}
