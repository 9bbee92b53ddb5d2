//! Converts arguments to a request.
//!
//! Invariant (I-46): arguments fill only the places that the document defines; a request never
//! leaves the origin and the path of its operation.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde_json::{Map, Value};
use url::Url;

use super::{
    body::Body,
    encode::{self, DelimitedValue, Escape, Style, is_plain, unfit},
    form::{FieldContent, Fields},
    media_type::{BodyKind, bytes_type},
    multipart::{self, File},
    operation::{Operation, Parameter, Place},
};
use crate::egress::{MAX_HOPS, OutgoingRequest};

const STRICT: Escape = Escape::Url { reserved: false };

/// Creates the request for `arguments` to `operation` of the service at `base`.
pub(super) fn build(
    operation: &Operation,
    base: &Url,
    arguments: &Map<String, Value>,
) -> Result<OutgoingRequest, String> {
    let method = Method::from_bytes(operation.method.as_bytes())
        .map_err(|_| "the operation has no usable method".to_owned())?;
    let mut request = OutgoingRequest::new(method, url(operation, base, arguments)?);
    request.hops = MAX_HOPS;
    let accept = HeaderValue::from_static("application/json, text/*;q=0.9, */*;q=0.8");
    request.headers.insert(header::ACCEPT, accept);
    headers(operation, arguments, &mut request.bound)?;
    if let Some(body) = &operation.body
        && let Some(value) = arguments.get("body")
    {
        let (media_type, bytes) = write_body(body, value)?;
        request.headers.insert(header::CONTENT_TYPE, media_type);
        request.body = Some(bytes);
    }
    // RFC 9110, section 8.6: without `Content-Length`, strict servers answer 411.
    let expects_body = [Method::POST, Method::PUT, Method::PATCH].contains(&request.method);
    if expects_body && request.body.as_ref().is_none_or(Bytes::is_empty) {
        request.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    Ok(request)
}

fn url(operation: &Operation, base: &Url, arguments: &Map<String, Value>) -> Result<Url, String> {
    let (path, fixed) = match operation.path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (operation.path.as_str(), None),
    };
    let mut url = base.clone();
    let whole =
        format!("{}{}", base.path().trim_end_matches('/'), fill(operation, path, arguments)?);
    url.set_path(&whole);
    let query = query(operation, fixed, arguments)?;
    url.set_query((!query.is_empty()).then_some(query.as_str()));
    Ok(url)
}

/// Fills the placeholders of the path.
fn fill(
    operation: &Operation,
    path: &str,
    arguments: &Map<String, Value>,
) -> Result<String, String> {
    let mut filled = String::with_capacity(path.len());
    for segment in path.split_inclusive('/') {
        let (segment, slash) = match segment.strip_suffix('/') {
            Some(segment) => (segment, "/"),
            None => (segment, ""),
        };
        let mut written = String::new();
        let mut filler = None;
        let mut rest = segment;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            written.push_str(before);
            rest = after;
            let fills = |p: &&Parameter| p.place == Place::Path && p.name == name;
            let Some(parameter) = operation.parameters.iter().find(fills) else { continue };
            let argument = parameter.argument.as_str();
            let value = value(parameter, arguments);
            let value = value.ok_or_else(|| unfit(argument, "is missing"))?;
            let Parameter { name, style, explode, .. } = parameter;
            let text = encode::single(name, &value, *style, *explode, STRICT);
            if text.is_empty() {
                return Err(unfit(argument, "must not be empty: it is part of a path"));
            }
            filler = Some(argument);
            written.push_str(&text);
        }
        written.push_str(rest);
        // URL normalization removes such segments, and the ones before them.
        if let Some(argument) = filler.filter(|_| matches!(written.as_str(), "." | "..")) {
            return Err(unfit(argument, "must not be `.` or `..`: it is part of a path"));
        }
        filled.push_str(&written);
        filled.push_str(slash);
    }
    Ok(filled)
}

fn query(
    operation: &Operation,
    fixed: Option<&str>,
    arguments: &Map<String, Value>,
) -> Result<String, String> {
    let mut query = fixed.unwrap_or_default().to_owned();
    for (parameter, value) in given(operation, Place::Query, arguments) {
        let Parameter { name, style, explode, reserved, argument, .. } = parameter;
        let escape = Escape::Url { reserved: *reserved };
        encode::check_separators(argument, &value, *style, *explode, escape)?;
        let pairs = encode::pairs(name, &value, *style, *explode);
        append(&mut query, "&", pairs, escape);
    }
    for (Parameter { argument, style, fields, .. }, value) in
        given(operation, Place::QueryString, arguments)
    {
        let whole = match style {
            Style::Form => form(argument, fields, &value)?,
            Style::Json => STRICT.apply(&value.to_string()).into_owned(),
            _ => STRICT.apply(&encode::plain(&value)).into_owned(),
        };
        if !query.is_empty() && !whole.is_empty() {
            query.push('&');
        }
        query.push_str(&whole);
    }
    Ok(query)
}

/// Appends `name=value` pairs to a query, a form or a cookie.
fn append(
    text: &mut String,
    separator: &str,
    pairs: Vec<(String, DelimitedValue)>,
    escape: Escape,
) {
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push_str(separator);
        }
        text.push_str(&STRICT.apply(&name));
        text.push('=');
        text.push_str(&value.escaped(escape));
    }
}

