//! Verifies a pack: SRI hash of its archive, and Ed25519 signature.
//!
//! A detached signature (`<archive>.sig`) covers the archive's bytes. An embedded signature, in the
//! file that `signing.signatureRef` names, covers `pack.json`. The manifest must then contain the
//! hash of every other file (`x-toolcrib-files`), because the signature does not cover them.
//!
//! Invariant (I-42): only the operator's keys are trusted; a key inside a pack is no proof.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};
use toolcrib_core::source::pack::PackVerification;

use super::{
    error::{PackCode, PackError},
    files::Files,
    manifest::{MANIFEST, Manifest},
};

/// Bytes of a signature.
const SIGNATURE: usize = 64;

/// Computes `sha256-…` of `bytes`.
pub(crate) fn integrity(bytes: &[u8]) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(bytes)))
}

/// Verifies the pack as required by `wanted`. `archive` is `None` for a directory; `signature` is
/// the detached signature, if any.
pub(super) fn verify(
    wanted: &PackVerification,
    files: &Files,
    manifest: &Manifest,
    archive: Option<&[u8]>,
    signature: Option<&[u8]>,
) -> Result<(), PackError> {
    if let Some(expected) = &wanted.integrity {
        let Some(archive) = archive else {
            return PackCode::IntegrityMismatch.refuse("a directory has no hash; use the archive");
        };
        if integrity(archive) != *expected {
            return PackCode::IntegrityMismatch
                .refuse("the archive is not the one that `integrity` names");
        }
    }
    if wanted.keys.is_empty() {
        return Ok(());
    }
    match (archive, signature) {
        (Some(archive), Some(signature)) => signed(&wanted.keys, archive, signature),
        _ => signed_inside(&wanted.keys, files, manifest),
    }
}

/// Verifies the embedded signature.
fn signed_inside(keys: &[[u8; 32]], files: &Files, manifest: &Manifest) -> Result<(), PackError> {
    let invalid = |problem: &str| PackCode::SignatureInvalid.refuse(problem);
    let Some(path) = manifest.signature_ref() else {
        return invalid("the pack is not signed, but `trusted_keys` requires it");
    };
    let Some(signature) = files.get(path) else {
        return invalid("the file that `signing.signatureRef` names is not in the pack");
    };
    signed(keys, files.get(MANIFEST).unwrap_or_default(), signature)?;
    let signature_path = path.strip_prefix("./").unwrap_or(path);
    let covered = |path: &str, bytes: &[u8]| {
        path == MANIFEST
            || path == signature_path
            || manifest.hashes.get(path) == Some(&integrity(bytes))
    };
    match files.iter().all(|(path, bytes)| covered(path, bytes)) {
        true => Ok(()),
        false => invalid(
            "the signature covers pack.json only, and `x-toolcrib-files` there does not hold the \
             hash of every other file as it is",
        ),
    }
}

