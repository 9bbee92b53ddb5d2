//! Reads a whole document: selects and names its operations, and resolves their base URLs.
//!
//! Invariant: a tool's name depends only on the document. Operations whose names collide
//! are all named by method and path.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use toolcrib_core::source::{Discovered, DiscoveredOffer, SourceLimits};
use url::Url;

use super::{
    document::{Document, Node, OperationProblem},
    operation::{Candidate, METHODS, Operation, ReadingContext, derived_name},
    resolve::plain_name,
    select::Selection,
    server::Servers,
};
use crate::{problems::Problems, text::tidy};

/// Largest number of operations that are read.
const MAX_OPERATIONS: usize = 20_000;
/// Largest number of problems reported individually.
const MAX_PROBLEMS: usize = 50;
/// Largest note about an operation, in bytes.
const MAX_NOTE: usize = 400;
/// Largest size of the schemas of one tool, in bytes.
const MAX_SHARE: usize = 256 << 10;

/// The result of reading a document.
pub(super) struct Service {
    pub(super) discovered: Discovered,
    pub(super) operations: Operations,
}

/// Operations by tool name.
pub(super) type Operations = HashMap<String, CallableOperation>;

/// An operation and its base URL.
pub(super) struct CallableOperation {
    pub(super) operation: Operation,
    pub(super) base: Url,
    /// The server from the document; `None` where the configuration has the address.
    pub(super) server: Option<Value>,
}

pub(super) struct ReadSettings<'a> {
    pub(super) selection: &'a Selection,
    pub(super) servers: Servers<'a>,
    pub(super) configured: &'a HashSet<String>,
    pub(super) limits: &'a SourceLimits,
}

impl CallableOperation {
    /// The parts of a call's request that the document determines.
    fn sent(&self) -> Value {
        let Operation { method, path, parameters, body, .. } = &self.operation;
        json!({
            "method": method,
            "path": path,
            "server": self.server,
            "parameters": parameters,
            "body": body,
        })
    }
}

impl Service {
    pub(super) fn read(document: &Document, settings: &ReadSettings<'_>) -> Self {
        let mut problems = Problems::default();
        let mut chosen = candidates(document, &mut problems);
        chosen.retain(|candidate| {
            settings.selection.takes(&candidate.name, candidate.method, candidate.path)
        });
        if chosen.len() > settings.limits.max_tools {
            let (all, most) = (chosen.len(), settings.limits.max_tools);
            problems.add(format!(
                "the document has {all} operations, but only the first {most} are read; choose with `operations`"
            ));
            chosen.truncate(most);
        }
        let mut service = Self {
            discovered: Discovered { version: document.version(), ..Discovered::default() },
            operations: HashMap::with_capacity(chosen.len()),
        };
        let everywhere = document.root().get("servers").map(|servers| servers.value);
        let everywhere =
            everywhere.filter(|servers| servers.as_array().is_some_and(|list| !list.is_empty()));
        let limit = settings.limits.max_list_bytes;
        let reading = |share| ReadingContext { document, share, configured: settings.configured };
        for (candidate, read) in chosen.iter().zip(read_all(&chosen, limit, reading)) {
            let placed =
                read.map_err(|error: OperationProblem| error.to_string()).and_then(|operation| {
                    let servers = operation.servers.as_ref().or(everywhere);
                    let base = settings.servers.find(servers)?;
                    let server = servers.and_then(|servers| servers.get(0)).cloned();
                    let server = server.filter(|_| settings.servers.base.is_none());
                    Ok(CallableOperation { operation, base, server })
                });
            let line = || line(candidate.method, candidate.path);
            match placed {
                Ok(mut callable) => {
                    for note in std::mem::take(&mut callable.operation.notes) {
                        problems.add(format!("{}: {}", line(), tidy(&note, MAX_NOTE)));
                    }
                    service.add(callable);
                }
                Err(problem) => problems.add(format!("{} is left out: {problem}", line())),
            }
        }
        let rest = |more| format!("{more} more problems of operations");
        service.discovered.problems = problems.finish(rest);
        service
    }

