//! Public keys of issuers (RFC 7517, RFC 7518, RFC 8037).
//!
//! A key is bound to the algorithms of its type, so that a token cannot choose another use of it.
//! Keys that are private, too small, or for another use are left out.

use std::collections::HashSet;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use toolcrib_config::JwtAlgorithm;
use toolcrib_core::json;

use super::jws::{Jws, decoded};

/// Most keys to read from one document.
const MAX_KEYS: usize = 100;

/// The keys of one document.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<PublicKey>);

#[derive(Debug)]
pub(super) struct PublicKey {
    kid: Option<String>,
    algorithms: Vec<JwtAlgorithm>,
    material: Material,
    /// Hash of the key itself.
    pub(super) thumbprint: [u8; 32],
}

#[derive(Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    Ec(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Why a document contains no usable keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadKeySet {
    #[error("it is not a JSON object with an array `keys`")]
    Shape,
    #[error("it has more than {MAX_KEYS} keys")]
    TooMany,
    #[error("it has no key for the configured algorithms")]
    Empty,
}

/// The keys of a set that may have signed a token.
pub(super) enum KeyMatch<'k> {
    /// This key signed it.
    Signed(&'k PublicKey),
    /// The set has a key of that name, which did not sign it.
    Forged,
    /// The set has no key of that name.
    Unknown,
}

// === impl KeySet ===

impl KeySet {
    /// Reads a document, and keeps the keys that can check one of `algorithms`.
    pub(super) fn read(document: &[u8], algorithms: &[JwtAlgorithm]) -> Result<Self, BadKeySet> {
        let document = json::parse_strict(document).map_err(|_| BadKeySet::Shape)?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or(BadKeySet::Shape)?;
        if keys.len() > MAX_KEYS {
            return Err(BadKeySet::TooMany);
        }
        let read = |key: &Value| PublicKey::read(key.as_object()?, algorithms);
        let keys: Vec<PublicKey> = keys.iter().filter_map(read).collect();
        match keys.is_empty() {
            true => Err(BadKeySet::Empty),
            false => Ok(Self(keys)),
        }
    }

    /// Finds the key that signed `token` with `algorithm`.
    pub(super) fn find(&self, token: &Jws<'_>, algorithm: JwtAlgorithm) -> KeyMatch<'_> {
        let suits = |key: &&PublicKey| key.algorithms.contains(&algorithm);
        let mut named = self.0.iter().filter(suits).filter(|key| match &token.kid {
            Some(kid) => key.kid.as_ref() == Some(kid),
            None => true,
        });
        let Some(key) = named.next() else { return KeyMatch::Unknown };
        // Without unique names, an unauthenticated client could make the server try every key.
        if named.next().is_some() {
            return KeyMatch::Forged;
        }
        match key.verifies(token, algorithm) {
            true => KeyMatch::Signed(key),
            false => KeyMatch::Forged,
        }
    }

    /// The hashes of the keys.
    pub(super) fn thumbprints(&self) -> HashSet<[u8; 32]> {
        self.0.iter().map(|key| key.thumbprint).collect()
    }
}

// === impl PublicKey ===

impl PublicKey {
    /// Reads a key; `None` if it is unusable here.
    fn read(key: &Map<String, Value>, wanted: &[JwtAlgorithm]) -> Option<Self> {
        use JwtAlgorithm::{EdDsa, Es256, Es384, Es512, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| decoded(text(name)?).ok();
        // A published private part makes the key worthless.
        if key.contains_key("d") || key.get("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        if let Some(operations) = key.get("key_ops")
            && !operations.as_array()?.iter().any(|operation| operation == "verify")
        {
            return None;
        }
        let coordinate = |name: &str, size: usize| bytes(name).filter(|value| value.len() == size);
        let point = |size: usize| {
            let (x, y) = (coordinate("x", size)?, coordinate("y", size)?);
            Some(Material::Ec([&[4][..], &x, &y].concat()))
        };
        let (material, able): (Material, &[JwtAlgorithm]) = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let (n, e) = (bytes("n")?, bytes("e")?);
                let bits = n.len().checked_mul(8)?;
                if n.first() == Some(&0) || !(2048..=8192).contains(&bits) || e.len() > 8 {
                    return None;
                }
                (Material::Rsa { n, e }, &[Rs256, Rs384, Rs512, Ps256, Ps384, Ps512])
            }
            ("EC", Some("P-256")) => (point(32)?, &[Es256]),
            ("EC", Some("P-384")) => (point(48)?, &[Es384]),
            ("EC", Some("P-521")) => (point(66)?, &[Es512]),
            ("OKP", Some("Ed25519")) => (Material::Ed25519(coordinate("x", 32)?), &[EdDsa]),
            _ => return None,
        };
        let own = text("alg");
        let algorithms: Vec<_> = able
            .iter()
            .copied()
            .filter(|able| wanted.contains(able))
            .filter(|able| own.is_none_or(|own| own == able.as_str()))
            .collect();
        let mut hash = Sha256::new();
        match &material {
            Material::Rsa { n, e } => {
                hash.update(n);
                hash.update(e);
            }
            Material::Ec(point) | Material::Ed25519(point) => hash.update(point),
        }
        let kid = text("kid").map(str::to_owned);
        let thumbprint = hash.finalize().into();
        (!algorithms.is_empty()).then_some(Self { kid, algorithms, material, thumbprint })
    }

