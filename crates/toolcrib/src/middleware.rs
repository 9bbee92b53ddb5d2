//! The checks before every request and after every response, on every surface.
//!
//! The guard surrounds the routes, so that a refusal does not depend on which routes exist (I-10).
//! The guard and the handlers return a [`Refusal`]; the [`Mount`] of the request formats it.
//!
//! The function `mounts` of a dialect lists its paths, their access rules and their format of
//! refusals; `routes` builds its routes. When one of its handlers runs, `Host`, `Origin` and
//! credentials are already checked. The handler takes the [`Caller`] as an argument, reads the body
//! as a [`Payload`], and may return a [`Refusal`]. Unknown paths, wrong methods (`Allow` included)
//! and panics become refusals too.

pub(crate) mod authenticate;
mod body;
mod challenge;
mod cookie;
mod cors;
mod host;
pub(crate) mod memory;
mod mount;
mod observe;
pub(crate) mod origin;
mod path;
mod refusal;
mod request_id;
pub(crate) mod session;

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture, stream};
use http::{HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use toolcrib_gateway::{answer_time, authn::AuthError};
use tower::Service;

use self::observe::ObservedRequest;
use crate::{respond, serve::connection};

pub(crate) use self::{
    authenticate::{Caller, require, session_caller},
    body::{BodyLimit, Payload},
    challenge::{Challenge, MCP, MissingScopes, WELL_KNOWN, mcp_of},
    cookie::{NewCookie, cookies_below, cookies_named},
    host::HttpHost,
    memory::{BodySender, Memory, MemoryShare},
    mount::{Access, Credentials, Hosts, InvalidCredentialPolicy, Mount, Paths, SessionPolicy},
    path::Segment,
    refusal::Refusal,
    session::{Site, browser},
};

/// All routes behind their guard, as a service for [`serve`](crate::serve()). Clones share them.
#[derive(Clone)]
pub struct GuardedRouter(Arc<Guard>);

/// The host and its mounts, in the order in which a request is matched against them.
struct Guard {
    host: HttpHost,
    /// The routes, by [`Mount::router`].
    routers: Vec<Router>,
    mounts: Vec<Mount>,
    /// The mount of all other paths.
    elsewhere: Mount,
    /// The value of `Strict-Transport-Security`, if it is sent.
    hsts: Option<HeaderValue>,
}

/// Adds the state to `routes`, and a refusal for other methods and paths.
pub(crate) fn complete<S: Clone + Send + Sync + 'static>(
    routes: Router<S>,
    state: S,
    host: &HttpHost,
) -> Router {
    let routes = match host.is_observed() {
        true => routes.layer(axum::middleware::from_fn(observe::note_route)),
        // It would cost each request some allocations.
        false => routes,
    };
    routes
        .method_not_allowed_fallback(|| async { Refusal::Method })
        .fallback(|| async { Refusal::NoRoute })
        .with_state(state)
}

/// Puts `routers`, which are [`complete`], behind the guard. `elsewhere` is the mount of requests
/// outside `mounts`.
pub(crate) fn guarded(
    routers: Vec<Router>,
    mounts: Vec<Mount>,
    elsewhere: Mount,
    host: HttpHost,
) -> GuardedRouter {
    let tls = host.server.tls.as_ref();
    let hsts = tls
        .and_then(|tls| tls.hsts)
        .and_then(|hsts| HeaderValue::try_from(format!("max-age={}", hsts.as_secs())).ok());
    GuardedRouter(Arc::new(Guard { host, routers, mounts, elsewhere, hsts }))
}

impl GuardedRouter {
    /// Converts it into a router that responds to every path.
    pub fn into_router(self) -> Router {
        Router::new().fallback_service(self)
    }
}

// A service before all routers: a layer of a router would run after routing, and axum would add
// `Allow` to refusals of callers that may not learn the methods of a route.
impl Service<Request> for GuardedRouter {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            // Pinned here, because passing the future on by value would copy it each time.
            let answer = pin!(answer(&guard, request));
            Ok(answer_time::evenly(answer).await)
        })
    }
}

async fn answer(guard: &Guard, mut request: Request) -> Response {
    let began = Instant::now();
    let server = &*guard.host.server;
    if let Some(response) = cors::preflight(server, &request) {
        return response;
    }
    let foreign = cors::listed(server, request.headers());
    let id = request_id::of(request.headers());
    let hold = (!request.body().is_end_stream()).then(|| guard.host.memory.hold());
    if let Some(hold) = &hold {
        request.extensions_mut().insert(hold.clone());
    }
    let mount = guard.mount(&request);
    let observed = guard.host.observe(&request, &id, mount.surface);
    let toolset = challenge::toolset(request.uri().path()).map(str::to_owned);
    let mut response = {
        let answered = pin!(guard.respond(mount, request, &observed));
        observed.run(answered).await
    };
    let route = observe::take_route(&mut response);
    let mut response = guard.leave(mount, response, toolset.as_deref(), id, began);
    if let Some(origin) = foreign {
        cors::readable(&mut response, origin);
    }
    let response = match hold {
        Some(hold) => hold.count(response),
        None => response,
    };
    observed.end(response, route, &mount.template)
}