/// Appends cookies without escapes.
fn append_raw(
    cookies: &mut String,
    argument: &str,
    pairs: Vec<(String, DelimitedValue)>,
) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_graphic() && !"\";\\".contains(c);
    for (name, value) in pairs {
        let value = value.into_text();
        if !name.chars().all(|c| is_legal(c) && c != '=') || !value.chars().all(is_legal) {
            return Err(unfit(argument, "contains characters that are invalid in a cookie"));
        }
        if !cookies.is_empty() {
            cookies.push_str("; ");
        }
        cookies.push_str(&format!("{name}={value}"));
    }
    Ok(())
}

fn headers(
    operation: &Operation,
    arguments: &Map<String, Value>,
    headers: &mut HeaderMap,
) -> Result<(), String> {
    for (parameter, value) in given(operation, Place::Header, arguments) {
        let Parameter { name, argument, style, explode, .. } = parameter;
        encode::check_separators(argument, &value, *style, *explode, Escape::None)?;
        let text = encode::single(name, &value, *style, *explode, Escape::None);
        let bad = || unfit(argument, "contains characters that are invalid in a header");
        if text.trim_matches([' ', '\t']) != text {
            return Err(unfit(argument, "must not have a space at either end: it is a header"));
        }
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        headers.insert(name, HeaderValue::from_str(&text).map_err(|_| bad())?);
    }
    let mut cookies = String::new();
    for (parameter, value) in given(operation, Place::Cookie, arguments) {
        let pairs = encode::pairs(&parameter.name, &value, parameter.style, parameter.explode);
        match parameter.style {
            Style::Cookie => append_raw(&mut cookies, &parameter.argument, pairs)?,
            _ => append(&mut cookies, "; ", pairs, STRICT),
        }
    }
    if !cookies.is_empty()
        && let Ok(value) = HeaderValue::from_str(&cookies)
    {
        headers.insert(header::COOKIE, value);
    }
    Ok(())
}

/// Returns the parameters at a location that have a value.
fn given<'a>(
    operation: &'a Operation,
    place: Place,
    arguments: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a Parameter, Cow<'a, Value>)> {
    let parameters = operation.parameters.iter().filter(move |parameter| parameter.place == place);
    parameters.filter_map(|parameter| Some((parameter, value(parameter, arguments)?)))
}

fn value<'a>(parameter: &Parameter, arguments: &'a Map<String, Value>) -> Option<Cow<'a, Value>> {
    let value = arguments.get(&parameter.argument).filter(|value| !value.is_null())?;
    Some(parameter.integers.in_plain_digits(value))
}

fn write_body(body: &Body, value: &Value) -> Result<(HeaderValue, Bytes), String> {
    let mut media_type = body.media_type.clone();
    let bytes = match body.kind {
        BodyKind::Json => value.to_string().into_bytes(),
        BodyKind::Form => form("body", &body.fields, value)?.into_bytes(),
        BodyKind::Text => match value {
            Value::String(text) => text.clone().into_bytes(),
            _ => return Err(unfit("body", "must be a string")),
        },
        BodyKind::Binary => {
            let file = File::read(value).map_err(|problem| unfit("body", problem))?;
            let named = file.media_type.as_deref();
            media_type =
                bytes_type(&[media_type], named).map_err(|problem| unfit("body", &problem))?;
            file.bytes
        }
        BodyKind::Multipart => {
            let boundary = boundary()?;
            media_type = format!("multipart/form-data; boundary={boundary}");
            multipart::encode(&body.fields, members("body", value)?, &boundary)?
        }
    };
    let media_type = HeaderValue::from_str(&media_type)
        .map_err(|_| "the operation's body has no usable media type".to_owned())?;
    Ok((media_type, Bytes::from(bytes)))
}

fn members<'v>(argument: &str, value: &'v Value) -> Result<&'v Map<String, Value>, String> {
    value.as_object().ok_or_else(|| unfit(argument, "must be an object: it is a form"))
}

/// Encodes `application/x-www-form-urlencoded`. A field without a style is written as it is, a list
/// of plain values is repeated, and any deeper value becomes JSON.
fn form(argument: &str, fields: &Fields, value: &Value) -> Result<String, String> {
    let mut form = String::new();
    for (name, value) in members(argument, value)? {
        let field = fields.get(name);
        let value =
            field.map_or(Cow::Borrowed(value), |field| field.integers.in_plain_digits(value));
        let value = &*value;
        let is_flat = match value {
            Value::Null => continue,
            Value::Array(items) => items.iter().all(is_plain),
            value => is_plain(value),
        };
        let media_type = match field.map(|field| &field.content) {
            Some(FieldContent::Text { media_type }) => media_type.as_deref(),
            Some(FieldContent::Json { .. } | FieldContent::File { .. }) | None => None,
        };
        let is_json = field.is_some_and(|field| matches!(field.content, FieldContent::Json { .. }));
        let pairs = match field.and_then(|field| field.style) {
            Some((style, explode)) => {
                encode::check_separators(name, value, style, explode, STRICT)?;
                encode::pairs(name, value, style, explode)
            }
            None if is_flat && !is_json => encode::pairs(name, value, Style::Form, true),
            None => {
                FieldContent::of_structure(media_type).map_err(|problem| unfit(name, &problem))?;
                encode::pairs(name, value, Style::Json, false)
            }
        };
        append(&mut form, "&", pairs, STRICT);
    }
    Ok(form.replace("%20", "+"))
}

/// Generates a boundary of 128 random bits, which occurs in no part.
fn boundary() -> Result<String, String> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random)
        .map_err(|_| "no random number could be generated; try again".to_owned())?;
    Ok(format!("----toolcrib{:032x}", u128::from_be_bytes(random)))
}
