//! Error codes of JSON-RPC and MCP, and those of a toolcrib server.

/// The message is not JSON.
pub const PARSE: i64 = -32700;
/// The message is not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// The method is unknown.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are invalid.
pub const INVALID_PARAMS: i64 = -32602;
/// The server failed.
pub const INTERNAL: i64 = -32603;

/// A header differs from the body that it repeats. Only the stateless revision has this code.
pub const HEADER_MISMATCH: i64 = -32020;
/// The client lacks a capability. Only the stateless revision has this code.
pub const MISSING_CAPABILITY: i64 = -32021;
/// The revision is not supported. Only the stateless revision has this code.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// A person has to open an address first. Only the handshake revisions have this code.
pub const URL_ELICITATION: i64 = -32042;

/// Codes of a toolcrib server. They are below -32768, outside every range that JSON-RPC and MCP
/// reserve.
pub mod toolcrib {
    /// The credentials are missing or invalid.
    pub const UNAUTHENTICATED: i64 = -31401;
    /// The caller lacks a scope.
    pub const FORBIDDEN: i64 = -31403;
    /// A limit of the caller is reached.
    pub const RATE_LIMITED: i64 = -31429;
    /// The call could not be recorded or limited, so it did not run.
    pub const NOT_ACCOUNTABLE: i64 = -31503;
}

/// Whether only a server of the stateless revision answers with `code`.
pub fn is_modern(code: i64) -> bool {
    matches!(code, HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION)
}
