//! The limit for a list: only bytes in memory and an `ETag`.

use std::path::PathBuf;

use anyhow::Result;
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::servers::listen;

/// The `ETag` of every body.
pub(crate) const TAG: &str = "\"bench\"";

pub(crate) async fn serve(bodies: &[PathBuf]) -> Result<()> {
    let mut router = Router::new();
    for (number, file) in bodies.iter().enumerate() {
        let body = Bytes::from(std::fs::read(file)?);
        let answer = move |request: Request| std::future::ready(answer(&body, request.headers()));
        router = router.route(&format!("/{number}"), get(answer));
    }
    listen(router).await
}

fn answer(body: &Bytes, headers: &HeaderMap) -> Response {
    let tag = HeaderValue::from_static(TAG);
    if headers.get(IF_NONE_MATCH) == Some(&tag) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response();
    }
    let json = HeaderValue::from_static("application/json");
    ([(ETAG, tag), (CONTENT_TYPE, json)], body.clone()).into_response()
}
