//! I-18, I-21, I-71: after a power cut every acknowledged event is stored, what was left open is
//! closed, and the chain verifies.
//!
//! One run of the store is recorded. Power cuts at random moments of it are simulated on a disk that
//! loses what was not synced, and each result is opened, recovered and verified by the real store.
//!
//! `TOOLCRIB_POWER_CUTS` is the number of power cuts.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::OpenOptions,
    io::Write as _,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tempfile::TempDir;
use toolcrib_core::{
    event::{EventLog, LoggedEvent},
    record::CheckpointKind,
    store::Storage,
};
use toolcrib_store::{
    Durability, Options, SqliteStore,
    conformance::{
        event_log::{called, closed, decided, opened, returned},
        moment,
        record_store::{prune, sign, signing_key},
    },
    verify,
};

use toolcrib_tasks::cores::Cores;

use crate::{
    DURABILITY, STORE, all,
    disk::{self, Disk, Random},
    left_open, sequences_have_no_gap,
    strace::{self, Observed, Operation},
};

/// The file that the helper writes a line to after each acknowledgement.
const ACKNOWLEDGEMENTS: &str = "TOOLCRIB_TEST_ACKNOWLEDGEMENTS";

/// Power cuts without `TOOLCRIB_POWER_CUTS`.
const CUTS: usize = 300;

/// Longer than the quiet time after which the write-ahead log is copied into the file.
const QUIET: Duration = Duration::from_millis(400);

const CALLERS: usize = 8;
const PHASES: usize = 4;
/// Events that are appended together.
const TOGETHER: usize = 40;

fn options() -> Options {
    let durability = match std::env::var(DURABILITY).as_deref() {
        Ok("opening") => Durability::Opening,
        Ok("relaxed") => Durability::Relaxed,
        _ => Durability::Strict,
    };
    Options { durability, ..Options::default() }
}

