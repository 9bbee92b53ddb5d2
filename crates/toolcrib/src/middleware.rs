//! What every request passes first and every response last, whatever surface it is for.
//!
//! The guard stands around the routes, not inside them, so that a refusal says nothing about what
//! exists (I-10). What it or a handler refuses is a [`Refusal`]; the [`Mount`] it happened on gives
//! it the dialect's body.
//!
//! A dialect has a function `mounts` that says which paths are its own, who may come in and how a
//! refusal is written, and a function `routes`. When one of its handlers runs, `Host`, `Origin` and
//! credentials are checked already: the handler takes the [`Caller`] as an argument, reads the body
//! as a [`Payload`], and may answer a [`Refusal`]. Unknown paths, wrong methods (`Allow` included)
//! and panics become refusals too.

pub(crate) mod authenticate;
mod body;
mod challenge;
mod cors;
pub(crate) mod memory;
mod mount;
pub(crate) mod origin;
mod path;
mod refusal;
mod request_id;

use std::{panic::AssertUnwindSafe, sync::Arc};

use async_trait::async_trait;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use http_body::Body as _;
use toolcrib_gateway::{
    authn::AuthError,
    config::{MountAuth, ServerConfig},
    metrics::Surface,
    miss,
};
use tower::Layer as _;

use crate::{respond, serve::connection};

pub(crate) use self::{
    authenticate::{Caller, require},
    body::{BodyLimit, Payload},
    challenge::{Challenge, WELL_KNOWN},
    memory::{Hold, Memory},
    mount::{Access, Credentials, Hosts, InvalidCredentialPolicy, Mount, Paths},
    path::Segment,
    refusal::Refusal,
};

/// What a guard stands before.
#[async_trait]
pub(crate) trait HttpHost: Send + Sync + 'static {
    /// The listener.
    fn server(&self) -> &ServerConfig;

    /// What a refused caller is told about credentials.
    fn challenge(&self) -> &Challenge;

    /// Whether a request with `uri` and `headers` is addressed to it and sent by a page it trusts.
    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal>;

    /// Who sent `headers` to a mount that asks for `auth`.
    async fn caller(
        &self,
        headers: &HeaderMap,
        auth: MountAuth,
        credentials: Credentials,
    ) -> Result<Caller, AuthError>;

    /// Records that somebody without valid credentials was turned away from `route`.
    fn turned_away(&self, route: &str);

    /// What the bodies of requests may take.
    fn memory(&self) -> &Memory;

    /// Counts a request whose body had no room.
    fn crowded(&self);

    /// Counts an answer.
    fn answered(&self, surface: Surface, status: StatusCode);
}

/// The mounts, in the order in which they are asked for a path.
#[derive(Clone)]
struct Guard {
    house: Arc<dyn HttpHost>,
    mounts: Arc<[Mount]>,
    /// Answers for a path that is on no mount.
    elsewhere: Arc<Mount>,
}

/// `routes` behind the guard. `elsewhere` speaks for paths that are on none of `mounts`.
pub(crate) fn guarded<H: HttpHost + Clone>(
    routes: Router<H>,
    mounts: Vec<Mount>,
    elsewhere: Mount,
    house: H,
) -> Router {
    let routes = routes
        .method_not_allowed_fallback(|| async { Refusal::Method })
        .fallback(|| async { Refusal::NoRoute })
        .with_state::<()>(house.clone());
    let guard =
        Guard { house: Arc::new(house), mounts: mounts.into(), elsewhere: Arc::new(elsewhere) };
    // A service around the whole router: a layer of the router itself would run after routing, and
    // axum would add `Allow` to refusals of callers who may not know what is allowed.
    Router::new().fallback_service(from_fn_with_state(guard, pass).layer(routes))
}

async fn pass(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    miss::evenly(answer(guard, request, next)).await
}

async fn answer(guard: Guard, mut request: Request, next: Next) -> Response {
    let server = guard.house.server();
    if let Some(response) = cors::preflight(server, &request) {
        return response;
    }
    let foreign = cors::listed(server, request.headers());
    let id = request_id::of(request.headers());
    let hold = (!request.body().is_end_stream()).then(|| guard.house.memory().hold());
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

/// A handler that panics must not take the connection with it.
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
            self.house.check(request.uri(), request.headers())?;
        }
        let caller = match mount.access {
            // A credential that is shown later counts from then on.
            Access::Open => {
                connection::unauthenticated();
                return Ok(());
            }
            Access::Keyed(auth) => {
                self.house.caller(request.headers(), auth, mount.credentials).await
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
                    self.house.turned_away(&mount.template);
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
                self.house.crowded();
            }
            if let Some(wait) = refusal.retry_after() {
                response = respond::with_retry_after(response, wait);
            }
            let headers = response.headers_mut();
            match (&refusal, allow) {
                (Refusal::Method, Some(allow)) => {
                    headers.insert(header::ALLOW, allow);
                }
                (Refusal::Unauthenticated(error), _)
                    if response.status() == StatusCode::UNAUTHORIZED =>
                {
                    let challenge = self.house.challenge().credentials(*error);
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                }
                _ => {}
            }
        }
        self.house.answered(mount.surface, response.status());
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(request_id::NAME, id);
        // Answers depend on who asks; what may be kept says so itself.
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }
}
