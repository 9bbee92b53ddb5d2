//! Accounts that people connect at the services of sources: finds the authorization server of a
//! service, gets a client id there, and exchanges the code that a browser brings back.
//!
//! [`Connector`] does this for the gateway. The grants that come of it are used by
//! `credential::grant`; both share a [`Hub`].
//!
//! Invariant: everything that a server says is untrusted: its addresses are contacted through the
//! guard only, without redirects, and its texts are in no error.

mod connector;
mod discovery;
mod hub;
mod reach;
mod revoke;

pub(crate) use self::{
    connector::Connector,
    hub::{Hub, token_end},
    revoke::revoke,
};
