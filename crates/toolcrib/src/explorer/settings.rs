//! What an embedding program says about an explorer.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use toolcrib_gateway::{
    config::ExplorerPolicy,
    provider::{Authenticator, RequestHead, ToolCallHandler},
};

/// Decides by the head of a request; the error is for the log.
pub(super) type AuthHook =
    Arc<dyn Fn(RequestHead) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// How an explorer is set up. Execution is off, nothing is guarded but calls, and the title is
/// "MCP Tool Explorer", unless said otherwise.
#[derive(Clone)]
pub struct ExplorerConfig {
    pub(super) title: String,
    pub(super) project_name: Option<String>,
    pub(super) project_url: Option<String>,
    pub(super) allow_execute: bool,
    pub(super) policy: ExplorerPolicy,
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
            title: "MCP Tool Explorer".to_owned(),
            project_name: None,
            project_url: None,
            allow_execute: false,
            policy: ExplorerPolicy::SpecPublic,
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
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The heading.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// The name in the footer.
    #[must_use]
    pub fn project_name(mut self, name: impl Into<String>) -> Self {
        self.project_name = Some(name.into());
        self
    }

    /// Where the name in the footer leads: an `http`, `https` or `mailto` address or a path. Any
    /// other leaves the name a plain text.
    #[must_use]
    pub fn project_url(mut self, url: impl Into<String>) -> Self {
        self.project_url = Some(url.into());
        self
    }

    /// Whether tools may be run from it.
    #[must_use]
    pub fn allow_execute(mut self, allow: bool) -> Self {
        self.allow_execute = allow;
        self
    }

    /// What needs credentials. Under [`ExplorerPolicy::All`] and [`ExplorerPolicy::CallOnly`] nobody
    /// is let in where neither an authenticator nor a hook says who they are.
    #[must_use]
    pub fn policy(mut self, policy: ExplorerPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// What runs calls. A gateway runs its own.
    #[must_use]
    pub fn handler(mut self, handler: impl ToolCallHandler) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// What says who is calling. A gateway has its own keys.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Some(Arc::new(authenticator));
        self
    }

    /// What decides by the head of a request whether a call may pass. Not asked where there is an
    /// authenticator. What an error says is logged and told to nobody.
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

    /// How long a call may take; five minutes unless said. A gateway has times of its own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Largest request body, in bytes; 4 MiB unless said.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// `Host` values that are answered beside loopback names. All are, unless this is called: name
    /// them where the listener can be reached by browsers, so that no page of another name that was
    /// made to resolve to it gets in.
    #[must_use]
    pub fn allowed_hosts<I: IntoIterator<Item = impl Into<String>>>(mut self, hosts: I) -> Self {
        self.allowed_hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// `Origin` values that may send requests, beside pages of the same host and port.
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
            .field("title", &self.title)
            .field("allow_execute", &self.allow_execute)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
