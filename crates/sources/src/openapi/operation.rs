//! One operation as a tool: its name, its arguments and its output schema.
//!
//! Arguments are one flat object: each parameter under its name, and `body`. If a name is taken,
//! the location is appended: `id_query`. Two locations may have a parameter of the same name, and a
//! parameter may be called `body`.
//!
//! Invariant: the arguments of an operation and their names depend only on the document and the
//! configured headers.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    body::{Body, is_json},
    document::{Document, ReferenceError, Unusable, flag, list, text},
    encode::Style,
    resolve::{Bundle, Direction, plain_name, size},
};
use crate::egress::CONNECTION_HEADERS;

/// The methods of a path, in the order of the specification.
pub(super) const METHODS: &[&str] =
    &["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Longest name of an argument before it is made unique; model providers accept 64 characters.
const MAX_ARGUMENT: usize = 48;
/// Largest number of parameters of one operation.
const MAX_PARAMETERS: usize = 200;
/// Characters of a name that is derived from method and path.
const MAX_NAME: usize = 160;

/// Headers that no argument sets, in addition to those of the connection. The specification says that a
/// document cannot describe the first two.
const OURS: [&str; 5] = ["accept", "content-type", "keep-alive", "proxy-connection", "trailer"];

/// An operation that can be called.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) name: String,
    /// Upper case.
    pub(super) method: String,
    /// With `{name}` as the placeholder of a parameter.
    pub(super) path: String,
    /// The `servers` of the operation, before variables are filled in.
    pub(super) servers: Option<Value>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) input: Value,
    pub(super) output: Option<Value>,
}

/// An operation of the document that has not been read.
pub(super) struct Candidate<'d> {
    pub(super) name: String,
    pub(super) method: &'static str,
    pub(super) path: &'d str,
    pub(super) item: &'d Value,
    pub(super) described: &'d Value,
}

/// A parameter and its serialization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parameter {
    /// The name of the argument.
    pub(super) argument: String,
    /// The name that the service uses.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) style: Style,
    pub(super) explode: bool,
    /// Whether reserved URL characters are left unescaped.
    pub(super) reserved: bool,
    /// Whether its numbers are integers, which services read in plain digits.
    pub(super) integers: bool,
}

/// The location of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

const PLACES: [(&str, Place); 4] = [
    ("path", Place::Path),
    ("query", Place::Query),
    ("header", Place::Header),
    ("cookie", Place::Cookie),
];

/// The settings shared by all operations of a source.
pub(super) struct ReadingContext<'d> {
    pub(super) document: &'d Document,
    /// Byte limit for the schemas of one tool; the input schema takes precedence.
    pub(super) share: usize,
    /// Lower-case names of configured headers, which no argument can set.
    pub(super) configured: &'d HashSet<String>,
}

/// Returns the name of an operation without `operationId`: `GET /pets/{petId}` is `get_pets_petId`.
pub(super) fn derived_name(method: &str, path: &str) -> String {
    let mut name = method.to_ascii_lowercase();
    for part in path.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.') {
        if !part.is_empty() {
            name.push('_');
            name.push_str(part);
        }
    }
    name.chars().take(MAX_NAME).collect()
}

impl Operation {
    pub(super) fn read(
        reading: &ReadingContext<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<Self, Unusable> {
        let Candidate { name, method, path, item, described } = candidate;
        // Some documents distinguish operations of one path by a fragment, which is not sent.
        let path = path.split('#').next().unwrap_or_default();
        check_path(path)?;
        let document = reading.document;
        let body = match described.get("requestBody") {
            Some(body) => Body::read(document, document.follow(body)?)?,
            None => None,
        };
        let found = parameters(reading, item, described)?;
        let mut bundle = Bundle::new(document, Direction::Request, reading.share);
        let mut taken = HashSet::new();
        if body.is_some() {
            taken.insert("body".to_owned());
        }
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let mut parameters = Vec::with_capacity(found.len());
        for mut found in found {
            let argument = free_name(&found.parameter, &taken);
            taken.insert(argument.clone());
            if found.required {
                required.push(Value::String(argument.clone()));
            }
            let schema = described_schema(&mut bundle, found.schema, found.description)?;
            properties.insert(argument.clone(), schema);
            found.parameter.argument = argument;
            parameters.push(found.parameter);
        }
        for placeholder in placeholders(path) {
            let fills = |p: &Parameter| p.place == Place::Path && p.name == placeholder;
            if !parameters.iter().any(fills) {
                return Err(Unusable::new("its path has a placeholder that no parameter fills"));
            }
        }
        if let Some(body) = &body {
            if body.required {
                required.push(json!("body"));
            }
            let schema = described_schema(&mut bundle, &body.schema, body.description.as_deref())?;
            properties.insert("body".to_owned(), schema);
        }
        let mut input = Map::new();
        input.insert("type".to_owned(), json!("object"));
        input.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            input.insert("required".to_owned(), Value::Array(required));
        }
        input.insert("additionalProperties".to_owned(), Value::Bool(false));
        let input = Value::Object(bundle.add_definitions(input)?);
        let trimmed = |key: &str| {
            let text = text(described, key).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let title = trimmed("summary");
        let servers = described.get("servers").or_else(|| item.get("servers"));
        let left = reading.share.saturating_sub(size(&input));
        Ok(Self {
            name: name.clone(),
            method: method.to_ascii_uppercase(),
            path: (*path).to_owned(),
            servers: servers.filter(|servers| !list(servers).is_empty()).cloned(),
            parameters,
            body,
            description: trimmed("description").or_else(|| title.clone()),
            title,
            input,
            // The output schema is optional: a call does not need it.
            output: output(reading.document, left, described).unwrap_or_default(),
        })
    }

    /// Returns the size of its schemas in bytes.
    pub(super) fn schema_bytes(&self) -> usize {
        size(&self.input) + self.output.as_ref().map_or(0, size)
    }
}

struct ParameterEntry<'d> {
    parameter: Parameter,
    required: bool,
    schema: &'d Value,
    description: Option<&'d str>,
}

