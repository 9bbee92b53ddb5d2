//! One issuer of tokens and its keys.
//!
//! Keys are fetched at the start, every [`REFRESH`], and when a token names an unknown key. One
//! task fetches them at a time, with a pause after each attempt, however many tokens name unknown
//! keys. While the issuer is unreachable, the last keys are trusted until they are `max_key_age`
//! old.

use std::{
    collections::HashSet,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use toolcrib_config::JwtConfig;
use toolcrib_core::{
    clock::Clock,
    key_set::{DocumentRequest, FetchError, KeySetSource},
};
use toolcrib_oauth::metadata::{self, Metadata};

use super::{endpoints::Description, jwk::KeySet};
use crate::background::BackgroundTasks;

/// The age at which keys are fetched again.
const REFRESH: Duration = Duration::from_secs(10 * 60);
/// Pause after a successful attempt.
const PAUSE: Duration = Duration::from_secs(10);
/// Shortest and longest pause after failed attempts; it doubles each time.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How long an attempt may take, discovery included.
const ATTEMPT: Duration = Duration::from_secs(8);
/// Requests that may wait for one attempt; further ones fail immediately.
const MAX_WAITING: usize = 256;

pub(super) struct Issuer {
    pub(super) config: JwtConfig,
    /// Hash of the configuration.
    pub(super) settings: [u8; 32],
    known: ArcSwap<KnownKeys>,
    flight: Mutex<FetchState>,
    waiting: AtomicUsize,
    pub(super) source: Option<Arc<dyn KeySetSource>>,
    pub(super) clock: Arc<dyn Clock>,
    /// For sign-ins; empty until the first one.
    pub(super) description: Description,
    /// Notified when the keys change.
    changes: watch::Sender<u64>,
    background: BackgroundTasks,
}

/// The shared parts of all issuers.
#[derive(Clone)]
pub(super) struct IssuerContext {
    /// Fetches their keys.
    pub(super) source: Option<Arc<dyn KeySetSource>>,
    pub(super) clock: Arc<dyn Clock>,
    /// Notified when the keys of an issuer change.
    pub(super) changes: watch::Sender<u64>,
    pub(super) background: BackgroundTasks,
}

/// The keys, and the time of the issuer's last response.
#[derive(Default)]
pub(super) struct KnownKeys {
    pub(super) keys: KeySet,
    pub(super) proofs: HashSet<[u8; 32]>,
    /// Monotonic nanoseconds; `None` before the first response.
    confirmed_at: Option<u64>,
}

#[derive(Default)]
struct FetchState {
    /// Closed at the end of the attempt in progress.
    running: Option<watch::Receiver<()>>,
    /// Monotonic nanoseconds before which no attempt is made.
    not_before: u64,
    failures: u32,
}

/// A waiting request; it counts as long as it lives.
struct WaitingRequest<'a>(&'a AtomicUsize);

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Issuer ===

impl Issuer {
    pub(super) fn new(config: JwtConfig, context: &IssuerContext) -> Arc<Self> {
        let IssuerContext { source, clock, changes, background } = context.clone();
        let settings = Sha256::digest(format!("{config:?}")).into();
        Arc::new(Self {
            config,
            settings,
            known: ArcSwap::default(),
            flight: Mutex::default(),
            waiting: AtomicUsize::new(0),
            source,
            clock,
            description: Description::default(),
            changes,
            background,
        })
    }

    /// The keys, unless they are too old to trust.
    pub(super) fn keys(&self) -> Option<Arc<KnownKeys>> {
        let known = self.known.load_full();
        let limit = self.config.max_key_age;
        self.age(&known).is_some_and(|age| age <= limit).then_some(known)
    }

    /// The proof that a token was signed with this key.
    pub(super) fn proof(&self, thumbprint: &[u8; 32]) -> [u8; 32] {
        Sha256::new().chain_update(self.settings).chain_update(thumbprint).finalize().into()
    }

    /// Fetches the keys if they are due. Called periodically.
    pub(super) fn refresh_if_due(self: &Arc<Self>) {
        if self.age(&self.known.load()).is_none_or(|age| age >= REFRESH) {
            self.ask();
        }
    }

    /// Fetches the keys, unless the last attempt was moments ago, and waits for the result.
    pub(super) async fn settle(self: &Arc<Self>) {
        let waiter = WaitingRequest(&self.waiting);
        if waiter.0.fetch_add(1, Ordering::Relaxed) < MAX_WAITING
            && let Some(mut ended) = self.ask()
        {
            // The attempt always finishes; only its end is signalled.
            while ended.changed().await.is_ok() {}
        }
    }

