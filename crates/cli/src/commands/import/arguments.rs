//! Arguments of programs, without those that may be secrets.
//!
//! Invariant: an argument is copied only if it is a flag, a path, a plain address, a value from a small
//! set, the value of a flag that takes no secret, or a word that names a program, package or command.

use toolcrib_core::redact::PLACEHOLDER;

use super::{
    reference,
    secrets::{
        has_only_references, hidden_address, is_known, is_name, is_path, is_public_address,
        is_public_header, is_public_variable, is_secret_name, is_version, is_words, may_be_key,
    },
};

/// Programs whose arguments name the program to run.
pub(super) const RUNNERS: &[&str] = &[
    "bash",
    "bun",
    "bunx",
    "cargo",
    "cmd",
    "deno",
    "docker",
    "dotnet",
    "env",
    "go",
    "java",
    "nerdctl",
    "node",
    "npm",
    "npx",
    "php",
    "pip",
    "pipx",
    "pnpm",
    "podman",
    "powershell",
    "pwsh",
    "python",
    "python3",
    "ruby",
    "sh",
    "sudo",
    "uv",
    "uvx",
    "wsl",
    "yarn",
    "zsh",
];

/// Words between a runner and the program.
const RUNNER_WORDS: &[&str] =
    &["/C", "/c", "create", "dlx", "exec", "install", "run", "start", "tool", "x"];

/// Programs that run containers.
pub(super) const CONTAINER_RUNNERS: &[&str] = &["docker", "nerdctl", "podman"];

/// Flags without a value.
const SWITCHES: &[&str] = &[
    "debug",
    "headless",
    "help",
    "init",
    "interactive",
    "isolated",
    "offline",
    "prerelease",
    "quiet",
    "read-only",
    "readonly",
    "rm",
    "silent",
    "stdio",
    "tty",
    "verbose",
    "version",
    "watch",
    "y",
    "yes",
];

/// Flags whose values are names, not secrets.
const NAMING: &[&str] = &[
    "access-mode",
    "add-host",
    "branch",
    "browser",
    "capabilities",
    "caps",
    "channel",
    "context",
    "cwd",
    "device",
    "directory",
    "encoding",
    "entrypoint",
    "environment",
    "extra",
    "features",
    "file",
    "format",
    "from",
    "index-strategy",
    "kube-context",
    "lang",
    "language",
    "level",
    "locale",
    "log-level",
    "mode",
    "model",
    "module",
    "name",
    "namespace",
    "network",
    "output",
    "package",
    "platform",
    "profile",
    "project",
    "pull",
    "python",
    "region",
    "repo",
    "repository",
    "root",
    "runtime",
    "script",
    "toolset",
    "toolsets",
    "tools",
    "transport",
    "type",
    "with",
    "with-editable",
    "with-requirements",
    "workdir",
    "workspace",
];

/// Flags of one dash with several letters.
const LONG_SHORT: &[&str] = &[
    "classpath",
    "config",
    "cp",
    "debug",
    "help",
    "host",
    "it",
    "jar",
    "log",
    "mode",
    "path",
    "port",
    "rm",
    "server",
    "stdio",
    "ti",
    "transport",
    "url",
    "verbose",
    "version",
];

/// Secret flags that some programs write with one dash.
const LONG_SHORT_SECRET: &[&str] = &[
    "api-key", "apikey", "auth", "bearer", "header", "key", "pass", "password", "pat", "secret",
    "token", "user",
];

/// Words before a secret in a header, if a client split it into several arguments.
const AUTH_SCHEMES: &[&str] = &["basic", "bearer", "digest"];

/// Signs between the commands of a shell.
const SIGNS: &[&str] = &["&&", "||", "|", ";", "-", "--"];

/// Replaces words that may be secrets; also returns the places of these words.
pub(super) fn without_secrets(words: &[String]) -> (Vec<String>, Vec<usize>) {
    let mut hidden = Vec::new();
    let mut line = Line::default();
    let clean = words.iter().enumerate().map(|(at, word)| match line.check(at, word) {
        Ok(()) => word.clone(),
        Err(clean) => {
            hidden.push(at);
            clean
        }
    });
    (clean.collect(), hidden)
}