/// Returns the parameters that arguments fill: those of the operation, then those of the path item
/// that it does not override. They are sorted by location, in document order.
fn parameters<'d>(
    reading: &ReadingContext<'d>,
    item: &'d Value,
    described: &'d Value,
) -> Result<Vec<ParameterEntry<'d>>, Unusable> {
    let mut found: Vec<ParameterEntry<'d>> = Vec::new();
    for holder in [described, item] {
        let listed = holder.get("parameters");
        if listed.is_some_and(|listed| !listed.is_array()) {
            return Err(Unusable::new("its parameters are not a list"));
        }
        for parameter in listed.map(list).unwrap_or_default() {
            let Some(read) = parameter_of(reading, parameter)? else { continue };
            let same = |other: &ParameterEntry<'_>| {
                other.parameter.name == read.parameter.name
                    && other.parameter.place == read.parameter.place
            };
            if found.iter().any(same) {
                continue;
            }
            if found.len() == MAX_PARAMETERS {
                return Err(Unusable::new(format!("it has more than {MAX_PARAMETERS} parameters")));
            }
            found.push(read);
        }
    }
    found.sort_by_key(|found| found.parameter.place);
    Ok(found)
}

/// Reads a parameter. Returns `None` when arguments cannot set it.
fn parameter_of<'d>(
    reading: &ReadingContext<'d>,
    parameter: &'d Value,
) -> Result<Option<ParameterEntry<'d>>, Unusable> {
    const ANY: &Value = &Value::Bool(true);
    let described = reading.document.follow(parameter)?;
    let name = text(described, "name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Unusable::new("a parameter has no name"))?;
    let place = PLACES.iter().find(|(name, _)| text(described, "in") == Some(name));
    let Some(&(_, place)) = place else {
        return Err(Unusable::new("a parameter has an unknown location"));
    };
    if place == Place::Header {
        let lower = name.to_ascii_lowercase();
        let is_ours = [&OURS[..], &CONNECTION_HEADERS].concat().contains(&lower.as_str());
        if is_ours || reading.configured.contains(&lower) {
            return Ok(None);
        }
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            let problem = "the name of a header parameter contains invalid characters";
            return Err(Unusable::new(problem));
        }
    }
    let content = described.get("content").and_then(Value::as_object);
    let (schema, style) = match content.and_then(|content| content.iter().next()) {
        Some((_, media)) => {
            let media = reading.document.follow(media)?;
            (media.get("schema").unwrap_or(ANY), Style::Json)
        }
        None => {
            let style = style(place, text(described, "style")).ok_or_else(|| {
                Unusable::new("a parameter has a style that is invalid at its location")
            })?;
            (described.get("schema").unwrap_or(ANY), style)
        }
    };
    let explode = flag(described, "explode").unwrap_or(style == Style::Form);
    let parameter = Parameter {
        argument: String::new(),
        name: name.to_owned(),
        place,
        style,
        explode,
        reserved: flag(described, "allowReserved").unwrap_or(false),
        integers: style != Style::Json && has_integers(reading.document, schema)?,
    };
    let required = place == Place::Path || flag(described, "required").unwrap_or(false);
    Ok(Some(ParameterEntry {
        parameter,
        required,
        schema,
        description: text(described, "description"),
    }))
}

