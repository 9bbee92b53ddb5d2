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
    body::{Body, BodyEntry},
    composition::Composition,
    document::{Document, Node, OperationProblem, ReferenceError},
    encode::Style,
    form::{Fields, Form, FormKind},
    integers::Integers,
    media_type::{BodyKind, is_json, kind},
    resolve::{Bundle, Direction, plain_name, size},
};
use crate::{egress::CONNECTION_HEADERS, text::tidy};

/// The methods of a path, in the order of the specification.
pub(super) const METHODS: &[&str] =
    &["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "QUERY"];

/// Longest name of an argument that model providers accept, in characters.
const MAX_ARGUMENT: usize = 64;
/// Longest name of an argument before it is made unique.
const MAX_CHANGED: usize = 48;
/// Largest number of parameters of one operation.
const MAX_PARAMETERS: usize = 200;
/// Characters of a name derived from method and path.
const MAX_NAME: usize = 160;

/// Headers that no argument sets, in addition to those of the connection. The specification says
/// that a document cannot describe the first two.
const OURS: [&str; 5] = ["accept", "content-type", "keep-alive", "proxy-connection", "trailer"];

/// An operation that can be called.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) name: String,
    /// The method as it is sent.
    pub(super) method: String,
    /// The path, with `{name}` as the placeholder of a parameter.
    pub(super) path: String,
    /// The `servers` of the operation, before variables are filled in.
    pub(super) servers: Option<Value>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) input: Value,
    pub(super) output: Option<Value>,
    /// Parts of the description that calls do not follow.
    pub(super) notes: Vec<String>,
}

/// An operation of the document, not yet read.
pub(super) struct Candidate<'d> {
    pub(super) name: String,
    /// The method as it is sent.
    pub(super) method: &'d str,
    pub(super) path: &'d str,
    /// The path item, and the ones that it refers to.
    pub(super) items: Vec<Node<'d>>,
    pub(super) described: Node<'d>,
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
    #[serde(skip_serializing_if = "Integers::is_none")]
    pub(super) integers: Integers,
    /// The fields of a query string with a form.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    pub(super) fields: Fields,
}

/// The location of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Place {
    Path,
    Query,
    /// The whole query.
    QueryString,
    Header,
    Cookie,
}

const PLACES: [(&str, Place); 5] = [
    ("path", Place::Path),
    ("query", Place::Query),
    ("querystring", Place::QueryString),
    ("header", Place::Header),
    ("cookie", Place::Cookie),
];

impl Place {
    /// The location, in words for descriptions.
    fn words(self) -> &'static str {
        match self {
            Self::Path => "the path",
            Self::Query => "the query",
            Self::QueryString => "the whole query",
            Self::Header => "a header",
            Self::Cookie => "a cookie",
        }
    }
}

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
    ) -> Result<Self, OperationProblem> {
        let Candidate { name, method, path, items, described } = candidate;
        // Some documents distinguish operations of one path by a fragment. Fragments are not sent.
        let (path, fragment) = path.split_once('#').unwrap_or((path, ""));
        if placeholders(fragment).next().is_some() {
            return Err(OperationProblem::new(
                "its path has a placeholder after `#`; fragments are not sent",
            ));
        }
        check_path(path)?;
        let document = reading.document;
        let body = described.get("requestBody").map(|body| document.follow(body)).transpose()?;
        let body = body.map(|body| BodyEntry::read(document, body)).transpose()?.flatten();
        let found = parameters(reading, items, *described)?;
        for placeholder in placeholders(path) {
            let fills = |p: &Parameter| p.place == Place::Path && p.name == placeholder;
            if !found.iter().any(|found| fills(&found.parameter)) {
                return Err(OperationProblem::new(
                    "its path has a placeholder that no parameter fills",
                ));
            }
        }
        let arguments = Arguments::read(reading, found, body.as_ref())?;
        let Arguments { input, parameters } = arguments;
        let trimmed = |key: &str| {
            let text = described.text(key).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let title = trimmed("summary");
        let servers = [described].into_iter().chain(items).find_map(|node| node.get("servers"));
        let left = reading.share.saturating_sub(size(&input));
        let mut notes = body.as_ref().map(|body| body.notes.clone()).unwrap_or_default();
        // The output schema is optional: a call does not need it.
        let output = output(document, left, *described).unwrap_or_else(|problem| {
            notes.push(format!("it has no output schema: {problem}"));
            None
        });
        Ok(Self {
            name: name.clone(),
            method: (*method).to_owned(),
            path: path.to_owned(),
            servers: servers
                .filter(|list| list.items().next().is_some())
                .map(|list| list.value.clone()),
            parameters,
            body: body.map(|body| body.body),
            description: trimmed("description").or_else(|| title.clone()),
            title,
            input,
            output,
            notes,
        })
    }

    /// The size of its schemas in bytes.
    pub(super) fn schema_bytes(&self) -> usize {
        size(&self.input) + self.output.as_ref().map_or(0, size)
    }
}

