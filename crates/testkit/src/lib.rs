//! Test fixtures of toolcrib. Never a dependency of a product crate.

pub mod broken;
#[cfg(feature = "gateway")]
pub mod gateway;
pub mod upstream;
