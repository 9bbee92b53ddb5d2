//! Type checks of workflows, as far as schemas decide them: a literal that the tool would reject, a
//! text instead of a number, or an unknown member.
//!
//! Undecidable cases pass, because the pipeline validates every call anyway.

use serde_json::Value;
use toolcrib_core::arguments::ArgumentCheck;

use crate::workflow_definition::{
    plan::{Iteration, Plan, Step, Test},
    template::{MissingValueRule, Reference, Root, Template},
};

/// The known facts about the values at a place.
#[derive(Debug, Clone, Copy)]
enum ValueFacts<'a> {
    Schema(&'a Value),
    /// The value has one of these types.
    Types(Types),
    Nothing,
    /// The value is always absent.
    Absent,
}

/// A set of JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Types(u8);

const NAMES: [&str; 7] = ["null", "boolean", "object", "array", "string", "integer", "number"];

/// The schemas of the tools of steps.
pub(crate) struct Schemas<'a> {
    /// The workflow's inputs.
    pub(crate) inputs: &'a Value,
    /// The output schema of each step's tool.
    pub(crate) outputs: Vec<Option<Value>>,
}

/// A problem and its place, below the step.
pub(crate) type Problems = Vec<(String, String)>;

// === inputs ===

/// Finds references to undeclared inputs, and to inputs that a caller may omit.
pub(super) fn check_inputs(plan: &Plan) -> Vec<String> {
    let mut problems = Vec::new();
    for (place, reference) in plan.of_inputs() {
        let Some(name) = reference.pointer.split('/').nth(1) else { continue };
        let name = name.replace("~1", "/").replace("~0", "~");
        let declared =
            plan.inputs.get("properties").and_then(|properties| properties.get(&name)).is_some();
        if !declared {
            problems.push(format!("{place}: {} is not declared in `inputs`", reference.typed));
            continue;
        }
        let required = plan.inputs.get("required").and_then(Value::as_array);
        let required = required.is_some_and(|all| all.iter().any(|member| *member == *name));
        let tested = plan.steps.iter().any(|step| {
            let when = step.when.as_ref();
            when.is_some_and(|when| std::ptr::eq(&when.reference, reference))
                || (place == format!("step `{}`", step.id) && is_guarded(step, reference))
        });
        if reference.absent == MissingValueRule::Fails && !required && !tested {
            problems.push(format!(
                "{place}: {} may be absent; list it in `required` of `inputs`, or give the \
                 reference a `default` or `optional: true`",
                reference.typed
            ));
        }
    }
    problems
}

/// Whether the step only runs if `reference` has a value.
fn is_guarded(step: &Step, reference: &Reference) -> bool {
    step.when.as_ref().is_some_and(|when| {
        let same = when.reference.root == reference.root
            && when.reference.pointer.starts_with(&reference.pointer);
        same && matches!(&when.test, Test::Exists(true) | Test::Equals(_))
    })
}

// === arguments ===

/// Finds the arguments of a step that its tool would reject.
pub(super) fn check_step(
    step: &Step,
    check: &ArgumentCheck,
    schema: Option<&Value>,
    schemas: &Schemas<'_>,
) -> Problems {
    let mut problems = Vec::new();
    let item = step.each.as_ref().map(|each| check_each(each, schemas, &mut problems));
    let item = item.unwrap_or(ValueFacts::Nothing);
    if let Template::Literal(arguments) = &step.arguments {
        for violation in check.check(arguments).err().unwrap_or_default() {
            problems.push((violation.pointer, violation.message));
        }
        return problems;
    }
    for reference in step.arguments.references() {
        if matches!(known(reference, item, schemas), ValueFacts::Absent) {
            let message = format!("{} never exists", reference.typed);
            problems.push((String::new(), message));
        }
    }
    if let Some(schema) = schema {
        check_template(&step.arguments, schema, "", item, schemas, &mut problems);
    }
    problems
}

fn check_each<'a>(
    each: &Iteration,
    schemas: &'a Schemas<'_>,
    problems: &mut Problems,
) -> ValueFacts<'a> {
    let over = known(&each.over, ValueFacts::Nothing, schemas);
    if !types_of_known(over).meets(Types::of("array")) {
        problems.push(("for_each".to_owned(), format!("{} is not an array", each.over.typed)));
    }
    match over {
        ValueFacts::Schema(schema) => {
            schema.get("items").map_or(ValueFacts::Nothing, ValueFacts::Schema)
        }
        ValueFacts::Types(_) | ValueFacts::Nothing | ValueFacts::Absent => ValueFacts::Nothing,
    }
}

