//! Checks of explorer.

use super::{Protocol, Suite};

pub(super) const SUITE: Suite = Suite {
    protocol: Protocol::Explorer,
    path: "/explorer",
    served: |_| Box::pin(async { false }),
    checks: &[],
};
