//! Calls of one caller that belong together, as a stateful MCP session makes them.
//!
//! Invariant: each call is authorized for the caller of that call; an interaction gives no rights.

use std::sync::Arc;

use async_trait::async_trait;
use toolcrib_core::{
    call::CallError,
    event::SessionOutcome,
    id::{RunId, SessionId},
    principal::Principal,
};

use super::{
    CallReport, CallRequest, Pipeline,
    session::{InteractionState, TooManyInteractions},
};
use crate::{audit::CALL, ids::new_id, live_runs::StepContext, pipeline::step_caller::StepCaller};

/// Several calls of one caller that belong together.
///
/// Call [`close`](Self::close) at its end. Dropping it instead closes its tool sessions as
/// `cancelled`, in the background.
pub struct Interaction {
    pipeline: Arc<Pipeline>,
    state: Arc<InteractionState>,
}

impl Pipeline {
    /// Starts an interaction of `principal` in `run`.
    ///
    /// # Errors
    /// [`TooManyInteractions`].
    pub(crate) fn interaction(
        self: &Arc<Self>,
        run: RunId,
        principal: &Principal,
    ) -> Result<Interaction, TooManyInteractions> {
        let state = self.interactions.start(run, principal)?;
        Ok(Interaction { pipeline: Arc::clone(self), state })
    }

    /// Makes one call in an interaction, possibly as a step of a workflow.
    async fn call_within(
        &self,
        interaction: &Arc<InteractionState>,
        principal: &Principal,
        request: CallRequest<'_>,
        step: Option<StepContext>,
    ) -> CallReport {
        let run = interaction.run_id().clone();
        let error = if !interaction.belongs_to(principal) {
            self.audit.denials().unknown(principal, CALL);
            CallError::NoSuchTool
        } else if let Some(guard) = interaction.begin() {
            return self.call_in(run, Some(guard), principal, request, step).await;
        } else {
            CallError::Cancelled
        };
        let call = step.map_or_else(new_id, |step| step.call);
        CallReport::failed(run, call, error)
    }
}

#[async_trait]
impl StepCaller for Pipeline {
    async fn call(
        &self,
        interaction: &Arc<InteractionState>,
        principal: &Principal,
        request: CallRequest<'_>,
        step: StepContext,
    ) -> CallReport {
        self.call_within(interaction, principal, request, Some(step)).await
    }
}

impl Interaction {
    /// The run that contains its events.
    pub fn run_id(&self) -> &RunId {
        self.state.run_id()
    }

    /// The `sessionId` of the open tool sessions, or of the next ones.
    pub fn session_id(&self) -> SessionId {
        self.state.session_id()
    }

    /// Whether this is an interaction of `principal`.
    pub fn belongs_to(&self, principal: &Principal) -> bool {
        self.state.belongs_to(principal)
    }

    /// Makes one call in this interaction, with the current scopes of `principal`. A call by
    /// another principal gets the response for an unknown tool, and a call after the end is
    /// cancelled.
    pub async fn call(&self, principal: &Principal, request: CallRequest<'_>) -> CallReport {
        self.pipeline.call_within(&self.state, principal, request, None).await
    }

    /// Closes the interaction: cancels the calls in flight, waits (for seconds at most) until they
    /// are recorded, and closes every tool session with `outcome`. Only the first call counts.
    pub async fn close(&self, outcome: SessionOutcome) {
        self.state.close(outcome).await;
    }
}

impl Drop for Interaction {
    fn drop(&mut self) {
        self.state.abandon();
    }
}
