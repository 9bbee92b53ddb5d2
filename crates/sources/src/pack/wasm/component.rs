//! Components that export the world of `pack.wit`.

use std::collections::BTreeSet;

use toolcrib_core::source::pack::PackGrant;
use wasmtime::{
    Engine, StoreContextMut,
    component::{ComponentExportIndex, InstancePre, Linker},
};

use super::{
    super::error::{PackCode, PackError},
    host::{self, CallFailure, MAX_RANDOM, State},
    machine::Machine,
};

/// The exported interface with a component's nodes.
const NODES: &str = "toolcrib:pack/nodes@1.0.0";
const LOG: &str = "toolcrib:pack/log@1.0.0";
const CLOCK: &str = "toolcrib:pack/clock@1.0.0";
const RANDOM: &str = "toolcrib:pack/random@1.0.0";
const HTTP: &str = "toolcrib:pack/http@1.0.0";

/// A component ready to be instantiated.
pub(super) struct Component {
    ready: InstancePre<State>,
    invoke: ComponentExportIndex,
}

// === impl Component ===

impl Component {
    /// Links `component` to the granted imports. Fails when it imports more.
    pub(super) fn new(
        engine: &Engine,
        component: &wasmtime::component::Component,
        grants: &BTreeSet<PackGrant>,
    ) -> Result<Self, PackError> {
        let component_type = component.component_type();
        let imports = component_type.imports(engine).map(|(name, _)| match name {
            LOG => Ok(PackGrant::Log),
            CLOCK => Ok(PackGrant::Clock),
            RANDOM => Ok(PackGrant::Random),
            HTTP => Ok(PackGrant::Http),
            _ => {
                Err("the component imports something outside `toolcrib:pack`, such as WASI; packs \
                      cannot import that")
            }
        });
        host::check_imports(imports, grants, "component")?;
        let invoke = component
            .get_export_index(None, NODES)
            .and_then(|nodes| component.get_export_index(Some(&nodes), "invoke"));
        let Some(invoke) = invoke else {
            return PackCode::InvalidManifest
                .refuse(format!("the component does not export `invoke` of `{NODES}`"));
        };
        let ready = linker(engine).and_then(|linker| linker.instantiate_pre(component));
        let ready = ready.map_err(|error| host::unlinked("component", &error))?;
        Ok(Self { ready, invoke })
    }

    /// Passes `request` to a node in a fresh instance; yields its response.
    pub(super) async fn call(
        &self,
        machine: &Machine,
        state: State,
        node: &str,
        request: &str,
    ) -> Result<Vec<u8>, CallFailure> {
        let mut store = machine.store(state);
        let called = async {
            let instance = self.ready.instantiate_async(&mut store).await?;
            let invoke =
                instance.get_typed_func::<(&str, &str), (String,)>(&mut store, &self.invoke)?;
            invoke.call_async(&mut store, (node, request)).await
        }
        .await;
        match called {
            Ok((answer,)) => Ok(answer.into_bytes()),
            Err(error) => Err(store.data().trapped(error)),
        }
    }
}

/// Defines all grantable imports; access was checked earlier.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    linker.instance(LOG)?.func_wrap(
        "write",
        |mut store: StoreContextMut<'_, State>, (text,): (String,)| {
            store.data_mut().log(text.as_bytes());
            Ok(())
        },
    )?;
    linker.instance(CLOCK)?.func_wrap("now-ms", |store: StoreContextMut<'_, State>, (): ()| {
        Ok((store.data().now(),))
    })?;
    linker.instance(RANDOM)?.func_wrap(
        "bytes",
        |_: StoreContextMut<'_, State>, (len,): (u32,)| {
            let mut bytes = vec![0; (len as usize).min(MAX_RANDOM)];
            host::random(&mut bytes)?;
            Ok((bytes,))
        },
    )?;
    linker.instance(HTTP)?.func_wrap_async(
        "fetch",
        |mut store: StoreContextMut<'_, State>, (request,): (String,)| {
            let answer = store.data_mut().fetch(request.into_bytes());
            Box::new(async move { Ok((answer.await,)) })
        },
    )?;
    Ok(linker)
}