/// Returns whether a schema is that of an integer, or of a list of them.
fn has_integers(document: &Document, schema: &Value) -> Result<bool, ReferenceError> {
    let schema = document.follow(schema)?;
    let is = |schema: &Value, name: &str| match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|it| it == name),
        one => one.is_some_and(|it| it == name),
    };
    match schema.get("items") {
        Some(items) if is(schema, "array") => Ok(is(document.follow(items)?, "integer")),
        _ => Ok(is(schema, "integer") && !is(schema, "number")),
    }
}

fn style(place: Place, name: Option<&str>) -> Option<Style> {
    Some(match (place, name) {
        (Place::Path | Place::Header, None | Some("simple")) => Style::Simple,
        (Place::Path, Some("label")) => Style::Label,
        (Place::Path, Some("matrix")) => Style::Matrix,
        (Place::Query, None | Some("form")) => Style::Form,
        (Place::Query, Some("spaceDelimited")) => Style::Spaces,
        (Place::Query, Some("pipeDelimited")) => Style::Pipes,
        (Place::Query, Some("deepObject")) => Style::Deep,
        (Place::Cookie, None | Some("form" | "cookie")) => Style::Form,
        _ => return None,
    })
}

/// Returns a name for the argument that model providers accept, which refuse all tools of a request
/// because of one other name: at most 64 characters of `[A-Za-z0-9_.-]`.
fn free_name(parameter: &Parameter, taken: &HashSet<String>) -> String {
    let plain = plain_name(&parameter.name);
    let plain = match plain == parameter.name {
        true => plain,
        false => plain.trim_matches('_').to_owned(),
    };
    let plain: String = plain.chars().take(MAX_ARGUMENT).collect();
    let plain = if plain.is_empty() { "value".to_owned() } else { plain };
    if !taken.contains(&plain) {
        return plain;
    }
    let place = PLACES.iter().find(|(_, place)| *place == parameter.place);
    let place = place.map_or("", |(name, _)| name);
    let mut name = format!("{plain}_{place}");
    while taken.contains(&name) {
        name.push('_');
    }
    name
}

/// Returns a schema with `description` added, unless it already has one.
fn described_schema(
    bundle: &mut Bundle<'_>,
    schema: &Value,
    description: Option<&str>,
) -> Result<Value, ReferenceError> {
    let mut schema = bundle.schema(schema)?;
    let Some(text) = description.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(schema);
    };
    if schema == Value::Bool(true) {
        schema = Value::Object(Map::new());
    }
    if let Some(members) = schema.as_object_mut()
        && !members.contains_key("description")
    {
        members.insert("description".to_owned(), Value::String(text.to_owned()));
    }
    Ok(schema)
}

/// Returns the output schema, if all successful responses have the same one.
fn output(
    document: &Document,
    share: usize,
    described: &Value,
) -> Result<Option<Value>, ReferenceError> {
    let Some(responses) = described.get("responses").and_then(Value::as_object) else {
        return Ok(None);
    };
    let mut only = None;
    for (status, response) in responses {
        if !status.starts_with('2') {
            continue;
        }
        let response = document.follow(response)?;
        let content = response.get("content").and_then(Value::as_object);
        let schema =
            content.and_then(|content| match content.iter().collect::<Vec<_>>().as_slice() {
                [(kind, media)] if is_json(kind) => Some(*media),
                _ => None,
            });
        let schema = schema.map(|media| document.follow(media)).transpose()?;
        let schema = schema.and_then(|media| media.get("schema"));
        match (schema, only) {
            (None, _) => return Ok(None),
            (Some(schema), None) => only = Some(schema),
            (Some(schema), Some(other)) if schema == other => {}
            (Some(_), Some(_)) => return Ok(None),
        }
    }
    let Some(schema) = only else { return Ok(None) };
    let mut bundle = Bundle::new(document, Direction::Answer, share);
    let Value::Object(root) = bundle.schema(schema)? else { return Ok(None) };
    Ok(Some(Value::Object(bundle.add_definitions(root)?)))
}

/// Returns the placeholders of a path.
pub(super) fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

fn check_path(path: &str) -> Result<(), Unusable> {
    let dots = |segment: &str| matches!(segment, "." | "..");
    let problem = if !path.starts_with('/') {
        "its path does not begin with `/`"
    } else if path.contains('\\') || path.chars().any(char::is_control) {
        "its path contains invalid characters"
    } else if path.split('/').any(dots) || path.to_ascii_lowercase().contains("%2e") {
        "its path leads upwards"
    } else {
        return Ok(());
    };
    Err(Unusable::new(problem))
}
