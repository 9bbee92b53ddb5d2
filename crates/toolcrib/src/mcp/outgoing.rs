//! The messages of a request that runs for a while.

use bytes::Bytes;

/// A message to the client.
pub(super) enum OutgoingMessage<A> {
    /// A notification; more follows.
    Notification(Bytes),
    /// The response; the last message.
    Answer(A),
}

impl<A> OutgoingMessage<A> {
    /// Converts the response.
    pub(super) fn map<B>(self, convert: impl FnOnce(A) -> B) -> OutgoingMessage<B> {
        match self {
            Self::Notification(bytes) => OutgoingMessage::Notification(bytes),
            Self::Answer(answer) => OutgoingMessage::Answer(convert(answer)),
        }
    }
}

impl OutgoingMessage<Bytes> {
    pub(super) fn into_bytes(self) -> Bytes {
        let (Self::Notification(bytes) | Self::Answer(bytes)) = self;
        bytes
    }
}
