//! The one connection of this process that writes, with group commit. A thread uses it, or a caller
//! that is alone.
//!
//! Invariants:
//! - success is reported only after the `COMMIT` of the work has returned, and in strict mode was
//!   synced to disk, and only while the files at their paths are those that were written;
//! - of work that is acknowledged before its sync, at most one transaction is not synced; after a
//!   failed sync nothing is stored any more, because a later sync could succeed without the data;
//! - failed work has no effect and does not fail the other work of its transaction;
//! - a caller that stops waiting does not undo its accepted work;
//! - no work is stored while the schema of the file differs from that of this program (I-18).

use std::{
    fmt, fs,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use toolcrib_core::store::{CommitObserver, StoreError};
use toolcrib_tasks::cores::BlockingTurn;

use super::{
    copier::{Copier, copy, start_thread},
    failure::Failure,
    instance::Instance,
    log_state::LogState,
    open::SchemaCheck,
    place::Place,
    transaction::WriteTransaction,
};
use crate::queue::{Claim, PushOutcome, Queue, TakeOutcome};

/// The most requests in one transaction. Group commit pays off up to about the number of concurrent
/// callers (128 in our measurements). 256 events take single-digit milliseconds, so the wait for
/// the batch is short.
const MAX_BATCH: usize = 256;

/// The most requests that may wait for the writer: sixteen full batches. Later callers wait for
/// room before their request takes memory.
const MAX_WAITING: usize = 16 * MAX_BATCH;

/// Quiet time after which the write-ahead log is copied into the file.
const IDLE: Duration = Duration::from_millis(250);

/// Pages of write-ahead log (16 MiB) after which it is copied even without a quiet time.
const MAX_WAL_PAGES: i64 = 4096;

/// Pages (32 MiB) after which the writer waits for the copy: the disk does not keep up.
const TOO_MANY_WAL_PAGES: i64 = 2 * MAX_WAL_PAGES;

/// Transactions after which the write-ahead log is measured. The largest one adds about 100 pages.
const MEASURE_EVERY: u32 = 16;

/// Handle to the writer thread.
pub(super) struct Writer {
    queue: Arc<Queue<QueuedJob>>,
    /// Locked by whose turn it is in the queue, so never waited for. `None` after the end.
    engine: Arc<Mutex<Option<Engine>>>,
    room: Arc<Semaphore>,
    commits: Arc<AtomicU64>,
    observer: Arc<OnceLock<CommitObserver>>,
    /// Closed when the thread has stopped.
    ended: watch::Receiver<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// When the caller of some work learns that it is stored. In relaxed mode nothing is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acknowledgement {
    /// When a power failure cannot take the data any more.
    AfterSync,
    /// When the operating system has the data, which is synced right after.
    BeforeSync,
}

/// The work of one caller inside a transaction.
trait Job: Send {
    /// Does the work. May be called again when the transaction had to be rolled back.
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<(), Failure>;

    /// Sends the outcome to the caller.
    fn finish(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct QueuedJob {
    job: Box<dyn Job>,
    acknowledgement: Acknowledgement,
    /// The place in the queue.
    room: OwnedSemaphorePermit,
}

struct Work<F, T> {
    work: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

// === impl Writer ===

impl Writer {
    /// Starts the thread. `instance` marks this process as alive until the thread stops. `copying`
    /// is a second connection, see [`Copier`].
    pub(super) fn start(
        connection: Connection,
        copying: Connection,
        place: Arc<Place>,
        instance: Instance,
        schema: Arc<SchemaCheck>,
    ) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::new());
        let commits = Arc::new(AtomicU64::new(0));
        let observer = Arc::<OnceLock<CommitObserver>>::default();
        let (ending, ended) = watch::channel(());
        let log = LogState::new(instance.id().into());
        let copier = Copier::start(copying, place.path())?;
        let engine = Engine {
            connection,
            copier,
            log,
            place,
            commits: Arc::clone(&commits),
            observer: Arc::clone(&observer),
            schema,
            late: LateSync::default(),
            unmeasured: 0,
        };
        let engine = Arc::new(Mutex::new(Some(engine)));
        let ending = StopGuard {
            queue: Arc::clone(&queue),
            engine: Arc::clone(&engine),
            instance: Some(instance),
            _ended: ending,
        };
        let thread = start_thread("toolcrib-store", move || {
            // Dropped last, even when the thread panics.
            let ending = ending;
            work(&ending.queue, &ending.engine);
        })?;
        Ok(Self {
            queue,
            engine,
            room: Arc::new(Semaphore::new(MAX_WAITING)),
            commits,
            observer,
            ended,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Runs `work` in a transaction, possibly together with other work, and returns its value once
    /// the transaction is durable. `work` may run more than once; only the last run takes effect.
    pub(super) async fn write<T, F>(
        &self,
        work: F,
        acknowledgement: Acknowledgement,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut WriteTransaction<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Work { work, value: None, reply });
        self.hand_over(QueuedJob { job, acknowledgement, room })?;
        answer.await.unwrap_or_else(|_| Err(ended_early()))
    }

    /// Hands `queued` to the thread, or stores it here: a caller that has been alone, on a core that
    /// serves nothing else, does not wake another thread.
    fn hand_over(&self, queued: QueuedJob) -> Result<(), StoreError> {
        let turn = BlockingTurn::begin();
        match self.queue.push(queued, turn.is_some()) {
            PushOutcome::Queued => Ok(()),
            PushOutcome::Claimed(queued, claim) => {
                self.store_here(queued, claim);
                Ok(())
            }
            PushOutcome::Refused(_) => Err(closed()),
        }
    }

    /// Stores `queued` on this thread.
    fn store_here(&self, queued: QueuedJob, mut claim: Claim<'_, QueuedJob>) {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = engine.as_mut() else { return };
        engine.store(vec![queued]);
        if engine.is_tending_due() {
            claim.ask();
        }
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Calls `observer` after each transaction; only the first observer counts.
    pub(super) fn observe(&self, observer: CommitObserver) {
        self.observer.get_or_init(|| observer);
    }

    /// The number of requests that wait or are being stored.
    pub(super) fn waiting(&self) -> u64 {
        MAX_WAITING.saturating_sub(self.room.available_permits()) as u64
    }

    /// Accepts no more work; accepted work is still stored.
    pub(super) fn stop(&self) {
        self.room.close();
        self.queue.close();
    }

    /// Waits until the thread has stored everything and stopped.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.clone();
        // The sender never sends; it is dropped with the thread.
        while ended.changed().await.is_ok() {}
    }

    /// Waits like [`Writer::ended`], without a runtime.
    pub(super) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the store's writer thread panicked");
        }
    }
}

/// The error of every operation after [`Writer::stop`].
pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("it has been closed".to_owned())
}

/// The error of work that may be in no file.
fn displaced_error(displaced: &str) -> Failure {
    StoreError::Unavailable(format!("{displaced}; stop the server and look into it")).into()
}

fn ended_early() -> StoreError {
    StoreError::Unavailable(
        "its writer thread stopped unexpectedly; restart the process and check its log".to_owned(),
    )
}

impl QueuedJob {
    /// Releases the place before the caller knows the outcome, so that it does not count itself.
    fn finish(self, outcome: Result<(), StoreError>) {
        drop(self.room);
        self.job.finish(outcome);
    }
}

impl<F, T> Job for Work<F, T>
where
    T: Send,
    F: FnMut(&mut WriteTransaction<'_>) -> Result<T, Failure> + Send,
{
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<(), Failure> {
        self.value = Some((self.work)(transaction)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { value, reply, .. } = *self;
        let answer = outcome.and_then(|()| value.ok_or_else(ended_early));
        if reply.send(answer).is_err() {
            tracing::debug!("the caller of a write has stopped waiting for it");
        }
    }
}

/// Runs when the thread stops, for any reason: no caller waits forever, and this process does not
/// count as alive any more.
struct StopGuard {
    queue: Arc<Queue<QueuedJob>>,
    engine: Arc<Mutex<Option<Engine>>>,
    instance: Option<Instance>,
    /// Dropped after everything else, see [`Writer::ended`].
    _ended: watch::Sender<()>,
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.queue.close();
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.instance = None;
        // Empty after an orderly end. After a panic, dropping the jobs fails their callers.
        while let TakeOutcome::Batch(lost) = self.queue.take(MAX_BATCH, None) {
            drop(lost);
        }
    }
}

/// The connection, and what is known of the file.
struct Engine {
    connection: Connection,
    copier: Copier,
    log: LogState,
    place: Arc<Place>,
    commits: Arc<AtomicU64>,
    observer: Arc<OnceLock<CommitObserver>>,
    schema: Arc<SchemaCheck>,
    late: LateSync,
    /// Transactions since the write-ahead log was measured.
    unmeasured: u32,
}

/// The state of the data that is acknowledged before its sync.
#[derive(Default)]
struct LateSync {
    /// Whether the connection commits without a sync.
    is_off: bool,
    /// Whether the last transaction is not synced.
    is_due: bool,
    /// The write-ahead log, once it is synced here.
    log: Option<fs::File>,
    /// Why it could not be synced.
    failure: Option<StoreError>,
}

impl LateSync {
    /// Stops storing: a later sync can succeed without the data of the failed one.
    fn fail(&mut self, cause: &dyn fmt::Debug) {
        self.is_due = false;
        let error = StoreError::Unavailable(
            "its write-ahead log could not be synced, so the last results of calls may be lost; \
             check the disk, then restart the server"
                .to_owned(),
        );
        tracing::error!(%error, ?cause, "nothing more is stored");
        self.failure = Some(error);
    }
}

/// Why a batch was rolled back as a whole.
enum BatchError {
    /// The transaction could not be opened or committed; applies to the whole batch.
    Transaction(Failure),
    /// One of the jobs failed.
    Job,
}

/// Whether a failed job can be undone alone. Costs a copy of every page that it touches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Savepoints {
    No,
    Each,
}

/// The work of the thread, until the queue is closed. A producer that panicked has left an engine
/// that cannot be used.
fn work(queue: &Queue<QueuedJob>, engine: &Mutex<Option<Engine>>) {
    let mut unsaved = false;
    loop {
        let taken = queue.take(MAX_BATCH, unsaved.then_some(IDLE));
        let Ok(mut engine) = engine.lock() else { return };
        let Some(working) = engine.as_mut() else { return };
        match taken {
            TakeOutcome::Batch(batch) => {
                working.store(batch);
                working.tend(queue.is_empty());
                unsaved = true;
            }
            TakeOutcome::Asked => working.tend(queue.is_empty()),
            TakeOutcome::Idle => {
                working.rest();
                unsaved = false;
            }
            TakeOutcome::Closed => {
                engine.take().into_iter().for_each(Engine::end);
                return;
            }
        }
    }
}

// === impl Engine ===

impl Engine {
    /// Whether [`Engine::tend`] has something to do.
    fn is_tending_due(&self) -> bool {
        self.late.is_due || self.log.is_clear_due() || self.unmeasured >= MEASURE_EVERY
    }

    /// Does what is due between transactions.
    fn tend(&mut self, is_quiet: bool) {
        if self.late.is_due && is_quiet {
            self.sync_log();
        }
        if self.log.is_clear_due() {
            self.clear();
        }
        if self.copier.has_copied() {
            self.copy();
        } else if self.unmeasured >= MEASURE_EVERY {
            self.unmeasured = 0;
            self.bound_log();
        }
    }

    /// Copies the write-ahead log in a quiet time.
    fn rest(&mut self) {
        self.clear();
        self.copier.wait();
        self.copy();
    }

    /// Ends after the last transaction.
    fn end(mut self) {
        if self.late.is_due {
            self.sync_log();
        }
        self.clear();
        self.copier.end();
        copy(&self.connection, self.place.path(), "PRAGMA wal_checkpoint(TRUNCATE)");
    }

    /// Starts to copy the write-ahead log when it is long.
    fn bound_log(&mut self) {
        let pages = self.wal_pages();
        if pages > TOO_MANY_WAL_PAGES && self.copier.is_copying() {
            self.copier.wait();
            self.copy();
        } else if pages > MAX_WAL_PAGES && !self.copier.begin() {
            self.copy();
        }
    }

    /// Stores the open calls in their table. After a failure they are still found from the events.
    fn clear(&mut self) {
        if !self.log.is_registered() || self.late.failure.is_some() {
            return;
        }
        let cleared = self.select(Acknowledgement::AfterSync).and_then(|()| {
            let mut transaction =
                WriteTransaction::begin(&self.connection, &mut self.log, &self.schema)?;
            match transaction.clear() {
                Ok(()) => transaction.commit(),
                Err(failure) => {
                    transaction.roll_back()?;
                    Err(failure)
                }
            }
        });
        if let Err(failure) = cleared {
            let error = failure.at(self.place.path());
            tracing::warn!(%error, "the open calls were not stored; they are found from the events");
        }
    }

    /// Stores the jobs of `batch` that can be stored, and answers every one.
    fn store(&mut self, mut batch: Vec<QueuedJob>) {
        if let Some(error) = &self.late.failure {
            for queued in batch {
                queued.finish(Err(error.clone()));
            }
            return;
        }
        let may_be_late =
            |queued: &QueuedJob| queued.acknowledgement == Acknowledgement::BeforeSync;
        let acknowledgement = match !self.late.is_due && batch.iter().all(may_be_late) {
            true => Acknowledgement::BeforeSync,
            false => Acknowledgement::AfterSync,
        };
        // Failures are rare, so the first pass has no way to undo one job. Only when a job fails
        // does the batch run again with a savepoint around each.
        let outcomes = match self.transact(&mut batch, Savepoints::No, acknowledgement) {
            Err(BatchError::Job) => self.transact(&mut batch, Savepoints::Each, acknowledgement),
            outcomes => outcomes,
        };
        let place = self.place.path();
        match outcomes {
            Ok(outcomes) => {
                for (queued, outcome) in batch.into_iter().zip(outcomes) {
                    queued.finish(outcome.map_err(|failure| failure.at(place)));
                }
            }
            Err(failure) => {
                let error = failure.at(place);
                tracing::error!(%error, requests = batch.len(), "a transaction was not stored");
                for queued in batch {
                    queued.finish(Err(error.clone()));
                }
            }
        }
    }

    fn transact(
        &mut self,
        batch: &mut [QueuedJob],
        savepoints: Savepoints,
        acknowledgement: Acknowledgement,
    ) -> Result<Vec<Result<(), Failure>>, BatchError> {
        let began = Instant::now();
        self.select(acknowledgement).map_err(BatchError::Transaction)?;
        let changes = self.connection.total_changes();
        let mut transaction =
            WriteTransaction::begin(&self.connection, &mut self.log, &self.schema)
                .map_err(BatchError::Transaction)?;
        match run_all(&mut transaction, batch, savepoints) {
            Ok(outcomes) => {
                if let Err(failure) = transaction.commit() {
                    if self.late.is_due && failure.is_io() {
                        // It may have been a sync that also was to include the last transaction.
                        self.late.fail(&failure);
                    }
                    return Err(BatchError::Transaction(failure));
                }
                // Data in a removed file is lost when this process exits.
                if let Some(displaced) = self.place.displaced() {
                    return Err(BatchError::Transaction(displaced_error(displaced)));
                }
                // A transaction without a change syncs nothing.
                let has_changed = self.connection.total_changes() > changes;
                if acknowledgement == Acknowledgement::BeforeSync {
                    self.late.is_due = true;
                } else if has_changed && savepoints == Savepoints::No {
                    self.late.is_due = false;
                }
                self.commits.fetch_add(1, Ordering::Relaxed);
                self.unmeasured += 1;
                if let Some(observer) = self.observer.get() {
                    observer(began.elapsed());
                }
                Ok(outcomes)
            }
            Err(error) => {
                if let Err(failure) = transaction.roll_back() {
                    let error = failure.at(self.place.path());
                    tracing::error!(%error, "a transaction was not rolled back");
                }
                Err(error)
            }
        }
    }

    /// Selects whether the next transaction is synced. SQLite runs this statement when it is
    /// prepared, so it must not be cached.
    fn select(&mut self, acknowledgement: Acknowledgement) -> Result<(), Failure> {
        let is_off = acknowledgement == Acknowledgement::BeforeSync;
        if is_off && self.late.log.is_none() {
            // Before the writes, so that this handle reports every error of a later sync.
            self.late.log = Some(self.place.open_log()?);
        }
        if self.late.is_off != is_off {
            let level = if is_off { "NORMAL" } else { "FULL" };
            self.connection.execute_batch(&format!("PRAGMA synchronous = {level}"))?;
            self.late.is_off = is_off;
        }
        Ok(())
    }

    /// Syncs the transaction that was acknowledged before its sync.
    fn sync_log(&mut self) {
        let Some(log) = &self.late.log else { return };
        match log.sync_data() {
            Ok(()) => self.late.is_due = false,
            Err(error) => self.late.fail(&error),
        }
    }

    /// Counts the pages of the write-ahead log that the file does not contain yet.
    fn wal_pages(&self) -> i64 {
        let pages = self.connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)").and_then(
            |mut statement| {
                statement.query_row([], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))
            },
        );
        pages.unwrap_or(0)
    }

    /// Copies the rest of the write-ahead log. The next transaction restarts the log, unless a
    /// reader still needs it.
    fn copy(&self) {
        copy(&self.connection, self.place.path(), "PRAGMA wal_checkpoint(PASSIVE)");
    }
}

fn run_all(
    transaction: &mut WriteTransaction<'_>,
    batch: &mut [QueuedJob],
    savepoints: Savepoints,
) -> Result<Vec<Result<(), Failure>>, BatchError> {
    let mut outcomes = Vec::with_capacity(batch.len());
    for QueuedJob { job, .. } in batch {
        match savepoints {
            Savepoints::No => match job.run(transaction) {
                Ok(()) => outcomes.push(Ok(())),
                Err(failure) if transaction.is_over() => {
                    return Err(BatchError::Transaction(failure));
                }
                Err(_) => return Err(BatchError::Job),
            },
            Savepoints::Each => {
                let outcome = transaction.attempt(|transaction| job.run(transaction));
                outcomes.push(outcome.map_err(BatchError::Transaction)?);
            }
        }
    }
    Ok(outcomes)
}

impl BatchError {
    fn at(self, place: &Path) -> StoreError {
        match self {
            Self::Transaction(failure) => failure.at(place),
            Self::Job => ended_early(),
        }
    }
}
