//! Authentication. The requirements are those of version 1.

use crate::{Check, checks, openwop::auth as v1};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop2.auth.required", Must, "RFC 0204, auth", v1::required:
        "without a key, the catalog and each of its tools return 401 with the code `unauthenticated`";
    "openwop2.auth.unknown-key", Must, "auth", v1::unknown_key:
        "an unknown key returns 401, never 403";
    "openwop2.auth.malformed", Must, "auth", v1::malformed:
        "malformed credentials return 401: another scheme, no token, no scheme";
    "openwop2.auth.challenge", Should, "v2-auth-challenge, RFC 9110 §11.6.1", v1::challenge:
        "a 401 has the header `WWW-Authenticate: Bearer`";
    "openwop2.auth.scheme-case", Should, "RFC 9110 §11.1", v1::scheme_case:
        "the name of the authentication scheme is case-insensitive";
};
