//! Rejects unknown query parameters, on every described route under `/v1`.
//!
//! The known parameters of a route are read from its description, so the two cannot differ.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use http::Method;
use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};
use utoipa_axum::router::OpenApiRouter;

use crate::respond;

/// The known query parameters by method and path.
type Known = HashMap<(Method, String), Vec<String>>;

/// Formats the rejection; the argument is the list of the route's known parameters.
type Refuse = fn(&[String]) -> Response;

/// Makes `routes` reject unknown query parameters, in the form of their dialect.
pub(crate) fn checked<S>(routes: OpenApiRouter<S>, refuse: Refuse) -> OpenApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let known = Arc::new(known(&routes));
    routes.route_layer(from_fn_with_state((known, refuse), check))
}

fn known<S>(routes: &OpenApiRouter<S>) -> Known
where
    S: Clone + Send + Sync + 'static,
{
    let description = serde_json::to_value(routes.get_openapi()).unwrap_or_default();
    let paths = description.get("paths").and_then(Value::as_object).into_iter().flatten();
    let mut known = Known::new();
    for (path, methods) in paths.filter(|(path, _)| path.starts_with("/v1/")) {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let Ok(method) = Method::from_bytes(method.to_uppercase().as_bytes()) else { continue };
            let parameters = operation.get("parameters").and_then(Value::as_array);
            let text = |of: &Value, name: &str| Some(of.get(name)?.as_str()?.to_owned());
            let names = parameters
                .into_iter()
                .flatten()
                .filter(|it| text(it, "in").as_deref() == Some("query"))
                .filter_map(|it| text(it, "name"));
            known.insert((method, path.clone()), names.collect());
        }
    }
    known
}

async fn check(
    State((known, refuse)): State<(Arc<Known>, Refuse)>,
    request: Request,
    next: Next,
) -> Response {
    match unknown(&known, &request) {
        Some(names) => refuse(names),
        None => next.run(request).await,
    }
}

/// Returns the known parameters of the route if `request` has an unknown one.
fn unknown<'a>(known: &'a Known, request: &Request) -> Option<&'a [String]> {
    let query = request.uri().query().filter(|query| !query.is_empty())?;
    let path = request.extensions().get::<MatchedPath>()?.as_str().to_owned();
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref method => method.clone(),
    };
    let names = known.get(&(method, path))?;
    let is_known = |sent: &String| names.contains(sent);
    match respond::query_names(query).all(|sent| is_known(&sent)) {
        true => None,
        false => Some(names),
    }
}

/// The schema of a toolset's name; a toolset that is not configured is rejected as well.
pub(crate) struct ToolsetName;

impl PartialSchema for ToolsetName {
    fn schema() -> RefOr<Schema> {
        let pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$";
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).into()
    }
}

impl ToSchema for ToolsetName {}
