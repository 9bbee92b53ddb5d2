//! The server behind a guard: a gateway, or a standalone explorer in an embedding program.

use std::{sync::Arc, time::Instant};

use axum::extract::Request;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use toolcrib_config::{MountAuth, ServerConfig};
use toolcrib_gateway::{Gateway, authn::AuthError, metrics::Surface, trace::Tracer};

use super::{
    authenticate::{self, Caller},
    challenge::Challenge,
    memory::Memory,
    mount::{Credentials, Hosts},
    observe::ObservedRequest,
    origin,
    refusal::Refusal,
};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpHost {
    /// Absent for an explorer of tools that no gateway has. Such a host has open mounts only.
    pub(crate) gateway: Option<Gateway>,
    /// The settings of the listener.
    pub(crate) server: Arc<ServerConfig>,
    /// The challenge for refused callers.
    pub(crate) challenge: Arc<Challenge>,
    /// The memory budget for request bodies.
    pub(crate) memory: Memory,
    /// Whether every `Host` is accepted: an embedding program owns the listener, and may not have
    /// configured its names.
    pub(crate) any_host: bool,
    /// Whether each request has a line in the access log.
    pub(crate) logs_access: bool,
    /// Starts the spans of requests.
    pub(crate) tracer: Tracer,
}

impl HttpHost {
    /// Checks that a request with `uri` and `headers` is addressed to this server and was not sent
    /// by a foreign page, as far as a mount for `hosts` requires that.
    pub(super) fn check(
        &self,
        hosts: Hosts,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        match (hosts, self.any_host) {
            (Hosts::Any, _) => Ok(()),
            (Hosts::AnyHost, _) | (Hosts::Known, true) => {
                origin::check_page(&self.server, uri, headers)
            }
            (Hosts::Known, false) => origin::check(&self.server, uri, headers),
        }
    }

    pub(super) fn is_observed(&self) -> bool {
        self.logs_access || self.tracer.is_on()
    }

    /// Starts the observation of `request`.
    pub(super) fn observe(
        &self,
        request: &Request,
        id: &HeaderValue,
        surface: Surface,
    ) -> ObservedRequest {
        ObservedRequest::begin(&self.tracer, self.logs_access, request, id, surface)
    }

    /// Authenticates the sender of `headers` to a mount that requires `auth`.
    pub(super) async fn caller(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        auth: MountAuth,
        credentials: Credentials,
    ) -> Result<Caller, AuthError> {
        match &self.gateway {
            Some(gateway) => authenticate::caller(gateway, uri, headers, auth, credentials).await,
            None => Err(AuthError::Missing),
        }
    }

    /// Records a refusal for missing or invalid credentials on `route`.
    pub(super) fn record_unauthenticated(&self, route: &str) {
        if let Some(gateway) = &self.gateway {
            gateway.audit().denials().unauthenticated(route);
        }
    }

    /// Counts a request refused for lack of memory.
    pub(super) fn crowded(&self) {
        if let Some(gateway) = &self.gateway {
            gateway.metrics().body_refused();
        }
    }

    /// Counts a response to a request that started at the time `began`.
    pub(super) fn answered(&self, surface: Surface, status: StatusCode, began: Instant) {
        if let Some(gateway) = &self.gateway {
            gateway.metrics().request(surface, status.as_u16(), began.elapsed());
        }
    }
}
