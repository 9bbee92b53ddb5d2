//! The state of an instance: its limits, and the host functions it was granted.

use std::sync::Arc;

use toolcrib_core::{clock::Clock, egress::EgressTrail, id::SourceId};
use wasmtime::ResourceLimiter;

use super::{
    Host, Stopped,
    web::{self, MAX_REQUEST, MAX_REQUESTS, Web},
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
    source: SourceId,
    clock: Arc<dyn Clock>,
    lines: usize,
    web: Option<Web>,
    trail: EgressTrail,
    requests: usize,
}

/// The limits of one call.
pub(super) struct Limits {
    memory: usize,
    /// Linear memory in use, over all memories of the call.
    held: usize,
    breach: Option<Breach>,
}

/// The limit that the code exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breach {
    /// Linear memory.
    Memory,
    /// Elements of a table.
    Table,
}

// === impl State ===

impl State {
    pub(super) fn new(host: &Host, max_result: usize, trail: EgressTrail) -> Self {
        Self {
            limits: Limits { memory: host.memory, held: 0, breach: None },
            max_result,
            source: host.source.clone(),
            clock: Arc::clone(&host.clock),
            lines: 0,
            web: host.web.clone(),
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
            tracing::debug!(source = %self.source, pack_says = text);
        }
    }

    /// Implements the grant `clock`: returns milliseconds since the epoch.
    pub(super) fn now(&self) -> i64 {
        self.clock.now().timestamp_millis()
    }

    /// Implements the grant `http`: returns a future of the response, or of the error, as JSON.
    pub(super) fn fetch(&mut self, request: Vec<u8>) -> impl Future<Output = String> + use<> {
        self.requests += 1;
        let trail = self.trail.clone();
        let web = match &self.web {
            None => Err("no network access"),
            Some(_) if self.requests > MAX_REQUESTS => Err("too many requests in one call"),
            Some(_) if request.len() > MAX_REQUEST => Err("the request is too large"),
            Some(web) => Ok(web.clone()),
        };
        async move {
            match web {
                Ok(web) => web.fetch(request, trail).await,
                Err(problem) => web::error("fetch_failed", problem),
            }
        }
    }

    /// Attributes `error` to an exceeded limit, if any.
    pub(super) fn stopped(&self, error: wasmtime::Error) -> Stopped {
        Stopped::Trap(error, self.limits.breach)
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
        if held > self.memory {
            self.breach = Some(Breach::Memory);
            return Ok(false);
        }
        self.held = held;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > MAX_TABLE_ELEMENTS {
            self.breach = Some(Breach::Table);
            return Ok(false);
        }
        Ok(true)
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
