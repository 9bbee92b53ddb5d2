//! Rejects unknown and repeated query parameters, on every described route under `/v1`.
//!
//! The known parameters of a route are read from its description, so the two cannot differ.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    extract::{MatchedPath, Request},
    response::Response,
};
use futures_util::future::Either;
use http::Method;
use tower::{Service, layer::layer_fn};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, OpenApi, RefOr, Schema, Type, path::ParameterIn},
};
use utoipa_axum::router::OpenApiRouter;

use crate::respond;

/// The known query parameters by method and path.
type KnownParameters = HashMap<(Method, String), Vec<String>>;

/// Why a route rejects a query.
pub(crate) enum InvalidQuery<'a> {
    /// A parameter is unknown. These are the known ones.
    Unknown(&'a [String]),
    /// This parameter is repeated, or its text is not UTF-8. Ignoring a value would change the meaning.
    Ambiguous(String),
}

/// Formats the rejection.
type RejectionFormat = fn(InvalidQuery<'_>) -> Response;

/// Makes `routes` reject unknown and repeated query parameters, in the form of their dialect.
pub(crate) fn checked<S>(routes: OpenApiRouter<S>, refuse: RejectionFormat) -> OpenApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let known = Arc::new(known(routes.get_openapi()));
    routes.route_layer(layer_fn(move |inner| CheckedRoute {
        inner,
        known: Arc::clone(&known),
        refuse,
    }))
}

fn known(description: &OpenApi) -> KnownParameters {
    let mut known = KnownParameters::new();
    for (path, item) in description.paths.paths.iter().filter(|(path, _)| path.starts_with("/v1/"))
    {
        let operations =
            [(Method::GET, &item.get), (Method::POST, &item.post), (Method::DELETE, &item.delete)];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let names =
                operation.parameters.iter().flatten().filter_map(|reference| match reference {
                    RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => {
                        Some(parameter.name.clone())
                    }
                    _ => None,
                });
            known.insert((method, path.clone()), names.collect());
        }
    }
    known
}

/// A route with the check before it.
#[derive(Clone)]
struct CheckedRoute<S> {
    inner: S,
    known: Arc<KnownParameters>,
    refuse: RejectionFormat,
}

impl<S> Service<Request> for CheckedRoute<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response, Infallible>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match invalid(&self.known, &request) {
            Some(problem) => Either::Left(ready(Ok((self.refuse)(problem)))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}

/// Explains why the route of `request` rejects its query; `None` if it is valid.
fn invalid<'a>(known: &'a KnownParameters, request: &Request) -> Option<InvalidQuery<'a>> {
    let query = request.uri().query().filter(|query| !query.is_empty())?;
    let path = request.extensions().get::<MatchedPath>()?.as_str().to_owned();
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref method => method.clone(),
    };
    let names = known.get(&(method, path))?;
    match respond::query_names(query).all(|sent| names.contains(&sent)) {
        true => respond::ambiguous_parameter(query).map(InvalidQuery::Ambiguous),
        false => Some(InvalidQuery::Unknown(names)),
    }
}

/// The schema of a text that matches `pattern`.
pub(crate) fn pattern(pattern: &str) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).into()
}

/// The schema of a toolset's name; an unconfigured toolset is rejected as well.
pub(crate) struct ToolsetName;

impl PartialSchema for ToolsetName {
    fn schema() -> RefOr<Schema> {
        pattern("^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$")
    }
}

impl ToSchema for ToolsetName {}
