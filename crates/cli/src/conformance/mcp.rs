//! Checks of mcp.

use super::{Protocol, Suite};

pub(super) const SUITE: Suite = Suite {
    protocol: Protocol::Mcp,
    path: "/mcp",
    served: |_| Box::pin(async { false }),
    checks: &[],
};
