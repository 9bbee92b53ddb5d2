//! Where the record, or checkpoints of it, go besides the store.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;

use super::{Checkpoint, CheckpointKind, Signature};
use crate::{
    canonical::Digest, clock::Timestamp, id::TenantId, source::HttpSpec, store::StoreError,
};

/// A place outside the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A file that is appended to.
    File(PathBuf),
    /// An HTTP endpoint that takes `POST`.
    Http(HttpSpec),
}

/// Why something was not delivered: fixed texts, never a receiver's own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The file could not be written.
    #[error("the file cannot be written ({})", crate::text::io_reason(*.0))]
    File(std::io::ErrorKind),
    /// It leads where this host does not connect.
    #[error("the destination is not a public address; if it is meant, list it in `allow`")]
    Refused,
    /// Nobody is there, or the connection broke.
    #[error("the receiver does not answer")]
    Unreachable,
    /// It took too long.
    #[error("the receiver did not answer in time")]
    TimedOut,
    /// It said no.
    #[error("the receiver answered with status {0}")]
    Status(u16),
}

/// Takes what is to be delivered to one [`Destination`].
#[async_trait]
pub trait Delivery: Send + Sync + 'static {
    /// Delivers `body`. When this returns without an error, it is there to stay.
    async fn deliver(
        &self,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<(), DeliveryError> {
        self.deliver_with(&[], content_type, body).await
    }

    /// The same with more headers, for a destination that has such; the names are in lower case.
    async fn deliver_with(
        &self,
        headers: &[(&'static str, String)],
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<(), DeliveryError>;
}

/// Makes a [`Delivery`] of a [`Destination`].
pub trait DeliveryFactory: Send + Sync + 'static {
    /// Makes one; nothing is connected yet.
    ///
    /// # Errors
    /// What is wrong with the destination.
    fn build(&self, destination: &Destination) -> Result<Arc<dyn Delivery>, String>;
}

/// Keeps the text of the [`Witness`](super::Witness), apart from the store.
#[async_trait]
pub trait WitnessStore: Send + Sync + 'static {
    /// The text that was saved last; `None` when there is none.
    async fn load(&self) -> Result<Option<String>, StoreError>;

    /// Replaces the text. When this returns without an error, the new one survives a power failure;
    /// until then the old one is whole.
    async fn save(&self, text: String) -> Result<(), StoreError>;
}

/// Signs checkpoints.
pub trait CheckpointSigner: Send + Sync + 'static {
    /// The public key that its signatures belong to.
    fn public_key(&self) -> [u8; 32];

    /// Signs `bytes`.
    ///
    /// # Errors
    /// It cannot sign.
    fn sign(&self, bytes: &[u8]) -> Result<Signature, StoreError>;

    /// Whether `signature` is one of its own, over `bytes`.
    fn is_own(&self, bytes: &[u8], signature: &Signature) -> bool;

    /// The checkpoint that follows `last` and says that the event of `tenant` at a position has a
    /// hash.
    ///
    /// # Errors
    /// It cannot sign.
    fn checkpoint(
        &self,
        kind: CheckpointKind,
        tenant: TenantId,
        place: (u64, Digest),
        last: Option<&Checkpoint>,
        at: Timestamp,
    ) -> Result<Checkpoint, StoreError>;
}
