//! Joins the modules of the page into few files, which browsers load with few requests.
//!
//! The modules use a part of the language that can be joined without reading all of it: imports come
//! first, name what they import, and are relative; exports are declarations that are never assigned
//! again, or one list. Anything else is an error of the build. A module becomes a function that
//! returns its exports:
//!
//! ```js
//! const $lib_tabs_js = (() => {
//! const { html } = $lib_ui_js;
//! …
//! return { Tabs };
//! })();
//! ```
//!
//! The entry and its imports are one file. A module that is imported dynamically becomes another
//! file, together with the modules that only it imports. Modules that several of these files
//! import, and the entry does not, are in `shared.js`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The file of the modules that several files import, and the first one does not.
const SHARED: &str = "shared.js";

/// A file of the page, made of modules.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A parsed module.
#[derive(Debug, Default)]
struct Module {
    imports: Vec<Import>,
    /// The modules that it imports dynamically.
    later: Vec<String>,
    /// The exported names, each with the name inside the module.
    exports: BTreeMap<String, String>,
    /// The text without its imports, and without the word `export`.
    body: String,
}

#[derive(Debug)]
struct Import {
    from: String,
    /// The names there, each with the name here.
    names: Vec<(String, String)>,
}

/// Joins `modules` (texts by path, such as `lib/ui.js`) into files; the first is that of `entry`.
///
/// # Errors
///
/// Fails with a sentence that names the module if one of them is missing, uses what cannot be joined, or
/// imports itself through others.
pub(crate) fn link(modules: &BTreeMap<String, String>, entry: &str) -> Result<Vec<Chunk>, String> {
    let read = modules.iter().map(|(path, text)| Ok((path.clone(), read(path, text)?)));
    let read = read.collect::<Result<BTreeMap<_, _>, String>>()?;
    check_names(&read)?;
    let order = order(&read)?;
    let homes = homes(&read, entry)?;
    let mut names: Vec<&str> = homes.values().map(String::as_str).collect();
    names.sort_by_key(|name| (*name != entry, *name));
    names.dedup();
    let chunk = |name: &&str| Chunk {
        name: (*name).to_owned(),
        text: text(name, entry, &read, &order, &homes),
    };
    Ok(names.iter().map(chunk).collect())
}

/// Returns the file of each module that the page uses.
fn homes(
    modules: &BTreeMap<String, Module>,
    entry: &str,
) -> Result<BTreeMap<String, String>, String> {
    let first = reached(modules, entry)?;
    let mut later = BTreeSet::new();
    let mut waiting: Vec<String> = first.iter().cloned().collect();
    while let Some(path) = waiting.pop() {
        for target in modules.get(&path).into_iter().flat_map(|module| &module.later) {
            if !first.contains(target) && later.insert(target.clone()) {
                waiting.extend(reached(modules, target)?);
            }
        }
    }
    let mut homes: BTreeMap<_, _> =
        first.iter().map(|path| (path.clone(), entry.to_owned())).collect();
    let mut users: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    for target in &later {
        for path in reached(modules, target)?.difference(&first) {
            users.entry(path.clone()).or_default().insert(target);
        }
    }
    for (path, users) in users {
        let only = users.first().filter(|_| users.len() == 1);
        let home = match only {
            // `record/screen.js` is served as `record.js`: files of the page are in one folder.
            Some(user) => file_name(user),
            None => SHARED.to_owned(),
        };
        homes.insert(path, home);
    }
    Ok(homes)
}

/// Returns the name of the file of a module that is imported later: that of its folder for a screen,
/// and its own otherwise.
fn file_name(path: &str) -> String {
    match path.strip_suffix("/screen.js") {
        Some(folder) => format!("{folder}.js"),
        None => path.replace('/', "-"),
    }
}

/// Returns `path` and all modules that it imports, also through others.
fn reached(modules: &BTreeMap<String, Module>, path: &str) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let module =
            modules.get(&path).ok_or_else(|| format!("{path}: there is no such module"))?;
        if found.insert(path) {
            waiting.extend(module.imports.iter().map(|import| import.from.clone()));
        }
    }
    Ok(found)
}