/// Fails unless `signature` (64 bytes, or their base64) is a signature of `bytes` by one of `keys`.
fn signed(keys: &[[u8; 32]], bytes: &[u8], signature: &[u8]) -> Result<(), PackError> {
    let decoded = match signature.len() {
        SIGNATURE => Some(signature.to_vec()),
        _ => std::str::from_utf8(signature).ok().and_then(|text| STANDARD.decode(text.trim()).ok()),
    };
    let signature = decoded.filter(|bytes| bytes.len() == SIGNATURE);
    let Some(signature) = signature else {
        return PackCode::SignatureInvalid.refuse("the signature is not 64 bytes or their base64");
    };
    let by = |key: &[u8; 32]| UnparsedPublicKey::new(&ED25519, key).verify(bytes, &signature);
    match keys.iter().any(|key| by(key).is_ok()) {
        true => Ok(()),
        false => PackCode::SignatureInvalid.refuse("the signature is not by a trusted key"),
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    fn pair(seed: u8) -> (Ed25519KeyPair, [u8; 32]) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let key = pair.public_key().as_ref().try_into().unwrap();
        (pair, key)
    }

    fn pack(hash: &str) -> (Files, Manifest) {
        let text = json!({
            "name": "vendor.acme.x", "version": "1.0.0", "engines": { "openwop": ">=1.0.0 <2.0.0" },
            "runtime": { "language": "wasm", "entry": "a.wasm" },
            "nodes": [{ "typeId": "vendor.acme.x.a" }],
            "signing": { "signatureRef": "./pack.sig", "publicKeyRef": "key.pem" },
            "x-toolcrib-files": { "a.wasm": hash },
        })
        .to_string();
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        let mut files = Files::default();
        files.insert(MANIFEST, text.into_bytes()).unwrap();
        files.insert("a.wasm", b"code".to_vec()).unwrap();
        (files, manifest)
    }

    fn wanted(keys: &[[u8; 32]]) -> PackVerification {
        PackVerification { integrity: None, keys: keys.to_vec() }
    }

    #[test]
    fn an_archive_must_match_the_expected_hash() {
        let (files, manifest) = pack("");
        let check = |integrity: &str, archive| {
            let wanted =
                PackVerification { integrity: Some(integrity.to_owned()), keys: Vec::new() };
            verify(&wanted, &files, &manifest, archive, None).map_err(|error| error.code)
        };
        // printf archive | openssl dgst -sha256 -binary | base64
        let right = "sha256-fSYWm1i91IIUYf4l3rEKBQrJ2eFeufkQFaiYIOa3F28=";
        assert_eq!(integrity(b"archive").len(), right.len());
        assert_eq!(check(&integrity(b"archive"), Some(&b"archive"[..])), Ok(()));
        assert_eq!(check(right, Some(&b"archivE"[..])), Err(PackCode::IntegrityMismatch));
        assert_eq!(check(right, None), Err(PackCode::IntegrityMismatch), "a directory");
    }

    // I-42
    #[test]
    fn a_signature_is_by_a_trusted_key_and_covers_every_file() {
        let (mine, key) = pair(1);
        let (theirs, other) = pair(2);
        let check = |keys: &[[u8; 32]], files: &Files, manifest: &Manifest, beside| {
            verify(&wanted(keys), files, manifest, Some(b"archive"), beside).map_err(|e| e.code)
        };
        let invalid = Err(PackCode::SignatureInvalid);

        // Detached signature.
        let (files, manifest) = pack("");
        let good = mine.sign(b"archive");
        let text = STANDARD.encode(good.as_ref()) + "\n";
        let bad = theirs.sign(b"archive");
        assert_eq!(check(&[other, key], &files, &manifest, Some(good.as_ref())), Ok(()));
        assert_eq!(check(&[key], &files, &manifest, Some(text.as_bytes())), Ok(()));
        assert_eq!(check(&[key], &files, &manifest, Some(bad.as_ref())), invalid);
        assert_eq!(check(&[key], &files, &manifest, Some(b"no signature")), invalid);
        assert_eq!(check(&[key], &files, &manifest, None), invalid, "unsigned");
        assert_eq!(check(&[], &files, &manifest, None), Ok(()), "no signature required");

        // Embedded signature.
        let (mut files, manifest) = pack(&integrity(b"code"));
        let signature = mine.sign(files.get(MANIFEST).unwrap());
        files.insert("pack.sig", signature.as_ref().to_vec()).unwrap();
        assert_eq!(check(&[key], &files, &manifest, None), Ok(()));
        assert_eq!(check(&[other], &files, &manifest, None), invalid);
        files.insert("schemas/extra.json", b"{}".to_vec()).unwrap();
        assert_eq!(check(&[key], &files, &manifest, None), invalid, "an unsigned file");
        let (mut files, manifest) = pack(&integrity(b"other code"));
        let signature = mine.sign(files.get(MANIFEST).unwrap());
        files.insert("pack.sig", signature.as_ref().to_vec()).unwrap();
        assert_eq!(check(&[key], &files, &manifest, None), invalid, "other code");
    }
}
