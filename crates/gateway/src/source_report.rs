//! The state of sources, for operators.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolcrib_core::{
    catalog::Tenants,
    clock::Timestamp,
    descriptor::SourceKind,
    id::SourceId,
    source::{OmittedOffers, SourceStatus},
};

mod breaker;

pub use self::breaker::{BreakerReport, BreakerState};

/// The state of one source, as `sources list` shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SourceReport {
    /// Its id.
    pub id: SourceId,
    /// Its kind.
    pub kind: SourceKind,
    /// The tenants that it exists for.
    #[serde(skip, default = "no_tenants")]
    pub tenants: Tenants,
    /// Its state.
    #[serde(flatten)]
    pub status: SourceStatus,
    /// Tools it offers.
    pub tools: usize,
    /// Tools that are left out until their current form is approved.
    pub quarantined: usize,
    /// Its calls and limits.
    pub load: SourceLoad,
    /// How often its background tasks failed in this process; each one was restarted.
    pub task_failures: u64,
    /// The state of its breaker.
    pub breaker: BreakerReport,
    /// When its tools were last discovered; `None` before the first discovery of this process.
    pub discovered_at: Option<Timestamp>,
    /// The last failed discovery in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<SourceError>,
    /// The run times of its calls in this process; absent without a call, and for a tenant while
    /// others call the source too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<SourceLatency>,
    /// The problems of its tools and rules.
    pub problems: Vec<String>,
    /// Whether it needs attention: it is unavailable, or has problems, quarantined tools or failed
    /// tasks. The command line and the console use this.
    #[serde(default)]
    pub needs_attention: bool,
    /// Remarks about its tools that need no action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The parts of its upstream that callers cannot reach; absent if there are no such parts, and
    /// until they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_offered: Option<OmittedOffers>,
}

/// A failed discovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceError {
    /// When it failed.
    pub at: Timestamp,
    /// Why, for the operator.
    pub message: String,
}

/// The run times of a source's calls, of all tenants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceLatency {
    /// Calls that ran.
    pub calls: u64,
    /// The median run time, in milliseconds.
    pub p50_ms: f64,
    /// The 95th percentile, in milliseconds.
    pub p95_ms: f64,
}

/// Why a new discovery is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshRefusal {
    /// The source does not exist for the tenant.
    Unknown,
    /// The last request was moments ago. The time until the next one may follow.
    TooSoon(Duration),
}

/// The calls and limits of a source.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceLoad {
    /// Its calls in this process; absent for a tenant while others call the source too.
    #[serde(flatten)]
    pub calls: Option<CallCounts>,
    /// Limit of concurrent calls to its upstream; further calls wait within their own deadline.
    pub max_concurrency: usize,
    /// The limits of its tools, for each principal and tool; `off` is unlimited.
    pub rates: Vec<String>,
}

/// The calls of a source, of all tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallCounts {
    /// Calls in progress, waiting ones included.
    pub running: u64,
    /// Calls refused in this process because a bucket was empty.
    pub refused_by_rate: u64,
    /// Calls refused in this process because a quota was used up.
    pub refused_by_quota: u64,
    /// Calls refused in this process because the breaker was open.
    pub refused_by_breaker: u64,
}

/// The tenants of a report from JSON, which does not contain them.
fn no_tenants() -> Tenants {
    Tenants::Only(Vec::new())
}

/// Why the lines of a source are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StderrRefusal {
    /// The source does not exist for the tenant, or a rule hides some of its tools from the tenant.
    Unknown,
    /// Other tenants have called it, so lines may contain their arguments.
    Shared,
}
