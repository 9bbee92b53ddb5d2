//! The one thing that a workflow needs from the pipeline.

use std::sync::Arc;

use async_trait::async_trait;
use toolcrib_core::principal::Principal;

use super::live::StepContext;
use crate::pipeline::{CallReport, CallRequest, session::InteractionState};

/// Makes the calls of steps.
#[async_trait]
pub(crate) trait Caller: Send + Sync {
    /// Makes one call in `interaction`, as `principal`. A call after the end of the interaction is
    /// cancelled.
    async fn call(
        &self,
        interaction: &Arc<InteractionState>,
        principal: &Principal,
        request: CallRequest<'_>,
        step: StepContext,
    ) -> CallReport;
}
