//! Pins on SQLite.

use async_trait::async_trait;
use rusqlite::Connection;
use toolcrib_core::{
    clock::Timestamp,
    id::SourceId,
    pin::{Pin, PinApproval, PinBook, PinChoice, PinForm, PinStore},
    principal::PrincipalKey,
    store::StoreError,
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    statement::{read, run},
};
use crate::rows::{Statement, pins};

impl SqliteStore {
    /// Runs statements that change pins, and returns the numbers of changed rows.
    async fn change_pins(&self, statements: Vec<Statement>) -> Result<Vec<usize>, StoreError> {
        self.on_writer(move |connection| {
            let changed: Vec<usize> = statements
                .iter()
                .map(|statement| run(connection, statement))
                .collect::<Result<_, _>>()?;
            count(connection, changed.iter().any(|rows| *rows > 0))?;
            Ok(changed)
        })
        .await
    }

    async fn select_pins(
        &self,
        source: &SourceId,
        tool: Option<&str>,
    ) -> Result<Vec<Pin>, StoreError> {
        let (select, source) = (pins::select(source, tool), source.clone());
        Ok(pins::join_pins(self.select(select, move |row| pins::pin(&source, row)).await?))
    }
}

#[async_trait]
impl PinStore for SqliteStore {
    async fn book(&self, source: &SourceId) -> Result<PinBook, StoreError> {
        Ok(pins::join_book(self.select(pins::book(source), |row| pins::book_row(row)).await?))
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
        self.on_writer(move |connection| {
            let mut before = Vec::new();
            // All are checked before the first is changed.
            for (index, choice) in choices.iter().enumerate() {
                let digests = pins::digests(&choice.source, &choice.tool);
                let rows = read(connection, &digests, |row| pins::digest_row(row))?;
                let known = pins::join_digests(rows);
                if !known.can_approve(choice) {
                    return Ok(PinApproval::Stale(index));
                }
                before.push(known.approved);
            }
            for choice in &choices {
                for statement in pins::approve(choice, at, by.as_ref()) {
                    run(connection, &statement)?;
                }
            }
            count(connection, !choices.is_empty())?;
            Ok(PinApproval::Approved(before))
        })
        .await
    }
}

/// Counts a change of the pins.
fn count(connection: &Connection, is_changed: bool) -> Result<(), Failure> {
    if is_changed {
        run(connection, &pins::next_epoch())?;
    }
    Ok(())
}