fn check_template(
    template: &Template,
    schema: &Value,
    place: &str,
    item: ValueFacts<'_>,
    schemas: &Schemas<'_>,
    problems: &mut Problems,
) {
    if is_opaque(schema) {
        return;
    }
    let wanted = Types::of_schema(schema);
    let given = match template {
        Template::Literal(value) => {
            if let Ok(check) = ArgumentCheck::compile(Some(schema)) {
                for violation in check.check(value).err().unwrap_or_default() {
                    problems.push((format!("{place}{}", violation.pointer), violation.message));
                }
            }
            return;
        }
        Template::Reference(reference) => {
            if let MissingValueRule::Default(value) = &reference.absent {
                let literal = Template::Literal(value.clone());
                check_template(&literal, schema, place, item, schemas, problems);
            }
            types_of_known(known(reference, item, schemas))
        }
        Template::Text(_) => Types::of("string"),
        Template::Array(_) => Types::of("array"),
        Template::Object(_) => Types::of("object"),
    };
    if !given.meets(wanted) {
        problems.push((
            place.to_owned(),
            format!("would be {}, and the tool takes {}", given.words(), wanted.words()),
        ));
        return;
    }
    match template {
        Template::Array(items) => {
            if let Some(schema) =
                schema.get("items").filter(|_| schema.get("prefixItems").is_none())
            {
                for (index, template) in items.iter().enumerate() {
                    let place = format!("{place}/{index}");
                    check_template(template, schema, &place, item, schemas, problems);
                }
            }
        }
        Template::Object(members) => {
            check_members(members, schema, place, item, schemas, problems);
        }
        Template::Literal(_) | Template::Reference(_) | Template::Text(_) => {}
    }
}

fn check_members(
    members: &[(String, Template)],
    schema: &Value,
    place: &str,
    item: ValueFacts<'_>,
    schemas: &Schemas<'_>,
    problems: &mut Problems,
) {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        match members.iter().find(|(member, _)| member == name) {
            None => problems.push((format!("{place}/{name}"), "is missing".to_owned())),
            Some((_, Template::Reference(reference)))
                if reference.absent == MissingValueRule::Omitted =>
            {
                problems.push((
                    format!("{place}/{name}"),
                    "is required by the tool; give the reference a `default` instead of `optional`"
                        .to_owned(),
                ))
            }
            Some(_) => {}
        }
    }
    let properties = schema.get("properties");
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema.get("patternProperties").is_none();
    for (name, template) in members {
        let place = format!("{place}/{name}");
        match properties.and_then(|properties| properties.get(name)) {
            Some(schema) => check_template(template, schema, &place, item, schemas, problems),
            None if closed => problems.push((place, "the tool does not take this".to_owned())),
            None => {}
        }
    }
}

/// Whether `schema` refers to other documents, so that it cannot be evaluated alone.
fn is_opaque(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.contains_key("$ref")
                || members.contains_key("$dynamicRef")
                || members.values().any(is_opaque)
        }
        Value::Array(items) => items.iter().any(is_opaque),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

// === facts ===

fn known<'a>(
    reference: &Reference,
    item: ValueFacts<'a>,
    schemas: &'a Schemas<'_>,
) -> ValueFacts<'a> {
    let root = match reference.root {
        Root::Inputs => ValueFacts::Schema(schemas.inputs),
        Root::Result(step) => match schemas.outputs.get(step) {
            Some(Some(schema)) => ValueFacts::Schema(schema),
            Some(None) | None => ValueFacts::Nothing,
        },
        Root::Text(_) | Root::Status(_) => ValueFacts::Types(Types::of("string")),
        Root::Index => ValueFacts::Types(Types::of("integer")),
        Root::Item => item,
    };
    reference.pointer.split('/').skip(1).fold(root, descend)
}

fn descend<'a>(known: ValueFacts<'a>, token: &str) -> ValueFacts<'a> {
    let schema = match known {
        ValueFacts::Schema(schema) => schema,
        ValueFacts::Types(_) | ValueFacts::Absent => return ValueFacts::Absent,
        ValueFacts::Nothing => return ValueFacts::Nothing,
    };
    let Some(members) = schema.as_object() else { return ValueFacts::Nothing };
    let elsewhere = ["$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "if", "patternProperties"];
    if elsewhere.iter().any(|key| members.contains_key(*key)) {
        return ValueFacts::Nothing;
    }
    let types = Types::of_schema(schema);
    let name = token.replace("~1", "/").replace("~0", "~");
    if let Some(schema) = members.get("properties").and_then(|properties| properties.get(&name)) {
        return ValueFacts::Schema(schema);
    }
    let closed = members.get("additionalProperties") == Some(&Value::Bool(false));
    let object_only = !types.meets(Types::of("array"));
    if !types.meets(Types::of("object").or(Types::of("array"))) || (closed && object_only) {
        return ValueFacts::Absent;
    }
    match members.get("items") {
        Some(items) if token.bytes().all(|b| b.is_ascii_digit()) => ValueFacts::Schema(items),
        Some(_) | None => ValueFacts::Nothing,
    }
}