    fn verifies(&self, token: &Jws<'_>, algorithm: JwtAlgorithm) -> bool {
        let (message, signature) = (token.signed, token.signature.as_slice());
        let rsa = |n, e, parameters| {
            RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
        };
        let ec = |point, parameters| {
            UnparsedPublicKey::new(parameters, point).verify(message, signature).is_ok()
        };
        match (&self.material, algorithm) {
            (Material::Rsa { n, e }, JwtAlgorithm::Rs256) => rsa(n, e, &RSA_PKCS1_2048_8192_SHA256),
            (Material::Rsa { n, e }, JwtAlgorithm::Rs384) => rsa(n, e, &RSA_PKCS1_2048_8192_SHA384),
            (Material::Rsa { n, e }, JwtAlgorithm::Rs512) => rsa(n, e, &RSA_PKCS1_2048_8192_SHA512),
            (Material::Rsa { n, e }, JwtAlgorithm::Ps256) => rsa(n, e, &RSA_PSS_2048_8192_SHA256),
            (Material::Rsa { n, e }, JwtAlgorithm::Ps384) => rsa(n, e, &RSA_PSS_2048_8192_SHA384),
            (Material::Rsa { n, e }, JwtAlgorithm::Ps512) => rsa(n, e, &RSA_PSS_2048_8192_SHA512),
            (Material::Ec(point), JwtAlgorithm::Es256) => ec(point, &ECDSA_P256_SHA256_FIXED),
            (Material::Ec(point), JwtAlgorithm::Es384) => ec(point, &ECDSA_P384_SHA384_FIXED),
            (Material::Ec(point), JwtAlgorithm::Es512) => ec(point, &ECDSA_P521_SHA512_FIXED),
            (Material::Ed25519(key), JwtAlgorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    fn kept(key: Value) -> bool {
        let document = json!({ "keys": [key] }).to_string();
        KeySet::read(document.as_bytes(), &JwtAlgorithm::ALL).is_ok()
    }

    #[test]
    fn only_public_signing_keys_of_known_types_and_sizes_are_kept() {
        let b64 = |n: usize| URL_SAFE_NO_PAD.encode(vec![0xc1; n]);
        let rsa = json!({ "kty": "RSA", "n": b64(256), "e": "AQAB", "kid": "k" });
        let ec = json!({ "kty": "EC", "crv": "P-256", "x": b64(32), "y": b64(32) });
        let ed = json!({ "kty": "OKP", "crv": "Ed25519", "x": b64(32) });
        for good in [&rsa, &ec, &ed] {
            assert!(kept(good.clone()), "{good}");
        }
        let with = |key: &Value, name: &str, value: Value| {
            let mut key = key.clone();
            key[name] = value;
            key
        };
        for bad in [
            with(&rsa, "n", json!(b64(128))),
            with(&rsa, "n", json!(b64(2048))),
            with(&rsa, "use", json!("enc")),
            with(&rsa, "key_ops", json!(["sign"])),
            with(&rsa, "d", json!(b64(256))),
            with(&rsa, "alg", json!("ES256")),
            with(&rsa, "alg", json!("HS256")),
            with(&ec, "x", json!(b64(31))),
            with(&ec, "crv", json!("secp256k1")),
            with(&ed, "crv", json!("X25519")),
            json!({ "kty": "oct", "k": b64(32) }),
            json!("key"),
        ] {
            assert!(!kept(bad.clone()), "{bad}");
        }
        let many = json!({ "keys": vec![ed; 101] }).to_string();
        let many = KeySet::read(many.as_bytes(), &JwtAlgorithm::ALL);
        assert_eq!(many.err(), Some(BadKeySet::TooMany));
        assert_eq!(KeySet::read(b"[]", &JwtAlgorithm::ALL).err(), Some(BadKeySet::Shape));
    }
}