struct ParameterEntry<'d> {
    parameter: Parameter,
    required: bool,
    schema: Node<'d>,
    description: Option<&'d str>,
}

/// The arguments of an operation.
struct Arguments {
    /// The schema of all of them.
    input: Value,
    parameters: Vec<Parameter>,
}

impl Arguments {
    fn read(
        reading: &ReadingContext<'_>,
        found: Vec<ParameterEntry<'_>>,
        body: Option<&BodyEntry<'_>>,
    ) -> Result<Self, ReferenceError> {
        let mut bundle = Bundle::new(reading.document, Direction::Request, reading.share);
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let mut parameters = Vec::with_capacity(found.len());
        let names = argument_names(&found, body.map(|_| "body"));
        for (mut found, argument) in found.into_iter().zip(names) {
            if found.required {
                required.push(Value::String(argument.clone()));
            }
            let schema = bundle.schema(found.schema)?;
            // Models must distinguish `StartTime`, `StartTime<` and `StartTime>`.
            let Parameter { name, place, .. } = &found.parameter;
            let sent =
                (*name != argument).then(|| format!("Sent as `{name}` in {}.", place.words()));
            let schema = described_schema(schema, found.description, sent.as_deref());
            properties.insert(argument.clone(), schema);
            found.parameter.argument = argument;
            parameters.push(found.parameter);
        }
        if let Some(body) = body {
            if body.required {
                required.push(json!("body"));
            }
            let schema = bundle.schema(body.schema)?;
            let schema = described_schema(schema, body.description, body.remark.as_deref());
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
        Ok(Self { input, parameters })
    }
}

/// Returns the parameters that arguments fill: those of the operation, then those of the path items
/// that it does not override. They are sorted by location, in document order.
fn parameters<'d>(
    reading: &ReadingContext<'d>,
    items: &[Node<'d>],
    described: Node<'d>,
) -> Result<Vec<ParameterEntry<'d>>, OperationProblem> {
    let mut found: Vec<ParameterEntry<'d>> = Vec::new();
    for holder in [&described].into_iter().chain(items) {
        let Some(listed) = holder.get("parameters") else { continue };
        let listed = reading.document.follow(listed)?;
        if !listed.value.is_array() {
            return Err(OperationProblem::new("its parameters are not a list"));
        }
        for parameter in listed.items() {
            let Some(read) = parameter_of(reading, parameter)? else { continue };
            let same = |other: &ParameterEntry<'_>| {
                other.parameter.name == read.parameter.name
                    && other.parameter.place == read.parameter.place
            };
            if found.iter().any(same) {
                continue;
            }
            if found.len() == MAX_PARAMETERS {
                return Err(OperationProblem::new(format!(
                    "it has more than {MAX_PARAMETERS} parameters"
                )));
            }
            found.push(read);
        }
    }
    let count = |place| found.iter().filter(|found| found.parameter.place == place).count();
    match (count(Place::QueryString), count(Place::Query)) {
        (0, _) | (1, 0) => {}
        (1, _) => {
            let problem = "it has parameters in `query` in addition to the one in `querystring`";
            return Err(OperationProblem::new(problem));
        }
        _ => return Err(OperationProblem::new("it has more than one parameter in `querystring`")),
    }
    found.sort_by_key(|found| found.parameter.place);
    Ok(found)
}

