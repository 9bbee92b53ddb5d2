//! Changes a TOML document and keeps its comments and layout.

use serde_json::{Map, Number, Value as Json};
use toml_edit::{
    Array, ArrayOfTables, Decor, DocumentMut, InlineTable, Item, RawString, Table, Value,
};
use toolcrib_core::number::compare;

use super::{
    change::{Change, ChangeKind, EditAction, EditError},
    file::MAX_BYTES,
    mask::is_placeholder,
};

/// Nested tables and arrays in the value of one key.
const MAX_DEPTH: usize = 8;

/// Some editors write it at the start of a file.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The key of rules, which are tables in a table.
const RULES: &str = "tools";

pub(super) fn apply(text: &str, changes: &[Change]) -> Result<String, EditError> {
    let (mark, body) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(body) => (BYTE_ORDER_MARK, body),
        None => ("", text),
    };
    let mut document: DocumentMut = body.parse().map_err(|_| {
        EditError::new("the file is not valid TOML; repair it first: `toolcrib config check`")
    })?;
    for (index, change) in changes.iter().enumerate() {
        one(&mut document, change).map_err(|error| EditError { change: index, ..error })?;
    }
    // The document has lost its kind of line breaks.
    let mut new = document.to_string();
    if body.contains("\r\n") && body.matches('\n').count() == body.matches("\r\n").count() {
        new = new.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    let new = format!("{mark}{new}");
    match new.len() as u64 > MAX_BYTES {
        true => {
            let message = format!("the file would be larger than {} MiB", MAX_BYTES >> 20);
            Err(EditError::new(message))
        }
        false => Ok(new),
    }
}

fn one(document: &mut DocumentMut, change: &Change) -> Result<(), EditError> {
    if !change.tools.is_empty() {
        return Err(EditError::of_key("tools", "is only for adding or changing a role"));
    }
    let rule = change.kind == ChangeKind::Rule;
    match &change.source {
        None if rule => return Err(EditError::new("a rule needs the id of its `source`")),
        Some(_) if !rule => return Err(EditError::new("only a rule has a `source`")),
        Some(_) | None => {}
    }
    if change.action == EditAction::Remove && !change.settings.is_empty() {
        return Err(EditError::new("`remove` has no `settings`"));
    }
    match change.kind {
        ChangeKind::Source => element(document, change, "source", "id"),
        ChangeKind::Role => element(document, change, "role", "name"),
        ChangeKind::Toolset => toolset(document, change),
        ChangeKind::Rule => self::rule(document, change),
    }
}

/// Changes an element of the array of tables `array`, whose name is its member `key`.
fn element(
    document: &mut DocumentMut,
    change: &Change,
    array: &'static str,
    key: &'static str,
) -> Result<(), EditError> {
    if change.settings.contains_key(key) {
        let message = format!("is the `name` of the change; a {} is not renamed", change.kind);
        return Err(EditError::of_key(key, message));
    }
    let at = elements(document, array)?
        .and_then(|all| all.iter().position(|element| is_called(element, key, &change.name)));
    match (change.action, at) {
        (EditAction::Add, Some(_)) => Err(exists(change)),
        (EditAction::Set | EditAction::Remove, None) => Err(missing(change)),
        (EditAction::Add, None) => {
            let mut table = Table::new();
            table.insert(key, Item::Value(change.name.as_str().into()));
            fill(&mut table, &change.settings)?;
            append(document, array, table)
        }
        (EditAction::Set, Some(at)) => {
            match elements(document, array)?.and_then(|all| all.get_mut(at)) {
                Some(table) => fill(table, &change.settings),
                None => Err(missing(change)),
            }
        }
        (EditAction::Remove, Some(at)) => {
            let removed = elements(document, array)?.map(|all| {
                let removed = all.remove(at);
                (removed, all.is_empty())
            });
            if let Some((removed, is_empty)) = removed {
                if is_empty {
                    document.as_table_mut().remove(array);
                }
                keep_comment(document, &removed);
            }
            Ok(())
        }
    }
}

