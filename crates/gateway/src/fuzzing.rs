//! Entrances for the fuzz targets; compiled with `--cfg fuzzing` alone.

/// Reads an untrusted token and an untrusted key set.
pub fn token(sent: &[u8]) {
    crate::authn::fuzz(sent);
}
