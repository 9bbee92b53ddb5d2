//! The arguments of one call, with the forms that several steps need. Each form is made at most once,
//! and only when a step needs it.
//!
//! Invariant (I-9): before the permit nothing is computed whose cost depends on the arguments.

use std::sync::OnceLock;

use serde_json::{Map, Value};
use toolcrib_core::{
    approval::Argument,
    canonical::{self, CanonicalError},
    redact::Redactor,
};

/// The arguments of one call. Anything but an object is a violation of every schema.
pub(crate) struct CallArguments {
    value: Value,
    canonical: OnceLock<Result<Vec<u8>, CanonicalError>>,
    redacted: OnceLock<Value>,
    hash: OnceLock<Result<String, CanonicalError>>,
}

impl From<Value> for CallArguments {
    fn from(value: Value) -> Self {
        let (canonical, redacted, hash) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { value, canonical, redacted, hash }
    }
}

impl CallArguments {
    /// The arguments as the caller sent them.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// The canonical form (RFC 8785) of the exact arguments.
    pub(crate) fn canonical(&self) -> Result<&[u8], &CanonicalError> {
        let bytes = self.canonical.get_or_init(|| canonical::canonical_bytes(&self.value));
        bytes.as_deref()
    }

    /// The arguments with secrets replaced.
    pub(crate) fn redacted(&self) -> &Value {
        self.redacted.get_or_init(|| Redactor::default().value(&self.value))
    }

    /// `argsHash` (RFC 0064 §B): redact, then RFC 8785, then SHA-256, in lower hexadecimal.
    pub(crate) fn hash(&self) -> Result<&str, &CanonicalError> {
        let hash = self
            .hash
            .get_or_init(|| canonical::digest(self.redacted()).map(|digest| digest.to_string()));
        hash.as_deref()
    }

    /// The names and types of the arguments.
    pub(crate) fn shape(&self) -> Vec<Argument> {
        self.value.as_object().map(Argument::shape).unwrap_or_default()
    }

    /// The arguments as an object; empty when they are none, which validation has rejected before.
    pub(crate) fn into_object(self) -> Map<String, Value> {
        match self.value {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        }
    }
}
