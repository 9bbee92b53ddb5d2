//! An OpenAPI document of version 3.0, 3.1 or 3.2: its files, and the references between them.
//!
//! Invariant: a reference is resolved against the file that contains it: against its own address
//! (`$self` or `$id`), and then against where it was read. It resolves to a value, or to an error
//! that names it.
//!
//! Invariant: the size and number of the files of a document are bounded together.

use std::{
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
};

use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::Url;

use super::{
    identifiers::{self, Names, References, anchored},
    parse::{MAX_DOCUMENT, YamlBudget, parse},
};
use crate::text::tidy;

/// Largest number of files of a document. DigitalOcean's has some 3 000.
const MAX_FILES: usize = 10_000;
/// Longest chain of references.
const MAX_REFERENCES: usize = 16;
/// Largest part of a reference in an error, in bytes.
const MAX_SHOWN: usize = 160;

/// A document of a supported version.
#[derive(Debug)]
pub(crate) struct Document {
    /// The first file is the root.
    files: Vec<File>,
    places: HashMap<Url, FileId>,
    /// The schemas and files that give themselves an address.
    names: HashMap<Url, NamedSchema>,
}

/// The place of a named schema.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NamedSchema {
    /// Its file and JSON pointer.
    Place(FileId, String),
    /// Several schemas have the name.
    Ambiguous,
}

/// A document whose files are being read.
#[derive(Debug)]
pub(crate) struct DocumentBuilder {
    document: Document,
    budget: YamlBudget,
    /// The number of files that were requested.
    requested: usize,
}

/// A file of a document.
#[derive(Debug)]
struct File {
    /// Where it was read.
    url: Url,
    /// The address that it gives itself, or the same.
    base: Url,
    /// The content, or why it is missing.
    content: Result<Value, String>,
    /// Whether its schemas are those of 3.0, which differ from JSON Schema.
    is_old: bool,
}

/// The index of a file in its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId(usize);

/// A value in a document, with the file that its references are resolved against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'d> {
    pub(super) value: &'d Value,
    pub(super) file: FileId,
}

/// Why a document was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("the OpenAPI document is larger than {} MiB", MAX_DOCUMENT >> 20)]
    TooLarge,
    #[error("the OpenAPI document is not {0}")]
    Malformed(String),
    #[error(
        "Swagger 2.0 is not supported; convert the document to OpenAPI 3.0, for example with \
         `npx swagger2openapi FILE`"
    )]
    Swagger,
    #[error(
        "the OpenAPI document has no `openapi: 3.0.x`, `3.1.x` or `3.2.x`; other versions are not \
         read"
    )]
    Version,
}

/// A reference that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the $ref `{reference}` {problem}")]
pub(super) struct ReferenceError {
    reference: String,
    problem: ReferenceProblem,
}

/// Why a reference cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReferenceProblem {
    #[error("has no target")]
    Dangling,
    #[error("is circular")]
    Circle,
    #[error("is ambiguous: several schemas have this name")]
    Ambiguous,
    #[error("is not read: {0}")]
    Unread(String),
}

/// Why an operation cannot become a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OperationProblem {
    #[error("{0}")]
    Reference(#[from] ReferenceError),
    #[error("{0}")]
    Other(String),
}

impl OperationProblem {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self::Other(problem.into())
    }
}

// === impl Node ===

impl<'d> Node<'d> {
    /// `value` as a part of the same file.
    pub(super) fn with(self, value: &'d Value) -> Self {
        Self { value, ..self }
    }

    pub(super) fn get(self, key: &str) -> Option<Self> {
        self.value.get(key).map(|value| self.with(value))
    }

    /// The member `key` if it is a string.
    pub(super) fn text(self, key: &str) -> Option<&'d str> {
        self.value.get(key).and_then(Value::as_str)
    }

    /// Whether the `type` of a schema is `name`, or a list that contains it.
    pub(super) fn is_type(self, name: &str) -> bool {
        match self.value.get("type") {
            Some(Value::Array(names)) => names.iter().any(|value| value == name),
            one => one.is_some_and(|value| value == name),
        }
    }

    /// The member `key` if it is a boolean.
    pub(super) fn flag(self, key: &str) -> Option<bool> {
        self.value.get(key).and_then(Value::as_bool)
    }

    /// The items of a list; empty for any other value.
    pub(super) fn items(self) -> impl Iterator<Item = Self> {
        self.value.as_array().into_iter().flatten().map(move |item| self.with(item))
    }

    /// The members of an object; empty for any other value.
    pub(super) fn members(self) -> impl Iterator<Item = (&'d str, Self)> {
        let members = self.value.as_object().into_iter().flatten();
        members.map(move |(key, member)| (key.as_str(), self.with(member)))
    }
}

