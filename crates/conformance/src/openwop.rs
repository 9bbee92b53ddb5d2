//! OpenWOP: the tool catalog (RFC 0078, RFC 0112) and the tool hooks (RFC 0064), with the discovery,
//! authentication and errors that they rely on.

mod auth;
mod catalog;
mod common;
mod compact;
mod disclosure;
mod discovery;
mod errors;
mod hooks;
mod sessions;

use crate::{Protocol, Suite};

pub(crate) const SUITE: Suite = Suite {
    protocol: Protocol::Openwop,
    path: "",
    is_served: |target| Box::pin(target.serves(target.get(common::DISCOVERY))),
    checks: &[
        discovery::CHECKS,
        auth::CHECKS,
        errors::CHECKS,
        catalog::CHECKS,
        compact::CHECKS,
        disclosure::CHECKS,
        hooks::CHECKS,
        sessions::CHECKS,
    ],
};
