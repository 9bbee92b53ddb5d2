//! Server-sent events of bounded size.

/// Parses a stream piece by piece.
#[derive(Debug)]
pub struct SseParser {
    max: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    /// Whether the last byte was a carriage return, whose newline is still to be skipped.
    after_return: bool,
    started: bool,
}

/// An event is larger than the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct EventTooLarge;

impl SseParser {
    /// Creates a parser of events of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { max, line: Vec::new(), data: Vec::new(), after_return: false, started: false }
    }

    /// The number of kept bytes of an incomplete event.
    pub fn kept(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Takes the next piece and calls `event` with the data of every event that it completes.
    /// Events without data (comments, priming events) are skipped.
    ///
    /// # Errors
    /// Fails if an event is larger than the limit.
    pub fn push(
        &mut self,
        mut piece: &[u8],
        event: &mut dyn FnMut(&[u8]),
    ) -> Result<(), EventTooLarge> {
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_return)
                && let Some(rest) = piece.strip_prefix(b"\n")
            {
                piece = rest;
                continue;
            }
            let end = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (text, rest) = piece.split_at(end.unwrap_or(piece.len()));
            if self.line.len() + self.data.len() + text.len() > self.max {
                return Err(EventTooLarge);
            }
            self.line.extend_from_slice(text);
            piece = match rest.split_first() {
                Some((byte, rest)) => {
                    self.after_return = *byte == b'\r';
                    self.end_of_line(event);
                    rest
                }
                None => rest,
            };
        }
        Ok(())
    }

    /// Returns the data of an event that the stream did not complete.
    pub fn rest(mut self) -> Vec<u8> {
        if !self.line.is_empty() {
            self.end_of_line(&mut |_| {});
        }
        if self.data.last() == Some(&b'\n') {
            self.data.pop();
        }
        self.data
    }

    fn end_of_line(&mut self, event: &mut dyn FnMut(&[u8])) {
        let mut line = self.line.as_slice();
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            // The newline that joins lines of data also follows the last one.
            if let Some(data) = self.data.strip_suffix(b"\n")
                && !data.is_empty()
            {
                event(data);
            }
            self.data.clear();
        } else if let Some(data) = line.strip_prefix(b"data:") {
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            self.data.push(b'\n');
        } else if line == b"data" {
            self.data.push(b'\n');
        }
        self.line.clear();
    }
}

/// Encodes `message`, which must not contain a line break, as one event.
pub fn encode(message: &[u8]) -> Vec<u8> {
    [b"data: ", message, b"\n\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_however_the_stream_is_cut() {
        let stream = "\u{feff}id: 0\nretry: 3000\ndata:\n\n: keep-alive\n\nevent: message\r\n\
                      data: {\"a\":\r\ndata: 1}\r\n\r\ndata:x\r\rdata: unfinished";
        for size in 1..stream.len() {
            let mut parser = SseParser::new(1000);
            let mut events = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                let mut keep = |data: &[u8]| events.push(String::from_utf8(data.to_vec()).unwrap());
                parser.push(piece, &mut keep).unwrap();
            }
            assert_eq!(events, ["{\"a\":\n1}", "x"], "pieces of {size}");
        }
    }

    #[test]
    fn fields_other_than_data_mean_nothing() {
        let stream = ": hello\n\ndata: {\"a\":1}\n\nevent: x\r\ndata:b\r\ndata\r\ndata: c\r\n\r\n\
                      id: 7\n\ndataset: no\n\ndata: d\r\rdata: cut off";
        for size in 1..=stream.len() {
            let mut parser = SseParser::new(1000);
            let mut events = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                let mut keep = |data: &[u8]| events.push(String::from_utf8(data.to_vec()).unwrap());
                parser.push(piece, &mut keep).unwrap();
            }
            assert_eq!(events, ["{\"a\":1}", "b\n\nc", "d"], "pieces of {size}");
        }
    }

    #[test]
    fn the_data_of_an_event_without_an_end_can_be_read() {
        for (stream, rest) in [
            ("data: a\n\ndata: {\"b\":1}\n", "{\"b\":1}"),
            ("data: a\n\ndata: {\"b\":\ndata: 1}", "{\"b\":\n1}"),
            ("data: a\n\nid: 7\nda", ""),
            ("data: a\n\n", ""),
        ] {
            let mut parser = SseParser::new(1000);
            parser.push(stream.as_bytes(), &mut |_| {}).unwrap();
            assert_eq!(String::from_utf8(parser.rest()).unwrap(), rest, "{stream:?}");
        }
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        let mut parser = SseParser::new(1000);
        let mut events = Vec::new();
        let stream = [encode(b"{\"a\":1}"), encode(b" x")].concat();
        parser.push(&stream, &mut |data| events.push(data.to_vec())).unwrap();
        assert_eq!(events, [b"{\"a\":1}".to_vec(), b" x".to_vec()]);
    }

    #[test]
    fn an_event_over_the_limit_is_refused() {
        // I-27
        for stream in ["data: 0123456789", "data: 01234\ndata: 56789", ": 0123456789abcdef"] {
            let mut parser = SseParser::new(12);
            assert_eq!(parser.push(stream.as_bytes(), &mut |_| ()), Err(EventTooLarge));
        }
    }
}
