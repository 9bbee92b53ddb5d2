//! Opening connections: create the file privately, check that it is a store, migrate it.
//!
//! Invariants:
//! - a file of another program or of a newer schema is refused before anything in it is changed;
//! - a schema that differs from that of this program is refused: a trigger could prevent events
//!   from being stored (I-18);
//! - files and directories created here are readable by their owner only.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig};
use toolcrib_core::{store::StoreError, text::io_reason};

use super::failure::Failure;
use crate::{Durability, create_directory};

/// How long a connection waits for a lock of another process. A commit takes milliseconds and a
/// checkpoint well under a second, so a longer wait means that the other process is stuck.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// "tcrb" in ASCII: identifies a store among SQLite files.
const APPLICATION_ID: i32 = 0x7463_7262;

/// `MIGRATIONS[n]` leads from schema `n` to schema `n + 1`. A released file is never edited.
const MIGRATIONS: &[&str] = &[include_str!("schema/0001.sql")];

/// Statements kept prepared per connection; there are about thirty in total.
const STATEMENTS: usize = 64;

/// Creates the directory and the file if missing.
pub(super) fn create(path: &Path) -> Result<(), StoreError> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_directory(parent)?;
    }
    // Created here and not by SQLite, because the mode of this file also applies to `-wal` and
    // `-shm`.
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o077 != 0) {
                tracing::warn!(
                    path = %path.display(),
                    "the store is open to other users of this machine, consider `chmod 600`"
                );
            }
            Ok(())
        }
        Err(error) => Err(StoreError::Unavailable(format!(
            "{} cannot be created ({}); check that this user may write its directory",
            path.display(),
            io_reason(error.kind())
        ))),
    }
}

/// Opens the connection that writes: checked, migrated, in WAL mode.
pub(super) fn writer(
    path: &Path,
    durability: Durability,
    patience: Duration,
) -> Result<Connection, Failure> {
    let mut connection = connect(path, patience)?;
    check_identity(&connection, path)?;
    enter_wal(&connection, path, patience)?;
    match durability {
        // fullfsync: on macOS a plain fsync leaves the data in the drive's cache.
        Durability::Strict | Durability::Opening => {
            connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON")?;
        }
        Durability::Relaxed => connection.execute_batch("PRAGMA synchronous = NORMAL")?,
    }
    // The writer checkpoints by itself, after it has acknowledged (see `writer.rs`).
    connection.execute_batch(
        "PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 67108864; \
         PRAGMA temp_store = MEMORY",
    )?;
    migrate(&mut connection)?;
    check_schema(&connection)?;
    Ok(connection)
}

/// Opens a connection that reads. It needs write access, because a reader of a WAL file writes the
/// shared-memory index; `query_only` prevents all other writes.
pub(super) fn reader(path: &Path) -> Result<Connection, Failure> {
    let connection = connect(path, BUSY_TIMEOUT)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY")?;
    Ok(connection)
}

fn connect(path: &Path, patience: Duration) -> Result<Connection, Failure> {
    // No SQLITE_OPEN_URI: a path is a path. No SQLITE_OPEN_CREATE: `create` did that.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(patience)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without it this build of SQLite plans a statement again for other bound values (which might
    // suit its statistics better). That made an insert three times as expensive.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Checks the schema of one file whenever it has changed.
#[derive(Debug, Default)]
pub(super) struct SchemaCheck {
    /// The number of the last schema that matched this program; SQLite renumbers with every change.
    /// 0 before the first comparison, and for a file without a schema.
    compared: AtomicI64,
}

impl SchemaCheck {
    /// Requires that the file has exactly the tables, indexes and triggers of this program.
    pub(super) fn run(&self, connection: &Connection) -> Result<(), Failure> {
        let mut statement = connection.prepare_cached("PRAGMA schema_version")?;
        let number = statement.query_row([], |row| row.get(0))?;
        if self.compared.load(Ordering::Relaxed) != number {
            // Numbers can be set back, so a mismatch invalidates the stored number.
            self.compared.store(0, Ordering::Relaxed);
            check_schema(connection)?;
            self.compared.store(number, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn check_schema(connection: &Connection) -> Result<(), Failure> {
    static OWN: OnceLock<Vec<Object>> = OnceLock::new();
    let own = match OWN.get() {
        Some(own) => own,
        None => {
            let fresh = Connection::open_in_memory()?;
            for migration in MIGRATIONS {
                fresh.execute_batch(migration)?;
            }
            let own = objects(&fresh)?;
            OWN.get_or_init(|| own)
        }
    };
    let found = objects(connection)?;
    if found == *own {
        return Ok(());
    }
    let strange = found.iter().find(|object| !own.contains(object));
    let (object, what) = match (strange, own.iter().find(|object| !found.contains(object))) {
        (Some(object), _) => (object, "is not one of this program"),
        (None, Some(object)) => (object, "is missing"),
        (None, None) => return Ok(()),
    };
    Err(Failure::corrupt(format!(
        "its schema was changed: the {} {:?} {what}; all writes are refused until the schema is restored",
        object.kind, object.name
    )))
}

/// A table, index, trigger or view of a schema.
#[derive(Debug, PartialEq, Eq)]
struct Object {
    kind: String,
    name: String,
    table: String,
    sql: Option<String>,
}

/// Reads everything in the schema except SQLite's internal objects, by name.
fn objects(connection: &Connection) -> Result<Vec<Object>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema \
         WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name, type",
    )?;
    let rows = statement.query_map([], |row| {
        let (kind, name) = (row.get(0)?, row.get(1)?);
        Ok(Object { kind, name, table: row.get(2)?, sql: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn check_identity(connection: &Connection, path: &Path) -> Result<(), Failure> {
    let file = path.display();
    if connection.is_readonly("main")? {
        return Err(StoreError::Unavailable(format!(
            "{file} is read-only; give this user write permission"
        ))
        .into());
    }
    // In one transaction: between two reads another process could turn an empty file into a store.
    let seen = connection.unchecked_transaction()?;
    let application: i32 = seen.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = seen.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    seen.finish()?;
    if application != APPLICATION_ID && (application != 0 || tables > 0) {
        return Err(Failure::corrupt(format!(
            "{file} is a SQLite database of another program; choose another path"
        )));
    }
    known_version(connection).map(drop)
}

fn enter_wal(connection: &Connection, path: &Path, patience: Duration) -> Result<(), Failure> {
    // Two processes that open a new file at once collide here, and SQLite does not call the busy
    // handler for this change of mode.
    let deadline = Instant::now() + patience;
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
            .map_err(Failure::from);
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {
                return Err(StoreError::Unavailable(format!(
                    "{} is on a file system without shared memory; put the store on a local disk",
                    path.display()
                ))
                .into());
            }
            Err(failure) if failure.is_busy() && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn migrate(connection: &mut Connection) -> Result<(), Failure> {
    if known_version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again: another process may have migrated while this one waited for the lock.
    let from = known_version(&transaction)?;
    for migration in MIGRATIONS.iter().skip(from) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version(MIGRATIONS.len()))?;
    transaction.commit()?;
    Ok(())
}

/// Reads the schema version of the file, if this program knows it.
fn known_version(connection: &Connection) -> Result<usize, Failure> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match usize::try_from(found) {
        Ok(found) if found <= MIGRATIONS.len() => Ok(found),
        Ok(found) => {
            let (found, known) = (version(found), version(MIGRATIONS.len()));
            Err(StoreError::TooNew { found, known }.into())
        }
        Err(_) => Err(Failure::corrupt("the file has a negative schema version")),
    }
}

fn version(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
