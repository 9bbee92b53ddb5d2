//! `/v1/config`: changes of the configuration file, for callers with the scope `config:write`.
//!
//! Without a file, and with `[explorer] edit = false`, these paths do not exist. Values that may be
//! secrets are in no response.

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value, json};
use toolcrib_config::{
    Problem,
    edit::{Change, FileError, Hunk, MAX_CHANGES},
    scopes::RouteScope::ConfigWrite,
};
use toolcrib_gateway::{
    EditRefusal, Preview, PreviewError, Proposal, RoleReach, RuleProposal, authn::RoleGivers,
};
use utoipa::ToSchema;

use crate::{
    body,
    middleware::{Payload, Refusal},
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::FormDigest,
    },
};

/// The editable parts of the configuration file.
#[derive(Serialize, ToSchema)]
pub(super) struct EditableConfig {
    /// The name of the file.
    file: String,
    /// The SHA-256 of its text, for a change.
    hash: String,
    /// Why it cannot be written; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    obstacle: Option<String>,
    /// The sources, in the order of the file. Values that may be secrets are `***`.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    parts: Map<String, Value>,
}

/// A proposed change.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigProposal {
    /// The changes, in order.
    #[schema(value_type = Vec<ConfigChange>, min_items = 1, max_items = 32)]
    #[serde(deserialize_with = "changes")]
    changes: Vec<Change>,
    /// Connects new and changed sources to see their tools. For a source with `command` this starts a program on
    /// the server. Defaults to `false`.
    #[serde(default)]
    connect: Option<bool>,
}

/// A change to write.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigWriting {
    /// The changes, in order, as they were proposed.
    #[schema(value_type = Vec<ConfigChange>, min_items = 1, max_items = 32)]
    #[serde(deserialize_with = "changes")]
    changes: Vec<Change>,
    /// `before` of the proposal. The file must still have this text.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    hash: FormDigest,
}

