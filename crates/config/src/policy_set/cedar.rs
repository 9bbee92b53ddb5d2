//! Reads and evaluates Cedar policies.
//!
//! Policies see only the entities and the context of `schema.cedarschema`.

use std::collections::HashSet;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName, EntityUid, Policy,
    PolicyId, Request, RestrictedExpression as Value, Schema, ValidationMode, Validator,
};
use miette::Diagnostic;
use toolcrib_core::{
    authorize::{CallContext, Resource, Subject},
    catalog::Entry,
    principal::PrincipalKey,
};

use super::{
    PolicyDecision, PolicyFile, PolicyProblem,
    shape::{InputShape, RoundShape, Shape, ShapeError},
};

/// The schema for policies without a configured schema.
const SCHEMA: &str = include_str!("schema.cedarschema");
/// Policies in all files; each one is evaluated at every call.
const MAX_POLICIES: usize = 500;
/// Reported problems of one file.
const MAX_PROBLEMS: usize = 20;

/// A checked set of policies.
#[derive(Debug)]
pub struct PolicySet {
    policies: cedar_policy::PolicySet,
    authorizer: Authorizer,
    types: Types,
    by_principal: bool,
}

/// The names of types of entities, parsed once.
#[derive(Debug)]
struct Types {
    tenant: EntityTypeName,
    principal: EntityTypeName,
    source: EntityTypeName,
    tool: EntityTypeName,
    sizes: EntityTypeName,
    call: EntityUid,
}

/// Why policies could not be evaluated.
#[derive(Debug, thiserror::Error)]
enum EvaluationError {
    #[error("the arguments have no shape: {0}")]
    Shapeless(#[from] ShapeError),
    #[error("the request could not be expressed in the types of the schema")]
    Inexpressible,
}

// === impl PolicySet ===

impl PolicySet {
    /// Reads `files` and validates them against `schema`, or against the built-in schema.
    ///
    /// # Errors
    /// Fails with every problem of the files.
    pub fn parse(
        files: &[PolicyFile],
        schema: Option<&PolicyFile>,
    ) -> Result<Self, Vec<PolicyProblem>> {
        let types = Types::new()
            .ok_or_else(|| vec![PolicyProblem::new("schema", None, "its types have no names")])?;
        let usual = PolicyFile { name: "schema".to_owned(), text: SCHEMA.to_owned() };
        let checked = read_schema(schema.unwrap_or(&usual)).map_err(|problem| vec![problem])?;
        if let Some(file) = schema {
            types.check(&checked).map_err(|why| {
                let message = format!(
                    "does not describe what policies are given here ({why}); start from the schema \
                     in the documentation of policies"
                );
                vec![PolicyProblem::new(&file.name, None, message)]
            })?;
        }
        let validator = Validator::new(checked);
        let mut policies = cedar_policy::PolicySet::new();
        let mut problems = Vec::new();
        for file in files {
            match read(file, &validator) {
                Ok(read) => {
                    if !read.into_iter().all(|policy| policies.add(policy).is_ok()) {
                        problems.push(PolicyProblem::new(&file.name, None, "is named twice"));
                    }
                }
                Err(found) => problems.extend(found),
            }
        }
        if policies.num_of_policies() > MAX_POLICIES {
            let message = format!("there are more than {MAX_POLICIES} policies in all");
            let file = files.last().map_or("", |file| &file.name);
            problems.push(PolicyProblem::new(file, None, message));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let by_principal = policies.policies().any(names_principals);
        Ok(Self { policies, authorizer: Authorizer::new(), types, by_principal })
    }

    /// The number of policies.
    pub fn len(&self) -> usize {
        self.policies.num_of_policies()
    }

    /// Whether the set is empty; then every call is denied.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Evaluates the policies for `call`, or for every possible call.
    /// Evaluates the policies for a call, or for every call without one.
    pub fn judge(
        &self,
        subject: Subject<'_>,
        resource: Resource<'_>,
        call: Option<CallContext<'_>>,
    ) -> PolicyDecision {
        self.evaluate(subject, resource, call).unwrap_or_else(|error| PolicyDecision {
            allowed: Some(false),
            by: Vec::new(),
            errors: vec![error.to_string()],
        })
    }

    /// Whether decisions can differ between principals of one tenant.
    /// Whether a policy names principals.
    pub fn is_principal_specific(&self) -> bool {
        self.by_principal
    }

    fn evaluate(
        &self,
        subject: Subject<'_>,
        resource: Resource<'_>,
        call: Option<CallContext<'_>>,
    ) -> Result<PolicyDecision, EvaluationError> {
        let types = &self.types;
        let principal = types.principal(subject);
        let tool = uid(&types.tool, resource.id.as_str());
        let mut entities = types.entities(subject, resource)?;
        let Some(call) = call else {
            let entities = collected(entities)?;
            let request = Request::builder()
                .principal(principal)
                .action(types.call.clone())
                .resource(tool)
                .build();
            return Ok(self.partially(&request, &entities));
        };
        let shape = InputShape::of(call.input)?;
        entities.push(types.sizes(&shape.arguments)?);
        let entities = collected(entities)?;
        let context = types.context(call.surface, &shape)?;
        let request = Request::new(principal, types.call.clone(), tool, context, None)
            .map_err(|_| EvaluationError::Inexpressible)?;
        let response = self.authorizer.is_authorized(&request, &self.policies, &entities);
        let errors: Vec<String> =
            response.diagnostics().errors().map(|error| first_line(&error.to_string())).collect();
        let allowed = response.decision() == Decision::Allow && errors.is_empty();
        let by = response.diagnostics().reason().map(ToString::to_string).collect();
        Ok(PolicyDecision { allowed: Some(allowed), by: sorted(by), errors })
    }

    /// Evaluates with an unknown context, for all calls together.
    fn partially(&self, request: &Request, entities: &Entities) -> PolicyDecision {
        let response = self.authorizer.is_authorized_partial(request, &self.policies, entities);
        // They would fail at every call, and each failure is a denial.
        let failed: Vec<String> = response.definitely_errored().map(ToString::to_string).collect();
        if !failed.is_empty() {
            let error = "cannot be evaluated for this tool and caller".to_owned();
            return PolicyDecision {
                allowed: Some(false),
                by: sorted(failed),
                errors: vec![error],
            };
        }
        let allowed = response.decision().map(|decision| decision == Decision::Allow);
        let by = match allowed {
            Some(_) => {
                response.definitely_satisfied().map(|policy| policy.id().to_string()).collect()
            }
            None => response.may_be_determining().map(|policy| policy.id().to_string()).collect(),
        };
        PolicyDecision { allowed, by: sorted(by), errors: Vec::new() }
    }
}

// === impl Types ===

impl Types {
    fn new() -> Option<Self> {
        let name = |text: &str| text.parse::<EntityTypeName>().ok();
        Some(Self {
            tenant: name("Tenant")?,
            principal: name("Principal")?,
            source: name("Source")?,
            tool: name("Tool")?,
            sizes: name("Sizes")?,
            call: uid(&name("Action")?, "call"),
        })
    }

