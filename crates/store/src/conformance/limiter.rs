//! Checks of a rate limiter. They take seconds of real time, because shared limiters use the clock
//! of their server.

use std::{sync::Arc, time::Duration};

use toolcrib_core::{
    id::{PrincipalId, TenantId, ToolId},
    limit::{BucketKey, LimitError, Rate, RateLimiter},
};

/// Names of one bucket.
struct Names(TenantId, PrincipalId, ToolId);

fn names(tenant: &str, principal: &str, tool: &str) -> Names {
    Names(
        TenantId::parse(tenant).unwrap(),
        PrincipalId::parse(principal).unwrap(),
        ToolId::parse(tool).unwrap(),
    )
}

async fn take(limiter: &dyn RateLimiter, names: &Names, rate: &str) -> Result<(), LimitError> {
    let key = BucketKey::calls(&names.0, &names.1, &names.2);
    limiter.take(&key, Rate::parse(rate).unwrap()).await
}

/// The wait in a refusal.
#[expect(clippy::panic, reason = "an outage is no refusal")]
fn wait(taken: Result<(), LimitError>) -> Duration {
    match taken {
        Err(LimitError::Exceeded { retry_after }) => retry_after,
        other => panic!("not refused: {other:?}"),
    }
}

/// A bucket lets its calls through at once, refuses the next, and refills.
pub async fn a_bucket_empties_and_refills(limiter: &dyn RateLimiter) {
    let names = names("t", "p", "x:one");
    for call in 0..2 {
        let taken = take(limiter, &names, "2/s").await;
        assert!(taken.is_ok(), "call {call}: {taken:?}");
    }
    let pause = wait(take(limiter, &names, "2/s").await);
    assert!(pause > Duration::ZERO && pause <= Duration::from_millis(500), "{pause:?}");
    tokio::time::sleep(pause).await;
    take(limiter, &names, "2/s").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for _ in 0..2 {
        take(limiter, &names, "2/s").await.unwrap();
    }
    wait(take(limiter, &names, "2/s").await);
}

/// Another tenant, principal or tool has a separate bucket, and refused calls take no tokens.
pub async fn buckets_are_separate(limiter: &dyn RateLimiter) {
    let own = names("t", "p", "x:two");
    take(limiter, &own, "1/h").await.unwrap();
    for _ in 0..5 {
        let pause = wait(take(limiter, &own, "1/h").await);
        assert!(pause > Duration::from_secs(3_500) && pause <= Duration::from_secs(3_600));
    }
    for other in [names("u", "p", "x:two"), names("t", "q", "x:two"), names("t", "p", "x:three")] {
        take(limiter, &other, "1/h").await.unwrap();
    }
}

/// A reset fills the buckets of one tenant.
pub async fn a_reset_fills_the_buckets_of_a_tenant(limiter: &dyn RateLimiter) {
    let (one, two) = (names("reset", "p", "x:one"), names("kept", "p", "x:one"));
    for names in [&one, &two] {
        take(limiter, names, "1/h").await.unwrap();
    }
    limiter.reset(&one.0).await.unwrap();
    take(limiter, &one, "1/h").await.unwrap();
    wait(take(limiter, &two, "1/h").await);
}

/// Calls that come at once, through several handles, together get exactly the content of a bucket.
pub async fn callers_at_once_get_no_more(limiters: Vec<Arc<dyn RateLimiter>>) {
    let mut tasks = tokio::task::JoinSet::new();
    for limiter in limiters {
        for _ in 0..16 {
            let limiter = Arc::clone(&limiter);
            tasks.spawn(async move {
                let names = names("t", "p", "x:many");
                let mut taken = 0;
                for _ in 0..20 {
                    match take(&*limiter, &names, "100/d").await {
                        Ok(()) => taken += 1,
                        Err(error) => drop(wait(Err(error))),
                    }
                }
                taken
            });
        }
    }
    let taken: u32 = tasks.join_all().await.into_iter().sum();
    // One of a hundred calls of a day comes back every 14 minutes.
    assert_eq!(taken, 100);
}

/// Expands to a module of tests of `$limiter`, an expression of a limiter:
/// `(Arc<dyn RateLimiter>, second handle to it, guard)`.
#[macro_export]
macro_rules! limiter_suite {
    ($module:ident, $limiter:expr) => {
        mod $module {
            use super::*;
            use $crate::conformance::limiter;

            #[tokio::test]
            async fn a_bucket_empties_and_refills() {
                let (one, _two, _guard) = $limiter;
                limiter::a_bucket_empties_and_refills(&*one).await;
            }

            #[tokio::test]
            async fn buckets_are_separate() {
                let (one, _two, _guard) = $limiter;
                limiter::buckets_are_separate(&*one).await;
            }

            #[tokio::test]
            async fn a_reset_fills_the_buckets_of_a_tenant() {
                let (one, _two, _guard) = $limiter;
                limiter::a_reset_fills_the_buckets_of_a_tenant(&*one).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn callers_at_once_get_no_more() {
                let (one, two, _guard) = $limiter;
                limiter::callers_at_once_get_no_more(vec![one, two]).await;
            }
        }
    };
}
