//! The suite of rate limiters on PostgreSQL and on Valkey or Redis.
#![cfg(test)]
#![cfg(all(feature = "postgres", feature = "redis"))]

use std::sync::Arc;

use toolcrib_core::{
    credential::Secret,
    id::{PrincipalId, TenantId, ToolId},
    limit::{BucketKey, LimitError, Rate, RateLimiter},
    store::Storage,
};
use toolcrib_store::{Options, PostgresStore, RedisLimiter, limiter_suite, shared_limiter};
use toolcrib_testkit::{
    postgres,
    redis::{PASSWORD, RedisServer},
};

async fn on_database(url: &str) -> Arc<dyn RateLimiter> {
    PostgresStore::open(url, Options::default()).await.unwrap().limiter().unwrap()
}

fn on_redis(server: &RedisServer) -> Arc<dyn RateLimiter> {
    shared_limiter(&server.url(), Some(&Secret::new(PASSWORD.to_owned()))).unwrap()
}

limiter_suite!(on_postgres, {
    let Some(url) = postgres::database() else { return };
    (on_database(&url).await, on_database(&url).await, ())
});

limiter_suite!(in_redis, {
    let Some(server) = RedisServer::start() else { return };
    (on_redis(&server), on_redis(&server), server)
});

async fn take(limiter: &dyn RateLimiter) -> Result<(), LimitError> {
    let (tenant, principal) = (TenantId::parse("t").unwrap(), PrincipalId::parse("p").unwrap());
    let tool = ToolId::parse("x:tool").unwrap();
    let key = BucketKey::calls(&tenant, &principal, &tool);
    limiter.take(&key, Rate::parse("1000/s").unwrap()).await
}

#[tokio::test]
async fn a_server_that_is_gone_is_used_again_when_it_is_back() {
    let Some(mut server) = RedisServer::start() else { return };
    let limiter = on_redis(&server);
    take(&*limiter).await.unwrap();
    server.stop();
    for _ in 0..3 {
        let error = take(&*limiter).await.unwrap_err();
        assert!(matches!(error, LimitError::Unavailable(_)), "{error}");
    }
    server.start_again();
    for _ in 0..200 {
        if take(&*limiter).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("not used again");
}

/// While a password is changed in two places, one of them is behind.
#[tokio::test]
async fn a_refused_login_is_tried_again() {
    let Some(server) = RedisServer::start() else { return };
    let limiter = on_redis(&server);
    take(&*limiter).await.unwrap();
    server.command(PASSWORD, "CONFIG SET requirepass other");
    server.command("other", "CLIENT KILL TYPE normal SKIPME yes");
    take(&*limiter).await.unwrap_err();
    take(&*limiter).await.unwrap_err();
    server.command("other", &format!("CONFIG SET requirepass \"{PASSWORD}\""));
    for _ in 0..200 {
        if take(&*limiter).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("never used again");
}

#[tokio::test]
async fn a_wrong_password_and_a_wrong_url_are_errors_without_either() {
    let Some(server) = RedisServer::start() else { return };
    let limiter = RedisLimiter::new(&server.url(), Some(&Secret::new("wrong one".into()))).unwrap();
    let error = take(&limiter).await.unwrap_err().to_string();
    assert!(error.contains("do not answer") && !error.contains("wrong one"), "{error}");
    let error = RedisLimiter::new("redis://:secret@[nowhere", None).unwrap_err().to_string();
    assert!(error.contains("`redis://host:6379`") && !error.contains("secret"), "{error}");
}
