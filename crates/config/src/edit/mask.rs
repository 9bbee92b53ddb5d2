//! Hides secrets in the shown parts of the configuration file.
//!
//! The file refers to secrets by the name of a variable or a file, and the checks reject plain
//! secrets in known places. A plain value of an environment, a header or an argument may still be a
//! secret, so earlier values of these are never shown.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};
use toml_edit::{Array, DocumentMut, Item, TableLike, Value};
use toolcrib_core::redact::{self, Redactor, is_secret_key};
use url::Url;

/// The text in place of a value.
const MASK: &str = "***";

/// Tables whose plain values may be secrets.
const TABLES: [&str; 2] = ["env", "headers"];

/// Whether a text was shown in place of a value or of a part of one.
pub(super) fn is_placeholder(text: &str) -> bool {
    text == MASK || text.contains(redact::PLACEHOLDER)
}

/// Both texts without values that may be secrets. Values that only `after` has stay: its author
/// knows them.
pub(super) fn masked(before: &str, after: &str) -> (String, String) {
    let (Ok(mut old), Ok(mut new)) = (before.parse::<DocumentMut>(), after.parse::<DocumentMut>())
    else {
        // Never the case for the results of `apply`.
        return (String::new(), String::new());
    };
    let mut known = BTreeSet::new();
    visit(old.as_table_mut(), "", &mut |text| {
        known.insert(text.to_owned());
        None
    });
    visit(old.as_table_mut(), "", &mut |_| Some(MASK.to_owned()));
    visit(new.as_table_mut(), "", &mut |text| known.contains(text).then(|| MASK.to_owned()));
    // Comments, and places that look like secrets.
    let redactor = Redactor::default();
    let clean = |document: &DocumentMut| {
        let text = document.to_string();
        text.split_inclusive('\n').map(|line| redactor.text(line)).collect::<String>()
    };
    (clean(&old), clean(&new))
}

/// The settings of a table of the file as JSON, without values that may be secrets.
pub fn settings(table: &dyn TableLike) -> Map<String, Json> {
    let redactor = Redactor::default();
    let members = table.iter().map(|(key, item)| {
        let mut item = item.clone();
        visit_item(&mut item, key, &mut |_| Some(MASK.to_owned()));
        (key.to_owned(), redactor.value(&json(&item)))
    });
    members.collect()
}

/// Replaces each value of `table` that may be a secret by the result of `replace`.
fn visit(table: &mut dyn TableLike, name: &str, replace: &mut dyn FnMut(&str) -> Option<String>) {
    let values_may_be_secret = TABLES.contains(&name);
    for (key, item) in table.iter_mut() {
        let key = key.get().to_owned();
        if let Item::Value(value @ Value::String(_)) = item
            && (values_may_be_secret || is_secret_key(&key))
        {
            put(value, replace);
            continue;
        }
        visit_item(item, &key, replace);
    }
}

fn visit_item(item: &mut Item, key: &str, replace: &mut dyn FnMut(&str) -> Option<String>) {
    match item {
        Item::None => {}
        Item::Value(value) => visit_value(value, key, replace),
        Item::Table(table) => visit(table, key, replace),
        Item::ArrayOfTables(all) => all.iter_mut().for_each(|table| visit(table, key, replace)),
    }
}

fn visit_value(value: &mut Value, key: &str, replace: &mut dyn FnMut(&str) -> Option<String>) {
    match value {
        Value::InlineTable(table) => visit(table, key, replace),
        Value::Array(array) => visit_array(array, key, replace),
        Value::String(text) if has_secret_part(text.value()) => put(value, replace),
        _ => {}
    }
}

/// Arguments of a program: `--token X`, `--token=X`, `--header "Name: X"`, and addresses with a
/// password or a query.
fn visit_array(array: &mut Array, key: &str, replace: &mut dyn FnMut(&str) -> Option<String>) {
    let mut after_flag = false;
    for value in array.iter_mut() {
        let text = value.as_str().unwrap_or_default().to_owned();
        let flag = text.trim_start_matches('-');
        let (name, has_value) = match flag.split_once('=') {
            Some((name, _)) => (name, true),
            None => (flag, false),
        };
        let is_flag = text.starts_with('-') || has_value;
        if after_flag && !text.starts_with('-')
            || is_flag && has_value && is_secret_key(name)
            || has_secret_part(&text)
            || text.split_once('=').is_some_and(|(_, value)| has_secret_part(value))
            || text.split_once(':').is_some_and(|(name, _)| is_secret_key(name))
        {
            put(value, replace);
        } else {
            visit_value(value, key, replace);
        }
        after_flag = text.starts_with('-') && !has_value && is_secret_key(name);
    }
}

/// Whether an address has user information or a parameter with the name of a secret.
fn has_secret_part(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let secret = |(name, _): (std::borrow::Cow<'_, str>, _)| is_secret_key(&name) || name == "key";
    url.password().is_some() || url.query_pairs().any(secret)
}

fn put(value: &mut Value, replace: &mut dyn FnMut(&str) -> Option<String>) {
    let Some(new) = value.as_str().and_then(replace) else { return };
    let mut new = Value::from(new);
    *new.decor_mut() = value.decor().clone();
    *value = new;
}

fn json(item: &Item) -> Json {
    match item {
        Item::None => Json::Null,
        Item::Value(value) => json_value(value),
        Item::Table(table) => object(table),
        Item::ArrayOfTables(all) => all.iter().map(|table| object(table)).collect(),
    }
}

fn object(table: &dyn TableLike) -> Json {
    Json::Object(table.iter().map(|(key, item)| (key.to_owned(), json(item))).collect())
}

fn json_value(value: &Value) -> Json {
    match value {
        Value::String(text) => text.value().as_str().into(),
        Value::Integer(number) => (*number.value()).into(),
        Value::Float(number) => (*number.value()).into(),
        Value::Boolean(flag) => (*flag.value()).into(),
        Value::Datetime(time) => time.value().to_string().into(),
        Value::Array(array) => array.iter().map(json_value).collect(),
        Value::InlineTable(table) => object(table),
    }
}
