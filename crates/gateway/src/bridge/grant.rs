//! Grants of clients: their stored form, and the texts that clients present for them.
//!
//! A grant begins with a code, which is exchanged for the first refresh token. Each refresh token is
//! replaced by a successor that is derived from it: a client that presents the replaced one within
//! [`GRACE`] gets the same successor, because the first answer may have been lost.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    credential::Secret,
    id::{CredentialId, KeyId},
    principal::{ClientWay, Token},
};
use toolcrib_oauth::server::authorize::CodeRequest;

use crate::clock::after;

/// The starts of codes and of refresh tokens, so that scanners can find leaked ones.
const CODE: &str = "tcd_";
const REFRESH: &str = "tcr_";
/// 256 bits in base64url.
const SECRET_CHARACTERS: usize = 43;
/// How long a replaced refresh token still gets its successor.
pub(super) const GRACE: Duration = Duration::from_secs(60);
/// The most access tokens of a grant that are valid at once.
pub(super) const MAX_ACCESS: usize = 32;

/// The stored form of a grant. The id, the person and the expiry belong to its item.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredGrant {
    pub(super) client: String,
    /// The name of the client for people.
    pub(super) name: String,
    /// How the client got the grant.
    pub(super) by: ClientWay,
    /// The path that access tokens are for.
    pub(super) path: String,
    /// What access tokens are worth.
    pub(super) token: Token,
    /// The hash of the code or of the refresh token that is valid now.
    pub(super) current: Digest,
    /// The request of the code, until it is exchanged.
    pub(super) request: Option<CodeRequest>,
    /// What `current` replaced.
    pub(super) previous: Option<ReplacedToken>,
    /// The key of the marks of its refresh tokens.
    pub(super) family: String,
    /// For the request to the provider before each renewal; `None` if it gave nothing.
    pub(super) provider: Option<String>,
    /// Until when one server waits for the provider.
    pub(super) busy_until: Option<Timestamp>,
    /// The access tokens and their ends.
    pub(super) access: Vec<(KeyId, Timestamp)>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplacedToken {
    hash: Digest,
    /// With which the successor is derived.
    salt: String,
    until: Timestamp,
}

/// A code or a refresh token, as it is presented.
pub(super) struct Presented<'t> {
    pub(super) id: CredentialId,
    text: &'t str,
    secret: &'t str,
    mark: &'t str,
}

/// The part of a presented refresh token in its grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RefreshState {
    /// The current one.
    Current,
    /// The one before, presented again in time; its successor is the current one.
    Again(String),
    /// One of this grant that was replaced earlier. It may have been stolen.
    Reused,
    /// Not one of this grant.
    Unknown,
}

// === impl Presented ===

impl<'t> Presented<'t> {
    /// Reads a code.
    pub(super) fn code(text: &'t Secret) -> Option<Self> {
        Self::read(text.expose(), CODE, SECRET_CHARACTERS)
    }

    /// Reads a refresh token.
    pub(super) fn refresh(text: &'t Secret) -> Option<Self> {
        Self::read(text.expose(), REFRESH, SECRET_CHARACTERS * 2)
    }

    fn read(text: &'t str, prefix: &str, length: usize) -> Option<Self> {
        let (id, rest) = text.strip_prefix(prefix)?.split_once('.')?;
        if rest.len() != length || !rest.is_ascii() {
            return None;
        }
        let (secret, mark) = rest.split_at(SECRET_CHARACTERS);
        Some(Self { id: CredentialId::parse(id).ok()?, text, secret, mark })
    }

    pub(super) fn hash(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }
}

/// A new code of the grant `id`.
pub(super) fn code_text(id: &CredentialId, secret: &Secret) -> Secret {
    Secret::new(format!("{CODE}{id}.{}", secret.expose()))
}

// === impl StoredGrant ===

impl StoredGrant {
    /// The refresh token of the grant `id` with `secret`.
    pub(super) fn refresh_text(&self, id: &CredentialId, secret: &str) -> Secret {
        Secret::new(format!("{REFRESH}{id}.{secret}{}", self.mark(secret)))
    }

