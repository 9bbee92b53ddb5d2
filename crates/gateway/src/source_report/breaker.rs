//! The state of a breaker, for operators.

use serde::{Deserialize, Serialize};

/// The state of the breaker of a source.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BreakerReport {
    /// Whether calls go through.
    pub state: BreakerState,
    /// Failures in a row that count towards opening it.
    pub failures: usize,
    /// How often it has opened in this process.
    pub opened: u64,
    /// Callers for which alone it is open, because their calls failed.
    pub open_to_callers: usize,
    /// When it admits calls again; `None` unless it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl BreakerReport {
    /// Returns only the state, without the figures about callers.
    pub(crate) fn without_callers(self) -> Self {
        Self { failures: 0, opened: 0, open_to_callers: 0, ..self }
    }
}

/// Whether calls are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// The source has no breaker.
    Off,
    /// Calls go through.
    Closed,
    /// One call is tried, and its result decides.
    HalfOpen,
    /// Calls fail immediately.
    Open,
}

impl BreakerState {
    /// As a number for a gauge.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Off | Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open => 2,
        }
    }
}