/// Nodes are equal if they are the same place of a document.
impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.value, other.value)
    }
}

impl Eq for Node<'_> {}

impl Hash for Node<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.value, state);
    }
}

// === impl ReferenceError ===

impl ReferenceError {
    fn new(reference: &str, problem: ReferenceProblem) -> Self {
        Self { reference: tidy(reference, MAX_SHOWN), problem }
    }

    pub(super) fn circle(reference: &str) -> Self {
        Self::new(reference, ReferenceProblem::Circle)
    }

    fn unread(reference: &str, reason: impl fmt::Display) -> Self {
        Self::new(reference, ReferenceProblem::Unread(reason.to_string()))
    }
}

// === impl DocumentBuilder ===

impl DocumentBuilder {
    /// Parses the root document from `url`.
    pub(crate) fn new(url: Url, bytes: &[u8]) -> Result<Self, DocumentError> {
        if bytes.len() > MAX_DOCUMENT {
            return Err(DocumentError::TooLarge);
        }
        let mut budget = YamlBudget::default();
        let root = parse(bytes, &mut budget).map_err(DocumentError::Malformed)?;
        let is_old = match version(&root) {
            Some(is_old) => is_old,
            None if root.get("swagger").is_some() => return Err(DocumentError::Swagger),
            None => return Err(DocumentError::Version),
        };
        let content = Err("the file has not been read".to_owned());
        let file = File { url: url.clone(), base: url.clone(), content, is_old };
        let places = HashMap::from([(url, FileId(0))]);
        let document = Document { files: vec![file], places, names: HashMap::new() };
        let mut builder = Self { document, budget, requested: 1 };
        builder.set(FileId(0), root, is_old).map_err(DocumentError::Malformed)?;
        Ok(builder)
    }

    /// Returns the files that references lead to, each of them once.
    pub(crate) fn requests(&mut self) -> Vec<(FileId, Url)> {
        let files = self.document.files.iter().enumerate().skip(self.requested);
        let requests = files.map(|(id, file)| (FileId(id), file.url.clone())).collect();
        self.requested = self.document.files.len();
        requests
    }

    /// Adds the content of a requested file, or the reason why it is missing.
    pub(crate) fn add(&mut self, id: FileId, content: Result<Vec<u8>, String>) {
        let parsed = content.and_then(|bytes| {
            parse(&bytes, &mut self.budget).map_err(|problem| format!("the file is not {problem}"))
        });
        let is_old = self.document.is_old(FileId(0));
        let set = parsed.and_then(|content| {
            let is_old = version(&content).unwrap_or(is_old);
            self.set(id, content, is_old).map_err(|problem| format!("the file is not {problem}"))
        });
        if let (Err(problem), Some(file)) = (set, self.document.files.get_mut(id.0)) {
            file.content = Err(problem);
        }
    }

    pub(crate) fn finish(self) -> Document {
        self.document
    }

    /// Sets the content of the file `id`, and requests the files that it refers to. An error
    /// completes a sentence such as "the file is not …".
    fn set(&mut self, id: FileId, mut content: Value, is_old: bool) -> Result<(), String> {
        let mut references = References::of(&content);
        let Some(file) = self.document.files.get_mut(id.0) else { return Ok(()) };
        let own = own_address(&content, is_old).and_then(|own| file.url.join(own).ok());
        if let Some(mut own) = own {
            own.set_fragment(None);
            file.base = own;
        }
        let (url, base) = (file.url.clone(), file.base.clone());
        // The schemas of 3.0 have no names.
        if references.has_names && !is_old {
            let names = identifiers::rewrite(&mut content, &base)?;
            references = References::of(&content);
            self.document.add_names(id, &url, &base, names);
        }
        if base != url {
            self.document.add_name(base, NamedSchema::Place(id, String::new()));
        }
        if let Some(file) = self.document.files.get_mut(id.0) {
            file.content = Ok(content);
            file.is_old = is_old;
        }
        for reference in references.foreign {
            self.request(id, &url, &reference);
        }
        Ok(())
    }

