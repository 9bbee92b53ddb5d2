//! Open Tool Calling 1.0.

use super::{
    Check, Protocol, Suite,
    calling::{access, call, calling_checks, errors, list},
    check,
};

pub(super) const SUITE: Suite = Suite {
    protocol: Protocol::Otc,
    path: "",
    served: |site| Box::pin(site.answers(site.get("/tools").by_first())),
    checks: &[calling_checks!("otc", Must), OWN],
};

const OWN: &[Check] = &[check!(
    "otc.list.parameters",
    Must,
    "ToolDefinition",
    "`input_schema` holds the schema of the input under `parameters`",
    list::wrapped_parameters
)];