/// The tables of `[[array]]`; `None` if it is empty or missing.
fn elements<'a>(
    document: &'a mut DocumentMut,
    array: &str,
) -> Result<Option<&'a mut ArrayOfTables>, EditError> {
    match document.as_table_mut().get_mut(array) {
        None => Ok(None),
        Some(Item::ArrayOfTables(all)) => Ok(Some(all)),
        Some(_) => Err(EditError::new(format!(
            "the file has `{array} = […]` on one line; write `[[{array}]]` tables, or change it with \
             an editor"
        ))),
    }
}

fn is_called(table: &Table, key: &str, name: &str) -> bool {
    table.get(key).and_then(Item::as_str) == Some(name)
}

/// Appends `table` to `[[array]]`: after its last table, or at the end of the file.
fn append(document: &mut DocumentMut, array: &str, mut table: Table) -> Result<(), EditError> {
    let last_of_all = document.iter().filter_map(|(_, item)| last_position(item)).max();
    let last = document.get(array).and_then(last_position);
    let is_last = last.is_none() || last >= last_of_all;
    let is_blank = document.iter().next().is_none();
    let mut prefix = String::new();
    if is_last {
        // Comments at the end of the file stay before the new table.
        prefix.push_str(document.trailing().as_str().unwrap_or_default());
        document.set_trailing("");
        if !prefix.is_empty() && !prefix.ends_with('\n') {
            prefix.push('\n');
        }
    }
    if !is_blank || !prefix.trim().is_empty() {
        prefix.push('\n');
    }
    table.decor_mut().set_prefix(prefix);
    match elements(document, array)? {
        Some(all) => all.push(table),
        None => {
            let mut all = ArrayOfTables::new();
            all.push(table);
            document.as_table_mut().insert(array, Item::ArrayOfTables(all));
        }
    }
    Ok(())
}

/// The position of the last table in `item`.
fn last_position(item: &Item) -> Option<isize> {
    let of_table = |table: &Table| {
        let inner = table.iter().filter_map(|(_, item)| last_position(item)).max();
        table.position().max(inner)
    };
    match item {
        Item::Table(table) => of_table(table),
        Item::ArrayOfTables(all) => all.iter().filter_map(of_table).max(),
        Item::None | Item::Value(_) => None,
    }
}

/// Keeps the comments before a removed table that are not directly above it, such as the head of the
/// file.
fn keep_comment(document: &mut DocumentMut, removed: &Table) {
    let prefix = removed.decor().prefix().and_then(|raw| raw.as_str()).unwrap_or_default();
    // A comment directly above it goes with it.
    let Some((kept, _)) = prefix.rsplit_once("\n\n") else { return };
    if kept.trim().is_empty() {
        return;
    }
    let kept = format!("{kept}\n");
    match next_place(document.as_table(), removed.position()) {
        Some(place) => put_before(document.as_table_mut(), place, &kept),
        None => {
            let own = document.trailing().as_str().unwrap_or_default().to_owned();
            document.set_trailing(format!("{kept}{own}"));
        }
    }
}

/// The position of the first table with a header after the position `after`.
fn next_place(table: &Table, after: Option<isize>) -> Option<isize> {
    let of = |table: &Table| {
        let is_shown = !table.is_implicit() && !table.is_dotted();
        let own = table.position().filter(|_| is_shown && table.position() > after);
        own.into_iter().chain(next_place(table, after)).min()
    };
    let places = table.iter().filter_map(|(_, item)| match item {
        Item::Table(inner) => of(inner),
        Item::ArrayOfTables(all) => all.iter().filter_map(of).min(),
        Item::None | Item::Value(_) => None,
    });
    places.min()
}

