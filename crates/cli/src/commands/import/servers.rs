//! Servers with valid source ids and without secrets; and those of the files of desktop clients.
//!
//! Every format has a module that reads it through the [`Reader`], so that secrets are treated alike.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use toolcrib_core::redact::PLACEHOLDER;

use super::{
    arguments::{self, CONTAINER_RUNNERS},
    command_line::{CommandLine, is_windows_path, with_references},
    described::{ClientFile, DescribedServer, Obstacle, Part, Rule},
    launcher::{self, Piece},
    reference::{self, Reference},
    restrictions::{Meaning, Restrictions, folded, meaning},
    secrets::{
        has_only_references, hidden_address, is_name, is_path, is_public_address, is_public_header,
        is_public_variable, without_secret,
    },
};

/// The reason why a server over HTTP+SSE is not usable.
pub(super) const SSE: &str =
    "it speaks the deprecated HTTP+SSE transport; use its streamable HTTP address";

/// What the import reads from a document.
#[derive(Debug, Default)]
pub(crate) struct ImportContent {
    pub(super) servers: Vec<Server>,
    /// Variables to set, in the order of their first use.
    pub(crate) variables: Vec<Variable>,
    /// The port that the gateway listens on.
    pub(super) port: Option<u16>,
    /// Names of the gateway.
    pub(super) hosts: Vec<String>,
    /// Origins of pages that may use it.
    pub(super) origins: Vec<String>,
    /// Issuers of tokens.
    pub(super) issuers: Vec<Issuer>,
    /// The parts without a translation.
    pub(crate) parts: Vec<Part>,
}

/// An issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issuer {
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
    pub(super) keys: String,
    /// The reason why its tokens are not accepted.
    pub(super) obstacle: Option<String>,
}

#[derive(Debug)]
pub(super) struct Server {
    /// Its name in the client.
    pub(super) name: String,
    /// The source id.
    pub(super) id: String,
    pub(super) upstream: Upstream,
    /// In the order in which they apply.
    pub(super) rules: Vec<Rule>,
    /// The reason why it is not usable as a source.
    pub(super) obstacle: Option<String>,
    /// The file that describes it, if there are several.
    pub(super) origin: Option<String>,
}

impl Server {
    /// The command that stores the secret header of this server as a credential: a source has one,
    /// and it is for requests over HTTP.
    pub(super) fn credential(&self) -> Option<String> {
        let (url, headers) = match &self.upstream {
            Upstream::Url { url, headers } | Upstream::Document { url: Some(url), headers, .. } => {
                (url, headers)
            }
            Upstream::Command { .. } | Upstream::Document { url: None, .. } => return None,
        };
        let url = url::Url::parse(url).ok()?;
        let mut secrets = headers.iter().filter_map(|(name, value)| match value {
            Setting::Env(variable) => Some((name, variable)),
            Setting::Plain(_) => None,
        });
        let (Some((name, variable)), None) = (secrets.next(), secrets.next()) else { return None };
        let (id, host) = (&self.id, url.host_str()?);
        let audience = match url.port() {
            Some(_) => url.origin().ascii_serialization(),
            None => host.to_owned(),
        };
        Some(format!(
            "toolcrib credentials set {id} --header {name} --audience {audience} \
             --value-env {variable}"
        ))
    }
}

/// The transport of a server.
#[derive(Debug)]
pub(super) enum Upstream {
    Command { command: Vec<String>, env: Vec<(String, Setting)>, cwd: Option<String> },
    Url { url: String, headers: Vec<(String, Setting)> },
    Document { document: String, url: Option<String>, headers: Vec<(String, Setting)> },
}

/// The value of a variable or header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Plain(String),
    /// The value of this environment variable.
    Env(String),
}

/// A variable to set before serving.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) about: String,
    /// The value in the client's file, which distinguishes two uses of a name; never written.
    value: String,
}

