//! The client side of OAuth 2 and OpenID Connect, shared by sign-ins of people and by the
//! credentials of upstreams.
//!
//! * [`metadata`] finds and reads the description of an authorization server.
//! * [`authorization`] makes the address of an authorization request, and [`pkce`] its challenge.
//! * [`token`] makes the requests of a token endpoint and reads its answers.
//!
//! This crate opens no connection: callers send its requests through the guard of the outgoing
//! requests (`toolcrib-sources`), which also limits the size of answers.
//!
//! Invariant: secrets have types that cannot be printed, and no error of this crate contains one.
#![warn(missing_docs)]

pub mod authorization;
pub mod metadata;
pub mod pkce;
pub mod token;
