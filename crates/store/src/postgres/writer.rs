//! The one task of this process that appends events: group commit.
//!
//! Invariants:
//! - success is reported only after the `COMMIT` of the events has returned;
//! - a failed append stores no events and does not fail the others of its batch;
//! - a caller that stops waiting does not undo its accepted append;
//! - if a call was refused although its start was stored, it does not stay open
//!   ([`UnknownStarts`]).

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use deadpool_postgres::{Client, Pool};
use tokio::sync::{
    mpsc::{self, error::SendTimeoutError},
    oneshot, watch,
};
use toolcrib_core::store::{CommitObserver, StoreError};

use super::{
    append::append,
    entry::Record,
    failure::{Failure, closed, within},
    partitions,
    row::execute,
    unknown_starts::UnknownStarts,
};
use crate::Durability;

/// The most requests in one transaction.
const MAX_BATCH: usize = 256;

/// The most requests that may wait: sixteen full batches.
const MAX_WAITING: usize = 16 * MAX_BATCH;

/// How long a request waits for a place in the queue.
const PATIENCE: Duration = Duration::from_secs(10);

/// Handle to the task.
pub(super) struct Writer {
    queue: Stopper,
    commits: Arc<Commits>,
    /// Closed when the task has finished.
    ended: watch::Receiver<()>,
}

/// The committed transactions.
#[derive(Default)]
struct Commits {
    count: AtomicU64,
    observer: OnceLock<CommitObserver>,
}

/// Stops the writer.
#[derive(Clone)]
pub(super) struct Stopper {
    /// The error for later appends, once the writer was stopped.
    queue: Arc<Mutex<Result<mpsc::Sender<Job>, StoreError>>>,
}

/// Events to append together or not at all.
struct Job {
    records: Vec<Record>,
    /// Whether they only complete calls.
    completes: bool,
    reply: oneshot::Sender<Result<Vec<u64>, StoreError>>,
}

// === impl Writer ===

impl Writer {
    pub(super) fn start(pool: Pool, instance: Arc<str>, durability: Durability) -> Self {
        let (queue, mut jobs) = mpsc::channel::<Job>(MAX_WAITING);
        let (ending, ended) = watch::channel(());
        let commits = Arc::new(Commits::default());
        let count = Arc::clone(&commits);
        tokio::spawn(async move {
            let _ending = ending;
            let mut batch = Vec::new();
            let mut unknown = UnknownStarts::default();
            while unknown.receive(&mut jobs, &mut batch, MAX_BATCH).await {
                let jobs = std::mem::take(&mut batch);
                let is_late =
                    durability == Durability::Opening && jobs.iter().all(|job| job.completes);
                if store(&pool, &instance, (jobs, is_late), &count, &mut unknown).await {
                    unknown.close(&pool, &instance).await;
                }
            }
            unknown.close(&pool, &instance).await;
        });
        Self { queue: Stopper { queue: Arc::new(Mutex::new(Ok(queue))) }, commits, ended }
    }

    /// Appends events and returns their positions once they are durable. If they only complete
    /// calls, a store that is opened with [`Durability::Opening`] does not wait for the disk.
    pub(super) async fn append(
        &self,
        records: Vec<Record>,
        completes: bool,
    ) -> Result<Vec<u64>, StoreError> {
        let queue = self.queue.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (reply, answer) = oneshot::channel();
        let sent = queue?.send_timeout(Job { records, completes, reply }, PATIENCE).await;
        sent.map_err(|error| match error {
            SendTimeoutError::Closed(_) => closed(),
            SendTimeoutError::Timeout(_) => StoreError::Unavailable(
                "too many events wait for the database; look at its load".to_owned(),
            ),
        })?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.count.load(Ordering::Relaxed)
    }

    /// Calls `observer` after each transaction; only the first observer counts.
    pub(super) fn observe(&self, observer: CommitObserver) {
        self.commits.observer.get_or_init(|| observer);
    }

    pub(super) fn waiting(&self) -> u64 {
        let queue = self.queue.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.as_ref().map_or(0, |queue| MAX_WAITING.saturating_sub(queue.capacity()) as u64)
    }

    /// Accepts no more work; accepted work is still stored.
    pub(super) fn stop(&self) {
        self.queue.stop(closed());
    }

    /// A handle that stops this writer.
    pub(super) fn stopper(&self) -> Stopper {
        self.queue.clone()
    }