    /// Requests the file that `reference` in the file `from`, at `url`, leads to.
    fn request(&mut self, from: FileId, url: &Url, reference: &str) {
        let Document { files, places, .. } = &self.document;
        let Ok(location) = locate(url, reference) else { return };
        let is_known =
            places.contains_key(&location) || self.document.find(from, reference).is_some();
        if is_known || files.len() == MAX_FILES {
            return;
        }
        let content = Err("the file has not been read".to_owned());
        let id = FileId(files.len());
        self.document.places.insert(location.clone(), id);
        let (url, base) = (location.clone(), location);
        self.document.files.push(File { url, base, content, is_old: false });
    }
}

// === impl Document ===

impl Document {
    pub(super) fn root(&self) -> Node<'_> {
        const NOTHING: &Value = &Value::Null;
        let content = self.files.first().and_then(|file| file.content.as_ref().ok());
        Node { value: content.unwrap_or(NOTHING), file: FileId(0) }
    }

    /// Whether the schemas of a file are those of 3.0.
    pub(super) fn is_old(&self, file: FileId) -> bool {
        self.files.get(file.0).is_some_and(|file| file.is_old)
    }

    /// The file name without its extension.
    pub(super) fn stem(&self, file: FileId) -> &str {
        let path = self.files.get(file.0).map(|file| file.url.path()).unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or(name, |(stem, _)| stem)
    }

    /// Returns the file and the JSON pointer of a reference in the file `from`.
    pub(super) fn target(
        &self,
        from: FileId,
        reference: &str,
    ) -> Result<(FileId, String), ReferenceError> {
        if let Some(pointer) =
            reference.strip_prefix('#').filter(|pointer| pointer.starts_with('/'))
        {
            return Ok((from, decoded(pointer)));
        }
        match self.find(from, reference) {
            Some(NamedSchema::Place(file, pointer)) => return Ok((file, pointer)),
            Some(NamedSchema::Ambiguous) => {
                return Err(ReferenceError::new(reference, ReferenceProblem::Ambiguous));
            }
            None => {}
        }
        let unread = |why: &str| ReferenceError::unread(reference, why);
        let file = match reference.starts_with('#') {
            true => from,
            false => self.file(from, reference).map_err(|why| unread(&why))?,
        };
        match self.files.get(file.0).map(|file| &file.content) {
            Some(Err(reason)) => Err(unread(reason)),
            // The file does not contain this anchor.
            Some(Ok(_)) | None => Err(ReferenceError::new(reference, ReferenceProblem::Dangling)),
        }
    }

    /// Returns the place of a reference in the file `from`, if its file or name is known.
    fn find(&self, from: FileId, reference: &str) -> Option<NamedSchema> {
        let (place, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = decoded(fragment);
        let is_anchor = !fragment.is_empty() && !fragment.starts_with('/');
        let File { url, base, .. } = self.files.get(from.0)?;
        [base, url].into_iter().find_map(|base| {
            let mut at = if place.is_empty() { base.clone() } else { base.join(place).ok()? };
            at.set_fragment(None);
            if is_anchor {
                return self.names.get(&anchored(&at, &fragment)).cloned();
            }
            let file = self.places.get(&at).copied();
            let is_read =
                |id: FileId| self.files.get(id.0).is_some_and(|entry| entry.content.is_ok());
            match (file, self.names.get(&at)) {
                // A readable file at the address takes precedence over one that names itself so.
                (Some(file), _) if is_read(file) => {
                    Some(NamedSchema::Place(file, fragment.clone()))
                }
                (_, Some(NamedSchema::Place(file, pointer))) => {
                    Some(NamedSchema::Place(*file, format!("{pointer}{fragment}")))
                }
                (_, Some(NamedSchema::Ambiguous)) => Some(NamedSchema::Ambiguous),
                (Some(file), None) => Some(NamedSchema::Place(file, fragment.clone())),
                (None, None) => None,
            }
        })
    }

    fn file(&self, from: FileId, reference: &str) -> Result<FileId, String> {
        let from = self.files.get(from.0).ok_or("its file is unknown")?;
        let url = locate(&from.url, reference)?;
        let too_many = || format!("the document has more than {MAX_FILES} files");
        self.places.get(&url).copied().ok_or_else(too_many)
    }

    /// Adds the names of the file `id`, which was read at `url` and has the address `base`.
    fn add_names(&mut self, id: FileId, url: &Url, base: &Url, names: Names) {
        for (name, pointer) in names {
            let named =
                pointer.map_or(NamedSchema::Ambiguous, |pointer| NamedSchema::Place(id, pointer));
            let mut holder = name.clone();
            holder.set_fragment(None);
            // The anchors of a file are known by both of its addresses.
            if let Some(anchor) = name.fragment().filter(|_| holder == *base && base != url) {
                self.add_name(anchored(url, anchor), named.clone());
            }
            self.add_name(name, named);
        }
    }

    fn add_name(&mut self, name: Url, named: NamedSchema) {
        let other = self.names.entry(name).or_insert_with(|| named.clone());
        if *other != named {
            *other = NamedSchema::Ambiguous;
        }
    }

    /// Returns the value that the `$ref` string `reference` in the file `from` points to.
    pub(super) fn at(&self, from: FileId, reference: &str) -> Result<Node<'_>, ReferenceError> {
        let (file, pointer) = self.target(from, reference)?;
        let content = self.files.get(file.0).map(|file| file.content.as_ref());
        let value = match content {
            Some(Ok(root)) => root.pointer(&pointer),
            Some(Err(reason)) => return Err(ReferenceError::unread(reference, reason)),
            None => None,
        };
        match value {
            Some(value) => Ok(Node { value, file }),
            None => Err(ReferenceError::new(reference, ReferenceProblem::Dangling)),
        }
    }

    /// Resolves `node`: the final target of its `$ref`, or itself.
    pub(super) fn follow<'d>(&'d self, mut node: Node<'d>) -> Result<Node<'d>, ReferenceError> {
        for _ in 0..MAX_REFERENCES {
            match node.text("$ref") {
                Some(reference) => node = self.at(node.file, reference)?,
                None => return Ok(node),
            }
        }
        Err(ReferenceError::circle(node.text("$ref").unwrap_or_default()))
    }

    /// `node` and the targets on the way to the final one.
    pub(super) fn chain<'d>(&'d self, node: Node<'d>) -> Result<Vec<Node<'d>>, ReferenceError> {
        self.follow(node)?;
        let mut chain = vec![node];
        let mut last = node;
        while let Some(reference) = last.text("$ref") {
            last = self.at(last.file, reference)?;
            chain.push(last);
        }
        Ok(chain)
    }

    /// Parses `bytes` as a document without other files.
    #[cfg(any(test, fuzzing))]
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let url = Url::parse("file:///openapi.json").ok()?;
        DocumentBuilder::new(url, bytes).ok().map(DocumentBuilder::finish)
    }

    pub(super) fn version(&self) -> Option<String> {
        self.root().value.pointer("/info/version").and_then(Value::as_str).map(str::to_owned)
    }
}

