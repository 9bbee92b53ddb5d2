//! MCP servers to test against: a faulty one, over stdio ([`faulty_program`]) and over HTTP
//! ([`FaultyHttp`]), and a good one made with the official SDK ([`good`]).
//!
//! The faulty one is written by hand, message by message, so that it can violate the protocol in
//! ways that SDKs prevent. [`script`] defines its behaviour once, for both transports.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a fixture that cannot do its work must fail loudly"
)]

mod conformance;
mod echoing;
pub mod good;
mod http;
mod oauth;
mod program;
pub mod script;
pub mod stdio;

pub use echoing::{EchoServer, EchoedRequest};
pub use http::{Answers, CallAnswer, FaultyHttp, ReceivedRequest};
pub use oauth::{Dialect, OAuthBehaviour, OAuthRequest, OAuthServer, Wording};
pub use program::faulty_program;
