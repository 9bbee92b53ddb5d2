//! Items of the authorization server for MCP clients. Values are sealed before they reach the
//! database and opened after they left it.

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    bridge::{BridgeItem, BridgeKind, BridgeStore},
    clock::Timestamp,
    credential::{CredentialStoreError, Secret},
    id::{CredentialId, PrincipalId, TenantId},
    principal::PrincipalKey,
};

use super::{Columns, Database, FromRow, Reader, Statement, values};
use crate::{seal::SealKeys, seal_places};

const ITEM: &str = "id, kind, tenant, principal, created_at, expires_at, revision, sealed";

/// The items of a database.
pub(crate) struct Bridge<D>(pub(crate) D);

/// Reseals the items of older keys.
pub(crate) async fn reseal(database: &impl Database) -> Result<usize, CredentialStoreError> {
    let keys = &database.options().seal_keys;
    let all = Statement::new(format!("SELECT {ITEM} FROM bridge_items ORDER BY id"), Vec::new());
    let mut resealed = 0;
    for old in database.rows::<StoredItem>(all).await? {
        if keys.is_current(&old.sealed) {
            continue;
        }
        let before = old.sealed.clone();
        let (item, value) = open(keys, old)?;
        let StoredItem { item, sealed } = seal(keys, item, &value)?;
        // An item changed meanwhile is sealed already.
        let sql = "UPDATE bridge_items SET sealed = ?3 WHERE id = ?1 AND sealed = ?2";
        let params = values![item.id.as_str(), before, sealed];
        resealed += database.run(Statement::new(sql, params)).await?;
    }
    Ok(resealed)
}

#[async_trait]
impl<D: Database> BridgeStore for Bridge<D> {
    async fn add(
        &self,
        item: BridgeItem,
        value: Secret,
        most: u64,
    ) -> Result<bool, CredentialStoreError> {
        let (kind, id) = (item.kind.word(), item.id.clone());
        let expired = "DELETE FROM bridge_items WHERE kind = ?1 AND expires_at <= ?2";
        let over_limit = "DELETE FROM bridge_items WHERE id = ?1 AND \
                          (SELECT count(*) FROM bridge_items WHERE kind = ?2) > ?3";
        let statements = vec![
            Statement::new(expired, values![kind, item.created_at]),
            insert(&seal(&self.0.options().seal_keys, item, &value)?),
            Statement::new(over_limit, values![id.as_str(), kind, most]),
        ];
        Ok(self.0.run_locked(format!("toolcrib bridge {kind}"), statements).await? == 0)
    }

    async fn get(
        &self,
        kind: BridgeKind,
        id: &CredentialId,
        now: Timestamp,
    ) -> Result<Option<(BridgeItem, Secret)>, CredentialStoreError> {
        let sql = format!("SELECT {ITEM} FROM bridge_items WHERE id = ?1 AND kind = ?2");
        let query = Statement::new(sql, values![id.as_str(), kind.word()]);
        let found = self.0.rows(query).await?.pop();
        unexpired(&self.0.options().seal_keys, found, now)
    }

    async fn change(&self, item: BridgeItem, value: Secret) -> Result<bool, CredentialStoreError> {
        let seen = item.revision;
        let next = BridgeItem { revision: seen.saturating_add(1), ..item };
        let StoredItem { item, sealed } = seal(&self.0.options().seal_keys, next, &value)?;
        let sql = "UPDATE bridge_items SET expires_at = ?6, revision = ?7, sealed = ?8 \
                   WHERE id = ?1 AND kind = ?2 AND tenant = ?3 AND principal = ?4 \
                   AND revision = ?5";
        let [tenant, principal] = item.owner_parts();
        let params = values![
            item.id.as_str(),
            item.kind.word(),
            tenant,
            principal,
            seen,
            item.expires_at,
            item.revision,
            sealed,
        ];
        Ok(self.0.run(Statement::new(sql, params)).await? > 0)
    }

    async fn take(
        &self,
        kind: BridgeKind,
        id: &CredentialId,
        now: Timestamp,
    ) -> Result<Option<(BridgeItem, Secret)>, CredentialStoreError> {
        let sql = format!("DELETE FROM bridge_items WHERE id = ?1 AND kind = ?2 RETURNING {ITEM}");
        let taken = self.0.take(Statement::new(sql, values![id.as_str(), kind.word()])).await?;
        unexpired(&self.0.options().seal_keys, taken, now)
    }