/// Whether a file of a supported version has the schemas of 3.0; `None` for other files.
fn version(root: &Value) -> Option<bool> {
    let version = root.get("openapi").and_then(Value::as_str).unwrap_or_default();
    match version.split('.').collect::<Vec<_>>().as_slice() {
        ["3", "0", ..] => Some(true),
        ["3", "1" | "2", ..] => Some(false),
        _ => None,
    }
}

/// Returns the address that a file gives itself: `$self` of a document of 3.2, or `$id` of a
/// schema.
fn own_address(root: &Value, is_old: bool) -> Option<&str> {
    let text = |key: &str| root.get(key).and_then(Value::as_str);
    let id = text("$id").filter(|id| !is_old && !id.starts_with('#'));
    text("$self").or(id)
}

/// Decodes the escapes of a fragment.
fn decoded(fragment: &str) -> String {
    percent_decode_str(fragment).decode_utf8_lossy().into_owned()
}

/// Returns the address of the file that `reference` in the file at `base` leads to.
fn locate(base: &Url, reference: &str) -> Result<Url, String> {
    let mut url = base.join(reference).map_err(|_| "it is not a file or an address".to_owned())?;
    url.set_fragment(None);
    match (url.scheme(), base.scheme()) {
        ("file", "file") => url.set_query(None),
        ("http" | "https", _) => {}
        ("file", _) => return Err("a file at an address cannot refer to a local file".to_owned()),
        _ => return Err("only files and http or https addresses are read".to_owned()),
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