/// Not a test: two open stores after one another. The first is closed, the second one's process ends.
#[test]
#[ignore = "started by the other tests of this file"]
fn helper_process() {
    let Some(path) = std::env::var_os(STORE).map(PathBuf::from) else { return };
    let acknowledgements = std::env::var_os(ACKNOWLEDGEMENTS).unwrap();
    let file = OpenOptions::new().create(true).append(true).open(acknowledgements).unwrap();
    let acknowledgements = Mutex::new(file);
    let acknowledge = move |line: &str| {
        acknowledgements.lock().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    // On a core that serves nothing else, where a caller that is alone stores its events itself.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cores = Cores::start(2).unwrap();
    let place = cores.place();
    let lives = place.runtime().spawn(async move {
        for life in 0..2 {
            let store = SqliteStore::open(&path, options()).unwrap();
            store.recover(moment(2)).await.unwrap();
            acknowledge("recovered");
            live(&store, &format!("{}-{life}", std::process::id()), &acknowledge).await;
            if life == 0 {
                store.close().await;
            } else {
                // With open calls, and without a checkpoint of the write-ahead log.
                std::process::exit(0);
            }
        }
    });
    runtime.block_on(lives).unwrap();
}

/// Callers that append at once, then one that is alone, with quiet moments between.
async fn live(store: &SqliteStore, life: &str, acknowledge: &(impl Fn(&str) + Sync)) {
    let mut previous = None;
    for phase in 0..PHASES {
        let calls = |caller, numbers| calls(store, life, phase, (caller, numbers), acknowledge);
        let callers = (0..CALLERS).map(|caller| calls(caller, 0..4));
        futures_util::future::join_all(callers).await;
        calls(CALLERS, 0..12).await;
        let together = (0..TOGETHER).map(|number| format!("{life}-{phase}/{number}"));
        let together: Vec<_> = together.collect();
        let events = together.iter().map(|event| decided("p", "together", event));
        store.append(&events.collect::<Vec<_>>()).await.unwrap();
        together.iter().for_each(|event| acknowledge(event));
        for tenant in ["t", "p"] {
            let checkpoint = sign(store, &signing_key(), tenant, 3).await;
            acknowledge(&format!("signed {tenant} {}", checkpoint.number));
            if tenant == "p" {
                // Retention keeps the events after a checkpoint.
                let previous = previous.replace(checkpoint);
                if let Some(previous) = previous.filter(|_| phase == 2) {
                    prune(store, &signing_key(), &previous, 32).await;
                }
            }
        }
        if phase + 1 < PHASES {
            tokio::time::sleep(QUIET).await;
        }
    }
}

/// Some calls and sessions are never ended.
async fn calls(
    store: &SqliteStore,
    life: &str,
    phase: usize,
    (caller, numbers): (usize, Range<usize>),
    acknowledge: &(impl Fn(&str) + Sync),
) {
    let append = async |event: toolcrib_core::event::NewEvent| {
        let id = event.event_id.clone();
        store.append(&[event]).await.unwrap();
        acknowledge(id.as_str());
    };
    for number in numbers {
        let name = format!("{life}-{phase}-{caller}-{number}");
        let run = format!("run-{caller}");
        let start = called("t", &run, &name, &name);
        let end = returned(&start, &format!("{name}-end"));
        let session = opened("t", &run, &format!("{name}-open"), &name);
        let last = closed(&session, &format!("{name}-closed"));
        if number == 0 {
            append(session).await;
        }
        append(start).await;
        if !(number + caller).is_multiple_of(3) {
            append(end).await;
        }
        if number == 0 && caller.is_multiple_of(2) {
            append(last).await;
        }
    }
}

/// A folder whose operations were recorded, from `before` on.
struct Recording {
    /// Holds `disk`, the recorded folder.
    folder: TempDir,
    before: BTreeMap<PathBuf, Vec<u8>>,
    /// Acknowledgements of earlier processes.
    acknowledged: Vec<String>,
    operations: Vec<Operation>,
}

// === impl Recording ===

impl Recording {
    /// Records the helper on the files of `before`.
    fn new(
        strace: &Path,
        variables: &[(&str, &str)],
        before: (&Path, &BTreeMap<PathBuf, Vec<u8>>),
        acknowledged: Vec<String>,
    ) -> Self {
        let folder = folder();
        let root = folder.path().join("disk");
        std::fs::create_dir(&root).unwrap();
        disk::write(before.1, before.0, &root);
        let before = disk::read(&root);
        let acknowledgements = folder.path().join("acknowledgements");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "power_cut::helper_process", "--ignored", "--nocapture"]);
        command.env(STORE, root.join("data/store.db")).env(ACKNOWLEDGEMENTS, &acknowledgements);
        command.envs(variables.iter().copied());
        let observed = Observed { folder: &root, acknowledgements: &acknowledgements };
        let operations = strace::record(strace, &command, &observed);
        let it = Self { folder, before, acknowledged, operations };
        it.check();
        it
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Requires that the recorded operations lead to the files that exist, so that none is missing.
    fn check(&self) {
        let mut disk = self.disk();
        self.operations.iter().for_each(|it| disk.apply(it));
        let durable = |mut files: BTreeMap<PathBuf, Vec<u8>>| {
            files.retain(|path, _| disk::is_durable(path));
            files
        };
        let (simulated, real) = (durable(disk.contents()), durable(disk::read(&self.root())));
        assert!(simulated.keys().eq(real.keys()), "{:?} {:?}", simulated.keys(), real.keys());
        assert!(simulated == real, "a write was not recorded");
    }

    fn disk(&self) -> Disk<'_> {
        let mut folders = vec![self.root()];
        for path in self.before.keys() {
            let within = path.ancestors().skip(1).take_while(|it| *it != self.root());
            folders.extend(within.map(Path::to_owned));
        }
        Disk::new(&self.before, &folders)
    }

    /// Returns what is left when the power fails before the operation `at`, and what was
    /// acknowledged before.
    fn cut(&self, at: usize, random: &mut Random) -> Cut {
        let (before, _) = self.operations.split_at(at);
        let mut disk = self.disk();
        before.iter().for_each(|it| disk.apply(it));
        let acknowledged = before.iter().filter_map(|it| match it {
            Operation::Acknowledge(line) => Some(line.clone()),
            _ => None,
        });
        let acknowledged = self.acknowledged.iter().cloned().chain(acknowledged).collect();
        let (files, kept) = disk.cut(random);
        Cut { files, kept, acknowledged, unsynced: disk.unsynced() }
    }
}

/// What a power cut leaves.
struct Cut {
    files: BTreeMap<PathBuf, Vec<u8>>,
    kept: String,
    acknowledged: Vec<String>,
    unsynced: usize,
}