/// Reads described servers, without their secrets.
pub(super) fn of(file: &ClientFile) -> ImportContent {
    let mut reader = Reader::default();
    reader.described(file, None);
    reader.imported
}

/// Reads the servers of several files with their origins. Equal servers in several files are read
/// once.
pub(crate) fn read_files(files: &[(String, ClientFile)]) -> ImportContent {
    let mut reader = Reader::default();
    for (origin, file) in files {
        reader.described(file, Some(origin));
    }
    reader.imported
}

/// Collects the content of a document.
#[derive(Default)]
pub(super) struct Reader {
    /// Used ids, with `-` as `_`: ids that differ only in this are rejected.
    ids: BTreeSet<String>,
    /// The texts of the described servers.
    known: BTreeSet<String>,
    /// The file of the next server.
    origin: Option<String>,
    pub(super) imported: ImportContent,
}

impl Reader {
    /// Reads servers, except duplicates.
    fn described(&mut self, file: &ClientFile, origin: Option<&str>) {
        self.origin = origin.map(str::to_owned);
        for Part { place, reason } in &file.parts {
            let place = origin.map_or_else(|| place.clone(), |origin| format!("{origin}: {place}"));
            self.part(place, reason);
        }
        for server in &file.servers {
            let DescribedServer { name, settings, rules, obstacle, .. } = server;
            if self.known.insert(format!("{name} {settings} {rules:?} {obstacle:?}")) {
                self.server(server);
            }
        }
    }

    fn server(&mut self, described: &DescribedServer) {
        let name = &described.name;
        let id = self.id(name);
        let mut obstacle = described.obstacle.clone();
        let none = Map::new();
        let server = described.settings.as_object().unwrap_or(&none);
        let text = |key: &str| server.get(key).and_then(Value::as_str);

        let restrictions = Restrictions::of(name, server);
        for (key, why) in described.parts.iter().chain(&restrictions.parts) {
            self.part(format!("{id}.{key}"), why);
        }
        if let Some(reason) = restrictions.obstacle.into_reason() {
            obstacle.add(reason);
        }
        let url =
            ["url", "serverUrl", "httpUrl"].into_iter().find_map(|key| Some((key, text(key)?)));
        let mut words = match server.get("command") {
            Some(Value::String(program)) => vec![program.clone()],
            // In some clients the list has the arguments too.
            Some(Value::Array(words)) => words.iter().map(word).collect(),
            _ => Vec::new(),
        };
        let (upstream, used) = match (words.is_empty(), url) {
            (false, _) => {
                words.extend(self.arguments(&id, server, &mut obstacle));
                if is_toolcrib(&words) {
                    obstacle.add("it is toolcrib itself");
                }
                let env = self.table(&id, server, "env", &mut obstacle);
                let cwd = text("cwd").map(str::to_owned);
                let upstream = self.command(&id, words, &env, cwd, &mut obstacle);
                (upstream, &["command", "args", "env", "cwd"][..])
            }
            (true, Some((key, url))) => {
                let headers = self.table(&id, server, "headers", &mut obstacle);
                (self.url(&id, url, &headers, &mut obstacle), &[key, "headers"][..])
            }
            (true, None) => {
                obstacle.add("it has neither `command` nor `url`");
                (Upstream::Command { command: Vec::new(), env: Vec::new(), cwd: None }, &[][..])
            }
        };
        for key in ["type", "transport", "transportType"] {
            if let Some(kind) = server.get(key) {
                check_transport(kind, &upstream, &mut obstacle);
            }
        }
        // A setting that the other transport would use, or of another type than usual.
        let is_unused = |key: &&String| {
            meaning(key) == Meaning::Translated
                && !used.contains(&key.as_str())
                && !matches!(key.as_str(), "type" | "transport" | "transportType")
        };
        for key in server.keys().filter(is_unused) {
            self.part(format!("{id}.{key}"), "it is not used");
        }
        if server.get("cwd").is_some_and(|cwd| !cwd.is_string() && !cwd.is_null()) {
            obstacle.add("its `cwd` is no text");
        }
        let rules = [described.rules.clone(), restrictions.rules].concat();
        self.add(name, id, upstream, rules, obstacle);
    }

