//! The state of an instance: its limits, and the host functions it was granted.

use std::{collections::BTreeSet, sync::Arc};

use toolcrib_core::{egress::EgressTrail, source::pack::PackGrant};
use wasmtime::ResourceLimiter;

use super::{
    super::{
        context::PackContext,
        error::{PackCode, PackError},
        requirements,
    },
    web::{self, MAX_REQUEST, MAX_REQUESTS},
};
use crate::text::tidy;

/// Largest configurable `memory`, in bytes.
pub(super) const MAX_MEMORY: usize = 1 << 30;
/// Memories per call.
pub(super) const MAX_MEMORIES: usize = 2;
/// Tables per call.
pub(super) const MAX_TABLES: usize = 8;
/// Elements per table.
pub(super) const MAX_TABLE_ELEMENTS: usize = 20_000;
/// Core instances per call; a component has several.
pub(super) const MAX_INSTANCES: usize = 16;
/// Log lines per call.
const MAX_LINES: usize = 100;
/// Bytes per log line.
pub(super) const MAX_LINE: usize = 1024;
/// Largest request for random bytes.
pub(super) const MAX_RANDOM: usize = 64 << 10;

/// The state of one instance.
pub(super) struct State {
    pub(super) limits: Limits,
    pub(super) max_result: usize,
    context: Arc<PackContext>,
    lines: usize,
    trail: EgressTrail,
    requests: usize,
}

/// The limits of one call.
pub(super) struct Limits {
    memory: usize,
    /// Linear memory in use, over all memories of the call.
    held: usize,
    breach: Option<LimitBreach>,
}

/// The limit that the code exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitBreach {
    /// Linear memory.
    Memory,
    /// Elements of a table.
    Table,
}

/// Why a call failed.
pub(super) enum CallFailure {
    /// The code trapped.
    Trap(wasmtime::Error, Option<LimitBreach>),
    /// The code returned invalid output.
    Garbage(&'static str),
    /// The output was too large; the field is its size in bytes.
    TooLarge(usize),
}

/// Fails unless every grant that the code imports is one of `grants`; `what` names the code.
pub(super) fn check_imports(
    imports: impl IntoIterator<Item = Result<PackGrant, &'static str>>,
    grants: &BTreeSet<PackGrant>,
    what: &str,
) -> Result<(), PackError> {
    for import in imports {
        match import {
            Ok(grant) if grants.contains(&grant) => {}
            Ok(grant) => return requirements::unmet(grant, &format!("the {what} imports it")),
            Err(problem) => return PackCode::RequirementUnmet.refuse(problem),
        }
    }
    Ok(())
}

/// The error of `what` whose imports have other types than the host functions.
pub(super) fn unlinked(what: &str, error: &wasmtime::Error) -> PackError {
    tracing::debug!(%error, "the {what} of a pack cannot be linked");
    PackCode::InvalidManifest.error(format!("an import of the {what} has the wrong type"))
}

// === impl State ===

impl State {
    pub(super) fn new(context: &Arc<PackContext>, max_result: usize, trail: EgressTrail) -> Self {
        Self {
            limits: Limits { memory: context.spec.memory, held: 0, breach: None },
            max_result,
            context: Arc::clone(context),
            lines: 0,
            trail,
            requests: 0,
        }
    }

    /// Implements the grant `log`: writes a line at debug level, regardless of the requested level.
    /// The text comes from the pack, so it is treated as a detail.
    pub(super) fn log(&mut self, text: &[u8]) {
        self.lines += 1;
        if self.lines <= MAX_LINES {
            let text = tidy(&String::from_utf8_lossy(text), MAX_LINE);
            tracing::debug!(source = %self.context.source.id, pack_says = text);
        }
    }

    /// Implements the grant `clock`: milliseconds since the epoch.
    pub(super) fn now(&self) -> i64 {
        self.context.source.clock.now().timestamp_millis()
    }

    /// Implements the grant `http`: a future of the response, or of the error, as JSON.
    pub(super) fn fetch(&mut self, request: Vec<u8>) -> impl Future<Output = String> + use<> {
        self.requests += 1;
        let (trail, runtime) = (self.trail.clone(), self.context.source.runtime.clone());
        let egress = match &self.context.egress {
            None => Err("no network access"),
            Some(_) if self.requests > MAX_REQUESTS => Err("too many requests in one call"),
            Some(_) if request.len() > MAX_REQUEST => Err("the request is too large"),
            Some(egress) => Ok(egress.clone()),
        };
        async move {
            match egress {
                Ok(egress) => web::fetch(egress, &runtime, request, trail).await,
                Err(problem) => web::error("fetch_failed", problem),
            }
        }
    }

    /// Attributes `error` to an exceeded limit, if any.
    pub(super) fn trapped(&self, error: wasmtime::Error) -> CallFailure {
        CallFailure::Trap(error, self.limits.breach)
    }
}

/// Implements the grant `random`: fills up to [`MAX_RANDOM`] bytes.
pub(super) fn random(out: &mut [u8]) -> Result<(), wasmtime::Error> {
    if out.len() > MAX_RANDOM {
        return Err(wasmtime::Error::msg("too many random bytes were requested at once"));
    }
    getrandom::fill(out).map_err(|_| wasmtime::Error::msg("no random bytes are available"))
}

// === impl Limits ===

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let held = self.held.saturating_sub(current).saturating_add(desired);
        let is_allowed = held <= self.memory;
        match is_allowed {
            true => self.held = held,
            false => self.breach = Some(LimitBreach::Memory),
        }
        Ok(is_allowed)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let is_allowed = desired <= MAX_TABLE_ELEMENTS;
        if !is_allowed {
            self.breach = Some(LimitBreach::Table);
        }
        Ok(is_allowed)
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}
