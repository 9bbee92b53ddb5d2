//! Encryption of credentials at rest: AES-256-GCM with a key outside the store.
//!
//! ```text
//! sealed = version (1) ‖ key id (8) ‖ nonce (12) ‖ ciphertext ‖ tag (16)
//! ```
//!
//! Invariants:
//! - the other fields of a credential (owner, audiences, kind) are authenticated together with its
//!   values: a row that was changed or exchanged with another cannot be opened;
//! - values are sealed only if there is a key;
//! - plain values are wiped from the buffers of this module.

use std::{fmt, sync::Arc};

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use sha2::{Digest as _, Sha256};
use toolcrib_core::{
    credential::{Credential, CredentialStoreError, Material, Secret},
    id::{CredentialId, InvalidId},
    store::StoreError,
};
use zeroize::Zeroizing;

use crate::key_text;

const VERSION: u8 = 1;
/// First byte of a text stored without a key; a sealed text never starts with it.
const PLAIN: u8 = 0;
const KEY_ID: usize = 8;
const NONCE: usize = 12;
/// Values are padded to a multiple of this, so that a ciphertext reveals little about their length.
const BLOCK: usize = 64;

/// A key that seals credentials.
#[derive(Clone)]
pub struct SealKey(Arc<Key>);

struct Key {
    id: [u8; KEY_ID],
    cipher: RandomizedNonceKey,
}

/// The keys of a store: the current one, which seals, and earlier ones, which still open.
#[derive(Debug, Clone, Default)]
pub struct SealKeys {
    keys: Vec<SealKey>,
}

/// Why a text is not a seal key. The text itself is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a seal key is 32 bytes as base64 or as 64 hexadecimal digits; `toolcrib credentials new-key` \
     or `openssl rand -base64 32` makes one"
)]
pub struct InvalidSealKey;

// === impl SealKey ===

impl SealKey {
    /// Returns the text of a new key, in base64.
    ///
    /// # Errors
    /// Fails when the system provides no randomness.
    pub fn generate() -> Result<Secret, StoreError> {
        key_text::generate()
    }

    /// Parses a key: 32 bytes in base64 (either alphabet, padded or not) or 64 hexadecimal digits.
    pub fn parse(text: &Secret) -> Result<Self, InvalidSealKey> {
        let bytes = key_text::read(text.expose()).ok_or(InvalidSealKey)?;
        let cipher =
            RandomizedNonceKey::new(&AES_256_GCM, bytes.as_slice()).map_err(|_| InvalidSealKey)?;
        let digest =
            Sha256::new().chain_update(b"toolcrib seal key").chain_update(bytes.as_slice());
        let mut id = [0; KEY_ID];
        for (to, from) in id.iter_mut().zip(digest.finalize()) {
            *to = from;
        }
        Ok(Self(Arc::new(Key { id, cipher })))
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}

// === impl SealKeys ===

impl SealKeys {
    /// Returns an empty set, which can neither seal nor open values.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a set that seals with `current`, and opens values sealed with it or with one of
    /// `old`.
    pub fn new(current: SealKey, old: impl IntoIterator<Item = SealKey>) -> Self {
        Self { keys: std::iter::once(current).chain(old).collect() }
    }

