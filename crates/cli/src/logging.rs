//! Logging to stderr, so that stdout contains only data.

mod json;

use std::{
    fmt,
    io::{self, IsTerminal as _, Write as _},
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};

use anstream::AutoStream;
use chrono::{DateTime, SecondsFormat, Utc};
use owo_colors::OwoColorize as _;
use serde_json::Value;
use toolcrib_config::LogFormat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Writer},
    },
    registry::LookupSpan,
};

use crate::{args::GlobalOptions, env, text::harmless};

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

/// The stage of the server of this process.
static STAGE: AtomicU8 = AtomicU8::new(Stage::Command as u8);

/// The audience of the program's messages. A log has lines of one format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Messages are for the person who ran the command.
    Command,
    /// A server starts: messages are log lines. The error of a failed start is for people.
    Starting,
    /// A server runs: all messages are log lines.
    Serving,
}

/// Writes lines in the format in force.
struct Lines(Format);

/// Starts logging with the filter of `TOOLCRIB_LOG`. Without it, `-v`, `-q` and `default` set the level.
pub(crate) fn start(global: &GlobalOptions, default: DefaultLevel) {
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
        // Such errors would be printed to the same broken stderr, which panics.
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

/// Makes messages log lines from now on.
pub(crate) fn enter(stage: Stage) {
    STAGE.store(stage as u8, Ordering::Relaxed);
}

/// Writes `message` as a log line if messages are log lines from `stage` on, or lines are JSON.
/// Returns whether it has. The filter of `TOOLCRIB_LOG` does not apply.
pub(crate) fn message(
    level: Level,
    stage: Stage,
    message: &str,
    more: impl IntoIterator<Item = (&'static str, Value)>,
) -> bool {
    if IS_JSON.load(Ordering::Relaxed) {
        let line = json::message(level, message, more);
        writeln!(io::stderr().lock(), "{line}").ok();
        return true;
    }
    if STAGE.load(Ordering::Relaxed) < stage as u8 {
        return false;
    }
    let mut text = message.replace('\n', " ");
    for (key, value) in more {
        match &value {
            // Texts for people, without the escapes of JSON.
            Value::Array(texts) => {
                for part in texts {
                    text.push_str(&format!("; {}", plain(part)));
                }
            }
            Value::String(_) => text.push_str(&format!("; {}", plain(&value))),
            other => text.push_str(&format!(" {key}={other}")),
        }
    }
    let mut out = AutoStream::auto(io::stderr().lock());
    writeln!(out, "{}", line(level, &text, Utc::now())).ok();
    true
}

fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    harmless(&text).replace('\n', " ")
}

/// A line as [`Format`] writes it.
fn line(level: Level, text: &str, now: DateTime<Utc>) -> String {
    let at = now.to_rfc3339_opts(SecondsFormat::Micros, true);
    let name = format!("{:>5}", level.as_str());
    let name = match level {
        Level::ERROR => name.red().to_string(),
        Level::WARN => name.yellow().to_string(),
        Level::INFO => name.green().to_string(),
        _ => name.blue().to_string(),
    };
    format!("{} {name} {}{} {text}", at.dimmed(), "toolcrib".dimmed(), ":".dimmed())
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

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Collects what the subscriber writes.
    #[derive(Clone, Default)]
    struct Buffer(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_message_has_the_format_of_log_lines() {
        let buffer = Buffer::default();
        let written = buffer.clone();
        for ansi in [false, true] {
            let layer = tracing_subscriber::fmt::layer()
                .with_ansi(ansi)
                .event_format(Format::default())
                .with_writer({
                    let buffer = buffer.clone();
                    move || buffer.clone()
                });
            let subscriber = tracing_subscriber::registry().with(layer);
            tracing::subscriber::with_default(subscriber, || {
                tracing::warn!(target: "toolcrib", "low on space");
            });
            let bytes = std::mem::take(&mut *written.0.lock().unwrap());
            let logged = String::from_utf8(bytes).unwrap();
            let at = anstream::adapter::strip_str(&logged).to_string();
            let at = at.split(' ').next().unwrap().parse().unwrap();
            let message = line(Level::WARN, "low on space", at) + "\n";
            let message = match ansi {
                true => message,
                false => anstream::adapter::strip_str(&message).to_string(),
            };
            let plain = |text: &str| anstream::adapter::strip_str(text).to_string();
            assert_eq!(plain(&message), plain(&logged));
            assert_eq!(message.contains('\u{1b}'), logged.contains('\u{1b}'));
        }
    }
}
