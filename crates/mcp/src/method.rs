//! Names of methods.

/// Starts a handshake.
pub const INITIALIZE: &str = "initialize";
/// Completes a handshake.
pub const INITIALIZED: &str = "notifications/initialized";
/// Checks that the other side answers; of the handshake revisions alone.
pub const PING: &str = "ping";
/// Lists the revisions and capabilities of a server; of the stateless revision alone.
pub const DISCOVER: &str = "server/discover";
pub const LIST_TOOLS: &str = "tools/list";
pub const LIST_RESOURCES: &str = "resources/list";
pub const LIST_RESOURCE_TEMPLATES: &str = "resources/templates/list";
pub const LIST_PROMPTS: &str = "prompts/list";
pub const CALL_TOOL: &str = "tools/call";
/// Subscribes to changes; of the stateless revision alone.
pub const LISTEN: &str = "subscriptions/listen";
/// Confirms a subscription, as the first message on its stream.
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Announces that the list of tools has changed.
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
/// Reports the progress of a request.
pub const PROGRESS: &str = "notifications/progress";
/// Cancels a request whose answer is not needed any more.
pub const CANCELLED: &str = "notifications/cancelled";
/// Announces that what a URL was opened for is done; of the handshake revisions alone.
pub const ELICITED: &str = "notifications/elicitation/complete";
/// Requests input from the person at the client.
pub const ELICIT: &str = "elicitation/create";

/// Returns the parameter of `method` that `Mcp-Name` repeats, if any.
pub fn named_parameter(method: &str) -> Option<&'static str> {
    match method {
        CALL_TOOL | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    }
}
