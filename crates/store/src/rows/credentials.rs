//! Credentials. Values are sealed before they reach the database and opened after they left it.

use toolcrib_core::{
    clock::Timestamp,
    credential::{Credential, CredentialStoreError, Material, Owner, UnsealedCredential},
    id::{CredentialId, CredentialName},
    store::StoreError,
};

use super::{Columns, Reader, Statement, values};
use crate::seal::SealKeys;

const COLUMNS: &str = "id, tenant, principal, name, kind, audiences, created_at, rotated_at, \
                       expires_at, revision, sealed";

/// A row: all fields, with the values sealed.
pub(crate) struct Stored {
    pub(crate) credential: Credential,
    sealed: Vec<u8>,
}

pub(crate) fn all() -> Statement {
    let sql = format!("SELECT {COLUMNS} FROM credentials ORDER BY tenant, principal, name");
    Statement::new(sql, Vec::new())
}

pub(crate) fn of_owner(owner: &Owner, name: &CredentialName) -> Statement {
    let sql = format!(
        "SELECT {COLUMNS} FROM credentials WHERE tenant = ?1 AND principal = ?2 AND name = ?3"
    );
    Statement::new(sql, values![owner.tenant.as_str(), principal(owner), name.as_str()])
}

/// The principal as it is stored: empty for an owner without one.
fn principal(owner: &Owner) -> &str {
    owner.principal.as_ref().map_or("", |principal| principal.as_str())
}

pub(crate) fn find(id: &CredentialId) -> Statement {
    let sql = format!("SELECT {COLUMNS} FROM credentials WHERE id = ?1");
    Statement::new(sql, values![id.as_str()])
}

pub(crate) fn remove(id: &CredentialId) -> Statement {
    Statement::new("DELETE FROM credentials WHERE id = ?1", values![id.as_str()])
}

pub(crate) fn insert(
    keys: &SealKeys,
    it: &Credential,
    material: &Material,
) -> Result<Statement, CredentialStoreError> {
    let unwritable = |_| StoreError::Unavailable("a credential has no JSON form".to_owned());
    let params = values![
        it.id.as_str(),
        it.owner.tenant.as_str(),
        principal(&it.owner),
        it.name.as_str(),
        serde_json::to_string(&it.kind).map_err(unwritable)?,
        serde_json::to_string(&it.audiences).map_err(unwritable)?,
        it.created_at,
        it.rotated_at,
        it.expires_at,
        it.revision,
        keys.seal(it, material)?,
    ];
    let insert = Statement::insert("credentials", COLUMNS, params);
    Ok(insert.or_conflict("a credential of this name or id"))
}

/// Replaces the material of a row if its revision is `seen`; `None` if it is another.
pub(crate) fn rotate(
    keys: &SealKeys,
    stored: Stored,
    seen: u64,
    material: &Material,
    expires_at: Option<Timestamp>,
    at: Timestamp,
) -> Result<Option<Statement>, CredentialStoreError> {
    let Stored { mut credential, sealed: before } = stored;
    if credential.revision != seen {
        return Ok(None);
    }
    // A row changed by other means must not get a new seal.
    keys.open(&credential, &before)?;
    credential.revision += 1;
    credential.expires_at = expires_at;
    let sealed = keys.seal(&credential, material)?;
    let sql = "UPDATE credentials SET sealed = ?4, expires_at = ?5, rotated_at = ?6, \
               revision = ?3 WHERE id = ?1 AND sealed = ?2";
    let id = credential.id.as_str();
    let params = values![id, before, credential.revision, sealed, expires_at, at];
    Ok(Some(Statement::new(sql, params)))
}

/// Seals a row with the current key; `None` if it is sealed with that one.
pub(crate) fn reseal(
    keys: &SealKeys,
    Stored { credential, sealed: old }: Stored,
) -> Result<Option<Statement>, CredentialStoreError> {
    if keys.is_current(&old) {
        return Ok(None);
    }
    let material = keys.open(&credential, &old)?;
    let new = keys.seal(&credential, &material)?;
    // A concurrent rotation has resealed it already.
    let sql = "UPDATE credentials SET sealed = ?3 WHERE id = ?1 AND sealed = ?2";
    Ok(Some(Statement::new(sql, values![credential.id.as_str(), old, new])))
}

pub(crate) fn open(
    keys: &SealKeys,
    Stored { credential, sealed }: Stored,
) -> Result<UnsealedCredential, CredentialStoreError> {
    let material = keys.open(&credential, &sealed)?;
    Ok(UnsealedCredential { credential, material })
}

/// Reads a row of [`all`], [`of_owner`] or [`find`].
pub(crate) fn stored<R: Columns>(row: &R) -> Result<Stored, R::Failure> {
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
    Ok(Stored { credential, sealed: row.bytes(10)? })
}
