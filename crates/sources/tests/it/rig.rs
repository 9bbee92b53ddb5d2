//! A source with the environment that a gateway provides.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::sync::watch;
use toolcrib_core::{
    authorize::{CallContext, ScopeAuthorizer},
    call::{
        CallInput, Invocation, Operation, Outcome, Progress, ProgressSink, Reply, UpstreamError,
        UpstreamErrorKind,
    },
    canonical::Digest,
    catalog::{Entry, Generation, Permit},
    clock::{Clock, Timestamp},
    credential::{CredentialRef, CredentialResolver, CredentialStore, Secret},
    descriptor::{Auth, SafetyTier, SourceKind},
    egress::{AllowList, EgressTrail},
    id::{CallId, PrincipalId, RunId, SourceId, TenantId},
    principal::{AuthMethod, Principal},
    schema::Schema,
    scope::ScopeSet,
    source::{
        Discovered, HttpSpec, SecretValue, Source, SourceFactory as _, SourceLimits,
        SourceListener, SourceSpec, SourceState, SourceStatus, StderrMode, StdioSpec, UpstreamSpec,
        connector::{ConnectorSpec, OpenApiLocation},
        pack::PackSpec,
    },
};
use toolcrib_sources::Factory;
#[cfg(feature = "wasm")]
use toolcrib_sources::Library;
use toolcrib_tasks::Tasks;
use toolcrib_testkit::upstream::faulty_program;

/// Only a failure takes this long; machines that run tests can be very slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) credentials: Arc<dyn CredentialResolver>,
    changes: watch::Receiver<u64>,
}

/// A stopped clock: no test depends on the time.
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic_nanos(&self) -> u64 {
        0
    }
}

struct CountChanges(watch::Sender<u64>);

impl SourceListener for CountChanges {
    fn changed(&self, source: &SourceId) {
        assert_eq!(source.as_str(), "crib");
        self.0.send_modify(|count| *count += 1);
    }
}

/// The progress of one call, in the order of arrival.
#[derive(Default)]
pub(crate) struct Reports(parking_lot::Mutex<Vec<Progress>>);

impl ProgressSink for Reports {
    fn report(&self, progress: Progress) {
        self.0.lock().push(progress);
    }
}

impl Reports {
    pub(crate) fn numbers(&self) -> Vec<f64> {
        self.0.lock().iter().filter_map(|progress| progress.progress.as_f64()).collect()
    }

    pub(crate) fn all(&self) -> Vec<Progress> {
        self.0.lock().clone()
    }
}

impl Rig {
    /// Starts the faulty program with these words.
    pub(crate) fn faulty(words: &[&str]) -> Self {
        Self::stdio(faulty(words), SourceLimits::default())
    }

    pub(crate) fn stdio(spec: StdioSpec, limits: SourceLimits) -> Self {
        Self::build(UpstreamSpec::McpStdio(spec), limits)
    }

    pub(crate) fn http(url: &str) -> Self {
        Self::http_with(url, &[], SourceLimits::default())
    }

