//! An OpenAPI service as a [`Source`].
//!
//! Invariant: configured headers are sent only to the configured service, never to a host that only
//! the document names.

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::RwLock;
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::DropGuard;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError},
    catalog::Permit,
    descriptor::SourceKind,
    egress::EgressTrail,
    id::SourceId,
    source::{
        Discovered, Source, SourceLimits, SourceState, SourceStatus,
        connector::{ConnectorSpec, DocumentAt},
    },
    text::io_reason,
};
use toolcrib_tasks::{Backoff, Policy};
use url::Url;

use super::{
    document::MAX_DOCUMENT,
    request, response,
    select::Selection,
    server::Servers,
    service::{Operations, ReadSettings, Service},
};
use crate::{
    calls::Calls,
    context::SourceContext,
    credential::{self, SourceCredential},
    egress::{Egress, Guard, MAX_HOPS, Network, Outgoing, parse_headers, parse_url},
    error::{protocol, timeout, unavailable},
    forms::Forms,
    status::StatusBoard,
};

/// Initial pause before a failed read of the document is retried; doubled after each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A validated description of a source.
pub(crate) struct Plan {
    document: DocumentLocation,
    base: Option<Url>,
    selection: Selection,
    variables: BTreeMap<String, String>,
    headers: HeaderMap,
    /// The only origin that receives `headers`.
    home: Option<Url>,
    egress: Egress,
    credential: Option<Arc<SourceCredential>>,
}

enum DocumentLocation {
    File(PathBuf),
    Url(Url),
}

/// The source of one service, which closes when it is dropped.
pub(crate) struct ConnectorSource {
    shared: Arc<Shared>,
    _close: DropGuard,
}

/// The state that a source shares with the task that first reads its document.
struct Shared {
    context: SourceContext,
    plan: Arc<Plan>,
    read: RwLock<Option<LastRead>>,
    calls: Calls,
    status: StatusBoard,
}

