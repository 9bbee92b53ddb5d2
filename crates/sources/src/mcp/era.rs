//! The two eras of the protocol, and the `_meta` of their requests.

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value};
use toolcrib_core::call::CallerInput;
use toolcrib_mcp::{meta, revision::MODERN};

/// The era in which requests are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Era {
    /// Stateless, everything in each request.
    Modern,
    /// Before the answer to `initialize`.
    Handshake,
    /// After it, in this version.
    Legacy(String),
}

/// The `_meta` of a request. It is serialized without an intermediate map, because every call has
/// one.
pub(crate) struct Meta<'a> {
    caller: &'a Map<String, Value>,
    token: Option<u64>,
    modern: bool,
    capabilities: Option<&'a Map<String, Value>>,
}

// === impl Era ===

impl Era {
    pub(crate) fn is_modern(&self) -> bool {
        *self == Self::Modern
    }

    /// Creates the `_meta` of a request: the members of the caller, the progress token, and in the
    /// 2026-07-28 era the client's name. This client declares no capabilities, so an upstream sends
    /// it no requests; [`Meta::declaring`] adds the capabilities of a call's caller.
    pub(crate) fn meta<'a>(&self, caller: &'a Map<String, Value>, token: Option<u64>) -> Meta<'a> {
        Meta { caller, token, modern: self.is_modern(), capabilities: None }
    }

    /// The protocol version, for messages.
    pub(crate) fn version(&self) -> &str {
        match self {
            Self::Modern => MODERN,
            Self::Handshake => "not negotiated",
            Self::Legacy(version) => version,
        }
    }
}

// === impl Meta ===

impl<'a> Meta<'a> {
    /// Declares, for this one request, the capabilities of its caller.
    pub(crate) fn declaring(self, input: Option<&'a CallerInput>) -> Self {
        Self { capabilities: input.map(|input| &input.capabilities), ..self }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.caller.is_empty() && self.token.is_none() && !self.modern
    }
}

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        for (key, value) in self.caller {
            // Only this client sets reserved members and the progress token.
            if !key.starts_with(meta::RESERVED) && key != meta::PROGRESS_TOKEN {
                members.serialize_entry(key, value)?;
            }
        }
        if let Some(token) = self.token {
            members.serialize_entry(meta::PROGRESS_TOKEN, &token)?;
        }
        if self.modern {
            members.serialize_entry(meta::PROTOCOL_VERSION, MODERN)?;
            members.serialize_entry(meta::CLIENT_INFO, &CLIENT_INFO)?;
            let none = Map::new();
            let capabilities = self.capabilities.unwrap_or(&none);
            members.serialize_entry(meta::CLIENT_CAPABILITIES, capabilities)?;
        }
        members.end()
    }
}

/// The name and version of this client.
#[derive(Serialize)]
pub(crate) struct ClientInfo {
    name: &'static str,
    version: &'static str,
}

pub(crate) const CLIENT_INFO: ClientInfo =
    ClientInfo { name: "toolcrib", version: env!("CARGO_PKG_VERSION") };