    /// The words in `args`.
    fn arguments(
        &mut self,
        id: &str,
        server: &Map<String, Value>,
        obstacle: &mut Obstacle,
    ) -> Vec<String> {
        match server.get("args") {
            Some(Value::Array(args)) => args.iter().map(word).collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(_) => {
                self.part(format!("{id}.args"), "it is not a list");
                obstacle.add("its `args` is not a list");
                Vec::new()
            }
        }
    }

    /// The table `key` of texts.
    fn table(
        &mut self,
        id: &str,
        server: &Map<String, Value>,
        key: &str,
        obstacle: &mut Obstacle,
    ) -> Map<String, Value> {
        let mut table = match server.get(key) {
            Some(Value::Object(table)) => table.clone(),
            Some(Value::Null) | None => Map::new(),
            Some(_) => {
                self.part(format!("{id}.{key}"), "it is not a table");
                obstacle.add(format!("its `{key}` is not a table"));
                Map::new()
            }
        };
        table.retain(|name, value| {
            if value.is_null() {
                self.part(format!("{id}.{key}.{name}"), "it has no value");
            }
            !value.is_null()
        });
        table
    }

    pub(super) fn add(
        &mut self,
        name: &str,
        id: String,
        upstream: Upstream,
        rules: Vec<Rule>,
        obstacle: Obstacle,
    ) {
        let (name, obstacle) = (name.to_owned(), obstacle.into_reason());
        let origin = self.origin.clone();
        self.imported.servers.push(Server { name, id, upstream, rules, obstacle, origin });
    }

    /// Notes that the part at `place` has no translation.
    pub(super) fn part(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        let part = Part { place: place.into(), reason: without_secret(&reason.into()) };
        if !self.imported.parts.contains(&part) {
            self.imported.parts.push(part);
        }
    }

    /// A server that runs as a child.
    pub(super) fn command(
        &mut self,
        id: &str,
        words: Vec<String>,
        env: &Map<String, Value>,
        cwd: Option<String>,
        obstacle: &mut Obstacle,
    ) -> Upstream {
        let line = CommandLine::read(words, obstacle);
        for change in line.changes {
            self.part(format!("{id}.command"), change);
        }
        let words = line.words;
        // A default is never written, so it hides no other secret.
        let examined: Vec<_> = words.iter().map(|word| reference::without_defaults(word)).collect();
        let (clean, hidden) = arguments::without_secrets(&examined);
        let mut env = self.settings(id, env, "", is_public_variable);
        let mut pieces = Vec::new();
        for (at, (word, clean)) in words.iter().zip(&clean).enumerate() {
            pieces.push(match (at, hidden.contains(&at)) {
                (0, true) => {
                    self.part(format!("{id}.command"), "it may be a secret");
                    obstacle.add("its program may be a secret; write it");
                    vec![Piece::Text(clean.clone())]
                }
                (_, true) => {
                    let before = at.checked_sub(1).filter(|before| !hidden.contains(before));
                    let before = before.and_then(|before| words.get(before));
                    let before = before.map(String::as_str).unwrap_or_default();
                    let program = words.first().map(String::as_str).unwrap_or_default();
                    self.secret_argument(id, at, [program, before, word, clean], &mut env)
                }
                (_, false) => self.argument(id, at, word, &mut env, obstacle),
            });
        }
        let cwd = cwd.map(|cwd| self.file(&format!("{id}.cwd"), &with_references(&cwd), obstacle));
        if cwd.as_ref().is_some_and(|path| Reference::of(path) != Reference::None) {
            obstacle.add("its `cwd` uses a variable of the client; write its value");
        }
        if cwd.as_ref().is_some_and(|path| is_windows_path(path)) {
            obstacle.add("its `cwd` is a path of Windows; write the one of this machine");
        }
        Upstream::Command { command: launcher::command(&pieces), env, cwd }
    }

