//! A whole gateway on a real socket, over tools that are closures: real store, real keys, real
//! HTTP.
//!
//! ```ignore
//! let gw = TestGateway::builder().tool(TestTool::new("read").scopes(["files:read"])).start().await;
//! let reader = gw.principal("reader", ["files:read"]).await;
//! assert_eq!(reader.get("/v1/tools").await.status, 200);
//! ```
//!
//! Tools are offered by the source `crib`, so `read` has the tool id `mcp:crib.read`, the wire name
//! `crib__read` and the OTC id `crib.read@1.0.0`. By default callers belong to the tenant `acme`.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a fixture that cannot do its work must fail loudly"
)]

mod accounts;
mod actor;
mod clock;
mod events;
mod issuer;
mod provider;
mod served;
mod source;
mod tool;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Once},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use toolcrib_config::{self as config, Config, SecretReader};
use toolcrib_core::{
    clock::{Clock, Timestamp},
    credential::Secret,
    event::{EventQuery, LoggedEvent},
    id::{KeyId, PrincipalId, SourceId, TenantId},
    principal::AuthMethod,
    scope::Grant,
    source::SourceFactory,
    store::{KeyStore as _, Storage as _},
};
use toolcrib_gateway::{
    Gateway, GatewayBuilder,
    authn::{self, KeyRequest},
    clock::SystemClock,
};
use toolcrib_sources::Factory;
use toolcrib_store::{Durability, Options, SealKey, SealKeys, SqliteStore};

pub use self::{
    accounts::TestAccounts,
    actor::{Actor, Reply},
    clock::ManualClock,
    events::Events,
    issuer::{Behaviour, TestIssuer, TestKey, compact, sign_hs256},
    provider::TestProvider,
    served::TestServer,
    source::{Sources, TestSource},
    tool::TestTool,
};

/// The longest wait of any operation here.
const PATIENCE: Duration = Duration::from_secs(10);

/// The running gateway. Dropping it ends the listener, the sources and the directory.
pub struct TestGateway {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    /// The gateway behind the socket.
    pub gateway: Gateway,
    /// The store, as the gateway uses it.
    pub store: SqliteStore,
    pub config: Config,
    sources: Sources,
    /// Secrets of the configuration by the name of their variable.
    secrets: Secrets,
    /// The part of the configuration that describes the sources.
    of_sources: String,
    clock: Option<Arc<ManualClock>>,
    client: reqwest::Client,
    stop: CancellationToken,
    server: Option<JoinHandle<std::io::Result<()>>>,
    directory: TempDir,
}

/// Configures and starts a test gateway.
#[derive(Default)]
pub struct TestGatewayBuilder {
    toml: String,
    test_routes: bool,
    sources: Vec<TestSource>,
    /// Files by name.
    workflows: Vec<(String, String)>,
    /// Other files by name.
    files: Vec<(String, String)>,
    clock: Option<Arc<ManualClock>>,
    secrets: Secrets,
    upstreams: bool,
}

/// Secrets by the name of their variable.
#[derive(Default, Clone)]
struct Secrets(BTreeMap<String, String>);

impl SecretReader for Secrets {
    fn env(&self, name: &str) -> Option<Secret> {
        self.0.get(name).cloned().map(Secret::new)
    }
    fn file(&self, _: &Path) -> Result<Secret, String> {
        Err("no files here".to_owned())
    }
}

// === impl TestGatewayBuilder ===

impl TestGatewayBuilder {
    /// Adds a tool to the source `crib`, which every tenant sees.
    #[must_use]
    pub fn tool(mut self, tool: TestTool) -> Self {
        match self.sources.iter_mut().find(|source| source.id == "crib") {
            Some(source) => source.tools.push(tool),
            None => self.sources.push(TestSource::new("crib").tool(tool)),
        }
        self
    }

    /// Adds a source.
    #[must_use]
    pub fn source(mut self, source: TestSource) -> Self {
        self.sources.push(source);
        self
    }

    /// Adds the workflow `id` to the source `flows`; `rest` is its file without the id, in YAML.
    #[must_use]
    pub fn workflow(mut self, id: &str, rest: &str) -> Self {
        self.workflows.push((format!("{id}.yaml"), format!("id: {id}\n{rest}\n")));
        self
    }

    /// Writes a file to the directory of the configuration.
    #[must_use]
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Adds configuration before the sources, for example `[otc]` with its settings.
    #[must_use]
    pub fn config(mut self, toml: &str) -> Self {
        self.toml.push_str(toml);
        self.toml.push('\n');
        self
    }