/// Puts `text` before the header of the table at `place`.
fn put_before(table: &mut Table, place: isize, text: &str) {
    let visit = |table: &mut Table| {
        if table.position() == Some(place) {
            let own =
                table.decor().prefix().and_then(|raw| raw.as_str()).unwrap_or("\n").to_owned();
            let gap = if own.starts_with('\n') { "" } else { "\n" };
            table.decor_mut().set_prefix(format!("{text}{gap}{own}"));
        } else {
            put_before(table, place, text);
        }
    };
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(inner) => visit(inner),
            Item::ArrayOfTables(all) => all.iter_mut().for_each(visit),
            Item::None | Item::Value(_) => {}
        }
    }
}

fn toolset(document: &mut DocumentMut, change: &Change) -> Result<(), EditError> {
    let is_new = document.get("toolset").is_none();
    let exists_already = document
        .get("toolset")
        .and_then(Item::as_table_like)
        .is_some_and(|all| all.contains_key(&change.name));
    match (change.action, exists_already) {
        (EditAction::Add, true) => return Err(exists(change)),
        (EditAction::Set | EditAction::Remove, false) => return Err(missing(change)),
        _ => {}
    }
    if is_new {
        let mut parent = Table::new();
        parent.set_implicit(true);
        document.as_table_mut().insert("toolset", Item::Table(parent));
    }
    let Some(all) = document.get_mut("toolset").and_then(Item::as_table_like_mut) else {
        return Err(EditError::new("`toolset` is not a table; write `[toolset.NAME]`"));
    };
    match change.action {
        EditAction::Remove => {
            let removed = all.remove(&change.name);
            if all.is_empty() {
                document.as_table_mut().remove("toolset");
            }
            if let Some(Item::Table(removed)) = removed {
                keep_comment(document, &removed);
            }
            Ok(())
        }
        EditAction::Add => {
            let mut table = Table::new();
            fill(&mut table, &change.settings)?;
            if is_new {
                let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
                document.set_trailing("");
                table.decor_mut().set_prefix(format!("{trailing}\n"));
            }
            match document.get_mut("toolset") {
                Some(Item::Value(Value::InlineTable(all))) => {
                    all.insert(&change.name, Value::InlineTable(table.into_inline_table()));
                }
                Some(Item::Table(all)) => {
                    all.insert(&change.name, Item::Table(table));
                }
                _ => return Err(EditError::new("`toolset` is not a table")),
            }
            Ok(())
        }
        EditAction::Set => match all.get_mut(&change.name) {
            Some(Item::Table(table)) => fill(table, &change.settings),
            Some(Item::Value(Value::InlineTable(table))) => fill_inline(table, &change.settings, 0),
            _ => Err(missing(change)),
        },
    }
}

fn rule(document: &mut DocumentMut, change: &Change) -> Result<(), EditError> {
    let id = change.source.as_deref().unwrap_or_default();
    let source = elements(document, "source")?
        .and_then(|all| all.iter_mut().find(|element| is_called(element, "id", id)));
    let Some(source) = source else {
        return Err(EditError::new(format!("the file has no source `{id}`")));
    };
    let has_rule = source
        .get(RULES)
        .and_then(Item::as_table_like)
        .is_some_and(|rules| rules.contains_key(&change.name));
    match (change.action, has_rule) {
        (EditAction::Add, true) => Err(exists(change)),
        (EditAction::Set | EditAction::Remove, false) => Err(missing(change)),
        (EditAction::Remove, true) => {
            let rules = source.get_mut(RULES).and_then(Item::as_table_like_mut);
            let is_empty = rules.is_some_and(|rules| {
                rules.remove(&change.name);
                rules.is_empty()
            });
            if is_empty {
                source.remove(RULES);
            }
            Ok(())
        }
        (EditAction::Add | EditAction::Set, _) => {
            let rule = Json::Object(change.settings.clone());
            fill(source, &Map::from_iter([(RULES.to_owned(), named(&change.name, rule))]))
        }
    }
}

