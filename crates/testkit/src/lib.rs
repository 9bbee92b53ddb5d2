//! Test fixtures of toolcrib. Never a dependency of a product crate.

#[cfg(feature = "gateway")]
pub mod gateway;
pub mod upstream;
