//! Reads the servers in a client's document, with valid source ids and without secrets.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use toolcrib_core::redact::{self, Redactor};

use super::reference::Reference;

/// The servers and variables of a document.
#[derive(Debug, Default)]
pub(super) struct Imported {
    pub(super) servers: Vec<Server>,
    /// Variables to set, in the order of their first use.
    pub(super) variables: Vec<Variable>,
}

/// One server.
#[derive(Debug)]
pub(super) struct Server {
    /// Its name in the client.
    pub(super) name: String,
    /// The source id.
    pub(super) id: String,
    pub(super) upstream: Upstream,
    /// The reason why it is not usable as a source.
    pub(super) obstacle: Option<String>,
}

/// The transport of a server.
#[derive(Debug)]
pub(super) enum Upstream {
    Command { command: Vec<String>, env: Vec<(String, Setting)>, cwd: Option<String> },
    Url { url: String, headers: Vec<(String, Setting)> },
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
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) about: String,
    /// The value in the client's file, which distinguishes two uses of a name; never written.
    value: String,
}

/// Returns the servers of `document`; `None` if it has no member for servers.
pub(super) fn read(document: &Value) -> Option<Imported> {
    let places = ["/mcpServers", "/servers", "/mcp/servers", "/mcp/mcpServers"];
    let servers = places.iter().find_map(|place| document.pointer(place)?.as_object())?;
    let mut reader = Reader { ids: BTreeSet::new(), imported: Imported::default() };
    for (name, server) in servers {
        reader.server(name, server);
    }
    Some(reader.imported)
}

struct Reader {
    /// Used ids, with `-` as `_`: ids that differ only in this are rejected.
    ids: BTreeSet<String>,
    imported: Imported,
}

impl Reader {
    fn server(&mut self, name: &str, server: &Value) {
        let id = self.id(name);
        let mut obstacle = None;
        let mut object = |why: &str| {
            obstacle.get_or_insert_with(|| why.to_owned());
        };
        let none = Map::new();
        let server = server.as_object().unwrap_or(&none);
        let text = |key: &str| server.get(key).and_then(Value::as_str);
        let table = |key: &str| server.get(key).and_then(Value::as_object).unwrap_or(&none);
        let flag = |key: &str| server.get(key).and_then(Value::as_bool);

        if flag("disabled") == Some(true) || flag("enabled") == Some(false) {
            object("it is disabled in the client");
        }
        if server.contains_key("envFile") {
            object("its `envFile` is not read; name its variables in `env`");
        }
        let url = ["url", "serverUrl", "httpUrl"].into_iter().find_map(text);
        let upstream = match (text("command"), url) {
            (Some(program), _) => {
                let args = server.get("args").and_then(Value::as_array);
                let args = args.into_iter().flatten().map(word);
                let (command, secret) =
                    without_secrets(std::iter::once(program.to_owned()).chain(args));
                if secret {
                    object("an argument looks like a secret; give it to the server by `env`");
                }
                let cwd = text("cwd").map(str::to_owned);
                if command.iter().chain(&cwd).any(|it| Reference::of(it) != Reference::None) {
                    object("an argument uses a variable of the client; write its value");
                }
                let env = self.settings(&id, table("env"), "");
                Upstream::Command { command, env, cwd }
            }
            (None, Some(url)) => {
                if text("type") == Some("sse") {
                    object(
                        "it speaks the deprecated HTTP+SSE transport; use its streamable HTTP address",
                    );
                }
                let clean = without_secret(url);
                if clean != url {
                    object("its address contains a secret; send it in `headers`");
                }
                if Reference::of(&clean) != Reference::None {
                    object("its address uses a variable of the client; write its value");
                }
                let headers = self.settings(&id, table("headers"), &id);
                Upstream::Url { url: clean, headers }
            }
            (None, None) => {
                object("it has neither `command` nor `url`");
                Upstream::Command { command: Vec::new(), env: Vec::new(), cwd: None }
            }
        };
        let name = name.to_owned();
        self.imported.servers.push(Server { name, id, upstream, obstacle });
    }