    fn add(&mut self, mut callable: CallableOperation) {
        let operation = &mut callable.operation;
        let input = operation.input.take();
        let output = operation.output.take();
        let sent = callable.sent();
        let operation = &mut callable.operation;
        // Everything else is in the tool itself, and would be stored twice.
        let raw = json!({ "method": operation.method, "path": operation.path });
        let tool = DiscoveredOffer {
            name: operation.name.clone(),
            title: operation.title.take(),
            description: operation.description.take(),
            input_schema: Some(input),
            output_schema: output,
            operation: Some(sent),
            raw,
            ..DiscoveredOffer::default()
        };
        self.discovered.offers.push(tool.into());
        self.operations.insert(operation.name.clone(), callable);
    }
}

/// Reads all of `chosen` completely. If their schemas exceed `limit` bytes in total, each is
/// limited to a fair share.
fn read_all<'d>(
    chosen: &[Candidate<'d>],
    limit: usize,
    reading: impl Fn(usize) -> ReadingContext<'d>,
) -> Vec<Result<Operation, OperationProblem>> {
    let (whole, mut sizes, mut total) = (reading(MAX_SHARE), Vec::new(), 0_usize);
    let mut all = Vec::new();
    for candidate in chosen {
        let read = Operation::read(&whole, candidate);
        let taken = read.as_ref().map_or(0, Operation::schema_bytes);
        total = total.saturating_add(taken);
        sizes.push(taken);
        match total <= limit {
            true => all.push(read),
            false => all.clear(),
        }
    }
    if total <= limit {
        return all;
    }
    let narrow = reading(fair_share(sizes, limit));
    chosen.iter().map(|candidate| Operation::read(&narrow, candidate)).collect()
}

/// Returns the largest share per operation so that the total stays within `limit`. Operations in
/// `sizes` that need less leave the rest to the others.
fn fair_share(mut sizes: Vec<usize>, limit: usize) -> usize {
    sizes.sort_unstable();
    let (mut left, mut waiting) = (limit, sizes.len());
    for size in sizes {
        let even = left / waiting.max(1);
        if size > even {
            return even;
        }
        left -= size;
        waiting -= 1;
    }
    MAX_SHARE
}

/// Lists all operations with their names, in document order.
fn candidates<'d>(
    document: &'d Document,
    problems: &mut Problems<MAX_PROBLEMS>,
) -> Vec<Candidate<'d>> {
    let mut found = Vec::new();
    let paths = document.root().get("paths").map(|paths| document.follow(paths)).transpose();
    let paths = paths.unwrap_or_else(|problem| {
        problems.add(format!("all operations are left out: {problem}"));
        None
    });
    for (path, item) in paths.into_iter().flat_map(Node::members) {
        if path.starts_with("x-") {
            continue;
        }
        let items = match document.chain(item) {
            Ok(items) => items,
            Err(problem) => {
                problems.add(format!("path {} is left out: {problem}", quoted(path)));
                continue;
            }
        };
        for (method, described) in operations_of(document, path, &items, problems) {
            let described = match document.follow(described) {
                Ok(described) if is_operation(described) => described,
                Ok(_) => {
                    problems.add(format!("{} is not an operation", line(method, path)));
                    continue;
                }
                Err(problem) => {
                    problems.add(format!("{} is left out: {problem}", line(method, path)));
                    continue;
                }
            };
            if found.len() == MAX_OPERATIONS {
                problems.add(format!("only the first {MAX_OPERATIONS} operations are read"));
                return named(found);
            }
            let (name, items) = (String::new(), items.clone());
            found.push(Candidate { name, method, path, items, described });
        }
    }
    if found.is_empty() {
        problems.add("the document has no operations");
    }
    named(found)
}

