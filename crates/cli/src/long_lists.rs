//! Lists with more than one page. Many MCP clients read only the first.

use std::num::NonZeroUsize;

use toolcrib_core::catalog::Listing;
use toolcrib_gateway::Gateway;

/// A warning if the list `of` something has more tools than one page.
pub(crate) fn warning(of: &str, tools: usize, page_size: NonZeroUsize) -> Option<String> {
    let first = page_size.get();
    (tools > first).then(|| {
        format!(
            "the MCP list of {of} has {tools} tools; clients that read no further pages see only \
             the first {first}: serve them a toolset (`[toolset.NAME]`), or raise `[mcp] page_size`"
        )
    })
}

/// A warning for each such list: of the whole catalog, and of the toolsets.
pub(crate) fn warnings(gateway: &Gateway) -> Vec<String> {
    let page_size = gateway.config().mcp.page_size;
    let snapshot = gateway.snapshot();
    let whole = warning("the whole catalog", snapshot.catalog.entries().len(), page_size);
    let toolsets = snapshot.catalog.toolsets();
    let listed = toolsets.filter(|toolset| toolset.listing == Listing::Tools);
    let parts = listed.filter_map(|toolset| {
        warning(&format!("toolset \"{}\"", toolset.name()), toolset.len(), page_size)
    });
    whole.into_iter().chain(parts).collect()
}
