//! The parts of a database whose handle is the part.

/// Implements the methods of `Storage` that return a part.
macro_rules! parts_of_itself {
    () => {
        $crate::parts::parts_of_itself! {
            events: toolcrib_core::event::EventLog,
            record: toolcrib_core::record::RecordStore,
            segments: toolcrib_core::store::SegmentStore,
            keys: toolcrib_core::store::KeyStore,
            catalogs: toolcrib_core::store::CatalogStore,
            pins: toolcrib_core::pin::PinStore,
            approvals: toolcrib_core::approval::ApprovalStore,
            runs: toolcrib_core::store::RunStore,
            idempotency: toolcrib_core::idempotency::IdempotencyStore,
            client_sessions: toolcrib_core::store::ClientSessionStore,
            saved: toolcrib_core::store::SavedStore,
            quotas: toolcrib_core::quota::QuotaStore,
        }
    };
    ($($name:ident: $part:path,)*) => {
        $(fn $name(&self) -> std::sync::Arc<dyn $part> {
            std::sync::Arc::new(self.clone())
        })*
    };
}
pub(crate) use parts_of_itself;
