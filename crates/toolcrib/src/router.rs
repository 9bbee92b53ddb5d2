//! Every mount on one router.

use axum::Router;
use toolcrib_gateway::{Gateway, config::Config};

use crate::state::AppState;

/// All surfaces of `gateway`, set up as `config` says.
pub fn router(gateway: Gateway, config: &Config) -> Router {
    let state = AppState::new(gateway, config);
    Router::new().with_state(state)
}
