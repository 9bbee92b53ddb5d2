//! The demo's HTTP service: a small library, described by an OpenAPI document that it serves itself.
//!
//! It listens on loopback while the demo runs, and is stateless. Requests have the size and time
//! limits of the server.

use std::{collections::HashMap, net::SocketAddr};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Query},
    http::{StatusCode, header::CONTENT_TYPE},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};

/// The OpenAPI document, and its path.
const DOCUMENT: &str = include_str!("library/openapi.json");
const DOCUMENT_PATH: &str = "/openapi.json";
/// Size limit of the body of a request, in bytes.
const MAX_BODY: usize = 64 << 10;

/// ISBN, title, author.
const BOOKS: [(&str, &str, &str); 4] = [
    ("9780140449136", "The Odyssey", "Homer"),
    ("9780141439518", "Pride and Prejudice", "Jane Austen"),
    ("9780141439587", "Emma", "Jane Austen"),
    ("9780486280615", "The Adventures of Huckleberry Finn", "Mark Twain"),
];

/// The running service. Dropping it closes the listener.
#[derive(Debug)]
pub(super) struct Library {
    address: SocketAddr,
    serving: AbortHandle,
}

impl Library {
    /// Starts the service on a free port.
    pub(super) async fn open() -> std::io::Result<Self> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(toolcrib::serve(listener, router(), std::future::pending()));
        Ok(Self { address, serving: serving.abort_handle() })
    }

    /// The URL of its OpenAPI document.
    pub(super) fn document(&self) -> String {
        format!("http://{}{DOCUMENT_PATH}", self.address)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn router() -> Router {
    Router::new()
        .route(DOCUMENT_PATH, get(|| async { ([(CONTENT_TYPE, "application/json")], DOCUMENT) }))
        .route("/books", get(find_books))
        .route("/books/{isbn}/loans", post(borrow_book))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "page not found") })
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

async fn find_books(Query(query): Query<HashMap<String, String>>) -> Json<Value> {
    let author = query.get("author").map(|author| author.to_lowercase()).unwrap_or_default();
    let found = BOOKS.iter().filter(|(.., by)| by.to_lowercase().contains(&author));
    let books: Vec<Value> = found.map(book).collect();
    Json(json!({ "books": books }))
}

async fn borrow_book(Path(isbn): Path<String>, body: Bytes) -> (StatusCode, Json<Value>) {
    let Some(book) = BOOKS.iter().find(|(known, ..)| *known == isbn).map(book) else {
        return refusal(StatusCode::NOT_FOUND, "the library does not have this book");
    };
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    match request.get("days").and_then(Value::as_u64) {
        Some(days @ 1..=60) => (StatusCode::CREATED, Json(json!({ "book": book, "days": days }))),
        _ => refusal(StatusCode::BAD_REQUEST, "books are lent for 1 to 60 days"),
    }
}

fn book((isbn, title, author): &(&str, &str, &str)) -> Value {
    json!({ "isbn": isbn, "title": title, "author": author })
}

fn refusal(status: StatusCode, message: &str) -> (StatusCode, Json<Value>) {
    (status, Json(json!({ "error": message })))
}
