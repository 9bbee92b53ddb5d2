//! Log lines as JSON objects: time, level, target, message, the fields of the line, and the ids of the
//! request, the run and the trace that the line belongs to.

use std::{error::Error, fmt};

use chrono::{SecondsFormat, Utc};
use serde_json::{Map, Value};
use toolcrib_gateway::trace::{LogIds, log_ids};
use tracing::{
    Event, Level,
    field::{Field, Visit},
};
use tracing_subscriber::fmt::format::Writer;

/// The members of a line.
struct Members(Map<String, Value>);

/// Writes `event` as a line.
pub(super) fn write(mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
    let metadata = event.metadata();
    let mut members = Members::new(*metadata.level(), metadata.target());
    event.record(&mut members);
    let LogIds { request, run, trace } = log_ids();
    // The line of the access log has its own ids.
    let mut id = |key: &str, value: Option<String>| {
        if let Some(value) = value
            && !members.0.contains_key(key)
        {
            members.put(key, value);
        }
    };
    id("request_id", request.as_ref().and_then(|id| id.to_str().ok()).map(str::to_owned));
    id("run_id", run.map(|run| run.to_string()));
    id("trace_id", trace.map(|trace| trace.to_string()));
    writeln!(writer, "{}", Value::Object(members.0))
}

/// The line of a message of the program itself.
pub(super) fn message(
    level: Level,
    message: &str,
    more: impl IntoIterator<Item = (&'static str, Value)>,
) -> Value {
    let mut members = Members::new(level, "toolcrib");
    members.put("message", message);
    for (key, value) in more {
        members.put(key, value);
    }
    Value::Object(members.0)
}

// === impl Members ===

impl Members {
    fn new(level: Level, target: &str) -> Self {
        let mut members = Self(Map::new());
        members.put("timestamp", Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true));
        members.put("level", level.as_str());
        members.put("target", target);
        members
    }

    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }
}

impl Visit for Members {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field.name(), value.to_string());
    }
}
