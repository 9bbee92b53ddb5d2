//! What is said of a panic, wherever it happens.
//!
//! Invariant: the text of a panic that was put together at run time is not shown: it may quote an
//! argument or a result that the code was working on.

use std::{
    panic::{PanicHookInfo, set_hook},
    sync::atomic::{AtomicU64, Ordering},
};

static PANICS: AtomicU64 = AtomicU64::new(0);

/// How many panics there were in this process since [`install`].
pub fn count() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Counts and logs every panic of this process from now on, instead of printing it.
pub fn install() {
    set_hook(Box::new(|panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic: {}", text(panic));
    }));
}

fn text(panic: &PanicHookInfo<'_>) -> &'static str {
    // Only a literal has a static text; anything formatted is a `String`.
    panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("(its text is withheld)")
}
