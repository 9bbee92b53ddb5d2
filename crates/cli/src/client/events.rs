//! Server-sent events as they come in, in pieces of any size.
//!
//! Invariant: no more than [`MAX_EVENT`] bytes are kept, however much is sent without an end.

/// Largest event: as large as any answer.
const MAX_EVENT: usize = super::MAX_ANSWER;

/// Puts events together.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    /// The `data` of the event that is being read.
    data: Option<Vec<u8>>,
    /// A carriage return ended the line; a line feed right after it belongs to it.
    returned: bool,
}

/// An event was larger than [`MAX_EVENT`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Events {
    /// Takes the next piece and gives the data of the events that it completes.
    pub(super) fn push(&mut self, mut piece: &[u8]) -> Result<Vec<Vec<u8>>, TooLarge> {
        let mut complete = Vec::new();
        while let Some(end) = piece.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let (line, rest) = piece.split_at(end);
            let (ending, rest) = rest.split_at(1);
            piece = rest;
            let returned = std::mem::replace(&mut self.returned, ending == b"\r");
            if returned && line.is_empty() && self.line.is_empty() && ending == b"\n" {
                continue;
            }
            self.keep(line)?;
            complete.extend(self.end_line()?);
        }
        if !piece.is_empty() {
            self.returned = false;
        }
        self.keep(piece)?;
        Ok(complete)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        let kept = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if kept + bytes.len() > MAX_EVENT {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The event that this line ends, if it does.
    fn end_line(&mut self) -> Result<Option<Vec<u8>>, TooLarge> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return Ok(self.data.take());
        }
        // Other fields and comments mean nothing to us.
        let Some(value) = line.strip_prefix(b"data") else { return Ok(None) };
        let value = match value.split_first() {
            None => value,
            Some((b':', value)) => value.strip_prefix(b" ").unwrap_or(value),
            Some(_) => return Ok(None),
        };
        match &mut self.data {
            None => self.data = Some(value.to_vec()),
            Some(data) if data.len() + 1 + value.len() > MAX_EVENT => return Err(TooLarge),
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\n\ndata: {\"a\":1}\n\nevent: x\r\ndata:b\r\ndata\r\ndata: c\r\n\r\n\
                          id: 7\n\ndataset: no\n\ndata: d\r\rdata: cut off";

    #[test]
    fn events_are_read_in_pieces_of_any_size() {
        for size in 1..=STREAM.len() {
            let mut events = Events::default();
            let mut found = Vec::new();
            for piece in STREAM.as_bytes().chunks(size) {
                found.extend(events.push(piece).unwrap());
            }
            let found: Vec<String> =
                found.into_iter().map(|event| String::from_utf8(event).unwrap()).collect();
            assert_eq!(found, ["{\"a\":1}", "b\n\nc", "d"], "pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let mut events = Events::default();
        let piece = vec![b'a'; MAX_EVENT / 4];
        let refused = (0..6).find_map(|_| events.push(&piece).err());
        assert_eq!(refused, Some(TooLarge));
        let mut events = Events::default();
        let piece = [b"data: ".to_vec(), vec![b'a'; MAX_EVENT / 4], b"\n".to_vec()].concat();
        let refused = (0..6).find_map(|_| events.push(&piece).err());
        assert_eq!(refused, Some(TooLarge), "many lines of one event");
    }
}