/// Reads a parameter; `None` if arguments cannot set it.
fn parameter_of<'d>(
    reading: &ReadingContext<'d>,
    parameter: Node<'d>,
) -> Result<Option<ParameterEntry<'d>>, OperationProblem> {
    const ANY: &Value = &Value::Bool(true);
    let described = reading.document.follow(parameter)?;
    let name = described.text("name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| OperationProblem::new("a parameter has no name"))?;
    let place = PLACES.iter().find(|(name, _)| described.text("in") == Some(name));
    let Some(&(_, place)) = place else {
        return Err(OperationProblem::new("a parameter has an unknown location"));
    };
    if place == Place::Header {
        let lower = name.to_ascii_lowercase();
        let is_ours = [&OURS[..], &CONNECTION_HEADERS].concat().contains(&lower.as_str());
        if is_ours || reading.configured.contains(&lower) {
            return Ok(None);
        }
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            let problem = "the name of a header parameter contains invalid characters";
            return Err(OperationProblem::new(problem));
        }
    }
    let content = described.get("content").map(|content| reading.document.follow(content));
    let mut fields = Fields::default();
    let (schema, style) = match content.transpose()?.and_then(|content| content.members().next()) {
        Some((kind, media)) => {
            let media = reading.document.follow(media)?;
            let style = match place {
                Place::QueryString => query_style(kind)?,
                _ => content_style(place, kind)?,
            };
            let schema = media.get("schema");
            if (place, style) == (Place::QueryString, Style::Form) {
                fields = Form::read(reading.document, FormKind::Urlencoded, media, schema)?.fields;
            }
            (schema, style)
        }
        None => {
            let style = style(place, described.text("style")).ok_or_else(|| {
                OperationProblem::new("a parameter has a style that is invalid at its location")
            })?;
            (described.get("schema"), style)
        }
    };
    let explode = matches!(style, Style::Form | Style::Cookie);
    let explode = described.flag("explode").unwrap_or(explode);
    let integers = match (style, schema) {
        (Style::Json, _) | (_, None) => Integers::default(),
        (_, Some(schema)) => Integers::read(&mut Composition::new(reading.document), &[schema])?,
    };
    let parameter = Parameter {
        argument: String::new(),
        name: name.to_owned(),
        place,
        style,
        explode,
        reserved: described.flag("allowReserved").unwrap_or(false),
        fields,
        integers,
    };
    let required = place == Place::Path || described.flag("required").unwrap_or(false);
    Ok(Some(ParameterEntry {
        parameter,
        required,
        schema: schema.unwrap_or(described.with(ANY)),
        description: described.text("description"),
    }))
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
        (Place::Cookie, None | Some("form")) => Style::Form,
        (Place::Cookie, Some("cookie")) => Style::Cookie,
        _ => return None,
    })
}

/// How a value with a media type becomes a parameter.
fn content_style(place: Place, media_type: &str) -> Result<Style, OperationProblem> {
    match (kind(media_type), style(place, None)) {
        (BodyKind::Text, Some(style)) => Ok(style),
        (BodyKind::Json, _) => Ok(Style::Json),
        _ => {
            let kind = tidy(media_type, 80);
            Err(OperationProblem::new(format!(
                "a parameter of it is `{kind}`, an unsupported media type"
            )))
        }
    }
}

/// How a value becomes a whole query.
fn query_style(media_type: &str) -> Result<Style, OperationProblem> {
    match kind(media_type) {
        BodyKind::Form => Ok(Style::Form),
        BodyKind::Json => Ok(Style::Json),
        BodyKind::Text => Ok(Style::Simple),
        BodyKind::Multipart | BodyKind::Binary => {
            let kind = tidy(media_type, 80);
            Err(OperationProblem::new(format!(
                "its query string is `{kind}`, an unsupported media type"
            )))
        }
    }
}

