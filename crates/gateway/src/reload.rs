//! Another configuration for a running gateway: its changes, and all of it or none.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use toolcrib_config::Config;
use toolcrib_core::{
    id::SourceId,
    source::{InvalidSource, SourceSpec, UpstreamSpec},
};

use crate::{
    audit::AuditTasks,
    gateway::{Gateway, Inner},
};

/// The changes that a configuration would make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadPlan {
    /// Sources that are new.
    pub started: Vec<SourceId>,
    /// Sources with another description, which are started again.
    pub replaced: Vec<SourceId>,
    /// Sources that are removed.
    pub removed: Vec<SourceId>,
    /// Sections that differ from those at the start of the gateway, and that only a restart applies.
    pub restart: Vec<&'static str>,
}

/// Why a configuration was not applied. The previous one stays in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The description of a source can never work.
    #[error(transparent)]
    Source(#[from] InvalidSource),
    /// An anchor or a forwarder of the record can never work.
    #[error("{0}")]
    Record(String),
}

fn by_id(config: &Config) -> BTreeMap<&SourceId, &SourceSpec> {
    config.sources.iter().map(|source| (&source.spec.id, &source.spec)).collect()
}

// === impl Gateway ===

impl Gateway {
    /// Compares `config` with the configuration in force, and with that of the start. Changes nothing.
    pub fn plan(&self, config: &Config) -> ReloadPlan {
        let now = self.config();
        let (before, after) = (by_id(&now), by_id(config));
        let mut plan =
            ReloadPlan { restart: config.restarts(&self.inner.started), ..<_>::default() };
        for (id, spec) in &after {
            match before.get(id) {
                None => plan.started.push((*id).clone()),
                Some(old) if old != spec => plan.replaced.push((*id).clone()),
                Some(_) => {}
            }
        }
        // Those of the embedding program are part of every configuration.
        let gone = before
            .values()
            .filter(|old| old.upstream != UpstreamSpec::Native && !after.contains_key(&old.id));
        plan.removed = gone.map(|old| old.id.clone()).collect();
        plan
    }

    /// Replaces the configuration: unchanged sources continue, new ones start, and removed ones close
    /// after their calls have finished. The anchors and forwarders of the record follow. On an error
    /// the configuration in force stays.
    ///
    /// # Errors
    /// [`ReloadError`].
    pub async fn apply(&self, config: Config) -> Result<ReloadPlan, ReloadError> {
        let plan = self.plan(&config);
        let before = self.config();
        let tasks = self.audit_tasks();
        if let Some(tasks) = &tasks {
            tasks.apply(&config.record).await.map_err(ReloadError::Record)?;
        }
        match self.put_in_force(config).await {
            Ok(()) => Ok(plan),
            Err(error) => {
                if let Some(tasks) = &tasks
                    && let Err(problem) = tasks.apply(&before.record).await
                {
                    tracing::error!(%problem, "the previous anchors and forwarders are not restored");
                }
                Err(error.into())
            }
        }
    }

    /// Applies `config` without the record's tasks.
    pub(crate) async fn put_in_force(&self, config: Config) -> Result<(), InvalidSource> {
        let Inner { supply, authenticator, services, .. } = &*self.inner;
        let (config, removed) = supply.apply(config).await?;
        authenticator.configure(&config).await;
        services.metrics.configure(&config, services.now());
        services.config.store(Arc::new(config));
        supply.publish();
        supply.retire(removed);
        Ok(())
    }

    /// The tasks of the record, as long as their holder keeps them.
    fn audit_tasks(&self) -> Option<Arc<AuditTasks>> {
        self.inner.audit_tasks.get().and_then(Weak::upgrade)
    }
}
