//! The events of calls and denials.
//!
//! Invariant (I-20): no type here has a field for arguments or results.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use toolcrib_core::{
    authorize::DenialReason,
    call::{CallError, Outcome, UpstreamError, UpstreamErrorKind},
    catalog::Entry,
    clock::Clock,
    egress::EgressDecided,
    event::{
        AuthorizationDecided, CallStatus, EventBody, EventError, NewEvent, ToolCalled, ToolReturned,
    },
    id::{AgentId, EventId, RunId, TenantId},
};

use super::{
    decision::{Decision, names},
    recorded::CallIdentity,
    refusals::{Refusal, RefusalSubject, Row},
};
use crate::ids::new_id;

/// The action of a call.
pub(crate) const CALL: &str = "tools:call";
/// The action of reading about a tool.
pub(crate) const READ: &str = "tools:read";

/// Makes events with the time of the gateway.
pub(super) struct Events {
    pub(super) clock: Arc<dyn Clock>,
}

impl Events {
    pub(super) fn event(
        &self,
        tenant: TenantId,
        run: RunId,
        body: EventBody,
        cause: Option<EventId>,
    ) -> NewEvent {
        NewEvent {
            event_id: new_id(),
            tenant,
            run_id: run,
            body,
            timestamp: self.clock.now(),
            causation_id: cause,
        }
    }

    pub(super) fn called(&self, call: &CallIdentity) -> NewEvent {
        let body = EventBody::ToolCalled(ToolCalled {
            agent_id: call.agent.clone(),
            tool_name: call.entry.id.to_string(),
            call_id: call.call.clone(),
            args_hash: call.args_hash.clone(),
            principal: call.principal.clone(),
            actors: call.actors.clone(),
            transport: call.entry.transport,
        });
        self.event(call.tenant.clone(), call.run.clone(), body, call.cause.clone())
    }

    pub(super) fn returned(
        &self,
        call: &CallIdentity,
        cause: EventId,
        result: Result<&Outcome, &CallError>,
        duration: Option<Duration>,
    ) -> NewEvent {
        // Every failure has an error (RFC 0064 §F).
        let described = |error: &CallError| EventError {
            code: error.code().to_owned(),
            message: error.to_string(),
        };
        let (status, error) = match result {
            Ok(outcome) if !outcome.is_error => (CallStatus::Ok, None),
            Ok(_) => (CallStatus::Error, Some(tool_failed())),
            // A connection was never made: a gate of this host (RFC 0076 §B).
            Err(error @ CallError::Upstream(UpstreamError { kind, .. }))
                if *kind == UpstreamErrorKind::EgressRefused =>
            {
                (CallStatus::Forbidden, Some(described(error)))
            }
            Err(error @ CallError::Forbidden { .. }) => {
                (CallStatus::Forbidden, Some(described(error)))
            }
            Err(error @ CallError::RateLimited { .. }) => {
                (CallStatus::RateLimited, Some(described(error)))
            }
            Err(error) => (CallStatus::Error, Some(described(error))),
        };
        let (agent, tool) = (call.agent.clone(), call.entry.id.as_str());
        let end = ToolReturned {
            duration_ms: duration.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            error,
            principal: Some(call.principal.clone()),
            ..ToolReturned::new(agent, tool, call.call.clone(), status)
        };
        let body = EventBody::ToolReturned(end);
        self.event(call.tenant.clone(), call.run.clone(), body, Some(cause))
    }

    /// The events of a call refused before its start.
    pub(super) fn refused(
        &self,
        call: &CallIdentity,
        error: &CallError,
        denied: Option<&DenialReason>,
        egress: Vec<EgressDecided>,
    ) -> Vec<NewEvent> {
        let opening = self.called(call);
        let closing = self.returned(call, opening.event_id.clone(), Err(error), None);
        let cause = opening.event_id.clone();
        let mut events = vec![opening];
        if let Some(denied) = denied {
            let decision = Decision {
                tenant: call.tenant.clone(),
                principal: call.principal.clone(),
                action: CALL.into(),
                resource: call.entry.id.as_str().into(),
                reason: denied.reason().into(),
                missing: names(denied.missing()),
            };
            let decided = self.decided(decision, call.run.clone(), 1);
            events.push(NewEvent { causation_id: Some(cause.clone()), ..decided });
        }
        events.extend(egress.into_iter().map(|decided| {
            let body = EventBody::EgressDecided(decided);
            self.event(call.tenant.clone(), call.run.clone(), body, Some(cause.clone()))
        }));
        events.push(closing);
        events
    }

    /// An event for `count` denials of one kind.
    fn decided(&self, decision: Decision, run: RunId, count: u64) -> NewEvent {
        let Decision { tenant, principal, action, resource, reason, missing } = decision;
        let body = EventBody::AuthorizationDecided(AuthorizationDecided {
            principal,
            action: action.into(),
            resource: resource.into(),
            allowed: false,
            reason: Some(reason.into()),
            missing: missing.into_iter().map(Into::into).collect(),
            repeated: count.checked_sub(1).filter(|others| *others > 0),
        });
        self.event(tenant, run, body, None)
    }

    pub(super) fn of_refusal(&self, refusal: &Refusal) -> Vec<NewEvent> {
        let (decisions, denied) = refusal.decisions();
        let call = match &refusal.subject {
            RefusalSubject::Miss(missed) => missed.1.as_ref().zip(missed.0.entry.as_ref()),
            RefusalSubject::Known { .. } => None,
        };
        let mut events = match (call, denied) {
            // For its tenant a denied call is also a pair (RFC 0064).
            (Some((missed, entry)), Some(denied)) => {
                let call = CallIdentity {
                    tenant: refusal.tenant.clone(),
                    principal: refusal.principal.clone(),
                    actors: missed.actors.clone(),
                    agent: AgentId::system(),
                    run: missed.run.clone(),
                    call: missed.call.clone(),
                    args_hash: None,
                    entry: Arc::clone(entry),
                    cause: missed.cause.clone(),
                };
                self.refused(&call, &forbidden(entry, &denied), Some(&denied), Vec::new())
            }
            _ => {
                decisions.into_iter().map(|decision| self.decided(decision, new_id(), 1)).collect()
            }
        };
        for event in &mut events {
            event.timestamp = refusal.at;
        }
        events
    }

    /// The events of counted refusals. Refusals that the tenant must not distinguish are one event.
    pub(super) fn of_rows(&self, rows: &[Row]) -> Vec<NewEvent> {
        let mut counts: BTreeMap<Decision, u64> = BTreeMap::new();
        for row in rows {
            for decision in row.first.decisions().0 {
                let count = counts.entry(decision).or_default();
                *count = count.saturating_add(row.count);
            }
        }
        let event = |(decision, count)| self.decided(decision, new_id(), count);
        counts.into_iter().map(event).collect()
    }
}

/// The error for a caller without access to `entry`.
pub(crate) fn forbidden(entry: &Entry, denied: &DenialReason) -> CallError {
    let required = match denied {
        // A scope would not help.
        DenialReason::Policy | DenialReason::Arguments | DenialReason::Account => None,
        _ => entry.tool.required_scopes(),
    };
    let required = required.unwrap_or_default().to_vec();
    CallError::Forbidden { tool: entry.id.clone(), required }
}

/// The tool's message is content, so the record has this text instead.
fn tool_failed() -> EventError {
    EventError {
        code: "tool_execution_failed".to_owned(),
        message: "the tool reported a failure".to_owned(),
    }
}
