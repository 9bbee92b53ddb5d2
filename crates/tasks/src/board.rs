//! The registry of running tasks and their states.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::SetOnce, time::Instant};

/// A task that ran for this long without a failure counts as sound.
pub(crate) const STABLE: Duration = Duration::from_secs(60);

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
#[non_exhaustive]
pub struct TaskReport {
    /// The name that the tasks share.
    pub name: TaskName,
    /// The worst state among the tasks.
    pub state: TaskState,
    /// The current number of tasks.
    pub running: usize,
    /// The number of panics and early stops.
    pub failures: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Board {
    table: Mutex<Table>,
    /// The first essential task that failed.
    fatal: SetOnce<TaskName>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    live: HashMap<u64, LiveTask>,
    /// Kept after the task has stopped: a counter must not go back.
    failures: BTreeMap<TaskName, Failures>,
}

#[derive(Debug)]
struct LiveTask {
    name: TaskName,
    state: TaskState,
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
    /// The state as a word.
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
        for LiveTask { name, state } in table.live.values() {
            let report = reports.entry(name.clone()).or_insert_with(|| report(name));
            report.running += usize::from(*state == TaskState::Running);
            report.state = report.state.max(*state);
        }
        reports.into_values().collect()
    }

    pub(crate) async fn fatal(&self) -> TaskName {
        self.fatal.wait().await.clone()
    }
}

// === impl BoardEntry ===

impl BoardEntry {
    pub(crate) fn enter(board: &Arc<Board>, name: TaskName) -> Self {
        let mut table = board.table.lock();
        let id = table.next;
        table.next += 1;
        table.live.insert(id, LiveTask { name: name.clone(), state: TaskState::Running });
        drop(table);
        Self { board: Arc::clone(board), name, id }
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
        drop(table);
        self.set(TaskState::Restarting);
    }

    pub(crate) fn resumed(&self) {
        self.set(TaskState::Running);
    }

    /// Marks the task as failed for good; the process cannot continue without it.
    pub(crate) fn give_up(self) {
        self.set(TaskState::Ended);
        // The process stops because of the first essential task, so a second one is ignored.
        self.board.fatal.set(self.name.clone()).ok();
    }

    fn set(&self, state: TaskState) {
        if let Some(live) = self.board.table.lock().live.get_mut(&self.id) {
            live.state = state;
        }
    }
}

impl Drop for BoardEntry {
    fn drop(&mut self) {
        // The entry of a task that has failed for good outlives it.
        let mut table = self.board.table.lock();
        if table.live.get(&self.id).is_some_and(|live| live.state != TaskState::Ended) {
            table.live.remove(&self.id);
        }
    }
}
