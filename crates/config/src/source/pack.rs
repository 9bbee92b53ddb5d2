//! A node pack: its place, its required proofs, and the permissions of its code.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use globset::Glob;
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib_core::{
    credential::CredentialRef,
    egress::AllowList,
    id::CredentialName,
    source::{
        UpstreamSpec,
        pack::{PackGrant, PackLocation, PackOffer, PackSpec, PackVerification},
    },
};

use super::upstream::{PinFirst, PinMode, PinPolicy, Upstream};
use crate::{
    resolver::Resolver,
    secret::Value,
    units::{self as kind, Kind as _},
};

/// Minimum memory of a call: a page of WebAssembly.
const MIN_MEMORY: usize = 64 << 10;
/// Maximum memory of a call.
const MAX_MEMORY: usize = 1 << 30;
/// The prefix of the 32 bytes of an Ed25519 key in its usual encoding (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// An installed pack, a directory or an archive ([guide](../guides/node-packs.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Pack {
    /// An installed pack, a directory or an archive.
    #[schemars(extend("x-default" = "required"))]
    pack: Option<String>,
    /// Globs over type ids.
    #[schemars(extend("x-default" = "all"))]
    nodes: Vec<String>,
    /// Functions that its code may use.
    grants: BTreeSet<PackGrant>,
    /// Linear memory of one call.
    #[serde(with = "kind::Size")]
    memory: usize,
    /// `sha256-…` that the archive must have.
    integrity: Option<String>,
    /// Ed25519 public keys, one of which must have signed the pack.
    trusted_keys: Vec<Value>,
    /// Name of a [stored credential](../guides/credentials.md).
    credential: Option<CredentialName>,
    /// Private networks, addresses and hosts that requests may use
    /// ([rules](../explanation/security.md#where-requests-go)).
    allow: AllowList,
    /// Treatment of [changed tools](../guides/review-tools.md#pins).
    pins: PinMode,
    /// Treatment of new tools.
    pin_first: PinFirst,
}

impl Default for Pack {
    fn default() -> Self {
        Self {
            pack: None,
            nodes: Vec::new(),
            grants: BTreeSet::new(),
            memory: 64 << 20,
            integrity: None,
            trusted_keys: Vec::new(),
            credential: None,
            allow: AllowList::default(),
            pins: PinMode::default(),
            pin_first: PinFirst::default(),
        }
    }
}

impl Resolver<'_> {
    pub(super) fn pack(&mut self, source: &str, typed: Pack, offers: PackOffer) -> Upstream {
        Upstream {
            pins: PinPolicy { mode: typed.pins, first: typed.pin_first },
            credential: typed.credential.clone().map(CredentialRef::of_caller),
            account: None,
            spec: self.pack_spec(source, typed, offers).map(UpstreamSpec::Pack),
        }
    }

    fn pack_spec(&mut self, source: &str, typed: Pack, offers: PackOffer) -> Option<PackSpec> {
        let key = |member: &str| format!("{source}.{member}");
        if typed.pack.is_none() {
            let message = "expected a directory, a .tgz or the name of an installed pack";
            self.complain_of_absence(source, &key("pack"), message);
        }
        let location = typed.pack.as_deref().map(pack_location).transpose();
        let location = self.check(&key("pack"), location).flatten();
        let nodes = self.list(&key("nodes"), &typed.nodes, |text| {
            Glob::new(text).map(|_| text.to_owned()).map_err(|error| error.kind().to_string())
        });
        if !(MIN_MEMORY..=MAX_MEMORY).contains(&typed.memory) {
            self.complain(&key("memory"), "expected between 64KiB and 1GiB");
        }
        let hash = |text: &str| STANDARD.decode(text.strip_prefix("sha256-")?).ok();
        let is_hash = |text: &String| hash(text).is_some_and(|hash| hash.len() == 32);
        if !typed.integrity.iter().all(is_hash) {
            let message = "expected \"sha256-\" and the base64 of 32 bytes";
            self.complain(&key("integrity"), message);
        }
        if typed.allow != AllowList::default() && !typed.grants.contains(&PackGrant::Http) {
            let message = "`allow` requires the grant \"http\"";
            self.complain_of_absence(&key("grants"), &key("allow"), message);
        }
        let keys = self.trusted_keys(&key("trusted_keys"), &typed.trusted_keys);
        Some(PackSpec {
            location: match location? {
                PackLocation::Path(path) => PackLocation::Path(self.base.join(path)),
                installed @ PackLocation::Installed { .. } => installed,
            },
            offers,
            nodes: nodes?,
            grants: typed.grants,
            allow: typed.allow,
            memory: typed.memory,
            verify: PackVerification { integrity: typed.integrity, keys: keys? },
        })
    }

    /// Reads keys in the form of a lock file, or as PEM from a file. An unreadable key is a
    /// problem; ignoring it would mean that no key is required.
    fn trusted_keys(&mut self, key: &str, typed: &[Value]) -> Option<Vec<[u8; 32]>> {
        let mut keys = Vec::new();
        let before = self.problems.len();
        for value in typed {
            let Some(text) = self.referred(key, value) else { continue };
            keys.extend(self.check(key, public_key(text.expose())));
        }
        (self.problems.len() == before).then_some(keys)
    }
}

/// Parses the place of a pack. `./dir`, `dir/`, `a/b` and `pack.tgz` are paths; `vendor.acme.text`
/// and `vendor.acme.text@1.0.0` are installed packs.
pub fn pack_location(text: &str) -> Result<PackLocation, &'static str> {
    let archive = text.ends_with(".tgz") || text.ends_with(".tar.gz");
    if text.contains('/') || archive || text.starts_with('.') {
        return Ok(PackLocation::Path(text.into()));
    }
    let (name, version) = match text.split_once('@') {
        Some((name, version)) => (name, Some(version.to_owned())),
        None => (text, None),
    };
    let legal = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b))
    };
    match legal(name) && version.as_deref().is_none_or(legal) {
        true => Ok(PackLocation::Installed { name: name.to_owned(), version }),
        false => Err("expected a directory such as \"./pack\", a .tgz, or an installed pack such \
                      as \"vendor.acme.text@1.0.0\""),
    }
}

/// Parses an Ed25519 public key: the base64 of its 32 bytes, or PEM.
pub fn public_key(text: &str) -> Result<[u8; 32], &'static str> {
    let body: String =
        text.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let bytes = STANDARD.decode(body.trim()).unwrap_or_default();
    let key = bytes.strip_prefix(&SPKI[..]).unwrap_or(&bytes);
    key.try_into().map_err(|_| "expected an Ed25519 public key: base64 of its 32 bytes, or PEM")
}
