//! The checks before every request and after every response, on every surface.
//!
//! The guard surrounds the routes, so that a refusal does not depend on which routes exist (I-10).
//! The guard and the handlers return a [`Refusal`]; the [`Mount`] of the request formats it.
//!
//! A dialect has a function `mounts`, which returns its paths, their access rules and their format
//! of refusals, and a function `routes`. When one of its handlers runs, `Host`, `Origin` and
//! credentials are already checked. The handler takes the [`Caller`] as an argument, reads the body
//! as a [`Payload`], and may return a [`Refusal`]. Unknown paths, wrong methods (`Allow` included)
//! and panics become refusals too.

pub(crate) mod authenticate;
mod body;
mod challenge;
mod cors;
mod host;
pub(crate) mod memory;
mod mount;
pub(crate) mod origin;
mod path;
mod refusal;
mod request_id;

use std::{panic::AssertUnwindSafe, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use futures_util::FutureExt as _;
use http::{HeaderValue, StatusCode, header};
use http_body::Body as _;
use toolcrib_gateway::{authn::AuthError, miss};
use tower::Layer as _;

use crate::{respond, serve::connection};

pub(crate) use self::{
    authenticate::{Caller, require},
    body::{BodyLimit, Payload},
    challenge::{Challenge, WELL_KNOWN},
    host::HttpHost,
    memory::{Memory, MemoryShare},
    mount::{Access, Credentials, Hosts, InvalidCredentialPolicy, Mount, Paths},
    path::Segment,
    refusal::Refusal,
};

/// The host and its mounts, in the order in which a path is matched against them.
#[derive(Clone)]
struct Guard {
    host: HttpHost,
    mounts: Arc<[Mount]>,
    /// The mount of all other paths.
    elsewhere: Arc<Mount>,
}

/// Puts `routes` behind the guard. `elsewhere` is the mount of paths outside `mounts`.
pub(crate) fn guarded<S: Clone + Send + Sync + 'static>(
    routes: Router<S>,
    mounts: Vec<Mount>,
    elsewhere: Mount,
    state: S,
    host: HttpHost,
) -> Router {
    let routes = routes
        .method_not_allowed_fallback(|| async { Refusal::Method })
        .fallback(|| async { Refusal::NoRoute })
        .with_state::<()>(state);
    let guard = Guard { host, mounts: mounts.into(), elsewhere: Arc::new(elsewhere) };
    // A service around the whole router: a layer of the router itself would run after routing, and
    // axum would add `Allow` to refusals of callers that may not learn the methods of a route.
    Router::new().fallback_service(from_fn_with_state(guard, pass).layer(routes))
}

async fn pass(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    miss::evenly(answer(guard, request, next)).await
}

async fn answer(guard: Guard, mut request: Request, next: Next) -> Response {
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
    let mount = guard.mount(request.uri().path());
    let response = match guard.enter(mount, &mut request).await {
        Ok(()) => run(next, request).await,
        Err(refusal) => refusal.into_response(),
    };
    let mut response = guard.leave(mount, response, id);
    if let Some(origin) = foreign {
        cors::readable(&mut response, origin);
    }
    match hold {
        Some(hold) => hold.count(response),
        None => response,
    }
}

/// Runs a handler. A panic must not end the connection.
async fn run(next: Next, request: Request) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_panic) => {
            tracing::error!("a request handler panicked");
            Refusal::Internal.into_response()
        }
    }
}

// === impl Guard ===

impl Guard {
    fn mount(&self, path: &str) -> &Mount {
        self.mounts.iter().find(|mount| mount.paths.hold(path)).unwrap_or(&self.elsewhere)
    }

    async fn enter(&self, mount: &Mount, request: &mut Request) -> Result<(), Refusal> {
        if mount.hosts == Hosts::Known {
            self.host.check(request.uri(), request.headers())?;
        }
        let caller = match mount.access {
            // A later request with a credential changes this.
            Access::Open => {
                connection::unauthenticated();
                return Ok(());
            }
            Access::Keyed(auth) => {
                self.host.caller(request.headers(), auth, mount.credentials).await
            }
        };
        connection::unauthenticated();
        match caller {
            Ok(caller) => {
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

    fn leave(&self, mount: &Mount, mut response: Response, id: HeaderValue) -> Response {
        if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
            let allow = response.headers_mut().remove(header::ALLOW);
            response = (mount.refuse)(&refusal);
            if refusal == Refusal::Crowded {
                self.host.crowded();
            }
            response = respond::with_retry_after(response, refusal.retry_after());
            let headers = response.headers_mut();
            match (&refusal, allow) {
                (Refusal::Method, Some(allow)) => {
                    headers.insert(header::ALLOW, allow);
                }
                (Refusal::Unauthenticated(error), _)
                    if response.status() == StatusCode::UNAUTHORIZED =>
                {
                    let challenge = self.host.challenge.credentials(*error);
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                }
                _ => {}
            }
        }
        self.host.answered(mount.surface, response.status());
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(request_id::NAME, id);
        // Responses depend on the caller; a cacheable response sets its own header.
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }
}