    /// Sets the value of `{ env = name }`.
    #[must_use]
    pub fn secret(mut self, name: &str, value: &str) -> Self {
        self.secrets.0.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Connects to the sources of the configuration, in place of tools that are closures.
    #[must_use]
    pub fn upstreams(mut self) -> Self {
        self.upstreams = true;
        self
    }

    /// Enables the test routes.
    #[must_use]
    pub fn test_routes(mut self) -> Self {
        self.test_routes = true;
        self
    }

    /// Uses a clock that advances only with [`TestGateway::advance`].
    #[must_use]
    pub fn manual_clock(mut self) -> Self {
        self.clock = Some(Arc::default());
        self
    }

    /// Starts the gateway and waits until every tool is offered.
    pub async fn start(self) -> TestGateway {
        let directory = TempDir::new().unwrap();
        let mut of_sources: String = self.sources.iter().map(TestSource::toml).collect();
        if !self.workflows.is_empty() {
            of_sources += "[[source]]\nid = \"flows\"\nkind = \"workflow\"\nfiles = [\"*.yaml\"]\n";
        }
        for (name, text) in self.workflows.iter().chain(&self.files) {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let toml = self.toml + &of_sources;
        let mut config = config::parse("test.toml", &toml, directory.path(), &self.secrets)
            .unwrap_or_else(|error| panic!("{error}\n{toml}"));
        config.test_routes = self.test_routes;
        let mut options = Options { durability: Durability::Relaxed, ..Options::default() };
        let has_accounts = self.upstreams || self.sources.iter().any(TestSource::has_accounts);
        if has_accounts || config.bridge.is_some() {
            let key = SealKey::parse(&SealKey::generate().unwrap()).unwrap();
            options.seal_keys = SealKeys::new(key, []);
        }
        let store = SqliteStore::open(directory.path().join("test.db"), options).unwrap();
        let storage = Arc::new(store.clone());
        let sources = Sources::new(self.sources);
        sources.1.set_store(store.grants());
        let real = Factory::new(Arc::new(SystemClock::default())).with_grants(store.grants());
        let factory: Arc<dyn SourceFactory> = match self.upstreams {
            true => Arc::new(real),
            false => Arc::new(sources.clone()),
        };
        let mut builder = GatewayBuilder::new(config.clone(), storage, factory);
        if let Some(clock) = &self.clock {
            builder = builder.clock(Arc::clone(clock) as Arc<dyn Clock>);
        }
        let builder =
            builder.key_sets(Arc::new(Factory::new(Arc::new(SystemClock::default())).key_sets()));
        let gateway = builder.start().await.unwrap();
        sources.announce_all();
        gateway.supply().settle(PATIENCE).await;

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let router = toolcrib::router(gateway.clone(), &config);
        let server =
            tokio::spawn(toolcrib::serve(listener, router, stop.clone().cancelled_owned()));
        TestGateway {
            url,
            gateway,
            store,
            config,
            sources,
            of_sources,
            clock: self.clock,
            secrets: self.secrets,
            client: client(|builder| builder),
            stop,
            server: Some(server),
            directory,
        }
    }
}

// === impl TestGateway ===

impl TestGateway {
    /// Returns a builder with defaults; the limits are those of a real server.
    pub fn builder() -> TestGatewayBuilder {
        TestGatewayBuilder::default()
    }

    /// Creates a caller of tenant `acme` whose key has all scopes but is already expired.
    pub async fn expired(&self, id: &str) -> Actor {
        let now = self.gateway.clock().now();
        self.holder("acme", id, &[], &["*"], Some(now - Duration::from_secs(1))).await
    }

    /// Creates a caller of tenant `acme` with a fresh key that holds `grants`.
    pub async fn principal<const N: usize>(&self, id: &str, grants: [&str; N]) -> Actor {
        self.principal_of("acme", id, &grants).await
    }

    /// Creates a caller of `tenant` with a fresh key of these `roles`, which the configuration
    /// defines.
    pub async fn principal_with_roles(&self, tenant: &str, id: &str, roles: &[&str]) -> Actor {
        self.holder(tenant, id, roles, &[], None).await
    }

    /// Creates a caller of `tenant` with a fresh key that holds `grants`.
    pub async fn principal_of(&self, tenant: &str, id: &str, grants: &[&str]) -> Actor {
        self.holder(tenant, id, &[], grants, None).await
    }

    async fn holder(
        &self,
        tenant: &str,
        id: &str,
        roles: &[&str],
        grants: &[&str],
        expires_at: Option<Timestamp>,
    ) -> Actor {
        let request = KeyRequest {
            name: id.to_owned(),
            tenant: TenantId::parse(tenant).unwrap(),
            principal: PrincipalId::parse(id).unwrap(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            scopes: grants.iter().map(|grant| Grant::parse(grant).unwrap()).collect(),
            expires_at,
        };
        let key = authn::new_key(request, self.gateway.clock().now()).unwrap();
        self.store.insert(key.record).await.unwrap();
        self.gateway.authenticator().refresh().await;
        self.bearer(key.text.expose())
    }

    /// Creates a caller without a key.
    pub fn anonymous(&self) -> Actor {
        Actor::new(self.client.clone(), self.url.clone(), None)
    }

    /// Creates a caller with `key`, valid or not.
    pub fn bearer(&self, key: &str) -> Actor {
        Actor::new(self.client.clone(), self.url.clone(), Some(key.to_owned()))
    }

    /// Returns the board of the gateway's background tasks.
    pub fn tasks(&self) -> &toolcrib_gateway::tasks::Tasks {
        self.gateway.tasks()
    }

    /// Returns how often `tool` of `source` has been run.
    pub fn runs(&self, source: &str, tool: &str) -> usize {
        self.sources.runs(source, tool)
    }

    /// Replaces the tools of `source`, announces it, and waits until the new list is published.
    pub async fn change(&self, source: &str, tools: Vec<TestTool>) {
        let mut changes = self.gateway.supply().changes();
        changes.mark_unchanged();
        self.sources.change(source, tools);
        tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    }

    /// Announces other tools of `source` without waiting.
    pub fn announce(&self, source: &str, tools: Vec<TestTool>) {
        self.sources.change(source, tools);
    }

    /// Applies a configuration of `toml` and the same sources, like a reload.
    pub async fn reload(&self, toml: &str) {
        self.replace(&format!("{toml}\n{}", self.of_sources)).await;
    }

    /// Applies the configuration `toml`, which must have the same sources.
    pub async fn replace(&self, toml: &str) {
        let config = config::parse("test.toml", toml, self.directory.path(), &self.secrets)
            .unwrap_or_else(|error| panic!("{error}\n{toml}"));
        self.gateway.apply(config).await.unwrap();
    }

    pub fn key_id(&self, actor: &Actor) -> KeyId {
        let principal = self.gateway.authenticator().authenticate(actor.key().unwrap()).unwrap();
        match &principal.auth {
            AuthMethod::ApiKey(id) => id.clone(),
            other => panic!("not a key: {other:?}"),
        }
    }

    /// Revokes the key of `actor`.
    pub async fn revoke(&self, actor: &Actor) {
        let id = self.key_id(actor);
        self.store.revoke(&id, self.gateway.clock().now()).await.unwrap();
        self.gateway.authenticator().refresh().await;
    }

    /// Advances the manual clock by `time`.
    pub async fn advance(&self, time: Duration) {
        self.clock.as_ref().expect("a manual clock").advance(time);
        // Keys that were not confirmed for so long would be rejected.
        self.gateway.authenticator().refresh().await;
    }

    /// Returns all events of the record, in order.
    pub async fn events(&self) -> Vec<LoggedEvent> {
        let mut events: Vec<LoggedEvent> = Vec::new();
        loop {
            let after = events.last().map(|last| last.position);
            let query = EventQuery { after, ..EventQuery::default() };
            match self.gateway.audit().read(query).await.unwrap() {
                page if page.is_empty() => return events,
                page => events.extend(page),
            }
        }
    }

    /// Waits for an event that satisfies `wanted`. Denials are written in the background.
    pub async fn event(&self, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let start = Instant::now();
        loop {
            let events = self.events().await;
            let found = events
                .iter()
                .map(|logged| serde_json::to_value(&logged.event).unwrap())
                .find(|event| wanted(event));
            match found {
                Some(event) => return event,
                None if start.elapsed() > PATIENCE => panic!("no such event in {events:#?}"),
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Sends `request` unchanged and returns everything until the server closes the connection. For
    /// requests that no HTTP client sends; use `connection: close`.
    pub async fn raw(&self, request: impl AsRef<[u8]>) -> String {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Returns the directory of the gateway's files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Stops the server and the sources, and stores all pending data.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(server) = self.server.take() {
            server.await.unwrap().unwrap();
        }
        self.gateway.close().await;
        self.store.close().await;
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Ids of sources and their running state.
type SourcesById<T> = BTreeMap<SourceId, T>;

/// Creates a client without proxies and redirects.
fn client(
    set_up: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> reqwest::Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Another test of this process may have installed it.
        let _already = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
    let builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(30));
    set_up(builder).build().unwrap()
}
