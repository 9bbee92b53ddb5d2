//! Core modules with the ABI of RFC 0008, version 1: JSON in linear memory.
//!
//! Invariant: a pointer from pack code is used only to slice that code's own memory. An invalid
//! pointer fails the call.

use std::collections::{BTreeMap, BTreeSet};

use toolcrib_core::source::pack::PackGrant;
use wasmtime::{
    Caller, Engine, Extern, Instance, InstancePre, Linker, Memory, Store, TypedFunc, ValType,
};

use super::{
    super::error::{PackCode, PackError},
    host::{self, CallFailure, LimitBreach, MAX_LINE, State},
    machine::Machine,
    web::MAX_REQUEST,
};

/// The ABI version of this host (RFC 0008).
pub(super) const ABI_VERSION: i32 = 1;
/// The namespace of the ABI's imports.
const NAMESPACE: &str = "openwop";
/// The namespace of imports beyond the ABI.
const OURS: &str = "toolcrib";
/// Largest number of nodes of a module.
const MAX_NODES: i32 = 1_000;
/// Longest node name, in bytes.
const MAX_NAME: usize = 256;
/// Bytes that a response may have in addition to its result.
const ENVELOPE: usize = 16 << 10;

/// The failure of a call whose result is outside the memory of the code.
const OUTSIDE: CallFailure = CallFailure::Garbage("the code pointed outside its memory");

/// A module ready to be instantiated.
pub(super) struct Module {
    ready: InstancePre<State>,
    /// The module's indexes of its nodes.
    nodes: BTreeMap<String, i32>,
}

/// An instance and the exports that every call needs.
struct RunningInstance {
    store: Store<State>,
    instance: Instance,
    memory: Memory,
}

// === impl Module ===

impl Module {
    /// Links `module` to the granted imports. Fails when it imports more.
    pub(super) fn new(
        engine: &Engine,
        module: &wasmtime::Module,
        grants: &BTreeSet<PackGrant>,
    ) -> Result<Self, PackError> {
        let imports = module.imports().map(|import| match (import.module(), import.name()) {
            (NAMESPACE, "openwop_log") => Ok(PackGrant::Log),
            (NAMESPACE, "openwop_now_ms") => Ok(PackGrant::Clock),
            (NAMESPACE, "openwop_random") => Ok(PackGrant::Random),
            (OURS, "http") => Ok(PackGrant::Http),
            (NAMESPACE, _) => {
                Err("the code imports channels, variables or interrupts, which tools do not have")
            }
            _ => Err("the code imports something outside `openwop`, such as WASI; packs cannot \
                      import that"),
        });
        host::check_imports(imports, grants, "code")?;
        let ready = linker(engine).and_then(|linker| linker.instantiate_pre(module));
        let ready = ready.map_err(|error| host::unlinked("code", &error))?;
        Ok(Self { ready, nodes: BTreeMap::new() })
    }

    /// Checks the ABI version and the pack name of the module, and reads its list of nodes.
    pub(super) async fn list(
        self,
        machine: &Machine,
        state: State,
        name: &str,
    ) -> Result<Self, PackError> {
        let nodes = self.read_nodes(machine, state, name).await.map_err(|stopped| {
            let problem = match stopped {
                CallFailure::Garbage(what) => what,
                CallFailure::Trap(_, Some(LimitBreach::Memory)) => {
                    "the code requires more initial memory than `memory` allows"
                }
                CallFailure::Trap(error, _) => {
                    tracing::debug!(%error, "code of a pack does not list its nodes");
                    "the code trapped while listing its nodes, or lacks an export of the ABI"
                }
                CallFailure::TooLarge(_) => "the code returned a name longer than the limit",
            };
            PackCode::InvalidManifest.error(problem)
        })?;
        Ok(Self { nodes, ..self })
    }

