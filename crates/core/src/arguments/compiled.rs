//! Compiling a schema, within the bounds.

use std::fmt::{self, Write as _};

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

use super::{
    bounds::{self, SchemaError, Weight},
    patterns,
};

/// The most bytes of a message: enough for a sentence with a short enumeration.
const MAX_MESSAGE: usize = 400;
/// The most bytes of one compiled pattern, and of its cache of states: `^[A-Za-z0-9_-]{1,256}$`
/// takes 30 KB.
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// A compiled schema, and the cost of its checks.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    pub(super) validator: Validator,
    pub(super) weight: Weight,
    /// The patterns that are not checked.
    pub(super) unchecked: Vec<String>,
}

/// Compiles `schema` within the bounds, without the patterns that do not run in linear time.
pub(super) fn compile(schema: &Value) -> Result<CompiledSchema, SchemaError> {
    let weight = bounds::weigh(schema)?;
    let error = match build(schema) {
        Ok(validator) => return Ok(CompiledSchema { validator, weight, unchecked: Vec::new() }),
        Err(error) => error,
    };
    // An ordinary schema has only supported patterns, so they are checked only after a failure.
    let mut unchecked = patterns::of(schema);
    unchecked.retain(|pattern| build(&json!({ "pattern": pattern })).is_err());
    if unchecked.is_empty() {
        return Err(error);
    }
    let validator = build(&patterns::without(schema, &unchecked))?;
    Ok(CompiledSchema { validator, weight, unchecked })
}

fn build(schema: &Value) -> Result<Validator, SchemaError> {
    let patterns =
        PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let options = jsonschema::options().offline().with_pattern_options(patterns);
    options.should_validate_formats(false).build(schema).map_err(|error| {
        let place = error.instance_path().as_str();
        let place = if place.is_empty() { "its root" } else { place };
        SchemaError(short(format_args!("the schema is not usable at {place}: {}", error.masked())))
    })
}

/// Shortens a long `text`. Cuts while writing, because a validator's message may quote a megabyte.
pub(super) fn short(text: fmt::Arguments<'_>) -> String {
    struct Cut(String);
    impl fmt::Write for Cut {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = MAX_MESSAGE.saturating_sub(self.0.len());
            if text.len() <= room {
                self.0.push_str(text);
                return Ok(());
            }
            self.0.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
            self.0.push('…');
            Err(fmt::Error)
        }
    }
    let mut cut = Cut(String::new());
    match cut.write_fmt(text) {
        Ok(()) | Err(fmt::Error) => cut.0, // the error means that it is full
    }
}
