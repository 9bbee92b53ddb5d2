//! The calls of the steps of a workflow.

use std::sync::Arc;

use async_trait::async_trait;
use toolcrib_core::principal::Principal;

use crate::{
    live_runs::StepContext,
    pipeline::{CallReport, CallRequest, session::InteractionState},
};

/// Makes the calls of steps.
#[async_trait]
pub(crate) trait StepCaller: Send + Sync {
    /// Makes one call in `interaction`, as `principal`. After the interaction is closed, the call
    /// is cancelled.
    async fn call(
        &self,
        interaction: &Arc<InteractionState>,
        principal: &Principal,
        request: CallRequest<'_>,
        step: StepContext,
    ) -> CallReport;
}
