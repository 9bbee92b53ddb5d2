//! The demo's HTTP service: a small library, described by an OpenAPI document that it serves itself.
//!
//! It listens on loopback while the demo runs, accepts one request per connection and is stateless.
//!
//! Invariant: size and time limits apply to a request before it is parsed.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::AbortHandle,
};

/// The OpenAPI document.
const OPENAPI: &str = include_str!("library/openapi.json");
/// Path of the document.
const DOCUMENT: &str = "/openapi.json";
/// Size limit of a request, head and body, in bytes.
const MAX_REQUEST: usize = 64 << 10;
/// Time limit for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of concurrent requests.
static ROOM: Semaphore = Semaphore::const_new(64);

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
        let serving = tokio::spawn(async move {
            loop {
                let Ok(place) = ROOM.acquire().await else { return };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        tokio::spawn(async move {
                            let _place = place;
                            tokio::time::timeout(REQUEST_TIMEOUT, serve(stream)).await.ok();
                        });
                    }
                    // Out of file descriptors, most likely.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        });
        Ok(Self { address, serving: serving.abort_handle() })
    }

    /// Returns the URL of its OpenAPI document.
    pub(super) fn document(&self) -> String {
        format!("http://{}{DOCUMENT}", self.address)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let (status, answer) = match read(&mut stream).await? {
        Some(request) => answer(&request),
        None => (400, json!({ "error": "this is not a request that the library understands" })),
    };
    let body = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        match status {
            200 => "OK",
            201 => "Created",
            404 => "Not Found",
            _ => "Bad Request",
        },
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// The parts of a request that the service uses.
struct Request {
    method: String,
    /// The path with its query.
    target: String,
    body: Vec<u8>,
}

/// Reads one request; returns `None` if it is invalid or too large.
async fn read(stream: &mut TcpStream) -> std::io::Result<Option<Request>> {
    let mut bytes = Vec::new();
    loop {
        if let Some(request) = parse(&bytes) {
            return Ok(request);
        }
        if bytes.len() >= MAX_REQUEST || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}

/// Parses a request. Returns `None` if it is incomplete, and `Some(None)` if it is invalid.
fn parse(bytes: &[u8]) -> Option<Option<Request>> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, rest) = bytes.split_at(end);
    let body = rest.get(4..).unwrap_or_default();
    let Ok(head) = std::str::from_utf8(head) else { return Some(None) };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Some(None) };
    let mut length = 0_usize;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            match value.trim().parse() {
                Ok(announced) if announced <= MAX_REQUEST => length = announced,
                _ => return Some(None),
            }
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Some(None);
        }
    }
    let body = body.get(..length)?.to_vec();
    Some(Some(Request { method: method.to_owned(), target: target.to_owned(), body }))
}

fn answer(request: &Request) -> (u16, Value) {
    // The base only completes the URL for parsing.
    let Ok(url) = url::Url::parse("http://library/").and_then(|base| base.join(&request.target))
    else {
        return (400, json!({ "error": "no such place" }));
    };
    let path: Vec<&str> = url.path().split('/').skip(1).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["openapi.json"]) => (200, serde_json::from_str(OPENAPI).unwrap_or_default()),
        ("GET", ["books"]) => {
            let author = url.query_pairs().find(|(name, _)| name == "author");
            let author = author.map(|(_, value)| value.to_lowercase()).unwrap_or_default();
            let found = BOOKS.iter().filter(|(.., by)| by.to_lowercase().contains(&author));
            let books: Vec<Value> = found.map(book).collect();
            (200, json!({ "books": books }))
        }
        ("POST", ["books", isbn, "loans"]) => lend(isbn, &request.body),
        _ => (404, json!({ "error": "the library has no such page" })),
    }
}

fn book((isbn, title, author): &(&str, &str, &str)) -> Value {
    json!({ "isbn": isbn, "title": title, "author": author })
}

fn lend(isbn: &str, body: &[u8]) -> (u16, Value) {
    let Some(book) = BOOKS.iter().find(|(it, ..)| *it == isbn).map(book) else {
        return (404, json!({ "error": "the library does not have this book" }));
    };
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    match asked.get("days").and_then(Value::as_u64) {
        Some(days @ 1..=60) => (201, json!({ "book": book, "days": days })),
        _ => (400, json!({ "error": "books are lent for 1 to 60 days" })),
    }
}
