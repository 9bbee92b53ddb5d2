//! WebAssembly nodes: core modules (`module`, the ABI of RFC 0008) and components (`component`, the
//! world in `pack.wit`).
//!
//! Invariant (I-44): each call runs in a fresh instance, used only once.
//!
//! Invariant (I-45): pack code has a deadline and a memory limit; a trap fails only its own call.

mod component;
mod envelope;
mod host;
mod machine;
mod module;
mod web;

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError},
    catalog::Permit,
    egress::EgressTrail,
};

use self::{
    component::Component,
    host::{CallFailure, LimitBreach, State},
    machine::{CompiledCode, Machine},
    module::{ABI_VERSION, Module},
};
use super::{
    context::PackContext,
    error::{PackCode, PackError},
    load::{Pack, blocking},
};
use crate::error::{protocol, timeout, too_large};

/// The compiled code of a pack.
pub(super) struct Program {
    machine: &'static Machine,
    context: Arc<PackContext>,
    code: Arc<Code>,
}

enum Code {
    Module(Module),
    Component(Component),
}

/// Checks that the code of `pack` is valid for its language, without running it.
pub(super) fn check(pack: &Pack) -> Result<(), PackError> {
    match pack.manifest.runtime.language.as_str() {
        "remote" => Ok(()),
        language => compile(Machine::get()?, language, &pack.artifact).map(drop),
    }
}

fn compile(machine: &Machine, language: &str, artifact: &[u8]) -> Result<CompiledCode, PackError> {
    machine.compile(artifact, language == "wasm-component").map_err(|error| {
        tracing::debug!(%error, "code of a pack does not compile");
        PackCode::InvalidManifest
            .error(format!("`runtime.entry` is not code of language `{language}` that runs here"))
    })
}

// === impl Program ===

impl Program {
    /// Compiles the code of `pack`, and lists the nodes of a module. Takes the code out of the
    /// pack.
    pub(super) async fn load(
        pack: &mut Pack,
        context: &Arc<PackContext>,
    ) -> Result<Self, PackError> {
        let machine = Machine::get()?;
        let artifact = std::mem::take(&mut pack.artifact);
        let language = pack.manifest.runtime.language.clone();
        let compiled = blocking(move || compile(machine, &language, &artifact)).await?;
        let grants = &context.spec.grants;
        let code = match compiled {
            CompiledCode::Component(component) => {
                Code::Component(Component::new(&machine.engine, &component, grants)?)
            }
            CompiledCode::Module(module) => {
                let module = Module::new(&machine.engine, &module, grants)?;
                Code::Module(Self::list_nodes(machine, module, context, pack).await?)
            }
        };
        Ok(Self { machine, context: Arc::clone(context), code: Arc::new(code) })
    }

    /// Lists the nodes of the module, and leaves out nodes of the pack that it does not have.
    async fn list_nodes(
        machine: &'static Machine,
        module: Module,
        context: &Arc<PackContext>,
        pack: &mut Pack,
    ) -> Result<Module, PackError> {
        let state = State::new(context, 0, EgressTrail::default());
        let name = pack.manifest.name.clone();
        let list = async move { module.list(machine, state, &name).await };
        let Some(listed) = machine.run(context.source.limits.connect_timeout, list).await else {
            return PackCode::InvalidManifest.refuse("the code did not list its nodes in time");
        };
        let module = listed?;
        for node in pack.nodes.extract_if(.., |node| !module.has(&node.tool.name)) {
            let name = &node.tool.name;
            pack.problems.push(format!("node `{name}`: the code of the pack does not have it"));
        }
        Ok(module)
    }

    /// Runs one node in a fresh instance.
    pub(super) async fn call(
        &self,
        node: &str,
        permit: &Permit,
        call: &Invocation,
    ) -> Result<Outcome, UpstreamError> {
        let mut request = json!({
            "abiVersion": ABI_VERSION,
            "nodeContext": {
                "runId": call.run_id,
                "nodeId": node,
                "tenantId": permit.principal().tenant,
                "attempt": 0,
                "configurable": {},
                "agent": null,
            },
        });
        if let Some(request) = request.as_object_mut() {
            // Not inside `json!`, which writes some numbers in another form.
            request.insert("inputs".to_owned(), Value::Object(call.arguments.clone()));
        }
        let request = request.to_string();
        let state = State::new(&self.context, call.max_result_bytes, call.egress.clone());
        let (machine, code, node) = (self.machine, Arc::clone(&self.code), node.to_owned());
        let run = async move {
            match &*code {
                Code::Module(module) => module.call(machine, state, &node, &request).await,
                Code::Component(component) => component.call(machine, state, &node, &request).await,
            }
        };
        match self.machine.run(call.timeout, run).await {
            Some(Ok(bytes)) => envelope::read(&bytes, call.max_result_bytes),
            Some(Err(failure)) => self.failed(failure),
            None => Err(timeout("the node was interrupted at its deadline")),
        }
    }

    /// Converts a failed call to its result. A trap is a failure of the tool itself, because its
    /// instance runs only this call.
    fn failed(&self, failure: CallFailure) -> Result<Outcome, UpstreamError> {
        let failed = |text: &str| Ok(Outcome::text(text, true));
        match failure {
            CallFailure::Trap(_, Some(LimitBreach::Memory)) => failed(&format!(
                "the tool was stopped: it requires more than the {} bytes of memory it is allowed",
                self.context.spec.memory
            )),
            CallFailure::Trap(_, Some(LimitBreach::Table)) => {
                failed("the tool was stopped: it exceeded the limit of table elements")
            }
            CallFailure::Trap(error, None) => {
                let source = &self.context.source.id;
                tracing::info!(%source, error = %error, "pack code trapped");
                failed("the tool crashed; only this call is affected")
            }
            CallFailure::Garbage(what) => Err(protocol(what)),
            CallFailure::TooLarge(bytes) => {
                Err(too_large(format!("it has {bytes} bytes, more than `[gate] max_result`")))
            }
        }
    }
}
