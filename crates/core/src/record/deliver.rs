//! Delivery of the record, or of its checkpoints, to places outside the store.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;

use super::{Checkpoint, CheckpointKind, Signature};
use crate::{
    canonical::Digest, clock::Timestamp, id::TenantId, source::HttpSpec, store::StoreError,
};

/// A place outside the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A file to append to.
    File(PathBuf),
    /// An HTTP endpoint that takes `POST`.
    Http(HttpSpec),
}

/// Why a delivery failed: fixed texts, never a receiver's own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryError {
    /// The file could not be written.
    #[error("the file cannot be written ({})", crate::text::io_reason(*.0))]
    File(std::io::ErrorKind),
    /// The egress guard refused the destination.
    #[error("the destination is not a public address; to permit it, list it in `allow`")]
    Refused,
    /// The receiver is unreachable, or the connection broke.
    #[error("the receiver does not answer")]
    Unreachable,
    /// The receiver took too long.
    #[error("the receiver did not answer in time")]
    TimedOut,
    /// The receiver refused.
    #[error("the receiver answered with status {0}")]
    Status(u16),
}

/// Delivers to one [`Destination`].
#[async_trait]
pub trait Delivery: Send + Sync + 'static {
    /// Delivers `body`. Succeeds only after the receiver stored it durably.
    async fn deliver(
        &self,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<(), DeliveryError> {
        self.deliver_with(&[], content_type, body).await
    }

    /// Delivers with additional headers, for a destination that supports them; names are in lower
    /// case.
    async fn deliver_with(
        &self,
        headers: &[(&'static str, String)],
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<(), DeliveryError>;
}

/// Creates a [`Delivery`] from a [`Destination`].
pub trait DeliveryFactory: Send + Sync + 'static {
    /// Creates a delivery without connecting.
    ///
    /// # Errors
    /// Fails with the problem of the destination.
    fn build(&self, destination: &Destination) -> Result<Arc<dyn Delivery>, String>;
}

/// Stores the text of the [`Witness`](super::Witness), separately from the store.
#[async_trait]
pub trait WitnessStore: Send + Sync + 'static {
    /// The text that was saved last.
    async fn load(&self) -> Result<Option<String>, StoreError>;

    /// Replaces the text. After it succeeds, the new text survives a power failure; until then the
    /// old one is intact.
    async fn save(&self, text: String) -> Result<(), StoreError>;
}

/// A witness that a server has saved in a shared store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedWitness {
    /// The instance that saved it.
    pub server: String,
    /// The SHA-256 of its text.
    pub digest: Digest,
}

/// The witnesses of the servers that use one store, in that store. They survive the loss of a
/// server's own files, and each server compares them with the record.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait SharedWitnesses: Send + Sync + 'static {
    /// The id of this instance.
    fn server(&self) -> &str;

    /// The saved witnesses, by server, without their texts.
    async fn list(&self) -> Result<Vec<SavedWitness>, StoreError>;

    /// The text that `server` saved last.
    async fn load(&self, server: &str) -> Result<Option<String>, StoreError>;

    /// Saves the text of this instance, replacing its last one.
    async fn save(&self, text: String) -> Result<(), StoreError>;

    /// Removes `witnesses` that were not replaced since they were listed.
    async fn remove(&self, witnesses: &[SavedWitness]) -> Result<(), StoreError>;
}

/// Signs checkpoints.
pub trait CheckpointSigner: Send + Sync + 'static {
    /// The public key of its signatures.
    fn public_key(&self) -> [u8; 32];

    /// Signs `bytes`.
    ///
    /// # Errors
    /// Fails when it cannot sign.
    fn sign(&self, bytes: &[u8]) -> Result<Signature, StoreError>;

    /// Whether this signer made `signature` over `bytes`.
    fn is_own(&self, bytes: &[u8], signature: &Signature) -> bool;

    /// Creates the checkpoint that follows `last` and states the hash of the event of `tenant` at a
    /// position.
    ///
    /// # Errors
    /// Fails when it cannot sign.
    fn checkpoint(
        &self,
        kind: CheckpointKind,
        tenant: TenantId,
        place: (u64, Digest),
        last: Option<&Checkpoint>,
        at: Timestamp,
    ) -> Result<Checkpoint, StoreError>;
}
