//! The import graph of each crate: which file uses items of which other file.
//!
//! A file that imports another one is above it. A cycle means that none of its files can be read or
//! tested alone. Re-exports are followed to the file that defines the item, so a parent module that
//! only re-exports its children is not above them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;

use crate::tidy::tree::Tree;

/// The crates with a graph, and the number of files in their largest permitted cycle. One file means
/// that no cycle is permitted.
const MEMBERS: &[(&str, usize)] = &[
    ("cli", 1),
    ("client", 1),
    ("conformance", 1),
    ("core", 1),
    ("gateway", 1),
    ("mcp", 1),
    ("sources", 1),
    ("store", 1),
    ("tasks", 1),
    ("toolcrib", 1),
];

/// The path of a module from the root of its crate.
type Module = Vec<String>;

/// The imports of one crate.
#[derive(Default)]
struct Graph {
    files: BTreeMap<Module, Imports>,
}

#[derive(Default)]
struct Imports {
    /// Paths that the file uses.
    used: Vec<Vec<String>>,
    /// Names that it re-exports, and their paths.
    exported: HashMap<String, Vec<String>>,
}

/// Reports every cycle with more files than its crate permits.
pub(crate) fn cycles(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (member, permitted) in MEMBERS {
        let prefix = format!("crates/{member}/src/");
        let mut graph = Graph::default();
        for (path, source) in tree.sources(&[member]) {
            let Some(module) = path.strip_prefix(&prefix).and_then(module) else { continue };
            graph.files.insert(module, Imports::read(&source.product()));
        }
        for cycle in graph.cycles().into_iter().filter(|cycle| cycle.len() > *permitted) {
            let files: Vec<String> = cycle.iter().map(|module| module.join("::")).collect();
            findings.push(format!(
                "{prefix}: {} files import each other: {}; move what they share to a file below \
                 them",
                files.len(),
                files.join(", ")
            ));
        }
    }
    Ok(findings)
}

/// The module of a file; `None` for files that are not part of the library or the program.
fn module(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs")?;
    let is_test = path.split('/').any(|part| part == "tests");
    if is_test || path.starts_with("bin/") {
        return None;
    }
    match path {
        "lib" | "main" => Some(Vec::new()),
        path => Some(path.split('/').map(str::to_owned).collect()),
    }
}

impl Imports {
    fn read(code: &str) -> Self {
        let mut imports = Self::default();
        let mut rest = String::new();
        for statement in code.split_inclusive(';') {
            let Some((before, uses)) = split_use(statement) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(before);
            let is_export = ends_with_visibility(before);
            let text: String =
                uses.trim_end_matches(';').split_whitespace().collect::<Vec<_>>().join(" ");
            for (path, name) in leaves(&text, &[]) {
                if is_export {
                    imports.exported.insert(name, path);
                } else {
                    imports.used.push(path);
                }
            }
        }
        imports.used.extend(paths(&rest));
        imports
    }
}

/// Splits `… use a::b;` into what precedes the statement and its tree.
fn split_use(statement: &str) -> Option<(&str, &str)> {
    let at = statement.rfind("use ")?;
    let (before, uses) = (statement.get(..at)?, statement.get(at + 4..)?);
    let starts = before.trim_end().chars().next_back();
    let is_statement =
        starts.is_none_or(|last| "{};)]".contains(last)) || ends_with_visibility(before);
    (is_statement && uses.ends_with(';')).then_some((before, uses))
}

fn ends_with_visibility(before: &str) -> bool {
    let last = before.trim_end().rsplit(['\n', ';', '{', '}']).next().unwrap_or_default().trim();
    last == "pub" || (last.starts_with("pub(") && last.ends_with(')'))
}

/// The leaves of a use tree: each path, and the name that it has in the file.
fn leaves(tree: &str, prefix: &[String]) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    if let Some((head, inside)) = tree.strip_suffix('}').and_then(|tree| tree.split_once('{')) {
        let mut prefix = prefix.to_vec();
        prefix.extend(segments(head));
        let (mut depth, mut part, mut found) = (0_usize, String::new(), Vec::new());
        for letter in inside.chars().chain([',']) {
            match letter {
                ',' if depth == 0 => {
                    if !part.trim().is_empty() {
                        found.extend(leaves(&part, &prefix));
                    }
                    part.clear();
                    continue;
                }
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            part.push(letter);
        }
        return found;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut full = prefix.to_vec();
    full.extend(segments(path));
    if full.last().is_some_and(|last| last == "self") {
        full.pop();
    }
    let name = alias.or_else(|| full.last().cloned()).unwrap_or_default();
    vec![(full, name)]
}

fn segments(path: &str) -> impl Iterator<Item = String> + '_ {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned)
}

