//! Open Tool Calling 1.0.

use crate::{
    Check, Protocol, Suite, checks,
    open_tool_calling::{auth, call, errors, list, shared_checks},
};

pub(crate) const SUITE: Suite = Suite {
    protocol: Protocol::Otc,
    path: "",
    is_served: |target| Box::pin(target.serves(target.get("/tools").with_key())),
    checks: &[shared_checks!("otc", Must), OWN],
};

const OWN: &[Check] = checks! {
    "otc.list.parameters", Must, "ToolDefinition", list::wrapped_parameters:
        "`input_schema` has the schema of the input in `parameters`";
};
