//! OAuth 2 and OpenID Connect: the client side, shared by sign-ins of people and by the credentials
//! of upstreams, and the server side for MCP clients ([`server`]).
//!
//! * [`challenge`] reads the header `WWW-Authenticate` of a protected resource, and [`resource`]
//!   finds and reads its metadata.
//! * [`metadata`] finds and reads the description of an authorization server.
//! * [`registration`] chooses how this client gets an id there, and describes it.
//! * [`authorization`] makes the address of an authorization request and checks its response, and
//!   [`pkce`] makes its challenge.
//! * [`token`] makes the requests of a token endpoint and reads its answers.
//! * [`scopes`] reads and unites lists of scopes.
//!
//! This crate opens no connection: callers send its requests through the guard of the outgoing
//! requests (`toolcrib-sources`), which also limits the size of answers.
//!
//! Invariant: secrets have types that cannot be printed, and no error of this crate contains one.
#![warn(missing_docs)]

pub mod authorization;
pub mod challenge;
pub mod metadata;
pub mod pkce;
pub mod registration;
pub mod resource;
pub mod scopes;
pub mod server;
pub mod token;
