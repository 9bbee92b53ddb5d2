//! A gateway with scripted sources.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use chrono::DateTime;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolcrib_config::{self as config, Config, SecretReader};
use toolcrib_core::{
    call::{Invocation, Operation, Outcome, Reply, UpstreamError, UpstreamErrorKind},
    catalog::{Entry, Permit},
    clock::{Clock, Timestamp},
    credential::{
        AccountSpec, Credential, CredentialCaller, CredentialKind, CredentialNeed,
        CredentialProblem, CredentialRef, CredentialRefusal, CredentialResolver, FoundCredential,
        GrantStore, Material, Owner, RefusalCause, ResolvedCredential, Secret,
    },
    descriptor::SourceKind,
    egress::{EgressDecided, EgressReason},
    event::{EventBody, EventLog, EventQuery, LoggedEvent, NewEvent, RunEvent},
    id::{PrincipalId, RunId, SourceId, TenantId},
    principal::{AuthMethod, Principal},
    scope::ScopeSet,
    source::{
        AccountConnector, Discovered, DiscoveredOffer, InvalidSource, Source, SourceFactory,
        SourceListener, SourceSpec, SourceState, SourceStatus,
    },
    store::{KeyStore, StoreError},
};
use toolcrib_gateway::{
    CallReport, CallRequest, Gateway, GatewayBuilder, ToolRef, clock::SystemClock, metrics::Surface,
};
use toolcrib_store::{MemoryCatalogs, MemoryLog, MemoryStorage};

use crate::accounts::{self, Service};

/// A log that fails on demand.
#[derive(Clone, Default)]
pub(crate) struct Log {
    pub(crate) kept: MemoryLog,
    pub(crate) fails: Arc<AtomicBool>,
    pub(crate) appends: Arc<AtomicUsize>,
    /// The append with this number (from 1) and later ones fail, until `fails` is cleared.
    pub(crate) fails_from: Arc<AtomicUsize>,
}

#[async_trait]
impl EventLog for Log {
    async fn append(&self, events: &[NewEvent]) -> Result<Vec<u64>, StoreError> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        let from = self.fails_from.load(Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) || (from > 0 && number >= from) {
            return Err(StoreError::Unavailable("the disk is full".to_owned()));
        }
        self.kept.append(events).await
    }

    async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        self.kept.read(query).await
    }

    async fn at(&self, positions: &[u64]) -> Result<Vec<LoggedEvent>, StoreError> {
        self.kept.at(positions).await
    }
}

impl Log {
    pub(crate) async fn events_of(&self, run: &RunId) -> Vec<RunEvent> {
        let query = EventQuery { run: Some(run.clone()), ..EventQuery::default() };
        let read = self.kept.read(query).await.unwrap();
        read.into_iter().map(|logged| logged.event).collect()
    }

    /// `type:status-or-reason` of every event.
    pub(crate) fn recorded(&self) -> Vec<String> {
        self.kept.events().iter().map(|logged| recorded(&logged.event.body)).collect()
    }
}

