//! The parts of an upstream that callers cannot use.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much of an upstream reaches no caller, because only tools are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OmittedOffers {
    /// Its resources.
    pub resources: Amount,
    /// Its templates of resources.
    pub resource_templates: Amount,
    /// Its prompts.
    pub prompts: Amount,
    /// The characters of its instructions.
    pub instructions: u64,
    /// Whether it has icons itself.
    pub server_icons: bool,
    /// Its tools with icons.
    pub tool_icons: u64,
    /// Its tools with `_meta`.
    pub tool_meta: u64,
}

/// A number that may be a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The counted entries.
    pub count: u64,
    /// Whether these are all.
    pub complete: bool,
}

// === impl Amount ===

impl Amount {
    /// Entries whose number is unknown.
    pub const UNKNOWN: Self = Self { count: 0, complete: false };

    /// The text for a list of `one`, or of `many`; `None` without entries.
    fn of(self, one: &str, many: &str) -> Option<String> {
        match self {
            Self { count: 0, complete: true } => None,
            Self::UNKNOWN => Some(format!("{many} (not counted)")),
            Self { count, complete } => {
                let bound = if complete { "" } else { "at least " };
                Some(format!("{bound}{}", counted(count, one, many)))
            }
        }
    }
}

impl Default for Amount {
    fn default() -> Self {
        Self { count: 0, complete: true }
    }
}

// === impl OmittedOffers ===

impl OmittedOffers {
    /// Whether callers are offered everything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for OmittedOffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools = |count, what| {
            (count > 0).then(|| format!("{what} of {}", counted(count, "tool", "tools")))
        };
        let parts = [
            self.resources.of("resource", "resources"),
            self.resource_templates.of("resource template", "resource templates"),
            self.prompts.of("prompt", "prompts"),
            (self.instructions > 0).then(|| {
                let length = counted(self.instructions, "character", "characters");
                format!("instructions ({length})")
            }),
            self.server_icons.then(|| "icons of the server".to_owned()),
            tools(self.tool_icons, "icons"),
            tools(self.tool_meta, "_meta"),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    let noun = if count == 1 { one } else { many };
    format!("{} {noun}", grouped(count))
}

/// Formats `number` with spaces between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_what_there_is_and_nothing_else() {
        let all = OmittedOffers {
            resources: Amount { count: 3, complete: true },
            resource_templates: Amount { count: 1, complete: true },
            prompts: Amount { count: 2_000, complete: false },
            instructions: 1_204,
            server_icons: true,
            tool_icons: 1,
            tool_meta: 14,
        };
        assert_eq!(
            all.to_string(),
            "3 resources, 1 resource template, at least 2 000 prompts, \
             instructions (1 204 characters), icons of the server, icons of 1 tool, _meta of 14 tools"
        );
        let unknown = OmittedOffers { prompts: Amount::UNKNOWN, ..OmittedOffers::default() };
        assert_eq!(unknown.to_string(), "prompts (not counted)");
        assert!(!unknown.is_empty());
        assert!(
            OmittedOffers::default().is_empty() && OmittedOffers::default().to_string().is_empty()
        );
    }
}
