//! Changes of the text of the configuration file: of a source, a role, a toolset or a rule.
//!
//! Invariant: a change keeps the comments and the layout of everything that it does not name.
//! Invariant: a change is only text. The checks of the whole file decide whether the result is
//! valid, and only a [`ConfigFile`] writes.

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

/// Applies `changes` to `text` in order.
///
/// # Errors
/// [`EditError`] names the first change that does not fit the text.
pub fn apply(text: &str, changes: &[Change]) -> Result<String, EditError> {
    document::apply(text, changes)
}