    fn principal(&self, subject: Subject<'_>) -> EntityUid {
        let key =
            PrincipalKey { tenant: subject.tenant.clone(), principal: subject.principal.clone() };
        uid(&self.principal, &key.to_string())
    }

    fn entities(
        &self,
        subject: Subject<'_>,
        resource: Resource<'_>,
    ) -> Result<Vec<Entity>, EvaluationError> {
        let tenant = uid(&self.tenant, subject.tenant.as_str());
        let source = uid(&self.source, resource.source.as_str());
        let scopes = subject.scopes.iter().map(|grant| text(grant.as_str()));
        let of_principal = [
            ("id", text(subject.principal.as_str())),
            ("tenant", text(subject.tenant.as_str())),
            ("scopes", Value::new_set(scopes)),
        ];
        let tool = resource.tool;
        let required =
            tool.required_scopes().unwrap_or_default().iter().map(|scope| text(scope.as_str()));
        let of_tool = [
            ("toolId", text(resource.id.as_str())),
            ("name", text(resource.name)),
            ("source", text(resource.source.as_str())),
            ("kind", text(tool.source.as_str())),
            ("tier", text(&tool.safety_tier.to_string())),
            ("egress", text(&tool.egress.map(|egress| egress.to_string()).unwrap_or_default())),
            (
                "approval",
                text(&tool.approval.map(|approval| approval.to_string()).unwrap_or_default()),
            ),
            ("scopes", Value::new_set(required)),
        ];
        Ok(vec![
            entity(self.principal(subject), of_principal, [tenant.clone()])?,
            entity(tenant, [], [])?,
            entity(uid(&self.tool, resource.id.as_str()), of_tool, [source.clone()])?,
            entity(source, [], [])?,
        ])
    }