/// One change.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "describes `Change`")]
pub(super) struct ConfigChange {
    /// `add`, `set` or `remove`.
    action: ConfigAction,
    /// The kind of thing to change.
    kind: ConfigNoun,
    /// The id of a source, the name of a role or toolset, or the glob of a rule.
    name: String,
    /// For a rule: the id of its source.
    source: Option<String>,
    /// The keys of the file with their values. With `set`, other keys stay, and `null` removes a key.
    #[schema(value_type = Option<Object>)]
    settings: Option<Value>,
    /// For a role: globs over wire names and tool ids. The role gets the scopes of these tools, in
    /// addition to `scopes`. Where it would reach other tools too, the change cannot be written.
    tools: Option<Vec<String>>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes `EditAction`")]
pub(super) enum ConfigAction {
    Add,
    Set,
    Remove,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes `ChangeKind`")]
pub(super) enum ConfigNoun {
    Source,
    Role,
    Toolset,
    Rule,
}

/// The effect of a change.
#[derive(Serialize, ToSchema)]
pub(super) struct ConfigEffect {
    /// The SHA-256 of the text that the change was made for.
    before: String,
    /// The SHA-256 of the proposed text.
    after: String,
    /// Whether it can be written.
    writable: bool,
    /// The changed lines, without values that may be secrets.
    #[schema(value_type = Vec<Object>)]
    diff: Vec<Hunk>,
    /// Why a server would not apply it.
    problems: Vec<ConfigProblem>,
    /// Probable mistakes.
    warnings: Vec<String>,
    /// For each role made from named tools: these, the other tools that it would reach, and changes
    /// with which it reaches only the named ones.
    #[schema(value_type = Vec<Object>)]
    reach: Vec<RoleReach>,
    /// For each added or changed role: whether the caller can give it to keys, and, for callers
    /// that may list the keys, other principals that can.
    #[schema(value_type = Vec<Object>)]
    givers: Vec<RoleGivers>,
    /// The tools that appear and disappear for each role in the caller's tenant; absent for a text with
    /// problems.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    preview: Option<Preview>,
    /// Why the file cannot be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    obstacle: Option<String>,
}

/// A problem of the proposed text.
#[derive(Serialize, ToSchema)]
pub(super) struct ConfigProblem {
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// The key, such as `source.files.command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    message: String,
}

/// A text in place.
#[derive(Serialize, ToSchema)]
pub(super) struct WrittenConfig {
    /// The SHA-256 of the text before.
    before: String,
    /// The SHA-256 of the text in place.
    after: String,
    /// The file next to it with the text before.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<String>,
}

/// Rules that fit the names, hints and descriptions of tools.
#[derive(Serialize, ToSchema)]
pub(super) struct RuleProposals {
    /// Each with its reason and the change of the file. No proposal is in force.
    #[schema(value_type = Vec<Object>)]
    proposals: Vec<RuleProposal>,
}

/// Reads the changes. An array in place of an object is rejected.
fn changes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Change>, D::Error> {
    let items = match Value::deserialize(deserializer)? {
        Value::Array(items) if (1..=MAX_CHANGES).contains(&items.len()) => items,
        _ => return Err(D::Error::custom("must be an array of 1 to 32 changes")),
    };
    let invalid = |_| {
        D::Error::custom(
            "must have objects with `action` (`add`, `set` or `remove`), `kind` (`source`, `role`, \
             `toolset` or `rule`), `name`, for a rule `source`, for a role `tools`, and `settings`",
        )
    };
    let read = |mut item: Value| {
        if !item.is_object() {
            return Err(invalid(()));
        }
        // Absent and null are the same, as in every body.
        if let Some(members) = item.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        serde_json::from_value(item).map_err(|_| invalid(()))
    };
    items.into_iter().map(read).collect()
}

/// Returns the sources, roles and toolsets as the configuration file has them, and its hash.
#[utoipa::path(
    get,
    path = "/v1/config",
    operation_id = "getConfig",
    responses(
        (status = 200, description = "The editable parts", body = EditableConfig),
        (status = 403, description = "The scope `config:write` is missing", body = ErrorEnvelope),
        (status = 404, description = "The configuration cannot be edited here", body = ErrorEnvelope),
    )
)]
pub(super) async fn get(context: Context) -> Result<Response, Failure> {
    require(&context)?;
    let file = context.gateway.config_file().map(|file| file.name()).unwrap_or_default();
    let (stored, obstacle, parts) = context.gateway.editable().await.map_err(refused)?;
    Ok(respond::json(StatusCode::OK, &EditableConfig { file, hash: stored.hash, obstacle, parts }))
}

/// Returns the effect of changes: the changed lines, problems, and the tools that appear and
/// disappear for each role. Writes no file.
#[utoipa::path(
    post,
    path = "/v1/config/propose",
    operation_id = "proposeConfig",
    request_body = ConfigProposal,
    responses(
        (status = 200, description = "The effect", body = ConfigEffect),
        (status = 403, description = "The scope `config:write` is missing", body = ErrorEnvelope),
        (status = 404, description = "The configuration cannot be edited here", body = ErrorEnvelope),
        (status = 409, description = "Another preview is connecting sources", body = ErrorEnvelope),
    )
)]
pub(super) async fn propose(
    context: Context,
    Payload(bytes): Payload,
) -> Result<Response, Failure> {
    require(&context)?;
    let ConfigProposal { changes, connect } = body::read(&bytes)?;
    let connect = connect.unwrap_or_default();
    let proposal = context.gateway.propose(&context.caller, changes, connect).await;
    let Proposal { before, after, diff, problems, warnings, reach, givers, preview, obstacle } =
        proposal.map_err(refused)?;
    let is_exact = reach.iter().all(|reach| reach.others.is_empty());
    Ok(respond::json(
        StatusCode::OK,
        &ConfigEffect {
            writable: problems.is_empty() && obstacle.is_none() && is_exact && before != after,
            before,
            after,
            diff,
            problems: problems.into_iter().map(ConfigProblem::from).collect(),
            warnings,
            reach,
            givers,
            preview,
            obstacle,
        },
    ))
}

