//! Events of people who stay signed in to the console.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{clock::Timestamp, id::PrincipalId};

/// Payload of `sign-in.started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInStarted {
    /// The principal that signed in.
    pub principal: PrincipalId,
    /// The id of the session, as in Access. It is not a secret.
    pub session_id: String,
    /// When the session expires at the latest.
    #[schemars(with = "String")]
    pub expires_at: Timestamp,
}

/// Payload of `sign-in.ended`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInEnded {
    /// The principal of the session.
    pub principal: PrincipalId,
    /// The same as in `sign-in.started`.
    pub session_id: String,
    /// The principal that closed the session, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<PrincipalId>,
}
