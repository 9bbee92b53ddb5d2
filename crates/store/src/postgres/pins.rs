//! Pins. Changes lock the row of the epoch first, so that they happen one after the other.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use toolcrib_core::{
    clock::Timestamp,
    id::SourceId,
    pin::{Pin, PinApproval, PinBook, PinChoice, PinForm, PinStore},
    principal::PrincipalKey,
    store::StoreError,
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    statement::{read, run},
};
use crate::rows::{Statement, pins};

impl PostgresStore {
    /// Runs statements that change pins, and returns the numbers of changed rows.
    async fn change_pins(&self, statements: Vec<Statement>) -> Result<Vec<usize>, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            run(&transaction, &pins::next_epoch()).await?;
            let mut changed = Vec::with_capacity(statements.len());
            for statement in &statements {
                changed.push(run(&transaction, statement).await?);
            }
            finish(transaction, changed.iter().any(|rows| *rows > 0)).await?;
            Ok(changed)
        })
        .await
    }

    async fn select_pins(
        &self,
        source: &SourceId,
        tool: Option<&str>,
    ) -> Result<Vec<Pin>, StoreError> {
        let select = pins::select(source, tool);
        Ok(pins::join_pins(self.select(select, |row| pins::pin(source, row)).await?))
    }
}

#[async_trait]
impl PinStore for PostgresStore {
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        Ok(pins::join_book(self.select(pins::book(source), pins::book_row).await?))
    }

    async fn pins(&self, source: &SourceId) -> Result<Vec<Pin>, StoreError> {
        self.select_pins(source, None).await
    }

    async fn pin(&self, source: &SourceId, tool: &str) -> Result<Option<Pin>, StoreError> {
        Ok(self.select_pins(source, Some(tool)).await?.pop())
    }

    async fn trust(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let trust = forms.iter().map(|(tool, form)| pins::trust(source, tool, form, at));
        self.change_pins(trust.collect()).await.map(drop)
    }

    async fn note(
        &self,
        source: &SourceId,
        forms: Vec<(String, PinForm)>,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError> {
        let notes = forms.iter().map(|(tool, form)| pins::note(source, tool, form, at));
        let noted = self.change_pins(notes.collect()).await?;
        let news = forms.into_iter().zip(noted).filter(|(_, rows)| *rows > 0);
        Ok(news.map(|((tool, _), _)| tool).collect())
    }

    async fn forget(&self, source: &SourceId, tools: Vec<String>) -> Result<(), StoreError> {
        let forget = tools.iter().map(|tool| pins::forget(source, tool));
        self.change_pins(forget.collect()).await.map(drop)
    }

    async fn approve(
        &self,
        choices: Vec<PinChoice>,
        at: Timestamp,
        by: Option<PrincipalKey>,
    ) -> Result<PinApproval, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            run(&transaction, &pins::next_epoch()).await?;
            let mut before = Vec::new();
            // All are checked before the first is changed.
            for (index, choice) in choices.iter().enumerate() {
                let digests = pins::digests(&choice.source, &choice.tool);
                let rows = read(&transaction, &digests, pins::digest_row).await?;
                let known = pins::join_digests(rows);
                if !known.can_approve(choice) {
                    return Ok(PinApproval::Stale(index));
                }
                before.push(known.approved);
            }
            for choice in &choices {
                for statement in pins::approve(choice, at, by.as_ref()) {
                    run(&transaction, &statement).await?;
                }
            }
            finish(transaction, !choices.is_empty()).await?;
            Ok(PinApproval::Approved(before))
        })
        .await
    }
}

/// Commits a change; rolls back without one.
async fn finish(transaction: Transaction<'_>, is_changed: bool) -> Result<(), Failure> {
    match is_changed {
        true => transaction.commit().await?,
        false => transaction.rollback().await?,
    }
    Ok(())
}
