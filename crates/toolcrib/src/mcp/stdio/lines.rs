//! Lines of bytes with a largest size.

use std::{io, pin::Pin};

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, BufReader};

/// Reads lines. [`Lines::next`] may be dropped and called again without losing anything.
pub(super) struct Lines<R> {
    input: Pin<Box<BufReader<R>>>,
    max: usize,
    line: Vec<u8>,
    /// Whether the rest of a line that is too long is being skipped.
    skipping: bool,
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// Was longer than the largest size; its text is gone.
    TooLong,
}

impl<R: AsyncRead> Lines<R> {
    pub(super) fn new(input: R, max: usize) -> Self {
        Self { input: Box::pin(BufReader::new(input)), max, line: Vec::new(), skipping: false }
    }

    /// The next line; `None` at the end. A last line without a line break is one too.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            // The only wait; everything after it happens at once.
            let read = self.input.fill_buf().await?;
            let ended = read.is_empty();
            let line_end = read.iter().position(|&byte| byte == b'\n');
            let (text, used) = match line_end {
                Some(end) => (read.get(..end).unwrap_or_default(), end + 1),
                None => (read, read.len()),
            };
            if self.line.len() + text.len() > self.max {
                self.skipping = true;
                self.line = Vec::new();
            } else if !self.skipping {
                self.line.extend_from_slice(text);
            }
            Pin::as_mut(&mut self.input).consume(used);
            if ended && self.line.is_empty() && !self.skipping {
                return Ok(None);
            }
            if line_end.is_some() || ended {
                let line = std::mem::take(&mut self.line);
                return Ok(Some(match std::mem::take(&mut self.skipping) {
                    true => Line::TooLong,
                    false => Line::Whole(line),
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &str) -> Vec<Line> {
        let mut lines = Lines::new(text.as_bytes(), 8);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(line);
        }
        read
    }

    #[tokio::test]
    async fn lines_end_where_they_should() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        assert_eq!(lines("").await, []);
        assert_eq!(lines("a\n\nb\r\nc").await, [whole("a"), whole(""), whole("b\r"), whole("c")]);
        assert_eq!(
            lines("12345678\n123456789\nb").await,
            [whole("12345678"), Line::TooLong, whole("b")]
        );
        assert_eq!(lines("123456789").await, [Line::TooLong]);
    }
}
