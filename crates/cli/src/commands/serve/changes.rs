//! Detects changes of the configuration file.
//!
//! Watches directories instead of the file, because editors and Kubernetes replace the file or link:
//! the directory of the file and, for a link, also the directory of its target.
//! Invariant: a change is reported only if the content differs from the content seen before.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolcrib_tasks::{Policy, Tasks};

use crate::settings::{self, Pipe};

/// Silence after which a change is complete.
const QUIET: Duration = Duration::from_millis(200);
/// Limit of the wait for that silence.
const AT_MOST: Duration = Duration::from_secs(2);

/// Watches one file.
pub(super) struct Watch {
    file: PathBuf,
    seen: Option<Vec<u8>>,
    settled: Arc<Notify>,
    /// Dropping it stops the watch.
    _stop: Option<DropGuard>,
}

impl Watch {
    /// Watches `file`, whose content was `seen` when it was last applied. If the system cannot watch
    /// files, logs a warning and reports no changes.
    pub(super) fn start(file: &Path, seen: Option<&str>, tasks: &Tasks) -> Self {
        let settled = Arc::new(Notify::new());
        let stop = CancellationToken::new();
        let watching = {
            let (file, settled, stop) = (file.to_path_buf(), Arc::clone(&settled), stop.clone());
            move || watch(file.clone(), Arc::clone(&settled), stop.clone())
        };
        tasks.spawn("config-watch", Policy::Forever, stop.clone(), watching);
        let seen = seen.map(|text| text.as_bytes().to_vec());
        Self { file: file.to_path_buf(), seen, settled, _stop: Some(stop.drop_guard()) }
    }

    /// Creates a watch that reports no changes.
    pub(super) fn nothing() -> Self {
        let settled = Arc::new(Notify::new());
        Self { file: PathBuf::new(), seen: None, settled, _stop: None }
    }

    /// Waits for the next change. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        loop {
            self.settled.notified().await;
            if self.look() {
                return;
            }
        }
    }

    /// Remembers the current content; returns whether it differs from the previous one.
    pub(super) fn look(&mut self) -> bool {
        let now = settings::read_bytes(&self.file, Pipe::Refuse).ok();
        let differs = now != self.seen;
        self.seen = now;
        differs
    }
}

/// Notifies `settled` after each group of events of `file`, until `stop`.
async fn watch(file: PathBuf, settled: Arc<Notify>, stop: CancellationToken) {
    let (sender, mut events) = mpsc::channel(1);
    let _watcher = match watcher(&file, sender) {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "the configuration file is not watched; SIGHUP still works");
            return stop.cancelled().await;
        }
    };
    // Covers a change before the start of the watch.
    settled.notify_one();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            event = events.recv() => if event.is_none() {
                // The watcher has stopped; the next run creates another one.
                return;
            },
        }
        let started = Instant::now();
        while started.elapsed() < AT_MOST
            && matches!(timeout(QUIET, events.recv()).await, Ok(Some(())))
        {}
        settled.notify_one();
    }
}

/// Creates a watcher that sends to `sender` at each event of `file`.
fn watcher(file: &Path, sender: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let mut names: Vec<OsString> = file.file_name().map(OsStr::to_owned).into_iter().collect();
    let mut dirs = vec![directory(file)];
    if let Ok(real) = file.canonicalize() {
        names.extend(real.file_name().map(OsStr::to_owned));
        let known = dirs.iter().any(|dir| dir.canonicalize().ok().as_deref() == real.parent());
        if !known {
            dirs.push(directory(&real));
        }
    }
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| concerns(&event, &names)) {
            // If the channel is full, the receiver has not handled an earlier event yet.
            sender.try_send(()).ok();
        }
    })?;
    for dir in dirs {
        watcher.watch(&dir, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Whether `event` may have changed a file with one of these names. Names with two leading dots
/// count, because Kubernetes swaps all files of a volume through them.
fn concerns(event: &Event, names: &[OsString]) -> bool {
    let ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| {
            names.iter().any(|watched| watched == name)
                || name.as_encoded_bytes().starts_with(b"..")
        })
    };
    match event.kind {
        EventKind::Access(_) => false,
        _ => event.need_rescan() || event.paths.iter().any(ours),
    }
}

fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
