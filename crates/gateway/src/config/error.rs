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
}

impl ConfigError {
    /// Creates the error for `file`; sorts the problems by line.
    pub fn new(file: impl Into<String>, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.line);
        Self { file: file.into(), problems }
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

/// Formats as `:LINE: ` and the message, to follow the name of the file.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": ")?;
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        write!(f, "{}", self.message)
    }
}

impl std::error::Error for ConfigError {}
