//! A build without a WebAssembly engine.

use super::{pack_of_the_tree, refused, spec};

#[tokio::test]
async fn a_pack_with_code_says_that_this_build_has_no_engine() {
    assert_eq!(
        refused(spec(&pack_of_the_tree())).await,
        "unsupported_runtime: this build of toolcrib has no WebAssembly engine; build with \
         `--features wasm`"
    );
}
