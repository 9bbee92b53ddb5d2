//! The engine that runs the code of all packs, on dedicated threads.
//!
//! Dedicated threads keep busy code from slowing down the server. At every epoch tick, code yields
//! to the other calls on its thread; deadlines and cancellations take effect then.

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

/// Calls that run at the same time; others wait, within their deadlines.
const CALLS: usize = 64;
/// Compiled code kept in the cache, in addition to code in use.
const KEPT: usize = 4;
/// Interval at which running code yields.
const TICK: Duration = Duration::from_millis(5);

/// The engine, its threads and its ticker. One for the whole process.
pub(super) struct Machine {
    pub(super) engine: Engine,
    threads: tokio::runtime::Runtime,
    slots: Semaphore,
    running: AtomicUsize,
    ticker: Thread,
    /// Recently compiled code by its hash. The same code is not compiled again for another source,
    /// or when other files of the pack change.
    compiled: Mutex<VecDeque<(Key, CompiledCode)>>,
}

#[derive(Clone)]
pub(super) enum CompiledCode {
    Module(wasmtime::Module),
    Component(wasmtime::component::Component),
}

/// Hash of the code, and whether it is a component.
type Key = ([u8; 32], bool);

static MACHINE: LazyLock<Result<Machine, String>> = LazyLock::new(Machine::new);

/// Counts a running call while it exists.
struct RunningCall<'a>(&'a Machine);

// === impl Machine ===

impl Machine {
    pub(super) fn get() -> Result<&'static Self, PackError> {
        let made = MACHINE.as_ref();
        made.map_err(|problem| {
            PackCode::UnsupportedRuntime.error(format!("WebAssembly does not run here: {problem}"))
        })
    }

    fn new() -> Result<Self, String> {
        // The pooling allocator reserves a lot of address space, which some machines do not allow.
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

    /// Compiles a module or a component, or takes it from the cache.
    pub(super) fn compile(&self, code: &[u8], component: bool) -> wasmtime::Result<CompiledCode> {
        let key = (Sha256::digest(code).into(), component);
        let known = |compiled: &VecDeque<(Key, CompiledCode)>| {
            compiled.iter().find(|(known, _)| *known == key).map(|(_, code)| code.clone())
        };
        if let Some(compiled) = known(&self.compiled.lock()) {
            return Ok(compiled);
        }
        let compiled = match component {
            false => CompiledCode::Module(wasmtime::Module::from_binary(&self.engine, code)?),
            true => {
                let component = wasmtime::component::Component::from_binary(&self.engine, code)?;
                CompiledCode::Component(component)
            }
        };
        let mut kept = self.compiled.lock();
        if known(&kept).is_none() {
            kept.truncate(KEPT - 1);
            kept.push_front((key, compiled.clone()));
        }
        Ok(compiled)
    }

    /// Runs `work` on the threads for code. Returns `None` if it takes longer than `patience`.
    /// Dropping the future stops the work at the next tick.
    pub(super) async fn run<T: Send + 'static>(
        &'static self,
        patience: Duration,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let task = async move {
            let _slot = self.slots.acquire().await.ok()?;
            let _running = RunningCall::new(self);
            Some(work.await)
        };
        let limited = async move { tokio::time::timeout(patience, task).await.ok().flatten() };
        AbortOnDropHandle::new(self.threads.spawn(limited)).await.ok().flatten()
    }

    /// Creates a store with limits, whose code yields at each tick.
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
        // An unoptimized compiler would take seconds otherwise.
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

/// Advances the epoch while code runs, and sleeps otherwise.
fn tick() {
    // Blocks until the thread that spawned this one has created the machine.
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

// === impl RunningCall ===

impl<'a> RunningCall<'a> {
    fn new(machine: &'a Machine) -> Self {
        if machine.running.fetch_add(1, Ordering::AcqRel) == 0 {
            machine.ticker.unpark();
        }
        Self(machine)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}
