//! The view of operators on a gateway: metrics that are measured on each read, and a report for
//! people.

use std::time::Duration;

use chrono::DateTime;
use serde::Serialize;
use toolcrib_core::clock::Timestamp;

use crate::{gateway::Gateway, source_report::BreakerState};

/// Time limit of the store; after it, its last measurements are shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// The state of a gateway. It contains no name of a source, tenant, principal or tool.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The version and the target of the program.
    pub build: BuildDiagnosis,
    /// When the gateway was started.
    pub started_at: Timestamp,
    /// The current configuration.
    pub configuration: ConfigurationDiagnosis,
    /// The offered tools.
    pub catalog: CatalogDiagnosis,
    /// The numbers of sources by state.
    pub sources: SourcesDiagnosis,
    /// The load and the size of the store.
    pub store: StoreDiagnosis,
    /// The progress of signing.
    pub record: RecordDiagnosis,
    /// The number of pending approvals.
    pub approvals: ApprovalsDiagnosis,
}

/// The version and the target of the program.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildDiagnosis {
    /// Its version.
    pub version: &'static str,
    /// The operating system of the build.
    pub os: &'static str,
    /// The processor of the build.
    pub arch: &'static str,
}

/// The current configuration.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationDiagnosis {
    /// Its number: the first one is 1.
    pub generation: u64,
    /// When it was applied.
    pub applied_at: Option<Timestamp>,
    /// Changed configurations that were not applied.
    pub refused: u64,
}

/// The offered tools.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogDiagnosis {
    /// The number of the catalog, which rises with each change.
    pub generation: u64,
    /// The number of tools.
    pub tools: usize,
}

/// The numbers of sources by state.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourcesDiagnosis {
    /// Sources of the configuration.
    pub configured: usize,
    /// Connected sources whose tools could be listed.
    pub up: usize,
    /// Sources with an open circuit breaker.
    pub breakers_open: usize,
}

/// The load and the size of the store.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreDiagnosis {
    /// Whether it was measured within a second. If not, the other values are older.
    pub answers: bool,
    /// Its size; 0 for a store in memory.
    pub bytes: i64,
    /// Transactions that wait for its writer.
    pub queue: i64,
    /// Free disk space; `None` if it is on another machine.
    pub free_bytes: Option<i64>,
    /// Whether refused calls are not recorded, to save space.
    pub low_on_space: bool,
}

/// The progress of signing.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordDiagnosis {
    /// Events without a checkpoint.
    pub unsigned_events: i64,
    /// The time of this server's last checkpoint.
    pub last_checkpoint_at: Option<Timestamp>,
    /// Whether calls are refused, because signed events are missing.
    pub refuses_calls: bool,
}

/// The number of pending approvals.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalsDiagnosis {
    /// Pending approvals.
    pub pending: i64,
}

// === impl Gateway ===

impl Gateway {
    /// All metrics as OpenMetrics text, with current measurements.
    pub async fn metrics_text(&self) -> String {
        self.measure().await;
        self.metrics().encode()
    }

    /// The state of this gateway.
    pub async fn diagnose(&self) -> Diagnosis {
        let answers = self.measure().await;
        let read = self.metrics().readings();
        let connections = self.supply().connections();
        let snapshot = self.snapshot();
        let breakers = snapshot.breakers.values().map(|breaker| breaker.report().state);
        let at = |seconds: i64| DateTime::from_timestamp(seconds, 0).filter(|_| seconds > 0);
        Diagnosis {
            build: BuildDiagnosis {
                version: env!("CARGO_PKG_VERSION"),
                os: std::env::consts::OS,
                arch: std::env::consts::ARCH,
            },
            started_at: read.started,
            configuration: ConfigurationDiagnosis {
                generation: read.applications,
                applied_at: at(read.applied),
                refused: read.failures,
            },
            catalog: CatalogDiagnosis {
                generation: snapshot.catalog.generation().0,
                tools: snapshot.catalog.entries().len(),
            },
            sources: SourcesDiagnosis {
                configured: connections.len(),
                up: connections.iter().filter(|(_, is_up)| *is_up).count(),
                breakers_open: breakers.filter(|state| *state == BreakerState::Open).count(),
            },
            store: StoreDiagnosis {
                answers,
                bytes: read.bytes,
                queue: read.waiting,
                free_bytes: Some(read.free).filter(|free| *free > 0),
                low_on_space: self.audit().is_low_on_space(),
            },
            record: RecordDiagnosis {
                unsigned_events: read.unsigned,
                last_checkpoint_at: at(read.checkpoint),
                refuses_calls: self.audit().readiness().refuses_calls(),
            },
            approvals: ApprovalsDiagnosis { pending: read.pending },
        }
    }

    /// Measures the sources and the store; `false` if the store did not answer in time.
    async fn measure(&self) -> bool {
        let services = &self.inner.services;
        let metrics = &*services.metrics;
        metrics.up(self.supply().connections().into_iter());
        let store = async {
            match services.storage.measure().await {
                Ok(measured) => metrics.measured(measured),
                Err(error) => {
                    tracing::debug!(%error, "the store could not be measured");
                    return false;
                }
            }
            true
        };
        let approvals = async {
            match self.approvals().pending().await {
                Ok(pending) => metrics.pending(pending),
                Err(error) => {
                    tracing::debug!(%error, "approvals could not be counted");
                    return false;
                }
            }
            true
        };
        let measured = async { tokio::join!(store, approvals) };
        let measured = tokio::time::timeout(PATIENCE, measured).await;
        matches!(measured, Ok((true, true)))
    }
}
