//! The files of the page, joined and compressed when the program was built (`build/main.rs`).

use std::sync::LazyLock;

use axum::{
    extract::{Path, rejection::PathRejection},
    response::Response,
};
use http::HeaderMap;
use toolcrib_core::catalog::Body;

use super::error::Problem;
use crate::{
    middleware::Refusal,
    respond::{self, Caching, CompressedBytes},
};

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The page depends on the configuration, so browsers revalidate it each time.
pub(super) const REVALIDATED: Caching = Caching { control: "no-cache", vary: "Accept-Encoding" };

/// The address of a file contains [`VERSION`], so the file at an address never changes.
const IMMUTABLE: Caching =
    Caching { control: "public, max-age=31536000, immutable", vary: "Accept-Encoding" };

/// A file made by the build.
struct File {
    name: &'static str,
    content_type: &'static str,
    bytes: CompressedBytes,
}

static BODIES: LazyLock<Vec<Body>> =
    LazyLock::new(|| FILES.iter().map(|file| file.bytes.body()).collect());

/// Returns a file of the page. Its version is part of its address, which the page names.
#[utoipa::path(
    get,
    path = "/assets/{version}/{file}",
    operation_id = "explorerAsset",
    security(()),
    params(
        ("version" = String, Path, description = "The version of the files, a hash of all of them"),
        ("file" = String, Path, description = "The name of the file"),
    ),
    responses(
        (status = 200, description = "The file", body = String, content_type = "text/plain"),
        (status = 304, description = "Not modified"),
        (status = 404, description = "The file does not exist in this version", body = Problem),
    )
)]
pub(super) async fn asset(
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path((version, name)) = path.map_err(|_| Refusal::NoRoute)?;
    // A browser would cache another version under this address for a year.
    let known =
        FILES.iter().zip(&*BODIES).find(|(file, _)| file.name == name && version == VERSION);
    let (file, body) = known.ok_or(Refusal::NoRoute)?;
    Ok(respond::tagged(&headers, body, file.content_type, IMMUTABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_screen_is_small() {
        let size = |name: &str| {
            FILES.iter().find(|file| file.name == name).map_or(0, |file| file.bytes.brotli.len())
        };
        let first: usize = ["app.js", "style.css", "favicon.svg"].map(size).iter().sum();
        assert!(first > 20_000 && first < 60_000, "{first} bytes");
        for File { name, bytes, .. } in FILES {
            let is_smallest = bytes.brotli.len() < bytes.gzip.len();
            assert!(bytes.plain.len() < 1_024 || is_smallest, "{name}");
        }
    }
}