/// The state after some words of a command.
#[derive(Default)]
struct Line {
    is_container: bool,
    is_python: bool,
    is_shell: bool,
    /// Whether the program to run was already named.
    has_program: bool,
    next: NextWord,
}

/// The meaning of the next word.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum NextWord {
    /// No value of a flag.
    #[default]
    Word,
    Secret,
    /// The name of a client program, as in the header.
    UserAgent,
    /// A user of a container, or a secret.
    User,
    /// The ports of a container.
    Ports,
    /// A variable with or without its value.
    Variable,
    /// The name of something that is not secret, such as a branch or a volume.
    Name,
    /// The value of an unknown flag.
    Value,
}

impl Line {
    /// Fails with the text to show if the word may be a secret.
    fn check(&mut self, at: usize, word: &str) -> Result<(), String> {
        let plain = reference::plain(word);
        if at == 0 {
            return self.program(word, &plain);
        }
        let next = std::mem::take(&mut self.next);
        // `--header Authorization: Bearer VALUE` without quotes are four arguments.
        let is_scheme = AUTH_SCHEMES.contains(&word.to_ascii_lowercase().as_str());
        if word.ends_with(':') || is_scheme {
            self.next = NextWord::Secret;
        }
        let is_flag = word.starts_with('-') && !SIGNS.contains(&word) && !is_known(word);
        // A secret can start with a dash.
        if is_flag && (!matches!(next, NextWord::Secret | NextWord::User) || is_plain_flag(word)) {
            return self.flag(word);
        }
        match next {
            NextWord::Word => self.positional(word, &plain),
            next => accept(self.is_value(next, word, &plain), || match next {
                NextWord::Variable => hidden_variable(word),
                NextWord::Value | NextWord::Name if word.contains("://") => hidden_address(word),
                _ => PLACEHOLDER.to_owned(),
            }),
        }
    }

    /// Reads the first word.
    fn program(&mut self, word: &str, plain: &str) -> Result<(), String> {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
        let name = name.trim_end_matches(".exe").trim_end_matches(".cmd");
        self.is_container = CONTAINER_RUNNERS.contains(&name);
        self.is_python = name.starts_with("python");
        self.is_shell =
            matches!(name, "bash" | "cmd" | "powershell" | "pwsh" | "sh" | "wsl" | "zsh");
        self.has_program = !RUNNERS.contains(&name) && !self.is_python;
        if word.contains(char::is_whitespace) && !is_path(plain) {
            return accept(is_line(word, true), placeholder);
        }
        accept(word.is_empty() || is_path(plain) || is_name(plain), placeholder)
    }

    /// Reads a word with a dash at the start.
    fn flag(&mut self, word: &str) -> Result<(), String> {
        let body = word.strip_prefix("--").or(word.strip_prefix('-')).unwrap_or_default();
        let is_short = !word.starts_with("--");
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let is_known_name = match is_short && name.chars().count() > 1 {
            true => is_long_short(name) || LONG_SHORT_SECRET.contains(&name),
            false => is_flag_name(name),
        };
        if is_short && !is_known_name {
            return self.joined(body);
        }
        if !is_known_name {
            return Err(placeholder());
        }
        let kind = self.kind(name);
        match value {
            None => {
                self.next = kind;
                Ok(())
            }
            Some(value) => {
                // A switch has no value.
                let kind = if kind == NextWord::Word { NextWord::Value } else { kind };
                let is_list = name.starts_with("allow-") && is_words(value);
                let is_plain = is_list || self.is_value(kind, value, &reference::plain(value));
                let dashes = if is_short { "-" } else { "--" };
                accept(is_plain, || format!("{dashes}{name}={PLACEHOLDER}"))
            }
        }
    }

    /// Reads a flag of one letter with its value, such as `-p8080`, `-uada:secret` or `-eNAME=value`.
    fn joined(&mut self, body: &str) -> Result<(), String> {
        let mut chars = body.chars();
        let letter: String = chars.by_ref().take(1).collect();
        let value = chars.as_str();
        let is_plain = match letter.as_str() {
            "e" if self.is_container => is_variable(value),
            "D" => value
                .split_once('=')
                .is_some_and(|(name, value)| is_flag_name(name) && is_public_variable(name, value)),
            _ => self.kind(&letter) != NextWord::Secret && is_known(value),
        };
        accept(is_plain, || match is_flag_name(&letter) {
            true => format!("-{letter}{PLACEHOLDER}"),
            false => placeholder(),
        })
    }