/// Returns the operations of a path by their methods: first the members named by method, then those
/// in `additionalOperations`.
fn operations_of<'d>(
    document: &'d Document,
    path: &str,
    items: &[Node<'d>],
    problems: &mut Problems<MAX_PROBLEMS>,
) -> Vec<(&'d str, Node<'d>)> {
    let mut found: Vec<(&str, Node<'d>)> = Vec::new();
    for method in METHODS {
        let member = method.to_ascii_lowercase();
        let described = items.iter().find_map(|item| item.get(&member));
        match described {
            Some(described) if described.value.is_object() => found.push((method, described)),
            Some(_) => problems.add(format!("{} is not an operation", line(method, path))),
            None => {}
        }
    }
    for additional in items.iter().filter_map(|item| item.get("additionalOperations")) {
        let additional = match document.follow(additional) {
            Ok(additional) if additional.value.is_object() => additional,
            Ok(_) => {
                let path = quoted(path);
                problems
                    .add(format!("`additionalOperations` of {path} is not a map of operations"));
                continue;
            }
            Err(problem) => {
                let path = quoted(path);
                problems.add(format!("`additionalOperations` of {path} is left out: {problem}"));
                continue;
            }
        };
        for (method, described) in additional.members() {
            let known = found.iter().any(|(other, _)| *other == method);
            match additional_problem(method, described) {
                Some(problem) => {
                    problems.add(format!("{} is left out: {problem}", line(method, path)));
                }
                None if known => {}
                None => found.push((method, described)),
            }
        }
    }
    found
}

/// Whether a value can be an operation. A whole document, or an object with an invalid `$ref`,
/// would otherwise count as an operation without arguments.
fn is_operation(described: Node<'_>) -> bool {
    let foreign = ["$ref", "openapi", "paths"].into_iter().any(|key| described.get(key).is_some());
    described.value.is_object() && !foreign
}

/// Why an entry of `additionalOperations` cannot be called.
fn additional_problem(method: &str, described: Node<'_>) -> Option<&'static str> {
    if METHODS.contains(&method) {
        Some("the specification forbids this method in `additionalOperations`")
    } else if method == "CONNECT" {
        Some("CONNECT opens a tunnel instead of sending a request")
    } else if http::Method::from_bytes(method.as_bytes()).is_err() {
        Some("its method contains invalid characters")
    } else if !described.value.is_object() {
        Some("it is not an operation")
    } else {
        None
    }
}

/// Writes the method and path of an operation for the operator.
fn line(method: &str, path: &str) -> String {
    format!("{} {}", quoted(method), quoted(path))
}

/// Assigns a name to each candidate.
fn named(mut found: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let own = |candidate: &Candidate<'_>| {
        let id = candidate.described.text("operationId").map(str::trim);
        id.filter(|id| !id.is_empty()).map(plain_name)
    };
    let mut counts: HashMap<String, usize> = HashMap::new();
    for candidate in &found {
        let name = own(candidate).unwrap_or_else(|| derived_name(candidate.method, candidate.path));
        *counts.entry(name).or_default() += 1;
    }
    let mut taken = HashSet::new();
    for candidate in &mut found {
        let name = own(candidate).filter(|name| counts.get(name) == Some(&1));
        let name = name.unwrap_or_else(|| derived_name(candidate.method, candidate.path));
        // Two paths may differ only in punctuation. The name is then method and path, and a hash
        // later replaces the characters that are invalid in names.
        candidate.name = match taken.contains(&name) {
            false => name,
            true => format!("{} {}", candidate.method, candidate.path),
        };
        taken.insert(candidate.name.clone());
    }
    found
}

/// Cleans text of a document for display to the operator.
fn quoted(text: &str) -> String {
    tidy(text, 120)
}

/// Parses `bytes` as a document and creates requests for its operations.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    use std::collections::BTreeMap;

    use serde_json::Map;

    let (configured, limits) = (HashSet::new(), SourceLimits::default());
    let (selection, variables) = (Selection::default(), BTreeMap::new());
    let base = Url::parse("http://service.example/api").expect("it is a URL");
    let servers = Servers { base: Some(&base), document: None, variables: &variables };
    let settings =
        ReadSettings { selection: &selection, servers, configured: &configured, limits: &limits };
    let Some(document) = Document::of(bytes) else { return };
    let service = Service::read(&document, &settings);
    assert_eq!(service.discovered.offers.len(), service.operations.len());
    let hostile = json!("../../\u{0}?#&=\r\n%2e");
    for tool in &service.discovered.offers {
        let schema = tool.input_schema.as_ref().expect("every tool has one");
        let callable = &service.operations[&tool.name];
        let properties = schema["properties"].as_object().expect("it is an object");
        for value in [&hostile, &json!({ "a": [hostile.clone(), 1, null] }), &json!([])] {
            let arguments: Map<String, Value> =
                properties.keys().map(|name| (name.clone(), value.clone())).collect();
            let built = super::request::build(&callable.operation, &callable.base, &arguments);
            if let Ok(request) = built {
                assert_eq!(request.url.origin(), base.origin());
                assert!(request.url.path().starts_with("/api/"), "{}", request.url);
            }
        }
    }
}

#[cfg(test)]
mod tests;
