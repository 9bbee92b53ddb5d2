//! Sets of policies: read, checked and evaluated.
//!
//! Invariant (I-82): policies see the shape of arguments and never a value.

#[cfg(feature = "cedar")]
mod cedar;
#[cfg(not(feature = "cedar"))]
mod none;
#[cfg(feature = "cedar")]
mod shape;
#[cfg(feature = "cedar")]
#[cfg(test)]
mod tests;

use std::fmt;

#[cfg(feature = "cedar")]
pub use self::cedar::PolicySet;
#[cfg(not(feature = "cedar"))]
pub use self::none::PolicySet;

/// One file of policies, or of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// The name for the operator.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A problem of the policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The text of the problem.
    pub message: String,
}

impl PolicyProblem {
    fn new(file: &str, line: Option<usize>, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// The decision of the policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDecision {
    /// Whether they permit the call; `None` if that depends on unknown facts.
    pub allowed: Option<bool>,
    /// The deciding policies: their `@id`, or file and line.
    pub by: Vec<String>,
    /// Why some of them could not be evaluated.
    pub errors: Vec<String>,
}
