//! Lines of bounded length from a pipe.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::scan::{IdScan, Scanned};

/// A line that goes on for this many times the cap is not waited out any more.
const HOPELESS: usize = 8;
/// A buffer that once held a large line is given back down to this.
const KEPT: usize = 1 << 20;

/// Reads lines.
pub(crate) struct Lines<R> {
    reader: R,
    max: usize,
    buffer: Vec<u8>,
}

/// What was read.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// One line, without its end.
    Whole(&'a [u8]),
    /// A line over the cap; it was skipped, not kept.
    Oversized(Scanned),
    /// The other side closed the pipe.
    End,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Lines of at most `max` bytes.
    pub(crate) fn new(reader: R, max: usize) -> Self {
        Self { reader, max, buffer: Vec::new() }
    }

    /// The next line. A last line without an end counts as one.
    pub(crate) async fn next(&mut self) -> io::Result<Line<'_>> {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT);
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                return Ok(match self.buffer.as_slice() {
                    [] => Line::End,
                    line => Line::Whole(line),
                });
            }
            let (text, used, ended) = upto_newline(available);
            if self.buffer.len() + text.len() > self.max {
                return self.skip().await;
            }
            self.buffer.extend_from_slice(text);
            self.reader.consume(used);
            if ended {
                return Ok(Line::Whole(&self.buffer));
            }
        }
    }

    /// Reads on to the end of the line, keeping nothing of it but its id.
    async fn skip(&mut self) -> io::Result<Line<'_>> {
        let mut scan = IdScan::default();
        scan.feed(&self.buffer);
        let mut length = self.buffer.len();
        self.buffer = Vec::new();
        loop {
            let available = self.reader.fill_buf().await?;
            let (text, used, ended) = upto_newline(available);
            scan.feed(text);
            length += used;
            self.reader.consume(used);
            if ended || used == 0 {
                return Ok(Line::Oversized(scan.finish()));
            }
            if length > self.max.saturating_mul(HOPELESS) {
                return Err(io::Error::other("a line without an end"));
            }
        }
    }
}

/// The bytes before the first newline, how many to consume, and whether there was one.
fn upto_newline(available: &[u8]) -> (&[u8], usize, bool) {
    let mut parts = available.splitn(2, |&byte| byte == b'\n');
    let text = parts.next().unwrap_or_default();
    let ended = parts.next().is_some();
    (text, text.len() + usize::from(ended), ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_are_skipped_and_the_lines_around_them_are_not() {
        let long = format!(r#"{{"result":"{}","id":5}}"#, "x".repeat(100));
        let text = format!("one\n{long}\ntwo\n\nthree");
        // A small buffer, so that lines arrive in pieces.
        let mut lines = Lines::new(tokio::io::BufReader::with_capacity(7, text.as_bytes()), 20);
        let mut seen = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Line::Whole(line) => seen.push(String::from_utf8(line.to_vec()).unwrap()),
                Line::Oversized(scanned) => seen.push(format!("{:?}", scanned.id)),
                Line::End => break,
            }
        }
        assert_eq!(seen, ["one", "Some(5)", "two", "", "three"]);
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_given_up() {
        // I-27
        let mut lines = Lines::new(tokio::io::BufReader::new(tokio::io::repeat(b'x')), 1000);
        assert!(lines.next().await.is_err());
    }
}
