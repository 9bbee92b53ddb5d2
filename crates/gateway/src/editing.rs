//! Changes of the configuration file by callers of a running server.
//!
//! Invariant: a text is written only if the checks of a reload accept it, after its event is durable,
//! and only in place of the text that the caller has seen. The reload itself is the server's usual one.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toml_edit::{DocumentMut, Item};
use toolcrib_config::{
    Config, Problem,
    edit::{
        self, Change, ChangeKind, CheckReport, ConfigFile, EditError, FileContent, FileError, Hunk,
    },
    scopes::RouteScope,
};
use toolcrib_core::{
    clock::Timestamp,
    event::{ConfigAction, ConfigEdited, EventBody, NewEvent},
    principal::Principal,
};

use crate::{
    audit::lone_event,
    authn::RoleGivers,
    gateway::Gateway,
    named_tools::RoleReach,
    supply::{Preview, PreviewError},
};

/// A proposed change and its effect.
#[derive(Debug)]
pub struct Proposal {
    /// The SHA-256 of the text that it changes.
    pub before: String,
    /// The SHA-256 of the proposed text.
    pub after: String,
    /// The changed lines, without secrets.
    pub diff: Vec<Hunk>,
    /// Why a server would not apply it.
    pub problems: Vec<Problem>,
    /// Probable mistakes.
    pub warnings: Vec<String>,
    /// The reach of roles with named tools.
    pub reach: Vec<RoleReach>,
    /// The callers that can give the roles that it adds or changes; empty for a text with problems.
    pub givers: Vec<RoleGivers>,
    /// Its effect; `None` for a text with problems.
    pub preview: Option<Preview>,
    /// Why the file cannot be written.
    pub obstacle: Option<String>,
}

/// A written text.
#[derive(Debug)]
#[non_exhaustive]
pub struct WriteReport {
    /// The SHA-256 of the previous text.
    pub before: String,
    /// The SHA-256 of the written text.
    pub after: String,
    /// The backup of the previous text.
    pub backup: Option<String>,
}

