//! Runtimes with one thread each.
//!
//! A request that stays on one such thread wakes no other thread, which takes longer than most steps
//! of a call. Work that belongs to no request stays on the main runtime.

use std::{
    cell::OnceCell,
    io,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tokio::runtime::{Builder, Handle, Runtime};

/// How long the tasks of a thread may take to end.
const END_LIMIT: Duration = Duration::from_secs(2);

thread_local! {
    static CURRENT: OnceCell<Arc<CoreState>> = const { OnceCell::new() };
}

/// One of `count` cores.
#[derive(Debug, Default)]
struct CoreState {
    number: usize,
    count: usize,
    places: AtomicUsize,
    /// How many of its threads block.
    blocked: AtomicUsize,
}

/// Runtimes with one thread each; clones are handles to the same ones. After the last handle is
/// dropped, they end with the tasks that still run on them.
#[derive(Debug, Clone)]
pub struct Cores {
    inner: Arc<Inner>,
}

/// A handle to [`Cores`] that does not keep them running.
#[derive(Debug, Clone)]
pub struct WeakCores {
    inner: Weak<Inner>,
}

#[derive(Debug)]
struct Inner {
    cores: Vec<Core>,
    /// Counts the tasks that were dealt out in turns.
    turns: AtomicUsize,
}

#[derive(Debug)]
struct Core {
    runtime: Runtime,
    state: Arc<CoreState>,
}

/// A place on one of the cores. It counts until it is dropped.
#[derive(Debug)]
pub struct CorePlace {
    runtime: Handle,
    state: Arc<CoreState>,
}

/// A time in which the current core may block: other cores get the new places.
#[derive(Debug)]
pub struct BlockingTurn(Arc<CoreState>);

/// A value for each core.
#[derive(Debug)]
pub struct PerCore<T> {
    values: OnceLock<Box<[OnceLock<T>]>>,
}

// === impl BlockingTurn ===

impl BlockingTurn {
    /// `None` unless the current thread is that of a core with one place, and there are other cores.
    pub fn begin() -> Option<Self> {
        let is_alone =
            |core: &&Arc<CoreState>| core.count > 1 && core.places.load(Ordering::Relaxed) == 1;
        let core = CURRENT.with(|core| core.get().filter(is_alone).cloned())?;
        core.blocked.fetch_add(1, Ordering::Relaxed);
        Some(Self(core))
    }
}

impl Drop for BlockingTurn {
    fn drop(&mut self) {
        self.0.blocked.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Cores ===

impl Cores {
    /// Starts `count` cores, at least one.
    ///
    /// # Errors
    /// The system gives no more threads or file descriptors.
    pub fn start(count: usize) -> io::Result<Self> {
        let count = count.max(1);
        let mut cores = Vec::with_capacity(count);
        for number in 0..count {
            // Not a runtime of the current thread: in this one, `block_in_place` moves the other
            // tasks to another thread.
            let (places, blocked) = Default::default();
            let state = Arc::new(CoreState { number, count, places, blocked });
            let current = Arc::clone(&state);
            let runtime = Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name(format!("toolcrib-core-{number}"))
                .on_thread_start(move || {
                    CURRENT.with(|core| core.set(Arc::clone(&current)).ok());
                })
                .enable_all()
                .build()?;
            cores.push(Core { runtime, state });
        }
        Ok(Self { inner: Arc::new(Inner { cores, turns: AtomicUsize::new(0) }) })
    }

    /// A place on the core with the fewest places, if possible one that is not blocked.
    pub fn place(&self) -> CorePlace {
        let fewest = self.inner.cores.iter().min_by_key(|core| {
            (core.state.is_blocked(), core.state.places.load(Ordering::Relaxed))
        });
        match fewest {
            Some(core) => core.place(),
            // There is at least one.
            None => CorePlace::new(Handle::current(), Arc::default()),
        }
    }

    /// A handle that does not keep them running.
    pub fn downgrade(&self) -> WeakCores {
        WeakCores { inner: Arc::downgrade(&self.inner) }
    }
}

// === impl WeakCores ===

impl WeakCores {
    /// A place on each core in turn, if possible one that is not blocked; `None` after they have
    /// ended.
    pub fn place_in_turn(&self) -> Option<CorePlace> {
        let inner = self.inner.upgrade()?;
        let turn = inner.turns.fetch_add(1, Ordering::Relaxed);
        let first = turn.checked_rem(inner.cores.len())?;
        let (before, from) = inner.cores.split_at_checked(first)?;
        let mut in_turn = from.iter().chain(before);
        let core = in_turn.clone().find(|core| !core.state.is_blocked()).or(in_turn.next())?;
        Some(core.place())
    }
}

// === impl Inner ===

impl Drop for Inner {
    fn drop(&mut self) {
        let cores = std::mem::take(&mut self.cores);
        // From a thread of its own, because a runtime must not wait inside a runtime.
        let (hand_over, taken) = mpsc::channel::<Vec<Core>>();
        let ending = thread::Builder::new().spawn(move || {
            for core in taken.into_iter().flatten() {
                core.runtime.shutdown_timeout(END_LIMIT);
            }
        });
        match ending {
            Ok(ending) => {
                hand_over.send(cores).ok();
                drop(hand_over);
                ending.join().ok();
            }
            // No more threads: then without waiting for the tasks.
            Err(_) => cores.into_iter().for_each(|core| core.runtime.shutdown_background()),
        }
    }
}

// === impl Core ===

impl Core {
    fn place(&self) -> CorePlace {
        CorePlace::new(self.runtime.handle().clone(), Arc::clone(&self.state))
    }
}

// === impl CoreState ===

impl CoreState {
    fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed) > 0
    }
}

// === impl CorePlace ===

impl CorePlace {
    fn new(runtime: Handle, state: Arc<CoreState>) -> Self {
        state.places.fetch_add(1, Ordering::Relaxed);
        Self { runtime, state }
    }

    /// The runtime of the core.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

impl Drop for CorePlace {
    fn drop(&mut self) {
        self.state.places.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl PerCore ===

impl<T> PerCore<T> {
    /// Creates a set without values.
    pub const fn new() -> Self {
        Self { values: OnceLock::new() }
    }

    /// The value of the current core, which `make` creates on first use; `None` on other threads.
    pub fn here(&self, make: impl FnOnce() -> T) -> Option<&T> {
        let (number, count) =
            CURRENT.with(|core| core.get().map(|core| (core.number, core.count)))?;
        let values = self.values.get_or_init(|| (0..count).map(|_| OnceLock::new()).collect());
        Some(values.get(number)?.get_or_init(make))
    }
}

impl<T> Default for PerCore<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn thread_name() -> String {
        thread::current().name().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn places_go_to_the_core_with_the_fewest() {
        let cores = Cores::start(2).unwrap();
        let (first, second) = (cores.place(), cores.place());
        let name = async |place: &CorePlace| place.runtime().spawn(async { thread_name() }).await;
        assert_eq!(name(&first).await.unwrap(), "toolcrib-core-0");
        assert_eq!(name(&second).await.unwrap(), "toolcrib-core-1");
        drop(second);
        assert_eq!(name(&cores.place()).await.unwrap(), "toolcrib-core-1");
    }

    #[tokio::test]
    async fn tasks_in_turn_use_every_core() {
        let cores = Cores::start(3).unwrap();
        let (weak, mut names) = (cores.downgrade(), Vec::new());
        for _ in 0..6 {
            let place = weak.place_in_turn().unwrap();
            names.push(place.runtime().spawn(async { thread_name() }).await.unwrap());
        }
        let expected = [0, 1, 2, 0, 1, 2].map(|number| format!("toolcrib-core-{number}"));
        assert_eq!(names, expected);
        drop(cores);
        assert!(weak.place_in_turn().is_none());
    }

    #[tokio::test]
    async fn a_core_with_one_place_may_block_and_gets_no_others() {
        assert!(BlockingTurn::begin().is_none(), "this is not a core");
        let cores = Cores::start(2).unwrap();
        let (weak, place, other) = (cores.downgrade(), cores.place(), cores.place());
        let begin = async |place: &CorePlace| {
            place.runtime().spawn(async { BlockingTurn::begin() }).await.unwrap()
        };
        let number = |place: CorePlace| place.state.number;
        let turn = begin(&place).await.expect("one place");
        drop(other);
        for _ in 0..3 {
            assert_eq!((number(cores.place()), number(weak.place_in_turn().unwrap())), (1, 1));
        }
        let both = begin(&cores.place()).await.expect("one place");
        assert_eq!(number(cores.place()), 1, "blocked as well, with fewer places");
        drop(turn);
        assert_eq!((number(cores.place()), number(weak.place_in_turn().unwrap())), (0, 0));
        drop(both);
        let (third, fourth) = (cores.place(), cores.place());
        assert_eq!((third.state.number, fourth.state.number), (1, 0));
        assert!(begin(&place).await.is_none(), "two places");
        assert!(begin(&third).await.is_some());

        let only = Cores::start(1).unwrap();
        assert!(begin(&only.place()).await.is_none(), "no other core");
    }

    #[tokio::test]
    async fn each_core_has_a_value() {
        let cores = Cores::start(2).unwrap();
        let values = Arc::new(PerCore::new());
        let made = Arc::new(AtomicUsize::new(0));
        let (first, second) = (cores.place(), cores.place());
        let value = async |place: &CorePlace| {
            let (values, made) = (Arc::clone(&values), Arc::clone(&made));
            let value =
                async move { values.here(|| made.fetch_add(1, Ordering::Relaxed)).copied() };
            place.runtime().spawn(value).await.unwrap()
        };
        assert_eq!([value(&first).await, value(&second).await], [Some(0), Some(1)]);
        assert_eq!([value(&second).await, value(&first).await], [Some(1), Some(0)]);
        assert_eq!(values.here(|| 7), None);
    }

    #[tokio::test]
    async fn work_that_blocks_does_not_stop_the_other_tasks_of_its_core() {
        let cores = Cores::start(1).unwrap();
        let place = cores.place();
        let (send, receive) = std::sync::mpsc::channel();
        let blocking = place.runtime().spawn(async move {
            tokio::task::block_in_place(|| receive.recv_timeout(Duration::from_secs(20)))
        });
        place.runtime().spawn(async move { send.send(()).unwrap() }).await.unwrap();
        blocking.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn the_cores_end_with_their_tasks() {
        let cores = Cores::start(1).unwrap();
        let place = cores.place();
        let (hold, dropped) = oneshot::channel::<()>();
        let (started, waiting) = oneshot::channel();
        place.runtime().spawn(async move {
            let _hold = hold;
            started.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        waiting.await.unwrap();
        drop(cores);
        dropped.await.unwrap_err();
    }
}
