//! Test fixtures of toolcrib. Never a dependency of a product crate.

#[cfg(feature = "gateway")]
pub mod gateway;
mod left_out;
pub mod postgres;
pub mod prometheus;
pub mod redis;
pub mod upstream;
