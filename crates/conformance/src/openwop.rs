//! OpenWOP: the tool catalog (RFC 0078, RFC 0112) and the tool hooks (RFC 0064), with the discovery,
//! authentication and errors that they rely on.

pub(crate) mod auth;
pub(crate) mod catalog;
pub(crate) mod common;
pub(crate) mod compact;
pub(crate) mod disclosure;
pub(crate) mod discovery;
pub(crate) mod errors;
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
