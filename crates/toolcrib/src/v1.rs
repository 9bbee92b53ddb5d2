//! The conventions of all routes under `/v1`: errors, the values of parameters, and the request.

pub(crate) mod error;
pub(crate) mod list;
pub(crate) mod request;
pub(crate) mod schemas;
pub(crate) mod values;
