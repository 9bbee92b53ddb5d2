//! Changes of the text of the configuration file: of a source, a role, a toolset or a rule.
//!
//! Invariant: comments and layout of everything that a change does not name stay as they are.
//! Invariant: a change is only text. Whether the result is valid is decided by the checks of the
//! whole file, and only a [`ConfigFile`] writes.

mod change;
mod diff;
mod document;
mod file;
mod mask;
#[cfg(test)]
mod tests;

#[cfg(test)]
use self::file::BACKUPS;
pub use self::{
    change::{Change, ChangeKind, EditAction, EditError, MAX_CHANGES},
    diff::{DiffLine, Hunk, diff},
    file::{CheckReport, ConfigCheck, ConfigFile, FileContent, FileError, PendingFile, hash},
    mask::settings,
};

/// Returns `text` with `changes`, one after the other.
///
/// # Errors
/// [`EditError`] names the first change that does not fit the text.
pub fn apply(text: &str, changes: &[Change]) -> Result<String, EditError> {
    document::apply(text, changes)
}