/// Chooses the names of the arguments for `found`, all different and other than `reserved`. Model
/// providers refuse all tools of a request because of one name outside 1 to 64 characters of
/// `[A-Za-z0-9_.-]`, so other names are changed.
fn argument_names(found: &[ParameterEntry<'_>], reserved: Option<&str>) -> Vec<String> {
    let mut taken: HashSet<String> = reserved.map(str::to_owned).into_iter().collect();
    let candidate = |name: &str| {
        let plain = plain_name(name);
        if plain == name && name.len() <= MAX_ARGUMENT {
            return plain;
        }
        let changed = if plain == name { plain.as_str() } else { plain.trim_matches('_') };
        let changed: String = changed.chars().take(MAX_CHANGED).collect();
        if changed.is_empty() { "value".to_owned() } else { changed }
    };
    let mut names = vec![String::new(); found.len()];
    // Names that can stay come first, so that no changed one takes theirs.
    for is_kept in [true, false] {
        for (chosen, ParameterEntry { parameter, .. }) in names.iter_mut().zip(found) {
            let plain = candidate(&parameter.name);
            if (plain == parameter.name) != is_kept {
                continue;
            }
            let place = PLACES.iter().find(|(_, place)| *place == parameter.place);
            let place = place.map_or("", |(name, _)| name);
            let short: String = plain.chars().take(MAX_CHANGED).collect();
            let (mut name, mut count) = (plain, 1_usize);
            while taken.contains(&name) {
                name = match count {
                    1 => format!("{short}_{place}"),
                    _ => format!("{short}_{place}_{count}"),
                };
                count += 1;
            }
            taken.insert(name.clone());
            *chosen = name;
        }
    }
    names
}

/// Adds `description` to a schema, unless it already has one, and then `remark`.
fn described_schema(mut schema: Value, description: Option<&str>, remark: Option<&str>) -> Value {
    let description = description.map(str::trim).filter(|text| !text.is_empty());
    if description.is_none() && remark.is_none() {
        return schema;
    }
    if schema == Value::Bool(true) {
        schema = Value::Object(Map::new());
    }
    let Some(members) = schema.as_object_mut() else { return schema };
    let own = members.get("description").and_then(Value::as_str);
    let texts: Vec<&str> = own.or(description).into_iter().chain(remark).collect();
    if remark.is_some() || own.is_none() {
        members.insert("description".to_owned(), Value::String(texts.join(" ")));
    }
    schema
}

/// Returns the output schema, if all successful responses have the same one.
fn output(
    document: &Document,
    share: usize,
    described: Node<'_>,
) -> Result<Option<Value>, ReferenceError> {
    let Some(responses) = described.get("responses") else { return Ok(None) };
    let mut only: Option<Node<'_>> = None;
    for (status, response) in document.follow(responses)?.members() {
        if !status.starts_with('2') {
            continue;
        }
        let response = document.follow(response)?;
        let content =
            response.get("content").map(|content| document.follow(content)).transpose()?;
        let content: Vec<_> = content.into_iter().flat_map(Node::members).collect();
        let media = match content.as_slice() {
            [(kind, media)] if is_json(kind) => Some(document.follow(*media)?),
            _ => None,
        };
        match (media.and_then(|media| media.get("schema")), only) {
            (None, _) => return Ok(None),
            (Some(schema), None) => only = Some(schema),
            (Some(schema), Some(other))
                if schema.value == other.value && schema.file == other.file => {}
            (Some(_), Some(_)) => return Ok(None),
        }
    }
    let Some(schema) = only else { return Ok(None) };
    let mut bundle = Bundle::new(document, Direction::Answer, share);
    let Value::Object(root) = bundle.schema(schema)? else { return Ok(None) };
    Ok(Some(Value::Object(bundle.add_definitions(root)?)))
}

pub(super) fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

fn check_path(path: &str) -> Result<(), OperationProblem> {
    let dots = |segment: &str| matches!(segment, "." | "..");
    let problem = if !path.starts_with('/') {
        "its path does not start with `/`"
    } else if path.contains('\\') || path.chars().any(char::is_control) {
        "its path contains invalid characters"
    } else if path.split('/').any(dots) || path.to_ascii_lowercase().contains("%2e") {
        "its path leads upwards"
    } else {
        return Ok(());
    };
    Err(OperationProblem::new(problem))
}
