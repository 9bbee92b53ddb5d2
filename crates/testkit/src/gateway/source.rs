//! Sources that are lists of closures.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    sync::{Arc, atomic::Ordering},
};

use async_trait::async_trait;
use chrono::DateTime;
use parking_lot::Mutex;
use serde_json::json;
use toolcrib_core::{
    call::{Operation, Reply, UpstreamError, UpstreamErrorKind},
    catalog::{Entry, Permit},
    credential::{AccountSpec, CredentialNeed, CredentialResolver, ResolvedCredential},
    descriptor::SourceKind,
    id::SourceId,
    source::{
        AccountConnector, Discovered, InvalidSource, Source, SourceFactory, SourceListener,
        SourceSpec, SourceState, SourceStatus,
    },
};

use super::{SourcesById, TestTool, accounts::TestAccounts};

/// A source and its tools.
pub struct TestSource {
    pub(super) id: String,
    tenants: Option<Vec<String>>,
    version: Option<String>,
    pins: String,
    bare: bool,
    accounts: Option<String>,
    own: BTreeMap<String, HashSet<String>>,
    pub(super) tools: Vec<TestTool>,
}

impl TestSource {
    /// Creates a source without tools for every tenant, whose tools may change freely.
    pub fn new(id: &str) -> Self {
        let pins = "off".to_owned();
        Self {
            id: id.to_owned(),
            tenants: None,
            version: None,
            pins,
            bare: false,
            accounts: None,
            own: BTreeMap::new(),
            tools: Vec::new(),
        }
    }

    /// Limits the source to these tenants.
    #[must_use]
    pub fn tenants<const N: usize>(mut self, tenants: [&str; N]) -> Self {
        self.tenants = Some(tenants.map(str::to_owned).into());
        self
    }

    /// Sets the version that the source reports.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Sets the reaction to a changed tool: `enforce` or `warn`.
    #[must_use]
    pub fn pins(mut self, mode: &str) -> Self {
        mode.clone_into(&mut self.pins);
        self
    }

    /// Keeps the tools' own names on the wire.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Lets calls use the accounts of their `principal`, or of the `tenant`. The source must have one
    /// tenant.
    #[must_use]
    pub fn accounts(mut self, of: &str) -> Self {
        self.accounts = Some(of.to_owned());
        self
    }

    /// Lets the account of `principal` have only these tools.
    #[must_use]
    pub fn own<const N: usize>(mut self, principal: &str, tools: [&str; N]) -> Self {
        self.own.insert(principal.to_owned(), tools.map(str::to_owned).into());
        self
    }

    /// Whether calls use accounts.
    pub(super) fn has_accounts(&self) -> bool {
        self.accounts.is_some()
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: TestTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Returns the source's configuration. The command is never run: the factory of the test
    /// gateway uses only the id.
    pub(super) fn toml(&self) -> String {
        let upstream = match self.accounts {
            None => "command = [\"in-process\"]",
            Some(_) => "url = \"https://notes.example/mcp\"",
        };
        let mut toml = format!(
            "\n[[source]]\nid = {}\nkind = \"mcp\"\n{upstream}\npins = {}\n",
            json!(self.id),
            json!(self.pins)
        );
        if let Some(tenants) = &self.tenants {
            writeln!(toml, "tenants = {}", json!(tenants)).unwrap();
        }
        if self.bare {
            toml.push_str("names = \"bare\"\n");
        }
        if let Some(of) = &self.accounts {
            writeln!(toml, "[source.oauth]\nof = {}", json!(of)).unwrap();
        }
        for tool in &self.tools {
            toml.push_str(&tool.toml());
        }
        toml
    }
}

/// All sources of a test gateway, and their factory.
#[derive(Clone)]
pub struct Sources(Arc<Mutex<SourcesById<Arc<RunningSource>>>>, pub(super) TestAccounts);

struct RunningSource {
    id: SourceId,
    account: Mutex<Option<Arc<AccountSpec>>>,
    /// The tools of accounts, by principal.
    own: BTreeMap<String, HashSet<String>>,
    version: Option<String>,
    tools: Mutex<Vec<TestTool>>,
    listener: Mutex<Option<Arc<dyn SourceListener>>>,
}

// === impl Sources ===

impl Sources {
    pub(super) fn new(sources: Vec<TestSource>) -> Self {
        let running = |source: TestSource| {
            let id = SourceId::parse(&source.id).unwrap();
            let running = RunningSource {
                id: id.clone(),
                account: Mutex::default(),
                own: source.own,
                version: source.version,
                tools: Mutex::new(source.tools),
                listener: Mutex::default(),
            };
            (id, Arc::new(running))
        };
        let running = Mutex::new(sources.into_iter().map(running).collect());
        Self(Arc::new(running), TestAccounts::default())
    }