fn named(name: &str, value: Json) -> Json {
    Json::Object(Map::from_iter([(name.to_owned(), value)]))
}

/// Writes `settings` into `table`: values replace, `null` removes, objects are merged.
fn fill(table: &mut Table, settings: &Map<String, Json>) -> Result<(), EditError> {
    fill_nested(table, settings, 0)
}

fn fill_nested(
    table: &mut Table,
    settings: &Map<String, Json>,
    depth: usize,
) -> Result<(), EditError> {
    // Plain values come before tables, which would take over the lines that follow.
    for (key, setting) in settings.iter().filter(|(_, setting)| !setting.is_object()) {
        put(table, key, setting)?;
    }
    for (key, setting) in settings {
        if let Json::Object(members) = setting {
            merge(table, key, members, depth)?;
        }
    }
    Ok(())
}

/// As [`fill`], for a table in braces.
fn fill_inline(
    table: &mut InlineTable,
    settings: &Map<String, Json>,
    depth: usize,
) -> Result<(), EditError> {
    check_depth(depth)?;
    for (key, setting) in settings {
        match (setting, table.get_mut(key)) {
            (Json::Null, _) => drop(table.remove(key)),
            (Json::Object(members), Some(Value::InlineTable(inner))) if !is_place(members) => {
                fill_inline(inner, members, depth + 1)?;
            }
            (_, Some(old)) => replace(old, of_key(key, setting)?),
            (_, None) => drop(table.insert(key, of_key(key, setting)?)),
        }
    }
    Ok(())
}

fn put(table: &mut Table, key: &str, setting: &Json) -> Result<(), EditError> {
    if setting.is_null() {
        table.remove(key);
        return Ok(());
    }
    let new = of_key(key, setting)?;
    match table.get_mut(key) {
        Some(Item::Value(old)) => replace(old, new),
        _ => drop(table.insert(key, Item::Value(new))),
    }
    Ok(())
}

/// Merges `members` into the table `key` of `table`.
fn merge(
    table: &mut Table,
    key: &str,
    members: &Map<String, Json>,
    depth: usize,
) -> Result<(), EditError> {
    check_depth(depth)?;
    // Below a separate table, `{ env = "NAME" }` and the like are values.
    let is_place = depth > 0 && is_place(members);
    match table.get_mut(key) {
        Some(Item::Table(inner)) if !is_place => fill_nested(inner, members, depth + 1),
        Some(Item::Value(Value::InlineTable(inner))) if !is_place => {
            fill_inline(inner, members, depth + 1)
        }
        _ if is_place => put(table, key, &Json::Object(members.clone())),
        _ => {
            let mut inner = Table::new();
            // `[source.tools]` itself has no line.
            inner.set_implicit(key == RULES && members.values().all(Json::is_object));
            fill_nested(&mut inner, members, depth + 1)?;
            table.insert(key, Item::Table(inner));
            Ok(())
        }
    }
}

/// Whether an object is the place of a secret, and so a single value.
fn is_place(members: &Map<String, Json>) -> bool {
    members.len() == 1 && members.keys().all(|key| key == "env" || key == "file")
}

fn check_depth(depth: usize) -> Result<(), EditError> {
    match depth > MAX_DEPTH {
        true => Err(EditError::new("the settings are nested too deeply")),
        false => Ok(()),
    }
}

fn of_key(key: &str, setting: &Json) -> Result<Value, EditError> {
    value(setting, 0).map_err(|message| EditError::of_key(key, message))
}

/// Replaces a value and keeps the comments around it; equal values stay as they are written.
fn replace(old: &mut Value, mut new: Value) {
    if let (Value::Array(old), Value::Array(new)) = (&mut *old, &new) {
        adjust(old, new);
        return;
    }
    if plain(old) == plain(&new) {
        return;
    }
    *new.decor_mut() = old.decor().clone();
    *old = new;
}

