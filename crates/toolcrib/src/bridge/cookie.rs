//! The cookies that bind a sign-in of a client to a browser: one for each request, so that several
//! tabs can finish.
//!
//! Invariant: a browser keeps at most [`MAX_REQUESTS`] of them, for an hour at most.

use http::HeaderMap;
use toolcrib_core::{canonical::Digest, credential::Secret};

use crate::{
    middleware::{NewCookie, cookies_below},
    state::AppState,
};

/// The characters of a value.
const CHARACTERS: usize = 43;
/// The characters of the id in a name.
const ID: usize = 16;
/// How long the browser keeps a cookie: as long as a person may be away, and some time to decide.
const SECONDS: u64 = 60 * 60;
/// The requests of one browser that can be finished. The oldest ones make room.
const MAX_REQUESTS: usize = 8;

/// The values that can be this server's, the oldest first. Other ports of the host can add some.
pub(super) fn sent(state: &AppState, headers: &HeaderMap) -> Vec<Secret> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let all = cookies_below(prefix(state), headers).into_iter();
    let own = all.filter(|(name, value)| {
        value.len() == CHARACTERS
            && value.bytes().all(plain)
            && *name == name_of(state, &Secret::new((*value).to_owned()))
    });
    own.map(|(_, value)| Secret::new(value.to_owned())).collect()
}

/// Sets a new cookie, and removes the oldest of the `earlier` ones if there are too many.
pub(super) fn set(state: &AppState, to: &mut HeaderMap, cookie: &Secret, earlier: &[Secret]) {
    append(state, to, cookie, cookie.expose(), SECONDS);
    let kept = MAX_REQUESTS.saturating_sub(1);
    let surplus = earlier.len().saturating_sub(kept);
    earlier.iter().take(surplus).for_each(|old| remove(state, to, old));
}

/// Removes the cookie of a request that has ended.
pub(super) fn remove(state: &AppState, to: &mut HeaderMap, cookie: &Secret) {
    append(state, to, cookie, "", 0);
}

fn append(state: &AppState, to: &mut HeaderMap, named: &Secret, value: &str, seconds: u64) {
    let cookie = NewCookie {
        name: &name_of(state, named),
        value,
        path: "/",
        seconds,
        same_site: "Lax",
        is_secure: is_encrypted(state),
    };
    cookie.append(to);
}

/// The name of a cookie. Its id does not disclose the value.
fn name_of(state: &AppState, cookie: &Secret) -> String {
    let id = Digest::of(format!("toolcrib cookie\n{}", cookie.expose()).as_bytes()).to_string();
    let id: String = id.chars().take(ID).collect();
    format!("{}{id}", prefix(state))
}

/// Browsers keep `__Host-` cookies of encrypted connections only.
fn prefix(state: &AppState) -> &'static str {
    match is_encrypted(state) {
        true => "__Host-toolcrib-consent-",
        false => "toolcrib-consent-",
    }
}

fn is_encrypted(state: &AppState) -> bool {
    let config = state.gateway.config();
    config.bridge.as_ref().is_none_or(|bridge| bridge.own_issuer.starts_with("https://"))
}
