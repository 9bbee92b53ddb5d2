//! What keeps a server from starting with a configuration that can be read. `serve` and
//! `config check` run the same checks.
//!
//! Invariant (I-30): nothing but loopback is served unless the configuration says what protects it.
//! Invariant: nothing is started and nothing is written.

use std::path::Path;

use tokio::net::TcpListener;
use toolcrib_core::{
    record::{DeliveryFactory as _, Destination},
    source::InvalidSource,
};
use toolcrib_gateway::config::{self, Config, Problem};
use toolcrib_sources::Deliveries;
use toolcrib_store::{SealKeys, SigningKey};

use crate::{
    failure::{self, advised},
    local,
    printer::Printer,
    seal, settings, signing,
};

/// What was read on the way, so that it is read once.
pub(crate) struct Ready {
    pub(crate) seal_keys: SealKeys,
    /// None when there is no key yet.
    pub(crate) signing_key: Option<SigningKey>,
}

/// A reason not to start.
pub(crate) struct Obstacle {
    /// The key of the configuration that it is about.
    key: String,
    error: anyhow::Error,
}

/// Checks everything that a server needs besides its address and its store.
pub(crate) async fn check(config: &Config, data_dir: &Path) -> Result<Ready, Vec<Obstacle>> {
    let mut obstacles = Vec::new();
    if let Err(error) = protected(config) {
        obstacles.push(Obstacle::new("server.listen", error));
    }
    let seal_keys = seal::keys(&config.store).await;
    let signing_key = signing::existing(config).await;
    obstacles.extend(undeliverable(config));
    let library = settings::library(data_dir);
    for InvalidSource { source_id, problem } in local::invalid_sources(config, library) {
        let error = anyhow::anyhow!("source `{source_id}`: {problem}");
        obstacles.push(Obstacle::new(format!("source.{source_id}"), error));
    }
    match (seal_keys, signing_key) {
        (Ok(seal_keys), Ok(signing_key)) if obstacles.is_empty() => {
            Ok(Ready { seal_keys, signing_key })
        }
        (seal_keys, signing_key) => {
            let of = |key: &'static str| move |error| Obstacle::new(key, error);
            obstacles.extend(seal_keys.err().map(of("store.seal_key")));
            obstacles.extend(signing_key.err().map(of("record.signing_key")));
            Err(obstacles)
        }
    }
}

/// Why the configured address cannot be listened on. That a program listens there already, most
/// likely the server whose configuration this is, is no reason.
pub(crate) async fn unusable_address(config: &Config) -> Option<Obstacle> {
    let listen = config.server.listen;
    match TcpListener::bind(listen).await {
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => None,
        Err(error) => Some(Obstacle::new(
            "server.listen",
            advised(
                format!("{listen} cannot be listened on: {error}"),
                "use an address of this machine, and a port that this user may open",
            ),
        )),
    }
}

/// Reports all `obstacles` but the last one, which is returned for the caller to report.
pub(crate) fn refused(mut obstacles: Vec<Obstacle>, printer: Printer) -> anyhow::Error {
    let last = obstacles.pop();
    for obstacle in obstacles {
        printer.error(&obstacle.error);
    }
    last.map_or_else(|| anyhow::anyhow!("the server cannot start"), |last| last.error)
}

/// What is said about a `[record]` that cannot work.
pub(crate) fn not_kept(problem: &str) -> anyhow::Error {
    advised(
        format!("the record cannot be sent where `[record]` says: {problem}"),
        "look at `[[record.anchor]]` and `[[record.forward]]`",
    )
}

/// I-30
fn protected(config: &Config) -> anyhow::Result<()> {
    let listen = config.server.listen;
    if listen.ip().is_loopback() || config.server.behind_proxy {
        return Ok(());
    }
    Err(advised(
        format!("{listen} can be reached from other machines, and nothing protects it"),
        "keys would travel in the open: listen on 127.0.0.1, or put a proxy that terminates TLS in \
         front and say `[server] behind_proxy = true`",
    ))
}

/// Destinations of the record and of webhooks that can never work.
fn undeliverable(config: &Config) -> Vec<Obstacle> {
    let deliveries = Deliveries::default();
    let fails = |destination: &Destination| deliveries.build(destination).err();
    let mut obstacles = Vec::new();
    for anchor in &config.record.anchors {
        let problem = fails(anchor);
        obstacles.extend(problem.map(|it| Obstacle::new("record.anchor", not_kept(&it))));
    }
    for forward in &config.record.forwards {
        let key = format!("record.forward.{}", forward.name);
        let problem = fails(&forward.destination);
        obstacles.extend(problem.map(|it| Obstacle::new(key, not_kept(&it))));
    }
    for webhook in &config.approvals.webhooks {
        let problem = fails(&Destination::Http(webhook.http.clone()));
        let error = |it| advised(format!("the webhook cannot be sent: {it}"), "check its `url`");
        obstacles.extend(problem.map(|it| Obstacle::new("approvals.webhook", error(it))));
    }
    obstacles
}

impl Obstacle {
    fn new(key: impl Into<String>, error: anyhow::Error) -> Self {
        Self { key: key.into(), error }
    }

    /// As a mistake in the file with `text`.
    pub(crate) fn problem(&self, text: &str) -> Problem {
        let causes = self.error.chain().map(ToString::to_string);
        let mut message = causes.collect::<Vec<_>>().join(": ");
        for hint in failure::hints(&self.error) {
            message.push_str("; ");
            message.push_str(hint);
        }
        let line = config::line_of_key(text, &self.key);
        Problem { line, key: Some(self.key.clone()), message }
    }
}
