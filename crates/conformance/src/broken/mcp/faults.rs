//! The faults of the MCP server.

use crate::broken::host::faults;

faults! {
    /// Faults of an MCP server.
    McpFault {
        /// `server/discover` is an unknown method.
        NoDiscovery = "discover.answered",
        /// `supportedVersions` is a string.
        DiscoveryShape = "discover.shape",
        /// Discovery omits its own revision.
        OwnVersionMissing = "discover.own-version",
        /// Discovery has no server info.
        DiscoveryAnonymous = "discover.server-info",
        /// Discovery has no caching rules.
        DiscoveryUncached = "discover.caching",
        /// Unknown revisions are accepted.
        UnknownVersionServed = "version.unsupported",
        /// The error for an unknown revision has no data.
        SupportedMissing = "version.supported",
        /// The version header may differ from the body.
        VersionMismatchMiscoded = "headers.version-mismatch",
        /// The version header is optional.
        VersionHeaderOptional = "headers.version-missing",
        /// `Mcp-Method` may differ from the body.
        MethodHeaderIgnored = "headers.method-mismatch",
        /// `Mcp-Method` is optional.
        MethodHeaderOptional = "headers.method-missing",
        /// `Mcp-Name` may differ from the body.
        NameHeaderIgnored = "headers.name-mismatch",
        /// `Mcp-Name` is optional.
        NameHeaderOptional = "headers.name-missing",
        /// `Mcp-Name` is compared without decoding.
        NameNotDecoded = "headers.name-encoded",
        /// Answers an unknown session with 404 in the stateless revision.
        StraySession = "headers.session-ignored",
        /// The version in `_meta` is optional.
        MetaVersionOptional = "meta.version",
        /// The capabilities in `_meta` are optional.
        MetaCapabilitiesOptional = "meta.capabilities",
        /// The client info in `_meta` is required.
        ClientInfoNeeded = "meta.client-info",
        /// Every id becomes a string.
        IdIsText = "rpc.id",
        /// A list has no `resultType`.
        NoResultType = "rpc.result-type",
        /// A list has no server info.
        ListAnonymous = "rpc.server-info",
        /// Answers an unknown method with -32600.
        UnknownMethodInvalid = "rpc.unknown-method",
        /// Answers an unknown method with 200.
        UnknownMethodOk = "rpc.unknown-method-status",
        /// `prompts/list` works without the capability.
        PromptsUndeclared = "rpc.not-offered",
        /// The stateless revision has `ping`.
        PingRemains = "rpc.removed-methods",
        /// Answers a non-JSON body with 500.
        NotJsonServerError = "rpc.not-json",
        /// Rejects JSON without a request with -32700.
        NotRequestParseError = "rpc.not-a-request",
        /// Batches are accepted.
        BatchAnswered = "rpc.batch",
        /// Notifications return a body.
        NotificationAnswered = "rpc.notification",
        /// Responses are plain text.
        AnswerIsPlain = "http.response-type",
        /// `Accept` is ignored.
        AcceptIgnored = "http.accept",
        /// A client has to accept event streams.
        EventsRequired = "http.json-alone",
        /// The content type is ignored.
        ContentTypeIgnored = "http.content-type",
        /// `Origin` is ignored.
        OriginIgnored = "http.origin",
        /// `Host` is ignored.
        HostIgnored = "http.host",
        /// The list is called `items`.
        ListRenamed = "tools.list",
        /// Tools exist without the capability.
        ToolsUndeclared = "tools.capability",
        /// A schema has no type.
        SchemaUntyped = "tools.shape",
        /// A schema is invalid.
        SchemaBroken = "tools.schemas",
        /// A name contains a space.
        NameWithBlank = "tools.names",
        /// A name occurs twice.
        NameTwice = "tools.unique",
        /// `x-mcp-header` is on a number.
        ParamHeaderOnNumber = "tools.param-headers",
        /// Every list has another order.
        Unstable = "tools.stable",
        /// A list has no caching rules.
        ListUncached = "tools.caching",
        /// The cursor of the last page leads to itself.
        PagesLoop = "tools.pages",
        /// Answers an unknown cursor with the first page.
        BadCursorIgnored = "tools.bad-cursor",
        /// `content` is a string.
        ContentIsText = "call.result",
        /// A result has no structured content.
        StructuredMissing = "call.structured",
        /// Answers an unknown tool with a result.
        UnknownToolIsResult = "call.unknown-tool",
        /// Answers an unknown tool with -32601.
        UnknownToolIsMethod = "call.unknown-tool-code",
        /// Answers a call without a name with a result.
        NoNameIsResult = "call.malformed",
        /// Arguments are not validated.
        BadArgumentsPass = "call.bad-arguments",
        /// Answers a failing tool with a JSON-RPC error.
        FailureIsError = "call.tool-failure",
        /// The server requests undeclared capabilities.
        RequestsUndeclared = "call.capability",
        /// Answers a request without credentials with 403.
        AnonymousForbidden = "auth.required",
        /// Answers an unknown key with 403.
        UnknownKeyForbidden = "auth.unknown-key",
        /// A 401 has no `WWW-Authenticate`.
        NoChallenge = "auth.challenge",
        /// The resource metadata has no authorization server.
        MetadataWithoutServers = "auth.metadata",
        /// The resource metadata is about another address.
        MetadataOfAnother = "auth.resource",
        /// A 401 names no scope.
        ChallengeWithoutScope = "auth.scope",
        /// `initialize` omits the server info.
        InitializeBare = "initialize.shape",
        /// `initialize` always selects 2025-06-18.
        VersionFixed = "initialize.version",
        /// `initialize` accepts every requested version.
        UnknownVersionEchoed = "initialize.unknown-version",
        /// The result of `ping` has a member.
        PingHasResult = "handshake.ping",
        /// Every version header is accepted in a session.
        SessionVersionIgnored = "handshake.version-header",
        /// The version header is required in a session.
        SessionVersionNeeded = "handshake.no-version-header",
        /// Answers GET with JSON.
        GetIsJson = "handshake.get-stream",
        /// A session id contains a space.
        SessionWithBlank = "session.id",
        /// All handshakes share one session.
        SessionShared = "session.unique",
        /// Answers a request without a session with 500.
        NoSessionServerError = "session.missing",
        /// Answers an unknown session with 400.
        UnknownSessionBadRequest = "session.unknown",
        /// DELETE does not close the session.
        DeleteForgotten = "session.delete",
        /// A session replaces credentials.
        SessionIsCredential = "session.not-a-credential",
        /// Every principal can use every session.
        SessionForAll = "session.foreign",
        /// A subscription starts without the acknowledgement.
        NotAcknowledged = "subscriptions.acknowledged",
    }
}
