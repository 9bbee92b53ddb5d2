//! The import graph of each crate: which file uses items of which other file.
//!
//! A file that imports another one is above it. A cycle means that none of its files can be read or
//! tested alone. Re-exports are followed to the file that defines the item, so a parent module that
//! only re-exports its children is not above them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;

use crate::shell::say;
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

/// The crates with a graph, the number of files in their largest permitted cycle, and the number of
/// folders in theirs. With 1, no cycle is permitted.
const MEMBERS: &[Member] = &[
    Member { source: "bench/src/", files: 3, folders: 3 },
    Member { source: "crates/cli/src/", files: 1, folders: 4 },
    Member { source: "crates/client/src/", files: 1, folders: 4 },
    Member { source: "crates/config/src/", files: 1, folders: 3 },
    Member { source: "crates/conformance/src/", files: 1, folders: 4 },
    Member { source: "crates/core/src/", files: 1, folders: 4 },
    Member { source: "crates/gateway/src/", files: 1, folders: 4 },
    Member { source: "crates/mcp/src/", files: 1, folders: 4 },
    Member { source: "crates/oauth/src/", files: 1, folders: 4 },
    Member { source: "crates/sources/src/", files: 1, folders: 4 },
    Member { source: "crates/store/src/", files: 1, folders: 4 },
    Member { source: "crates/tasks/src/", files: 1, folders: 4 },
    Member { source: "crates/telemetry/src/", files: 1, folders: 4 },
    Member { source: "crates/testkit/src/", files: 4, folders: 4 },
    Member { source: "crates/toolcrib/src/", files: 1, folders: 4 },
    Member { source: "xtask/src/", files: 3, folders: 3 },
];

struct Member {
    /// Where its files are.
    source: &'static str,
    files: usize,
    folders: usize,
}

/// The path of a module from the root of its crate.
type Module = Vec<String>;

/// The imports of one crate.
#[derive(Default)]
struct Graph {
    files: BTreeMap<Module, Imports>,
}

/// The modules that each module imports: files, or the rooms of one folder.
#[derive(Default)]
struct ImportGraph(BTreeMap<Module, BTreeSet<Module>>);

#[derive(Default)]
struct Imports {
    /// Lines without tests.
    lines: usize,
    /// Paths that the file uses.
    used: Vec<Vec<String>>,
    /// Names that it re-exports, and their paths.
    exported: HashMap<String, Vec<String>>,
}

/// Reports every cycle with more files or folders than its crate permits.
pub(crate) fn cycles(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for member in MEMBERS {
        let files = Graph::read(tree, member).arrows();
        let long = files.levels().into_iter().filter(|group| group.len() > member.files);
        findings.extend(long.map(|cycle| finding(member, "files", &cycle)));
        for folder in files.folders() {
            let levels = files.rooms(&folder).levels().into_iter();
            let long = levels.filter(|group| group.len() > member.folders);
            findings.extend(long.map(|cycle| finding(member, "folders", &cycle)));
        }
    }
    Ok(findings)
}

fn finding(member: &Member, kind: &str, cycle: &[Module]) -> String {
    format!(
        "{}: {} {kind} import each other: {}; move what they share to a file below them",
        member.source,
        cycle.len(),
        names(cycle).replace(' ', ", ")
    )
}

fn names<'a>(modules: impl IntoIterator<Item = &'a Module>) -> String {
    modules.into_iter().map(|module| module.join("::")).collect::<Vec<_>>().join(" ")
}