/// Returns the modules so that each comes after those that it imports.
fn order(modules: &BTreeMap<String, Module>) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    let mut left: BTreeMap<&String, BTreeSet<&String>> = modules
        .iter()
        .map(|(path, module)| (path, module.imports.iter().map(|import| &import.from).collect()))
        .collect();
    while !left.is_empty() {
        let ready: Vec<_> = left
            .iter()
            .filter(|(_, imports)| !imports.iter().any(|import| left.contains_key(*import)))
            .map(|(path, _)| *path)
            .collect();
        if ready.is_empty() {
            let names: Vec<_> = left.keys().map(|path| path.as_str()).collect();
            return Err(format!("modules import each other, among: {}", names.join(", ")));
        }
        for path in ready {
            left.remove(path);
            done.push(path.clone());
        }
    }
    Ok(done)
}

/// Checks that each imported name is exported.
fn check_names(modules: &BTreeMap<String, Module>) -> Result<(), String> {
    for (path, module) in modules {
        for import in &module.imports {
            let from = modules
                .get(&import.from)
                .ok_or_else(|| format!("{path}: imports {}, which does not exist", import.from))?;
            for (name, _) in &import.names {
                if !from.exports.contains_key(name) {
                    return Err(format!("{path}: {} does not export `{name}`", import.from));
                }
            }
        }
    }
    Ok(())
}

/// Returns the text of the file `name`.
fn text(
    name: &str,
    entry: &str,
    modules: &BTreeMap<String, Module>,
    order: &[String],
    homes: &BTreeMap<String, String>,
) -> String {
    let own = order.iter().filter(|path| homes.get(*path).is_some_and(|home| home == name));
    let mut others: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut out = String::new();
    let mut exported = Vec::new();
    for path in own {
        let Some(module) = modules.get(path) else { continue };
        for import in &module.imports {
            if let Some(home) = homes.get(&import.from).filter(|home| *home != name) {
                others.entry(home).or_default().insert(variable(&import.from));
            }
        }
        let body = with_files(path, &module.body, homes);
        // Writing to a string is infallible.
        let _infallible = if path == entry {
            // Not at the level of the module: files that it imports later wait for the end of that.
            write!(out, "(async () => {{\n{}{body}}})();\n", names(module))
        } else {
            exported.push(variable(path));
            let exports: Vec<_> = module.exports.iter().map(renamed).collect();
            let (variable, names) = (variable(path), names(module));
            let exports = exports.join(", ");
            write!(
                out,
                "const {variable} = (() => {{\n{names}{body}return {{ {exports} }};\n}})();\n"
            )
        };
    }
    let imports: String = others
        .iter()
        .map(|(file, names)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("import {{ {} }} from './{file}';\n", names.join(", "))
        })
        .collect();
    format!("{imports}{out}export {{ {} }};\n", exported.join(", "))
}

/// Returns the declarations of what `module` imports.
fn names(module: &Module) -> String {
    let line = |import: &Import| {
        let names: Vec<_> =
            import.names.iter().map(|(there, here)| renamed((there, here))).collect();
        format!("const {{ {} }} = {};\n", names.join(", "), variable(&import.from))
    };
    module.imports.iter().filter(|import| !import.names.is_empty()).map(line).collect()
}

fn renamed((key, value): (&String, &String)) -> String {
    match key == value {
        true => key.clone(),
        false => format!("{key}: {value}"),
    }
}

