//! Rates and quotas of calls.

pub(crate) mod quota;
pub mod rate_limit;
pub(crate) mod shared;
