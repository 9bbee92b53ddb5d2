//! The reference of the configuration file, from the schema of its types.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// The first part of the page.
const INTRODUCTION: &str = "\
# Configuration

With this page you look up a key of the configuration file: its table, type, default and meaning. An \
annotated example of everything is [toolcrib.example.toml](../../toolcrib.example.toml).

The file is TOML, `toolcrib.toml` by default (`--config FILE`), at most 4 MiB. Every table is optional. \
Unknown keys are errors, and a server does not start with an invalid file. Relative paths start from \
the directory of the file. [Operating](../guides/operate.md#check-and-reload-the-configuration) explains \
checks and reloads. `cargo xtask gen` writes this page from the types of the program.

| Type | Written as |
|---|---|
| duration | `\"250ms\"`, `\"30s\"`, `\"5m\"`, `\"2h\"` |
| age | a duration, or days: `\"90d\"` |
| size | bytes: `\"65536\"`, `\"64KiB\"`, `\"4MiB\"`, `\"1GiB\"` |
| rate | calls per time: `\"5/s\"`, `\"30/m\"`, `\"100/h\"`, `\"1000/d\"`, or `\"off\"` |
| quota | calls per UTC day: `\"200/d\"`, or `\"off\"` |
| text or secret | text, `{ env = \"NAME\" }` or `{ file = \"path\" }`; a secret must be one of the latter |
| place of a key | `{ file = \"path\" }`, `{ env = \"NAME\" }` or `{ command = [\"program\", \"argument\"] }` |
";

/// The page as Markdown.
pub(super) fn page(schema: &Value) -> String {
    let mut page = Page { schema, tables: Vec::new() };
    page.collect("", schema, 2);
    let sections = page.tables.iter().map(|table| page.section(table));
    std::iter::once(INTRODUCTION.to_owned()).chain(sections).collect()
}

struct Page<'a> {
    schema: &'a Value,
    /// One table for each type, in the order of the page.
    tables: Vec<Table<'a>>,
}

/// A type that becomes a table of the configuration file.
struct Table<'a> {
    name: &'a str,
    heading: String,
    path: String,
    level: usize,
}

impl<'a> Page<'a> {
    /// Adds the tables of a type for the table at `path`.
    fn collect(&mut self, path: &str, described: &'a Value, level: usize) {
        for (key, member) in members(described) {
            let forms = self.forms(member);
            for (names, name) in &forms {
                let heading = format!("Sources of kind {}", names.join(", or "));
                self.tables.push(Table { name, heading, path: path.to_owned(), level });
            }
            for (_, name) in forms {
                self.collect(path, self.described(name).unwrap_or(&Value::Null), level);
            }
            let Some(table) = inner(path, key, member, level) else { continue };
            let Some(described) = self.described(table.name) else { continue };
            if self.anchor(table.name).is_none() {
                let path = table.path.clone();
                self.tables.push(table);
                self.collect(&path, described, level + 1);
            }
        }
    }

    fn section(&self, table: &Table<'_>) -> String {
        let Table { name, heading, level, .. } = table;
        let described = self.described(name).unwrap_or(&Value::Null);
        let marks = "#".repeat((*level).min(4));
        let mut text = format!(
            "\n{marks} {heading}\n\n{}\n\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n",
            description(described)
        );
        let required = described.get("required").and_then(Value::as_array);
        for (key, member) in members(described).filter(|(_, value)| self.forms(value).is_empty()) {
            let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
            let default = if is_required { "required".to_owned() } else { default(member) };
            let cells = [self.kind(member), default, description(member)].map(|text| cell(&text));
            // Writing to a string cannot fail.
            writeln!(text, "| `{key}` | {} |", cells.join(" | ")).ok();
        }
        text
    }

    /// The variants of a member whose keys depend on the kind of source: names and type of each. A
    /// type shared by several kinds is listed once.
    fn forms(&self, member: &Value) -> Vec<(Vec<String>, &'a str)> {
        let mut forms: Vec<(Vec<String>, &str)> = Vec::new();
        let name = reference(member).unwrap_or_default();
        let variants = self.schema.pointer(&format!("/$defs/{name}/oneOf"));
        for variant in variants.and_then(Value::as_array).into_iter().flatten() {
            for (label, described) in members(variant) {
                let label = format!("`{}`", label.replace(" with ", "` with `"));
                let Some(name) = reference(described) else { continue };
                match forms.iter_mut().find(|(_, other)| *other == name) {
                    Some((labels, _)) => labels.push(label),
                    None => forms.push((vec![label], name)),
                }
            }
        }
        forms
    }

