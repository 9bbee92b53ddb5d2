//! Connections: the pool, TLS, time-outs and migrations.

use std::{net::IpAddr, str::FromStr as _, sync::Arc, time::Duration};

use deadpool_postgres::{Client, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use toolcrib_core::store::StoreError;

use super::{
    failure::Failure,
    partitions::{self, MIGRATION_LOCK},
    row::{execute, one},
};
use crate::{Durability, Options};

/// Connections per process. A group commit needs one; the others read and change single rows.
const CONNECTIONS: usize = 12;

/// How long an operation waits for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Limits of the server on statements, locks and forgotten transactions, in milliseconds. Shorter
/// than the limit of an operation, so that the server reports the reason.
const LIMITS: &str = "-c statement_timeout=10000 -c lock_timeout=5000 \
                      -c idle_in_transaction_session_timeout=30000";

/// Not the default, which looks first in a schema with the name of the role: others may create it.
const SCHEMA: &str = "-c search_path=public,pg_temp";

/// Every query reads few rows by an index, but an estimate of many makes PostgreSQL compile some of
/// them first, for more than 100 ms.
const PLANNING: &str = "-c jit=off";

/// The oldest supported server.
const OLDEST: i32 = 140_000;

/// `MIGRATIONS[n]` leads from schema `n` to schema `n + 1`. A released file is never edited.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("schema/0001.sql")];

/// The settings of a connection.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
}

/// Reads `url`. A server on another machine has to offer TLS, unless the URL says otherwise.
pub(super) fn place(url: &str, options: &Options) -> Result<Place, StoreError> {
    // The text of the error may repeat a password.
    let mut config = Config::from_str(url).map_err(|_| {
        StoreError::Unavailable(
            "the URL of the store is invalid; it is written like `postgres://user@host/database`"
                .to_owned(),
        )
    })?;
    if !url.contains("sslmode=") && !config.get_hosts().iter().all(is_here) {
        config.ssl_mode(SslMode::Require);
    }
    if let Some(password) = &options.password {
        config.password(password.expose());
    }
    // Also for strict: the server may have another default.
    let commit = match options.durability {
        Durability::Strict | Durability::Opening => "on",
        Durability::Relaxed => "off",
    };
    let mut settings = format!("{LIMITS} {PLANNING} {SCHEMA} -c synchronous_commit={commit}");
    if let Some(own) = config.get_options() {
        settings = format!("{settings} {own}");
    }
    config
        .options(settings)
        .application_name("toolcrib")
        .connect_timeout(PATIENCE)
        .tcp_user_timeout(PATIENCE)
        .keepalives_idle(PATIENCE);
    Ok(Place { config, tls: tls()? })
}

/// Whether a host is this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
    }
}

/// Creates the pool for `place`. Connects later, on first use.
pub(super) fn pool(place: &Place) -> Result<Pool, StoreError> {
    let manager = Manager::from_config(
        place.config.clone(),
        place.tls.clone(),
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    Pool::builder(manager)
        .max_size(CONNECTIONS)
        .timeouts(Timeouts {
            wait: Some(PATIENCE),
            create: Some(PATIENCE),
            recycle: Some(PATIENCE),
        })
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::Unavailable(format!("no connections can be kept ({error})")))
}

/// TLS with the certificates that the operating system trusts. `sslmode` in the URL requires it.
fn tls() -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(|error| StoreError::Unavailable(format!("TLS cannot be set up ({error})")))?;
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

/// The longest migration, with the wait for that of another process: large tables take their time.
pub(super) const MIGRATION_LIMIT: Duration = Duration::from_secs(600);

/// Checks the version of the server and brings the schema up to date. Only one process migrates;
/// the others wait for it.
pub(super) async fn migrate(client: &mut Client) -> Result<(), Failure> {
    let row = one(client, "SELECT current_setting('server_version_num')::integer", &[]).await?;
    let version: i32 = row.try_get(0)?;
    if version < OLDEST {
        return Err(Failure::Store(StoreError::Unavailable(
            "the server is older than PostgreSQL 14; upgrade it".to_owned(),
        )));
    }
    let transaction = client.transaction().await?;
    transaction
        .batch_execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        .await?;
    let sql = "SELECT pg_try_advisory_xact_lock($1)";
    if !one(&transaction, sql, &[&MIGRATION_LOCK]).await?.try_get::<_, bool>(0)? {
        tracing::info!("waiting for another process that migrates the tables");
        execute(&transaction, "SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    }
    // Older servers still use the tables, and must not queue behind a lock that waits for one of
    // them.
    transaction.batch_execute("SET LOCAL lock_timeout TO DEFAULT").await?;
    transaction
        .batch_execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
        .await?;
    let sql = "SELECT coalesce(max(version), 0) FROM schema_version";
    let row = one(&transaction, sql, &[]).await?;
    let found: i32 = row.try_get(0)?;
    let found = u32::try_from(found).map_err(|_| Failure::corrupt("a negative schema version"))?;
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if found > known {
        return Err(Failure::Store(StoreError::TooNew { found, known }));
    }
    if found < known {
        for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(usize::MAX)) {
            transaction.batch_execute(migration).await?;
        }
        let known = i32::try_from(known).unwrap_or(i32::MAX);
        execute(&transaction, "INSERT INTO schema_version VALUES ($1)", &[&known]).await?;
    }
    transaction.commit().await?;
    partitions::ensure(client).await
}
