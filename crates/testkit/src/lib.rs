//! Test fixtures of toolcrib. Never a dependency of a product crate.

pub mod certificates;
pub mod faketime;
#[cfg(feature = "gateway")]
pub mod gateway;
mod left_out;
pub mod postgres;
pub mod prometheus;
pub mod redis;
pub mod upstream;

pub use left_out::left_out;
