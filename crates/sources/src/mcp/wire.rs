//! The two transports of MCP behind one interface.

use std::sync::Arc;

use super::{call::Call, era::Era, failure::Failure, http::Http, message::Reply, stdio::Stdio};
use crate::process::stderr::ProbeOutcome;

/// The transport of a connection.
pub(crate) enum Wire {
    Stdio(Stdio),
    Http(Arc<Http>),
}

// === impl Wire ===

impl Wire {
    pub(crate) async fn request(&self, call: &Call<'_>) -> Result<Reply, Failure> {
        match self {
            Self::Stdio(stdio) => stdio.request(call).await,
            Self::Http(http) => http.request(call).await,
        }
    }

    pub(crate) async fn notify(&self, era: &Era, message: Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Stdio(stdio) => Ok(stdio.notify(message).await?),
            Self::Http(http) => http.notify(era, message).await,
        }
    }

    /// Whether no more requests can be sent.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Stdio(stdio) => stdio.has_ended(),
            Self::Http(http) => http.end.initialized(),
        }
    }

    /// Whether a child exited during a request. The request may be the cause.
    pub(crate) fn was_interrupted(&self) -> bool {
        match self {
            Self::Stdio(stdio) => stdio.was_interrupted(),
            Self::Http(_) => false,
        }
    }

    /// Completes the probe of the era: the stderr of a child during the probe is kept or dropped.
    pub(crate) fn probe_ended(&self, end: ProbeOutcome) {
        if let Self::Stdio(stdio) = self {
            stdio.probe_ended(end);
        }
    }
}
