//! Identifiers. Each is parsed once, at the edge; inner code has no bare strings.

use std::{
    borrow::Borrow,
    sync::{Arc, LazyLock},
};

use serde::Deserialize;

use crate::text_types::checked_text;

/// Why a text is not an identifier. The text itself is never repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {problem}")]
pub struct InvalidId {
    kind: &'static str,
    problem: &'static str,
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and wraps it.
            pub fn parse(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                let text = text.as_ref();
                match $check(text) {
                    Ok(()) => Ok(Self(text.into())),
                    Err(problem) => Err(InvalidId { kind: $kind, problem }),
                }
            }
        }

        checked_text!($name, InvalidId);

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

string_id! {
    /// Host-unique identity of a tool (RFC 0078 §C), for example `mcp:files.read_file`.
    /// 1 to 256 characters of `[A-Za-z0-9._:/-]`, so that byte order is also UTF-16 order.
    ToolId, "tool id", check_tool_id
}
string_id! {
    /// Operator-chosen name of a source: `[a-z0-9_-]`, at most 32 characters, starting and ending
    /// with a letter or digit. `__` is refused because it separates source and tool in wire names.
    SourceId, "source id", check_source_id
}
string_id! {
    /// A tenant. No tenant can learn of another.
    TenantId, "tenant id", check_opaque
}
string_id! {
    /// Stable name of a caller within its tenant. Survives key rotation, sessions and addresses.
    PrincipalId, "principal id", check_opaque
}
string_id! {
    /// Identifier of one stored API key (not the key).
    KeyId, "key id", check_opaque
}
string_id! {
    /// One run: the unit whose events share a sequence (`run-event.schema.json`).
    RunId, "run id", check_opaque
}
string_id! {
    /// Pairs `agent.toolCalled` with `agent.toolReturned` (RFC 0064 §B).
    CallId, "call id", check_opaque
}
string_id! {
    /// One tool session: the calls of one interaction (RFC 0078 §D).
    SessionId, "session id", check_opaque
}
string_id! {
    /// One approval request, and the gate it belongs to (RFC 0051 `gateId`).
    ApprovalId, "approval id", check_opaque
}
string_id! {
    /// Identity of one event.
    EventId, "event id", check_opaque
}
string_id! {
    /// Identity of a stored credential, used in events and redacted texts.
    CredentialId, "credential id", check_opaque
}
string_id! {
    /// Identifier of one saved view or call.
    SavedId, "saved id", check_opaque
}
string_id! {
    /// Operator-chosen name of a credential: `[a-z0-9._-]`, at most 64 characters, starting and
    /// ending with a letter or digit.
    CredentialName, "credential name", check_credential_name
}
string_id! {
    /// The agent of a call; [`AgentId::system`] without one (RFC 0064, ruling 3).
    AgentId, "agent id", check_agent
}

impl TenantId {
    /// The tenant whose log keeps events of no tenant: callers without credentials, and
    /// attempts of one tenant on another's tools. No caller belongs to it.
    pub const OPERATOR: &str = "-";
}

impl AgentId {
    /// The synthetic agent for calls that no agent made.
    pub fn system() -> Self {
        static SYSTEM: LazyLock<AgentId> = LazyLock::new(|| AgentId("core.system".into()));
        SYSTEM.clone()
    }
}

fn check_tool_id(text: &str) -> Result<(), &'static str> {
    match text {
        "" => Err("is empty"),
        _ if text.len() > 256 => Err("is longer than 256 characters"),
        _ if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:/-".contains(&b)) => {
            Err("has a character outside [A-Za-z0-9._:/-]")
        }
        _ => Ok(()),
    }
}

fn check_source_id(text: &str) -> Result<(), &'static str> {
    let bytes = text.as_bytes();
    let edge =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    match text {
        "" => Err("is empty"),
        _ if text.len() > 32 => Err("is longer than 32 characters"),
        _ if text.contains("__") => {
            Err("contains `__`, which separates source and tool in wire names")
        }
        _ if !edge(bytes.first()) || !edge(bytes.last()) => {
            Err("must start and end with a lower-case letter or a digit")
        }
        _ if !bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(b)) =>
        {
            Err("has a character outside [a-z0-9_-]")
        }
        _ => Ok(()),
    }
}

fn check_credential_name(text: &str) -> Result<(), &'static str> {
    let edge =
        |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    match text {
        "" => Err("is empty"),
        _ if text.len() > 64 => Err("is longer than 64 characters"),
        _ if !text.bytes().all(inner) => Err("has a character outside [a-z0-9._-]"),
        _ if !edge(text.bytes().next()) || !edge(text.bytes().last()) => {
            Err("must start and end with a lower-case letter or a digit")
        }
        _ => Ok(()),
    }
}

fn check_opaque(text: &str) -> Result<(), &'static str> {
    match text {
        "" => Err("is empty"),
        _ if text.len() > 128 => Err("is longer than 128 characters"),
        _ if !text.bytes().all(|b| b.is_ascii_graphic()) => {
            Err("has a character other than printable ASCII")
        }
        _ => Ok(()),
    }
}

fn check_agent(text: &str) -> Result<(), &'static str> {
    if text.len() < 3 {
        return Err("is shorter than 3 characters");
    }
    check_opaque(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_checked_at_the_edge() {
        let long = |n| "a".repeat(n);
        for good in ["a", "mcp:files.read_file", "x-host-a-b", "A/b:c", &long(256)] {
            assert_eq!(ToolId::parse(good).map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "a b", "ä", "a\n", "a%2F", "a@1", &long(257)] {
            assert!(ToolId::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "0", "my-files_2", &long(32)] {
            assert!(SourceId::parse(good).is_ok(), "{good:?}");
        }
        for bad in ["", "A", "a__b", "-a", "a-", "_a", "a.b", "a:b", "ä", &long(33)] {
            assert!(SourceId::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["", " ", "a b", "a\u{7f}", "ä", &long(129)] {
            assert!(TenantId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(AgentId::parse("ab").is_err());
        assert_eq!(AgentId::parse("core.system"), Ok(AgentId::system()));
    }

    #[test]
    fn an_error_does_not_repeat_the_text() {
        let error = ToolId::parse("can ary").unwrap_err().to_string();
        assert_eq!(error, "tool id has a character outside [A-Za-z0-9._:/-]");
    }

    #[test]
    fn reading_json_checks_too() {
        assert!(serde_json::from_str::<SourceId>("\"A\"").is_err());
        assert!(serde_json::from_str::<RunId>("\"\"").is_err());
        let id: TenantId = serde_json::from_str("\"acme\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"acme\"");
    }
}
