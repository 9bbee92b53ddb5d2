//! A minimal HTTP/1.1 client that checks responses: keep-alive, one request at a time, bodies by
//! length or in chunks, and no allocation per request after the first ones.

use std::net::SocketAddr;
use std::ops::Range;
use std::str::from_utf8;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAX_ANSWER: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    unchunked: Vec<u8>,
}

/// A response; the body is borrowed from the connection.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) head: &'a str,
    pub(crate) body: &'a [u8],
}

enum Length {
    Known(usize),
    Chunked,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(32 << 10), unchunked: Vec::new() })
    }

    /// Sends one request and reads the whole response.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.fill().await?;
        };
        let text = from_utf8(self.buffer.get(..head).unwrap_or_default())?;
        let status = text.get(9..12).and_then(|digits| digits.parse().ok()).context("no status")?;
        let body = match length(text, status)? {
            Length::Known(length) => {
                while self.buffer.len() < head + length {
                    self.fill().await?;
                }
                head..head + length
            }
            Length::Chunked => return self.chunked(status, head).await,
        };
        if self.buffer.len() > body.end {
            bail!("the response continues after its end");
        }
        self.answer(status, head, body)
    }

    async fn chunked(&mut self, status: u16, head: usize) -> Result<Answer<'_>> {
        self.unchunked.clear();
        let mut at = head;
        loop {
            let rest = self.buffer.get(at..).unwrap_or_default();
            let Some(line) = find(rest, b"\r\n") else {
                self.fill().await?;
                continue;
            };
            let digits = from_utf8(rest.get(..line).unwrap_or_default())?;
            let size =
                usize::from_str_radix(digits.split(';').next().unwrap_or_default().trim(), 16)
                    .context("bad chunk size")?;
            let data = at + line + 2;
            while self.buffer.len() < data + size + 2 {
                self.fill().await?;
            }
            self.unchunked
                .extend_from_slice(self.buffer.get(data..data + size).unwrap_or_default());
            at = data + size + 2;
            if size == 0 {
                break;
            }
        }
        let head = from_utf8(self.buffer.get(..head).unwrap_or_default())?;
        Ok(Answer { status, head, body: &self.unchunked })
    }

    fn answer(&self, status: u16, head: usize, body: Range<usize>) -> Result<Answer<'_>> {
        let head = from_utf8(self.buffer.get(..head).unwrap_or_default())?;
        Ok(Answer { status, head, body: self.buffer.get(body).unwrap_or_default() })
    }

    async fn fill(&mut self) -> Result<()> {
        if self.buffer.len() > MAX_ANSWER {
            bail!("the response is too large");
        }
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the server closed the connection in the middle of a response");
        }
        Ok(())
    }
}

impl Answer<'_> {
    /// The value of a header; `name` must be in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(self.head, name)
    }
}

/// Formats a request.
pub(crate) fn request(
    method: &str,
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

fn length(head: &str, status: u16) -> Result<Length> {
    if matches!(status, 204 | 304) {
        return Ok(Length::Known(0));
    }
    if let Some(value) = header(head, "content-length") {
        return Ok(Length::Known(value.parse().context("bad content-length")?));
    }
    match header(head, "transfer-encoding") {
        Some(value) if value.eq_ignore_ascii_case("chunked") => Ok(Length::Chunked),
        _ => bail!("a response without a length"),
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

pub(crate) fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each request with the next of `answers`, a few bytes at a time.
    async fn dribbling(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for answer in answers {
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                for part in answer.as_bytes().chunks(7) {
                    stream.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        });
        address
    }

    #[tokio::test]
    async fn answers_of_every_shape_are_read_to_their_end() {
        let address = dribbling(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
        ])
        .await;
        let mut connection = Connection::open(address).await.unwrap();
        let get = request("GET", address, "/", &[], "");
        assert_eq!(connection.exchange(&get).await.unwrap().body, b"hello");
        assert_eq!(connection.exchange(&get).await.unwrap().body, b"hello, world");
        let last = connection.exchange(&get).await.unwrap();
        assert_eq!((last.status, last.body, last.header("etag")), (304, &b""[..], Some("\"a\"")));
        assert!(connection.exchange(&get).await.is_err());
    }
}