    /// Waits until the task has stored everything and finished.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

// === impl Commits ===

impl Commits {
    fn add(&self, began: Instant) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(observer) = self.observer.get() {
            observer(began.elapsed());
        }
    }
}

// === impl Stopper ===

impl Stopper {
    /// As [`Writer::stop`]; later appends fail with `error`.
    pub(super) fn stop(&self, error: StoreError) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
    }
}

/// Stores the jobs that can be stored, and answers every one. Returns whether the database
/// answered.
async fn store(
    pool: &Pool,
    instance: &str,
    (jobs, is_late): (Vec<Job>, bool),
    commits: &Commits,
    unknown: &mut UnknownStarts,
) -> bool {
    if jobs.is_empty() {
        return true;
    }
    let (mut batch, mut replies) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for Job { records, reply, .. } in jobs {
        batch.push(records);
        replies.push(reply);
    }
    let all: Vec<&Record> = batch.iter().flatten().collect();
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut answers = true;
    let began = Instant::now();
    match transact(pool, instance, (&all, is_late), unknown).await {
        Ok(Ok(positions)) => {
            commits.add(began);
            let mut positions = positions.into_iter();
            outcomes.extend(
                batch.iter().map(|records| Ok(positions.by_ref().take(records.len()).collect())),
            );
        }
        // A refused statement aborts the whole transaction, so that each job runs again in a
        // separate one.
        Ok(Err(failure)) if failure.is_refusal() && batch.len() > 1 => {
            for records in &batch {
                let records: Vec<&Record> = records.iter().collect();
                let began = Instant::now();
                let outcome = transact(pool, instance, (&records, is_late), unknown).await;
                if matches!(outcome, Ok(Ok(_))) {
                    commits.add(began);
                }
                outcomes.push(outcome.and_then(|appended| appended.map_err(append_failure)));
            }
        }
        failed => {
            answers = matches!(&failed, Ok(Err(failure)) if failure.is_refusal());
            let error = match failed {
                Ok(Err(failure)) => append_failure(failure),
                Err(error) => error,
                Ok(Ok(_)) => closed(),
            };
            tracing::error!(%error, requests = batch.len(), "a transaction was not stored");
            outcomes.extend(batch.iter().map(|_| Err(error.clone())));
        }
    }
    for (reply, outcome) in replies.into_iter().zip(outcomes) {
        if reply.send(outcome).is_err() {
            tracing::debug!("the caller of an append has stopped waiting for it");
        }
    }
    answers
}

fn append_failure(failure: Failure) -> StoreError {
    failure.conflict_over("an event with this id").into_store()
}

/// Appends `records` in one transaction. When it is unknown whether it was committed, its starts
/// are added to `unknown`.
async fn transact(
    pool: &Pool,
    instance: &str,
    (records, is_late): (&[&Record], bool),
    unknown: &mut UnknownStarts,
) -> Result<Result<Vec<u64>, Failure>, StoreError> {
    let mut committing = false;
    let outcome = within(async {
        let mut client = pool.get().await?;
        let appended =
            match try_append(&mut client, (records, is_late), instance, &mut committing).await {
                // The clock of the database jumped past the end of the next month.
                Err(failure) if partitions::is_missing(&failure) => {
                    partitions::ensure(&mut client).await?;
                    try_append(&mut client, (records, is_late), instance, &mut committing).await
                }
                appended => appended,
            };
        Ok(appended)
    })
    .await;
    let is_known = match &outcome {
        Ok(Ok(_)) => true,
        Ok(Err(failure)) => failure.is_refusal(),
        Err(_) => false,
    };
    if committing && !is_known {
        unknown.add(records);
    }
    outcome
}

async fn try_append(
    client: &mut Client,
    (records, is_late): (&[&Record], bool),
    instance: &str,
    committing: &mut bool,
) -> Result<Vec<u64>, Failure> {
    let transaction = client.transaction().await?;
    let set = async {
        match is_late {
            true => {
                execute(&transaction, "SET LOCAL synchronous_commit = off", &[]).await.map(drop)
            }
            false => Ok(()),
        }
    };
    // Sent together, in one round trip.
    let ((), positions) = tokio::try_join!(set, append(&transaction, records, instance))?;
    *committing = true;
    transaction.commit().await?;
    Ok(positions)
}