pub(crate) fn recorded(body: &EventBody) -> String {
    match body {
        EventBody::ToolCalled(_) => "called".to_owned(),
        EventBody::ToolReturned(returned) => {
            let code = returned.error.as_ref().map(|error| format!(" {}", error.code));
            let ran = if returned.duration_ms.is_some() { " ran" } else { "" };
            format!("returned {:?}{}{ran}", returned.status, code.unwrap_or_default())
        }
        EventBody::AuthorizationDecided(decided) => {
            let reason = decided.reason.as_deref().unwrap_or("-");
            format!("decided {} {} {reason}", decided.action, decided.resource)
        }
        EventBody::EgressDecided(egress) => {
            format!("egress {:?} {}", egress.decision, egress.destination)
        }
        EventBody::ToolSessionOpened(opened) => format!("opened {}", opened.tool_id),
        EventBody::InterruptRequested(asked) => format!("asked {}", asked.data.artifact_id),
        EventBody::ApprovalGranted(granted) => match &granted.quorum_progress {
            None => format!("granted {}", granted.principal),
            Some(by_now) => {
                format!("granted {} {}/{}", granted.principal, by_now.granted, by_now.required)
            }
        },
        EventBody::ApprovalRejected(rejected) => {
            format!("rejected {} {}", rejected.principal, rejected.reason.as_deref().unwrap_or("-"))
        }
        EventBody::ApprovalOverridden(overridden) => format!("overridden {}", overridden.principal),
        EventBody::SignInStarted(started) => format!("signed in {}", started.principal),
        EventBody::SignInEnded(ended) => format!("signed out {}", ended.principal),
        EventBody::SavedChanged(changed) => format!("{:?} {}", changed.action, changed.kind),
        EventBody::KeyChanged(changed) => format!("key {:?} {}", changed.action, changed.holder),
        EventBody::AccountConnected(it) => format!("connected {} {}", it.of.word(), it.principal),
        EventBody::AccountDisconnected(it) => {
            format!("disconnected {} {}", it.of.word(), it.principal)
        }
        EventBody::ClientSignedIn(it) => format!("client in {} {}", it.by.word(), it.principal),
        EventBody::ClientSignedOut(it) => {
            format!("client out {} {}", it.cause.word(), it.principal)
        }
        EventBody::AccountRefused(it) => format!("account refused {}", it.credential_id),
        EventBody::ConfigEdited(edited) => format!("edited {}", edited.after),
        EventBody::RecordResumed(resumed) => format!("resumed after {}", resumed.failed),
        EventBody::RecordAccepted(accepted) => format!("accepted {}", accepted.problem),
        EventBody::ToolSessionClosed(closed) => {
            format!("closed {} {:?}", closed.tool_id, closed.outcome)
        }
        EventBody::ToolPinDrifted(drifted) => format!("drifted {}", drifted.tool_id),
        EventBody::ToolPinApproved(approved) => format!("approved {}", approved.tool_id),
    }
}

/// Builds [`Scripted`] sources, whatever their description, and remembers them.
#[derive(Default)]
pub(crate) struct Factory {
    pub(crate) built: Mutex<Vec<Arc<Scripted>>>,
    pub(crate) offers: Mutex<Option<Result<Discovered, UpstreamErrorKind>>>,
    pub(crate) vault: Arc<Vault>,
    pub(crate) service: Arc<Service>,
}

/// Resolves the credential of the tool `keyed`.
#[derive(Default)]
pub(crate) struct Vault {
    /// Why there is no credential.
    pub(crate) problem: Mutex<Option<CredentialProblem>>,
    /// No access token is issued.
    pub(crate) hangs: AtomicBool,
    pub(crate) resolved: AtomicUsize,
    /// The grants of accounts.
    pub(crate) grants: Mutex<Option<Arc<dyn GrantStore>>>,
    /// Why a connected account has no token.
    pub(crate) refuses: Mutex<Option<CredentialProblem>>,
}

impl Vault {
    async fn find(
        &self,
        need: &CredentialNeed,
        tenant: &TenantId,
        principal: &PrincipalId,
    ) -> Result<Credential, CredentialRefusal> {
        let CredentialNeed::Account { .. } = need else { return self.stored(tenant) };
        let grants = self.grants.lock().clone().unwrap();
        accounts::find(&grants, need, tenant, principal).await
    }

    fn stored(&self, tenant: &TenantId) -> Result<Credential, CredentialRefusal> {
        let refused = |problem| CredentialRefusal {
            cause: RefusalCause::Credential(problem),
            id: None,
            destination: "api.example".to_owned(),
        };
        match *self.problem.lock() {
            Some(problem) => Err(refused(problem)),
            None => Ok(Credential {
                id: "cred-1".parse().unwrap(),
                name: "github".parse().unwrap(),
                owner: Owner::tenant(tenant.clone()),
                kind: CredentialKind::Query { parameter: "key".to_owned() },
                audiences: Vec::new(),
                created_at: DateTime::UNIX_EPOCH,
                rotated_at: DateTime::UNIX_EPOCH,
                expires_at: None,
                revision: 1,
            }),
        }
    }
}

