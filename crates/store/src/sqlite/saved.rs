//! Saved views and calls on SQLite. Their content is sealed before it reaches the writer.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    id::{PrincipalId, SavedId, TenantId, ToolId},
    store::{
        MAX_SAVED, MAX_SAVED_BY_ONE, SavedInsertion, SavedItem, SavedKind, SavedStore, StoreError,
    },
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{all, execute, first, moment, parse, time_text},
};
use crate::seal_places;

const COLUMNS: &str = "id, tenant, kind, tool, name, principal, saved_at, content";

/// A row: the item without its content, and the content as stored.
type Stored = (SavedItem, Vec<u8>);

/// Reseals the contents of older keys, and seals those that were stored without one.
pub(super) async fn reseal(store: &SqliteStore) -> Result<usize, StoreError> {
    let keys = &store.options().seal_keys;
    if !keys.can_seal() {
        return Ok(0);
    }
    let sql = format!("SELECT {COLUMNS} FROM saved ORDER BY id");
    let rows = store.on_reader(move |connection| all(connection, &sql, [], stored)).await?;
    let mut resealed = 0;
    for (item, old) in rows {
        if keys.is_current(&old) {
            continue;
        }
        let place = seal_places::saved(&item);
        let content = keys.unpack(&place, &old).ok_or_else(|| unsealable(&item.id))?;
        let new = keys.pack(&place, &content)?;
        // An item that was saved again meanwhile is sealed already.
        let changed = store.on_writer(move |connection| {
            let sql = "UPDATE saved SET content = ?3 WHERE id = ?1 AND content = ?2";
            execute(connection, sql, params![item.id.as_str(), old, new])
        });
        resealed += changed.await?;
    }
    Ok(resealed)
}

fn unsealable(id: &SavedId) -> StoreError {
    let message = format!("the saved item {id} cannot be opened with `seal_key` or `old_seal_key`");
    StoreError::Corrupt(message)
}

impl SqliteStore {
    fn packed(&self, item: &SavedItem) -> Result<Vec<u8>, StoreError> {
        let content = item.content.as_deref().unwrap_or_default();
        self.options().seal_keys.pack(&seal_places::saved(item), content)
    }

    fn unpacked(&self, (item, content): Stored) -> SavedItem {
        let content = self.options().seal_keys.unpack(&seal_places::saved(&item), &content);
        SavedItem { content, ..item }
    }
}

#[async_trait]
impl SavedStore for SqliteStore {
    async fn insert(&self, item: SavedItem) -> Result<SavedInsertion, StoreError> {
        let content = self.packed(&item)?;
        self.on_writer(move |connection| insert(connection, &item, &content)).await
    }

    async fn replace(&self, seen: &PrincipalId, item: SavedItem) -> Result<bool, StoreError> {
        let (seen, content) = (seen.clone(), self.packed(&item)?);
        self.on_writer(move |connection| {
            let sql = "UPDATE saved SET principal = ?7, saved_at = ?8, content = ?9 \
                       WHERE tenant = ?1 AND kind = ?2 AND tool = ?3 AND name = ?4 AND id = ?5 \
                       AND principal = ?6";
            let [tenant, kind, tool, name] = place(&item);
            let (id, at) = (item.id.as_str(), time_text(item.saved_at));
            let (seen, now) = (seen.as_str(), item.principal.as_str());
            let params = params![tenant, kind, tool, name, id, seen, now, at, content];
            Ok(execute(connection, sql, params)? > 0)
        })
        .await
    }

    async fn remove(
        &self,
        tenant: &TenantId,
        id: &SavedId,
        seen: &PrincipalId,
    ) -> Result<bool, StoreError> {
        let (tenant, id, seen) = (tenant.clone(), id.clone(), seen.clone());
        self.on_writer(move |connection| {
            let sql = "DELETE FROM saved WHERE tenant = ?1 AND id = ?2 AND principal = ?3";
            let params = [tenant.as_str(), id.as_str(), seen.as_str()];
            Ok(execute(connection, sql, params)? > 0)
        })
        .await
    }

    async fn list(&self, tenant: &TenantId, kind: SavedKind) -> Result<Vec<SavedItem>, StoreError> {
        let tenant = tenant.clone();
        let rows = self.on_reader(move |connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM saved WHERE tenant = ?1 AND kind = ?2 ORDER BY tool, name"
            );
            all(connection, &sql, [tenant.as_str(), kind.as_str()], stored)
        });
        Ok(rows.await?.into_iter().map(|row| self.unpacked(row)).collect())
    }

    async fn find(&self, tenant: &TenantId, id: &SavedId) -> Result<Option<SavedItem>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        let row = self.on_reader(move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM saved WHERE tenant = ?1 AND id = ?2");
            first(connection, &sql, [tenant.as_str(), id.as_str()], stored)
        });
        Ok(row.await?.map(|row| self.unpacked(row)))
    }
}

fn place(item: &SavedItem) -> [&str; 4] {
    let tool = item.tool.as_ref().map_or("", ToolId::as_str);
    [item.tenant.as_str(), item.kind.as_str(), tool, &item.name]
}

fn insert(
    connection: &Connection,
    item: &SavedItem,
    content: &[u8],
) -> Result<SavedInsertion, Failure> {
    let [tenant, kind, tool, name] = place(item);
    let principal = item.principal.as_str();
    let sql = "SELECT count(*), coalesce(sum(principal = ?3), 0), \
                      coalesce(sum(tool = ?4 AND name = ?5), 0) \
               FROM saved WHERE tenant = ?1 AND kind = ?2";
    let [all, own, same]: [i64; 3] = connection
        .prepare_cached(sql)?
        .query_row([tenant, kind, principal, tool, name], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?])
        })?;
    let reaches = |count: i64, most: usize| usize::try_from(count).is_ok_and(|it| it >= most);
    if same > 0 {
        return Ok(SavedInsertion::NameTaken);
    }
    if reaches(all, MAX_SAVED) {
        return Ok(SavedInsertion::TenantFull);
    }
    if reaches(own, MAX_SAVED_BY_ONE) {
        return Ok(SavedInsertion::PrincipalFull);
    }
    let sql = format!("INSERT INTO saved ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    let (id, at) = (item.id.as_str(), time_text(item.saved_at));
    execute(connection, &sql, params![id, tenant, kind, tool, name, principal, at, content])?;
    Ok(SavedInsertion::Stored)
}

fn stored(row: &Row<'_>) -> Result<Stored, Failure> {
    let id: String = row.get(0)?;
    // An id is not a secret; it identifies the item to save again.
    let unreadable = || Failure::corrupt(format!("the saved item with id {id}"));
    let tool: String = row.get(3)?;
    let tool = Some(tool).filter(|tool| !tool.is_empty());
    let item = SavedItem {
        id: parse(id.clone(), unreadable)?,
        tenant: parse(row.get(1)?, unreadable)?,
        kind: row.get::<_, String>(2)?.parse().map_err(|_| unreadable())?,
        tool: tool.map(|tool| parse(tool, unreadable)).transpose()?,
        name: row.get(4)?,
        content: None,
        principal: parse(row.get(5)?, unreadable)?,
        saved_at: moment(row, 6, unreadable)?.ok_or_else(unreadable)?,
    };
    Ok((item, row.get(7)?))
}
