//! Entrances for the fuzz targets; compiled with `--cfg fuzzing` alone.

/// Reads what a stranger sent as a token, and what an issuer sent as its keys.
pub fn token(sent: &[u8]) {
    crate::authn::fuzz(sent);
}
