//! Replaces the certificate of a running server when its files change.
//!
//! The files are compared by their metadata, and not watched like the configuration: tools that renew
//! certificates swap links at any place of a path, and file systems of networks report no changes.
//!
//! Invariant: new files that cannot be used leave the certificate in force, and the reason is printed
//! once for each change.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

use tokio::time::{Interval, MissedTickBehavior, interval};
use toolcrib::{Gateway, HandshakeFailure, Tls, TlsIdentity};
use toolcrib_config::TlsConfig;

use crate::{preflight, printer::Printer};

/// Time between two checks of the metadata. Two equal results are required before the files are read,
/// so that files which are replaced one after another are read together.
const LOOK: Duration = Duration::from_secs(1);

/// The certificate of a running server.
pub(super) struct Certificate {
    tls: Tls,
    files: TlsConfig,
    /// The metadata of the files at the last reload.
    read: Stamp,
    /// The metadata at the last check.
    seen: Stamp,
    looks: Interval,
}

/// The metadata of the files, following links.
type Stamp = Vec<Option<(u64, u64, i64, i64, u64)>>;

/// Creates TLS with `identity`, which counts in the metrics of `gateway`.
pub(super) fn tls(identity: TlsIdentity, gateway: &Gateway) -> Tls {
    note_expiry(&identity, gateway);
    let counted = gateway.clone();
    let on_failure = move |failure: HandshakeFailure| {
        counted.metrics().handshake_failed(failure.as_str());
    };
    Tls::new(identity, on_failure)
}

fn note_expiry(identity: &TlsIdentity, gateway: &Gateway) {
    if let Some(expires) = identity.expires() {
        gateway.metrics().certificate_expires(expires);
    }
}

impl Certificate {
    /// Watches `files`, which were read for `tls` when they had the metadata `read`.
    pub(super) fn new(tls: Tls, files: TlsConfig, read: Stamp) -> Self {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { tls, seen: read.clone(), read, files, looks }
    }

    /// Waits until the files have changed and are complete. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        loop {
            self.looks.tick().await;
            let now = stamp(&self.files);
            let is_still = now == self.seen;
            self.seen = now;
            if is_still && self.seen != self.read {
                return;
            }
        }
    }

    /// Reads the files, and uses them from now on. On failure prints why the old certificate stays.
    pub(super) fn reload(&mut self, gateway: &Gateway, printer: Printer) {
        self.read = stamp(&self.files);
        match preflight::identity(&self.files) {
            Ok(identity) => self.replace(identity, gateway, printer),
            Err(obstacle) => {
                let why = "the certificate was not replaced; the old one stays";
                printer.error(&obstacle.into_error().context(why));
            }
        }
    }

    /// Uses `identity` of `files` from now on.
    pub(super) fn adopt(
        &mut self,
        files: TlsConfig,
        identity: TlsIdentity,
        gateway: &Gateway,
        printer: Printer,
    ) {
        self.read = stamp(&files);
        self.files = files;
        self.replace(identity, gateway, printer);
    }

    fn replace(&self, identity: TlsIdentity, gateway: &Gateway, printer: Printer) {
        for warning in identity.warnings() {
            printer.warning(warning);
        }
        note_expiry(&identity, gateway);
        let expires = identity.expires().map(|at| at.format(", valid until %F %T UTC").to_string());
        self.tls.replace(identity);
        let expires = expires.unwrap_or_default();
        printer.note(format_args!("the certificate was reloaded{expires}"));
    }

    pub(super) fn files(&self) -> &TlsConfig {
        &self.files
    }
}

/// The metadata of `files`; `None` for missing files.
pub(super) fn stamp(files: &TlsConfig) -> Stamp {
    let of = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
    };
    let paths = [&files.cert, &files.key].into_iter().chain(&files.client_ca);
    paths.map(|path| of(path)).collect()
}