/// Replaces the elements of `old` by those of `new`; elements in both keep their lines and
/// comments.
fn adjust(old: &mut Array, new: &Array) {
    let wanted: Vec<String> = new.iter().map(plain).collect();
    old.retain(|item| wanted.contains(&plain(item)));
    let kept: Vec<String> = old.iter().map(plain).collect();
    if !wanted.starts_with(&kept) {
        // The order changed, so the array is rewritten.
        old.clear();
    }
    for value in new.iter().skip(old.len()).cloned().collect::<Vec<_>>() {
        push(old, value);
    }
}

/// Appends `value` in the layout of the last element. A comment behind that one stays there.
fn push(array: &mut Array, mut value: Value) {
    let text =
        |raw: Option<&RawString>| raw.and_then(RawString::as_str).unwrap_or_default().to_owned();
    let Some(at) = array.len().checked_sub(1) else {
        *value.decor_mut() = Decor::default();
        return array.push_formatted(value);
    };
    let has_comma = array.trailing_comma();
    let trailing = text(Some(array.trailing()));
    let Some(last) = array.get_mut(at) else { return };
    let before = text(last.decor().prefix());
    let Some((_, indent)) = before.rsplit_once('\n') else {
        *value.decor_mut() = Decor::new(" ", "");
        return array.push_formatted(value);
    };
    let behind = if has_comma { trailing } else { text(last.decor().suffix()) };
    let end = behind.rsplit_once('\n').map_or("", |(_, end)| end);
    let prefix = format!("{}\n{indent}", behind.trim_end());
    if has_comma {
        *value.decor_mut() = Decor::new(prefix, "");
        array.set_trailing(format!("\n{end}"));
    } else {
        last.decor_mut().set_suffix("");
        *value.decor_mut() = Decor::new(prefix, format!("\n{end}"));
    }
    array.push_formatted(value);
}

/// A comparable form of a value, without its comments and layout.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => format!("s{}", text.value()),
        Value::Integer(number) => format!("i{}", number.value()),
        Value::Float(number) => format!("f{}", number.value()),
        Value::Boolean(flag) => format!("b{}", flag.value()),
        Value::Datetime(time) => format!("d{}", time.value()),
        Value::Array(array) => format!("a{:?}", array.iter().map(plain).collect::<Vec<_>>()),
        Value::InlineTable(table) => {
            let mut members: Vec<_> =
                table.iter().map(|(key, value)| (key.to_owned(), plain(value))).collect();
            members.sort();
            format!("t{members:?}")
        }
    }
}

fn value(setting: &Json, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("is nested too deeply".to_owned());
    }
    Ok(match setting {
        Json::Null => return Err("`null` can only remove a key".to_owned()),
        Json::Bool(flag) => (*flag).into(),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            // A number that TOML would round is rejected.
            (None, Some(double))
                if Number::from_f64(double).is_some_and(|same| compare(number, &same).is_eq()) =>
            {
                double.into()
            }
            _ => return Err("is a number that TOML does not have".to_owned()),
        },
        Json::String(text) if is_placeholder(text) => {
            return Err(
                "has the mark of a hidden value; leave it out to keep that value".to_owned()
            );
        }
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => {
            let mut array = Array::new();
            for item in items {
                array.push(value(item, depth + 1)?);
            }
            array.into()
        }
        Json::Object(members) => {
            let mut table = InlineTable::new();
            for (key, member) in members.iter().filter(|(_, member)| !member.is_null()) {
                table.insert(key, value(member, depth + 1)?);
            }
            table.into()
        }
    })
}

fn exists(change: &Change) -> EditError {
    EditError::new(format!(
        "the file has a {} `{}` already; change it with `set`",
        change.kind, change.name
    ))
}

fn missing(change: &Change) -> EditError {
    let of =
        change.source.as_ref().map(|source| format!(" of source `{source}`")).unwrap_or_default();
    EditError::new(format!("the file has no {} `{}`{of}", change.kind, change.name))
}