    /// Returns whether there is a key to seal with.
    pub fn can_seal(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether `sealed` was sealed with the current key.
    pub(crate) fn is_current(&self, sealed: &[u8]) -> bool {
        self.keys.first().is_some_and(|key| sealed.get(1..1 + KEY_ID) == Some(&key.0.id[..]))
    }

    /// Seals `material` bound to `credential`.
    pub(crate) fn seal(
        &self,
        credential: &Credential,
        material: &Material,
    ) -> Result<Vec<u8>, CredentialStoreError> {
        let parts = [Some(&material.value), material.client_secret.as_ref()];
        self.seal_bound(associated(credential)?, &parts)
    }

    /// Seals `secrets` bound to the place that `associated` names.
    pub(crate) fn seal_secrets(
        &self,
        associated: &[String],
        secrets: &[Option<&Secret>],
    ) -> Result<Vec<u8>, CredentialStoreError> {
        self.seal_bound(together(associated.iter().map(|part| Some(part.as_str()))), secrets)
    }

    /// Opens the output of [`seal_secrets`](Self::seal_secrets) for the same place; `id` names it in
    /// errors.
    pub(crate) fn open_secrets<const N: usize>(
        &self,
        id: &CredentialId,
        associated: &[String],
        sealed: &[u8],
    ) -> Result<[Option<Secret>; N], CredentialStoreError> {
        let associated = together(associated.iter().map(|part| Some(part.as_str())));
        self.open_bound(id, associated, sealed)
    }

    fn seal_bound(
        &self,
        associated: Vec<u8>,
        secrets: &[Option<&Secret>],
    ) -> Result<Vec<u8>, CredentialStoreError> {
        if !self.can_seal() {
            return Err(CredentialStoreError::NoKey);
        }
        let parts: Vec<_> = secrets.iter().map(|secret| secret.map(Secret::expose)).collect();
        let sealed = self.seal_parts(associated, &parts);
        sealed.ok_or_else(|| {
            StoreError::Unavailable("a credential could not be sealed".to_owned()).into()
        })
    }

    fn open_bound<const N: usize>(
        &self,
        id: &CredentialId,
        associated: Vec<u8>,
        sealed: &[u8],
    ) -> Result<[Option<Secret>; N], CredentialStoreError> {
        if self.keys.is_empty() {
            return Err(CredentialStoreError::NoKey);
        }
        let plain = self.open_parts(associated, sealed).map_err(|unopened| match unopened {
            UnsealError::OtherKey => CredentialStoreError::OtherKey(id.clone()),
            UnsealError::NotGenuine => CredentialStoreError::NotGenuine(id.clone()),
        })?;
        let mut secrets = [const { None }; N];
        let mut rest = &plain[..];
        for secret in &mut secrets {
            let pulled = pull(rest).ok_or_else(|| CredentialStoreError::NotGenuine(id.clone()))?;
            (*secret, rest) = pulled;
        }
        Ok(secrets)
    }

    /// Seals `text` bound to the place that `associated` names; it opens only with the same place.
    pub(crate) fn seal_text(&self, associated: &[&str], text: &str) -> Result<Vec<u8>, StoreError> {
        let associated = together(associated.iter().copied().map(Some));
        let sealed = self.seal_parts(associated, &[Some(text)]);
        sealed.ok_or_else(|| StoreError::Unavailable("a text could not be sealed".to_owned()))
    }

    /// Opens the output of [`seal_text`](Self::seal_text) for the same place, with any of these
    /// keys.
    pub(crate) fn open_text(&self, associated: &[&str], sealed: &[u8]) -> Option<String> {
        let associated = together(associated.iter().copied().map(Some));
        let plain = self.open_parts(associated, sealed).ok()?;
        let (text, _padding) = pull(&plain)?;
        Some(text?.expose().to_owned())
    }

    /// The stored form of `text`: sealed like [`seal_text`](Self::seal_text), or marked as plain
    /// where there is no key.
    pub(crate) fn pack(&self, associated: &[&str], text: &str) -> Result<Vec<u8>, StoreError> {
        match self.can_seal() {
            true => self.seal_text(associated, text),
            false => Ok([&[PLAIN], text.as_bytes()].concat()),
        }
    }

    /// Opens the output of [`pack`](Self::pack) for the same place. Where there is a key, an
    /// unsealed text is ignored: every program that can write to the store could have put it there.
    pub(crate) fn unpack(&self, associated: &[&str], stored: &[u8]) -> Option<String> {
        match self.can_seal() {
            true => self.open_text(associated, stored),
            false => self.unpack_any(associated, stored),
        }
    }

    /// Like [`unpack`](Self::unpack), also for a text stored without a key. The caller seals it
    /// next.
    pub(crate) fn unpack_any(&self, associated: &[&str], stored: &[u8]) -> Option<String> {
        match stored.split_first() {
            Some((&PLAIN, plain)) => String::from_utf8(plain.to_vec()).ok(),
            _ => self.open_text(associated, stored),
        }
    }

    /// Opens the material sealed with `credential`.
    pub(crate) fn open(
        &self,
        credential: &Credential,
        sealed: &[u8],
    ) -> Result<Material, CredentialStoreError> {
        let id = &credential.id;
        let [value, client_secret] = self.open_bound(id, associated(credential)?, sealed)?;
        let value = value.ok_or_else(|| CredentialStoreError::NotGenuine(id.clone()))?;
        Ok(Material { value, client_secret })
    }

    fn seal_parts(&self, associated: Vec<u8>, parts: &[Option<&str>]) -> Option<Vec<u8>> {
        let key = self.keys.first()?;
        // Includes room for the tag, so that growing leaves no plain copy behind.
        let room = parts.iter().flatten().map(|part| part.len()).sum::<usize>() + 4 * BLOCK;
        let mut buffer = Zeroizing::new(Vec::with_capacity(room));
        for part in parts {
            push(&mut buffer, *part);
        }
        let padded = buffer.len().next_multiple_of(BLOCK);
        buffer.resize(padded, 0);
        let cipher = &key.0.cipher;
        let nonce = cipher.seal_in_place_append_tag(Aad::from(associated), &mut *buffer).ok()?;
        Some([&[VERSION], &key.0.id[..], nonce.as_ref(), &buffer].concat())
    }

    fn open_parts(
        &self,
        associated: Vec<u8>,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, UnsealError> {
        let split = || {
            let (&version, rest) = sealed.split_first()?;
            let (key_id, rest) = rest.split_at_checked(KEY_ID)?;
            let (nonce, ciphertext) = rest.split_first_chunk::<NONCE>()?;
            (version == VERSION).then_some((key_id, nonce, ciphertext))
        };
        let (key_id, nonce, ciphertext) = split().ok_or(UnsealError::NotGenuine)?;
        let key = self.keys.iter().find(|key| key.0.id == key_id).ok_or(UnsealError::OtherKey)?;
        let mut buffer = Zeroizing::new(ciphertext.to_vec());
        let associated = Aad::from(associated);
        let opened = key.0.cipher.open_in_place(Nonce::from(nonce), associated, &mut buffer);
        let length = opened.map_err(|_| UnsealError::NotGenuine)?.len();
        buffer.truncate(length);
        Ok(buffer)
    }
}

/// Why a sealed value cannot be opened.
enum UnsealError {
    /// It was sealed with another key.
    OtherKey,
    /// It was damaged, changed or moved.
    NotGenuine,
}

/// Appends a text with its length; distinguishes an absent text from an empty one.
fn push(bytes: &mut Vec<u8>, part: Option<&str>) {
    let length = part.map_or(0, |part| part.len() as u64 + 1);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(part.unwrap_or_default().as_bytes());
}

/// Reads the first text that [`push`] wrote, and returns it with the rest.
fn pull(bytes: &[u8]) -> Option<(Option<Secret>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let Some(length) = u64::from_be_bytes(*length).checked_sub(1) else {
        return Some((None, rest));
    };
    let (text, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((Some(Secret::new(std::str::from_utf8(text).ok()?.to_owned())), rest))
}

/// The fields that are authenticated together with the values.
fn associated(credential: &Credential) -> Result<Vec<u8>, CredentialStoreError> {
    let unwritable = |_| StoreError::Unavailable("a credential has no JSON form".to_owned());
    let kind = serde_json::to_string(&credential.kind).map_err(unwritable)?;
    let audiences = serde_json::to_string(&credential.audiences).map_err(unwritable)?;
    let expires = credential.expires_at.map(|at| at.timestamp_millis().to_string());
    let revision = credential.revision.to_string();
    let owner = &credential.owner;
    let parts = [
        Some("toolcrib credential 1"),
        Some(owner.tenant.as_str()),
        owner.principal.as_ref().map(|principal| principal.as_str()),
        Some(credential.name.as_str()),
        Some(credential.id.as_str()),
        Some(kind.as_str()),
        Some(audiences.as_str()),
        expires.as_deref(),
        Some(revision.as_str()),
    ];
    Ok(together(parts))
}

/// Joins `parts` unambiguously.
fn together<'a>(parts: impl IntoIterator<Item = Option<&'a str>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        push(&mut bytes, part);
    }
    bytes
}

/// Creates an id for a new credential.
///
/// # Errors
/// Never fails in practice: the generated text is a valid id.
pub fn new_credential_id() -> Result<CredentialId, InvalidId> {
    CredentialId::parse(format!("cred-{}", uuid::Uuid::new_v4().simple()))
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose};
    use toolcrib_core::{
        credential::{CredentialKind, Owner},
        id::CredentialName,
    };