#[async_trait]
impl CredentialResolver for Vault {
    async fn resolve(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<Arc<ResolvedCredential>>, CredentialRefusal> {
        self.resolved.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let value = Secret::new("value-canary".to_owned());
        let material = Material { value, client_secret: None };
        let credential = Vault::find(self, need, caller.tenant, caller.principal).await?;
        if let Some(problem) = *self.refuses.lock() {
            let cause = RefusalCause::Credential(problem);
            let destination = "api.example".to_owned();
            return Err(CredentialRefusal { cause, id: Some(credential.id), destination });
        }
        Ok(Some(Arc::new(ResolvedCredential { credential, material, token: None })))
    }

    async fn find(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<FoundCredential>, CredentialRefusal> {
        let Credential { id, owner, .. } =
            Vault::find(self, need, caller.tenant, caller.principal).await?;
        Ok(Some(FoundCredential { id, owner }))
    }
}

/// A source whose tools are named after their behavior.
pub(crate) struct Scripted {
    id: SourceId,
    account: Option<Arc<AccountSpec>>,
    listener: Arc<dyn SourceListener>,
    pub(crate) offers: Mutex<Result<Discovered, UpstreamErrorKind>>,
    pub(crate) invoked: AtomicUsize,
    pub(crate) dropped: Arc<AtomicUsize>,
    pub(crate) closed: AtomicUsize,
    pub(crate) asked: AtomicUsize,
    /// Discovery never finishes.
    pub(crate) hangs: AtomicBool,
    /// The source is connected, but discovery fails.
    pub(crate) refuses: AtomicBool,
    pub(crate) unreachable: AtomicBool,
    /// The number of discoveries that panic.
    pub(crate) panics: AtomicUsize,
    /// Whether its status panics.
    pub(crate) status_panics: AtomicBool,
    /// The tools of accounts, by principal; `None` if all have the same. Other accounts have no list.
    pub(crate) own: Mutex<Option<BTreeMap<String, Vec<&'static str>>>>,
    /// The number of lists of accounts that were requested, and that were read.
    pub(crate) own_begun: AtomicUsize,
    pub(crate) own_reads: AtomicUsize,
    /// Lists of accounts come only after this is notified.
    pub(crate) own_gate: Mutex<Option<Arc<tokio::sync::Notify>>>,
}

/// The gateway's handle: the test's own handle must not keep a removed source in use.
struct Running(Arc<Scripted>);

#[async_trait]
impl Source for Running {
    fn id(&self) -> &SourceId {
        self.0.id()
    }
    fn kind(&self) -> SourceKind {
        self.0.kind()
    }
    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        self.0.discover().await
    }
    fn credential_for(&self, entry: &Entry) -> CredentialNeed {
        self.0.credential_for(entry)
    }
    fn own_list_need(&self) -> CredentialNeed {
        self.0.own_list_need()
    }
    async fn own_list(
        &self,
        credential: Arc<ResolvedCredential>,
    ) -> Result<HashSet<String>, UpstreamError> {
        self.0.own_list(credential).await
    }
    fn check_reachable(&self) -> Result<(), UpstreamError> {
        self.0.check_reachable()
    }
    async fn serve(&self, permit: &Permit, operation: Operation) -> Result<Reply, UpstreamError> {
        self.0.serve(permit, operation).await
    }
    fn status(&self) -> SourceStatus {
        self.0.status()
    }
    async fn close(&self) {
        self.0.close().await;
    }
}

impl SourceFactory for Factory {
    fn credentials(&self) -> Arc<dyn CredentialResolver> {
        Arc::clone(&self.vault) as _
    }

    fn accounts(&self) -> Arc<dyn AccountConnector> {
        Arc::clone(&self.service) as _
    }

    fn check(&self, spec: &SourceSpec) -> Result<(), InvalidSource> {
        match spec.upstream.identity().contains("impossible") {
            false => Ok(()),
            true => Err(InvalidSource {
                source_id: spec.id.clone(),
                problem: "can never work".to_owned(),
            }),
        }
    }

