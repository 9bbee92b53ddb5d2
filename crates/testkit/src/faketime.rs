//! The library that changes the clock of a program (`LD_PRELOAD`).

use crate::left_out::left_out;

/// Returns the path of the library; `None` when it is not installed.
///
/// # Panics
/// When it is not installed and `CI` is `true`.
pub fn library() -> Option<String> {
    let library = std::env::var("TOOLCRIB_FAKETIME").ok();
    if library.is_none() {
        left_out("TOOLCRIB_FAKETIME is not set; run `cargo xtask test`");
    }
    library
}
