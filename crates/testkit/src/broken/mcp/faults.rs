//! What the host can do wrong.

use crate::broken::faults;

faults! {
    /// What an MCP server can do wrong.
    McpFault {
        /// `server/discover` is not found.
        NoDiscovery,
        /// `supportedVersions` is a text.
        DiscoveryShape,
        /// Discovery does not name the revision that it is of.
        OwnVersionMissing,
        /// Discovery does not say whose it is.
        DiscoveryAnonymous,
        /// Discovery does not say how long it holds.
        DiscoveryUncached,
        /// Unknown revisions are served.
        UnknownVersionServed,
        /// The refusal of a revision names none.
        SupportedMissing,
        /// The version in the header may differ.
        VersionHeaderIgnored,
        /// The version in the header may be missing.
        VersionHeaderOptional,
        /// `Mcp-Method` may differ.
        MethodHeaderIgnored,
        /// `Mcp-Method` may be missing.
        MethodHeaderOptional,
        /// `Mcp-Name` may differ.
        NameHeaderIgnored,
        /// `Mcp-Name` may be missing.
        NameHeaderOptional,
        /// `Mcp-Name` is compared as it came.
        NameNotDecoded,
        /// A stray session is not found.
        StraySession,
        /// `_meta` needs no version.
        MetaVersionOptional,
        /// `_meta` needs no capabilities.
        MetaCapabilitiesOptional,
        /// `_meta` needs a client.
        ClientInfoNeeded,
        /// Every id is a text.
        IdIsText,
        /// A list has no `resultType`.
        NoResultType,
        /// A list does not say whose it is.
        ListAnonymous,
        /// An unknown method is -32600.
        UnknownMethodInvalid,
        /// An unknown method is 200.
        UnknownMethodOk,
        /// `prompts/list` is answered, and not declared.
        PromptsUndeclared,
        /// `ping` is still there.
        PingRemains,
        /// A body that is no JSON is 500.
        NotJsonServerError,
        /// A body that is no request is -32700.
        NotRequestParseError,
        /// Batches are answered.
        BatchAnswered,
        /// Notifications are answered.
        NotificationAnswered,
        /// Answers are plain text.
        AnswerIsPlain,
        /// `Accept` does not matter.
        AcceptIgnored,
        /// The content type does not matter.
        ContentTypeIgnored,
        /// `Origin` does not matter.
        OriginIgnored,
        /// `Host` does not matter.
        HostIgnored,
        /// GET is JSON.
        GetIsJson,
        /// The list is called `items`.
        ListRenamed,
        /// Tools are there and not declared.
        ToolsUndeclared,
        /// A schema has no type.
        SchemaUntyped,
        /// A schema is none.
        SchemaBroken,
        /// A name with a blank.
        NameWithBlank,
        /// A name is there twice.
        NameTwice,
        /// A number is to be repeated in a header.
        ParamHeaderOnNumber,
        /// Every list has another order.
        Unstable,
        /// A list does not say how long it holds.
        ListUncached,
        /// The last page leads to itself.
        PagesLoop,
        /// An unknown cursor is the first page.
        BadCursorIgnored,
        /// A result is a text.
        ContentIsText,
        /// Structured content is missing.
        StructuredMissing,
        /// An unknown tool is a result.
        UnknownToolIsResult,
        /// An unknown tool is an unknown method.
        UnknownToolIsMethod,
        /// A call without a name is a result.
        NoNameIsResult,
        /// Arguments are not looked at.
        BadArgumentsPass,
        /// A failure is a JSON-RPC error.
        FailureIsError,
        /// What the client did not declare is asked of it.
        AsksUndeclared,
        /// No credentials is 403.
        NobodyForbidden,
        /// An unknown key is 403.
        UnknownKeyForbidden,
        /// No `WWW-Authenticate`.
        NoChallenge,
        /// The resource metadata names no authorization server.
        MetadataWithoutServers,
        /// `initialize` does not say whose it is.
        InitializeBare,
        /// `initialize` always settles 2025-06-18.
        VersionFixed,
        /// `initialize` settles whatever it is asked for.
        UnknownVersionEchoed,
        /// `ping` has a result.
        PingHasResult,
        /// Any version in the header goes in a session.
        SessionVersionIgnored,
        /// No version in the header does not.
        SessionVersionNeeded,
        /// A session with a blank in its id.
        SessionWithBlank,
        /// One session for all.
        SessionShared,
        /// No session is 500.
        NoSessionServerError,
        /// An unknown session is 400.
        UnknownSessionBadRequest,
        /// DELETE ends nothing.
        DeleteForgotten,
        /// Whoever names a session is let in.
        SessionIsCredential,
        /// Everybody uses every session.
        SessionForAll,
        /// A subscription begins with news.
        NotAcknowledged,
    }
}
