//! Logging of panics.
//!
//! Invariant: a panic text formatted at run time is withheld, because it may quote an argument or a
//! result of a call.

use std::{
    panic::{PanicHookInfo, set_hook},
    sync::atomic::{AtomicU64, Ordering},
};

static PANICS: AtomicU64 = AtomicU64::new(0);

/// The number of panics in this process since [`install`].
pub fn count() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Installs a panic hook that counts and logs every panic, in place of printing it.
pub fn install() {
    set_hook(Box::new(|panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic: {}", text(panic));
    }));
}

fn text(panic: &PanicHookInfo<'_>) -> &'static str {
    // Only a literal has a static text; formatted text is a `String`.
    panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("(its text is withheld)")
}
