//! An OpenAPI service as a [`Source`].
//!
//! Invariant: configured headers are sent only to the configured service, never to a host that only
//! the document names.

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::RwLock;
use tokio::{io::AsyncReadExt as _, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Clock,
    descriptor::SourceKind,
    egress::EgressTrail,
    id::SourceId,
    source::{
        Discovered, Source, SourceLimits, SourceListener, SourceState, SourceStatus,
        connector::{ConnectorSpec, DocumentAt},
    },
    text::io_reason,
};
use toolcrib_tasks::{Policy, TaskName, Tasks};
use url::Url;

use super::{
    document::MAX_DOCUMENT,
    request, response,
    select::Selection,
    server::Servers,
    service::{Operations, Service, Wanted},
};
use crate::{
    SUPERVISOR,
    credential::{Asks, SourceCredential},
    egress::{Egress, Guard, MAX_HOPS, Network, Outgoing, parse_headers, parse_url},
    status::StatusBoard,
};

/// Initial pause before a failed read of the document is retried; doubled after each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A validated description of a source.
pub(crate) struct Plan {
    document: At,
    base: Option<Url>,
    selection: Selection,
    variables: BTreeMap<String, String>,
    headers: HeaderMap,
    /// The only origin that receives `headers`.
    home: Option<Url>,
    egress: Egress,
    credential: Option<Arc<SourceCredential>>,
}

enum At {
    File(PathBuf),
    Url(Url),
}

/// The source of one service.
pub(crate) struct ConnectorSource(Arc<Shared>);

/// The state that a source shares with the task that first reads its document.
struct Shared {
    id: SourceId,
    plan: Arc<Plan>,
    limits: SourceLimits,
    known: RwLock<Option<Known>>,
    slots: Semaphore,
    status: StatusBoard,
    closed: CancellationToken,
}

/// The result of the last read.
struct Known {
    operations: Arc<Operations>,
    /// The first discovery, until it is fetched. It is dropped then, because the schemas of a large
    /// document take most of its memory and the catalog has a copy.
    news: Option<Discovered>,
}

// === impl Plan ===

impl Plan {
    pub(crate) fn new(
        spec: &ConnectorSpec,
        network: &Network,
        credential: Option<Arc<SourceCredential>>,
    ) -> Result<Self, String> {
        let document = match &spec.document {
            DocumentAt::File(path) => At::File(path.clone()),
            DocumentAt::Url(url) => At::Url(parse_url("the document's address", url)?),
        };
        let base = spec.base_url.as_deref().map(|url| parse_url("`base_url`", url)).transpose()?;
        let home = match (&base, &document) {
            (Some(base), _) => Some(base.clone()),
            (None, At::Url(url)) => Some(url.clone()),
            (None, At::File(_)) => None,
        };
        let headers = parse_headers(&spec.headers)?;
        if home.is_none() && !headers.is_empty() {
            return Err("headers require a `base_url`; set it".to_owned());
        }
        let from = match &document {
            At::Url(url) => Some(url),
            At::File(_) => None,
        };
        let guard = Guard::new(spec.allow.clone(), from.into_iter().chain(&base));
        Ok(Self {
            selection: Selection::new(&spec.operations)?,
            variables: spec.variables.clone(),
            egress: network.egress(guard)?,
            document,
            base,
            headers,
            home,
            credential,
        })
    }

    /// Adds the configured headers to a request to the configured service. They override headers
    /// from arguments.
    fn authorize(&self, request: &mut Outgoing) {
        if self.home.as_ref().is_some_and(|home| home.origin() == request.url.origin()) {
            for (name, value) in &self.headers {
                request.bound.insert(name.clone(), value.clone());
            }
        }
    }

    /// Returns the bytes of the document.
    async fn fetch(&self) -> Result<Vec<u8>, UpstreamError> {
        match &self.document {
            At::File(path) => read_file(path).await,
            At::Url(url) => {
                let mut request = Outgoing::new(Method::GET, url.clone());
                request.hops = MAX_HOPS;
                let accept =
                    HeaderValue::from_static("application/json, application/yaml, */*;q=0.8");
                request.headers.insert(header::ACCEPT, accept);
                self.authorize(&mut request);
                let answer = self.egress.send(request, &EgressTrail::default()).await?;
                let status = answer.status();
                if !status.is_success() {
                    let detail = format!(
                        "the request for the OpenAPI document returned HTTP {}",
                        status.as_u16()
                    );
                    return Err(UpstreamError::new(UpstreamErrorKind::Unavailable, detail));
                }
                Ok(answer.collect(MAX_DOCUMENT).await?)
            }
        }
    }

    fn read(&self, bytes: &[u8], limits: &SourceLimits) -> Result<Service, UpstreamError> {
        let document = match &self.document {
            At::Url(url) => Some(url),
            At::File(_) => None,
        };
        let configured: HashSet<String> =
            self.headers.keys().map(|name| name.as_str().to_owned()).collect();
        let wanted = Wanted {
            selection: &self.selection,
            servers: Servers { base: self.base.as_ref(), document, variables: &self.variables },
            configured: &configured,
            limits,
        };
        let mut service = Service::read(bytes, &wanted)
            .map_err(|error| UpstreamError::new(UpstreamErrorKind::Protocol, error.to_string()))?;
        let abroad =
            |url: &Url| self.home.as_ref().is_some_and(|home| home.origin() != url.origin());
        let away = service.operations.values().filter(|it| abroad(&it.base)).count();
        if away > 0 && !self.headers.is_empty() {
            service.discovered.problems.push(format!(
                "{away} operations are sent without `headers`, because the document puts them on another server; give `base_url` if it is meant"
            ));
        }
        Ok(service)
    }
}

