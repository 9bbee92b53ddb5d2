//! An OpenAPI service as a [`Source`].

use std::{
    collections::{BTreeMap, HashSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::RwLock;
use tokio_util::sync::DropGuard;
use toolcrib_core::{
    call::{Invocation, Operation, Outcome, Reply, UpstreamError},
    catalog::{Entry, Permit},
    credential::CredentialNeed,
    descriptor::SourceKind,
    id::SourceId,
    source::{
        Discovered, Source, SourceLimits, SourceState, SourceStatus,
        connector::{ConnectorSpec, OpenApiLocation},
    },
};
use toolcrib_tasks::{Backoff, Policy};
use url::Url;

use super::{
    document::Document,
    files::{DocumentLocation, DocumentReader, LoadedDocument, blocking},
    request, response,
    select::Selection,
    server::{OwnHeaders, Servers},
    service::{Operations, ReadSettings, Service},
};
use crate::{
    calls::Calls,
    context::SourceContext,
    credential::{self, SourceCredential},
    egress::{Egress, Guard, Network, parse_headers, parse_url},
    error::{timeout, unavailable},
    forms::Forms,
    status::StatusBoard,
};

/// Initial pause before a failed read of the document is retried; doubled after each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The most servers of one document that are looked up.
const MAX_SERVERS: usize = 20;

/// A validated description of a source.
pub(crate) struct Plan {
    document: DocumentReader,
    base: Option<Url>,
    selection: Selection,
    variables: BTreeMap<String, String>,
    headers: Arc<OwnHeaders>,
    egress: Egress,
    credential: Option<Arc<SourceCredential>>,
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

/// A loaded document, as tools.
struct ReadDocument {
    service: Service,
    forms: Forms,
    /// See [`LoadedDocument::interrupted`].
    interrupted: Option<UpstreamError>,
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
        let location = match &spec.document {
            OpenApiLocation::Path(path) => DocumentLocation::Path(path.clone()),
            OpenApiLocation::Url(url) => {
                DocumentLocation::Url(parse_url("the document's address", url)?)
            }
        };
        let base = spec.base_url.as_deref().map(|url| parse_url("`base_url`", url)).transpose()?;
        let home = base.as_ref().or(location.url()).cloned();
        let headers = parse_headers(&spec.headers)?;
        if home.is_none() && !headers.is_empty() {
            return Err("headers require a `base_url`; set it".to_owned());
        }
        let headers = Arc::new(OwnHeaders { headers, home });
        let guard = Guard::new(spec.allow.clone(), location.url().into_iter().chain(&base));
        let egress = network.egress(guard)?;
        let document =
            DocumentReader { location, egress: egress.clone(), headers: Arc::clone(&headers) };
        Ok(Self {
            selection: Selection::new(&spec.operations)?,
            variables: spec.variables.clone(),
            egress,
            document,
            base,
            headers,
            credential,
        })
    }

    fn read(&self, document: &Document, limits: &SourceLimits) -> Service {
        let OwnHeaders { headers, .. } = &*self.headers;
        let configured: HashSet<String> =
            headers.keys().map(|name| name.as_str().to_owned()).collect();
        let settings = ReadSettings {
            selection: &self.selection,
            servers: Servers {
                base: self.base.as_ref(),
                document: self.document.location.url(),
                variables: &self.variables,
            },
            configured: &configured,
            limits,
        };
        let mut service = Service::read(document, &settings);
        let away =
            service.operations.values().filter(|operation| self.headers.is_abroad(&operation.base));
        let away = away.count();
        if away > 0 && !headers.is_empty() {
            service.discovered.problems.push(format!(
                "{away} operations are sent without `headers`, because the document puts them on another server; set `base_url` if this is intended"
            ));
        }
        service
    }

    /// Returns a problem for each server of `operations` that calls cannot reach.
    async fn refused_servers(&self, operations: &Operations) -> Vec<String> {
        let mut servers: BTreeMap<String, (&Url, usize)> = BTreeMap::new();
        for operation in operations.values() {
            let origin = operation.base.origin().ascii_serialization();
            servers.entry(origin).or_insert((&operation.base, 0)).1 += 1;
        }
        let checks = servers.into_iter().take(MAX_SERVERS).map(async |(origin, (url, count))| {
            self.egress.refuses(url).await.then(|| {
                format!(
                    "calls of {count} of its operations are refused, because {origin} is not a public \
                     address; set `base_url`, or list the host or its network in `allow`"
                )
            })
        });
        futures_util::future::join_all(checks).await.into_iter().flatten().collect()
    }
}

// === impl Shared ===

impl Shared {
    /// Retries until the document was read once. Only then is the source ready.
    async fn begin(&self) {
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        for failures in 1.. {
            match self.load().await {
                Ok(ReadDocument { service, forms, .. }) => {
                    self.keep(service.operations, forms, Some(service.discovered));
                    self.status.set(SourceState::Ready, "");
                    return self.context.changed();
                }
                Err(error) => self.status.set(SourceState::Degraded, &error.detail),
            }
            tokio::time::sleep(backoff.after(failures)).await;
        }
    }

    async fn load(&self) -> Result<ReadDocument, UpstreamError> {
        tokio::time::timeout(self.context.limits.connect_timeout, self.read())
            .await
            .unwrap_or_else(|_| Err(timeout("the document was not loaded in time")))
    }

    async fn read(&self) -> Result<ReadDocument, UpstreamError> {
        let LoadedDocument { document, interrupted } = self.plan.document.load().await?;
        let (plan, limits) = (Arc::clone(&self.plan), self.context.limits.clone());
        let mut read = blocking(move || {
            let service = plan.read(&document, &limits);
            let forms = Forms::of(&service.discovered.offers);
            ReadDocument { service, forms, interrupted }
        })
        .await?;
        let refused = self.plan.refused_servers(&read.service.operations).await;
        read.service.discovered.problems.splice(0..0, refused);
        Ok(read)
    }

    fn keep(&self, operations: Operations, forms: Forms, news: Option<Discovered>) {
        let (operations, forms) = (Arc::new(operations), Arc::new(forms));
        *self.read.write() = Some(LastRead { operations, forms, news });
    }

    /// The operations and forms of the last document that was read.
    fn last_read(&self) -> Result<(Arc<Operations>, Arc<Forms>), UpstreamError> {
        let parts = |read: &LastRead| (Arc::clone(&read.operations), Arc::clone(&read.forms));
        let read = self.read.read().as_ref().map(parts);
        read.ok_or_else(|| unavailable("its document has not been read yet"))
    }

    async fn call(&self, permit: &Permit, call: &Invocation) -> Result<Outcome, UpstreamError> {
        let (operations, forms) = self.last_read()?;
        let entry = permit.entry();
        let Some(callable) = operations.get(&entry.upstream_name) else {
            return Err(unavailable("this operation was removed from the document"));
        };
        forms.check(&entry.upstream_name, entry.pinned)?;
        let _slot = self.calls.slot(permit).await?;
        let built = request::build(&callable.operation, &callable.base, &call.arguments);
        let mut request = match built {
            Ok(request) => request,
            Err(problem) => {
                return Ok(Outcome::text(&format!("not sent: {problem}"), true));
            }
        };
        let Plan { egress, credential, .. } = &*self.plan;
        self.plan.headers.authorize(&mut request);
        call.check_again().await?;
        let sent = SourceCredential::send(credential.as_ref(), egress, request, call).await;
        let (echoes, answer) = sent?;
        let outcome = async {
            response::outcome(answer?, call.max_result_bytes, self.context.clock.now()).await
        };
        credential::clean(&echoes, outcome.await)
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
        let ReadDocument { service, forms, interrupted } = self.shared.load().await?;
        if let Some(interrupted) = interrupted {
            return Err(interrupted);
        }
        self.shared.keep(service.operations, forms, None);
        Ok(service.discovered)
    }

    fn credential_for(&self, entry: &Entry) -> CredentialNeed {
        let Some(credential) = &self.shared.plan.credential else { return CredentialNeed::None };
        let read = self.shared.read.read();
        let operation =
            read.as_ref().and_then(|service| service.operations.get(&entry.upstream_name));
        // A call of an unknown operation is not sent.
        operation.map_or(CredentialNeed::None, |operation| credential.need(&operation.base))
    }

    fn check_reachable(&self) -> Result<(), UpstreamError> {
        self.shared.last_read().map(drop)
    }

    async fn serve(&self, permit: &Permit, operation: Operation) -> Result<Reply, UpstreamError> {
        let call = operation.into_tool_call()?;
        self.shared.calls.run(pin!(self.shared.call(permit, &call))).await.map(Reply::Done)
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
