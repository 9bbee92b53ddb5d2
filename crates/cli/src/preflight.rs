//! The checks of a parsed configuration before a server starts with it. `serve` and `config check`
//! run the same checks.
//!
//! Invariant (I-30): an address other than loopback requires `[server] tls` or `behind_proxy = true`.
//! Invariant: the checks open no connection and write no file.

use std::{path::Path, sync::Arc};

use chrono::Utc;
use tokio::net::TcpListener;
use toolcrib::TlsIdentity;
use toolcrib_config::{self as config, Config, Problem, TlsConfig};
use toolcrib_core::{
    credential::Secret,
    limit::RateLimiter,
    record::{DeliveryFactory as _, Destination},
    source::InvalidSource,
};
use toolcrib_gateway::ArgumentsHash;
use toolcrib_sources::Deliveries;
use toolcrib_store::{SealKeys, SigningKey};

use crate::{
    arguments_hash,
    failure::{self, advised},
    local,
    printer::Printer,
    seal, settings, signing,
    spans::Spans,
    store,
};

/// The keys that the checks have read, so that the server need not read them again.
pub(crate) struct PreflightResult {
    /// `None` without TLS.
    pub(crate) tls: Option<TlsIdentity>,
    pub(crate) seal_keys: SealKeys,
    /// `None` if no key exists yet.
    pub(crate) signing_key: Option<SigningKey>,
    pub(crate) arguments_hash: ArgumentsHash,
    /// `None` without `[store] password`.
    pub(crate) store_password: Option<Secret>,
    /// The limiter in Valkey or Redis, if one is configured.
    pub(crate) limiter: Option<Arc<dyn RateLimiter>>,
    /// `None` without `[telemetry]`.
    pub(crate) spans: Option<Spans>,
}

/// A reason not to start.
pub(crate) struct Obstacle {
    /// The configuration key with the problem.
    key: String,
    error: anyhow::Error,
}

/// Checks the configuration, except its address and its store, and returns the keys.
///
/// Fails with all obstacles.
pub(crate) async fn check(
    config: &Config,
    data_dir: &Path,
) -> Result<PreflightResult, Vec<Obstacle>> {
    let mut obstacles = Vec::new();
    if let Err(error) = protected(config) {
        obstacles.push(Obstacle::new("server.listen", error));
    }
    obstacles.extend(unsealed(config));
    obstacles.extend(unsealed_bridge(config));
    let seal_keys = seal::keys(&config.store).await;
    let signing_key = signing::existing(config).await;
    let arguments_hash = arguments_hash::form(config).await;
    obstacles.extend(undeliverable(config));
    let library = settings::library(data_dir);
    for InvalidSource { source_id, problem } in local::invalid_sources(config, library) {
        let error = anyhow::anyhow!("source `{source_id}`: {problem}");
        obstacles.push(Obstacle::new(format!("source.{source_id}"), error));
    }
    let tls = config.server.tls.as_ref().map(identity).transpose();
    let mut blocked = |key: &str, error| obstacles.push(Obstacle::new(key, error));
    let seal_keys = seal_keys.map_err(|error| blocked("store.seal_key", error)).ok();
    let signing_key = signing_key.map_err(|error| blocked("record.signing_key", error)).ok();
    let arguments_hash = arguments_hash.map_err(|error| blocked("record.hash_key", error)).ok();
    store::check_url(&config.store).unwrap_or_else(|error| blocked("store.url", error));
    let store_password = store::password(&config.store).await;
    let store_password = store_password.map_err(|error| blocked("store.password", error)).ok();
    let limiter = store::limiter(config).await;
    let limiter = limiter.map_err(|error| blocked("limits.shared", error)).ok();
    let spans = Spans::start(config).map_err(|error| blocked("telemetry", error)).ok();
    let tls = tls.map_err(|obstacle| obstacles.push(obstacle)).ok();
    let ready = || {
        Some(PreflightResult {
            tls: tls?,
            seal_keys: seal_keys?,
            signing_key: signing_key?,
            arguments_hash: arguments_hash?,
            store_password: store_password?,
            limiter: limiter?,
            spans: spans?,
        })
    };
    match ready() {
        Some(ready) if obstacles.is_empty() => Ok(ready),
        _ => Err(obstacles),
    }
}

/// An obstacle if several servers can share the store and no seal key is set. Servers share stored
/// responses of idempotent calls only sealed, so a repeated call could run at each server.
fn unsealed(config: &Config) -> Option<Obstacle> {
    if !config.store.is_shared() || config.store.seal_key.is_some() {
        return None;
    }
    let error = advised(
        "the store is PostgreSQL, which several servers can share, and `[store] seal_key` is not set",
        "create a key with `toolcrib credentials new-key --out seal.key`, copy it to every server, and \
         set `seal_key = { file = \"seal.key\" }` in `[store]`; without it a call under one \
         idempotency key could run at two servers",
    );
    Some(Obstacle::new("store.seal_key", error))
}