    /// An argument that may be a secret: `sh` takes it from a variable.
    fn secret_argument(
        &mut self,
        id: &str,
        at: usize,
        [program, before, word, clean]: [&str; 4],
        env: &mut Vec<(String, Setting)>,
    ) -> Vec<Piece> {
        let place = format!("{id}.args[{}]", at.saturating_sub(1));
        let prefix = clean.strip_suffix(PLACEHOLDER).unwrap_or_default();
        let is_prefix = |prefix: &&str| word.starts_with(prefix) && !prefix.contains("://");
        let prefix = Some(prefix).filter(is_prefix).unwrap_or_default();
        let value = word.strip_prefix(prefix).unwrap_or(word);
        let name = match prefix.trim_matches(['-', '=']) {
            "" => before.strip_prefix('-').unwrap_or_default().trim_matches('-'),
            name => name,
        };
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = match name.len() > 1 && name.chars().all(is_legal) {
            true => name.to_owned(),
            false => format!("ARG_{at}"),
        };
        let about = format!("for an argument of source `{id}`: the value it has in the client");
        let variable = self.variable(variable_name(id, &name), id, about, value.to_owned());
        // A container gets the value of a variable if only its name is given.
        let program = program.rsplit('/').next().unwrap_or_default();
        let is_variable = CONTAINER_RUNNERS.contains(&program)
            && matches!(before, "-e" | "--env")
            && prefix.ends_with('=');
        if is_variable && !env.iter().any(|(known, _)| *known == name) {
            let reason =
                format!("it may be a secret; the program gets it from the variable {name}");
            self.part(place, reason);
            env.push((name.clone(), Setting::Env(variable)));
            return vec![Piece::Text(name)];
        }
        let reason = format!("it may be a secret; `sh` takes it from the variable {variable}");
        self.part(place, reason);
        let variable = variable_of(env, variable);
        vec![Piece::Text(prefix.to_owned()), Piece::Variable(variable)]
    }

    /// An argument without secrets, with its references as variables.
    fn argument(
        &mut self,
        id: &str,
        at: usize,
        word: &str,
        env: &mut Vec<(String, Setting)>,
        obstacle: &mut Obstacle,
    ) -> Vec<Piece> {
        let Some(parts) = reference::parts(word) else {
            obstacle.add("an argument uses a variable of the client; write its value");
            return vec![Piece::Text(word.to_owned())];
        };
        let place = format!("{id}.args[{}]", at.saturating_sub(1));
        let piece = |part| {
            let (wanted, about, value) = match part {
                reference::Part::Reference(Reference::Env(name)) => {
                    (name.to_owned(), String::new(), format!("${name}"))
                }
                reference::Part::Reference(Reference::Default(name, default)) => {
                    let default = self.default_of(&place, name, name, default);
                    (name.to_owned(), default, format!("${name}"))
                }
                reference::Part::Reference(Reference::Input(input)) => {
                    let about = format!(" (the client requests `{input}` from the user)");
                    (variable_name("", input), about, format!("?{input}"))
                }
                reference::Part::Text(text) => return Piece::Text(text.to_owned()),
                reference::Part::Reference(_) => return Piece::Text(word.to_owned()),
            };
            let about = format!("for an argument of source `{id}`{about}");
            let variable = self.variable(wanted, id, about, value);
            Piece::Variable(variable_of(env, variable))
        };
        parts.into_iter().map(piece).collect()
    }

    /// Notes the default of a variable, and returns an explanation.
    fn default_of(&mut self, place: &str, name: &str, variable: &str, default: &str) -> String {
        let shown = match is_public_variable(name, default) {
            true => format!("the default `{default}`"),
            false => "a default".to_owned(),
        };
        let reason = format!("{shown} of `{variable}` is not translated; set the variable");
        self.part(place, reason);
        format!(" ({shown} is used in the client if it is unset)")
    }

