//! The settings of an explorer in an embedding program.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use toolcrib_config::{self as config, ExplorerPolicy};
use toolcrib_gateway::provider::{Authenticator, RequestHead, ToolCallHandler};

/// Authorizes a request by its head; the error is only logged.
pub(super) type AuthHook =
    Arc<dyn Fn(RequestHead) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The settings of an explorer. By default execution is off, only calls require credentials, and
/// the title is "MCP Tool Explorer".
#[derive(Clone)]
pub struct ExplorerConfig {
    /// The settings that the explorer of a server has, too.
    pub(super) page: config::ExplorerConfig,
    pub(super) handler: Option<Arc<dyn ToolCallHandler>>,
    pub(super) authenticator: Option<Arc<dyn Authenticator>>,
    pub(super) auth_hook: Option<AuthHook>,
    pub(super) timeout: Duration,
    pub(super) max_body_bytes: usize,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
}

impl Default for ExplorerConfig {
    fn default() -> Self {
        Self {
            page: config::ExplorerConfig {
                policy: ExplorerPolicy::SpecPublic,
                prefix: String::new(),
                allow_execute: false,
                edit: false,
                session_lifetime: Duration::ZERO,
                title: "MCP Tool Explorer".to_owned(),
                project_name: None,
                project_url: None,
            },
            handler: None,
            authenticator: None,
            auth_hook: None,
            timeout: Duration::from_secs(300),
            max_body_bytes: 4 << 20,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
        }
    }
}

impl ExplorerConfig {
    /// Creates the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the heading of the page.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.page.title = title.into();
        self
    }

    /// Sets the name in the footer.
    #[must_use]
    pub fn project_name(mut self, name: impl Into<String>) -> Self {
        self.page.project_name = Some(name.into());
        self
    }

    /// Sets the link of the name in the footer: an `http`, `https` or `mailto` address or a path.
    /// With any other value the name is plain text.
    #[must_use]
    pub fn project_url(mut self, url: impl Into<String>) -> Self {
        self.page.project_url = Some(url.into());
        self
    }

    /// Sets whether the explorer may run tools.
    #[must_use]
    pub fn allow_execute(mut self, allow: bool) -> Self {
        self.page.allow_execute = allow;
        self
    }

    /// Sets which requests require credentials. Under [`ExplorerPolicy::All`] and
    /// [`ExplorerPolicy::CallOnly`] callers are refused unless an authenticator or a hook is set.
    #[must_use]
    pub fn policy(mut self, policy: ExplorerPolicy) -> Self {
        self.page.policy = policy;
        self
    }

    /// Sets the handler that runs calls. Ignored with a gateway, which runs the calls itself.
    #[must_use]
    pub fn handler(mut self, handler: impl ToolCallHandler) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Sets the authenticator of callers. Ignored with a gateway, which authenticates by its keys.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Some(Arc::new(authenticator));
        self
    }

    /// Sets a hook that authorizes calls by the head of the request. Ignored when an authenticator
    /// is set. Errors of the hook are logged and not shown to the caller.
    #[must_use]
    pub fn auth_hook<F, R, E>(mut self, hook: F) -> Self
    where
        F: Fn(RequestHead) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display,
    {
        self.auth_hook = Some(Arc::new(move |head| {
            hook(head).map(|decided| decided.map_err(|cause| cause.to_string())).boxed()
        }));
        self
    }

    /// Sets the time limit of a call; five minutes by default. Ignored with a gateway, which has
    /// other limits.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the largest accepted request body, in bytes; 4 MiB by default.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets the accepted `Host` values, in addition to loopback names. By default all are accepted.
    /// Set this when browsers can reach the listener: it stops pages whose name was made to resolve
    /// to it (DNS rebinding).
    #[must_use]
    pub fn allowed_hosts<I: IntoIterator<Item = impl Into<String>>>(mut self, hosts: I) -> Self {
        self.allowed_hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the accepted `Origin` values, in addition to those of the same host and port.
    #[must_use]
    pub fn allowed_origins<I: IntoIterator<Item = impl Into<String>>>(
        mut self,
        origins: I,
    ) -> Self {
        self.allowed_origins = origins.into_iter().map(Into::into).collect();
        self
    }
}

impl fmt::Debug for ExplorerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExplorerConfig")
            .field("title", &self.page.title)
            .field("allow_execute", &self.page.allow_execute)
            .field("policy", &self.page.policy)
            .finish_non_exhaustive()
    }
}