    /// The words that a value can be.
    fn words(&self, member: &'a Value) -> Vec<&'a Value> {
        let list = |key| member.get(key).and_then(Value::as_array).into_iter().flatten();
        let inner = list("oneOf").chain(list("anyOf"));
        let direct = member.get("$ref").and_then(|_| self.definition(reference(member)?));
        let inner = inner.chain(direct);
        let own = member.get("const").into_iter().chain(list("enum"));
        own.chain(inner.flat_map(|part| self.words(part)))
            .filter(|value| value.is_string())
            .collect()
    }

    fn definition(&self, name: &str) -> Option<&'a Value> {
        self.schema.pointer(&format!("/$defs/{name}"))
    }

    /// The schema of a type that becomes a table.
    fn described(&self, name: &str) -> Option<&'a Value> {
        let described = self.definition(name)?;
        described.get("properties").is_some().then_some(described)
    }

    /// The anchor of the section of a type.
    fn anchor(&self, name: &str) -> Option<String> {
        let table = self.tables.iter().find(|table| table.name == name)?;
        Some(anchor(&table.heading))
    }

    /// The type of a value as text.
    fn kind(&self, member: &'a Value) -> String {
        if let Some(anchor) = reference(member).and_then(|name| self.anchor(name)) {
            return format!("[table](#{anchor})");
        }
        let words: Vec<String> =
            self.words(member).iter().map(|word| format!("`{word}`")).collect();
        if !words.is_empty() {
            return words.join(" | ");
        }
        if let Some(title) = title(member) {
            return title.to_owned();
        }
        if let Some(items) = member.get("items") {
            return format!("list of {}", plural(&self.kind(items)));
        }
        if let Some(values) = member.get("additionalProperties").filter(|schema| schema.is_object())
        {
            return format!("table of {}", plural(&self.kind(values)));
        }
        let kinds: Vec<&str> = match &member["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect(),
        };
        match kinds.iter().find(|kind| **kind != "null") {
            Some(&"string") => "text",
            Some(&"integer" | &"number") => "number",
            Some(kind) => kind,
            None => "",
        }
        .to_owned()
    }
}

/// The table of a member: `[key]`, `[[key]]` or `[key.NAME]`.
fn inner<'a>(path: &str, key: &str, member: &'a Value, level: usize) -> Option<Table<'a>> {
    let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if let Some(name) = reference(member) {
        return Some(Table { name, heading: format!("`[{path}]`"), path, level });
    }
    if let Some(name) = member.get("items").and_then(reference) {
        return Some(Table { name, heading: format!("`[[{path}]]`"), path, level });
    }
    let name = member.get("additionalProperties").and_then(reference)?;
    let entry = if key == "tools" { "\"GLOB\"" } else { "NAME" };
    let path = format!("{path}.{entry}");
    Some(Table { name, heading: format!("`[{path}]`"), path, level })
}

/// The properties of a type, in source order.
fn members(described: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = described.get("properties").and_then(Value::as_object);
    members.into_iter().flat_map(Map::iter).map(|(key, member)| (key.as_str(), member))
}

/// The name of the type that a member refers to.
fn reference(member: &Value) -> Option<&str> {
    let direct = member.get("$ref").and_then(Value::as_str);
    let others = member.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let mut all = direct.into_iter().chain(others.filter_map(|other| other.get("$ref")?.as_str()));
    all.next()?.strip_prefix("#/$defs/")
}

fn title(member: &Value) -> Option<&str> {
    let others = member.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    member.get("title").or_else(|| others.filter_map(|other| other.get("title")).next())?.as_str()
}

fn plural(kind: &str) -> String {
    match kind {
        "text" => "texts".to_owned(),
        "number" => "numbers".to_owned(),
        "text or secret" => "texts or secrets".to_owned(),
        other => other.to_owned(),
    }
}

fn default(member: &Value) -> String {
    match (member.get("x-default").and_then(Value::as_str), member.get("default")) {
        (Some(words), _) => words.to_owned(),
        // The defaults are those of the table.
        _ if member.get("$ref").is_some() && !member["default"].is_string() => String::new(),
        (None, Some(Value::Null) | None) => "not set".to_owned(),
        (None, Some(value)) if *value == json!([]) || *value == json!({}) => "empty".to_owned(),
        (None, Some(value)) => format!("`{value}`"),
    }
}

fn description(member: &Value) -> String {
    let text = member.get("description").and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The anchor that GitHub derives from a heading.
fn anchor(heading: &str) -> String {
    let letters = heading
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' '));
    letters.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_type_and_a_meaning() {
        // I-6
        let page = page(&toolcrib_config::types());
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert!(rows.len() > 130, "{}", rows.len());
        for row in rows {
            let cells: Vec<&str> = row.split(" | ").collect();
            assert!(cells.len() >= 4 && !cells[1].trim().is_empty(), "{row}");
            assert!(!row.ends_with("|  |"), "{row}");
        }
        for heading in ["[server]", "[[source]]", "[source.tools.\"GLOB\"]", "[[auth.jwt]]"] {
            assert!(page.contains(&format!(" `{heading}`\n")), "{heading}");
        }
    }
}
