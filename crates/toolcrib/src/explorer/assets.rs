//! The files of the page, embedded into the program.

use axum::{
    extract::{Path, rejection::PathRejection},
    response::Response,
};
use http::HeaderMap;
use rust_embed::RustEmbed;
use toolcrib_core::catalog::Body;

use super::error::Problem;
use crate::{
    middleware::{Refusal, Segment},
    respond::{self, Caching},
};

/// The page is small and its permissions change with the configuration, so browsers revalidate it
/// and its files each time.
pub(super) const CACHING: Caching = Caching { control: "no-cache", vary: "Accept-Encoding" };

#[derive(RustEmbed)]
#[folder = "src/ui/"]
struct Files;

/// Returns the text of an embedded file; empty, with an error in the log, when the file is missing.
pub(super) fn text(name: &str) -> String {
    match Files::get(name) {
        Some(file) => String::from_utf8_lossy(&file.data).into_owned(),
        None => {
            tracing::error!(name, "a file of the explorer is missing");
            String::new()
        }
    }
}

/// Returns a file of the page that every screen needs.
#[utoipa::path(
    get,
    path = "/assets/{file}",
    operation_id = "explorerAsset",
    security(()),
    params(("file" = String, Path, description = "The name of the file")),
    responses(
        (status = 200, description = "The file", body = String, content_type = "text/plain"),
        (status = 304, description = "Not modified"),
        (status = 404, description = "No such file", body = Problem),
    )
)]
pub(super) async fn asset(file: Segment, headers: HeaderMap) -> Result<Response, Refusal> {
    serve(file.as_str(), &headers)
}

/// Returns a file of one screen.
#[utoipa::path(
    get,
    path = "/assets/{folder}/{file}",
    operation_id = "explorerScreenAsset",
    security(()),
    params(
        ("folder" = String, Path, description = "The name of the screen"),
        ("file" = String, Path, description = "The name of the file"),
    ),
    responses(
        (status = 200, description = "The file", body = String, content_type = "text/plain"),
        (status = 304, description = "Not modified"),
        (status = 404, description = "No such file", body = Problem),
    )
)]
pub(super) async fn screen_asset(
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path((folder, file)) = path.map_err(|_| Refusal::NoRoute)?;
    serve(&format!("{folder}/{file}"), &headers)
}

fn serve(name: &str, headers: &HeaderMap) -> Result<Response, Refusal> {
    // A debug build reads the folder instead of embedded files, so names that lead outside it are
    // refused here.
    let is_plain = |part: &str| {
        let allowed =
            |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-.".contains(&it);
        part.bytes().all(allowed) && !part.starts_with('.')
    };
    if !name.split('/').all(is_plain) {
        return Err(Refusal::NoRoute);
    }
    let content_type = match name.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => return Err(Refusal::NoRoute),
    };
    let file = Files::get(name).ok_or(Refusal::NoRoute)?;
    let body = Body::once(file.data.into_owned());
    Ok(respond::tagged(headers, &body, content_type, CACHING))
}