    async fn read_nodes(
        &self,
        machine: &Machine,
        state: State,
        name: &str,
    ) -> Result<BTreeMap<String, i32>, CallFailure> {
        let mut running = self.start(machine, state).await?;
        let version: i32 = running.number("openwop_abi_version", ()).await?;
        if version != ABI_VERSION {
            return Err(CallFailure::Garbage("unsupported_abi_version: the code must speak ABI 1"));
        }
        if running.text("openwop_pack_name", ()).await? != name {
            return Err(CallFailure::Garbage("the code belongs to another pack"));
        }
        let count: i32 = running.number("openwop_node_count", ()).await?;
        if !(0..=MAX_NODES).contains(&count) {
            return Err(CallFailure::Garbage("the code reports an invalid number of nodes"));
        }
        let mut nodes = BTreeMap::new();
        for index in 0..count {
            nodes.insert(running.text("openwop_node_id_at", index).await?, index);
        }
        Ok(nodes)
    }

    pub(super) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Passes `request` to a node in a fresh instance; yields its response.
    pub(super) async fn call(
        &self,
        machine: &Machine,
        state: State,
        node: &str,
        request: &str,
    ) -> Result<Vec<u8>, CallFailure> {
        let Some(index) = self.nodes.get(node) else {
            return Err(CallFailure::Garbage("the code does not have this node"));
        };
        let max = state.max_result.saturating_add(ENVELOPE);
        let mut running = self.start(machine, state).await?;
        let len = i32::try_from(request.len())
            .map_err(|_| CallFailure::Garbage("the arguments are too large for the code"))?;
        let at: i32 = running.number("openwop_alloc", len).await?;
        let written =
            running.memory.write(&mut running.store, at as u32 as usize, request.as_bytes());
        written.map_err(|_| OUTSIDE)?;
        let (at, len) = running.pair("openwop_node_invoke", (*index, at, len)).await?;
        // Memory is not freed, because the instance is dropped here.
        let bytes = len as u32 as usize;
        if bytes > max {
            return Err(CallFailure::TooLarge(bytes));
        }
        running.read(at, len).map(<[u8]>::to_vec)
    }

    /// Creates a fresh instance.
    async fn start(&self, machine: &Machine, state: State) -> Result<RunningInstance, CallFailure> {
        let mut store = machine.store(state);
        let instance = match self.ready.instantiate_async(&mut store).await {
            Ok(instance) => instance,
            Err(error) => return Err(store.data().trapped(error)),
        };
        let Some(memory) = instance.get_memory(&mut store, "memory") else {
            return Err(CallFailure::Garbage("the code exports no memory"));
        };
        Ok(RunningInstance { store, instance, memory })
    }
}

/// Defines all grantable imports; access was checked earlier.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    linker.func_wrap(
        NAMESPACE,
        "openwop_log",
        |mut caller: Caller<'_, State>, _level: i32, at: i32, len: i32| {
            // A long line is truncated, but its whole range must be in the code's memory.
            let text = slice(&mut caller, at, len)?;
            let text = text.get(..MAX_LINE).unwrap_or(text).to_vec();
            caller.data_mut().log(&text);
            Ok(())
        },
    )?;
    linker.func_wrap(NAMESPACE, "openwop_now_ms", |caller: Caller<'_, State>| -> i64 {
        caller.data().now()
    })?;
    linker.func_wrap(
        NAMESPACE,
        "openwop_random",
        |mut caller: Caller<'_, State>, at: i32, len: i32| {
            let memory = memory(&mut caller)?;
            host::random(range_mut(memory.data_mut(&mut caller), at, len).ok_or_else(outside)?)
        },
    )?;
    linker.func_wrap_async(
        OURS,
        "http",
        |mut caller: Caller<'_, State>, (at, len): (i32, i32)| {
            Box::new(async move {
                if len as u32 as usize > MAX_REQUEST {
                    return Err(wasmtime::Error::msg("the request is too large"));
                }
                let request = slice(&mut caller, at, len)?.to_vec();
                let answer = caller.data_mut().fetch(request).await;
                hand_over(&mut caller, answer.as_bytes()).await
            })
        },
    )?;
    Ok(linker)
}

fn memory(caller: &mut Caller<'_, State>) -> wasmtime::Result<Memory> {
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => Ok(memory),
        _ => Err(wasmtime::Error::msg("the code exports no memory")),
    }
}

