//! WebAssembly nodes: core modules (`module`, the ABI of RFC 0008) and components (`component`, the
//! world in `pack.wit`).
//!
//! Invariant (I-44): each call runs in a fresh instance that is never reused.
//!
//! Invariant (I-45): pack code has a deadline and a memory limit; a trap fails only its own call.

mod component;
mod envelope;
mod host;
mod machine;
mod module;
mod web;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::json;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Clock,
    egress::EgressTrail,
    id::SourceId,
    source::pack::PackGrant,
};

pub(super) use self::web::Web;
use self::{
    component::Component,
    host::{Breach, State},
    machine::{Compiled, Machine},
    module::Module,
};
use super::{
    answer,
    error::{PackCode, PackError},
    load::Pack,
};

/// The ABI version of this host (RFC 0008).
const ABI_VERSION: i32 = 1;

/// The permissions and limits of a program.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) source: SourceId,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) grants: BTreeSet<PackGrant>,
    /// Limit of linear memory, in bytes.
    pub(super) memory: usize,
    /// The HTTP client, when `http` is granted.
    pub(super) web: Option<Web>,
}

/// The compiled code of a pack.
pub(super) struct Program {
    machine: &'static Machine,
    host: Host,
    code: Arc<Code>,
}

enum Code {
    Module(Module),
    Component(Component),
}

/// Why a call failed.
enum Stopped {
    /// The code trapped.
    Trap(wasmtime::Error, Option<Breach>),
    /// The code returned invalid output.
    Garbage(&'static str),
    /// The output was too large; the field is its size in bytes.
    TooLarge(usize),
}

/// Checks that `artifact` is valid code of `language`, without running it.
pub(super) fn check(language: &str, artifact: &[u8]) -> Result<(), PackError> {
    match language {
        "wasm" | "wasm-component" => compile(Machine::get()?, language, artifact).map(drop),
        _ => Ok(()),
    }
}

fn compile(machine: &Machine, language: &str, artifact: &[u8]) -> Result<Compiled, PackError> {
    machine.compile(artifact, language == "wasm-component").map_err(|error| {
        tracing::debug!(%error, "code of a pack does not compile");
        PackCode::InvalidManifest
            .error(format!("`runtime.entry` is not code of language `{language}` that runs here"))
    })
}

// === impl Program ===

impl Program {
    /// Compiles the code of `pack`, and lists the nodes of a module. Returns the pack without its
    /// code.
    pub(super) async fn load(
        mut pack: Pack,
        host: Host,
        patience: Duration,
    ) -> Result<(Pack, Self), PackError> {
        let machine = Machine::get()?;
        let artifact = std::mem::take(&mut pack.artifact);
        let language = pack.manifest.runtime.language.clone();
        let compiled =
            super::source::blocking(move || compile(machine, &language, &artifact)).await?;
        let code = match compiled {
            Compiled::Component(component) => {
                Code::Component(Component::new(&machine.engine, &component, &host.grants)?)
            }
            Compiled::Module(module) => {
                let module = Module::new(&machine.engine, &module, &host.grants)?;
                Code::Module(Self::nodes(machine, module, &host, &mut pack, patience).await?)
            }
        };
        Ok((pack, Self { machine, host, code: Arc::new(code) }))
    }

    /// Lists the nodes of the module, and leaves out nodes of the pack that it does not have.
    async fn nodes(
        machine: &'static Machine,
        module: Module,
        host: &Host,
        pack: &mut Pack,
        patience: Duration,
    ) -> Result<Module, PackError> {
        let state = State::new(host, 0, EgressTrail::default());
        let name = pack.manifest.name.clone();
        let listed = machine.run(patience, async move {
            let mut module = module;
            module.list(machine, state, &name).await.map(|()| module)
        });
        let module = match listed.await {
            Some(listed) => listed?,
            None => {
                return PackCode::InvalidManifest.refuse("the code did not list its nodes in time");
            }
        };
        let (there, missing): (Vec<_>, Vec<_>) =
            pack.nodes.drain(..).partition(|node| module.has(&node.tool.name));
        pack.nodes = there;
        pack.problems.extend(missing.iter().map(|node| {
            format!("node `{}`: the code of the pack does not have it", node.tool.name)
        }));
        Ok(module)
    }

    /// Runs one node in a fresh instance.
    pub(super) async fn call(
        &self,
        node: &str,
        permit: &Permit,
        call: &Invocation,
    ) -> Result<Outcome, UpstreamError> {
        let request = json!({
            "abiVersion": ABI_VERSION,
            "nodeContext": {
                "runId": call.run_id,
                "nodeId": node,
                "tenantId": permit.principal().tenant,
                "attempt": 0,
                "configurable": {},
                "agent": null,
            },
            "inputs": call.arguments,
        })
        .to_string();
        let state = State::new(&self.host, call.max_result_bytes, call.egress.clone());
        let (machine, code, node) = (self.machine, Arc::clone(&self.code), node.to_owned());
        let run = async move {
            match &*code {
                Code::Module(module) => module.call(machine, state, &node, &request).await,
                Code::Component(component) => component.call(machine, state, &node, &request).await,
            }
        };
        match self.machine.run(call.timeout, run).await {
            Some(Ok(bytes)) => envelope::read(&bytes, call.max_result_bytes),
            Some(Err(stopped)) => self.stopped(stopped),
            None => {
                let detail = "the node was interrupted at its deadline";
                Err(UpstreamError::new(UpstreamErrorKind::Timeout, detail))
            }
        }
    }

    /// Converts a failed call to its result. A trap is a failure of the tool itself, because its
    /// instance runs nothing else.
    fn stopped(&self, stopped: Stopped) -> Result<Outcome, UpstreamError> {
        let failed = |text: &str| Ok(Outcome::text(text, true));
        match stopped {
            Stopped::Trap(_, Some(Breach::Memory)) => failed(&format!(
                "the tool was stopped: it requires more than the {} bytes of memory it is allowed",
                self.host.memory
            )),
            Stopped::Trap(_, Some(Breach::Table)) => {
                failed("the tool was stopped: it exceeded the limit of table elements")
            }
            Stopped::Trap(error, None) => {
                tracing::info!(source = %self.host.source, error = %error, "pack code trapped");
                failed("the tool crashed; nothing outside this call is affected")
            }
            Stopped::Garbage(what) => Err(UpstreamError::new(UpstreamErrorKind::Protocol, what)),
            Stopped::TooLarge(bytes) => Err(answer::too_large(bytes)),
        }
    }
}
