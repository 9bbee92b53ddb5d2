//! OpenWOP v2: the catalog of RFC 0204, runs and their events at paths without a version, with the
//! discovery, the choice of the version and the errors that they rely on.
//!
//! Requests of these checks name version 2 (`OpenWOP-Version: 2.0`), except where a check says
//! otherwise. Requirements that version 1 has as well are checked by the functions of its suite.

mod auth;
mod catalog;
mod common;
mod cors;
mod discovery;
mod errors;
mod runs;
mod versions;

use crate::{Protocol, Suite};

pub(crate) const SUITE: Suite = Suite {
    protocol: Protocol::Openwop2,
    path: "",
    is_served: |target| Box::pin(versions::is_listed(target)),
    checks: &[
        versions::CHECKS,
        discovery::CHECKS,
        auth::CHECKS,
        errors::CHECKS,
        catalog::CHECKS,
        catalog::COMPACT,
        catalog::DISCLOSURE,
        runs::CHECKS,
        cors::CHECKS,
    ],
};