async fn read_file(path: &Path) -> Result<Vec<u8>, UpstreamError> {
    let unreadable = |error: std::io::Error| {
        let detail = format!("{} cannot be read: {}", path.display(), io_reason(error.kind()));
        UpstreamError::new(UpstreamErrorKind::Unavailable, detail)
    };
    let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_DOCUMENT).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).await.map_err(unreadable)?;
    Ok(bytes)
}

// === impl Shared ===

impl Shared {
    /// Retries until the document was read once. Only then is the source ready.
    async fn begin(&self, listener: &dyn SourceListener) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.load().await {
                Ok(service) => {
                    self.know(service.operations, Some(service.discovered));
                    self.status.set(SourceState::Ready, "");
                    listener.changed(&self.id);
                    return;
                }
                Err(error) => self.status.set(SourceState::Starting, &error.detail),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn load(&self) -> Result<Service, UpstreamError> {
        match tokio::time::timeout(self.limits.connect_timeout, self.read()).await {
            Ok(loaded) => loaded,
            Err(_) => {
                let detail = "the document was not loaded in time";
                Err(UpstreamError::new(UpstreamErrorKind::Timeout, detail))
            }
        }
    }

    async fn read(&self) -> Result<Service, UpstreamError> {
        let bytes = self.plan.fetch().await?;
        let (plan, limits) = (Arc::clone(&self.plan), self.limits.clone());
        // Parsing a large document takes a second of CPU time.
        let read = tokio::task::spawn_blocking(move || plan.read(&bytes, &limits)).await;
        read.map_err(|_| unavailable("reading the document was interrupted"))?
    }

    fn know(&self, operations: Operations, news: Option<Discovered>) {
        *self.known.write() = Some(Known { operations: Arc::new(operations), news });
    }

    async fn call(&self, permit: &Permit, call: &Invocation) -> Result<Outcome, UpstreamError> {
        let known = self.known.read().as_ref().map(|known| Arc::clone(&known.operations));
        let operations = known.ok_or_else(|| unavailable("its document has not been read yet"))?;
        let Some(callable) = operations.get(&permit.entry().upstream_name) else {
            return Err(unavailable("this operation no longer exists"));
        };
        let closing = |_| unavailable("the source is closed");
        let _slot = self.slots.acquire().await.map_err(closing)?;
        let built = request::build(&callable.operation, &callable.base, &call.arguments);
        let mut request = match built {
            Ok(request) => request,
            Err(problem) => {
                return Ok(Outcome::text(&format!("nothing was sent: {problem}"), true));
            }
        };
        self.plan.authorize(&mut request);
        let Some(credential) = &self.plan.credential else {
            return self.send(request, call).await;
        };
        let echoes = credential.authorize(Asks::Caller(permit), &mut request, &call.egress).await?;
        match self.send(request, call).await {
            Ok(outcome) => Ok(echoes.outcome(outcome)),
            Err(error) => Err(echoes.error(error)),
        }
    }

    async fn send(&self, request: Outgoing, call: &Invocation) -> Result<Outcome, UpstreamError> {
        let answer = self.plan.egress.send(request, &call.egress).await?;
        response::outcome(answer, call.max_result_bytes).await
    }
}

// === impl ConnectorSource ===

impl ConnectorSource {
    pub(crate) fn start(
        id: SourceId,
        plan: Arc<Plan>,
        limits: SourceLimits,
        listener: Arc<dyn SourceListener>,
        clock: Arc<dyn Clock>,
        tasks: &Tasks,
    ) -> Self {
        let slots = limits.max_concurrency.clamp(1, Semaphore::MAX_PERMITS);
        let shared = Arc::new(Shared {
            id,
            plan,
            limits,
            known: RwLock::new(None),
            slots: Semaphore::new(slots),
            status: StatusBoard::new(clock),
            closed: CancellationToken::new(),
        });
        let beginner = Arc::clone(&shared);
        let name = TaskName::of(SUPERVISOR, shared.id.as_str());
        tasks.spawn(name, Policy::UntilDone, shared.closed.clone(), move || {
            let (beginner, listener) = (Arc::clone(&beginner), Arc::clone(&listener));
            async move {
                let closed = beginner.closed.clone();
                closed.run_until_cancelled(beginner.begin(&*listener)).await;
            }
        });
        Self(shared)
    }
}

impl Drop for ConnectorSource {
    fn drop(&mut self) {
        self.0.closed.cancel();
    }
}

fn unavailable(detail: &str) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Unavailable, detail)
}

#[async_trait]
impl Source for ConnectorSource {
    fn id(&self) -> &SourceId {
        &self.0.id
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Connector
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        if self.0.closed.is_cancelled() {
            return Err(unavailable("the source is closed"));
        }
        let news = self.0.known.write().as_mut().and_then(|known| known.news.take());
        if let Some(news) = news {
            return Ok(news);
        }
        let service = self.0.load().await?;
        self.0.know(service.operations, None);
        Ok(service.discovered)
    }

    async fn invoke(&self, permit: &Permit, call: Invocation) -> Result<Outcome, UpstreamError> {
        let closed = |kind| Err(UpstreamError::new(kind, "the source is closed"));
        if self.0.closed.is_cancelled() {
            return closed(UpstreamErrorKind::Unavailable);
        }
        tokio::select! {
            biased;
            outcome = self.0.call(permit, &call) => outcome,
            () = self.0.closed.cancelled() => closed(UpstreamErrorKind::Died),
        }
    }

    fn status(&self) -> SourceStatus {
        self.0.status.get()
    }

    async fn close(&self) {
        self.0.closed.cancel();
        self.0.status.set(SourceState::Stopped, "");
        if let Some(credential) = &self.0.plan.credential {
            credential.settled().await;
        }
    }
}