    /// The sizes of arguments by their names, which a record of a schema could not have.
    fn sizes(&self, shape: &Shape) -> Result<Entity, EvaluationError> {
        let sizes =
            shape.arguments.iter().map(|argument| (argument.name.clone(), number(argument.size)));
        Entity::new_with_tags(uid(&self.sizes, "call"), [], [], sizes)
            .map_err(|_| EvaluationError::Inexpressible)
    }

    fn context(&self, surface: &str, shape: &InputShape) -> Result<Context, EvaluationError> {
        let InputShape { arguments: shape, round } = shape;
        let names = shape.arguments.iter().map(|argument| text(&argument.name));
        let types = shape
            .arguments
            .iter()
            .map(|argument| text(&format!("{}:{}", argument.name, argument.kind)));
        let arguments = [
            ("kind", text(shape.kind)),
            ("names", Value::new_set(names)),
            ("types", Value::new_set(types)),
            ("sizes", Value::new_entity_uid(uid(&self.sizes, "call"))),
            ("count", number(u64::try_from(shape.arguments.len()).unwrap_or(u64::MAX))),
            ("bytes", number(shape.bytes)),
            ("depth", number(u64::from(shape.depth))),
        ];
        let arguments =
            Value::new_record(named(arguments)).map_err(|_| EvaluationError::Inexpressible)?;
        let RoundShape { is_further, responses, bytes } = round;
        let round = [
            ("isFurther", Value::new_bool(*is_further)),
            ("responses", Value::new_set(responses.iter().map(|name| text(name)))),
            ("bytes", number(*bytes)),
        ];
        let round = Value::new_record(named(round)).map_err(|_| EvaluationError::Inexpressible)?;
        let pairs = named([("surface", text(surface)), ("arguments", arguments), ("round", round)]);
        Context::from_pairs(pairs).map_err(|_| EvaluationError::Inexpressible)
    }

