//! Secrets. A [`Secret`] has no `Display`, no `Serialize`, and a `Debug` that says nothing.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// A value that must never reach a log, an event, an error, a descriptor or a result.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Wraps `value`; the memory is wiped when the last clone is dropped.
    pub fn new(value: String) -> Self {
        Self(value.into())
    }

    /// The plain value, for the one place that hands it to an upstream or compares it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I-29
    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::new("canary".to_owned());
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)).matches("canary").count(), 0);
        assert_eq!(secret.expose(), "canary");
    }
}
