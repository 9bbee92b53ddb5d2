//! Finds the `id` of a JSON-RPC message that cannot be kept or is invalid, in constant memory,
//! while its bytes pass by; and the members of an invalid message.

/// The parts of a message that a scan finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MessageScan {
    /// The id of the message as JSON text; `None` also if there are two different ones, or if it is
    /// very long.
    pub id: Option<Box<str>>,
    /// Whether it has a `method`: a request or a notification, not an answer.
    pub has_method: bool,
}

/// Longest key or id to read, in bytes of JSON; a longer one is neither `id` nor legal.
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
    /// Whether the value being read belongs to the top-level key `id`.
    in_id: bool,
    /// Whether there are two different ids.
    is_ambiguous: bool,
    found: MessageScan,
}

/// Parses the JSON text of an id as a number. Some servers repeat a numeric id as a string, others
/// as `1.0`.
pub(crate) fn number(id: &str) -> Option<u64> {
    let id = id.strip_prefix('"').and_then(|id| id.strip_suffix('"')).unwrap_or(id);
    id.strip_suffix(".0").unwrap_or(id).parse().ok()
}

/// Finds the text of the member `name` of `object`, even if `object` is not valid JSON. A value
/// that was cut is returned up to the cut. If the member is repeated, the first one is used.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    if !object.trim_ascii_start().starts_with('{') {
        return None;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    // Where the current key or value starts, and whether it is a value.
    let (mut start, mut in_value, mut is_wanted) = (0, false, false);
    for (at, byte) in object.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        let token = || object.get(start..at).map(str::trim_ascii);
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth == 1 {
                    start = at + 1;
                }
            }
            b'}' | b']' | b',' if depth == 1 => {
                if is_wanted {
                    return token();
                }
                if byte != b',' {
                    return None;
                }
                (start, in_value) = (at + 1, false);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 && !in_value => {
                let key = token().and_then(|key| key.strip_prefix('"')?.strip_suffix('"'));
                is_wanted = key == Some(name);
                (start, in_value) = (at + 1, true);
            }
            _ => {}
        }
    }
    object.get(start..).filter(|_| is_wanted).map(str::trim_ascii)
}

impl MessageScan {
    /// The id as a number, also if it is a string with a number.
    pub fn number(&self) -> Option<u64> {
        self.id.as_deref().and_then(number)
    }
}

impl IdScan {
    /// Scans the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    /// The parts that were found.
    pub fn finish(mut self) -> MessageScan {
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
            assert_eq!(scan.finish(), MessageScan { id, has_method }, "{message}");
        }
        let scanned = |id: &str| MessageScan { id: Some(id.into()), has_method: false };
        assert_eq!([scanned("5").number(), scanned("\"5\"").number()], [Some(5); 2]);
        assert_eq!(scanned("\"a\"").number(), None);
    }

    #[test]
    fn ids_are_numbers_in_any_spelling() {
        for id in ["5", "\"5\"", "5.0", "\"5.0\""] {
            assert_eq!(number(id), Some(5), "{id}");
        }
        for id in ["-5", "5.5", "a", "\"\"", "", "null"] {
            assert_eq!(number(id), None, "{id}");
        }
    }

    #[test]
    fn members_are_found_in_objects_that_are_not_valid() {
        for (object, expected) in [
            (r#"{"id":5,"result":{"a":NaN}}"#, Some(r#"{"a":NaN}"#)),
            (r#" { "result" : [1,{"result":2}] , "id":5}"#, Some(r#"[1,{"result":2}]"#)),
            (r#"{"a":"\"result\":1,}","result":-Infinity,"x":1}"#, Some("-Infinity")),
            (r#"{"a":{"result":1},"result":"b\\","result":2}"#, Some(r#""b\\""#)),
            (r#"{"id":5,"result":{"content":[{"text":"cut"#, Some(r#"{"content":[{"text":"cut"#)),
            (r#"{"id":5,"result":"#, Some("")),
            (r#"{"id":5,"res"#, None),
            (r#"{"id":5} {"result":1}"#, None),
            (r#"{"x":"result"}"#, None),
            (r#"[{"result":1}]"#, None),
            ("result: 1", None),
            ("", None),
        ] {
            assert_eq!(member(object, "result"), expected, "{object}");
        }
    }
}