    /// The mark by which a refresh token of this grant is recognized after its hash is forgotten.
    fn mark(&self, secret: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.family.as_bytes());
        URL_SAFE_NO_PAD.encode(hmac::sign(&key, secret.as_bytes()))
    }

    /// What `presented` is at `now`.
    pub(super) fn state_of(&self, presented: &Presented<'_>, now: Timestamp) -> RefreshState {
        let hash = presented.hash();
        if self.request.is_some() {
            return RefreshState::Unknown;
        }
        if hash == self.current {
            return RefreshState::Current;
        }
        if let Some(previous) =
            self.previous.as_ref().filter(|it| it.hash == hash && now < it.until)
        {
            return RefreshState::Again(successor(&previous.salt, presented));
        }
        // Comparing hashes leaks no timing about the mark.
        match Digest::of(self.mark(presented.secret).as_bytes())
            == Digest::of(presented.mark.as_bytes())
        {
            true => RefreshState::Reused,
            false => RefreshState::Unknown,
        }
    }

    /// Whether `presented` is a code that was exchanged already.
    pub(super) fn is_spent(&self, presented: &Presented<'_>) -> bool {
        self.request.is_none()
            && self.previous.as_ref().is_some_and(|previous| previous.hash == presented.hash())
    }

    /// The grant after its code was exchanged for the refresh token with `secret`.
    pub(super) fn exchanged(&self, id: &CredentialId, secret: &str, now: Timestamp) -> Self {
        let current = Digest::of(self.refresh_text(id, secret).expose().as_bytes());
        let previous = ReplacedToken { hash: self.current, salt: String::new(), until: now };
        Self { current, request: None, previous: Some(previous), ..self.clone() }
    }

    /// The grant after `presented` was replaced, and the secret of the new refresh token.
    pub(super) fn rotated(
        &self,
        presented: &Presented<'_>,
        salt: &Secret,
        now: Timestamp,
    ) -> (Self, String) {
        let salt = salt.expose().to_owned();
        let secret = successor(&salt, presented);
        let current = Digest::of(self.refresh_text(&presented.id, &secret).expose().as_bytes());
        let previous = ReplacedToken { hash: presented.hash(), salt, until: after(now, GRACE) };
        let next = Self { current, previous: Some(previous), busy_until: None, ..self.clone() };
        (next, secret)
    }

    /// Notes an access token; `false` if too many are valid at `now`.
    pub(super) fn note_access(&mut self, key: KeyId, until: Timestamp, now: Timestamp) -> bool {
        self.access.retain(|(_, end)| *end > now);
        let fits = self.access.len() < MAX_ACCESS;
        if fits {
            self.access.push((key, until));
        }
        fits
    }
}

/// The secret that follows `presented`. It cannot be derived from the stored form alone.
fn successor(salt: &str, presented: &Presented<'_>) -> String {
    let hash = Sha256::new()
        .chain_update("toolcrib successor\n")
        .chain_update(salt)
        .chain_update("\n")
        .chain_update(presented.text);
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use toolcrib_core::principal::PresentedToken;

    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn moment(seconds: i64) -> Timestamp {
        chrono::DateTime::from_timestamp_secs(seconds).unwrap()
    }

    fn grant() -> StoredGrant {
        StoredGrant {
            client: "c".to_owned(),
            name: "C".to_owned(),
            by: ClientWay::Consent,
            path: "/mcp".to_owned(),
            token: Token {
                issuer: "https://id.example".to_owned(),
                expires_at: moment(0),
                roles: Vec::new(),
                scopes: Vec::new(),
                proof: [0; 32],
                client: None,
                actors: Vec::new(),
                presented: PresentedToken::default(),
            },
            current: Digest::of(b"code"),
            request: None,
            previous: None,
            family: "family".to_owned(),
            provider: None,
            busy_until: None,
            access: Vec::new(),
        }
    }

    #[test]
    fn a_replaced_token_gets_one_successor_for_a_minute() {
        let id: CredentialId = "g".parse().unwrap();
        let first = "a".repeat(SECRET_CHARACTERS);
        let granted = grant().exchanged(&id, &first, moment(0));
        let text = granted.refresh_text(&id, &first);
        let one = Presented::refresh(&text).unwrap();
        assert_eq!(granted.state_of(&one, moment(1)), RefreshState::Current);
        let (second, next) = granted.rotated(&one, &secret("salt"), moment(10));
        for now in [10, 69] {
            assert_eq!(second.state_of(&one, moment(now)), RefreshState::Again(next.clone()));
        }
        assert_eq!(second.state_of(&one, moment(70)), RefreshState::Reused);
        let text = second.refresh_text(&id, &next);
        let two = Presented::refresh(&text).unwrap();
        assert_eq!(second.state_of(&two, moment(70)), RefreshState::Current);
        let (third, _) = second.rotated(&two, &secret("pepper"), moment(20));
        assert_eq!(third.state_of(&one, moment(21)), RefreshState::Reused, "at once: it is older");
        let forged = secret(&format!("tcr_g.{first}{}", "b".repeat(SECRET_CHARACTERS)));
        let forged = Presented::refresh(&forged).unwrap();
        assert_eq!(third.state_of(&forged, moment(21)), RefreshState::Unknown);
        let other = StoredGrant { family: "other".to_owned(), ..third };
        assert_eq!(other.state_of(&one, moment(21)), RefreshState::Unknown);
    }

    #[test]
    fn a_code_is_spent_once_it_is_exchanged() {
        let id: CredentialId = "g".parse().unwrap();
        let text = code_text(&id, &secret(&"x".repeat(SECRET_CHARACTERS)));
        let code = Presented::code(&text).unwrap();
        let before = StoredGrant { current: code.hash(), ..grant() };
        assert!(!before.is_spent(&code));
        assert!(before.exchanged(&id, "y", moment(0)).is_spent(&code));
        assert!(Presented::refresh(&text).is_none(), "it is no refresh token");
        for wrong in ["", "tcd_", "tcd_g", "tcd_g.", "tcd_g.short", "tcr_g.é"] {
            let wrong = secret(wrong);
            assert!(Presented::code(&wrong).is_none() && Presented::refresh(&wrong).is_none());
        }
    }

    #[test]
    fn valid_access_tokens_are_bounded() {
        let mut grant = grant();
        for _ in 0..MAX_ACCESS {
            assert!(grant.note_access("k".parse().unwrap(), moment(10), moment(0)));
        }
        assert!(!grant.note_access("k".parse().unwrap(), moment(10), moment(9)));
        assert!(grant.note_access("k".parse().unwrap(), moment(20), moment(10)));
        assert_eq!(grant.access.len(), 1);
    }
}