    /// The meaning of the word after the flag `name`.
    fn kind(&self, name: &str) -> NextWord {
        let is_off = |prefix: &&str| name.starts_with(prefix);
        let is_file = ["file", "path", "dir", "directory"]
            .iter()
            .any(|end| name.strip_suffix(end).is_some_and(|rest| rest.ends_with(['-', '_'])));
        match name {
            "u" if self.is_python => NextWord::Word,
            "u" | "user" if self.is_container => NextWord::User,
            "H" | "P" | "a" | "b" | "u" => NextWord::Secret,
            "user-agent" | "userAgent" => NextWord::UserAgent,
            "e" | "env" => NextWord::Variable,
            "i" | "t" | "d" if self.is_container => NextWord::Word,
            "p" | "publish" if self.is_container => NextWord::Ports,
            "v" | "w" | "volume" | "mount" if self.is_container => NextWord::Name,
            "c" if self.is_shell => NextWord::Word,
            "m" if self.is_python => NextWord::Name,
            "i" | "q" | "v" | "k" => NextWord::Word,
            _ if ["no-", "disable-", "skip-", "without-", "allow-"].iter().any(is_off) => {
                NextWord::Word
            }
            _ if SWITCHES.contains(&name) || (LONG_SHORT.contains(&name) && name.len() == 2) => {
                NextWord::Word
            }
            _ if is_file => NextWord::Value,
            _ if is_secret_name(name) => NextWord::Secret,
            _ if NAMING.contains(&name) => NextWord::Name,
            _ => NextWord::Value,
        }
    }

    /// Whether the value of a flag cannot be a secret.
    fn is_value(&self, next: NextWord, word: &str, plain: &str) -> bool {
        let is_plain = is_known(plain) || is_path(plain) || is_public_address(plain);
        match next {
            NextWord::Secret => word.is_empty() || has_only_references(word),
            NextWord::UserAgent => is_public_header("user-agent", word),
            NextWord::User => {
                let is_id = |id: &str| id.len() <= 5 && id.bytes().all(|b| b.is_ascii_digit());
                word.split(':').all(is_id)
            }
            NextWord::Ports => word.split(':').all(is_known),
            NextWord::Variable => is_variable(word),
            NextWord::Name if self.is_container => {
                is_plain || (plain.split([':', '=']).all(is_thing) && !has_secret_name(plain))
            }
            NextWord::Name => is_plain || is_thing(plain) || is_requirement(plain),
            NextWord::Value | NextWord::Word => is_plain,
        }
    }

    /// Reads a word that is neither a flag nor the value of one.
    fn positional(&mut self, word: &str, plain: &str) -> Result<(), String> {
        if word.contains(char::is_whitespace) {
            let is_plain = is_path(plain) || is_line(word, self.is_shell);
            return accept(is_plain, placeholder);
        }
        let (name, _) = word.split_once("://").unwrap_or((word, ""));
        if !self.has_program && is_requirement(plain) {
            self.has_program = true;
            return Ok(());
        }
        if name.contains('=') {
            return accept(is_variable(word), || hidden_variable(word));
        }
        if word.contains("://") {
            return accept(is_public_address(plain), || hidden_address(word));
        }
        let is_runner = RUNNERS.contains(&word) || RUNNER_WORDS.contains(&word);
        if !self.has_program && (is_runner || SIGNS.contains(&word)) {
            return Ok(());
        }
        // Names of packages and images have digits, and images have tags.
        let image = plain.strip_prefix("npm:").or(plain.strip_prefix("jsr:")).unwrap_or(plain);
        let is_image = self.is_container && image.split(':').all(is_name);
        let is_program = !self.has_program && (is_image || is_name(image));
        // The name of an image has an `@` only before its digest.
        let image = image.split_once("@sha256:").map_or(image, |(image, _)| image);
        let is_login = self.is_container && !self.has_program && image.contains('@');
        self.has_program = true;
        if is_login {
            return Err(placeholder());
        }
        let is_package = plain.starts_with('@') && plain.contains('/') && is_name(plain);
        let is_plain = is_known(plain) || is_path(plain) || is_words(plain);
        accept(is_program || is_package || is_plain || SIGNS.contains(&word), placeholder)
    }
}

