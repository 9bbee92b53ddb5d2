//! Lines of bounded length: one message each.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use crate::scan::{IdScan, MessageScan};

/// The capacity that a buffer keeps after a large line.
const KEPT: usize = 1 << 20;

/// Reads lines. Dropping the future of [`Lines::next`] loses no data; call it again to continue.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    max: usize,
    give_up_after: usize,
    buffer: Vec<u8>,
    /// Whether the line in `buffer` was returned.
    returned: bool,
    /// The rest of a line over the limit, while it is skipped.
    skipped: Option<SkippedLine>,
}

#[derive(Debug)]
struct SkippedLine {
    scan: IdScan,
    length: usize,
}

/// One line, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line within the limit.
    Whole(&'a [u8]),
    /// A line over the limit. Its text was skipped, not kept.
    TooLong(MessageScan),
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Creates a reader of lines of at most `max` bytes.
    pub fn new(reader: R, max: usize) -> Self {
        let (buffer, returned, skipped) = (Vec::new(), false, None);
        Self { reader, max, give_up_after: usize::MAX, buffer, returned, skipped }
    }

    /// Fails if a line is longer than `bytes`, instead of waiting for its end.
    #[must_use]
    pub fn give_up_after(self, bytes: usize) -> Self {
        Self { give_up_after: bytes, ..self }
    }

    /// Returns the next line; `None` at the end. A last line without a line break counts too.
    ///
    /// # Errors
    /// Fails if the input cannot be read, or if a line is longer than [`Lines::give_up_after`]
    /// allows.
    pub async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if std::mem::take(&mut self.returned) {
            self.buffer.clear();
            self.buffer.shrink_to(KEPT);
        }
        loop {
            // The only wait; everything after it happens at once.
            let available = self.reader.fill_buf().await?;
            let at_end = available.is_empty();
            let (text, used, has_end) = upto_newline(available);
            if self.skipped.is_none() && self.buffer.len() + text.len() > self.max {
                let mut scan = IdScan::default();
                scan.feed(&self.buffer);
                self.skipped = Some(SkippedLine { scan, length: self.buffer.len() });
                self.buffer = Vec::new();
            }
            match &mut self.skipped {
                Some(skipped) => {
                    skipped.scan.feed(text);
                    skipped.length += text.len();
                }
                None => self.buffer.extend_from_slice(text),
            }
            self.reader.consume(used);
            if at_end && self.buffer.is_empty() && self.skipped.is_none() {
                return Ok(None);
            }
            if has_end || at_end {
                self.returned = true;
                return Ok(Some(match self.skipped.take() {
                    Some(skipped) => Line::TooLong(skipped.scan.finish()),
                    None => Line::Whole(&self.buffer),
                }));
            }
            if self.skipped.as_ref().is_some_and(|line| line.length > self.give_up_after) {
                return Err(io::Error::other("a line without an end"));
            }
        }
    }
}

/// Splits off the bytes before the first newline; also returns how many to consume, and whether
/// there was a newline.
fn upto_newline(available: &[u8]) -> (&[u8], usize, bool) {
    let mut parts = available.splitn(2, |&byte| byte == b'\n');
    let text = parts.next().unwrap_or_default();
    let has_end = parts.next().is_some();
    (text, text.len() + usize::from(has_end), has_end)
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, task::Poll};

    use tokio::io::{AsyncWriteExt as _, BufReader};

    use super::*;

    /// Each line as text; one that is too long as its id.
    async fn lines(text: &str, buffer: usize, max: usize) -> Vec<String> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, text.as_bytes()), max);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            seen.push(match line {
                Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                Line::TooLong(scanned) => format!("{:?}", scanned.number()),
            });
        }
        seen
    }

    #[tokio::test]
    async fn long_lines_are_skipped_and_the_lines_around_them_are_not() {
        let long = format!(r#"{{"result":"{}","id":5}}"#, "x".repeat(100));
        let text = format!("one\n{long}\ntwo\n\nthree");
        // A small buffer, so that lines arrive in pieces.
        assert_eq!(lines(&text, 7, 20).await, ["one", "Some(5)", "two", "", "three"]);
    }

    #[tokio::test]
    async fn lines_end_where_they_should() {
        for buffer in [1, 3, 100] {
            assert_eq!(lines("", buffer, 8).await, [""; 0]);
            assert_eq!(lines("a\n\nb\r\nc", buffer, 8).await, ["a", "", "b\r", "c"]);
            assert_eq!(lines("12345678\n123456789\nb", buffer, 8).await, ["12345678", "None", "b"]);
            assert_eq!(lines("123456789", buffer, 8).await, ["None"]);
        }
    }

    #[tokio::test]
    async fn a_read_that_is_dropped_loses_nothing() {
        let (mut near, far) = tokio::io::duplex(64);
        let mut lines = Lines::new(BufReader::new(far), 8);
        for piece in ["12", "34\n123", "456789", "0\nb\n"] {
            near.write_all(piece.as_bytes()).await.unwrap();
            if piece == "12" || piece == "456789" {
                let mut read = pin!(lines.next());
                let polled = std::future::poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
                assert!(polled.is_pending(), "{piece}");
            } else if piece.starts_with("34") {
                assert_eq!(lines.next().await.unwrap(), Some(Line::Whole(b"1234")));
            } else {
                assert!(matches!(lines.next().await.unwrap(), Some(Line::TooLong(_))));
                assert_eq!(lines.next().await.unwrap(), Some(Line::Whole(b"b")));
            }
        }
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_given_up() {
        // I-27
        let reader = BufReader::new(tokio::io::repeat(b'x'));
        let mut lines = Lines::new(reader, 1000).give_up_after(8000);
        assert!(lines.next().await.is_err());
    }
}