    use super::*;
    use crate::conformance::{credential_store::credential, moment};

    fn key(text: &str) -> SealKey {
        SealKey::parse(&Secret::new(text.to_owned())).unwrap()
    }

    fn material(value: &str, client: Option<&str>) -> Material {
        Material {
            value: Secret::new(value.to_owned()),
            client_secret: client.map(|text| Secret::new(text.to_owned())),
        }
    }

    #[test]
    fn keys_are_read_in_every_common_spelling() {
        let bytes = [0xfb_u8; 32];
        let hex = "fb".repeat(32);
        let standard = general_purpose::STANDARD.encode(bytes);
        let url = general_purpose::URL_SAFE_NO_PAD.encode(bytes);
        let sealed = SealKeys::new(key(&hex), []);
        let sealed = sealed.seal(&credential("a", "n", None), &material("v", None)).unwrap();
        for same in [hex.to_uppercase(), standard.clone(), url, format!(" {standard}\n")] {
            let keys = SealKeys::new(key(&same), []);
            assert!(keys.is_current(&sealed), "{same}");
            assert!(keys.open(&credential("a", "n", None), &sealed).is_ok());
        }
        for bad in ["", "secret-canary", &hex[2..], &"fg".repeat(32), &format!("{hex}00"), "ü"] {
            let error = SealKey::parse(&Secret::new(bad.to_owned())).unwrap_err().to_string();
            assert!(!error.contains("canary"), "{error}");
        }
        assert!(!format!("{:?}", SealKeys::new(key(&hex), [])).contains("fb"));
    }