fn types_of_known(known: ValueFacts<'_>) -> Types {
    match known {
        ValueFacts::Schema(schema) => Types::of_schema(schema),
        ValueFacts::Types(types) => types,
        ValueFacts::Nothing | ValueFacts::Absent => Types::ANY,
    }
}

impl Types {
    const ANY: Self = Self(0x7f);

    fn of(name: &str) -> Self {
        match NAMES.iter().position(|candidate| *candidate == name) {
            // A number may be an integer.
            Some(6) => Self(0b110_0000),
            Some(at) => Self(1 << at),
            None => Self::ANY,
        }
    }

    fn of_value(value: &Value) -> Self {
        Self::of(toolcrib_core::json::kind(value))
    }

    fn of_schema(schema: &Value) -> Self {
        let any_of = |values: &[Value], of: fn(&Value) -> Self| {
            values.iter().map(of).fold(Self(0), Self::or)
        };
        match schema.get("type") {
            Some(Value::String(name)) => return Self::of(name),
            Some(Value::Array(names)) => {
                return any_of(names, |name| Self::of(name.as_str().unwrap_or_default()));
            }
            Some(_) | None => {}
        }
        if let Some(value) = schema.get("const") {
            return Self::of_value(value);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return any_of(values, Self::of_value);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(schemas) = schema.get(key).and_then(Value::as_array) {
                return any_of(schemas, Self::of_schema);
            }
        }
        Self::ANY
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn words(self) -> String {
        let has = |at: usize| self.0 & (1 << at) != 0;
        let names = NAMES.iter().enumerate().filter(|(at, name)| {
            // For "integer or number", the second is enough.
            has(*at) && !(**name == "integer" && has(6))
        });
        names.map(|(_, name)| *name).collect::<Vec<_>>().join(" or ")
    }
}

// === outputs ===

/// The facts about the result of a step, from the output schema of its tool.
pub(super) fn output_of(step: &Step, tool: Option<&Value>) -> Option<Value> {
    let each = serde_json::json!({ "type": "array" });
    match (&step.each, tool) {
        (None, tool) => tool.cloned(),
        (Some(_), None) => Some(each),
        (Some(_), Some(tool)) if is_opaque(tool) => Some(each),
        // With `continue`, failed items are null.
        (Some(_), Some(tool)) => {
            let item = serde_json::json!({ "anyOf": [tool, { "type": "null" }] });
            Some(serde_json::json!({ "type": "array", "items": item }))
        }
    }
}

/// The output schema of a workflow: its outputs by name, with the known facts of each.
pub(super) fn answer_schema(plan: &Plan, schemas: &Schemas<'_>) -> Value {
    let mut properties = serde_json::Map::new();
    let mut add = |name: &str, types: Option<Types>| {
        let mut schema = serde_json::Map::new();
        if let Some(types) = types.filter(|types| *types != Types::ANY) {
            let name = types.words();
            if NAMES.contains(&&*name) {
                schema.insert("type".to_owned(), Value::String(name));
            }
        }
        properties.insert(name.to_owned(), Value::Object(schema));
    };
    match &plan.outputs {
        Template::Object(members) => {
            for (name, member) in members {
                let types = match member {
                    Template::Literal(value) => Types::of_value(value),
                    Template::Reference(reference)
                        if reference.absent != MissingValueRule::Fails =>
                    {
                        Types::ANY
                    }
                    Template::Reference(reference) => {
                        types_of_known(known(reference, ValueFacts::Nothing, schemas))
                    }
                    Template::Text(_) => Types::of("string"),
                    Template::Array(_) => Types::of("array"),
                    Template::Object(_) => Types::of("object"),
                };
                add(name, Some(types));
            }
        }
        Template::Literal(Value::Object(members)) => {
            members.iter().for_each(|(name, value)| add(name, Some(Types::of_value(value))));
        }
        Template::Literal(_) | Template::Reference(_) | Template::Text(_) | Template::Array(_) => {}
    }
    serde_json::json!({ "type": "object", "properties": properties })
}
