//! Clients that authorization servers have registered for this gateway, with their secrets sealed.

use chrono::SubsecRound;
use toolcrib_core::{
    credential::{CredentialStoreError, RegisteredClient, Secret},
    store::StoreError,
};

use super::{Columns, Database, FromRow, Reader, Statement, grant_columns::encode, values};
use crate::{seal::SealKeys, seal_places};

const COLUMNS: &str = "id, issuer, redirect_uri, client_id, client_auth, created_at, expires_at, \
                       sealed";

/// A row: the client without its secret, and the sealed secret.
struct StoredClient {
    client: RegisteredClient,
    sealed: Vec<u8>,
}

/// Reseals the secrets of older keys.
pub(super) async fn reseal(database: &impl Database) -> Result<usize, CredentialStoreError> {
    let keys = &database.options().seal_keys;
    let all =
        Statement::new(format!("SELECT {COLUMNS} FROM oauth_clients ORDER BY id"), Vec::new());
    let mut resealed = 0;
    for old in database.rows::<StoredClient>(all).await? {
        if keys.is_current(&old.sealed) {
            continue;
        }
        let before = old.sealed.clone();
        let StoredClient { client, sealed } = seal(keys, open(keys, old)?)?;
        // A client registered again meanwhile is sealed already.
        let sql = "UPDATE oauth_clients SET sealed = ?3 WHERE id = ?1 AND sealed = ?2";
        let params = values![client.id.as_str(), before, sealed];
        resealed += database.run(Statement::new(sql, params)).await?;
    }
    Ok(resealed)
}

/// Stores a client in place of an earlier one.
pub(super) async fn put(
    database: &impl Database,
    client: RegisteredClient,
) -> Result<(), CredentialStoreError> {
    let replaced = remove_at(&client.issuer, &client.redirect_uri);
    let lock = format!("toolcrib client {} {}", client.issuer, client.redirect_uri);
    let insert = insert(&seal(&database.options().seal_keys, client)?)?;
    database.run_locked(lock, vec![replaced, insert]).await?;
    Ok(())
}

/// The client for an issuer and an address.
pub(super) async fn get(
    database: &impl Database,
    issuer: &str,
    redirect_uri: &str,
) -> Result<Option<RegisteredClient>, CredentialStoreError> {
    let sql =
        format!("SELECT {COLUMNS} FROM oauth_clients WHERE issuer = ?1 AND redirect_uri = ?2");
    let found = database.rows(Statement::new(sql, values![issuer, redirect_uri])).await?.pop();
    found.map(|stored| open(&database.options().seal_keys, stored)).transpose()
}

/// Removes the client for an issuer and an address; returns `false` if there is none.
pub(super) async fn remove(
    database: &impl Database,
    issuer: &str,
    redirect_uri: &str,
) -> Result<bool, CredentialStoreError> {
    Ok(database.run(remove_at(issuer, redirect_uri)).await? > 0)
}

fn remove_at(issuer: &str, redirect_uri: &str) -> Statement {
    let sql = "DELETE FROM oauth_clients WHERE issuer = ?1 AND redirect_uri = ?2";
    Statement::new(sql, values![issuer, redirect_uri])
}

fn insert(stored: &StoredClient) -> Result<Statement, StoreError> {
    let StoredClient { client, sealed } = stored;
    let params = values![
        client.id.as_str(),
        client.issuer.as_str(),
        client.redirect_uri.as_str(),
        client.client_id.as_str(),
        encode(&client.client_auth)?,
        client.created_at,
        client.expires_at,
        sealed.clone(),
    ];
    Ok(Statement::insert("oauth_clients", COLUMNS, params).or_conflict("a client with this id"))
}

/// A client as it is stored: with times in milliseconds, and its secret sealed.
fn seal(keys: &SealKeys, client: RegisteredClient) -> Result<StoredClient, CredentialStoreError> {
    let client = RegisteredClient {
        created_at: client.created_at.trunc_subsecs(3),
        expires_at: client.expires_at.map(|at| at.trunc_subsecs(3)),
        ..client
    };
    let place = seal_places::client(&client, &encode(&client.client_auth)?);
    let sealed = keys.seal_secrets(&place, &[client.secret.as_ref()])?;
    Ok(StoredClient { client, sealed })
}

/// Opens the secret of a client.
fn open(keys: &SealKeys, stored: StoredClient) -> Result<RegisteredClient, CredentialStoreError> {
    let StoredClient { client, sealed } = stored;
    let place = seal_places::client(&client, &encode(&client.client_auth)?);
    let [secret]: [Option<Secret>; 1] = keys.open_secrets(&client.id, &place, &sealed)?;
    Ok(RegisteredClient { secret, ..client })
}

impl FromRow for StoredClient {
    fn from_row<R: Columns>(row: &R) -> Result<Self, R::Failure> {
        let row = Reader::with_id(row, "the client");
        let client = RegisteredClient {
            id: row.id(0)?,
            issuer: row.text(1)?,
            redirect_uri: row.text(2)?,
            client_id: row.text(3)?,
            client_auth: row.json(4)?,
            secret: None,
            created_at: row.time(5)?,
            expires_at: row.maybe_time(6)?,
        };
        Ok(Self { client, sealed: row.bytes(7)? })
    }
}