/// Prints the rooms of each crate, which are its files with their folders: lowest first, each with the
/// rooms that it imports. Rooms that import each other are printed together, with the files that do.
pub(crate) fn print(tree: &Tree) {
    for member in MEMBERS {
        let graph = Graph::read(tree, member);
        let files = graph.arrows();
        let rooms = files.rooms(&[]);
        let lines = |room: &Module| {
            let inside = graph.files.iter().filter(|(module, _)| module.starts_with(room));
            inside.map(|(_, imports)| imports.lines).sum::<usize>()
        };
        say(format_args!("{}", member.source));
        for level in rooms.levels() {
            let mark = if level.len() > 1 { "knot" } else { "" };
            for room in &level {
                let (name, below) = (room.join("::"), names(rooms.below(room)));
                say(format_args!("  {mark:<5}{name:<20}{:>6} lines  {below}", lines(room)));
            }
            if level.len() > 1 {
                files.print_ties(&level);
            }
        }
    }
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
        let mut imports = Self { lines: code.lines().count(), ..Self::default() };
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
    fn read(tree: &Tree, member: &Member) -> Self {
        let mut graph = Self::default();
        for file in tree.rust() {
            let inside = file.path.strip_prefix(member.source);
            let Some(module) = inside.and_then(module) else { continue };
            let code = Source::new(&file.path, &file.text).product();
            graph.files.insert(module, Imports::read(&code));
        }
        graph
    }

    /// Which file imports which.
    fn arrows(&self) -> ImportGraph {
        let below = |module: &Module| self.below(module).into_iter().cloned().collect();
        ImportGraph(self.files.keys().map(|module| (module.clone(), below(module))).collect())
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
            // Re-exports may form a short chain.
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

impl ImportGraph {
    /// The folders with files, the root first.
    fn folders(&self) -> BTreeSet<Module> {
        let parents = self.0.keys().filter_map(|module| module.split_last());
        parents.map(|(_, parent)| parent.to_vec()).collect()
    }

    /// The arrows between the modules directly in `folder`, each with everything inside it.
    fn rooms(&self, folder: &[String]) -> Self {
        let depth = folder.len();
        let room = |module: &Module| {
            let inside = module.starts_with(folder) && module.len() > depth;
            inside.then(|| module.iter().take(depth + 1).cloned().collect::<Module>())
        };
        let mut rooms = Self::default();
        for (module, below) in &self.0 {
            let Some(from) = room(module) else { continue };
            let targets = below.iter().filter_map(room).filter(|target| *target != from);
            let targets: Vec<Module> = targets.collect();
            rooms.0.entry(from).or_default().extend(targets);
        }
        rooms
    }

    /// All modules, lowest first; those that import each other, directly or not, are one group.
    fn levels(&self) -> Vec<Vec<Module>> {
        let reach: BTreeMap<&Module, BTreeSet<&Module>> =
            self.0.keys().map(|module| (module, self.reachable(module))).collect();
        let mut groups: BTreeMap<(usize, &Module), Vec<Module>> = BTreeMap::new();
        for (module, reached) in &reach {
            let mutual = |other: &&&Module| {
                reach.get(**other).is_some_and(|targets| targets.contains(module))
            };
            let mut group: BTreeSet<&Module> = reached.iter().filter(mutual).copied().collect();
            group.insert(module);
            let first = group.first().copied().unwrap_or(module);
            groups.insert((reached.len(), first), group.into_iter().cloned().collect());
        }
        groups.into_values().collect()
    }

    fn below(&self, module: &Module) -> impl Iterator<Item = &Module> {
        self.0.get(module).into_iter().flatten()
    }

    fn reachable<'a>(&'a self, from: &'a Module) -> BTreeSet<&'a Module> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(self.below(module).filter(|below| seen.insert(*below)));
        }
        seen
    }

    /// Prints which files of `knot` import which files of its other rooms.
    fn print_ties(&self, knot: &[Module]) {
        let room = |module: &Module| knot.iter().find(|room| module.starts_with(room));
        for module in self.0.keys() {
            let Some(from) = room(module) else { continue };
            let other = |target: &&Module| room(target).is_some_and(|to| to != from);
            let targets = names(self.below(module).filter(other));
            if !targets.is_empty() {
                say(format_args!("         {} > {targets}", module.join("::")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let read = |(path, code): &(&str, &str)| (module(path).unwrap(), Imports::read(code));
        Graph { files: files.iter().map(read).collect() }
    }

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let levels = graph(files).arrows().levels().into_iter();
        levels.filter(|group| group.len() > 1).map(|cycle| names(&cycle)).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_cycle() {
        let one = ("one.rs", "use crate::two::Two;\npub struct One;");
        assert_eq!(cycles(&[one, ("two.rs", "use super::one::{self, One};")]), ["one two"]);
        assert_eq!(cycles(&[one, ("two.rs", "fn f() -> crate::one::One { x }")]), ["one two"]);
        assert_eq!(cycles(&[one, ("two.rs", "pub struct Two;")]), [""; 0]);
    }

    #[test]
    fn folders_whose_files_import_each_other_are_a_cycle() {
        let files = [
            ("a.rs", "mod x;\nmod y;"),
            ("a/x.rs", "use crate::b::B;"),
            ("a/y.rs", "pub struct Y;"),
            ("b.rs", "pub struct B;\nmod z;"),
            ("b/z.rs", "use crate::a::y::Y;"),
            ("c.rs", "use crate::a::y::Y;"),
        ];
        assert_eq!(cycles(&files), [""; 0]);
        let arrows = graph(&files).arrows();
        let levels = |folder: &[&str]| {
            let folder: Module = folder.iter().map(|part| (*part).to_owned()).collect();
            let groups = arrows.rooms(&folder).levels().into_iter();
            groups.map(|group| names(&group)).collect::<Vec<_>>()
        };
        assert_eq!(levels(&[]), ["a b", "c"]);
        assert_eq!(levels(&["a"]), ["a::x", "a::y"]);
        assert_eq!(arrows.folders().len(), 3);
    }

    #[test]
    fn a_parent_that_re_exports_its_child_is_not_above_it() {
        let child = ("a/b.rs", "use super::Shared;\npub struct B;");
        let parent = ("a.rs", "mod b;\npub use self::b::B;\npub struct Shared;");
        assert_eq!(cycles(&[parent, child, ("c.rs", "use crate::a::B;")]), [""; 0]);
        let user = ("a.rs", "mod b;\nuse self::b::B;\npub struct Shared;");
        assert_eq!(cycles(&[user, child]), ["a a::b"]);
        let by_path = ("a.rs", "mod b;\nfn f() { b::B }\npub struct Shared;");
        assert_eq!(cycles(&[by_path, child]), ["a a::b"]);
    }
}
