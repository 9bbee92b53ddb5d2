//! Events of clients that act for people through this server's authorization server. They have no
//! token, code or state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{CredentialId, PrincipalId},
    principal::ClientWay,
};

/// Payload of `client.signed-in`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientSignedIn {
    /// The person that the client acts for.
    pub principal: PrincipalId,
    /// The id of the client: an address, or a name that this server or its operator gave.
    pub client_id: String,
    /// The id of the grant.
    pub grant_id: CredentialId,
    /// How the client got the grant.
    pub by: ClientWay,
}

/// Payload of `client.signed-out`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientSignedOut {
    /// The person that the client acted for.
    pub principal: PrincipalId,
    /// The id of the client.
    pub client_id: String,
    /// The id of the grant.
    pub grant_id: CredentialId,
    /// Why the grant ended.
    pub cause: ClientEnd,
    /// The principal that ended it, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub by: Option<PrincipalId>,
}

/// Why the grant of a client ended before its expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientEnd {
    /// The client, the person or an administrator revoked it.
    Revoked,
    /// A code or a refresh token was used again, so it may have been stolen.
    Reused,
    /// The identity provider does not vouch for the person any more.
    Refused,
    /// The person has too many grants, and this one was the oldest.
    Replaced,
}

// === impl ClientEnd ===

impl ClientEnd {
    /// The word in events.
    pub fn word(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Reused => "reused",
            Self::Refused => "refused",
            Self::Replaced => "replaced",
        }
    }
}
