//! Servers as a file describes them, before their secrets are taken out.

use serde_json::Value;

/// A server as the file of a desktop client describes it, before its secrets are taken out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DescribedServer {
    /// Its name in the client.
    pub(crate) name: String,
    pub(super) settings: Value,
    pub(super) rules: Vec<Rule>,
    /// Its settings without a translation, with the reason.
    pub(super) parts: Vec<(String, String)>,
    /// A reason outside of its settings why it is not usable.
    pub(super) obstacle: Obstacle,
}

impl DescribedServer {
    pub(super) fn new(name: &str, settings: Value) -> Self {
        Self {
            name: name.to_owned(),
            settings,
            rules: Vec::new(),
            parts: Vec::new(),
            obstacle: Obstacle::default(),
        }
    }
}

/// The content of the file of a desktop client.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct ClientFile {
    pub(crate) servers: Vec<DescribedServer>,
    /// Other settings in the file without a translation.
    pub(super) parts: Vec<Part>,
}

impl ClientFile {
    /// Adds a setting without a translation.
    pub(super) fn part(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        self.parts.push(Part::new(place, reason));
    }

    pub(super) fn each(&mut self, change: impl FnMut(&mut DescribedServer)) {
        self.servers.iter_mut().for_each(change);
    }
}

/// A part of the document without a translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) place: String,
    pub(crate) reason: String,
}

impl Part {
    pub(super) fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}

/// A rule for tools of a server.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    /// Matches the names of the tools.
    pub(super) glob: String,
    pub(super) hide: Option<bool>,
    pub(super) scope: Option<String>,
    pub(super) timeout: Option<String>,
    /// An explanation for the operator.
    pub(super) comment: Option<String>,
}

/// The first reason why a server is not usable.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Obstacle(Option<String>);

impl Obstacle {
    pub(super) fn add(&mut self, why: impl Into<String>) {
        self.0.get_or_insert_with(|| why.into());
    }

    pub(super) fn into_reason(self) -> Option<String> {
        self.0
    }
}

/// The glob that matches only `name`.
pub(super) fn literal(name: &str) -> String {
    let mut glob = String::new();
    for c in name.chars() {
        match c {
            '*' | '?' | '[' | ']' | '{' | '}' | '!' | '\\' => glob.extend(['[', c, ']']),
            c => glob.push(c),
        }
    }
    glob
}