/// An obstacle if clients could start to sign in, but nothing of it could be stored.
fn unsealed_bridge(config: &Config) -> Option<Obstacle> {
    if config.bridge.is_none() || config.store.seal_key.is_some() {
        return None;
    }
    let error = advised(
        "`[auth.bridge]` stores sign-ins, clients and grants only sealed, and `[store] seal_key` \
         is not set",
        "create a key with `toolcrib credentials new-key --out seal.key`, and set `seal_key = \
         { file = \"seal.key\" }` in `[store]`",
    );
    Some(Obstacle::new("auth.bridge", error))
}

/// Reads the certificate of the listener.
pub(crate) fn identity(files: &TlsConfig) -> Result<TlsIdentity, Obstacle> {
    TlsIdentity::load(files, Utc::now()).map_err(|error| {
        let hint = error.hint;
        Obstacle::new(format!("server.tls.{}", error.key), advised(error.to_string(), hint))
    })
}

/// Why the server cannot listen on the configured address. An address in use is accepted: most
/// likely the server of this configuration is running.
pub(crate) async fn unusable_address(config: &Config) -> Option<Obstacle> {
    let listen = config.server.listen;
    match TcpListener::bind(listen).await {
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => None,
        Err(error) => Some(Obstacle::new(
            "server.listen",
            advised(
                format!("cannot listen on {listen}: {error}"),
                "use an address of this machine, and a port that this user may open",
            ),
        )),
    }
}

/// Prints all `obstacles` except the last one, which the caller prints.
pub(crate) fn refused(mut obstacles: Vec<Obstacle>, printer: Printer) -> anyhow::Error {
    let last = obstacles.pop();
    for obstacle in obstacles {
        printer.error(&obstacle.error);
    }
    last.map_or_else(|| anyhow::anyhow!("the server cannot start"), |last| last.error)
}

/// Creates the error for an invalid `[record]` section.
pub(crate) fn not_kept(problem: &str) -> anyhow::Error {
    advised(
        format!("a destination of the record in `[record]` is invalid: {problem}"),
        "check `[[record.anchor]]` and `[[record.forward]]`",
    )
}

/// Requires a loopback address, TLS or `behind_proxy` (I-30).
fn protected(config: &Config) -> anyhow::Result<()> {
    let server = &config.server;
    let listen = server.listen;
    if listen.ip().is_loopback() || server.tls.is_some() || server.behind_proxy {
        return Ok(());
    }
    Err(advised(
        format!("{listen} can be reached from other machines, and nothing protects it"),
        "keys would be sent unencrypted: listen on 127.0.0.1, set `[server] tls`, or put a proxy that \
         terminates TLS in front and set `[server] behind_proxy = true`",
    ))
}

/// The invalid destinations of the event log and of webhooks.
fn undeliverable(config: &Config) -> Vec<Obstacle> {
    let deliveries = Deliveries::default();
    let fails = |destination: &Destination| deliveries.build(destination).err();
    let mut obstacles = Vec::new();
    for anchor in &config.record.anchors {
        let problem = fails(anchor);
        obstacles.extend(problem.map(|cause| Obstacle::new("record.anchor", not_kept(&cause))));
    }
    for forward in &config.record.forwards {
        let key = format!("record.forward.{}", forward.name);
        let problem = fails(&forward.destination);
        obstacles.extend(problem.map(|cause| Obstacle::new(key, not_kept(&cause))));
    }
    for webhook in &config.approvals.webhooks {
        let problem = fails(&Destination::Http(webhook.http.clone()));
        let error =
            |cause| advised(format!("the webhook cannot be sent: {cause}"), "check its `url`");
        obstacles.extend(problem.map(|cause| Obstacle::new("approvals.webhook", error(cause))));
    }
    obstacles
}

impl Obstacle {
    fn new(key: impl Into<String>, error: anyhow::Error) -> Self {
        Self { key: key.into(), error }
    }

    /// The error with its hint.
    pub(crate) fn into_error(self) -> anyhow::Error {
        self.error
    }

    /// Converts the obstacle to a problem of the configuration file with `text`.
    pub(crate) fn problem(&self, text: &str) -> Problem {
        let causes = self.error.chain().map(ToString::to_string);
        let mut message = causes.collect::<Vec<_>>().join(": ");
        for hint in failure::hints(&self.error) {
            message.push_str("; ");
            message.push_str(hint);
        }
        let line = config::line_of_key(text, &self.key);
        Problem::new(line, Some(self.key.clone()), message)
    }
}
