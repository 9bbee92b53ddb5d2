//! When accounts were last used: noted in memory, and stored every [`USED_EVERY`].

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use toolcrib_core::{
    clock::Timestamp,
    credential::{AccountGrant, GrantStore},
    id::CredentialId,
};

use crate::{authn::USED_EVERY, background::Services};

/// The most uses between two writes; further accounts are noted after the next one.
const MAX_USES: usize = 16_384;

/// The uses that are not stored yet.
pub(super) struct AccountUses {
    store: Arc<dyn GrantStore>,
    noted: Mutex<HashMap<CredentialId, Timestamp>>,
}

// === impl AccountUses ===

impl AccountUses {
    /// Stores the uses from now on, until the gateway stops.
    pub(super) fn new(services: &Services, store: Arc<dyn GrantStore>) -> Arc<Self> {
        let uses = Arc::new(Self { store, noted: Mutex::default() });
        let periodic = Arc::clone(&uses);
        services.background.every("accounts/uses", USED_EVERY, move || {
            let uses = Arc::clone(&periodic);
            async move { uses.write().await }
        });
        uses
    }

    pub(super) fn note(&self, id: &CredentialId, at: Timestamp) {
        let mut noted = self.noted.lock();
        if let Some(last) = noted.get_mut(id) {
            *last = at.max(*last);
        } else if noted.len() < MAX_USES {
            noted.insert(id.clone(), at);
        }
    }

    /// When the account was last used: at this server, or, up to about a minute late, at others.
    pub(super) fn last(&self, grant: &AccountGrant) -> Option<Timestamp> {
        self.noted.lock().get(&grant.id).copied().max(grant.last_used_at)
    }

    /// Stores what was noted.
    pub(super) async fn write(&self) {
        let noted = std::mem::take(&mut *self.noted.lock());
        if noted.is_empty() {
            return;
        }
        let uses = noted.iter().map(|(id, at)| (id.clone(), *at)).collect();
        if let Err(error) = self.store.note_used(uses).await {
            tracing::warn!(%error, "the last uses of accounts could not be stored; they are kept");
            noted.iter().for_each(|(id, at)| self.note(id, *at));
        }
    }
}
