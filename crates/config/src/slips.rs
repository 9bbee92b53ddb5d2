//! Frequent mistakes in a configuration file, each with an example of the correct form.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::places::{HIDDEN, Place};

/// The message for `\` in a string with double quotes.
pub(super) const WINDOWS_PATH: &str = "`\\` starts an escape in a string with double quotes; write a Windows path in single quotes, such \
     as 'C:\\Users\\me\\server.exe', or double each `\\`";

/// The tables that a file can have several of, each with the example of its first lines.
const ARRAYS: [(&str, &str); 6] = [
    ("source", "id = \"files\"`, `kind = \"mcp\"`, `command = [\"npx\", \"-y\", \"SERVER\"]"),
    ("role", "name = \"reader\"`, `scopes = [\"files:read\"]"),
    ("auth.jwt", "issuer = \"https://id.example.com\""),
    ("approvals.webhook", "url = \"https://hooks.example.com\""),
    ("record.anchor", "url = \"https://anchors.example.com\""),
    ("record.forward", "name = \"archive\""),
];

/// Examples of lists.
const LISTS: [(&str, &str); 5] = [
    ("command", r#"["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/docs"]"#),
    ("args", r#"["--verbose", "/srv/docs"]"#),
    ("scopes", r#"["files:read"]"#),
    ("tenants", r#"["default"]"#),
    ("allowed_hosts", r#"["tools.example.com"]"#),
];

pub(super) struct MistakenValue {
    pub(super) span: Range<usize>,
    /// The key, as problems show it.
    pub(super) key: String,
}

/// A message for a value of a wrong type at `key`; `None` if the usual message is as good. It never
/// contains the value, because that may be a secret.
pub(super) fn of_type(message: &str, key: &str) -> Option<String> {
    let (found, expected) = message.strip_prefix("invalid type: ")?.rsplit_once(", expected ")?;
    let name = key.rsplit('.').next().unwrap_or(key);
    let kind = found.split(' ').next().unwrap_or_default();
    match (kind, expected) {
        ("map", "a sequence") => {
            let (_, example) = ARRAYS.iter().find(|(array, _)| *array == key)?;
            Some(format!(
                "write `[[{key}]]` with two brackets, because there can be several; below it, one per \
                 line: `{example}`"
            ))
        }
        ("string", "a sequence") => {
            let example = LISTS.iter().find(|(list, _)| *list == name);
            let example = example.map_or(r#"["…", "…"]"#, |(_, example)| example);
            let parts = match name {
                "command" => " of the program and its arguments",
                _ => "",
            };
            Some(format!("expected a list{parts}, such as {name} = {example}"))
        }
        ("integer" | "floating", "a string") => {
            let number = found.split('`').nth(1)?;
            Some(format!("expected text in quotes, such as \"{number}\""))
        }
        _ => None,
    }
}

/// Finds Windows paths in strings with double quotes whose `\` became tabs or line breaks, such as
/// `"C:\new\tools"`. They are valid TOML, but not valid paths.
pub(super) fn escaped_paths(table: &DeTable<'_>) -> Vec<MistakenValue> {
    let mut found = Vec::new();
    in_table(table, &Place::default(), &mut found);
    found
}

fn in_table(table: &DeTable<'_>, place: &Place, found: &mut Vec<MistakenValue>) {
    for (key, value) in table {
        match key.span() == HIDDEN {
            true => in_value(value, place, found),
            false => in_value(value, &place.member(key.get_ref()), found),
        }
    }
}

fn in_value(value: &Spanned<DeValue<'_>>, place: &Place, found: &mut Vec<MistakenValue>) {
    match value.get_ref() {
        DeValue::Table(table) => in_table(table, place, found),
        DeValue::Array(array) => {
            for (index, element) in array.iter().enumerate() {
                let place = match element.get_ref().is_table() {
                    true => place.element(index, element.get_ref()),
                    false => place.clone(),
                };
                in_value(element, &place, found);
            }
        }
        DeValue::String(text) if is_escaped_path(text) => {
            found.push(MistakenValue { span: value.span(), key: place.shown.clone() });
        }
        _ => {}
    }
}

fn is_escaped_path(text: &str) -> bool {
    match text.as_bytes() {
        [drive, b':', rest @ ..] => {
            drive.is_ascii_alphabetic() && rest.first().is_some_and(u8::is_ascii_control)
        }
        _ => false,
    }
}