/// Why a change was not written, or a proposal failed.
#[derive(Debug, thiserror::Error)]
pub enum EditRefusal {
    /// The process has no configuration file, or `[explorer] edit` is off.
    #[error("the configuration cannot be edited here")]
    Absent,
    /// A change does not fit the text.
    #[error(transparent)]
    Change(#[from] EditError),
    /// A server would not apply the text.
    #[error("the changed configuration has problems")]
    Problems(Vec<Problem>),
    /// A role with named tools would also reach others.
    #[error(
        "the role `{}` would also reach tools that the change does not name; give the named ones a \
         separate scope, as the proposal suggests, or state the scopes of the role", .0.role
    )]
    Reach(RoleReach),
    /// The file cannot be read or replaced.
    #[error(transparent)]
    File(#[from] FileError),
    /// The effect cannot be computed.
    #[error(transparent)]
    Preview(#[from] PreviewError),
    /// The event could not be stored.
    #[error("the change could not be recorded, so it was not made")]
    Unrecorded,
    /// A task failed.
    #[error("the change could not be made")]
    Failed,
}

impl Gateway {
    /// The configuration file, if callers may edit it.
    pub fn config_file(&self) -> Option<&ConfigFile> {
        self.inner.config_file.as_ref().filter(|_| self.config().explorer.edit)
    }

    /// Returns the editable parts: the sources, roles and toolsets of the file, without values that
    /// may be secrets.
    ///
    /// # Errors
    /// [`EditRefusal`].
    pub async fn editable(
        &self,
    ) -> Result<(FileContent, Option<String>, Map<String, Value>), EditRefusal> {
        let file = self.config_file().ok_or(EditRefusal::Absent)?.clone();
        blocking(move || {
            let stored = file.read()?;
            let obstacle = file.obstacle().map(|obstacle| obstacle.to_string());
            let parts = parts(&stored.text);
            Ok((stored, obstacle, parts))
        })
        .await
    }

    /// Proposes the text with `changes`: its problems and its effect on the roles in the tenant of
    /// `principal`. With `connect`, it connects new sources, after recording this.
    ///
    /// # Errors
    /// [`EditRefusal`].
    pub async fn propose(
        &self,
        principal: &Principal,
        changes: Vec<Change>,
        connect: bool,
    ) -> Result<Proposal, EditRefusal> {
        let file = self.config_file().ok_or(EditRefusal::Absent)?.clone();
        let (changes, reach) = self.resolved(principal, changes).await?;
        let roles: BTreeSet<String> = changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Role)
            .map(|change| change.name.clone())
            .collect();
        let (stored, text, diff, obstacle) = blocking({
            let file = file.clone();
            move || {
                let stored = file.read()?;
                let text = edit::apply(&stored.text, &changes)?;
                let diff = edit::diff(&stored.text, &text);
                let obstacle = file.obstacle().map(|obstacle| obstacle.to_string());
                Ok((stored, text, diff, obstacle))
            }
        })
        .await?;
        let CheckReport { config, problems, mut warnings } = self.checked(&file, &text).await;
        let after = edit::hash(&text);
        let config = config.filter(|_| problems.is_empty());
        let givers = match &config {
            None => Vec::new(),
            Some(config) => self.givers(principal, config, &roles),
        };
        let preview = match config {
            None => None,
            Some(config) => {
                warnings.extend(self.consequences(principal, &config));
                let connect = connect && self.has_new_sources(&config);
                if connect {
                    let action = ConfigAction::Previewed;
                    self.record_edit(principal, action, &stored.hash, &after).await?;
                }
                let roles = self.authenticator().roles();
                let tenants = [principal.tenant.clone()];
                Some(self.supply().preview(&config, &roles, &tenants, connect).await?)
            }
        };
        let before = stored.hash;
        Ok(Proposal { before, after, diff, problems, warnings, reach, givers, preview, obstacle })
    }

    /// The callers that can give the roles of `new` that `roles` selects.
    fn givers(
        &self,
        caller: &Principal,
        new: &Config,
        roles: &BTreeSet<String>,
    ) -> Vec<RoleGivers> {
        let authenticator = self.authenticator();
        let known = roles.iter().filter_map(|name| Some((name, new.roles.get(name)?)));
        known.map(|(name, grants)| authenticator.givers(caller, name, grants)).collect()
    }

    /// Replaces named tools by their scopes; see [`resolve_tools`](Self::resolve_tools).
    async fn resolved(
        &self,
        principal: &Principal,
        changes: Vec<Change>,
    ) -> Result<(Vec<Change>, Vec<RoleReach>), EditRefusal> {
        let (gateway, tenant) = (self.clone(), principal.tenant.clone());
        // Reads every tool.
        blocking(move || Ok(gateway.resolve_tools(&gateway.config(), Some(&tenant), changes)?))
            .await
    }

    /// Applies `changes` to the text, whose hash must be `expected`.
    ///
    /// # Errors
    /// [`EditRefusal`]; in that case the file is unchanged.
    pub async fn write_config(
        &self,
        principal: &Principal,
        changes: Vec<Change>,
        expected: &str,
    ) -> Result<WriteReport, EditRefusal> {
        let file = self.config_file().ok_or(EditRefusal::Absent)?.clone();
        let (changes, reach) = self.resolved(principal, changes).await?;
        if let Some(reach) = reach.into_iter().find(|reach| !reach.others.is_empty()) {
            return Err(EditRefusal::Reach(reach));
        }
        // Edits of this process wait for one another; the lock of the directory is for other
        // processes.
        let _editing = self.inner.editing.lock().await;
        let text = blocking({
            let (file, expected) = (file.clone(), expected.to_owned());
            move || {
                let stored = file.read()?;
                if stored.hash != expected {
                    return Err(FileError::Changed.into());
                }
                // The reload of this text may be pending.
                if is_switched_off(&stored.text) {
                    return Err(EditRefusal::Absent);
                }
                Ok(edit::apply(&stored.text, &changes)?)
            }
        })
        .await?;
        let CheckReport { problems, .. } = self.checked(&file, &text).await;
        if !problems.is_empty() {
            return Err(EditRefusal::Problems(problems));
        }
        let (before, after) = (expected.to_owned(), edit::hash(&text));
        if before == after {
            return Ok(WriteReport { before, after, backup: None });
        }
        let prepared = blocking({
            let before = before.clone();
            move || Ok(file.prepare(&before, &text)?)
        })
        .await?;
        self.record_edit(principal, ConfigAction::Written, &before, &after).await?;
        // Runs on if its request is cancelled, so that the record and the file agree.
        let placed = tokio::task::spawn_blocking(move || prepared.place());
        let failure = match placed.await {
            Ok(Ok(backup)) => return Ok(WriteReport { before, after, backup }),
            Ok(Err(error)) => error.into(),
            Err(_) => EditRefusal::Failed,
        };
        let event = self.edit_event(principal, ConfigAction::Failed, &before, &after);
        self.audit().append_with_retry(vec![event]).await;
        Err(failure)
    }

    /// Checks `text` as a reload of this server does.
    async fn checked(&self, file: &ConfigFile, text: &str) -> CheckReport {
        let mut checked = file.check(text).await;
        let is_empty = checked.config.as_ref().is_some_and(|config| config.sources.is_empty());
        if is_empty && !self.config().sources.is_empty() {
            checked.problems.push(Problem::new(
                None,
                Some("source".to_owned()),
                "a running server does not apply a configuration without sources; remove the last \
                 one on the machine of the server",
            ));
        }
        checked
    }

    /// The consequences of `new` for its author and for secrets that are easily overlooked.
    fn consequences(&self, principal: &Principal, new: &Config) -> Vec<String> {
        let mut found = Vec::new();
        let current = self.config();
        let grants = |config: &Config| {
            let roles = principal.roles.iter().filter_map(|role| config.roles.get(role));
            RouteScope::ConfigWrite.is_named_by(roles.flatten())
        };
        if grants(&current) && !grants(new) {
            found.push(
                "after this change your roles do not have `config:write`: unless your key has it \
                 itself, you cannot take the change back here"
                    .to_owned(),
            );
        }
        for source in &new.sources {
            let Some(old) = current.source(&source.spec.id) else { continue };
            let (upstream, credential) = (&source.spec.upstream, &source.spec.credential);
            let has_secrets = credential.is_some() || upstream.has_secrets();
            if has_secrets && !old.spec.upstream.is_same(upstream) {
                found.push(format!(
                    "the source `{}` becomes another program or server, which gets the \
                     environment, headers and credential of the source",
                    source.spec.id
                ));
            }
        }
        found
    }

    fn has_new_sources(&self, config: &Config) -> bool {
        let current = self.config();
        config.sources.iter().any(|source| {
            let old = current.source(&source.spec.id);
            old.is_none_or(|old| !old.spec.upstream.is_same(&source.spec.upstream))
        })
    }

    async fn record_edit(
        &self,
        principal: &Principal,
        action: ConfigAction,
        before: &str,
        after: &str,
    ) -> Result<(), EditRefusal> {
        let event = self.edit_event(principal, action, before, after);
        let recorded = self.audit().append_or_refuse(event).await;
        recorded.map_err(|_| EditRefusal::Unrecorded)
    }

    fn edit_event(
        &self,
        principal: &Principal,
        action: ConfigAction,
        before: &str,
        after: &str,
    ) -> NewEvent {
        edit_event(principal, action, before, after, self.clock().now())
    }
}

