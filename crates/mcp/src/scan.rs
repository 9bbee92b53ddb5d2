//! Finds the `id` of a JSON-RPC message that is too large to be kept, or is not valid, while its
//! bytes pass by. Needs constant memory.

/// The parts of a message that a scan finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The id of the message as JSON text; `None` also when there are two different ones, or it is very
    /// long.
    pub id: Option<Box<str>>,
    /// Whether it has a `method`: a request or a notification, not an answer.
    pub has_method: bool,
}

/// Longest key or id that is read, in bytes of JSON; a longer one is neither `id` nor legal.
const MAX_TOKEN: usize = 260;

/// A scanner of one message.
#[derive(Debug, Default)]
pub struct IdScan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The top-level key without its quotes, or the top-level value being read; cut at
    /// [`MAX_TOKEN`].
    token: Vec<u8>,
    /// Whether the value being read is that of the top-level key `id`.
    in_id: bool,
    /// Whether there are two different ids.
    is_ambiguous: bool,
    found: Scanned,
}

impl Scanned {
    /// Returns the id as a number, also if it is a string with a number.
    pub fn number(&self) -> Option<u64> {
        self.id.as_deref()?.trim_matches('"').parse().ok()
    }
}

impl IdScan {
    /// Scans the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    /// Returns the parts that were found.
    pub fn finish(mut self) -> Scanned {
        self.end_of_value();
        self.found
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            let is_end = !self.escaped && byte == b'"';
            if self.in_id || !is_end {
                self.keep(byte);
            }
            self.escaped = !self.escaped && byte == b'\\';
            self.in_string = !is_end;
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.in_id {
                    self.keep(byte);
                } else if self.depth == 1 {
                    self.token.clear();
                }
            }
            b'{' | b'[' => {
                // Such an id is not legal.
                self.in_id &= self.depth != 1;
                self.depth = self.depth.saturating_add(1);
                self.token.clear();
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_of_value();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.in_id = self.token == b"id";
                self.found.has_method |= self.token == b"method";
                self.token.clear();
            }
            b',' if self.depth == 1 => self.end_of_value(),
            byte if byte.is_ascii_whitespace() => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < MAX_TOKEN {
            self.token.push(byte);
        }
    }

    fn end_of_value(&mut self) {
        if std::mem::take(&mut self.in_id) {
            let text = std::str::from_utf8(&self.token).unwrap_or_default();
            let first = self.found.id.take();
            self.is_ambiguous |= first.is_some_and(|first| *first != *text);
            let is_legal = !text.is_empty() && text.len() < MAX_TOKEN && !self.is_ambiguous;
            self.found.id = is_legal.then(|| text.into());
        }
        self.token.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_found_wherever_it_is_but_only_at_the_top() {
        for (message, id, has_method) in [
            (r#"{"jsonrpc":"2.0","id":5,"result":{"id":6}}"#, Some("5"), false),
            (r#"{"result":{"content":[{"id":7,"text":"\"id\":8,"}]},"id":5}"#, Some("5"), false),
            (r#"{"result":"},\"id\":9","jsonrpc":"2.0", "id" : "5" }"#, Some("\"5\""), false),
            (r#"{"method":"notifications/message","params":{"id":1}}"#, None, true),
            (r#"{"id":5,"result":{"cut of"#, Some("5"), false),
            (r#"{"result":{"id":1}}"#, None, false),
            (r#"{"id":"a\",1\\","method":"ping"}"#, Some(r#""a\",1\\""#), true),
            (r#"{"id":[1],"x":2}"#, None, false),
            (r#"{"id":1,"id":2}"#, None, false),
            (r#"{"id":1,"id":2,"id":2}"#, None, false),
            (r#"{"id":2,"id":2}"#, Some("2"), false),
            ("no json at all", None, false),
        ] {
            let mut scan = IdScan::default();
            // Byte by byte: pieces may end anywhere.
            for byte in message.bytes() {
                scan.feed(&[byte]);
            }
            let id = id.map(Into::into);
            assert_eq!(scan.finish(), Scanned { id, has_method }, "{message}");
        }
        let scanned = |id: &str| Scanned { id: Some(id.into()), has_method: false };
        assert_eq!([scanned("5").number(), scanned("\"5\"").number()], [Some(5); 2]);
        assert_eq!(scanned("\"a\"").number(), None);
    }
}