    /// A server at an address.
    pub(super) fn url(
        &mut self,
        id: &str,
        url: &str,
        headers: &Map<String, Value>,
        obstacle: &mut Obstacle,
    ) -> Upstream {
        let url = self.address(&format!("{id}.url"), &with_references(url), obstacle);
        let headers = self.settings(id, headers, id, is_public_header);
        Upstream::Url { url, headers }
    }

    /// A service with an OpenAPI document.
    pub(super) fn document(
        &mut self,
        id: &str,
        document: &str,
        url: Option<&str>,
        headers: &Map<String, Value>,
        obstacle: &mut Obstacle,
    ) -> Upstream {
        let place = format!("{id}.document");
        let document = match document.contains("://") {
            true => self.address(&place, document, obstacle),
            false => self.file(&place, document, obstacle),
        };
        let url = url.map(|url| self.address(&format!("{id}.base_url"), url, obstacle));
        let headers = self.settings(id, headers, id, is_public_header);
        Upstream::Document { document, url, headers }
    }

    /// Returns `url`, or its part without a secret.
    fn address(&mut self, place: &str, url: &str, obstacle: &mut Obstacle) -> String {
        let plain = reference::plain(url);
        let is_variable = plain != url && is_path(&plain);
        let has_secret = !is_variable && !is_public_address(&plain);
        if has_secret {
            self.part(place, "it may contain a secret");
            obstacle.add("its address may contain a secret; write it, or send it in `headers`");
        }
        if reference::has_default(url) {
            self.part(place, "the default of its variable is not translated");
        }
        if Reference::of(url) != Reference::None {
            obstacle.add("its address uses a variable of the client; write its value");
        }
        if has_secret { hidden_address(url) } else { url.to_owned() }
    }

    /// Returns `path`, or the placeholder if it may be a secret.
    fn file(&mut self, place: &str, path: &str, obstacle: &mut Obstacle) -> String {
        let plain = reference::plain(path);
        if is_path(&plain) || is_name(&plain) {
            return path.to_owned();
        }
        self.part(place, "it may contain a secret");
        obstacle.add("a path may contain a secret; write it");
        PLACEHOLDER.to_owned()
    }

    /// A setting for a secret of the document that is not written, or whose value is unknown.
    /// `about` says what the variable must contain.
    pub(super) fn secret(&mut self, id: &str, name: &str, about: &str, value: &str) -> Setting {
        let about = format!("for `{name}` of source `{id}`: {about}");
        let wanted = variable_name(id, name);
        Setting::Env(self.variable(wanted, id, about, value.to_owned()))
    }

    /// An unused source id that resembles `name`.
    pub(super) fn id(&mut self, name: &str) -> String {
        // Longest id is 32; room for a number that makes it unique.
        const MAX: usize = 28;
        let mut slug = String::new();
        for c in name.chars() {
            match c.to_ascii_lowercase() {
                c if c.is_ascii_lowercase() || c.is_ascii_digit() => slug.push(c),
                '_' if !slug.ends_with(['_', '-']) => slug.push('_'),
                _ if !slug.ends_with(['_', '-']) => slug.push('-'),
                _ => {}
            }
        }
        let slug: String = slug.trim_matches(['-', '_']).chars().take(MAX).collect();
        let slug = match slug.trim_end_matches(['-', '_']) {
            "" => "server",
            slug => slug,
        };
        let free = |id: &String| !self.ids.contains(&id.replace('-', "_"));
        let id = std::iter::once(slug.to_owned())
            .chain((2..1000).map(|n| format!("{slug}-{n}")))
            .find(free)
            .unwrap_or_else(|| slug.to_owned());
        self.ids.insert(id.replace('-', "_"));
        id
    }

