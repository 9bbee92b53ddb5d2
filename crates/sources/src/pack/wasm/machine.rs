//! The engine that runs the code of all packs, with threads of its own.
//!
//! Code runs on threads that serve nothing else, so that a pack which only counts cannot slow a
//! list down. At every tick of the epoch it gives way to the other calls there; that is when a call
//! is seen to be over its deadline, or not wanted any more.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread::Thread,
    time::Duration,
};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig,
    RegallocAlgorithm, Store,
};

use super::{
    super::error::{PackCode, PackError},
    host::{self, State},
};

/// Calls whose code runs at once; others wait inside their own deadline.
const CALLS: usize = 64;
/// Pieces of code that are kept compiled, beside those in use.
const KEPT: usize = 4;
/// How often running code gives way.
const TICK: Duration = Duration::from_millis(5);

/// Engine, threads and ticker. There is one for the whole process.
pub(super) struct Machine {
    pub(super) engine: Engine,
    threads: tokio::runtime::Runtime,
    slots: Semaphore,
    running: AtomicUsize,
    ticker: Thread,
    /// What was compiled last, by its hash: the same code is not compiled again for another source
    /// of the pack, or because something else of the pack changed.
    compiled: Mutex<VecDeque<(Key, Compiled)>>,
}

/// Compiled code.
#[derive(Clone)]
pub(super) enum Compiled {
    Module(wasmtime::Module),
    Component(wasmtime::component::Component),
}

/// Hash of code, and whether it is a component.
type Key = ([u8; 32], bool);

static MACHINE: LazyLock<Result<Machine, String>> = LazyLock::new(Machine::new);

/// Counts a running call.
struct Running<'a>(&'a Machine);

// === impl Machine ===

impl Machine {
    pub(super) fn get() -> Result<&'static Self, PackError> {
        let made = MACHINE.as_ref();
        made.map_err(|problem| {
            PackCode::UnsupportedRuntime.error(format!("WebAssembly does not run here: {problem}"))
        })
    }

    fn new() -> Result<Self, String> {
        // A pool reserves a lot of address space, which not every machine lets a process have.
        let engine = Engine::new(&config(true))
            .or_else(|_| Engine::new(&config(false)))
            .map_err(|error| error.to_string())?;
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("toolcrib-wasm")
            .enable_time()
            .build()
            .map_err(|error| error.to_string())?;
        let ticker = std::thread::Builder::new()
            .name("toolcrib-wasm-epoch".to_owned())
            .spawn(tick)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            engine,
            threads,
            slots: Semaphore::new(CALLS),
            running: AtomicUsize::new(0),
            ticker: ticker.thread().clone(),
            compiled: Mutex::default(),
        })
    }

    /// Compiles a module, or a component.
    pub(super) fn compile(&self, code: &[u8], component: bool) -> wasmtime::Result<Compiled> {
        let key = (Sha256::digest(code).into(), component);
        let known = |compiled: &VecDeque<(Key, Compiled)>| {
            compiled.iter().find(|(known, _)| *known == key).map(|(_, code)| code.clone())
        };
        if let Some(compiled) = known(&self.compiled.lock()) {
            return Ok(compiled);
        }
        let compiled = match component {
            false => Compiled::Module(wasmtime::Module::from_binary(&self.engine, code)?),
            true => {
                let component = wasmtime::component::Component::from_binary(&self.engine, code)?;
                Compiled::Component(component)
            }
        };
        let mut kept = self.compiled.lock();
        if known(&kept).is_none() {
            kept.truncate(KEPT - 1);
            kept.push_front((key, compiled.clone()));
        }
        Ok(compiled)
    }

    /// Runs `work` on the threads for code; `None` when it does not end in `patience`. Dropping this
    /// ends the work at the next tick.
    pub(super) async fn run<T: Send + 'static>(
        &'static self,
        patience: Duration,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let task = async move {
            let _slot = self.slots.acquire().await.ok()?;
            let _running = Running::new(self);
            Some(work.await)
        };
        let limited = async move { tokio::time::timeout(patience, task).await.ok().flatten() };
        AbortOnDropHandle::new(self.threads.spawn(limited)).await.ok().flatten()
    }

    /// A store whose code gives way and is bounded.
    pub(super) fn store(&self, state: State) -> Store<State> {
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limits);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store
    }
}

fn config(pooling: bool) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.wasm_component_model(true);
    config.wasm_memory64(false);
    config.wasm_relaxed_simd(false);
    if cfg!(debug_assertions) {
        // A compiler that is not optimised itself takes seconds otherwise.
        config.cranelift_opt_level(OptLevel::None);
        config.cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
    }
    if pooling {
        let calls = u32::try_from(CALLS).unwrap_or(u32::MAX);
        let (memories, tables) = (host::MAX_MEMORIES as u32, host::MAX_TABLES as u32);
        let instances = host::MAX_INSTANCES as u32;
        let mut pool = PoolingAllocationConfig::default();
        pool.total_stacks(calls)
            .total_component_instances(calls)
            .total_core_instances(calls * instances)
            .total_memories(calls * memories)
            .total_tables(calls * tables)
            .max_core_instances_per_component(instances)
            .max_memories_per_component(memories)
            .max_tables_per_component(tables)
            .max_memories_per_module(memories)
            .max_tables_per_module(tables)
            .max_memory_size(host::MAX_MEMORY)
            .table_elements(host::MAX_TABLE_ELEMENTS);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

/// Moves the epoch on while code runs, and sleeps while none does.
fn tick() {
    // Waits until the machine is made by the thread that started this one.
    let Ok(machine) = &*MACHINE else { return };
    loop {
        if machine.running.load(Ordering::Acquire) == 0 {
            std::thread::park();
        } else {
            std::thread::sleep(TICK);
            machine.engine.increment_epoch();
        }
    }
}

// === impl Running ===

impl<'a> Running<'a> {
    fn new(machine: &'a Machine) -> Self {
        if machine.running.fetch_add(1, Ordering::AcqRel) == 0 {
            machine.ticker.unpark();
        }
        Self(machine)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}
