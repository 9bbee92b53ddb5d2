//! The caller of a request under `/v1`, and its query parameters.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, MatchedPath},
    http::request::Parts,
};
use http::Uri;
use serde_json::{Value, json};
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::principal::Principal;
use toolcrib_gateway::Gateway;

use crate::{
    middleware::{Caller, Refusal, require},
    respond,
    state::AppState,
    v1::{error::Failure, values::Parameter},
};

/// The caller of a route, with the gateway and the request's address.
pub(crate) struct Context {
    pub(crate) gateway: Gateway,
    pub(crate) caller: Arc<Principal>,
    /// The path template of the route, which the record names.
    route: MatchedPath,
    uri: Uri,
}

impl FromRequestParts<AppState> for Context {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Refusal> {
        let Caller(caller) = Caller::from_request_parts(parts, state).await?;
        let route = parts.extensions.get::<MatchedPath>().cloned().ok_or(Refusal::Internal)?;
        Ok(Self { gateway: state.gateway.clone(), caller, route, uri: parts.uri.clone() })
    }
}

impl Context {
    /// Refuses, and records, a caller without `scope`.
    pub(crate) fn require(&self, scope: RouteScope) -> Result<(), Refusal> {
        require(&self.gateway, &self.caller, scope, self.route.as_str())
    }

    /// Records the denial of a caller without `scope`, and creates its refusal.
    pub(crate) fn deny(&self, scope: &'static str) -> Refusal {
        self.gateway.audit().denials().denied_without(&self.caller, scope, self.route.as_str());
        Refusal::MissingScope(scope)
    }

    /// Reads the query parameter `name`; if it is repeated, the first value is used.
    pub(crate) fn parameter<P: Parameter>(&self, name: &str) -> Result<Option<P>, Failure> {
        parameter(self.uri.query(), name)
    }

    /// The text of the query parameter `name`.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        respond::query(self.uri.query(), name)
    }
}

/// Reads the parameter `name` of `query`, in which [`checked`](crate::parameters::checked) permits each
/// parameter once.
pub(crate) fn parameter<P: Parameter>(
    query: Option<&str>,
    name: &str,
) -> Result<Option<P>, Failure> {
    let Some(text) = respond::query(query, name) else { return Ok(None) };
    let invalid = || {
        let mut details = json!({ "parameter": name });
        if let (Some(details), Value::Object(more)) = (details.as_object_mut(), P::details()) {
            details.extend(more);
        }
        Failure::invalid(format!("the parameter `{name}` {}", P::rule()), Some(details))
    };
    P::parse(&text).map(Some).ok_or_else(invalid)
}