    /// Checks that `schema` has a place for every given value.
    fn check(&self, schema: &Schema) -> Result<(), String> {
        let unspeakable = |_: EvaluationError| "a sample could not be made".to_owned();
        let (tenant, scopes) = ("acme".parse(), toolcrib_core::scope::ScopeSet::default());
        let (Ok(tenant), Ok(principal), Ok(source)) =
            (tenant, "ann".parse(), "files".parse::<toolcrib_core::id::SourceId>())
        else {
            return Err("a sample could not be made".to_owned());
        };
        let subject = Subject { tenant: &tenant, scopes: &scopes, principal: &principal };
        let kind = toolcrib_core::descriptor::SourceKind::Mcp;
        let tier = toolcrib_core::descriptor::SafetyTier::Read;
        let entry = Entry::new(kind, &source, "read", tier).map_err(|error| error.to_string())?;
        let sample = serde_json::json!({ "path": "x" }).into();
        let shape = InputShape::of(&sample).map_err(|e| e.to_string())?;
        let mut entities = self.entities(subject, entry.resource()).map_err(unspeakable)?;
        entities.push(self.sizes(&shape.arguments).map_err(unspeakable)?);
        Entities::from_entities(entities, Some(schema)).map_err(|e| first_line(&e.to_string()))?;
        let context = self.context("mcp", &shape).map_err(unspeakable)?;
        let tool = uid(&self.tool, entry.id.as_str());
        Request::new(self.principal(subject), self.call.clone(), tool, context, Some(schema))
            .map(|_| ())
            .map_err(|error| first_line(&error.to_string()))
    }
}

// === reading ===

fn read_schema(file: &PolicyFile) -> Result<Schema, PolicyProblem> {
    let (schema, _warnings) = Schema::from_cedarschema_str(&file.text).map_err(|error| {
        let line = line_of(&error, &file.text);
        PolicyProblem::new(&file.name, line, first_line(&error.to_string()))
    })?;
    Ok(schema)
}

/// The policies of one file under their names.
fn read(file: &PolicyFile, validator: &Validator) -> Result<Vec<Policy>, Vec<PolicyProblem>> {
    let problem = |line: Option<usize>, message: &str| {
        PolicyProblem::new(&file.name, line, first_line(message))
    };
    let parsed: cedar_policy::PolicySet =
        file.text.parse().map_err(|errors: cedar_policy::ParseErrors| {
            let shown = errors.iter().take(MAX_PROBLEMS);
            shown
                .map(|error| problem(line_of(error, &file.text), &error.to_string()))
                .collect::<Vec<_>>()
        })?;
    if parsed.num_of_templates() > 0 {
        return Err(vec![problem(
            None,
            "has a template (`?principal`, `?resource`), but templates are not supported",
        )]);
    }
    let checked = validator.validate(&parsed, ValidationMode::Strict);
    let problems: Vec<PolicyProblem> = checked
        .validation_errors()
        .take(MAX_PROBLEMS)
        .map(|error| problem(line_of(error, &file.text), &plain(&error.to_string())))
        .collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut found: Vec<(usize, &Policy)> =
        parsed.policies().filter_map(|policy| Some((number_of(policy.id())?, policy))).collect();
    found.sort_by_key(|(number, _)| *number);
    let mut from = 0;
    let named = found.into_iter().map(|(_, policy)| {
        // A policy contains its own text, and the texts follow each other.
        let text = policy.to_string();
        let at = file.text.get(from..).and_then(|rest| rest.find(&text)).map(|at| from + at);
        from = at.map_or(from, |at| at + text.len());
        let place = match at {
            Some(at) => format!("{}:{}", file.name, place_of(&file.text, at)),
            None => format!("{} {}", file.name, policy.id()),
        };
        let name = policy.annotation("id").filter(|id| !id.is_empty());
        let name = name.map_or_else(|| place.clone(), |id| format!("{id} ({place})"));
        policy.new_id(PolicyId::new(name))
    });
    Ok(named.collect())
}

/// The position of a policy, such as 7 for `policy7`.
fn number_of(id: &PolicyId) -> Option<usize> {
    let id: &str = id.as_ref();
    id.strip_prefix("policy")?.parse().ok()
}

/// Whether the decision of the policy can depend on the principal in addition to its tenant and
/// scopes: it names a principal, or reads the attribute `id` of any entity.
fn names_principals(policy: &Policy) -> bool {
    // A policy that cannot be inspected counts as naming principals.
    policy.to_json().map_or(true, |json| mentions(&json))
}

fn mentions(json: &serde_json::Value) -> bool {
    match json {
        serde_json::Value::String(text) => text == "Principal" || text == "id",
        serde_json::Value::Array(items) => items.iter().any(mentions),
        serde_json::Value::Object(members) => members.values().any(mentions),
        _ => false,
    }
}

fn line_of(error: &dyn Diagnostic, text: &str) -> Option<usize> {
    let label = error.labels()?.next()?;
    Some(line_at(text, label.offset()))
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// The line, and the column if the policy is not the first one of its line.
fn place_of(text: &str, offset: usize) -> String {
    let line = line_at(text, offset);
    let before = text.get(..offset).unwrap_or_default();
    match before.rsplit('\n').next().unwrap_or_default() {
        indent if indent.trim().is_empty() => line.to_string(),
        other => format!("{line}:{}", other.len() + 1),
    }
}

/// Removes the internal name of a policy from the message.
fn plain(message: &str) -> String {
    let rest = message.strip_prefix("for policy `").and_then(|rest| rest.split_once("`, "));
    rest.map_or(message, |(_, rest)| rest).to_owned()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(400).collect()
}

// === values ===

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

fn entity<const A: usize, const P: usize>(
    uid: EntityUid,
    attributes: [(&str, Value); A],
    parents: [EntityUid; P],
) -> Result<Entity, EvaluationError> {
    let parents: HashSet<EntityUid> = parents.into();
    Entity::new(uid, named(attributes).collect(), parents)
        .map_err(|_| EvaluationError::Inexpressible)
}

fn collected(entities: Vec<Entity>) -> Result<Entities, EvaluationError> {
    Entities::from_entities(entities, None).map_err(|_| EvaluationError::Inexpressible)
}

fn named<const N: usize>(pairs: [(&str, Value); N]) -> impl Iterator<Item = (String, Value)> {
    pairs.map(|(name, value)| (name.to_owned(), value)).into_iter()
}

fn text(text: &str) -> Value {
    Value::new_string(text.to_owned())
}

fn number(number: u64) -> Value {
    Value::new_long(i64::try_from(number).unwrap_or(i64::MAX))
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}
