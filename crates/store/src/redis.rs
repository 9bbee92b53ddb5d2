//! Buckets of rate limits in Valkey or Redis, by the clock of its server.
//!
//! One script decides about each call, so that two servers cannot both take the last one.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use redis::{
    Client, ErrorKind, IntoConnectionInfo as _, RedisError, Script,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use toolcrib_core::{
    canonical::Digest,
    credential::Secret,
    hex,
    id::TenantId,
    limit::{BucketKey, LimitError, Rate, RateLimiter},
    store::StoreError,
};

/// How long an answer, or a connection, may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// The longest pause between attempts to connect.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Keys that one step of [`RateLimiter::reset`] looks at.
const PAGE: u32 = 1_000;

/// Takes one call: `KEYS[1]` has the theoretical arrival time (GCRA) in microseconds, `ARGV` the
/// microseconds of one call and of the whole bucket. Returns 0, or the microseconds to wait. A key
/// expires when its bucket is full again.
const TAKE: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local arrival = tonumber(redis.call('GET', KEYS[1]) or '0')
local next = math.max(arrival, now) + ARGV[1]
local latest = now + ARGV[2]
if next > latest then return next - latest end
local left = math.ceil((next - now) / 1000)
redis.call('SET', KEYS[1], string.format('%.0f', next), 'PX', string.format('%.0f', left))
return 0
";

/// Rate limits that several servers share through one Valkey or Redis.
pub struct RedisLimiter {
    client: Client,
    config: ConnectionManagerConfig,
    /// Replaced after a refused login, because a manager does not log in again by itself.
    connection: Mutex<ConnectionManager>,
    take: Script,
}

// === impl RedisLimiter ===

impl RedisLimiter {
    /// Uses the server at `url` (`redis://HOST:PORT`, with TLS `rediss://HOST:PORT`). Connects
    /// later, and again after an outage. Requires a Tokio runtime.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] for an invalid URL.
    pub fn new(url: &str, password: Option<&Secret>) -> Result<Self, StoreError> {
        // The text of an error may repeat a password.
        let invalid = |_: RedisError| {
            StoreError::Unavailable(
                "the URL of the shared limits is invalid; it is written like `redis://host:6379`"
                    .to_owned(),
            )
        };
        let mut place = url.into_connection_info().map_err(invalid)?;
        if let Some(password) = password {
            let settings = place.redis_settings().clone().set_password(password.expose());
            place = place.set_redis_settings(settings);
        }
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(PATIENCE))
            .set_connection_timeout(Some(PATIENCE))
            .set_max_delay(MAX_PAUSE)
            .set_number_of_retries(1);
        let client = Client::open(place).map_err(invalid)?;
        let connection = ConnectionManager::new_lazy_with_config(client.clone(), config.clone())
            .map_err(invalid)?;
        let connection = Mutex::new(connection);
        Ok(Self { client, config, connection, take: Script::new(TAKE) })
    }

    fn connection(&self) -> ConnectionManager {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Converts the error for the caller, and logs in again next time if the login was refused.
    fn failed(&self, error: &RedisError) -> StoreError {
        if error.kind() == ErrorKind::AuthenticationFailed
            && let Ok(fresh) =
                ConnectionManager::new_lazy_with_config(self.client.clone(), self.config.clone())
        {
            *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
        unavailable(error)
    }
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    async fn take(&self, key: &BucketKey, rate: Rate) -> Result<(), LimitError> {
        let mut connection = self.connection();
        let mut take = self.take.key(name(key));
        take.arg(micros(rate.interval())).arg(micros(rate.refill()));
        let wait: u64 =
            take.invoke_async(&mut connection).await.map_err(|error| self.failed(&error))?;
        match wait {
            0 => Ok(()),
            wait => Err(LimitError::Exceeded { retry_after: Duration::from_micros(wait) }),
        }
    }

    async fn reset(&self, tenant: &TenantId) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let pattern = format!("{}*", prefix(tenant.as_str()));
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(PAGE);
            let (next, keys): (u64, Vec<String>) =
                scan.query_async(&mut connection).await.map_err(|error| self.failed(&error))?;
            for key in keys {
                let delete = redis::cmd("DEL").arg(key).query_async(&mut connection).await;
                let () = delete.map_err(|error| unavailable(&error))?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}

impl std::fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisLimiter").finish_non_exhaustive()
    }
}

/// The key of a bucket. Its name is hashed, because it names callers, in any characters.
fn name(key: &BucketKey) -> String {
    prefix(key.tenant()) + &short(key.name())
}

fn prefix(tenant: &str) -> String {
    format!("toolcrib:rate:{}:", short(tenant))
}

/// Half of a SHA-256 in hex: long enough that two names do not collide by chance or by search.
fn short(text: &str) -> String {
    let Digest(bytes) = Digest::of(text.as_bytes());
    hex::encode(bytes.split_at(16).0)
}

/// Nanoseconds in microseconds, rounded up, so that a rate is never exceeded.
fn micros(nanos: u64) -> u64 {
    nanos.div_ceil(1_000)
}

fn unavailable(error: &RedisError) -> StoreError {
    StoreError::Unavailable(format!("the shared limits do not answer ({})", error.category()))
}
