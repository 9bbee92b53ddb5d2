//! Credentials. Values are sealed before they reach the database and opened after they left it.

use async_trait::async_trait;
use toolcrib_core::{
    clock::Timestamp,
    credential::{
        Credential, CredentialStore, CredentialStoreError, Material, Owner, UnsealedCredential,
    },
    id::{CredentialId, CredentialName},
    store::StoreError,
};

use super::{Columns, Database, FromRow, Reader, Statement, values};

const COLUMNS: &str = "id, tenant, principal, name, kind, audiences, created_at, rotated_at, \
                       expires_at, revision, sealed";

/// The credentials of a database.
pub(crate) struct Credentials<D>(pub(crate) D);

/// A row: all fields, with the values sealed.
struct SealedCredential {
    credential: Credential,
    sealed: Vec<u8>,
}

/// Reseals the secrets of older keys; see [`Storage::reseal`].
///
/// [`Storage::reseal`]: toolcrib_core::store::Storage::reseal
pub(crate) async fn reseal(database: &impl Database) -> Result<usize, CredentialStoreError> {
    let keys = &database.options().seal_keys;
    let mut resealed = 0;
    for SealedCredential { credential, sealed: old } in database.rows(all()).await? {
        if keys.is_current(&old) {
            continue;
        }
        let material = keys.open(&credential, &old)?;
        let new = keys.seal(&credential, &material)?;
        // A concurrent rotation has resealed it already.
        let sql = "UPDATE credentials SET sealed = ?3 WHERE id = ?1 AND sealed = ?2";
        let params = values![credential.id.as_str(), old, new];
        resealed += database.run(Statement::new(sql, params)).await?;
    }
    Ok(resealed)
}

#[async_trait]
impl<D: Database> CredentialStore for Credentials<D> {
    async fn list(&self) -> Result<Vec<Credential>, CredentialStoreError> {
        let rows: Vec<SealedCredential> = self.0.rows(all()).await?;
        Ok(rows.into_iter().map(|row| row.credential).collect())
    }

    async fn get(
        &self,
        owner: &Owner,
        name: &CredentialName,
    ) -> Result<Option<UnsealedCredential>, CredentialStoreError> {
        let row = self.0.rows(of_owner(owner, name)).await?.pop();
        let Some(SealedCredential { credential, sealed }) = row else { return Ok(None) };
        let material = self.0.options().seal_keys.open(&credential, &sealed)?;
        Ok(Some(UnsealedCredential { credential, material }))
    }

    async fn put(
        &self,
        credential: Credential,
        material: Material,
    ) -> Result<(), CredentialStoreError> {
        let sealed = self.0.options().seal_keys.seal(&credential, &material)?;
        self.0.run(insert(&credential, sealed)?).await?;
        Ok(())
    }

    async fn rotate(
        &self,
        id: &CredentialId,
        seen: u64,
        material: Material,
        expires_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<bool, CredentialStoreError> {
        let Some(row) = self.0.rows(find(id)).await?.pop() else { return Ok(false) };
        let SealedCredential { mut credential, sealed: before } = row;
        if credential.revision != seen {
            return Ok(false);
        }
        let keys = &self.0.options().seal_keys;
        // A row changed by other means must not get a new seal.
        keys.open(&credential, &before)?;
        credential.revision += 1;
        credential.expires_at = expires_at;
        let sealed = keys.seal(&credential, &material)?;
        let sql = "UPDATE credentials SET sealed = ?4, expires_at = ?5, rotated_at = ?6, \
                   revision = ?3 WHERE id = ?1 AND sealed = ?2";
        let params = values![id.as_str(), before, credential.revision, sealed, expires_at, at];
        Ok(self.0.run(Statement::new(sql, params)).await? > 0)
    }

    async fn remove(&self, id: &CredentialId) -> Result<bool, CredentialStoreError> {
        let sql = "DELETE FROM credentials WHERE id = ?1";
        Ok(self.0.run(Statement::new(sql, values![id.as_str()])).await? > 0)
    }
}

fn all() -> Statement {
    let sql = format!("SELECT {COLUMNS} FROM credentials ORDER BY tenant, principal, name");
    Statement::new(sql, Vec::new())
}

fn of_owner(owner: &Owner, name: &CredentialName) -> Statement {
    let sql = format!(
        "SELECT {COLUMNS} FROM credentials WHERE tenant = ?1 AND principal = ?2 AND name = ?3"
    );
    Statement::new(sql, values![owner.tenant.as_str(), principal(owner), name.as_str()])
}

/// The principal as it is stored: empty for an owner without one.
fn principal(owner: &Owner) -> &str {
    owner.principal.as_ref().map_or("", |principal| principal.as_str())
}

fn find(id: &CredentialId) -> Statement {
    let sql = format!("SELECT {COLUMNS} FROM credentials WHERE id = ?1");
    Statement::new(sql, values![id.as_str()])
}

fn insert(credential: &Credential, sealed: Vec<u8>) -> Result<Statement, StoreError> {
    let unwritable = |_| StoreError::Unavailable("a credential has no JSON form".to_owned());
    let params = values![
        credential.id.as_str(),
        credential.owner.tenant.as_str(),
        principal(&credential.owner),
        credential.name.as_str(),
        serde_json::to_string(&credential.kind).map_err(unwritable)?,
        serde_json::to_string(&credential.audiences).map_err(unwritable)?,
        credential.created_at,
        credential.rotated_at,
        credential.expires_at,
        credential.revision,
        sealed,
    ];
    let insert = Statement::insert("credentials", COLUMNS, params);
    Ok(insert.or_conflict("a credential of this name or id"))
}

impl FromRow for SealedCredential {
    fn from_row<R: Columns>(row: &R) -> Result<Self, R::Failure> {
        let row = Reader::with_id(row, "the credential");
        let credential = Credential {
            id: row.id(0)?,
            owner: Owner { tenant: row.id(1)?, principal: row.id_or_empty(2)? },
            name: row.id(3)?,
            kind: row.json(4)?,
            audiences: row.json(5)?,
            created_at: row.time(6)?,
            rotated_at: row.time(7)?,
            expires_at: row.maybe_time(8)?,
            revision: row.whole(9)?,
        };
        Ok(Self { credential, sealed: row.bytes(10)? })
    }
}
