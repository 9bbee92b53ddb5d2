//! One negotiated connection over any transport.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use http::HeaderMap;
use parking_lot::RwLock;
use serde_json::Map;
use toolcrib_core::{
    call::{Invocation, UpstreamError},
    canonical::Digest,
    credential::ResolvedCredential,
    schema::Schema,
    source::Discovered,
};
use toolcrib_mcp::{message, method, param_header};

use super::{
    call::Call,
    failure::Failure,
    http::LegacySession,
    list_changes::ListChanges,
    message::{CallParams, ListParams, Reply},
    negotiation::Session,
    peer::Interest,
    wire::Wire,
};
use crate::forms::Forms;

/// A connection that requests can be sent on.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) session: Session,
    pub(crate) list_changed: Arc<ListChanges>,
    /// Held while the session is renewed.
    pub(crate) renewing: tokio::sync::Mutex<()>,
    /// The forms of its tools in the last list; `None` in a session without a list.
    forms: RwLock<Option<Forms>>,
    /// The list read before the first call of the session, until the gateway fetches it.
    first_list: RwLock<Option<Discovered>>,
    /// Number of failed lists since the last successful one.
    failed_lists: AtomicU32,
    /// The number of changes announced before the last list.
    listed_after: AtomicU64,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(wire: Wire, session: Session, list_changed: Arc<ListChanges>) -> Self {
        Self {
            wire,
            session,
            list_changed,
            renewing: tokio::sync::Mutex::default(),
            forms: RwLock::default(),
            first_list: RwLock::default(),
            failed_lists: AtomicU32::new(0),
            listed_after: AtomicU64::new(0),
        }
    }

    /// Counts a list, and returns how many have failed since the last successful one.
    pub(crate) fn count_list(&self, is_ok: bool) -> u32 {
        match is_ok {
            true => self.failed_lists.store(0, Ordering::Relaxed),
            false => drop(self.failed_lists.fetch_add(1, Ordering::Relaxed)),
        }
        self.failed_lists.load(Ordering::Relaxed)
    }

    /// Stores the forms of a complete list, requested after `announced` changes; `None` for a new
    /// session without a list.
    pub(crate) fn set_forms(&self, forms: Option<Forms>, announced: u64) {
        *self.forms.write() = forms;
        self.listed_after.store(announced, Ordering::Release);
    }

    /// Whether the tools of the session have been listed, after every announced change.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed_after.load(Ordering::Acquire) == self.list_changed.announced()
            && self.forms.read().is_some()
    }

    /// Fails if the tool `name` was not listed in the form `pinned`.
    pub(crate) fn check(&self, name: &str, pinned: Option<Digest>) -> Result<(), UpstreamError> {
        match &*self.forms.read() {
            Some(forms) => forms.check(name, pinned),
            None => Forms::default().check(name, pinned),
        }
    }

    /// Keeps the list read before the first call of a session.
    pub(crate) fn put_first_list(&self, list: Discovered) {
        *self.first_list.write() = Some(list);
    }

    /// Takes the first list; `None` the second time.
    pub(crate) fn take_first_list(&self) -> Option<Discovered> {
        self.first_list.write().take()
    }

    /// The session in which requests are sent now.
    pub(crate) fn legacy_session(&self) -> Option<LegacySession> {
        match &self.wire {
            Wire::Http(http) => Some(http.session()),
            Wire::Stdio(_) => None,
        }
    }

    /// Whether calls repeat annotated arguments in HTTP headers.
    pub(crate) fn repeats_arguments_in_headers(&self) -> bool {
        matches!(self.wire, Wire::Http(_)) && self.session.era.is_modern()
    }

    /// Requests one page of the tool list, as `account` sees it if given.
    pub(crate) async fn list_tools(
        &self,
        cursor: Option<&str>,
        account: Option<&Arc<ResolvedCredential>>,
    ) -> Result<Reply, Failure> {
        self.list(method::LIST_TOOLS, cursor, false, account).await
    }

    /// Requests one page of an optional list.
    pub(crate) async fn list_optional(
        &self,
        method: &'static str,
        cursor: Option<&str>,
    ) -> Result<Reply, Failure> {
        self.list(method, cursor, true, None).await
    }

    async fn list(
        &self,
        method: &'static str,
        cursor: Option<&str>,
        optional: bool,
        account: Option<&Arc<ResolvedCredential>>,
    ) -> Result<Reply, Failure> {
        let era = &self.session.era;
        let encode = |id| {
            let nothing = Map::new();
            let meta = era.meta(&nothing, None);
            message::request(id, method, &ListParams { cursor, meta })
        };
        let credential = account.cloned();
        let call =
            Call { cancellable: true, optional, credential, ..Call::plain(method, era, &encode) };
        self.wire.request(&call).await
    }

    /// Calls a tool by its upstream name. `schema` is the tool's input schema.
    pub(crate) async fn call_tool(
        &self,
        name: &str,
        schema: Option<&Schema>,
        invocation: &Invocation,
    ) -> Result<Reply, Failure> {
        invocation.check_again().await?;
        let era = &self.session.era;
        let arguments = &invocation.arguments;
        // The handshake era has no such members.
        let input = invocation.input.as_ref().filter(|_| era.is_modern());
        let responses = input.and_then(|input| input.responses.as_ref());
        let state = input.and_then(|input| input.state.as_deref());
        let encode = |id| {
            let meta = era.meta(&invocation.meta, Some(id)).declaring(input);
            let params = CallParams { name, arguments, responses, state, meta };
            message::request(id, method::CALL_TOOL, &params)
        };
        let headers = match schema {
            // Few schemas have the keyword, so few are parsed for a call.
            Some(schema)
                if self.repeats_arguments_in_headers()
                    && schema.as_str().contains(param_header::KEYWORD) =>
            {
                param_header::headers(&schema.to_object(), arguments)
            }
            _ => HeaderMap::new(),
        };
        let call = Call {
            name: Some(name),
            headers,
            interest: Interest { progress: invocation.progress.clone(), acknowledged: None },
            cancellable: true,
            egress: invocation.egress.clone(),
            credential: invocation.credential.clone(),
            ..Call::plain(method::CALL_TOOL, era, &encode)
        };
        self.wire.request(&call).await
    }
}