/// What was found after power cuts.
#[derive(Debug, Default)]
struct Found {
    cuts: usize,
    with_unsynced: usize,
    /// Acknowledgements that were lost, and the power cuts that lost some.
    lost: usize,
    losses: usize,
    stored: usize,
    closed: usize,
}

impl Found {
    fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.with_unsynced += other.with_unsynced;
        self.lost += other.lost;
        self.losses += other.losses;
        self.stored += other.stored;
        self.closed += other.closed;
    }
}

/// Opens, recovers and verifies what `cut` left in `folder`.
async fn examine(cut: &Cut, path: &Path, durability: Durability) -> Found {
    let store = SqliteStore::open(path, Options::default()).unwrap();
    let before = all(&store).await;
    let lost = lost(&store, &before, &cut.acknowledged).await;
    let may_be_lost = |line: &&str| match durability {
        Durability::Strict => false,
        // One transaction has at most one result of each caller.
        Durability::Opening => line.ends_with("-end") && lost.len() <= CALLERS,
        Durability::Relaxed => true,
    };
    assert!(lost.iter().all(may_be_lost), "{lost:?} of {} are lost", cut.acknowledged.len());
    whole_appends(&before);
    let (calls, sessions) = left_open(&before);
    if durability != Durability::Relaxed {
        // What a recovery closed stays closed.
        let recovered = cut.acknowledged.iter().rposition(|line| line == "recovered");
        for event in cut.acknowledged.iter().take(recovered.unwrap_or_default()) {
            let is_open = calls.contains(event.as_str()) || sessions.contains(event.as_str());
            assert!(!is_open, "{event} was closed");
        }
    }
    let closed = store.recover(moment(5)).await.unwrap();
    assert_eq!(closed, calls.len() + sessions.len());
    assert_eq!(store.recover(moment(6)).await.unwrap(), 0);
    store.append(&[called("t", "after", "after", "after")]).await.unwrap();
    let after = all(&store).await;
    assert_eq!(after.len(), before.len() + closed + 1);
    assert_eq!(&after[..before.len()], before, "nothing that was stored changed");
    assert_eq!(left_open(&after).0.len() + left_open(&after).1.len(), 1);
    let of_calls: Vec<_> =
        after.iter().filter(|logged| logged.tenant.as_str() == "t").cloned().collect();
    sequences_have_no_gap(&of_calls);
    let (whole, trusted) = (verify::Scope::default(), vec![signing_key().public()]);
    let report = verify::record(&store, &whole, trusted, &[], &[], |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.findings), (after.len() as u64, Vec::new()));
    store.close().await;
    Found {
        cuts: 1,
        with_unsynced: usize::from(cut.unsynced > 0),
        losses: usize::from(!lost.is_empty()),
        lost: lost.len(),
        stored: before.len(),
        closed,
    }
}

/// Returns the acknowledgements that are lost. Retention may have removed events.
async fn lost<'a>(
    store: &SqliteStore,
    stored: &[LoggedEvent],
    acknowledged: &'a [String],
) -> Vec<&'a str> {
    let ids: HashSet<_> = stored.iter().map(|logged| logged.event.event_id.as_str()).collect();
    let mut last = HashMap::new();
    let mut pruned = 0;
    for tenant in ["t", "p"] {
        let checkpoints = store.record().checkpoints(&tenant.parse().unwrap(), 0).await.unwrap();
        last.insert(tenant, checkpoints.last().map_or(0, |checkpoint| checkpoint.number));
        let marks = checkpoints.iter().filter(|it| it.kind == CheckpointKind::Pruned);
        pruned = marks.map(|it| it.position).max().unwrap_or(pruned);
    }
    let mut place = 0;
    let is_lost = |line: &&str| match line.split(' ').collect::<Vec<_>>()[..] {
        ["recovered"] => false,
        ["signed", tenant, number] => last[tenant] < number.parse::<u64>().unwrap(),
        [event] if event.contains('/') => {
            // The events of this tenant are acknowledged in their order.
            place += 1;
            place > pruned && !ids.contains(event)
        }
        [event] => !ids.contains(event),
        _ => panic!("{line}"),
    };
    acknowledged.iter().map(String::as_str).filter(is_lost).collect()
}

