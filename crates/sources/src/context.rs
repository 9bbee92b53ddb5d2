//! The environment that a gateway gives to each source.

use std::sync::Arc;

use tokio::runtime::Handle;
use toolcrib_core::{
    clock::Clock,
    id::SourceId,
    source::{SourceLimits, SourceListener},
};
use toolcrib_tasks::{TaskName, Tasks};

/// The environment of one source.
#[derive(Clone)]
pub(crate) struct SourceContext {
    pub(crate) id: SourceId,
    pub(crate) limits: SourceLimits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) listener: Arc<dyn SourceListener>,
    pub(crate) runtime: Handle,
    pub(crate) tasks: Tasks,
}

impl SourceContext {
    /// Notifies the gateway that the list of tools may have changed.
    pub(crate) fn changed(&self) {
        self.listener.changed(&self.id);
    }

    /// The name of the task that supervises the source.
    pub(crate) fn task_name(&self) -> TaskName {
        TaskName::of(crate::SUPERVISOR, self.id.as_str())
    }
}
