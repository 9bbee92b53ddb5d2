//! Core modules with the ABI of RFC 0008, version 1: JSON in linear memory.
//!
//! Invariant: a pointer from pack code is used only to slice that code's own memory. An invalid
//! pointer ends the call.

use std::collections::{BTreeMap, BTreeSet};

use toolcrib_core::source::pack::PackGrant;
use wasmtime::{
    Caller, Engine, Extern, Instance, InstancePre, Linker, Memory, Store, TypedFunc, ValType,
};

use super::{
    super::{
        error::{PackCode, PackError},
        requirements,
    },
    ABI_VERSION, Stopped,
    host::{self, Breach, MAX_LINE, MAX_RANDOM, State},
    machine::Machine,
    web::MAX_REQUEST,
};

/// The namespace of the ABI's imports.
const NAMESPACE: &str = "openwop";
/// The namespace of imports beyond the ABI.
const OURS: &str = "toolcrib";
/// Largest number of nodes of a module.
const MAX_NODES: i32 = 1_000;
/// Longest name that a module returns, in bytes.
const MAX_NAME: usize = 256;
/// Bytes that a response may have in addition to its result.
const ENVELOPE: usize = 16 << 10;

/// A module that is ready to be instantiated.
pub(super) struct Module {
    ready: InstancePre<State>,
    /// The module's indexes of its nodes.
    nodes: BTreeMap<String, i32>,
}

/// An instance and the exports that every call needs.
struct Running {
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
        for import in module.imports() {
            let grant = match (import.module(), import.name()) {
                (NAMESPACE, "openwop_log") => PackGrant::Log,
                (NAMESPACE, "openwop_now_ms") => PackGrant::Clock,
                (NAMESPACE, "openwop_random") => PackGrant::Random,
                (OURS, "http") => PackGrant::Http,
                (NAMESPACE, _) => {
                    return PackCode::RequirementUnmet.refuse(
                        "the code imports channels, variables or interrupts, which tools do not have",
                    );
                }
                _ => {
                    return PackCode::RequirementUnmet.refuse(
                        "the code imports something outside `openwop`, such as WASI, which no pack \
                         gets here",
                    );
                }
            };
            if !grants.contains(&grant) {
                return requirements::unmet(grant, "the code imports it");
            }
        }
        let unlinked = |error: wasmtime::Error| {
            tracing::debug!(%error, "code of a pack cannot be linked");
            PackCode::InvalidManifest.error("an import of the code has the wrong type")
        };
        let linker = linker(engine).map_err(unlinked)?;
        let ready = linker.instantiate_pre(module).map_err(unlinked)?;
        Ok(Self { ready, nodes: BTreeMap::new() })
    }

    /// Checks the ABI version and the pack name of the module, and reads its list of nodes.
    pub(super) async fn list(
        &mut self,
        machine: &Machine,
        state: State,
        name: &str,
    ) -> Result<(), PackError> {
        let nodes = self.read_nodes(machine, state, name).await.map_err(|stopped| {
            let problem = match stopped {
                Stopped::Garbage(what) => what,
                Stopped::Trap(_, Some(Breach::Memory)) => {
                    "the code requires more initial memory than `memory` allows"
                }
                Stopped::Trap(error, _) => {
                    tracing::debug!(%error, "code of a pack does not list its nodes");
                    "the code trapped while listing its nodes, or lacks an export of the ABI"
                }
                Stopped::TooLarge(_) => "the code returned a name that is too long",
            };
            PackCode::InvalidManifest.error(problem)
        })?;
        self.nodes = nodes;
        Ok(())
    }

    async fn read_nodes(
        &self,
        machine: &Machine,
        state: State,
        name: &str,
    ) -> Result<BTreeMap<String, i32>, Stopped> {
        let mut running = self.start(machine, state).await?;
        let version: i32 = running.number("openwop_abi_version", ()).await?;
        if version != ABI_VERSION {
            return Err(Stopped::Garbage("unsupported_abi_version: the code must speak ABI 1"));
        }
        if running.text("openwop_pack_name", None).await? != name {
            return Err(Stopped::Garbage("the code belongs to another pack"));
        }
        let count: i32 = running.number("openwop_node_count", ()).await?;
        if !(0..=MAX_NODES).contains(&count) {
            return Err(Stopped::Garbage("the code reports an invalid number of nodes"));
        }
        let mut nodes = BTreeMap::new();
        for index in 0..count {
            nodes.insert(running.text("openwop_node_id_at", Some(index)).await?, index);
        }
        Ok(nodes)
    }

    pub(super) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Passes `request` to a node in a fresh instance, and returns its response.
    pub(super) async fn call(
        &self,
        machine: &Machine,
        state: State,
        node: &str,
        request: &str,
    ) -> Result<Vec<u8>, Stopped> {
        let Some(index) = self.nodes.get(node) else {
            return Err(Stopped::Garbage("the code does not have this node"));
        };
        let max = state.max_result.saturating_add(ENVELOPE);
        let mut running = self.start(machine, state).await?;
        let len = i32::try_from(request.len())
            .map_err(|_| Stopped::Garbage("the arguments are too large for the code"))?;
        let at: i32 = running.number("openwop_alloc", len).await?;
        running.write(at, request.as_bytes())?;
        let (at, len) = running.pair("openwop_node_invoke", (*index, at, len)).await?;
        // No memory is freed, because the instance ends here.
        if len as usize > max {
            return Err(Stopped::TooLarge(len as usize));
        }
        running.read(at, len).map(<[u8]>::to_vec)
    }

    async fn start(&self, machine: &Machine, state: State) -> Result<Running, Stopped> {
        let mut store = machine.store(state);
        let instance = match self.ready.instantiate_async(&mut store).await {
            Ok(instance) => instance,
            Err(error) => return Err(store.data().stopped(error)),
        };
        let Some(memory) = instance.get_memory(&mut store, "memory") else {
            return Err(Stopped::Garbage("the code exports no memory"));
        };
        Ok(Running { store, instance, memory })
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
            if len as u32 as usize > MAX_RANDOM {
                return Err(wasmtime::Error::msg("too many random bytes were requested at once"));
            }
            let (at, len) = (at as u32 as usize, len as u32 as usize);
            let memory = memory(&mut caller)?;
            let out =
                at.checked_add(len).and_then(|end| memory.data_mut(&mut caller).get_mut(at..end));
            host::random(out.ok_or_else(outside)?)
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
    let (at, len) = (at as u32 as usize, len as u32 as usize);
    let memory = memory(caller)?;
    let end = at.checked_add(len).ok_or_else(outside)?;
    memory.data(&*caller).get(at..end).ok_or_else(outside)
}

