//! The packs that are compiled into this program.

use toolcrib_sources::BundledPack;

macro_rules! pack {
    ($folder:literal: $($file:literal),+ $(,)?) => {
        BundledPack {
            files: &[$((
                $file,
                include_bytes!(concat!("../packs/", $folder, "/", $file)),
            )),+],
        }
    };
}

/// The bundled packs. An installed pack of the same name takes precedence.
pub(crate) const PACKS: &[BundledPack] = &[pack!(
    "everyday":
    "pack.json",
    "everyday.wasm",
    "schemas/json-diff.input.json",
    "schemas/json-diff.output.json",
    "schemas/cron-next.input.json",
    "schemas/cron-next.output.json",
)];
