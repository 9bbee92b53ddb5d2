//! The problems of a configuration file.

use std::fmt;

/// Every problem of a configuration, each with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The file's name, as given.
    pub file: String,
    /// The problems, at least one.
    pub problems: Vec<Problem>,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1, if the problem has a place.
    pub line: Option<usize>,
    /// The key, for example `source.files.command`.
    pub key: Option<String>,
    /// The problem and the expected value.
    pub message: String,
    /// Where in the line, for a syntax error.
    pub spot: Option<LinePosition>,
}

/// A place in a line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinePosition {
    /// The column in characters, from 1.
    pub column: usize,
    /// The line with `…` in place of values, which may be secrets, and a line that points at the place.
    pub excerpt: String,
}

impl ConfigError {
    /// Creates the error for `file`; sorts the problems by line.
    pub fn new(file: impl Into<String>, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.line);
        Self { file: file.into(), problems }
    }
}

impl Problem {
    /// Creates a problem without a place in its line.
    pub fn new(line: Option<usize>, key: Option<String>, message: impl Into<String>) -> Self {
        Self { line, key, message: message.into(), spot: None }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{}{problem}", self.file)?;
        }
        Ok(())
    }
}

/// Formats as `:LINE: ` or `:LINE:COLUMN: ` and the message, to follow the name of the file.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(LinePosition { column, .. }) = &self.spot {
                write!(f, ":{column}")?;
            }
        }
        write!(f, ": ")?;
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        write!(f, "{}", self.message)?;
        match &self.spot {
            Some(LinePosition { excerpt, .. }) => write!(f, "\n{excerpt}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigError {}
