//! The witnesses of the other servers of a shared store.
//!
//! Each server also saves its witness in the store, before it signs anything. So a server without
//! files knows the last signed state. If a server remembers more than the store, after a lossy
//! failover or an attack, every other server notices.
//!
//! Invariant (I-109): while the record contradicts the witness of any server, the log of that
//! tenant is not signed; if a part in a witness is missing, no server runs a call.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use toolcrib_core::{
    canonical::Digest,
    id::TenantId,
    record::{CheckpointSigner, SavedWitness, SharedWitnesses, Witness},
    store::StoreError,
};

use super::{
    context::Context,
    continuity::{self, Discontinuity, break_of},
};

/// The problem of an invalid witness in the store.
pub(super) const FOREIGN: &str = "a witness in the store is not one of the signing key";

/// The witnesses in the store, as far as this server knows them.
pub(super) struct Witnesses {
    context: Arc<Context>,
    store: Arc<dyn SharedWitnesses>,
    /// The witnesses of other servers that the record did not contradict, by server.
    compared: HashMap<String, Digest>,
    /// The witness of this server in the store, and the monotonic time of its writing.
    published: Option<(Digest, u64)>,
}

/// The result of a comparison with the witnesses of the other servers.
#[derive(Default)]
pub(super) struct Comparison {
    /// Contradictions to one of them, by tenant.
    pub(super) contradicted: BTreeMap<TenantId, Discontinuity>,
    /// Whether one of them has signed beyond the end of the whole log.
    pub(super) is_shorter: bool,
    /// Whether one of them has no valid signature of the signing key.
    pub(super) is_foreign: bool,
    /// The later signatures of the others.
    pub(super) later: Option<Witness>,
}

/// Merges `other` into `witness`: for each tenant, the later checkpoint counts. Returns whether
/// `witness` changed.
pub(super) fn merge(witness: &mut Witness, other: &Witness) -> bool {
    let mut has_changed = witness.position < other.position;
    witness.position = witness.position.max(other.position);
    for (tenant, entry) in &other.tenants {
        if witness.tenants.get(tenant).is_none_or(|known| known.number < entry.number) {
            witness.tenants.insert(tenant.clone(), *entry);
            has_changed = true;
        }
    }
    has_changed
}

/// Reads the witnesses in the store that `signer` signed, and whether there are others.
pub(super) async fn signed_by(
    store: &dyn SharedWitnesses,
    signer: &dyn CheckpointSigner,
) -> Result<(Vec<Witness>, bool), StoreError> {
    let (mut found, mut is_foreign) = (Vec::new(), false);
    for saved in store.list().await? {
        let Some(text) = store.load(&saved.server).await? else { continue };
        match continuity::witness(&text, signer) {
            Some(witness) => found.push(witness),
            None => is_foreign = true,
        }
    }
    Ok((found, is_foreign))
}

// === impl Witnesses ===

impl Witnesses {
    /// `None` for a store of one server.
    pub(super) fn new(context: &Arc<Context>) -> Option<Self> {
        let store = context.storage.witnesses()?;
        let context = Arc::clone(context);
        Some(Self { context, store, compared: HashMap::new(), published: None })
    }

    /// The last state that any server has signed, for a server without a witness. `Err` is the
    /// reason why no witness is valid.
    pub(super) async fn last_signed(
        &self,
    ) -> Result<Result<Option<Witness>, &'static str>, StoreError> {
        let signer = &self.context.signer;
        let (found, is_foreign) = signed_by(&*self.store, &**signer).await?;
        if is_foreign {
            return Ok(Err(FOREIGN));
        }
        Ok(Ok(found.into_iter().reduce(|mut all, one| {
            merge(&mut all, &one);
            all
        })))
    }

    /// Compares the record with the witnesses of other servers that are new since the last
    /// comparison, or contradicted the record then. Saves `text`, the witness of this server, if
    /// the store does not have it.
    pub(super) async fn compare(
        &mut self,
        own: &Witness,
        text: &str,
    ) -> Result<Comparison, StoreError> {
        let listed = self.store.list().await?;
        let mut result = Comparison::default();
        for saved in listed.iter().filter(|saved| saved.server != self.store.server()) {
            if self.compared.get(&saved.server) == Some(&saved.digest) {
                continue;
            }
            let Some(text) = self.store.load(&saved.server).await? else { continue };
            let Some(other) = continuity::witness(&text, &*self.context.signer) else {
                result.is_foreign = true;
                continue;
            };
            if self.compare_one(own, other, &mut result).await? {
                self.compared.insert(saved.server.clone(), Digest::of(text.as_bytes()));
            }
        }
        self.compared.retain(|server, _| listed.iter().any(|saved| saved.server == *server));
        let mine = listed.iter().find(|saved| saved.server == self.store.server());
        let published = self.published.map(|(digest, _)| digest);
        let is_missing = published.is_none() || mine.map(|mine| mine.digest) != published;
        // A server with another key must not keep the others from signing.
        if is_missing && !result.is_foreign {
            self.publish(text).await?;
        }
        Ok(result)
    }

    /// Whether the record agrees with `other`.
    async fn compare_one(
        &self,
        own: &Witness,
        other: Witness,
        result: &mut Comparison,
    ) -> Result<bool, StoreError> {
        let (store, signer) = (&self.context.store, &self.context.signer);
        // Read after the witness: the other server may have signed meanwhile.
        let is_shorter = store.last_position().await? < other.position;
        result.is_shorter |= is_shorter;
        let mut holds = !is_shorter;
        for (tenant, entry) in &other.tenants {
            if own.tenants.get(tenant) == Some(entry) {
                continue;
            }
            let base = continuity::base(&**store, &**signer, tenant, Some(entry)).await;
            if let Some(found) = break_of(base.map(drop))? {
                result.contradicted.insert(tenant.clone(), found);
                holds = false;
            }
        }
        if holds {
            match &mut result.later {
                Some(later) => {
                    merge(later, &other);
                }
                later => *later = Some(other),
            }
        }
        Ok(holds)
    }

    /// Saves `text`, the witness of this server, in the store: after `interval` since the last
    /// time, or `now`. Then removes the witnesses of dead servers, which it contains.
    pub(super) async fn save(
        &mut self,
        text: &str,
        interval: Duration,
        ending: bool,
    ) -> Result<(), StoreError> {
        let Some((digest, at)) = self.published else { return Ok(()) };
        let elapsed = self.context.clock.monotonic_nanos().saturating_sub(at);
        if u128::from(elapsed) < interval.as_nanos() && !ending {
            return Ok(());
        }
        match digest == Digest::of(text.as_bytes()) {
            true => self.published = Some((digest, self.context.clock.monotonic_nanos())),
            false => self.publish(text).await?,
        }
        self.remove_dead().await
    }

    async fn publish(&mut self, text: &str) -> Result<(), StoreError> {
        self.store.save(text.to_owned()).await?;
        let now = self.context.clock.monotonic_nanos();
        self.published = Some((Digest::of(text.as_bytes()), now));
        Ok(())
    }

    async fn remove_dead(&mut self) -> Result<(), StoreError> {
        if self.compared.is_empty() {
            return Ok(());
        }
        let alive = self.context.storage.instances().await?;
        let compared = self.compared.iter().filter(|(server, _)| !alive.contains(server));
        let dead: Vec<SavedWitness> = compared
            .map(|(server, digest)| SavedWitness { server: server.clone(), digest: *digest })
            .collect();
        if !dead.is_empty() {
            self.store.remove(&dead).await?;
        }
        Ok(())
    }
}
