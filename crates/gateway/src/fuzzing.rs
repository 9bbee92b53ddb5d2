//! Entry points for the fuzz targets; compiled only with `--cfg fuzzing`.

/// Reads an untrusted token and an untrusted key set.
pub fn token(sent: &[u8]) {
    crate::authn::fuzz(sent);
}
