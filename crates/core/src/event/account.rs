//! Events of accounts that people connect to sources. They have no token, link, state or code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    credential::AccountOf,
    id::{CredentialId, PrincipalId, SourceId},
};

/// Payload of `account.connected`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountConnected {
    /// The principal that consented.
    pub principal: PrincipalId,
    /// The source.
    pub source_id: SourceId,
    /// Whose calls use the account.
    pub of: AccountOf,
    /// The id of the grant.
    pub credential_id: CredentialId,
}

/// Payload of `account.disconnected`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountDisconnected {
    /// The principal that disconnected it.
    pub principal: PrincipalId,
    /// The source.
    pub source_id: SourceId,
    /// Whose calls used the account.
    pub of: AccountOf,
    /// The principal of the account, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub holder: Option<PrincipalId>,
    /// The id of the grant.
    pub credential_id: CredentialId,
}

/// Payload of `account.refused`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountRefused {
    /// The principal whose call was refused.
    pub principal: PrincipalId,
    /// The source.
    pub source_id: SourceId,
    /// Whose calls use the account.
    pub of: AccountOf,
    /// The id of the grant.
    pub credential_id: CredentialId,
}
