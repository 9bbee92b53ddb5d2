//! The embedded tool explorer: a page, and the JSON endpoints behind it (features F1 to F7).
//!
//! The host decides whether tools run, and which callers may use which endpoints. Each check
//! derives its requirement from that decision, and is skipped without one.

mod auth;
mod call;
mod common;
mod detail;
mod errors;
mod list;
mod order;
mod page;
mod tools;
mod validate;

use crate::{Protocol, Suite};

pub(crate) const SUITE: Suite = Suite {
    protocol: Protocol::Explorer,
    path: "/explorer",
    is_served: |target| Box::pin(target.serves(target.get("/tools").with_key())),
    checks: &[
        page::CHECKS,
        list::CHECKS,
        detail::CHECKS,
        call::CHECKS,
        validate::CHECKS,
        auth::CHECKS,
        order::CHECKS,
        errors::CHECKS,
    ],
};