fn slice<'a>(caller: &'a mut Caller<'_, State>, at: i32, len: i32) -> wasmtime::Result<&'a [u8]> {
    let memory = memory(caller)?;
    range(memory.data(&*caller), at, len).ok_or_else(outside)
}

/// Copies `bytes` into memory that the code allocates; yields the packed pointer and length.
async fn hand_over(caller: &mut Caller<'_, State>, bytes: &[u8]) -> wasmtime::Result<i64> {
    let Some(Extern::Func(alloc)) = caller.get_export("openwop_alloc") else {
        return Err(wasmtime::Error::msg("the code exports no openwop_alloc"));
    };
    let alloc: TypedFunc<i32, i32> = alloc.typed(&*caller)?;
    let len = i32::try_from(bytes.len()).map_err(|_| outside())?;
    let at = alloc.call_async(&mut *caller, len).await?;
    memory(caller)?.write(caller, at as u32 as usize, bytes).map_err(|_| outside())?;
    Ok(((len as u64) << 32 | u64::from(at as u32)) as i64)
}

/// Returns the bytes at a pointer and length of the code, if they are in its `memory`.
fn range(memory: &[u8], at: i32, len: i32) -> Option<&[u8]> {
    memory.get(at as u32 as usize..)?.get(..len as u32 as usize)
}

fn range_mut(memory: &mut [u8], at: i32, len: i32) -> Option<&mut [u8]> {
    memory.get_mut(at as u32 as usize..)?.get_mut(..len as u32 as usize)
}

fn outside() -> wasmtime::Error {
    wasmtime::Error::msg("the code pointed outside its memory")
}

// === impl RunningInstance ===

impl RunningInstance {
    /// Calls an export that returns one number.
    async fn number<P: wasmtime::WasmParams + Send + Sync>(
        &mut self,
        name: &str,
        params: P,
    ) -> Result<i32, CallFailure> {
        let function: TypedFunc<P, i32> = self.function(name)?;
        let called = function.call_async(&mut self.store, params).await;
        called.map_err(|error| self.store.data().trapped(error))
    }

    /// Calls an export with a pointer and length as its result: as two numbers, or packed into one.
    async fn pair<P: wasmtime::WasmParams + Send + Sync>(
        &mut self,
        name: &str,
        params: P,
    ) -> Result<(i32, i32), CallFailure> {
        let Some(function) = self.instance.get_func(&mut self.store, name) else {
            return Err(CallFailure::Garbage("the code lacks an export of the ABI"));
        };
        let packed =
            function.ty(&self.store).results().any(|result| matches!(result, ValType::I64));
        let called = if packed {
            let function: TypedFunc<P, i64> = self.function(name)?;
            let called = function.call_async(&mut self.store, params).await;
            called.map(|both| (both as i32, (both >> 32) as i32))
        } else {
            let function: TypedFunc<P, (i32, i32)> = self.function(name)?;
            function.call_async(&mut self.store, params).await
        };
        called.map_err(|error| self.store.data().trapped(error))
    }

    /// Calls an export with a name as its result.
    async fn text<P: wasmtime::WasmParams + Send + Sync>(
        &mut self,
        name: &str,
        params: P,
    ) -> Result<String, CallFailure> {
        let (at, len) = self.pair(name, params).await?;
        let size = len as u32 as usize;
        if size > MAX_NAME {
            return Err(CallFailure::TooLarge(size));
        }
        let bytes = self.read(at, len)?.to_vec();
        String::from_utf8(bytes)
            .map_err(|_| CallFailure::Garbage("a name returned by the code is not UTF-8"))
    }

    fn function<P: wasmtime::WasmParams, R: wasmtime::WasmResults>(
        &mut self,
        name: &str,
    ) -> Result<TypedFunc<P, R>, CallFailure> {
        self.instance.get_typed_func(&mut self.store, name).map_err(|_| {
            CallFailure::Garbage("the code lacks an export of the ABI, or has it with other types")
        })
    }

    fn read(&self, at: i32, len: i32) -> Result<&[u8], CallFailure> {
        range(self.memory.data(&self.store), at, len).ok_or(OUTSIDE)
    }
}