    /// The settings of a table. Values that are not `is_public`, and references, become variables.
    /// Their names start with `prefix`, because many servers have the same headers.
    fn settings(
        &mut self,
        id: &str,
        table: &Map<String, Value>,
        prefix: &str,
        is_public: fn(&str, &str) -> bool,
    ) -> Vec<(String, Setting)> {
        let settings = table.iter().map(|(name, value)| {
            let text = with_references(&word(value));
            let place =
                format!("{id}.{}.{name}", if prefix.is_empty() { "env" } else { "headers" });
            // The value of the server's own variable would be another one.
            let prefix = if is_own_variable(name) { id } else { prefix };
            let own_name = || variable_name(prefix, name);
            let (wanted, about, value) = match Reference::of(&text) {
                Reference::Env(variable) => {
                    (variable.to_owned(), String::new(), format!("${variable}"))
                }
                Reference::Default(variable, default) => {
                    let about = self.default_of(&place, name, variable, default);
                    (variable.to_owned(), about, format!("${variable}"))
                }
                Reference::Input(input) => {
                    let about = format!(" (the client requests `{input}` from the user)");
                    (own_name(), about, format!("?{input}"))
                }
                Reference::Other if has_only_references(&text) => {
                    (own_name(), format!(": the whole value, in the client `{text}`"), text)
                }
                Reference::None if is_public(name, &text) => {
                    if is_windows_path(&text) {
                        self.part(place, "its value is a path of Windows");
                    }
                    return (name.clone(), Setting::Plain(text));
                }
                Reference::Other | Reference::None => {
                    if reference::has_default(&text) {
                        self.part(place, "the default of its variable is not translated");
                    }
                    (own_name(), ": the value it has in the client".to_owned(), text)
                }
            };
            let about = format!("for `{name}` of source `{id}`{about}");
            let setting = Setting::Env(self.variable(wanted, id, about, value));
            (name.clone(), setting)
        });
        settings.collect()
    }

    /// Adds a variable and returns its name: `wanted`, unless another value uses that name.
    fn variable(&mut self, wanted: String, id: &str, about: String, value: String) -> String {
        let variables = &mut self.imported.variables;
        let own = variable_name(id, &wanted);
        let numbered = (2..).map(|n| format!("{own}_{n}"));
        for name in [wanted, own.clone()].into_iter().chain(numbered) {
            match variables.iter().find(|known| known.name == name) {
                Some(known) if known.value == value => return name,
                Some(_) => {}
                None => {
                    variables.push(Variable { name: name.clone(), about, value });
                    return name;
                }
            }
        }
        own
    }
}

/// Adds `variable` to those of a program; returns its name there.
fn variable_of(env: &mut Vec<(String, Setting)>, variable: String) -> String {
    let setting = Setting::Env(variable.clone());
    let mut name = variable;
    while let Some((_, known)) = env.iter().find(|(known, _)| *known == name) {
        if *known == setting {
            return name;
        }
        name.push_str("_ARG");
    }
    env.push((name.clone(), setting));
    name
}

/// Adds an obstacle if `kind` is not a transport of `upstream`.
fn check_transport(kind: &Value, upstream: &Upstream, obstacle: &mut Obstacle) {
    let kind = kind.as_str().map(folded).unwrap_or_default();
    let is_command = matches!(upstream, Upstream::Command { .. });
    match kind.as_str() {
        "stdio" | "local" if is_command => {}
        "http" | "streamablehttp" | "remote" if !is_command => {}
        "sse" | "httpsse" if !is_command => obstacle.add(SSE),
        "" => {}
        _ => obstacle.add("its type is not that of its `command` or `url`"),
    }
}

pub(super) fn words(program: &str, args: Option<&Vec<Value>>) -> Vec<String> {
    let args = args.into_iter().flatten().map(word);
    std::iter::once(program.to_owned()).chain(args).collect()
}