    pub(super) fn announce_all(&self) {
        self.0.lock().values().for_each(|source| source.announce());
    }

    pub(super) fn change(&self, source: &str, tools: Vec<TestTool>) {
        let source = self.find(source);
        *source.tools.lock() = tools;
        source.announce();
    }

    pub(super) fn runs(&self, source: &str, tool: &str) -> usize {
        let source = self.find(source);
        let tools = source.tools.lock();
        let tool = tools.iter().find(|held| held.name == tool).expect("no such tool");
        tool.runs.load(Ordering::SeqCst)
    }

    fn find(&self, source: &str) -> Arc<RunningSource> {
        let id = SourceId::parse(source).unwrap();
        Arc::clone(self.0.lock().get(&id).expect("no such source"))
    }
}

impl SourceFactory for Sources {
    fn check(&self, _: &SourceSpec) -> Result<(), InvalidSource> {
        Ok(())
    }

    fn build(
        &self,
        spec: &SourceSpec,
        listener: Arc<dyn SourceListener>,
    ) -> Result<Arc<dyn Source>, InvalidSource> {
        let running = self.find(spec.id.as_str());
        *running.listener.lock() = Some(listener);
        running.account.lock().clone_from(&spec.account);
        Ok(running)
    }

    fn credentials(&self) -> Arc<dyn CredentialResolver> {
        Arc::new(self.1.clone())
    }

    fn accounts(&self) -> Arc<dyn AccountConnector> {
        Arc::new(self.1.clone())
    }
}

// === impl RunningSource ===

impl RunningSource {
    fn announce(&self) {
        if let Some(listener) = &*self.listener.lock() {
            listener.changed(&self.id);
        }
    }
}

#[async_trait]
impl Source for RunningSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Mcp
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        let offers = self.tools.lock().iter().map(|tool| tool.discovered().into()).collect();
        Ok(Discovered { version: self.version.clone(), offers, ..Discovered::default() })
    }

    fn credential_for(&self, _: &Entry) -> CredentialNeed {
        match self.account.lock().clone() {
            None => CredentialNeed::None,
            Some(account) => CredentialNeed::Account {
                source: self.id.clone(),
                account,
                destination: "notes.example".to_owned(),
            },
        }
    }

    fn own_list_need(&self) -> CredentialNeed {
        match (self.own.is_empty(), self.account.lock().clone()) {
            (false, Some(account)) => CredentialNeed::Account {
                source: self.id.clone(),
                account,
                destination: "notes.example".to_owned(),
            },
            _ => CredentialNeed::None,
        }
    }

    async fn own_list(
        &self,
        credential: Arc<ResolvedCredential>,
    ) -> Result<HashSet<String>, UpstreamError> {
        let owner = credential.credential.owner.principal.clone();
        let own = owner.and_then(|owner| self.own.get(owner.as_str()).cloned());
        own.ok_or_else(|| UpstreamError::new(UpstreamErrorKind::Refused, "no list"))
    }

    async fn serve(&self, permit: &Permit, operation: Operation) -> Result<Reply, UpstreamError> {
        let entry = permit.entry();
        let tool = self.tools.lock().iter().find(|tool| tool.is_in(entry)).cloned();
        match tool {
            Some(tool) => tool.run(operation.invocation().clone()).await,
            None => Err(UpstreamError::new(UpstreamErrorKind::Refused, "the tool is gone")),
        }
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            state: SourceState::Ready,
            detail: None,
            since: DateTime::UNIX_EPOCH,
            restarts: 0,
        }
    }

    async fn close(&self) {
        *self.listener.lock() = None;
    }
}