/// Paths in code, outside of `use`: `crate::a::B`, `super::f` and `child::g`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = code.split(|letter: char| !part(letter)).filter(|word| word.contains("::"));
    words.map(|word| segments(word).collect()).collect()
}

impl Graph {
    /// The files that import each other, directly or not, each group once.
    fn cycles(&self) -> Vec<Vec<Module>> {
        let reach: BTreeMap<&Module, BTreeSet<&Module>> =
            self.files.keys().map(|module| (module, self.reachable(module))).collect();
        let mut groups: BTreeSet<Vec<Module>> = BTreeSet::new();
        for (module, reached) in &reach {
            let mutual =
                |other: &&&Module| reach.get(**other).is_some_and(|it| it.contains(module));
            let group: Vec<Module> =
                reached.iter().filter(mutual).map(|other| (*other).clone()).collect();
            if group.len() > 1 {
                groups.insert(group);
            }
        }
        groups.into_iter().collect()
    }

    fn reachable<'a>(&'a self, from: &'a Module) -> BTreeSet<&'a Module> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for below in self.below(module) {
                if seen.insert(below) {
                    next.push(below);
                }
            }
        }
        seen
    }

    /// The files whose items `module` uses.
    fn below<'a>(&'a self, module: &'a Module) -> BTreeSet<&'a Module> {
        let used = self.files.get(module).map_or(&[][..], |imports| &imports.used);
        let found = used.iter().filter_map(|path| self.resolve(module, path, 0));
        found.filter(|found| *found != module).collect()
    }

    /// The file that defines `path` as `module` writes it; `None` for other crates.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<&Module> {
        let mut rest = path;
        let mut at: Module = match rest.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => module.to_vec(),
            first => {
                let imports = self.files.get(module)?;
                let mut child = module.to_vec();
                child.push(first.to_owned());
                if !self.files.contains_key(&child) && !imports.exported.contains_key(first) {
                    return None;
                }
                module.to_vec()
            }
        };
        while let Some(first) = rest.first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => {
                    at.pop();
                }
                _ => break,
            }
            rest = rest.get(1..)?;
        }
        while let Some(first) = rest.first() {
            at.push(first.clone());
            if self.files.contains_key(&at) {
                rest = rest.get(1..)?;
                continue;
            }
            at.pop();
            // Re-exports may form a chain, and never a long one.
            if let Some(origin) = self.files.get(&at)?.exported.get(first)
                && depth < 8
            {
                let mut path = origin.clone();
                path.extend(rest.get(1..)?.iter().cloned());
                if let Some(found) = self.resolve(&at, &path, depth + 1) {
                    return Some(found);
                }
            }
            break;
        }
        self.files.get_key_value(&at).map(|(module, _)| module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let read = |(path, code): &(&str, &str)| (module(path).unwrap(), Imports::read(code));
        Graph { files: files.iter().map(read).collect() }
    }

    fn names(files: &[(&str, &str)]) -> Vec<String> {
        let cycles = graph(files).cycles().into_iter();
        cycles
            .map(|cycle| cycle.iter().map(|it| it.join("::")).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_cycle() {
        let one = ("one.rs", "use crate::two::Two;\npub struct One;");
        assert_eq!(names(&[one, ("two.rs", "use super::one::{self, One};")]), ["one two"]);
        assert_eq!(names(&[one, ("two.rs", "fn f() -> crate::one::One { x }")]), ["one two"]);
        assert_eq!(names(&[one, ("two.rs", "pub struct Two;")]), [""; 0]);
    }

    #[test]
    fn a_parent_that_re_exports_its_child_is_not_above_it() {
        let child = ("a/b.rs", "use super::Shared;\npub struct B;");
        let parent = ("a.rs", "mod b;\npub use self::b::B;\npub struct Shared;");
        assert_eq!(names(&[parent, child, ("c.rs", "use crate::a::B;")]), [""; 0]);
        let user = ("a.rs", "mod b;\nuse self::b::B;\npub struct Shared;");
        assert_eq!(names(&[user, child]), ["a a::b"]);
        let by_path = ("a.rs", "mod b;\nfn f() { b::B }\npub struct Shared;");
        assert_eq!(names(&[by_path, child]), ["a a::b"]);
    }
}