/// Whether the command runs toolcrib, which would then be a source of itself.
fn is_toolcrib(words: &[String]) -> bool {
    let program =
        words.first().and_then(|word| word.rsplit(['/', '\\']).next()).unwrap_or_default();
    let is_runner = matches!(program, "npx" | "uvx" | "bunx" | "npx.cmd");
    let package = words.iter().skip(1).find(|word| !word.starts_with('-')).map(String::as_str);
    matches!(program, "toolcrib" | "toolcrib.exe") || (is_runner && package == Some("toolcrib"))
}

/// Whether toolcrib itself, or the programs that it starts, use the variable `name`.
fn is_own_variable(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "ALL_PROXY",
        "COLUMNS",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "LANG",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NO_COLOR",
        "NO_PROXY",
        "PATH",
        "PWD",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "USER",
    ];
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str()) || name.starts_with("TOOLCRIB_") || name.starts_with("LC_")
}

/// Returns `PREFIX_NAME` in the characters of environment variables.
fn variable_name(prefix: &str, name: &str) -> String {
    let joined = match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}_{name}"),
    };
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = joined.chars().map(upper).collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("_{name}"),
        false => name,
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::clients::{described, read},
        *,
    };

    #[test]
    fn ids_are_legal_and_unique() {
        let servers = json!({ "mcpServers": {
            "GitHub Enterprise!": {}, "github_enterprise": {}, "__": {}, "日本": {},
            "a__b": {}, "X".repeat(60): {}
        }});
        let ids: Vec<String> =
            read(&servers).unwrap().servers.into_iter().map(|server| server.id).collect();
        for id in &ids {
            assert!(toolcrib_core::id::SourceId::parse(id).is_ok(), "{id}");
        }
        assert_eq!(ids[0], "github-enterprise");
        assert_eq!(ids[1], "github_enterprise-2");
        assert_eq!(ids[2], "server");
        assert_eq!(ids[3], "server-2");
        assert_eq!(ids[4], "a_b");
    }

    #[test]
    fn a_server_of_several_files_or_projects_is_read_once() {
        let servers = json!({ "mcpServers": { "a": { "command": "a" } }, "projects": {
            "/one": { "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } },
            "/two": { "mcpServers": { "a": { "command": "other" } } }, "/three": {}
        }});
        let servers = described(&servers).unwrap();
        let twice = [("x".to_owned(), servers.clone()), ("y".to_owned(), servers)];
        let ids: Vec<String> =
            read_files(&twice).servers.into_iter().map(|server| server.id).collect();
        assert_eq!(ids, ["a", "b", "a-2"]);
        assert_eq!(described(&json!({ "projects": { "/one": {} } })), None);
    }

    #[test]
    fn toolcrib_is_no_source_of_itself() {
        for (program, args, expected) in [
            ("toolcrib", json!(["mcp"]), true),
            ("/usr/bin/toolcrib", json!([]), true),
            ("npx", json!(["-y", "toolcrib", "mcp"]), true),
            ("npx", json!(["-y", "files", "toolcrib"]), false),
        ] {
            let servers = json!({ "mcpServers": { "a": { "command": program, "args": args } } });
            let server = &read(&servers).unwrap().servers[0];
            assert_eq!(server.obstacle.is_some(), expected, "{program} {args}");
        }
    }

    #[test]
    fn one_name_never_means_two_values() {
        let servers = json!({ "mcpServers": {
            "a": { "command": "a", "env": { "API_KEY": "one" } },
            "b": { "command": "b", "env": { "API_KEY": "two" } },
            "c": { "command": "c", "env": { "API_KEY": "one" } }
        }});
        let imported = read(&servers).unwrap();
        let names: Vec<&str> =
            imported.variables.iter().map(|variable| variable.name.as_str()).collect();
        assert_eq!(names, ["API_KEY", "B_API_KEY"]);
    }
}
