//! The caller of a request, and the runs that it may see.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    id::RunId,
    principal::Principal,
    store::{RunQuery, RunRecord, RunState},
};
use toolcrib_gateway::{Gateway, audit::FollowedRun};

use super::{
    error::{Code, Failure},
    ids::{self, InvalidRunId},
};
use crate::{
    middleware::{Caller, Refusal, Segment},
    state::AppState,
    visible_runs::{self, RunVisibility},
};

/// The caller of a route, with the gateway.
pub(super) struct Context {
    pub(super) gateway: Gateway,
    pub(super) caller: Arc<Principal>,
}

impl FromRequestParts<AppState> for Context {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Refusal> {
        let Caller(caller) = Caller::from_request_parts(parts, state).await?;
        Ok(Self { gateway: state.gateway.clone(), caller })
    }
}

impl Context {
    /// Reads the id of a run. An id of another tenant is refused without looking for the run.
    pub(super) fn run(&self, segment: &Segment) -> Result<RunId, Failure> {
        ids::read(segment.as_str(), &self.caller.tenant).map_err(|problem| match problem {
            InvalidRunId::Malformed => {
                Failure::parameter("runId", "has an escape that is not `~` and two digits")
            }
            InvalidRunId::Foreign => {
                let message = "the run id is bound to another tenant than that of the caller";
                Failure::new(Code::IdTenantMismatch, message, None)
            }
            InvalidRunId::Unknown => Failure::not_found(),
        })
    }

    /// Permits the caller to follow `run`. Refuses a caller that did not start it and has no scope
    /// for the whole record.
    pub(super) async fn followed(&self, run: RunId) -> Result<FollowedRun, Failure> {
        let sight = visible_runs::sight(&self.gateway, &self.caller, &run).await?;
        let sight = sight.ok_or_else(Failure::not_found)?;
        // A run without a workflow has no state.
        let workflow = self.workflow(run.clone(), RouteScope::AuditRead).await?;
        let has_ended = workflow.is_some_and(|record| record.state != RunState::Running);
        let scope = (sight == RunVisibility::Scope).then_some(RouteScope::AuditRead);
        Ok(FollowedRun { id: run, scope, has_ended })
    }

    /// Finds the newest workflow of `run`, if the caller started it or holds `scope`.
    pub(super) async fn workflow(
        &self,
        run: RunId,
        scope: RouteScope,
    ) -> Result<Option<RunRecord>, Failure> {
        let query = RunQuery { run: Some(run), one_per_run: true, limit: 1, ..self.runs(scope) };
        let runs = self.gateway.workflows().runs(query).await?;
        Ok(runs.into_iter().next())
    }

    /// A query for the runs of workflows that the caller started, or for all of its tenant with
    /// `scope`.
    pub(super) fn runs(&self, scope: RouteScope) -> RunQuery {
        visible_runs::query(&self.caller, scope)
    }
}
