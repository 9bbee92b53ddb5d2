//! Entrances for the fuzz targets; compiled with `--cfg fuzzing` alone.

use crate::{message, scan::IdScan, sse::SseParser};

/// Reads `frame` as a stream of events, whole and in pieces, and as one message.
///
/// # Panics
/// Panics if the pieces give other events than the whole, or if the scanner finds another id than
/// the parser.
pub fn frame(frame: &[u8]) {
    let mut whole = Vec::new();
    let mut parser = SseParser::new(1 << 16);
    parser.push(frame, &mut |event| whole.push(event.to_vec())).ok();
    let mut pieces = Vec::new();
    let mut parser = SseParser::new(1 << 16);
    for piece in frame.chunks(3) {
        if parser.push(piece, &mut |event| pieces.push(event.to_vec())).is_err() {
            break;
        }
    }
    if frame.len() < 1 << 16 {
        assert_eq!(whole, pieces, "the pieces of a stream give the same events");
    }
    let mut scan = IdScan::default();
    scan.feed(frame);
    let scanned = scan.finish();
    if !frame.trim_ascii_start().starts_with(b"{") {
        return;
    }
    let Ok(incoming) = serde_json::from_slice::<message::IncomingMessage<'_>>(frame) else {
        return;
    };
    // The scanner skips escapes and long ids; for all others its result equals that of the parser.
    if let Some(text) = incoming.id
        && let Some(id) = message::numeric_id(text)
        && text.get().len() < 24
        && !frame.contains(&b'\\')
    {
        assert_eq!(scanned.number(), Some(id));
    }
    if let Some(error) = incoming.error {
        message::RpcError::read(error);
    }
}
