//! Node packs: loading, rejection, and the limits of their code.

#[cfg(feature = "wasm")]
mod actions;
#[cfg(feature = "wasm")]
mod code;
#[cfg(feature = "wasm")]
mod everyday;
#[cfg(feature = "wasm")]
mod install;
#[cfg_attr(
    not(feature = "wasm"),
    expect(dead_code, reason = "most packs of these tests are WebAssembly")
)]
mod make;
mod remote;
#[cfg(not(feature = "wasm"))]
mod without_wasm;

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use toolcrib_core::{
    call::Outcome,
    source::{
        SourceLimits,
        pack::{PackGrant, PackLocation, PackOffer, PackSpec, PackVerification},
    },
};

use crate::rig::Rig;

/// The pack in this repository.
fn pack_of_the_tree() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/packs/everyday")
}

fn spec(path: &Path) -> PackSpec {
    PackSpec {
        location: PackLocation::Path(path.to_owned()),
        offers: PackOffer::Nodes,
        nodes: Vec::new(),
        grants: BTreeSet::new(),
        allow: Default::default(),
        memory: 4 << 20,
        verify: PackVerification::default(),
    }
}

fn granted(path: &Path, grants: &[PackGrant]) -> PackSpec {
    PackSpec { grants: grants.iter().copied().collect(), ..spec(path) }
}

fn structured(outcome: &Outcome) -> Value {
    assert!(!outcome.is_error, "{}", outcome.content);
    serde_json::from_str(outcome.structured.as_ref().unwrap().get()).unwrap()
}

/// Returns the reason why the pack is rejected.
async fn refused(spec: PackSpec) -> String {
    let rig = Rig::pack(spec, SourceLimits::default());
    let reason = rig.degraded().await.detail.unwrap();
    assert!(rig.source.check_reachable().is_err(), "I-113");
    reason
}