    /// Returns an unused source id that resembles `name`.
    fn id(&mut self, name: &str) -> String {
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

    /// Returns the settings of a table; secrets and references become variables. The names of these
    /// variables start with `prefix`, because many servers have the same headers.
    fn settings(
        &mut self,
        id: &str,
        table: &Map<String, Value>,
        prefix: &str,
    ) -> Vec<(String, Setting)> {
        let settings = table.iter().map(|(name, value)| {
            let text = word(value);
            let own_name = || variable_name(prefix, name);
            let (wanted, about, value) = match Reference::of(&text) {
                Reference::Env(variable) => {
                    (variable.to_owned(), String::new(), format!("${variable}"))
                }
                Reference::Input(input) => {
                    let about = format!(" (the client requests `{input}` from the user)");
                    (own_name(), about, format!("?{input}"))
                }
                Reference::Other => {
                    let shown = without_secret(&text);
                    (own_name(), format!(": the whole value, in the client `{shown}`"), text)
                }
                Reference::None if is_secret(name, &text) => {
                    (own_name(), ": the value it has in the client".to_owned(), text)
                }
                Reference::None => return (name.clone(), Setting::Plain(text)),
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
        let name = match variables.iter().find(|known| known.name == wanted) {
            Some(known) if known.value == value => return wanted,
            Some(_) => variable_name(id, &wanted),
            None => wanted,
        };
        if !variables.iter().any(|known| known.name == name) {
            variables.push(Variable { name: name.clone(), about, value });
        }
        name
    }
}

fn is_secret(name: &str, text: &str) -> bool {
    redact::is_secret_key(name) || without_secret(text) != text
}

/// Removes likely secrets from `text`, according to their form or their place in a URL.
fn without_secret(text: &str) -> String {
    let shaped = Redactor::default().text(text);
    let Ok(address) = url::Url::parse(&shaped) else { return shaped };
    let in_query = address.query_pairs().any(|(name, _)| redact::is_secret_key(&name));
    match address.password().is_some() || in_query {
        true => format!("{}://{}", address.scheme(), redact::PLACEHOLDER),
        false => shaped,
    }
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

/// Removes likely secrets from the words, and returns whether there was one.
fn without_secrets(words: impl Iterator<Item = String>) -> (Vec<String>, bool) {
    let mut found = false;
    let mut after_secret_flag = false;
    let words = words
        .map(|word| {
            let flag = word.trim_start_matches('-');
            let is_flag = flag.len() < word.len();
            let assigned = flag.split_once('=').filter(|(name, _)| redact::is_secret_key(name));
            let clean = match assigned {
                // `--token=value`, and `TOKEN=value` as `docker run -e` takes it.
                Some((name, value)) if !value.is_empty() => {
                    let dashes = word.len() - flag.len();
                    format!("{}{name}={}", "-".repeat(dashes), redact::PLACEHOLDER)
                }
                _ if after_secret_flag && !is_flag => redact::PLACEHOLDER.to_owned(),
                _ => without_secret(&word),
            };
            after_secret_flag = is_flag && redact::is_secret_key(flag);
            found |= clean != word;
            clean
        })
        .collect();
    (words, found)
}

/// Returns a JSON value as a word.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_legal_and_unique() {
        let servers = json!({ "mcpServers": {
            "GitHub Enterprise!": {}, "github_enterprise": {}, "__": {}, "日本": {},
            "a__b": {}, "X".repeat(60): {}
        }});
        let ids: Vec<String> =
            read(&servers).unwrap().servers.into_iter().map(|it| it.id).collect();
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
    fn secrets_in_arguments_are_taken_out() {
        let words = [
            "run",
            "--api-key",
            "hunter2hunter2",
            "--token=abc",
            "-e",
            "MY_TOKEN=x",
            "-e",
            "MY_TOKEN",
        ];
        let (clean, found) = without_secrets(words.into_iter().map(str::to_owned));
        assert!(found);
        let expected = [
            "run",
            "--api-key",
            "[redacted]",
            "--token=[redacted]",
            "-e",
            "MY_TOKEN=[redacted]",
            "-e",
            "MY_TOKEN",
        ];
        assert_eq!(clean, expected);
        let words = ["postgresql://me:hunter2@db/x", "https://a.example/mcp?api_key=hunter2"];
        let (clean, found) = without_secrets(words.into_iter().map(str::to_owned));
        assert!(found && !clean.join(" ").contains("hunter2"), "{clean:?}");
        let (_, found) =
            without_secrets(["npx", "-y", "server", "--port", "80"].into_iter().map(str::to_owned));
        assert!(!found);
    }

    #[test]
    fn one_name_never_means_two_values() {
        let servers = json!({ "mcpServers": {
            "a": { "command": "a", "env": { "API_KEY": "one" } },
            "b": { "command": "b", "env": { "API_KEY": "two" } },
            "c": { "command": "c", "env": { "API_KEY": "one" } }
        }});
        let imported = read(&servers).unwrap();
        let names: Vec<&str> = imported.variables.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["API_KEY", "B_API_KEY"]);
    }
}
