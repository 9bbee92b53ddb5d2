//! The messages of a request that runs for a while.

use bytes::Bytes;

/// A message to the client.
pub(super) enum Outgoing<A> {
    /// A notification; more follows.
    Notification(Bytes),
    /// The response; the last message.
    Answer(A),
}

impl<A> Outgoing<A> {
    /// Converts the response.
    pub(super) fn map<B>(self, convert: impl FnOnce(A) -> B) -> Outgoing<B> {
        match self {
            Self::Notification(bytes) => Outgoing::Notification(bytes),
            Self::Answer(answer) => Outgoing::Answer(convert(answer)),
        }
    }
}

impl Outgoing<Bytes> {
    pub(super) fn into_bytes(self) -> Bytes {
        let (Self::Notification(bytes) | Self::Answer(bytes)) = self;
        bytes
    }
}
