//! Checks to come.
use crate::conformance::Check;
pub(super) const CHECKS: &[Check] = &[];
