//! Lint rules for texts that models and people read: hidden characters, instructions and secrets.

use super::{
    finding::{Findings, Severity},
    poison,
};
use crate::{descriptor::ToolDescriptor, redact::Redactor};

pub(super) fn check(tool: &ToolDescriptor, found: &mut Findings<'_>) {
    match &tool.description {
        None => missing("/description", "the tool has no description", found),
        Some(text) if text.trim().is_empty() => {
            missing("/description", "the description is empty", found);
        }
        Some(text) => one("/description", text, found),
    }
    if let Some(title) = &tool.title {
        one("/title", title, found);
    }
}

fn missing(pointer: &str, message: &str, found: &mut Findings<'_>) {
    found.push(
        pointer,
        "text/missing",
        Severity::Advice,
        message,
        "say in a sentence what the tool does and when to use it",
    );
}

/// Checks one text.
pub(super) fn one(pointer: &str, text: &str, found: &mut Findings<'_>) {
    secret(pointer, text, found);
    poison::one(pointer, text, found);
}

/// Checks for text with the shape of a secret.
pub(super) fn secret(pointer: &str, text: &str, found: &mut Findings<'_>) {
    if Redactor::default().text(text) != text {
        found.push(
            pointer,
            "secret/text",
            Severity::Error,
            "the text contains something that looks like a secret",
            "take it out at the source, and replace the secret if it was a real one",
        );
    }
}