    async fn grants(
        &self,
        tenant: &TenantId,
        principal: Option<&PrincipalId>,
    ) -> Result<Vec<(BridgeItem, Secret)>, CredentialStoreError> {
        let sql = format!("SELECT {ITEM} FROM bridge_items WHERE kind = ?1 AND tenant = ?2");
        let query = Statement::new(sql, values![BridgeKind::Grant.word(), tenant.as_str()])
            .and("principal = ?", principal.map(PrincipalId::as_str))
            .then(" ORDER BY id");
        let keys = &self.0.options().seal_keys;
        let opened = self.0.rows(query).await?.into_iter().map(|stored| open(keys, stored));
        // One grant that cannot be read must not hide the others.
        let is_sealed_otherwise = |opened: &Result<_, CredentialStoreError>| {
            use CredentialStoreError::{NotGenuine, OtherKey};
            matches!(opened, Err(OtherKey(_) | NotGenuine(_)))
        };
        opened.filter(|opened| !is_sealed_otherwise(opened)).collect()
    }

    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError> {
        let sql = "DELETE FROM bridge_items WHERE expires_at <= ?1";
        let swept = self.0.run(Statement::new(sql, values![now])).await?;
        Ok(u64::try_from(swept).unwrap_or(u64::MAX))
    }
}

fn insert(stored: &StoredItem) -> Statement {
    let StoredItem { item, sealed } = stored;
    let [tenant, principal] = item.owner_parts();
    let params = values![
        item.id.as_str(),
        item.kind.word(),
        tenant,
        principal,
        item.created_at,
        item.expires_at,
        item.revision,
        sealed.clone(),
    ];
    Statement::insert("bridge_items", ITEM, params).or_conflict("an item with this id")
}

/// A row of an item, with its value sealed.
struct StoredItem {
    item: BridgeItem,
    sealed: Vec<u8>,
}

/// An item as it is stored: with times in milliseconds, and its value sealed.
fn seal(
    keys: &SealKeys,
    item: BridgeItem,
    value: &Secret,
) -> Result<StoredItem, CredentialStoreError> {
    let item = BridgeItem {
        created_at: item.created_at.trunc_subsecs(3),
        expires_at: item.expires_at.trunc_subsecs(3),
        ..item
    };
    let sealed = keys.seal_secrets(&seal_places::bridge(&item), &[Some(value)])?;
    Ok(StoredItem { item, sealed })
}

/// Opens the value of an item.
fn open(keys: &SealKeys, stored: StoredItem) -> Result<(BridgeItem, Secret), CredentialStoreError> {
    let StoredItem { item, sealed } = stored;
    let [value] = keys.open_secrets(&item.id, &seal_places::bridge(&item), &sealed)?;
    let value = value.ok_or_else(|| CredentialStoreError::NotGenuine(item.id.clone()))?;
    Ok((item, value))
}

/// Opens an item, unless it has expired at `now`.
fn unexpired(
    keys: &SealKeys,
    stored: Option<StoredItem>,
    now: Timestamp,
) -> Result<Option<(BridgeItem, Secret)>, CredentialStoreError> {
    let stored = stored.filter(|stored| stored.item.expires_at > now);
    stored.map(|stored| open(keys, stored)).transpose()
}

impl FromRow for StoredItem {
    fn from_row<R: Columns>(row: &R) -> Result<Self, R::Failure> {
        let row = Reader::with_id(row, "the item");
        let (tenant, principal) = (row.id_or_empty(2)?, row.id_or_empty(3)?);
        let owner = match (tenant, principal) {
            (Some(tenant), Some(principal)) => Some(PrincipalKey { tenant, principal }),
            (None, None) => None,
            _ => return Err(row.unreadable()),
        };
        let item = BridgeItem {
            id: row.id(0)?,
            kind: BridgeKind::parse(&row.text(1)?).ok_or_else(|| row.unreadable())?,
            owner,
            created_at: row.time(4)?,
            expires_at: row.time(5)?,
            revision: row.whole(6)?,
        };
        Ok(Self { item, sealed: row.bytes(7)? })
    }
}