fn accept(is_plain: bool, shown: impl FnOnce() -> String) -> Result<(), String> {
    if is_plain { Ok(()) } else { Err(shown()) }
}

fn placeholder() -> String {
    PLACEHOLDER.to_owned()
}

/// Whether all words of a shell line, or of a text with blanks, can be copied.
fn is_line(text: &str, is_command: bool) -> bool {
    let mut line = Line { has_program: true, ..Line::default() };
    let words = text.split_whitespace().map(|word| word.trim_matches(['"', '\'', '(', ')', ';']));
    let mut checked = words.enumerate().map(|(at, word)| {
        let at = if is_command { at } else { at + 1 };
        // A word such as `Authorization:` starts a header.
        word.is_empty() || (!word.ends_with(':') && line.check(at, word).is_ok())
    });
    checked.all(|is_plain| is_plain)
}

/// Whether `text` is the name of a flag without its dashes.
fn is_flag_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= 48
        && text.chars().all(legal)
        && text.split(['-', '_', '.']).all(is_one_kind)
        && !may_be_key(text)
}

/// Whether `word` has only letters, or only digits.
fn is_one_kind(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphabetic())
        || word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a name after one dash is a flag, not a secret after a flag of one letter.
fn is_long_short(name: &str) -> bool {
    LONG_SHORT.contains(&name) || SWITCHES.contains(&name)
}

/// Whether `word` is a flag in its usual form, not a secret with a dash at the start.
fn is_plain_flag(word: &str) -> bool {
    let (name, _) = word.split_once('=').unwrap_or((word, ""));
    match name.strip_prefix("--") {
        Some(name) => is_flag_name(name),
        None => word.len() == 2 || is_long_short(name.trim_start_matches('-')),
    }
}

/// Whether `text` is `NAME`, or `NAME=value` with a value that can be copied.
fn is_variable(text: &str) -> bool {
    match text.split_once('=') {
        Some((name, value)) => {
            let is_plain = is_public_variable(name, &reference::plain(value));
            // The text can also be a key in Base64, with `=` as its last character.
            let is_empty = value.is_empty() && !has_lower(name);
            is_variable_name(name)
                && (is_empty || (!value.is_empty() && (is_plain || has_only_references(value))))
        }
        None => is_variable_name(text) && !has_lower(text),
    }
}

fn has_lower(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_lowercase())
}

fn is_variable_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(legal)
        && (!has_lower(text) || is_words(text))
        && !may_be_key(text)
}

/// The variable with the placeholder as its value; for any other text only the placeholder.
fn hidden_variable(text: &str) -> String {
    match text.split_once('=') {
        Some((name, _)) if is_variable_name(name) => format!("{name}={PLACEHOLDER}"),
        _ => placeholder(),
    }
}

