//! The messages between the server and a reaper.

use std::io;

use tokio::{io::AsyncWriteExt as _, net::unix::OwnedWriteHalf};

/// Command of the server: send SIGTERM to the child's process group.
pub(super) const TERMINATE: u8 = b'T';

/// Frames to the server: this byte, the length as four bytes (big endian), and the payload.
pub(super) const STARTED: u8 = b'S';
/// The child was not started; the payload is the reason as text.
pub(super) const FAILED: u8 = b'F';
/// Output of the child on its standard error.
pub(super) const STDERR: u8 = b'E';
/// The child has exited; the payload is the raw status of `wait` in four bytes.
pub(super) const ENDED: u8 = b'X';

/// Longest payload of a frame.
pub(super) const FRAME: usize = 8 << 10;

/// Sends one frame to the server.
pub(super) async fn send(frames: &mut OwnedWriteHalf, kind: u8, payload: &[u8]) -> io::Result<()> {
    let payload = payload.get(..FRAME).unwrap_or(payload);
    let mut frame = vec![kind];
    frame.extend(u32::try_from(payload.len()).unwrap_or_default().to_be_bytes());
    frame.extend_from_slice(payload);
    frames.write_all(&frame).await
}