/// Creates the event of an action of `principal`; `before` and `after` are hashes of the file.
pub fn edit_event(
    principal: &Principal,
    action: ConfigAction,
    before: &str,
    after: &str,
    now: Timestamp,
) -> NewEvent {
    let edited = ConfigEdited {
        principal: principal.id.clone(),
        action,
        before: before.to_owned(),
        after: after.to_owned(),
    };
    lone_event(principal.tenant.clone(), EventBody::ConfigEdited(edited), now)
}

/// The editable parts of `text`.
fn parts(text: &str) -> Map<String, Value> {
    let Ok(document) = text.parse::<DocumentMut>() else { return Map::new() };
    let array = |name: &str| -> Value {
        let tables = document.get(name).and_then(Item::as_array_of_tables);
        let tables = tables.into_iter().flatten();
        tables.map(|table| Value::Object(edit::settings(table))).collect()
    };
    let toolsets = document.get("toolset").and_then(Item::as_table_like);
    let toolsets = toolsets.map(edit::settings).unwrap_or_default();
    let parts = json!({
        "sources": array("source"), "roles": array("role"), "toolsets": toolsets,
    });
    parts.as_object().cloned().unwrap_or_default()
}

/// Whether `[explorer] edit` is off in `text`.
fn is_switched_off(text: &str) -> bool {
    let Ok(document) = text.parse::<DocumentMut>() else { return false };
    let edit = document.get("explorer").and_then(|explorer| explorer.get("edit"));
    edit.and_then(Item::as_bool) == Some(false)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EditRefusal> + Send + 'static,
) -> Result<T, EditRefusal> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(EditRefusal::Failed))
}