/// Whether `text` names a thing, such as a package, a model or a directory.
fn is_thing(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// Whether `text` is a Python package with versions, such as `mcp[cli]>=1.2,<2`.
fn is_requirement(text: &str) -> bool {
    let is_sign = |c: char| matches!(c, '=' | '>' | '<' | '~' | '!');
    let is_version = |version: &str| {
        let version = version.trim_start_matches(is_sign);
        let version = version.strip_suffix(".*").unwrap_or(version);
        let number = ["rc", "a", "b", ".post", ".dev"]
            .iter()
            .find_map(|mark| version.split_once(mark))
            .filter(|(_, number)| number.len() <= 3 && number.bytes().all(|b| b.is_ascii_digit()));
        is_version(number.map_or(version, |(version, _)| version))
    };
    let Some(at) = text.find(is_sign) else { return false };
    let (name, versions) = text.split_at(at);
    let begins = |text: &str| {
        ["==", ">=", "<=", "~=", "!=", "<", ">"].iter().any(|sign| text.starts_with(sign))
    };
    is_name(name) && versions.split(',').all(|version| begins(version) && is_version(version))
}

/// Whether one of the settings `name=value`, with commas between, has the name of a secret.
fn has_secret_name(text: &str) -> bool {
    text.split(',')
        .filter_map(|setting| setting.split_once('='))
        .any(|(name, _)| is_secret_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        without_secrets(&words).0
    }

    #[test]
    fn usual_commands_are_copied() {
        for words in [
            &["npx", "-y", "@modelcontextprotocol/server-filesystem", "/Users/ana/My \"Docs\""][..],
            &["npx", "-y", "@upstash/context7-mcp@latest"],
            &[
                "npx",
                "-y",
                "mcp-remote",
                "https://mcp.example.com/sse",
                "3334",
                "--transport",
                "http-only",
            ],
            &[
                "npx",
                "@playwright/mcp@latest",
                "--headless",
                "--browser",
                "firefox",
                "--user-data-dir",
                "/d",
            ],
            &["npx", "-y", "@modelcontextprotocol/server-postgres", "postgresql://localhost/db"],
            &["uvx", "mcp-server-git", "--repository", "path/to/git/repo"],
            &["uvx", "--from", "git+https://github.com/a/b", "serena", "start-mcp-server"],
            &["uv", "--directory", "/srv/x", "run", "server.py"],
            &["uv", "run", "--with", "mcp[cli]", "mcp", "run", "server.py"],
            &["python3", "-u", "server.py"],
            &["python", "-m", "mcp_server_fetch", "--port=8080"],
            &[
                "docker",
                "run",
                "-i",
                "--rm",
                "-e",
                "API_TOKEN",
                "-e",
                "MODE=debug",
                "ghcr.io/a/b:v1.2",
            ],
            &["docker", "run", "-it", "--user", "1000:1000", "-v", "/a:/b:ro", "mcp/x", "stdio"],
            &["docker", "run", "--mount", "type=bind,src=/a,dst=/b", "mcp/x"],
            &["node", "build/index.js", "--log-level", "debug", "-p8080"],
            &["java", "-Dlog.level=debug", "-jar", "/srv/x.jar"],
            &["cmd", "/c", "npx", "-y", "n8n-mcp"],
            &["bash", "-c", "cd /srv && exec node server.js"],
            &["server", "--no-auth", "-", "--", "read-only"],
            &["server", "--directory", "${workspaceFolder}/src", "--token", "${env:TOKEN}"],
            &["server", "--header", "Authorization: Bearer ${env:TOKEN}"],
            &["uvx", "mcp-server-git==2025.1.14"],
            &["uvx", "--with", "mcp<2", "server"],
            &["uv", "run", "--with", "mcp[cli]>=1.2,<2", "server.py"],
            &["uvx", "notes~=1.4rc1"],
            &["npx", "-y", "@contoso/c365helperservice-mcp@latest"],
            &["docker", "run", "-e", "LOG_MODE=lenient", "notes"],
            &["uvx", "--from", "mcp-server-git>=2025.1", "mcp-server-git"],
            &["npx", "@playwright/mcp@latest", "--viewport-size=1280,720"],
            &["npx", "@playwright/mcp", "--viewport-size", "1280x720"],
            &[
                "npx",
                "@playwright/mcp",
                "--user-agent=Mozilla/5.0 (X11; Linux x86_64) Chrome/120.0.0.0",
            ],
            &["kubernetes-mcp-server", "--context", "staging", "--namespace", "shop"],
            &["server", "/home/ana/9c1185a5-c5e9-4c8a-9d4e-1f2a3b4c5d6e/notes"],
            &["npx", "mcp-remote", "https://mcp.supabase.com/mcp?project_ref=abcdefghijklmnopqrst"],
        ] {
            assert_eq!(clean(words), words);
        }
    }

    #[test]
    fn secrets_are_not_copied_in_any_form() {
        const CANARY: &str = "hunter2";
        let flags = [
            "header",
            "H",
            "u",
            "user",
            "username",
            "bearer",
            "pat",
            "key",
            "api-key",
            "apikey",
            "apiKey",
            "token",
            "access_token",
            "secret",
            "client-secret",
            "password",
            "passwd",
            "pass",
            "pw",
            "pwd",
            "auth",
            "auth-header",
            "credential",
            "credentials",
            "connection-string",
            "connectionString",
            "dsn",
            "cookie",
            "session",
            "jwt",
            "unknown",
            "x",
            "p",
            "name-of-it",
        ];
        let values = [
            CANARY.to_owned(),
            format!("ada:{CANARY}"),
            format!("Authorization: Bearer {CANARY}"),
            format!("X-Foo: {CANARY}"),
            format!("X-Foo:{CANARY}"),
            format!("Server=db;Password={CANARY}"),
            format!("postgresql://ada:{CANARY}@db/x"),
            format!("https://{CANARY}@example.com/"),
            format!("https://example.com/?key={CANARY}"),
            format!("https://example.com/?q={CANARY}"),
            format!("{{\"apiKey\":\"{CANARY}\"}}"),
            format!("${{TOKEN:-{CANARY}}}"),
            format!("-{CANARY}"),
            format!("--{CANARY}="),
        ];
        for program in ["npx", "server", "docker", "bash"] {
            for value in &values {
                let mut lines = vec![
                    vec![value.clone()],
                    vec!["-e".to_owned(), format!("FOO={value}")],
                    vec![format!("-eFOO={value}")],
                    vec![format!("FOO={value}")],
                    vec!["-c".to_owned(), format!("curl -H '{value}' https://example.com")],
                    vec!["-c".to_owned(), format!("TOKEN={value} node server.js")],
                ];
                for flag in flags {
                    let dashes = if flag.len() == 1 { "-" } else { "--" };
                    lines.push(vec![format!("{dashes}{flag}"), value.clone()]);
                    lines.push(vec![format!("{dashes}{flag}={value}")]);
                    lines.push(vec![format!("-{flag}"), value.clone()]);
                    lines.push(vec![format!("-{flag}{value}")]);
                    lines.push(vec![format!("-{flag}={value}")]);
                    lines.push(vec![format!("{dashes}{flag} {value}")]);
                }
                for line in lines {
                    let mut words = vec![program.to_owned(), "package".to_owned()];
                    words.extend(line);
                    let (clean, hidden) = without_secrets(&words);
                    assert!(!clean.join(" ").contains(CANARY), "{words:?} became {clean:?}");
                    assert!(!hidden.is_empty(), "{words:?}");
                }
            }
        }
    }

    #[test]
    fn secrets_without_a_flag_of_their_own_are_not_copied() {
        for (words, expected) in [
            (
                &["npx", "mcp-remote", "--header", "Authorization:", "Bearer", "abc", "--debug"][..],
                &[
                    "npx",
                    "mcp-remote",
                    "--header",
                    "[redacted]",
                    "[redacted]",
                    "[redacted]",
                    "--debug",
                ][..],
            ),
            (&["s", "Authorization:", "abc"], &["s", "[redacted]", "[redacted]"]),
            (&["s", "Bearer", "abc"], &["s", "Bearer", "[redacted]"]),
            (&["docker", "run", "ada:pw@registry/img"], &["docker", "run", "[redacted]"]),
            (&["docker", "run", "pw@registry/img"], &["docker", "run", "[redacted]"]),
            (&["s", "--user-agent=ada:pw@example.com"], &["s", "--user-agent=[redacted]"]),
            (&["s", "--context", "s3cr3tw0rd"], &["s", "--context", "[redacted]"]),
            (&["uvx", "notes==s3cr3tw0rd"], &["uvx", "notes=[redacted]"]),
            (
                &["docker", "run", "-e", "LOG_KEY=lenient", "n"],
                &["docker", "run", "-e", "LOG_KEY=[redacted]", "n"],
            ),
            (&["uvx", "aB3dE5fG==1.2"], &["uvx", "[redacted]"]),
        ] {
            assert_eq!(clean(words), expected);
        }
        let digest = format!("ghcr.io/a/b@sha256:{}", "0a".repeat(32));
        let words = ["docker", "run", digest.as_str()];
        assert_eq!(clean(&words), words);
    }

    #[test]
    fn only_the_value_of_a_flag_is_replaced() {
        for (words, expected) in [
            (&["s", "--token=abc"][..], &["s", "--token=[redacted]"][..]),
            (
                &["s", "--api-key", "abc", "--port", "80"],
                &["s", "--api-key", "[redacted]", "--port", "80"],
            ),
            (&["s", "-uada:pw"], &["s", "-u[redacted]"]),
            (&["s", "-e", "A_B=pw"], &["s", "-e", "A_B=[redacted]"]),
            (&["s", "postgresql://me:pw@db/x"], &["s", "postgresql://[redacted]"]),
            (&["s", "--oauth", "--debug"], &["s", "--oauth", "--debug"]),
        ] {
            assert_eq!(clean(words), expected);
        }
    }
}