    pub(crate) fn http_with(url: &str, headers: &[(&str, &str)], limits: SourceLimits) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), secret(value)));
        let spec = HttpSpec {
            url: url.to_owned(),
            headers: headers.collect(),
            allow: AllowList::default(),
        };
        Self::build(UpstreamSpec::McpHttp(spec), limits)
    }

    /// Creates a connector to the service at `url`. `document` is the OpenAPI document.
    pub(crate) fn connector(url: &str, document: &Path) -> Self {
        Self::build(
            UpstreamSpec::Connector(ConnectorSpec {
                document: OpenApiLocation::Path(document.to_owned()),
                base_url: Some(url.to_owned()),
                operations: Vec::new(),
                variables: BTreeMap::new(),
                headers: BTreeMap::new(),
                allow: AllowList::default(),
            }),
            SourceLimits::default(),
        )
    }

    pub(crate) fn pack(spec: PackSpec, limits: SourceLimits) -> Self {
        Self::build(UpstreamSpec::Pack(spec), limits)
    }

    #[cfg(feature = "wasm")]
    pub(crate) fn installed(spec: PackSpec, library: Library, limits: SourceLimits) -> Self {
        let id = SourceId::parse("crib").unwrap();
        let spec = SourceSpec {
            id,
            upstream: UpstreamSpec::Pack(spec),
            limits,
            credential: None,
            account: None,
        };
        Self::of(&spec, &Factory::new(Arc::new(StoppedClock)).with_packs(library))
    }

    fn build(upstream: UpstreamSpec, limits: SourceLimits) -> Self {
        let id = SourceId::parse("crib").unwrap();
        let spec = SourceSpec { id, upstream, limits, credential: None, account: None };
        Self::of(&spec, &Factory::new(Arc::new(StoppedClock)))
    }

    /// Creates a source at `url` with the named credential in `store`, which belongs to the
    /// caller's tenant.
    pub(crate) fn presenting(url: &str, name: &str, store: Arc<dyn CredentialStore>) -> Self {
        Self::presenting_by(&presenting(store), url, name)
    }

    /// Like `presenting`, with a given factory.
    pub(crate) fn presenting_by(factory: &Factory, url: &str, name: &str) -> Self {
        let (headers, allow) = (BTreeMap::new(), AllowList::default());
        let upstream = UpstreamSpec::McpHttp(HttpSpec { url: url.to_owned(), headers, allow });
        Self::with_credential(factory, upstream, name)
    }

    /// Creates a child whose changes are reported to `listener`, with its tasks on `tasks`.
    pub(crate) fn listened(
        spec: StdioSpec,
        listener: Arc<dyn SourceListener>,
        tasks: &Tasks,
    ) -> Self {
        let id = SourceId::parse("crib").unwrap();
        let (upstream, limits) = (UpstreamSpec::McpStdio(spec), SourceLimits::default());
        let spec = SourceSpec { id, upstream, limits, credential: None, account: None };
        let factory = Factory::new(Arc::new(StoppedClock)).with_tasks(tasks.clone());
        let source = factory.build(&spec, listener).unwrap();
        let credentials = factory.credentials();
        Self { source, credentials, changes: watch::channel(0).1 }
    }

    /// Like `presenting_by`, for any kind of upstream.
    pub(crate) fn with_credential(factory: &Factory, upstream: UpstreamSpec, name: &str) -> Self {
        let tenant = TenantId::parse("tenant").unwrap();
        let spec = SourceSpec {
            id: SourceId::parse("crib").unwrap(),
            upstream,
            limits: SourceLimits::default(),
            credential: Some(CredentialRef::of_tenant(name.parse().unwrap(), tenant)),
            account: None,
        };
        Self::of(&spec, factory)
    }

    pub(crate) fn of(spec: &SourceSpec, factory: &Factory) -> Self {
        let (count, changes) = watch::channel(0);
        let source = factory.build(spec, Arc::new(CountChanges(count))).unwrap();
        let credentials = factory.credentials();
        Self { source, credentials, changes }
    }

    /// Waits until the status satisfies `wanted`, and returns it.
    pub(crate) async fn until(&self, wanted: impl Fn(&SourceStatus) -> bool) -> SourceStatus {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let status = self.source.status();
            if wanted(&status) {
                return status;
            }
            assert!(tokio::time::Instant::now() < deadline, "the status stays {status:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn ready(&self) -> SourceStatus {
        self.until(|status| status.state == SourceState::Ready).await
    }

    pub(crate) async fn degraded(&self) -> SourceStatus {
        self.until(|status| status.state == SourceState::Degraded).await
    }

    /// Returns the stderr lines of the children.
    pub(crate) fn stderr(&self) -> Vec<String> {
        self.source.stderr().into_iter().map(|line| line.line).collect()
    }

    /// Returns the number of changes reported to the listener.
    pub(crate) fn changes(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Waits until more than `seen` changes were reported.
    pub(crate) async fn changed_after(&self, seen: u64) {
        let mut changes = self.changes.clone();
        let next = changes.wait_for(|count| *count > seen);
        tokio::time::timeout(PATIENCE, next).await.expect("no change was reported").unwrap();
    }

    pub(crate) async fn discover(&self) -> Discovered {
        self.ready().await;
        self.source.discover().await.unwrap()
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        self.discover().await.offers.into_iter().map(|tool| tool.into_offer().name).collect()
    }

    /// Calls a tool that must succeed.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.ready().await;
        self.try_call(tool, arguments).await.unwrap()
    }

    pub(crate) async fn try_call(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<Outcome, UpstreamError> {
        self.invoke(tool, None, invocation(arguments)).await
    }

    /// Calls a tool that was offered in the form `pinned`.
    pub(crate) async fn call_pinned(
        &self,
        tool: &str,
        pinned: Digest,
        arguments: Value,
    ) -> Result<Outcome, UpstreamError> {
        let permit = permit(tool, None, Some(pinned));
        self.serve(&permit, invocation(arguments)).await.map(outcome)
    }

    pub(crate) async fn fails(&self, tool: &str, arguments: Value) -> UpstreamErrorKind {
        self.try_call(tool, arguments).await.expect_err("the call should fail").kind
    }

    pub(crate) async fn invoke(
        &self,
        tool: &str,
        schema: Option<Value>,
        invocation: Invocation,
    ) -> Result<Outcome, UpstreamError> {
        self.serve(&permit(tool, schema, None), invocation).await.map(outcome)
    }

    /// Calls a tool that may ask its caller.
    pub(crate) async fn ask(
        &self,
        tool: &str,
        invocation: Invocation,
    ) -> Result<Reply, UpstreamError> {
        self.serve(&permit(tool, None, None), invocation).await
    }

    pub(crate) async fn serve(
        &self,
        permit: &Permit,
        call: Invocation,
    ) -> Result<Reply, UpstreamError> {
        let served = async {
            let call = self.resolved(permit, call).await?;
            self.source.serve(permit, Operation::CallTool(call)).await
        };
        tokio::time::timeout(PATIENCE, served).await.expect("a call never hangs")
    }

    /// Resolves the credential of a call, as the gate does.
    pub(crate) async fn resolved(
        &self,
        permit: &Permit,
        call: Invocation,
    ) -> Result<Invocation, UpstreamError> {
        let need = self.source.credential_for(permit.entry());
        let caller = permit.principal();
        let resolved = self.credentials.resolve(&need, caller.credential_caller()).await;
        let credential = resolved.map_err(|refusal| {
            refusal.decided().into_iter().for_each(|denied| call.egress.note(denied));
            UpstreamError::without_credential("credential `it`", &refusal)
        })?;
        Ok(Invocation { credential, ..call })
    }
}

pub(crate) fn outcome(reply: Reply) -> Outcome {
    match reply {
        Reply::Done(outcome) => outcome,
        Reply::NeedsInput(question) => panic!("the upstream asks: {question:?}"),
    }
}

/// Creates a factory whose sources find credentials in `store`.
pub(crate) fn presenting(store: Arc<dyn CredentialStore>) -> Factory {
    Factory::new(Arc::new(StoppedClock)).with_credentials(store)
}

/// Returns a description of the faulty program.
pub(crate) fn faulty(words: &[&str]) -> StdioSpec {
    let program = faulty_program().to_string_lossy().into_owned();
    let command = std::iter::once(program).chain(words.iter().map(|w| (*w).to_owned())).collect();
    StdioSpec { command, env: BTreeMap::new(), cwd: None, sandbox: None, stderr: StderrMode::Keep }
}

pub(crate) fn secret(value: &str) -> SecretValue {
    SecretValue(Secret::new(value.to_owned()))
}

pub(crate) fn invocation(arguments: Value) -> Invocation {
    Invocation {
        call_id: CallId::parse("call-1").unwrap(),
        run_id: RunId::parse("run-1").unwrap(),
        arguments: arguments.as_object().cloned().unwrap_or_default(),
        timeout: PATIENCE,
        max_result_bytes: 32 << 20,
        progress: None,
        meta: Map::new(),
        egress: EgressTrail::default(),
        input: None,
        credential: None,
        recheck: None,
    }
}

pub(crate) fn permit(tool: &str, schema: Option<Value>, pinned: Option<Digest>) -> Permit {
    permit_of("tester", tool, schema, pinned)
}

/// Returns the permit of a principal of the tenant `tenant`.
pub(crate) fn permit_of(
    principal: &str,
    tool: &str,
    schema: Option<Value>,
    pinned: Option<Digest>,
) -> Permit {
    let source = SourceId::parse("crib").unwrap();
    let mut entry = Entry::new(SourceKind::Mcp, &source, tool, SafetyTier::Read).unwrap();
    entry.tool.auth = Some(Auth { scopes: Some(Vec::new()), credential_ref: None });
    entry.tool.input_schema = schema.and_then(|schema| Schema::try_from(&schema).ok());
    entry.timeout = PATIENCE;
    entry.pinned = pinned;
    let principal = Principal {
        id: PrincipalId::parse(principal).unwrap(),
        tenant: TenantId::parse("tenant").unwrap(),
        scopes: ScopeSet::default(),
        roles: Vec::new(),
        makers: Vec::new(),
        session: None,
        auth: AuthMethod::Operator,
    };
    let input = CallInput::default();
    let call = CallContext { surface: "mcp", input: &input };
    Permit::new(&ScopeAuthorizer, &principal, &Arc::new(entry), Generation(1), call).unwrap()
}

/// Returns the concatenated text of the outcome's blocks.
pub(crate) fn text(outcome: &Outcome) -> String {
    let blocks: Vec<Value> = serde_json::from_str(outcome.content.get()).unwrap();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect()
}

/// Waits until `done`, with a generous time limit.
pub(crate) async fn eventually(what: &str, done: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !done() {
        assert!(tokio::time::Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
