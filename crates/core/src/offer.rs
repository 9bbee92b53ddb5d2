//! What sources offer: tools, and the prompts and resources of MCP.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

/// The kinds of offers. Each has its own names, lists and views: a prompt and a tool may have equal
/// names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum OfferKind {
    /// A tool.
    #[default]
    Tool,
    /// A prompt.
    Prompt,
    /// A resource.
    Resource,
}

/// Separates kind and name in a key.
const SEPARATOR: char = '\t';

/// The part of an offer that only its kind has. What all kinds have in common, such as scopes, tier,
/// approval and the schema of the arguments, is in the descriptor of its
/// [`Entry`](crate::catalog::Entry).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Offer {
    /// A tool.
    #[default]
    Tool,
    /// A prompt; the input schema describes its arguments.
    Prompt,
    /// A resource; the upstream's name for it is its URI.
    Resource(Box<ResourceInfo>),
}

/// The form of a resource, as the upstream describes it: untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInfo {
    /// The declared media type, such as `text/plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

// === impl OfferKind ===

impl OfferKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Tool, Self::Prompt, Self::Resource];

    /// The name of the kind in ids and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }

    /// Distinguishes the offers of one source: the upstream's name for a tool, and for another offer
    /// its kind and name. A tool whose name has the form of such a pair gets its kind, too.
    pub fn key(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Tool if pair(name).is_none() => Cow::Borrowed(name),
            _ => Cow::Owned(format!("{self}{SEPARATOR}{name}")),
        }
    }

    /// The kind and the name in a [`key`](Self::key).
    pub fn of_key(key: &str) -> (Self, &str) {
        pair(key).unwrap_or((Self::Tool, key))
    }
}

/// Splits a kind and a name.
fn pair(text: &str) -> Option<(OfferKind, &str)> {
    let (kind, name) = text.split_once(SEPARATOR)?;
    let kind = OfferKind::ALL.into_iter().find(|one| one.as_str() == kind)?;
    Some((kind, name))
}

impl fmt::Display for OfferKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Offer ===

impl Offer {
    /// Its kind.
    pub fn kind(&self) -> OfferKind {
        match self {
            Self::Tool => OfferKind::Tool,
            Self::Prompt => OfferKind::Prompt,
            Self::Resource(_) => OfferKind::Resource,
        }
    }

    /// The media type of its content, as the upstream names it.
    pub fn media_type(&self) -> Option<&str> {
        match self {
            Self::Tool | Self::Prompt => None,
            Self::Resource(info) => info.media_type.as_deref(),
        }
    }

    /// Applies `text` to every text of the upstream in it.
    #[must_use]
    pub fn map_texts(self, text: impl Fn(String) -> String) -> Self {
        match self {
            Self::Resource(mut info) => {
                info.media_type = info.media_type.map(text);
                Self::Resource(info)
            }
            Self::Tool | Self::Prompt => self,
        }
    }

    /// Whether it is a tool.
    pub fn is_tool(&self) -> bool {
        self.kind() == OfferKind::Tool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_of_different_kinds_never_share_a_key() {
        let names = ["greet", "a\tb", "prompt\tgreet", "tool\tgreet", "tool\tprompt\tgreet", ""];
        let mut keys = Vec::new();
        for (kind, name) in OfferKind::ALL.iter().flat_map(|kind| names.map(|name| (*kind, name))) {
            let key = kind.key(name).into_owned();
            assert_eq!(OfferKind::of_key(&key), (kind, name));
            assert!(!keys.contains(&key), "{key:?}");
            keys.push(key);
        }
        assert_eq!(OfferKind::Tool.key("greet"), "greet");
        assert_eq!(OfferKind::of_key("a\tb"), (OfferKind::Tool, "a\tb"));
    }
}
