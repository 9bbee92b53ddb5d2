//! Responses: JSON, serialised lists, and `304 Not Modified`; and access to query parameters.

mod encoding;

use std::{collections::HashSet, convert::Infallible, time::Duration};

use axum::{
    body::Body as HttpBody,
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use serde::Serialize;
use toolcrib_core::{
    call::CallError,
    catalog::{Body, Entry},
    id::RunId,
};
use toolcrib_gateway::{CallReport, CatalogScope};

pub(crate) use self::encoding::CompressedBytes;
use crate::serve::connection;

/// The response header with the id of the call's run, on every calling surface.
pub(crate) const RUN_ID: HeaderName = HeaderName::from_static("toolcrib-run-id");

/// Silence after which a comment keeps a stream alive; OpenWOP v2 allows 30 s (events.md). The page
/// recognizes a dead connection by longer silence.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

pub(crate) fn json(status: StatusCode, body: &(impl Serialize + ?Sized)) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => json_bytes(status, bytes),
        Err(error) => {
            tracing::error!(%error, "a response could not be serialised");
            json_bytes(StatusCode::INTERNAL_SERVER_ERROR, &b"{\"error\":\"internal error\"}"[..])
        }
    }
}

/// Returns a response with `bytes`, which must be JSON.
pub(crate) fn json_bytes(status: StatusCode, bytes: impl Into<Bytes>) -> Response {
    let mut response = with_room(status, HttpBody::from(bytes.into()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Appends `json`, a form of `entry`, to a list.
pub(crate) fn write(entry: &Entry, json: &impl Serialize, out: &mut Vec<u8>) {
    if let Err(error) = serde_json::to_writer(out, json) {
        tracing::error!(tool = %entry.id, %error, "a tool could not be serialised");
    }
}

/// Creates a response with capacity for all headers that are added later, so that the map of
/// headers is not reallocated.
fn with_room(status: StatusCode, body: HttpBody) -> Response {
    const HEADERS: usize = 12;
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = HeaderMap::with_capacity(HEADERS);
    response
}

/// The caching headers of a response.
#[derive(Clone, Copy)]
pub(crate) struct Caching {
    /// `Cache-Control`.
    pub(crate) control: &'static str,
    /// `Vary`; empty to omit the header.
    pub(crate) vary: &'static str,
}

/// For responses that depend on the caller: only the caller may cache them, and must revalidate
/// each time.
pub(crate) const PRIVATE: Caching =
    Caching { control: "private, no-cache", vary: "Authorization, Accept, Accept-Encoding" };

/// Parses the media types that the client accepts with a weight above 0, in lower case.
pub(crate) fn accepted(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let values = headers.get_all(header::ACCEPT).iter();
    values.flat_map(|value| value.to_str().unwrap_or_default().split(',')).filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next()?.to_ascii_lowercase();
        let refused = |part: &str| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        (!parts.any(refused)).then_some(kind)
    })
}

/// Responds with `body` in the encoding that suits the request, or 304 if the client's copy is
/// current.
pub(crate) fn tagged(
    request: &HeaderMap,
    body: &Body,
    content_type: &'static str,
    caching: Caching,
) -> Response {
    let encoded = encoding::suited(request, body);
    let (bytes, etag) = match encoded {
        Some((_, form)) => (&form.bytes, &form.etag),
        None => (&body.bytes, &body.etag),
    };
    let mut response = if has_already(request, etag) {
        with_room(StatusCode::NOT_MODIFIED, HttpBody::empty())
    } else {
        let mut response = with_room(StatusCode::OK, HttpBody::from(bytes.clone()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some((encoding, _)) = encoded {
            let name = HeaderValue::from_static(encoding.name());
            headers.insert(header::CONTENT_ENCODING, name);
        }
        response
    };
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, etag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching.control));
    if !caching.vary.is_empty() {
        headers.insert(header::VARY, HeaderValue::from_static(caching.vary));
    }
    response
}

/// Streams `events`. The head of the response is sent at once, and comments on a quiet stream keep
/// proxies from closing it.
pub(crate) fn event_stream(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let first = stream::iter([Event::default().comment("listening")]);
    let sent = first.chain(events).map(Ok::<_, Infallible>);
    let mut response =
        Sse::new(sent).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// As [`event_stream`], for endless events: the stream ends at shutdown, which would otherwise wait
/// for it.
pub(crate) fn endless_event_stream(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    event_stream(events.take_until(connection::stopping().cancelled_owned()))
}

/// Whether `If-None-Match` contains `*` or `etag`, weak or strong (RFC 9110, section 13.1.2).
fn has_already(request: &HeaderMap, etag: &str) -> bool {
    request.get_all(header::IF_NONE_MATCH).iter().any(|value| {
        value.to_str().is_ok_and(|text| {
            text.split(',').map(str::trim).any(|one| {
                one == "*" || one == etag || one.strip_prefix("W/").is_some_and(|weak| weak == etag)
            })
        })
    })
}

/// The run of `called` if its caller may learn it. A call of an unknown tool leaves no run, so the
/// id of a run would reveal that a hidden tool exists (I-9).
pub(crate) fn visible_run(called: &CallReport) -> Option<RunId> {
    let unknown = matches!(called.result, Err(CallError::NoSuchTool));
    (!unknown).then(|| called.run_id.clone())
}

/// Adds the header with the id of `run`, if there is one.
pub(crate) fn with_run(mut response: Response, run: Option<&RunId>) -> Response {
    if let Some(value) = run.and_then(|run| HeaderValue::from_str(run.as_str()).ok()) {
        response.headers_mut().insert(RUN_ID, value);
    }
    response
}

/// Adds `Retry-After` with `wait`, if there is one, rounded up to whole seconds.
pub(crate) fn with_retry_after(mut response: Response, wait: Option<Duration>) -> Response {
    let seconds = wait.map(|wait| wait.as_nanos().div_ceil(1_000_000_000).to_string());
    if let Some(value) = seconds.and_then(|seconds| HeaderValue::try_from(seconds).ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

/// The first value of query parameter `name`, decoded; later ones are ignored.
pub(crate) fn query(query: Option<&str>, name: &str) -> Option<String> {
    pairs(query?).find_map(|(key, value)| (decode(key) == name).then(|| decode(value)))
}

/// The names of all query parameters, decoded.
pub(crate) fn query_names(query: &str) -> impl Iterator<Item = String> {
    pairs(query).map(|(key, _)| decode(key))
}

/// Finds the first parameter that is repeated, or whose text is not UTF-8.
pub(crate) fn ambiguous_parameter(query: &str) -> Option<String> {
    let mut names = HashSet::new();
    let is_utf8 = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().is_ok();
    let mut ambiguous = pairs(query).filter(|(key, value)| {
        let is_new = names.insert(decode(key));
        !is_new || !is_utf8(key) || !is_utf8(value)
    });
    ambiguous.next().map(|(key, _)| decode(key))
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// The part of the catalog that the query parameter `toolset` selects.
pub(crate) fn within(uri: &Uri) -> CatalogScope {
    query(uri.query(), "toolset")
        .map_or_else(CatalogScope::default, |name| CatalogScope::toolset(&name))
}

/// The message for a `toolset` parameter with an unknown name.
pub(crate) const NO_TOOLSET: &str = "the parameter `toolset` does not name a toolset";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_match_in_lists_and_weakly() {
        let matches = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static(text));
            has_already(&headers, "\"abc\"")
        };
        for hit in ["*", "\"abc\"", "W/\"abc\"", "\"x\", \"abc\"", "\"x\" ,W/\"abc\""] {
            assert!(matches(hit), "{hit}");
        }
        for miss in ["abc", "\"ab\"", "\"ABC\"", "w/\"abc\"", ""] {
            assert!(!matches(miss), "{miss}");
        }
    }

    #[test]
    fn the_first_value_of_a_parameter_counts() {
        assert_eq!(query(Some("a=1&source=m%63p&source=x"), "source").as_deref(), Some("mcp"));
        assert_eq!(query(Some("source"), "source").as_deref(), Some(""));
        assert_eq!(query(Some("sources=1"), "source"), None);
        assert_eq!(query(None, "source"), None);
    }
}