    #[test]
    fn a_new_key_is_a_key_and_another_each_time() {
        let (one, two) = (SealKey::generate().unwrap(), SealKey::generate().unwrap());
        assert!(SealKey::parse(&one).is_ok());
        assert_ne!(one.expose(), two.expose());
    }

    #[test]
    fn no_field_that_is_authenticated_with_the_values_can_be_changed() {
        // I-36
        let keys = SealKeys::new(key(&"01".repeat(32)), []);
        let right = credential("a", "n", Some("ann"));
        let sealed = keys.seal(&right, &material("value-canary", Some("client"))).unwrap();
        let opened = keys.open(&right, &sealed).unwrap();
        assert_eq!(opened.value.expose(), "value-canary");
        assert_eq!(opened.client_secret.unwrap().expose(), "client");
        let mut others = Vec::new();
        let mut other = |change: &dyn Fn(&mut Credential)| {
            let mut credential = right.clone();
            change(&mut credential);
            others.push(credential);
        };
        other(&|c| c.id = "b".parse().unwrap());
        other(&|c| c.name = CredentialName::parse("m").unwrap());
        other(&|c| c.owner.tenant = "u".parse().unwrap());
        other(&|c| c.owner.principal = None);
        other(&|c| c.owner = Owner::principal("t".parse().unwrap(), "bob".parse().unwrap()));
        other(&|c| c.kind = CredentialKind::Query { parameter: "q".to_owned() });
        other(&|c| c.audiences = vec!["evil.example".parse().unwrap()]);
        other(&|c| c.audiences.push("evil.example".parse().unwrap()));
        other(&|c| c.expires_at = None);
        other(&|c| c.expires_at = Some(moment(1_000_000_000)));
        other(&|c| c.revision += 1);
        for other in others {
            let error = keys.open(&other, &sealed).unwrap_err();
            assert!(matches!(error, CredentialStoreError::NotGenuine(_)), "{other:?}");
        }
        for position in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[position] ^= 1;
            assert!(keys.open(&right, &damaged).is_err(), "{position}");
            assert!(keys.open(&right, &sealed[..position]).is_err(), "{position}");
        }
    }

    #[test]
    fn only_a_known_key_opens_and_without_a_key_nothing_is_sealed() {
        let (old, new) = (key(&"01".repeat(32)), key(&"02".repeat(32)));
        let stored = credential("a", "n", None);
        let of_old = SealKeys::new(old.clone(), []).seal(&stored, &material("v", None)).unwrap();
        let only_new = SealKeys::new(new.clone(), []);
        let error = only_new.open(&stored, &of_old).unwrap_err();
        assert!(matches!(error, CredentialStoreError::OtherKey(_)), "{error}");
        let both = SealKeys::new(new, [old]);
        let opened = both.open(&stored, &of_old).unwrap();
        assert!(!both.is_current(&of_old));
        assert!(only_new.open(&stored, &both.seal(&stored, &opened).unwrap()).is_ok());
        let none = SealKeys::none();
        for error in
            [none.seal(&stored, &opened).unwrap_err(), none.open(&stored, &of_old).unwrap_err()]
        {
            assert!(matches!(error, CredentialStoreError::NoKey), "{error}");
        }
    }

    #[test]
    fn a_ciphertext_hides_the_length_and_never_repeats_itself() {
        let keys = SealKeys::new(key(&"01".repeat(32)), []);
        let stored = credential("a", "n", None);
        let sealed = |value: &str| keys.seal(&stored, &material(value, None)).unwrap();
        assert_eq!(sealed("a").len(), sealed(&"b".repeat(40)).len());
        assert_ne!(sealed("a"), sealed("a"));
        let long = "\u{1}\"\\".repeat(10_000);
        assert_eq!(keys.open(&stored, &sealed(&long)).unwrap().value.expose(), long);
    }
}
