//! The registry of running tasks and their states.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::STABLE;

/// The name of a task: its kind, and the instance it works for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName {
    /// The kind: one of a closed set of words, fit for a metric's label.
    pub kind: &'static str,
    /// The source or destination that it works for, as the operator named it.
    pub instance: Option<String>,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    /// Running, or finished successfully.
    Running,
    /// Running again, after a failure in the last minute.
    Recovering,
    /// Failed, and will be restarted.
    Restarting,
    /// Failed, and will not be restarted.
    Ended,
}

/// The report about the tasks with one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// The name.
    pub name: TaskName,
    /// The worst state among the tasks.
    pub state: TaskState,
    /// The number of tasks at present.
    pub running: usize,
    /// The number of panics and early ends.
    pub failures: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Board {
    table: Mutex<Table>,
    fatal: CancellationToken,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    live: HashMap<u64, LiveTask>,
    /// Kept after the task has ended: a counter must not go back.
    failures: BTreeMap<TaskName, Failures>,
    fatal: Option<TaskName>,
}

#[derive(Debug)]
struct LiveTask {
    name: TaskName,
    restarting: bool,
    ended: bool,
}

#[derive(Debug)]
struct Failures {
    times: u64,
    last: Instant,
}

/// The entry of one task on the board, for as long as it lives.
pub(crate) struct BoardEntry {
    board: Arc<Board>,
    name: TaskName,
    id: u64,
    /// Whether the entry outlives the task.
    given_up: bool,
}

// === impl TaskName ===

impl TaskName {
    /// Creates the name of a task of this kind that works for `instance`.
    pub fn of(kind: &'static str, instance: impl Into<String>) -> Self {
        Self { kind, instance: Some(instance.into()) }
    }
}

impl From<&'static str> for TaskName {
    fn from(kind: &'static str) -> Self {
        Self { kind, instance: None }
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instance {
            None => f.write_str(self.kind),
            Some(instance) => write!(f, "{} {instance}", self.kind),
        }
    }
}

// === impl TaskState ===

impl TaskState {
    /// Returns the state as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Recovering => "recovering",
            Self::Restarting => "restarting",
            Self::Ended => "ended",
        }
    }
}

// === impl Board ===

impl Board {
    pub(crate) fn reports(&self) -> Vec<TaskReport> {
        let table = self.table.lock();
        let mut reports: BTreeMap<TaskName, TaskReport> = BTreeMap::new();
        let report = |name: &TaskName| TaskReport {
            name: name.clone(),
            state: TaskState::Running,
            running: 0,
            failures: 0,
        };
        for (name, failures) in &table.failures {
            let report = reports.entry(name.clone()).or_insert_with(|| report(name));
            report.failures = failures.times;
            if failures.last.elapsed() < STABLE {
                report.state = TaskState::Recovering;
            }
        }
        for LiveTask { name, restarting, ended } in table.live.values() {
            let report = reports.entry(name.clone()).or_insert_with(|| report(name));
            let state = match (ended, restarting) {
                (true, _) => TaskState::Ended,
                (false, true) => TaskState::Restarting,
                (false, false) => TaskState::Running,
            };
            report.running += usize::from(state == TaskState::Running);
            report.state = report.state.max(state);
        }
        reports.into_values().collect()
    }

    pub(crate) async fn fatal(&self) -> TaskName {
        self.fatal.cancelled().await;
        let fatal = self.table.lock().fatal.clone();
        fatal.unwrap_or_else(|| TaskName::from("unknown"))
    }
}

// === impl BoardEntry ===

impl BoardEntry {
    pub(crate) fn enter(board: &Arc<Board>, name: TaskName) -> Self {
        let mut table = board.table.lock();
        let id = table.next;
        table.next += 1;
        table.live.insert(id, LiveTask { name: name.clone(), restarting: false, ended: false });
        drop(table);
        Self { board: Arc::clone(board), name, id, given_up: false }
    }

    /// Counts a failure.
    pub(crate) fn failed(&self, how: &'static str) {
        // The panic's own text may quote the task's data, so it is not repeated.
        tracing::error!(task = %self.name, "a background task {how}");
        let mut table = self.board.table.lock();
        let now = Instant::now();
        let failures = table.failures.entry(self.name.clone());
        let failures = failures.or_insert(Failures { times: 0, last: now });
        failures.times += 1;
        failures.last = now;
        if let Some(live) = table.live.get_mut(&self.id) {
            live.restarting = true;
        }
    }

    pub(crate) fn resumed(&self) {
        if let Some(live) = self.board.table.lock().live.get_mut(&self.id) {
            live.restarting = false;
        }
    }

    /// Marks the task as failed for good; the process cannot continue without it.
    pub(crate) fn give_up(mut self) {
        self.given_up = true;
        let mut table = self.board.table.lock();
        if let Some(live) = table.live.get_mut(&self.id) {
            live.ended = true;
        }
        table.fatal.get_or_insert_with(|| self.name.clone());
        drop(table);
        self.board.fatal.cancel();
    }
}

impl Drop for BoardEntry {
    fn drop(&mut self) {
        if !self.given_up {
            self.board.table.lock().live.remove(&self.id);
        }
    }
}