    /// The attempt in progress, or a new one if it is due.
    fn ask(self: &Arc<Self>) -> Option<watch::Receiver<()>> {
        let mut flight = self.flight.lock();
        if let Some(running) = &flight.running {
            return Some(running.clone());
        }
        let source = Arc::clone(self.source.as_ref()?);
        if self.clock.monotonic_nanos() < flight.not_before {
            return None;
        }
        let (ends, ended) = watch::channel(());
        flight.running = Some(ended.clone());
        drop(flight);
        let issuer = Arc::clone(self);
        // In a separate task: the request that needs the keys may be dropped.
        let closing = self.background.ended().clone();
        self.background.spawn(closing.run_until_cancelled_owned(async move {
            let read = tokio::time::timeout(ATTEMPT, issuer.read(&*source));
            // Every result is noted, even a panic, so that further attempts follow.
            let read = match AssertUnwindSafe(read).catch_unwind().await {
                Ok(Ok(read)) => read,
                Ok(Err(_late)) => Err("it takes too long to answer".to_owned()),
                Err(_panic) => Err("an internal error interrupted the attempt".to_owned()),
            };
            issuer.note(read);
            drop(ends);
        }));
        Some(ended)
    }

    /// Applies the result of an attempt.
    fn note(&self, read: Result<KeySet, String>) {
        let now = self.clock.monotonic_nanos();
        let gave = read.is_ok();
        match read {
            Ok(keys) => {
                let prove = |thumbprint| self.proof(&thumbprint);
                let proofs: HashSet<_> = keys.thumbprints().into_iter().map(prove).collect();
                let changed = self.known.load().proofs != proofs;
                self.known.store(Arc::new(KnownKeys { keys, proofs, confirmed_at: Some(now) }));
                if changed {
                    self.changes.send_modify(|count| *count += 1);
                }
            }
            Err(problem) => {
                tracing::warn!(issuer = %self.config.issuer, %problem, "no keys from the issuer");
            }
        }
        let mut flight = self.flight.lock();
        flight.running = None;
        flight.failures = if gave { 0 } else { flight.failures.saturating_add(1) };
        let pause = match flight.failures {
            0 => PAUSE,
            failures => BACK_OFF.0.saturating_mul(1 << (failures - 1).min(10)).min(BACK_OFF.1),
        };
        flight.not_before = now.saturating_add(nanos(pause));
    }

    async fn read(&self, source: &dyn KeySetSource) -> Result<KeySet, String> {
        let config = &self.config;
        let discovered;
        let url = match &config.jwks_url {
            Some(url) => url,
            None => {
                discovered = self.discover(source).await?;
                &discovered
            }
        };
        let named = config.jwks_url.as_ref().unwrap_or(&config.issuer);
        let wanted = DocumentRequest { url, named, allow: &config.allow };
        let document = source.fetch(wanted).await.map_err(|error| error.to_string())?;
        KeySet::read(&document, &config.algorithms)
            .map_err(|error| format!("the key set cannot be used: {error}"))
    }

    /// The address of the key set, by the description of the issuer.
    async fn discover(&self, source: &dyn KeySetSource) -> Result<String, String> {
        let metadata = self.metadata(source).await?;
        let keys = metadata.endpoint("jwks_uri", &self.config.allow);
        keys.map(Into::into).ok_or_else(|| {
            let problem = match metadata.names("jwks_uri") {
                true => "the `jwks_uri` of the discovery document is not https",
                false => "the discovery document has no `jwks_uri`",
            };
            problem.to_owned()
        })
    }

    /// The description of the issuer, at the first address that has one.
    pub(super) async fn metadata(&self, source: &dyn KeySetSource) -> Result<Metadata, String> {
        let config = &self.config;
        let mut missing = "it has no address for a discovery document".to_owned();
        for url in metadata::locations(&config.issuer) {
            let wanted = DocumentRequest { url: &url, named: &config.issuer, allow: &config.allow };
            match source.fetch(wanted).await {
                Ok(document) => {
                    let read = Metadata::read(&document, &config.issuer);
                    return read.map_err(|problem| problem.to_string());
                }
                Err(error @ FetchError::Status(404)) => missing = error.to_string(),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(missing)
    }

    fn age(&self, known: &KnownKeys) -> Option<Duration> {
        let now = self.clock.monotonic_nanos();
        known.confirmed_at.map(|at| Duration::from_nanos(now.saturating_sub(at)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
