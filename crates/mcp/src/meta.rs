//! Keys of `_meta`.

/// The member of parameters and results that contains the other keys.
pub const META: &str = "_meta";

/// The prefix of every key that the protocol reserves.
pub const RESERVED: &str = "io.modelcontextprotocol/";

/// In a request: the revision that it speaks.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// In a request: the capabilities of its client.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// In a request: the name and version of its client.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// In a result: the name and version of its server.
pub const SERVER_INFO: &str = server_info!();
/// In every message of a subscription: the id of the request that opened it.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// In a request: the token for reports of its progress.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// [`meta::SERVER_INFO`](crate::meta::SERVER_INFO) as a literal, for `concat!`.
#[macro_export]
macro_rules! server_info {
    () => {
        "io.modelcontextprotocol/serverInfo"
    };
}
use crate::server_info;

/// Keys of a toolcrib server for facts without a place in MCP.
pub mod toolcrib {
    /// In a tool: its tool id.
    pub const TOOL_ID: &str = "dev.toolcrib/toolId";
    /// In a tool: the id of its source.
    pub const SOURCE_ID: &str = "dev.toolcrib/sourceId";
    /// In a tool: its OTC id, with the version.
    pub const OTC_ID: &str = "dev.toolcrib/otcId";
    /// In a result: the run that holds the events of the call.
    pub const RUN_ID: &str = "dev.toolcrib/runId";
    /// In a result: the stable code of the reason why the call was refused or failed.
    pub const ERROR: &str = "dev.toolcrib/error";
    /// In a result: the id of the approval request that the call needs.
    pub const APPROVAL_ID: &str = "dev.toolcrib/approvalId";
    /// In a result: the link by which the caller connects the account that the call needs.
    pub const LINK: &str = "dev.toolcrib/link";
    /// In a result: when that request or that link expires.
    pub const EXPIRES_AT: &str = "dev.toolcrib/expiresAt";
}
