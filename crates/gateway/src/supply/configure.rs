//! Applies a configuration: sources start, stay or are closed.

use std::{collections::HashMap, sync::Arc, time::Duration};

use toolcrib_config::Config;
use toolcrib_core::{
    id::SourceId,
    source::{InvalidSource, Source, UpstreamSpec},
};

use super::{
    Listener, Supply,
    pins::PinUpdate,
    slots::{Slot, Slots},
};
use crate::{
    assembly::listed::{NewForms, OfferList},
    breaker::Breaker,
};

/// How long calls of a source that left the configuration may continue.
const DRAIN: Duration = Duration::from_secs(30);
/// How often a source that left the configuration is checked for calls.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);

/// A source for a new configuration, without a slot so far.
struct NewSource {
    source: Arc<dyn Source>,
    /// The last good catalog.
    known: Option<Arc<OfferList>>,
}

impl Supply {
    /// Applies `config` without publishing: sources with an unchanged description stay, and new
    /// ones start. Returns the configuration with the native sources, and the unused sources, for
    /// [`retire`](Self::retire). On an error the supply stays unchanged.
    ///
    /// # Errors
    /// [`InvalidSource`] if a description can never work.
    pub(crate) async fn apply(
        &self,
        config: Config,
    ) -> Result<(Config, Vec<Arc<dyn Source>>), InvalidSource> {
        let config = self.with_natives(config)?;
        let mut new = self.build(&config).await?;
        let mut pinned = HashMap::new();
        for source in &config.sources {
            let id = &source.spec.id;
            let known = match new.get(id) {
                Some(new) => new.known.clone(),
                None => self.slots.lock().find(id).and_then(|slot| slot.listed.clone()),
            };
            pinned.insert(
                id.clone(),
                self.update_pins(source, known.as_ref(), NewForms::new()).await,
            );
        }
        let removed = self.replace_slots(&mut self.slots.lock(), &config, &mut new, pinned);
        Ok((config, removed))
    }

    /// Adds the sources of the embedding program, which are part of every configuration.
    pub(super) fn with_natives(&self, mut config: Config) -> Result<Config, InvalidSource> {
        // A configuration from the gateway contains them already.
        config.sources.retain(|source| source.spec.upstream != UpstreamSpec::Native);
        let toolkit = |id: &SourceId| id.as_str().replace('-', "_");
        for native in &self.natives {
            let id = &native.spec.id;
            if config.sources.iter().any(|other| toolkit(&other.spec.id) == toolkit(id)) {
                let problem = "another source has this id (`-` and `_` count as equal)".to_owned();
                return Err(InvalidSource { source_id: id.clone(), problem });
            }
            config.sources.push(native.clone());
        }
        Ok(config)
    }

    /// Closes each of `sources` in the background, after its calls have finished.
    pub(crate) fn retire(&self, sources: Vec<Arc<dyn Source>>) {
        for source in sources {
            let ended = self.services.background.ended().clone();
            self.services.background.spawn(async move {
                tokio::select! {
                    () = drain(&source) => {}
                    () = ended.cancelled() => {}
                }
                source.close().await;
            });
        }
    }

    /// Builds the missing sources of `config`. They only start if all of them can be built.
    async fn build(&self, config: &Config) -> Result<HashMap<SourceId, NewSource>, InvalidSource> {
        config.sources.iter().try_for_each(|source| self.factory.check(&source.spec))?;
        let mut new = HashMap::new();
        for config in &config.sources {
            if !self.slots.lock().runs(config) {
                let listener = Arc::new(Listener(self.requests.clone()));
                let source = self.factory.build(&config.spec, listener)?;
                let known = self.last_good(&config.spec).await.map(Arc::new);
                new.insert(config.spec.id.clone(), NewSource { source, known });
            }
        }
        Ok(new)
    }

    /// Replaces the slots by those of `config`. Returns the sources that are now unused.
    fn replace_slots(
        &self,
        slots: &mut Slots,
        config: &Config,
        new: &mut HashMap<SourceId, NewSource>,
        mut pinned: HashMap<SourceId, PinUpdate>,
    ) -> Vec<Arc<dyn Source>> {
        slots.gate = config.gate.clone();
        slots.toolsets.clone_from(&config.toolsets);
        slots.policies = config.policies.clone();
        let mut old: HashMap<SourceId, Slot> = std::mem::take(&mut slots.slots)
            .into_iter()
            .map(|slot| (slot.config.spec.id.clone(), slot))
            .collect();
        let mut removed = Vec::new();
        for source in &config.sources {
            let id = &source.spec.id;
            let config = Arc::new(source.clone());
            let mut slot = match (new.remove(id), old.remove(id)) {
                (Some(NewSource { source, known }), previous) => {
                    removed.extend(previous.map(|slot| slot.source));
                    // It may have become ready before its slot existed.
                    self.refresh(id);
                    let breaker = Breaker::new(
                        id.clone(),
                        config.breaker,
                        Arc::clone(&self.services.clock),
                        Arc::clone(&self.services.metrics),
                    );
                    Slot::new(config, source, breaker, known)
                }
                (None, Some(mut slot)) => {
                    slot.configure(config);
                    slot
                }
                (None, None) => continue,
            };
            if let Some(PinUpdate { pins, unfinished, .. }) = pinned.remove(id) {
                slot.pin(pins, unfinished);
            }
            slots.slots.push(slot);
        }
        removed.extend(old.into_values().map(|slot| slot.source));
        slots.reassemble_all();
        removed
    }
}

/// Waits until the calls of a source that left the configuration have finished, at most for
/// [`DRAIN`].
async fn drain(source: &Arc<dyn Source>) {
    let idle = async {
        // Snapshots and calls also hold the source; this must be the last reference.
        while Arc::strong_count(source) > 1 {
            tokio::time::sleep(DRAIN_INTERVAL).await;
        }
    };
    if tokio::time::timeout(DRAIN, idle).await.is_err() {
        tracing::warn!(source = %source.id(), "calls of a removed source did not finish in time");
    }
}