    fn build(
        &self,
        spec: &SourceSpec,
        listener: Arc<dyn SourceListener>,
    ) -> Result<Arc<dyn Source>, InvalidSource> {
        let offers = self.offers.lock().clone().unwrap_or_else(|| Ok(offer(&["echo"])));
        let source = Arc::new(Scripted {
            id: spec.id.clone(),
            account: spec.account.clone(),
            listener: Arc::clone(&listener),
            offers: Mutex::new(offers),
            invoked: AtomicUsize::new(0),
            dropped: Arc::default(),
            closed: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            hangs: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            unreachable: AtomicBool::new(false),
            panics: AtomicUsize::new(0),
            status_panics: AtomicBool::new(false),
            own: Mutex::default(),
            own_begun: AtomicUsize::new(0),
            own_reads: AtomicUsize::new(0),
            own_gate: Mutex::default(),
        });
        self.built.lock().push(Arc::clone(&source));
        listener.changed(&spec.id);
        Ok(Arc::new(Running(source)))
    }
}

impl Scripted {
    pub(crate) fn offer(&self, tools: &[&str]) {
        *self.offers.lock() = Ok(offer(tools));
        self.listener.changed(&self.id);
    }
}

/// Returns the discovery of a source with these tools.
pub(crate) fn offer(names: &[&str]) -> Discovered {
    let tools = names.iter().map(|name| DiscoveredOffer {
        name: (*name).to_owned(),
        input_schema: Some(json!({
            "type": "object",
            "properties": { "text": { "type": "string" }, "n": { "type": "integer" } },
            "required": if *name == "strict" { json!(["text", "n"]) } else { json!([]) },
        })),
        raw: json!({ "name": name }),
        ..DiscoveredOffer::default()
    });
    Discovered { offers: tools.map(Into::into).collect(), ..Discovered::default() }
}

struct CountDrop(Arc<AtomicUsize>);
impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Scripted {
    async fn run(&self, permit: &Permit, call: Invocation) -> Result<Outcome, UpstreamError> {
        self.invoked.fetch_add(1, Ordering::SeqCst);
        match permit.entry().upstream_name.as_str() {
            "keyed" => {
                let resolved = call.credential.as_deref().unwrap();
                assert_eq!(resolved.material.value.expose(), "value-canary");
                Ok(Outcome::text(&format!("{call:?}"), false))
            }
            "fail" => Ok(Outcome::text("it went wrong", true)),
            "expelled" => {
                let kind = UpstreamErrorKind::Credential(CredentialProblem::NeedsConsent);
                Err(UpstreamError::new(kind, "401"))
            }
            "lacking" => {
                let kind = UpstreamErrorKind::Credential(CredentialProblem::NeedsScopes);
                Err(UpstreamError::new(kind, "403"))
            }
            "ungranted" => {
                let kind = UpstreamErrorKind::Credential(CredentialProblem::NotGranted);
                Err(UpstreamError::new(kind, "not `admin`"))
            }
            "down" => Err(UpstreamError::new(UpstreamErrorKind::Unavailable, "not connected")),
            "dies" => Err(UpstreamError::new(UpstreamErrorKind::Died, "gone")),
            "hang" => {
                let _count = CountDrop(Arc::clone(&self.dropped));
                std::future::pending::<()>().await;
                Ok(Outcome::text("never", false))
            }
            "boom" => panic!("a fault in a source"),
            "blocked" => {
                call.egress.note(EgressDecided::allowed("a.example"));
                call.egress.note(EgressDecided::denied("10.0.0.1", EgressReason::SsrfBlocked));
                Err(UpstreamError::new(UpstreamErrorKind::EgressRefused, "10.0.0.1"))
            }
            "sent_on" => Err(UpstreamError::new(UpstreamErrorKind::RedirectRefused, "10.0.0.1")),
            "slow" => {
                tokio::time::sleep(Duration::from_millis(30)).await;
                Ok(Outcome::text(&Value::Object(call.arguments).to_string(), false))
            }
            "flaky" if !self.invoked.load(Ordering::SeqCst).is_multiple_of(3) => {
                Err(UpstreamError::new(UpstreamErrorKind::Died, "gone"))
            }
            "big" => Ok(Outcome::text(&"x".repeat(5 << 20), false)),
            _ => Ok(Outcome::text(&Value::Object(call.arguments).to_string(), false)),
        }
    }
}

#[async_trait]
impl Source for Scripted {
    fn id(&self) -> &SourceId {
        &self.id
    }
    fn kind(&self) -> SourceKind {
        SourceKind::Mcp
    }
    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let left = |left: usize| left.checked_sub(1);
        if self.panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok() {
            panic!("a fault in a source");
        }
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.refuses.load(Ordering::SeqCst) {
            return Err(UpstreamError::new(UpstreamErrorKind::Refused, "no list today"));
        }
        self.offers.lock().clone().map_err(|kind| UpstreamError::new(kind, "scripted"))
    }
    fn credential_for(&self, entry: &Entry) -> CredentialNeed {
        if let Some(account) = &self.account {
            let destination = "api.example".to_owned();
            let (source, account) = (self.id.clone(), Arc::clone(account));
            return CredentialNeed::Account { source, account, destination };
        }
        match entry.upstream_name.as_str() {
            "keyed" => CredentialNeed::Stored {
                reference: CredentialRef::of_caller("github".parse().unwrap()),
                destination: "https://api.example/".to_owned(),
            },
            _ => CredentialNeed::None,
        }
    }
    fn own_list_need(&self) -> CredentialNeed {
        match (&*self.own.lock(), &self.account) {
            (Some(_), Some(account)) => CredentialNeed::Account {
                source: self.id.clone(),
                account: Arc::clone(account),
                destination: "api.example".to_owned(),
            },
            _ => CredentialNeed::None,
        }
    }
    async fn own_list(
        &self,
        credential: Arc<ResolvedCredential>,
    ) -> Result<HashSet<String>, UpstreamError> {
        let owner = credential.credential.owner.principal.clone().unwrap();
        let names = self.own.lock().as_ref().and_then(|own| own.get(owner.as_str()).cloned());
        let gate = self.own_gate.lock().clone();
        self.own_begun.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = gate {
            gate.notified().await;
        }
        self.own_reads.fetch_add(1, Ordering::SeqCst);
        let names = names.ok_or_else(|| UpstreamError::new(UpstreamErrorKind::Refused, "no list"));
        Ok(names?.into_iter().map(str::to_owned).collect())
    }
    fn check_reachable(&self) -> Result<(), UpstreamError> {
        match self.unreachable.load(Ordering::SeqCst) {
            true => Err(UpstreamError::new(UpstreamErrorKind::Unavailable, "no connection")),
            false => Ok(()),
        }
    }
    async fn serve(&self, permit: &Permit, operation: Operation) -> Result<Reply, UpstreamError> {
        self.run(permit, operation.into_tool_call()?).await.map(Reply::Done)
    }
    fn status(&self) -> SourceStatus {
        assert!(!self.status_panics.load(Ordering::SeqCst), "a fault in a source");
        SourceStatus {
            state: match *self.offers.lock() {
                Err(UpstreamErrorKind::Unavailable) => SourceState::Degraded,
                Ok(_) | Err(_) => SourceState::Ready,
            },
            detail: None,
            since: DateTime::UNIX_EPOCH,
            restarts: 0,
        }
    }
    async fn close(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) struct NoSecrets;
impl SecretReader for NoSecrets {
    fn env(&self, name: &str) -> Option<Secret> {
        match name {
            "SET" => Some(Secret::new("s3cret-value".to_owned())),
            "LONG" => Some(Secret::new("a-secret-of-twenty-four-bytes-or-more".to_owned())),
            _ => None,
        }
    }
    fn file(&self, path: &Path) -> Result<Secret, String> {
        Err(format!("cannot read {}", path.display()))
    }
}

/// A gateway and its fakes.
pub(crate) struct Rig {
    pub(crate) gateway: Gateway,
    pub(crate) log: Log,
    pub(crate) keys: Arc<dyn KeyStore>,
    pub(crate) catalogs: MemoryCatalogs,
    pub(crate) factory: Arc<Factory>,
}

pub(crate) fn parse(text: &str) -> Config {
    config::parse("toolcrib.toml", text, Path::new("/etc/toolcrib"), &NoSecrets).unwrap()
}

/// Creates a gateway with one source `s` that offers `tools`, under `rules` (the inside of
/// `[[source]]`).
pub(crate) async fn rig(tools: &[&str], rules: &str) -> Rig {
    rig_with(Some(Ok(offer(tools))), &one_source(rules), MemoryCatalogs::default()).await
}

pub(crate) fn one_source(rules: &str) -> String {
    format!("[[source]]\nid = \"s\"\nkind = \"mcp\"\ncommand = [\"x\"]\n{rules}")
}

pub(crate) async fn rig_with(
    offers: Option<Result<Discovered, UpstreamErrorKind>>,
    text: &str,
    catalogs: MemoryCatalogs,
) -> Rig {
    rig_at(offers, text, catalogs, Arc::new(SystemClock::default())).await
}

pub(crate) async fn rig_at(
    offers: Option<Result<Discovered, UpstreamErrorKind>>,
    text: &str,
    catalogs: MemoryCatalogs,
    clock: Arc<dyn Clock>,
) -> Rig {
    let (log, factory) = (Log::default(), Arc::new(Factory::default()));
    *factory.offers.lock() = offers;
    let storage = storage(&log, &catalogs);
    *factory.vault.grants.lock() = Some(Arc::clone(&storage.grants));
    let keys = Arc::clone(&storage.keys);
    let builder = GatewayBuilder::new(
        parse(text),
        Arc::new(storage),
        Arc::clone(&factory) as Arc<dyn SourceFactory>,
    );
    let gateway = builder.clock(clock).start().await.unwrap();
    gateway.supply().settle(Duration::from_secs(10)).await;
    Rig { gateway, log, keys, catalogs, factory }
}

/// Returns a storage in memory with these parts.
pub(crate) fn storage(log: &Log, catalogs: &MemoryCatalogs) -> MemoryStorage {
    let catalogs = Arc::new(catalogs.clone());
    let mut storage = MemoryStorage::with_events(log.clone());
    storage.catalogs = catalogs;
    storage
}

pub(crate) fn principal(tenant: &str, scopes: &[&str]) -> Principal {
    Principal {
        id: PrincipalId::parse("p").unwrap(),
        tenant: TenantId::parse(tenant).unwrap(),
        scopes: ScopeSet::parse(scopes.iter().copied()).unwrap(),
        roles: Vec::new(),
        makers: Vec::new(),
        session: None,
        auth: AuthMethod::Operator,
    }
}

impl Rig {
    pub(crate) async fn call(
        &self,
        principal: &Principal,
        tool: &str,
        arguments: Value,
    ) -> CallReport {
        let request =
            CallRequest::new(self.gateway.snapshot(), Surface::CLI, ToolRef::Wire(tool), arguments);
        let called = self.gateway.call(principal, request).await;
        self.settle().await;
        called
    }

    /// Waits until denials are in the log, like readers of events do.
    pub(crate) async fn settle(&self) {
        let query = EventQuery { limit: 1, ..EventQuery::default() };
        self.gateway.audit().read(query).await.unwrap();
    }

    pub(crate) fn source(&self) -> Arc<Scripted> {
        Arc::clone(&self.factory.built.lock()[0])
    }

    pub(crate) fn listed(&self, principal: &Principal) -> Vec<String> {
        self.gateway.snapshot().view(principal).entries().iter().map(|e| e.id.to_string()).collect()
    }
}

/// Waits until `condition` is true; fails the test if it never is.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}

/// A clock that advances only on demand.
#[derive(Default)]
pub(crate) struct Hand(pub(crate) AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        DateTime::UNIX_EPOCH
    }
    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