/// Writes the configuration file with the changes, and keeps the text before next to it. The server
/// applies the file by itself within about a second. The change is recorded as `config.edited`.
#[utoipa::path(
    post,
    path = "/v1/config/write",
    operation_id = "writeConfig",
    request_body = ConfigWriting,
    responses(
        (status = 200, description = "The text is in place", body = WrittenConfig),
        (status = 403, description = "The scope `config:write` is missing", body = ErrorEnvelope),
        (status = 404, description = "The configuration cannot be edited here", body = ErrorEnvelope),
        (status = 409, description = "The file was changed since the proposal, or cannot be written", body = ErrorEnvelope),
    )
)]
pub(super) async fn write(context: Context, Payload(bytes): Payload) -> Result<Response, Failure> {
    require(&context)?;
    let ConfigWriting { changes, hash: FormDigest(hash) } = body::read(&bytes)?;
    let written = context.gateway.write_config(&context.caller, changes, &hash.to_string()).await;
    let written = written.map_err(refused)?;
    Ok(respond::json(
        StatusCode::OK,
        &WrittenConfig { before: written.before, after: written.after, backup: written.backup },
    ))
}

/// Proposes rules for tools of the caller's tenant without a rule: approval for tools that say they
/// delete something, and the tier `read` for those that say they only read. No rule is applied.
#[utoipa::path(
    get,
    path = "/v1/config/rules",
    operation_id = "proposeRules",
    responses(
        (status = 200, description = "The proposals", body = RuleProposals),
        (status = 403, description = "The scope `config:write` is missing", body = ErrorEnvelope),
        (status = 404, description = "The configuration cannot be edited here", body = ErrorEnvelope),
    )
)]
pub(super) async fn rules(context: Context) -> Result<Response, Failure> {
    require(&context)?;
    let (gateway, tenant) = (context.gateway.clone(), context.caller.tenant.clone());
    // Reads every tool.
    let proposals =
        tokio::task::spawn_blocking(move || gateway.supply().proposed_rules(Some(&tenant))).await;
    let proposals = proposals.map_err(|_| Refusal::Internal)?;
    Ok(respond::json(StatusCode::OK, &RuleProposals { proposals }))
}

/// Refuses a caller without the scope. If editing is not possible, the paths do not exist.
fn require(context: &Context) -> Result<(), Failure> {
    if context.gateway.config_file().is_none() {
        return Err(Failure::no_route());
    }
    Ok(context.require(ConfigWrite)?)
}

fn refused(refusal: EditRefusal) -> Failure {
    match refusal {
        EditRefusal::Absent => Failure::no_route(),
        EditRefusal::Change(error) => {
            let details = json!({ "change": error.change, "parameter": error.key });
            let place = error.key.as_ref().map(|key| format!("`{key}` ")).unwrap_or_default();
            Failure::invalid(format!("{place}{error}"), Some(details))
        }
        EditRefusal::Problems(problems) => {
            let problems: Vec<_> = problems.into_iter().map(ConfigProblem::from).collect();
            let message = "the changed configuration has problems; a server would not apply it";
            Failure::invalid(message, Some(json!({ "problems": problems })))
        }
        EditRefusal::Reach(ref reach) => {
            Failure::invalid(&refusal, Some(json!({ "others": reach.others })))
        }
        EditRefusal::File(FileError::Changed) => {
            Failure::conflict(FileError::Changed, Some(json!({ "changed": true })))
        }
        EditRefusal::File(error @ (FileError::Busy | FileError::Unsuitable(_))) => {
            Failure::conflict(error, None)
        }
        EditRefusal::File(error @ FileError::System { .. }) => {
            tracing::error!(%error, "the configuration file could not be changed");
            Failure::conflict(error, None)
        }
        EditRefusal::Preview(busy @ PreviewError::Busy) => Failure::conflict(busy, None),
        EditRefusal::Preview(PreviewError::Invalid(invalid)) => Failure::invalid(invalid, None),
        EditRefusal::Unrecorded => Refusal::Unavailable.into(),
        EditRefusal::Failed => Refusal::Internal.into(),
    }
}

impl From<Problem> for ConfigProblem {
    fn from(Problem { line, key, message, .. }: Problem) -> Self {
        Self { line, key, message }
    }
}