/// Events that were appended together are stored together.
fn whole_appends(stored: &[LoggedEvent]) {
    let mut appends: HashMap<&str, usize> = HashMap::new();
    for logged in stored {
        if let Some((append, _)) = logged.event.event_id.as_str().split_once('/') {
            *appends.entry(append).or_default() += 1;
        }
    }
    // Retention removes the beginning of the log, in batches.
    let partial = appends.values().filter(|count| **count != TOGETHER).count();
    assert!(partial <= 1, "{appends:?}");
}

/// Simulates `cuts` power cuts at random moments.
fn cut(recording: &Recording, cuts: usize, seed: u64, durability: Durability) -> Found {
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Found::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= cuts {
                        return;
                    }
                    let mut random = Random(seed ^ (u64::try_from(number).unwrap() << 20));
                    let at = random.below(recording.operations.len() + 1);
                    let cut = recording.cut(at, &mut random);
                    let folder = folder();
                    let mut described = Described {
                        text: format!("cut {number} before operation {at}, kept: {}", cut.kept),
                        folder: Some(folder),
                    };
                    let root = described.folder.as_ref().unwrap().path().to_owned();
                    disk::write(&cut.files, &recording.root(), &root);
                    let found =
                        runtime.block_on(examine(&cut, &root.join("data/store.db"), durability));
                    total.lock().unwrap().add(&found);
                    described.folder.take().unwrap().close().unwrap();
                }
            });
        }
    });
    total.into_inner().unwrap()
}

/// Describes the power cut of a failure, and keeps its folder.
struct Described {
    text: String,
    folder: Option<TempDir>,
}

impl Drop for Described {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = self.folder.take().map(TempDir::keep);
            eprintln!("{} in {kept:?}", self.text);
        }
    }
}

/// A folder in memory if possible: the simulated disk makes its own syncs.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    folder.unwrap()
}

fn nothing() -> BTreeMap<PathBuf, Vec<u8>> {
    BTreeMap::new()
}

#[test]
fn no_power_cut_loses_what_was_acknowledged() {
    let Some(strace) = strace::find_or_skip() else { return };
    let cuts = std::env::var("TOOLCRIB_POWER_CUTS").map_or(CUTS, |it| it.parse().unwrap());
    let first = Recording::new(&strace, &[], (Path::new("/"), &nothing()), Vec::new());
    // The second process starts after a power cut at the end of the first.
    let cut_off = first.cut(first.operations.len(), &mut Random(5));
    let before = (first.root(), &cut_off.files);
    let second = Recording::new(&strace, &[], (&before.0, before.1), cut_off.acknowledged);
    let mut found = cut(&first, cuts.div_ceil(2), 1, Durability::Strict);
    found.add(&cut(&second, cuts / 2, 2, Durability::Strict));
    let operations = first.operations.len() + second.operations.len();
    eprintln!("{operations} operations, {found:?}");
    assert_eq!((found.cuts, found.losses), (cuts, 0));
    assert!(found.with_unsynced > cuts / 4 && found.closed > cuts, "{found:?}");
}

/// Nothing but results of calls is lost, and of these at most one transaction.
#[test]
fn a_power_cut_takes_the_last_results_of_a_log_that_syncs_openings() {
    let Some(strace) = strace::find_or_skip() else { return };
    let opening = [(DURABILITY, "opening")];
    let recording = Recording::new(&strace, &opening, (Path::new("/"), &nothing()), Vec::new());
    let cuts = std::env::var("TOOLCRIB_POWER_CUTS").map_or(CUTS, |it| it.parse().unwrap());
    let found = cut(&recording, cuts, 4, Durability::Opening);
    eprintln!("{} operations, {found:?}", recording.operations.len());
    assert!(found.losses > 0, "{found:?}");
}

/// The simulation finds losses: a relaxed log may lose its end, and stays whole.
#[test]
fn a_power_cut_takes_the_end_of_a_relaxed_log() {
    let Some(strace) = strace::find_or_skip() else { return };
    let relaxed = [(DURABILITY, "relaxed")];
    let recording = Recording::new(&strace, &relaxed, (Path::new("/"), &nothing()), Vec::new());
    let found = cut(&recording, 100, 3, Durability::Relaxed);
    eprintln!("{} operations, {found:?}", recording.operations.len());
    assert!(found.losses > 50, "{found:?}");
}