/// Returns `body` with the files in the place of the modules that it imports later.
fn with_files(path: &str, body: &str, homes: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("import('") {
        out.push_str(before);
        let Some((target, behind)) = after.split_once("')") else { break };
        let target = resolved(path, target).unwrap_or_default();
        let home = homes.get(&target).map_or("", String::as_str);
        let _infallible = write!(out, "import('./{home}').then((it) => it.{})", variable(&target));
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Returns the variable that holds the exports of a module.
fn variable(path: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    format!("${}", path.chars().map(plain).collect::<String>())
}

fn read(path: &str, text: &str) -> Result<Module, String> {
    let mut module = Module::default();
    let mut rest = text;
    loop {
        let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        if line.starts_with("import ") {
            let (statement, behind) = rest
                .split_once(';')
                .ok_or_else(|| format!("{path}: an import without its semicolon"))?;
            module.imports.push(import(path, statement)?);
            rest = behind.trim_start_matches('\n');
        } else if line.starts_with("//") || line.is_empty() && !rest.is_empty() {
            rest = behind;
        } else {
            break;
        }
    }
    let mut fragment = rest;
    while let Some((_, after)) = fragment.split_once("import('") {
        let target = after.split('\'').next().and_then(|target| resolved(path, target));
        module
            .later
            .push(target.ok_or_else(|| format!("{path}: imports a place that is unknown"))?);
        fragment = after;
    }
    if rest.contains("import(`") {
        return Err(format!(
            "{path}: imports a computed place, which cannot be found in the build"
        ));
    }
    while !rest.is_empty() {
        let end = match rest.starts_with("export {") {
            true => rest.find(";\n").map(|at| at + 2),
            false => rest.find('\n').map(|at| at + 1),
        };
        let (line, behind) = rest.split_at(end.unwrap_or(rest.len()));
        module.line(path, line)?;
        rest = behind;
    }
    if !module.body.ends_with('\n') {
        module.body.push('\n');
    }
    Ok(module)
}

impl Module {
    /// Adds a line of the text. An export is at the start of its line, except for the list at the
    /// end of a published package.
    fn line(&mut self, path: &str, line: &str) -> Result<(), String> {
        let Some(declaration) = line.strip_prefix("export ") else {
            match line.rfind("export{").and_then(|at| line.split_at_checked(at)) {
                Some((before, list)) if list.trim_end().ends_with("};") => {
                    self.body.push_str(before);
                    self.list(list.trim_start_matches("export"));
                }
                _ => self.body.push_str(line),
            }
            return Ok(());
        };
        let words = declaration.strip_prefix("async ").unwrap_or(declaration);
        let known = ["function ", "const ", "class "]
            .iter()
            .find_map(|keyword| words.strip_prefix(keyword));
        let end =
            |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_' || letter == '$');
        let name = known.and_then(|rest| rest.split(end).next()).filter(|name| !name.is_empty());
        match name {
            Some(name) => {
                self.exports.insert(name.to_owned(), name.to_owned());
                self.body.push_str(declaration);
            }
            None if declaration.starts_with('{') && declaration.trim_end().ends_with("};") => {
                self.list(declaration);
            }
            None => return Err(format!("{path}: cannot be joined: {}", line.trim_end())),
        }
        Ok(())
    }

    /// Adds an exported list, such as `{ a, b as c };`.
    fn list(&mut self, list: &str) {
        for (here, there) in pairs(list) {
            self.exports.insert(there, here);
        }
    }
}

/// Reads an import without its semicolon.
fn import(path: &str, statement: &str) -> Result<Import, String> {
    let problem = || format!("{path}: cannot be joined: {statement}");
    let (names, from) = match statement.split_once(" from ") {
        Some((names, from)) => (names.strip_prefix("import ").ok_or_else(problem)?, from),
        None => ("{}", statement.strip_prefix("import ").ok_or_else(problem)?),
    };
    let from = from.trim().strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let from = from.and_then(|name| resolved(path, name)).ok_or_else(problem)?;
    let is_list = names.starts_with('{') && names.trim_end().ends_with('}');
    match is_list {
        true => Ok(Import { from, names: pairs(names) }),
        false => Err(problem()),
    }
}

/// Returns the names of a list `{ a, b as c }`, each with its other name or itself.
fn pairs(list: &str) -> Vec<(String, String)> {
    list.trim_matches(|letter: char| "{};".contains(letter) || letter.is_whitespace())
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| item.split_once(" as ").unwrap_or((item, item)))
        .map(|(a, b)| (a.trim().to_owned(), b.trim().to_owned()))
        .collect()
}

/// Returns the path of the module that `path` calls `target`; `None` for anything but a relative path.
fn resolved(path: &str, target: &str) -> Option<String> {
    let mut folders: Vec<&str> = path.split('/').collect();
    folders.pop();
    let mut parts = target.split('/').peekable();
    if !matches!(parts.peek(), Some(&("." | ".."))) {
        return None;
    }
    for part in parts {
        match part {
            "." => {}
            ".." => {
                folders.pop()?;
            }
            name => folders.push(name),
        }
    }
    Some(folders.join("/"))
}
