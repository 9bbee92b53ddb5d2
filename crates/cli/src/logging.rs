//! Logging to stderr, so that stdout contains only data.

mod json;

use std::{
    fmt,
    io::{self, IsTerminal as _, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::Value;
use toolcrib_gateway::config::LogFormat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Writer},
    },
    registry::LookupSpan,
};

use crate::{args::Global, env};

/// The default log level.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DefaultLevel {
    /// For a server: `info`.
    Server,
    /// For other commands: `error`, because their output contains the rest.
    Command,
}

/// Whether lines are JSON. The configuration decides, which is read after the first lines.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Writes lines in the format in force.
struct Lines(Format);

/// Starts logging with the filter of `TOOLCRIB_LOG`. Without it, `-v`, `-q` and `default` set the level.
pub(crate) fn start(global: &Global, default: DefaultLevel) {
    let by_flags = match (global.quiet, global.verbose, default) {
        (true, ..) => "error",
        (false, 0, DefaultLevel::Server) => "info",
        (false, 0, DefaultLevel::Command) => "error",
        (false, 1, _) => "info",
        (false, 2, _) => {
            "info,toolcrib=debug,toolcrib_gateway=debug,toolcrib_sources=debug,toolcrib_store=debug"
        }
        (false, ..) => "debug",
    };
    let wanted = env::variable(env::LOG);
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or(by_flags))
        .unwrap_or_else(|_| EnvFilter::new(by_flags));
    // Fails only if a subscriber is installed already, and no other code installs one.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // They would be printed to the stderr that cannot be written, which panics.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal() && env::variable("NO_COLOR").is_none())
        .event_format(Lines(Format::default()))
        .try_init()
        .ok();
    toolcrib_tasks::panics::install();
}

/// Writes further lines in `format`.
pub(crate) fn use_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Writes `message` as a log line if lines are JSON, and returns whether they are. The filter of
/// `TOOLCRIB_LOG` does not apply.
pub(crate) fn message(
    level: Level,
    message: &str,
    more: impl IntoIterator<Item = (&'static str, Value)>,
) -> bool {
    let is_json = IS_JSON.load(Ordering::Relaxed);
    if is_json {
        let line = json::message(level, message, more);
        writeln!(io::stderr().lock(), "{line}").ok();
    }
    is_json
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match IS_JSON.load(Ordering::Relaxed) {
            true => json::write(writer, event),
            false => self.0.format_event(context, writer, event),
        }
    }
}
