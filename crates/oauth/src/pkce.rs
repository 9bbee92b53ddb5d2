//! Proof key for code exchange (RFC 7636), with the method S256 only.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use toolcrib_core::credential::Secret;

/// The method of every challenge.
pub const METHOD: &str = "S256";

/// Makes the verifier of 32 random bytes.
pub fn verifier(random: &[u8; 32]) -> Secret {
    Secret::new(URL_SAFE_NO_PAD.encode(random))
}

/// The challenge of `verifier`: its SHA-256 in Base64url without padding.
pub fn challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appendix B of RFC 7636.
    #[test]
    fn the_example_of_the_standard_has_its_challenge() {
        let random = [
            116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186, 22, 212,
            37, 77, 105, 214, 191, 240, 91, 88, 5, 88, 83, 132, 141, 121,
        ];
        let verifier = verifier(&random);
        assert_eq!(verifier.expose(), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