/// The result of the last read.
struct LastRead {
    operations: Arc<Operations>,
    forms: Arc<Forms>,
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
            DocumentAt::File(path) => DocumentLocation::File(path.clone()),
            DocumentAt::Url(url) => {
                DocumentLocation::Url(parse_url("the document's address", url)?)
            }
        };
        let base = spec.base_url.as_deref().map(|url| parse_url("`base_url`", url)).transpose()?;
        let home = base.as_ref().or(document.url()).cloned();
        let headers = parse_headers(&spec.headers)?;
        if home.is_none() && !headers.is_empty() {
            return Err("headers require a `base_url`; set it".to_owned());
        }
        let guard = Guard::new(spec.allow.clone(), document.url().into_iter().chain(&base));
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
            DocumentLocation::File(path) => read_file(path).await,
            DocumentLocation::Url(url) => {
                let mut request = Outgoing::new(Method::GET, url.clone());
                request.hops = MAX_HOPS;
                let accept =
                    HeaderValue::from_static("application/json, application/yaml, */*;q=0.8");
                request.headers.insert(header::ACCEPT, accept);
                self.authorize(&mut request);
                let answer = self.egress.send(request, &EgressTrail::default()).await?;
                let status = answer.status();
                if !status.is_success() {
                    return Err(unavailable(format!(
                        "the request for the OpenAPI document returned HTTP {}",
                        status.as_u16()
                    )));
                }
                Ok(answer.collect(MAX_DOCUMENT).await?)
            }
        }
    }

    fn read(&self, bytes: &[u8], limits: &SourceLimits) -> Result<Service, UpstreamError> {
        let configured: HashSet<String> =
            self.headers.keys().map(|name| name.as_str().to_owned()).collect();
        let settings = ReadSettings {
            selection: &self.selection,
            servers: Servers {
                base: self.base.as_ref(),
                document: self.document.url(),
                variables: &self.variables,
            },
            configured: &configured,
            limits,
        };
        let mut service =
            Service::read(bytes, &settings).map_err(|error| protocol(error.to_string()))?;
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

impl DocumentLocation {
    fn url(&self) -> Option<&Url> {
        match self {
            Self::Url(url) => Some(url),
            Self::File(_) => None,
        }
    }
}

async fn read_file(path: &Path) -> Result<Vec<u8>, UpstreamError> {
    let unreadable = |error: std::io::Error| {
        unavailable(format!("{} cannot be read: {}", path.display(), io_reason(error.kind())))
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
    async fn begin(&self) {
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        for failures in 1.. {
            match self.load().await {
                Ok((service, forms)) => {
                    self.keep(service.operations, forms, Some(service.discovered));
                    self.status.set(SourceState::Ready, "");
                    return self.context.changed();
                }
                Err(error) => self.status.set(SourceState::Degraded, &error.detail),
            }
            tokio::time::sleep(backoff.after(failures)).await;
        }
    }

    async fn load(&self) -> Result<(Service, Forms), UpstreamError> {
        tokio::time::timeout(self.context.limits.connect_timeout, self.read())
            .await
            .unwrap_or_else(|_| Err(timeout("the document was not loaded in time")))
    }

    async fn read(&self) -> Result<(Service, Forms), UpstreamError> {
        let bytes = self.plan.fetch().await?;
        let (plan, limits) = (Arc::clone(&self.plan), self.context.limits.clone());
        // Parsing a large document takes a second of CPU time.
        let read = tokio::task::spawn_blocking(move || {
            let service = plan.read(&bytes, &limits)?;
            let forms = Forms::of(&service.discovered.tools);
            Ok((service, forms))
        });
        let read = read.await;
        read.map_err(|_| unavailable("reading the document was interrupted"))?
    }

    fn keep(&self, operations: Operations, forms: Forms, news: Option<Discovered>) {
        let (operations, forms) = (Arc::new(operations), Arc::new(forms));
        *self.read.write() = Some(LastRead { operations, forms, news });
    }

    async fn call(&self, permit: &Permit, call: &Invocation) -> Result<Outcome, UpstreamError> {
        let read = |read: &LastRead| (Arc::clone(&read.operations), Arc::clone(&read.forms));
        let read = self.read.read().as_ref().map(read);
        let (operations, forms) =
            read.ok_or_else(|| unavailable("its document has not been read yet"))?;
        let entry = permit.entry();
        let Some(callable) = operations.get(&entry.upstream_name) else {
            return Err(unavailable("this operation no longer exists"));
        };
        forms.check(&entry.upstream_name, entry.pinned)?;
        let _slot = self.calls.slot(permit).await?;
        let built = request::build(&callable.operation, &callable.base, &call.arguments);
        let mut request = match built {
            Ok(request) => request,
            Err(problem) => {
                return Ok(Outcome::text(&format!("nothing was sent: {problem}"), true));
            }
        };
        let Plan { egress, credential, .. } = &*self.plan;
        self.plan.authorize(&mut request);
        let echoes =
            SourceCredential::attach(credential.as_ref(), permit, &mut request, call).await?;
        let answer = async {
            let answer = egress.send(request, &call.egress).await?;
            response::outcome(answer, call.max_result_bytes, self.context.clock.now()).await
        };
        credential::clean(&echoes, answer.await)
    }
}

// === impl ConnectorSource ===

impl ConnectorSource {
    pub(crate) fn start(context: SourceContext, plan: Plan) -> Self {
        let shared = Arc::new(Shared {
            plan: Arc::new(plan),
            read: RwLock::new(None),
            calls: Calls::new(&context.limits),
            status: StatusBoard::new(Arc::clone(&context.clock)),
            context,
        });
        let (beginner, closed) = (Arc::clone(&shared), shared.calls.closed.clone());
        let name = shared.context.task_name();
        shared.context.tasks.spawn(name, Policy::UntilDone, closed, move || {
            let beginner = Arc::clone(&beginner);
            async move {
                beginner.calls.closed.run_until_cancelled(beginner.begin()).await;
            }
        });
        let _close = shared.calls.closed.clone().drop_guard();
        Self { shared, _close }
    }
}

#[async_trait]
impl Source for ConnectorSource {
    fn id(&self) -> &SourceId {
        &self.shared.context.id
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Connector
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        self.shared.calls.check_open()?;
        let news = self.shared.read.write().as_mut().and_then(|read| read.news.take());
        if let Some(news) = news {
            return Ok(news);
        }
        let (service, forms) = self.shared.load().await?;
        self.shared.keep(service.operations, forms, None);
        Ok(service.discovered)
    }

    async fn invoke(&self, permit: &Permit, call: Invocation) -> Result<Outcome, UpstreamError> {
        self.shared.calls.run(pin!(self.shared.call(permit, &call))).await
    }

    fn status(&self) -> SourceStatus {
        self.shared.status.get()
    }

    async fn close(&self) {
        self.shared.calls.closed.cancel();
        self.shared.status.set(SourceState::Stopped, "");
        if let Some(credential) = &self.shared.plan.credential {
            credential.wait_for_requests().await;
        }
    }
}
