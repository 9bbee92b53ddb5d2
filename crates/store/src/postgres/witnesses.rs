//! The witnesses of all servers of a database.

use async_trait::async_trait;
use toolcrib_core::{
    canonical::Digest,
    record::{SavedWitness, SharedWitnesses},
    store::StoreError,
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    row::{digest, execute, first, rows},
};

/// The longest witness to read, as for a witness file.
const MAX_CHARACTERS: i32 = 64 << 20;

#[async_trait]
impl SharedWitnesses for PostgresStore {
    fn server(&self) -> &str {
        self.instance()
    }

    async fn list(&self) -> Result<Vec<SavedWitness>, StoreError> {
        within(async {
            let sql = "SELECT server, digest FROM witnesses ORDER BY server";
            let mut listed = Vec::new();
            for row in rows(&self.client().await?, sql, &[]).await? {
                let digest =
                    digest(&row, 1)?.ok_or_else(|| Failure::corrupt("the digest of a witness"))?;
                listed.push(SavedWitness { server: row.try_get(0)?, digest });
            }
            Ok(listed)
        })
        .await
    }

    async fn load(&self, server: &str) -> Result<Option<String>, StoreError> {
        within(async {
            // A longer one is cut, and has no valid signature then.
            let sql = "SELECT left(text, $2) FROM witnesses WHERE server = $1";
            let found = first(&self.client().await?, sql, &[&server, &MAX_CHARACTERS]).await?;
            Ok(found.map(|row| row.try_get(0)).transpose()?)
        })
        .await
    }

    async fn save(&self, text: String) -> Result<(), StoreError> {
        within(async {
            let sql = "INSERT INTO witnesses (server, digest, text) VALUES ($1, $2, $3) \
                       ON CONFLICT (server) DO UPDATE SET digest = $2, text = $3";
            let digest = Digest::of(text.as_bytes()).0;
            let client = self.client().await?;
            execute(&client, sql, &[&self.instance(), &digest.as_slice(), &text]).await?;
            Ok(())
        })
        .await
    }

    async fn remove(&self, witnesses: &[SavedWitness]) -> Result<(), StoreError> {
        within(async {
            let servers: Vec<&str> =
                witnesses.iter().map(|witness| witness.server.as_str()).collect();
            let digests: Vec<&[u8]> =
                witnesses.iter().map(|witness| witness.digest.0.as_slice()).collect();
            let sql = "DELETE FROM witnesses w USING unnest($1::text[], $2::bytea[]) \
                         AS gone (server, digest) \
                       WHERE w.server = gone.server AND w.digest = gone.digest";
            execute(&self.client().await?, sql, &[&servers, &digests]).await?;
            Ok(())
        })
        .await
    }
}