/// Runs a handler. A panic must not end the connection.
async fn run(mut router: Router, request: Request) -> Response {
    let is_head = *request.method() == Method::HEAD;
    match AssertUnwindSafe(router.call(request)).catch_unwind().await {
        // `router` has removed the body, and noted its length if it was known. From an empty body
        // the router of the guard would derive the length 0, which is wrong for a stream.
        Ok(Ok(response)) if is_head => {
            let unmeasured = stream::empty::<Result<Bytes, Infallible>>();
            response.map(|_| Body::from_stream(unmeasured))
        }
        Ok(Ok(response)) => response,
        Ok(Err(impossible)) => match impossible {},
        Err(_panic) => {
            tracing::error!("a request handler panicked");
            Refusal::Internal.into_response()
        }
    }
}

// === impl Guard ===

impl Guard {
    fn mount(&self, request: &Request) -> &Mount {
        let path = request.uri().path();
        let holds = |mount: &&Mount| mount.paths.hold(path) && (mount.claims)(request);
        self.mounts.iter().find(holds).unwrap_or(&self.elsewhere)
    }

    /// Checks the request, then runs its handler.
    async fn respond(
        &self,
        mount: &Mount,
        mut request: Request,
        observed: &ObservedRequest,
    ) -> Response {
        if let Err(refusal) = self.host.check(mount.hosts, request.uri(), request.headers()) {
            return refusal.into_response();
        }
        // A foreign version has its answer with and without credentials.
        if let Some(response) = (mount.negotiate)(request.headers()) {
            return response;
        }
        if let Err(refusal) = self.admit(mount, &mut request, observed).await {
            body::finish(request).await;
            return refusal.into_response();
        }
        match self.routers.get(mount.router) {
            Some(router) => run(router.clone(), request).await,
            None => Refusal::NoRoute.into_response(),
        }
    }

    /// Authenticates the caller, if the mount requires one.
    async fn admit(
        &self,
        mount: &Mount,
        request: &mut Request,
        observed: &ObservedRequest,
    ) -> Result<(), Refusal> {
        let caller = match mount.access {
            // A later request with a credential changes this.
            Access::Open => {
                connection::unauthenticated();
                return Ok(());
            }
            Access::Keyed(auth) => {
                self.host.caller(request.uri(), request.headers(), auth, mount.credentials).await
            }
        };
        connection::unauthenticated();
        match caller {
            Ok(caller) => {
                observed.caller(&caller);
                request.extensions_mut().insert(caller);
                Ok(())
            }
            Err(error) => {
                if error != AuthError::Unavailable {
                    self.host.record_unauthenticated(&mount.template);
                }
                Err(Refusal::Unauthenticated(error))
            }
        }
    }

    fn leave(
        &self,
        mount: &Mount,
        mut response: Response,
        toolset: Option<&str>,
        id: HeaderValue,
        began: Instant,
    ) -> Response {
        if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
            let allow = response.headers_mut().remove(header::ALLOW);
            response = (mount.refuse)(&refusal);
            if refusal == Refusal::Crowded {
                self.host.crowded();
            }
            response = respond::with_retry_after(response, refusal.retry_after());
            match (&refusal, allow, response.status()) {
                // Not every dialect has this status.
                (Refusal::Method, Some(allow), StatusCode::METHOD_NOT_ALLOWED) => {
                    response.headers_mut().insert(header::ALLOW, allow);
                }
                (Refusal::Unauthenticated(error), _, StatusCode::UNAUTHORIZED) => {
                    let challenge = self.host.challenge.credentials(*error, toolset);
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                }
                _ => {}
            }
        }
        if let Some(missing) = response.extensions_mut().remove::<MissingScopes>() {
            self.host.challenge.require(&missing, toolset, &mut response);
        }
        self.host.answered(mount.surface, response.status(), began);
        let headers = response.headers_mut();
        (mount.headers)(headers);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // A form of ours requires another policy.
        headers.entry(header::REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
        if let Some(hsts) = &self.hsts {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
        headers.insert(request_id::NAME, id);
        // Responses depend on the caller; a cacheable response sets its own header.
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }
}
