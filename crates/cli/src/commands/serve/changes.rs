//! Notices when the configuration file changes.
//!
//! Directories are watched, not the file: editors and Kubernetes put another file or link in its
//! place. What is watched beside the file's own directory is that of the file a link leads to.
//! Invariant: a change is content that differs from the content seen before; a touch is none.

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
/// Longest wait for that silence.
const AT_MOST: Duration = Duration::from_secs(2);

/// Watches one file.
pub(super) struct Watch {
    file: PathBuf,
    seen: Option<Vec<u8>>,
    settled: Arc<Notify>,
    /// Dropping it ends the watch.
    _stop: Option<DropGuard>,
}

impl Watch {
    /// Watches `file`, whose content was `seen` when it was last taken over. A system that cannot
    /// watch is no reason not to serve.
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

    /// Watches nothing.
    pub(super) fn nothing() -> Self {
        let settled = Arc::new(Notify::new());
        Self { file: PathBuf::new(), seen: None, settled, _stop: None }
    }

    /// The next change. Dropping the future loses nothing.
    pub(super) async fn changed(&mut self) {
        loop {
            self.settled.notified().await;
            if self.look() {
                return;
            }
        }
    }

    /// Remembers the content as it is now; whether it is another one.
    pub(super) fn look(&mut self) -> bool {
        let now = settings::read_bytes(&self.file, Pipe::Refuse).ok();
        let differs = now != self.seen;
        self.seen = now;
        differs
    }
}

/// Reports to `settled` when something happened to `file` and is over, until `stop`.
async fn watch(file: PathBuf, settled: Arc<Notify>, stop: CancellationToken) {
    let (told, mut tells) = mpsc::channel(1);
    let _watcher = match watcher(&file, told) {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "the configuration file is not watched; SIGHUP still works");
            return stop.cancelled().await;
        }
    };
    // What changed before it was watched has to be noticed too.
    settled.notify_one();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            told = tells.recv() => if told.is_none() {
                // The watcher has ended; the next run makes another one.
                return;
            },
        }
        let started = Instant::now();
        while started.elapsed() < AT_MOST
            && matches!(timeout(QUIET, tells.recv()).await, Ok(Some(())))
        {}
        settled.notify_one();
    }
}

/// Sends to `told` when something happens to `file`.
fn watcher(file: &Path, told: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
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
            // Full means that somebody is about to look anyway.
            told.try_send(()).ok();
        }
    })?;
    for dir in dirs {
        watcher.watch(&dir, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Whether `event` may have changed a file of these names. Names that begin with two dots are how
/// Kubernetes swaps all files of a volume at once.
fn concerns(event: &Event, names: &[OsString]) -> bool {
    let ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| {
            names.iter().any(|it| it == name) || name.as_encoded_bytes().starts_with(b"..")
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
