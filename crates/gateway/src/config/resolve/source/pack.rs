//! A node pack: its place, its required proofs, and the permissions of its code.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use globset::Glob;
use toolcrib_core::{
    id::SourceId,
    source::{
        UpstreamSpec,
        pack::{PackGrant, PackLocation, PackOffer, PackSpec, PackVerification},
    },
};

use crate::config::{
    resolve::{Resolver, file},
    units::parse_size,
};

/// Default memory of a call.
const DEFAULT_MEMORY: usize = 64 << 20;
/// Minimum memory of a call: a page of WebAssembly.
const MIN_MEMORY: usize = 64 << 10;
/// Maximum memory of a call.
const MAX_MEMORY: usize = 1 << 30;
/// The prefix of the 32 bytes of an Ed25519 key in its usual encoding (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

impl Resolver<'_> {
    pub(super) fn pack_source(
        &mut self,
        id: &SourceId,
        offers: PackOffer,
        typed: &file::Source,
    ) -> Option<UpstreamSpec> {
        let key = |member: &str| format!("source.{id}.{member}");
        let location = match &typed.pack {
            Some(pack) => self.read(&key("pack"), Some(pack), pack_location),
            None => {
                let message = "expected a directory, a .tgz or the name of an installed pack";
                let table = format!("source.{id}");
                let at = typed.id.span().start;
                self.complain_of_absence(at, &table, &key("pack"), message);
                None
            }
        };
        let mut nodes = Vec::new();
        for glob in &typed.nodes {
            let checked = self.read(&key("nodes"), Some(glob), |text| {
                Glob::new(text).map(|_| text.to_owned()).map_err(|error| error.kind().to_string())
            });
            nodes.extend(checked);
        }
        let mut grants = std::collections::BTreeSet::new();
        for grant in &typed.grants {
            grants.extend(self.read(&key("grants"), Some(grant), str::parse::<PackGrant>));
        }
        let memory = self.read(&key("memory"), typed.memory.as_ref(), |text| {
            let bytes = parse_size(text)?;
            match (MIN_MEMORY..=MAX_MEMORY).contains(&bytes) {
                true => Ok(bytes),
                false => Err("expected between 64KiB and 1GiB".to_owned()),
            }
        });
        let integrity = self.read(&key("integrity"), typed.integrity.as_ref(), |text| {
            let hash = text.strip_prefix("sha256-").and_then(|hash| STANDARD.decode(hash).ok());
            match hash.is_some_and(|hash| hash.len() == 32) {
                true => Ok(text.to_owned()),
                false => Err("expected \"sha256-\" and the base64 of 32 bytes"),
            }
        });
        let allow = self.allow_list(id, &typed.allow);
        if !typed.allow.is_empty() && !grants.contains(&PackGrant::Http) {
            let message = "only a pack that is granted \"http\" has `allow`";
            self.complain(typed.id.span().start, &key("allow"), message);
        }
        let keys = self.trusted_keys(&key("trusted_keys"), typed);
        Some(UpstreamSpec::Pack(PackSpec {
            location: self.based(location?),
            offers,
            nodes,
            grants,
            allow: allow?,
            memory: memory.unwrap_or(DEFAULT_MEMORY),
            verify: PackVerification { integrity, keys: keys? },
        }))
    }

    fn based(&self, location: PackLocation) -> PackLocation {
        match location {
            PackLocation::Path(path) => PackLocation::Path(self.base.join(path)),
            installed @ PackLocation::Installed { .. } => installed,
        }
    }

    /// Reads keys in the form of a lock file, or as PEM from a file. An unreadable key is a
    /// problem, so that it never counts as no key.
    fn trusted_keys(&mut self, key: &str, typed: &file::Source) -> Option<Vec<[u8; 32]>> {
        let mut keys = Vec::new();
        let before = self.problems.len();
        for value in &typed.trusted_keys {
            let offset = value.span().start;
            let Some(text) = self.referred(offset, key, value.get_ref()) else { continue };
            match public_key(text.expose()) {
                Ok(public) => keys.push(public),
                Err(problem) => self.complain(offset, key, problem),
            }
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
