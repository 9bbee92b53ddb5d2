//! Saved views and calls on SQLite. Their content is sealed before it reaches the writer.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    id::{PrincipalId, SavedId, TenantId},
    store::{SavedFilter, SavedInsertion, SavedItem, SavedStore, StoreError},
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{all, execute, first, moment, parse, time_text},
};
use crate::saved::{self, COLUMNS, Present, StoredItem};

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
        let Some(new) = saved::reseal(keys, &item, &old)? else { continue };
        // An item saved again meanwhile is sealed already.
        let changed = store.on_writer(move |connection| {
            let sql = "UPDATE saved SET content = ?3 WHERE id = ?1 AND content = ?2";
            execute(connection, sql, params![item.id.as_str(), old, new])
        });
        resealed += changed.await?;
    }
    Ok(resealed)
}

#[async_trait]
impl SavedStore for SqliteStore {
    async fn insert(&self, item: SavedItem) -> Result<SavedInsertion, StoreError> {
        let content = saved::pack(&self.options().seal_keys, &item)?;
        self.on_writer(move |connection| insert(connection, &item, &content)).await
    }

    async fn replace(&self, item: SavedItem) -> Result<bool, StoreError> {
        let content = saved::pack(&self.options().seal_keys, &item)?;
        self.on_writer(move |connection| {
            let sql = "UPDATE saved SET saved_at = ?7, content = ?8 \
                       WHERE tenant = ?1 AND kind = ?2 AND tool = ?3 AND name = ?4 AND id = ?5 \
                       AND principal = ?6";
            let [tenant, kind, tool, name] = item.place();
            let (id, principal) = (item.id.as_str(), item.principal.as_str());
            let at = time_text(item.saved_at);
            let params = params![tenant, kind, tool, name, id, principal, at, content];
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

    async fn list(
        &self,
        tenant: &TenantId,
        filter: &SavedFilter,
    ) -> Result<Vec<SavedItem>, StoreError> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        let rows = self.on_reader(move |connection| {
            let (kind, column, value) = saved::selected(&filter);
            let sql = format!(
                "SELECT {COLUMNS} FROM saved WHERE tenant = ?1 AND kind = ?2 AND {column} = ?3 \
                 ORDER BY tool, name"
            );
            all(connection, &sql, [tenant.as_str(), kind.as_str(), value], stored)
        });
        let keys = &self.options().seal_keys;
        Ok(rows.await?.into_iter().map(|row| saved::unpack(keys, row)).collect())
    }

    async fn find(&self, tenant: &TenantId, id: &SavedId) -> Result<Option<SavedItem>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        let row = self.on_reader(move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM saved WHERE tenant = ?1 AND id = ?2");
            first(connection, &sql, [tenant.as_str(), id.as_str()], stored)
        });
        Ok(row.await?.map(|row| saved::unpack(&self.options().seal_keys, row)))
    }
}

fn insert(
    connection: &Connection,
    item: &SavedItem,
    content: &[u8],
) -> Result<SavedInsertion, Failure> {
    let [tenant, kind, tool, name] = item.place();
    let principal = item.principal.as_str();
    let sql = "SELECT id, principal FROM saved \
               WHERE tenant = ?1 AND kind = ?2 AND tool = ?3 AND name = ?4";
    let taken = first(connection, sql, [tenant, kind, tool, name], |row| -> Result<_, Failure> {
        let (id, principal): (String, String) = (row.get(0)?, row.get(1)?);
        let unreadable = || Failure::corrupt(format!("the saved item with id {id}"));
        let principal = parse(principal, unreadable)?;
        Ok(SavedInsertion::NameTaken { id: parse(id.clone(), unreadable)?, principal })
    })?;
    if let Some(taken) = taken {
        return Ok(taken);
    }
    let count = |column: &str, value: &str| -> Result<i64, Failure> {
        let sql =
            format!("SELECT count(*) FROM saved WHERE tenant = ?1 AND kind = ?2 AND {column} = ?3");
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row([tenant, kind, value], |row| row.get(0))?)
    };
    let counts = [count("tool", tool)?, count("principal", principal)?];
    if let Some(refusal) = Present::from(counts).refusal() {
        return Ok(refusal);
    }
    let sql = format!("INSERT INTO saved ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    let (id, at) = (item.id.as_str(), time_text(item.saved_at));
    execute(connection, &sql, params![id, tenant, kind, tool, name, principal, at, content])?;
    Ok(SavedInsertion::Stored)
}

fn stored(row: &Row<'_>) -> Result<StoredItem, Failure> {
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