/// Copies `bytes` into memory that the code allocates; returns the packed pointer and length.
async fn hand_over(caller: &mut Caller<'_, State>, bytes: &[u8]) -> wasmtime::Result<i64> {
    let Some(Extern::Func(alloc)) = caller.get_export("openwop_alloc") else {
        return Err(wasmtime::Error::msg("the code exports no openwop_alloc"));
    };
    let alloc: TypedFunc<i32, i32> = alloc.typed(&*caller)?;
    let len = i32::try_from(bytes.len()).map_err(|_| outside())?;
    let at = alloc.call_async(&mut *caller, len).await? as u32;
    let memory = memory(caller)?;
    let start = at as usize;
    let end = start.checked_add(bytes.len());
    let room = end.and_then(|end| memory.data_mut(&mut *caller).get_mut(start..end));
    room.ok_or_else(outside)?.copy_from_slice(bytes);
    Ok(((len as u64) << 32 | u64::from(at)) as i64)
}

fn outside() -> wasmtime::Error {
    wasmtime::Error::msg("the code pointed outside its memory")
}

// === impl Running ===

impl Running {
    /// Calls an export that returns one number.
    async fn number<P: wasmtime::WasmParams + Send + Sync>(
        &mut self,
        name: &str,
        params: P,
    ) -> Result<i32, Stopped> {
        let function: TypedFunc<P, i32> = self.function(name)?;
        let called = function.call_async(&mut self.store, params).await;
        called.map_err(|error| self.store.data().stopped(error))
    }

    /// Calls an export that returns pointer and length: as two numbers, or packed into one.
    async fn pair<P: wasmtime::WasmParams + Send + Sync>(
        &mut self,
        name: &str,
        params: P,
    ) -> Result<(u32, u32), Stopped> {
        let Some(function) = self.instance.get_func(&mut self.store, name) else {
            return Err(Stopped::Garbage("the code lacks an export of the ABI"));
        };
        let packed =
            function.ty(&self.store).results().any(|result| matches!(result, ValType::I64));
        let called = if packed {
            let function: TypedFunc<P, i64> = self.function(name)?;
            let called = function.call_async(&mut self.store, params).await;
            called.map(|both| (both as u32, (both as u64 >> 32) as u32))
        } else {
            let function: TypedFunc<P, (i32, i32)> = self.function(name)?;
            let called = function.call_async(&mut self.store, params).await;
            called.map(|(at, len)| (at as u32, len as u32))
        };
        called.map_err(|error| self.store.data().stopped(error))
    }

    /// Calls an export that returns a name.
    async fn text(&mut self, name: &str, index: Option<i32>) -> Result<String, Stopped> {
        let (at, len) = match index {
            None => self.pair(name, ()).await?,
            Some(index) => self.pair(name, index).await?,
        };
        if len as usize > MAX_NAME {
            return Err(Stopped::TooLarge(len as usize));
        }
        let bytes = self.read(at, len)?.to_vec();
        String::from_utf8(bytes)
            .map_err(|_| Stopped::Garbage("a name returned by the code is not UTF-8"))
    }

    fn function<P: wasmtime::WasmParams, R: wasmtime::WasmResults>(
        &mut self,
        name: &str,
    ) -> Result<TypedFunc<P, R>, Stopped> {
        self.instance.get_typed_func(&mut self.store, name).map_err(|_| {
            Stopped::Garbage("the code lacks an export of the ABI, or has it with other types")
        })
    }

    fn read(&self, at: u32, len: u32) -> Result<&[u8], Stopped> {
        let (at, len) = (at as usize, len as usize);
        let end = at.checked_add(len);
        let bytes = end.and_then(|end| self.memory.data(&self.store).get(at..end));
        bytes.ok_or(Stopped::Garbage("the code pointed outside its memory"))
    }

    fn write(&mut self, at: i32, bytes: &[u8]) -> Result<(), Stopped> {
        let at = at as u32 as usize;
        let end = at.checked_add(bytes.len());
        let room = end.and_then(|end| self.memory.data_mut(&mut self.store).get_mut(at..end));
        match room {
            Some(room) => {
                room.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(Stopped::Garbage("the code pointed outside its memory")),
        }
    }
}
