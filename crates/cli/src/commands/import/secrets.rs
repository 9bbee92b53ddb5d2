//! Which texts of a file are copied, because they cannot be secrets.
//!
//! Invariant: a text is copied only if its place or its form shows that it is not a secret. An
//! unknown text is treated as a secret.

use std::{borrow::Cow, net::IpAddr};

use toolcrib_core::redact::{self, PLACEHOLDER, Redactor};
use url::Url;

use super::reference;

/// Headers without a role in authentication.
const PUBLIC_HEADERS: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-language",
    "content-type",
    "mcp-protocol-version",
    "user-agent",
];

/// Segments of the names of secrets, and of names whose value may contain a secret.
const SECRET_SEGMENTS: &[&str] = &[
    "auth",
    "authentication",
    "authorization",
    "basic",
    "bearer",
    "cert",
    "code",
    "conn",
    "connection",
    "connstr",
    "cookie",
    "cookies",
    "cred",
    "creds",
    "credential",
    "credentials",
    "dsn",
    "header",
    "headers",
    "hmac",
    "jwt",
    "key",
    "keys",
    "license",
    "login",
    "mnemonic",
    "oauth",
    "otp",
    "pass",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "pat",
    "pin",
    "private",
    "pw",
    "pwd",
    "salt",
    "sas",
    "secret",
    "secrets",
    "seed",
    "session",
    "sid",
    "signature",
    "signing",
    "token",
    "tokens",
    "totp",
    "user",
    "username",
    "webhook",
];

/// Last parts of segments that mean the same, such as `apikey`.
const SECRET_ENDS: &[&str] = &[
    "auth",
    "cookie",
    "credential",
    "key",
    "pass",
    "passwd",
    "password",
    "pwd",
    "secret",
    "token",
];

/// Publicly known values from small sets.
const KNOWN_WORDS: &[&str] = &[
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "none",
    "null",
    "auto",
    "default",
    "enable",
    "disable",
    "enabled",
    "disabled",
    "all",
    "any",
    "allow",
    "deny",
    "trace",
    "debug",
    "info",
    "notice",
    "warn",
    "warning",
    "error",
    "critical",
    "fatal",
    "silent",
    "quiet",
    "verbose",
    "production",
    "prod",
    "development",
    "dev",
    "staging",
    "testing",
    "test",
    "local",
    "ci",
    "json",
    "text",
    "plain",
    "pretty",
    "compact",
    "yaml",
    "csv",
    "html",
    "xml",
    "markdown",
    "stdio",
    "sse",
    "http",
    "https",
    "http-only",
    "sse-only",
    "streamable-http",
    "streamable_http",
    "streamablehttp",
    "tcp",
    "ws",
    "utf-8",
    "utf8",
    "ascii",
    "c",
    "posix",
    "utc",
    "gmt",
    "read",
    "write",
    "read-only",
    "readonly",
    "read-write",
    "readwrite",
    "restricted",
    "unrestricted",
    "require",
    "prefer",
    "verify-ca",
    "verify-full",
    "asc",
    "desc",
];

/// Schemes of addresses that are copied if they have no user, password or secret.
const SCHEMES: &[&str] = &[
    "amqp",
    "amqps",
    "file",
    "git+https",
    "git+ssh",
    "http",
    "https",
    "mongodb",
    "mongodb+srv",
    "mysql",
    "postgres",
    "postgresql",
    "redis",
    "rediss",
    "sqlite",
    "ssh",
    "ws",
    "wss",
];

/// Schemes of addresses whose hosts are shown if the rest may be a secret.
const WEB: &[&str] = &["http", "https", "ws", "wss"];

/// Segments of names of variables whose values are names of hosts.
const HOST_SEGMENTS: &[&str] = &[
    "addr", "address", "bind", "broker", "domain", "endpoint", "host", "hostname", "hosts",
    "origin", "server", "uri", "url",
];

/// Segments of names of variables whose values are words from a small set.
const CHOICE_SEGMENTS: &[&str] = &[
    "backend",
    "dialect",
    "driver",
    "encoding",
    "engine",
    "env",
    "environment",
    "format",
    "kind",
    "level",
    "log",
    "logging",
    "mode",
    "provider",
    "stage",
    "strategy",
    "style",
    "theme",
    "transport",
    "type",
];

/// Whether `value` of the header `name` is copied.
pub(super) fn is_public_header(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_scheme = |word: &str| matches!(word, "bearer" | "basic");
    PUBLIC_HEADERS.contains(&name.as_str())
        && !value.contains('@')
        && !value.to_ascii_lowercase().split_whitespace().any(is_scheme)
        && !may_be_key(value)
}

/// Whether `value` of the variable `name` is copied.
pub(super) fn is_public_variable(name: &str, value: &str) -> bool {
    let is_host = |value| is_host_name(value) && has_segment(name, HOST_SEGMENTS);
    let is_web = |value: &str| !value.contains('?') && is_address(value, WEB);
    let is_choice = |value: &str| {
        let legal = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_');
        value.len() <= 24 && value.bytes().all(legal) && has_segment(name, CHOICE_SEGMENTS)
    };
    !is_secret_name(name)
        && (is_known(value)
            || is_path(value)
            || is_host(value)
            || is_web(value)
            || is_choice(value))
}

/// Whether a value with this name may be a secret, in any form.
pub(super) fn is_secret_name(name: &str) -> bool {
    let ends = |segment: &String| SECRET_ENDS.iter().any(|end| segment.ends_with(end));
    redact::is_secret_key(name)
        || has_segment(name, SECRET_SEGMENTS)
        || segments(name).iter().any(ends)
}

/// Whether one of the words of a name is `wanted`.
pub(super) fn has_segment(name: &str, wanted: &[&str]) -> bool {
    segments(name).iter().any(|segment| wanted.contains(&segment.as_str()))
}

/// The words of a name such as `API_KEY`, `api-key` or `apiKey`, in lower case.
fn segments(name: &str) -> Vec<String> {
    let (mut segments, mut was_lower) = (vec![String::new()], false);
    for c in name.chars() {
        if !c.is_alphanumeric() || (was_lower && c.is_uppercase()) {
            segments.push(String::new());
        }
        if let Some(last) = segments.last_mut().filter(|_| c.is_alphanumeric()) {
            last.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    segments
}

/// Whether `text` is from a small set of values, or a number, version, date, locale, time zone,
/// region, or address of this machine.
pub(super) fn is_known(text: &str) -> bool {
    text.is_empty()
        || KNOWN_WORDS.contains(&text.to_ascii_lowercase().as_str())
        || is_number(text)
        || is_version(text)
        || is_locale(text)
        || is_region(text)
        || is_local(text)
        || is_size(text)
}

/// Whether `text` is a width and a height, such as `1280,720` or `1280x720`.
fn is_size(text: &str) -> bool {
    text.split_once([',', 'x']).is_some_and(|(width, height)| digits(width, 5) && digits(height, 5))
}

/// Whether `text` is a number of at most six digits, with or without a unit.
fn is_number(text: &str) -> bool {
    const UNITS: &[&str] =
        &["", "ms", "s", "m", "h", "d", "k", "kb", "mb", "gb", "kib", "mib", "gib", "g", "%"];
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    digits(whole, 6) && digits(fraction, 6) && UNITS.contains(&unit.to_ascii_lowercase().as_str())
}

/// Whether `text` consists of 1 to `most` digits.
fn digits(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether `text` is like `1.20.3`, `v2` or `2025-11-25`.
pub(super) fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let parts = |separator| text.split(separator).collect::<Vec<_>>();
    let (dots, dashes) = (parts('.'), parts('-'));
    let is_date = matches!(dashes.as_slice(), [year, month, day]
        if year.len() == 4 && month.len() == 2 && day.len() == 2);
    (dots.len() <= 4 && dots.iter().all(|part| digits(part, 4)))
        || (is_date && dashes.iter().all(|part| digits(part, 4)))
}

/// Whether `text` is like `de_DE.UTF-8` or `Europe/Berlin`.
fn is_locale(text: &str) -> bool {
    const AREAS: &[&str] = &[
        "Africa",
        "America",
        "Antarctica",
        "Asia",
        "Atlantic",
        "Australia",
        "Etc",
        "Europe",
        "Indian",
        "Pacific",
    ];
    if let Some((area, city)) = text.split_once('/') {
        let is_city = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/');
        return AREAS.contains(&area) && city.len() <= 32 && city.chars().all(is_city);
    }
    let text = text.strip_suffix(".UTF-8").or(text.strip_suffix(".utf8")).unwrap_or(text);
    let two = |text: &str, is: fn(&u8) -> bool| text.len() == 2 && text.bytes().all(|b| is(&b));
    let both = text.split_once(['_', '-']);
    text == "C"
        || both.is_some_and(|(language, country)| {
            two(language, u8::is_ascii_lowercase) && two(country, u8::is_ascii_uppercase)
        })
}

/// Whether `text` is a region of a cloud such as `eu-west-1`.
fn is_region(text: &str) -> bool {
    const DIRECTIONS: &[&str] = &[
        "central",
        "east",
        "north",
        "northeast",
        "northwest",
        "south",
        "southeast",
        "southwest",
        "west",
    ];
    let end = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = text.strip_prefix(end).unwrap_or_default();
    let mut parts = end.strip_suffix('-').unwrap_or(end).split('-');
    let is_area = |area: &str| area.len() == 2 && area.bytes().all(|b| b.is_ascii_lowercase());
    number.len() <= 2
        && parts.next().is_some_and(is_area)
        && parts.next().is_some_and(|direction| DIRECTIONS.contains(&direction))
        && parts.next().is_none()
}

/// Whether `text` is `localhost` or an IP address, with or without a port.
fn is_local(text: &str) -> bool {
    let is_host =
        |host: &str| host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_host(text)
        || text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && digits(port, 5))
}

/// Whether `text` is the full name of a host, with or without a port.
pub(super) fn is_host_name(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "0"));
    let is_label = |label: &str| {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(legal)
    };
    let top = host.rsplit_once('.').map(|(_, top)| top);
    digits(port, 5)
        && host.split('.').all(is_label)
        && top.is_some_and(|top| top.len() >= 2 && top.bytes().all(|b| b.is_ascii_lowercase()))
        && !may_be_key(host)
}

/// Whether `text` is a path that starts at a root, `~`, `.` or `..`, or several of them with colons.
pub(super) fn is_path(text: &str) -> bool {
    let drive = |text: &str| {
        let mut chars = text.chars();
        let is_drive = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
            && chars.next() == Some(':')
            && matches!(chars.next(), Some('\\' | '/'));
        is_drive.then(|| text.split_at(2).1.to_owned())
    };
    let is_part =
        |word: &str| !word.starts_with('-') && is_words(word.trim_matches(['"', '\'', '(', ')']));
    let is_one = |path: &str| {
        let rest = path.trim_start_matches(['~', '.']);
        let mut words = rest.split_whitespace();
        let is_first = |word: &str| is_name_in_path(word) || matches!(word, "/" | "\\");
        (path.len() - rest.len()) <= 2
            && rest.starts_with(['/', '\\'])
            && words.next().is_some_and(is_first)
            && words.all(is_part)
    };
    match drive(text) {
        Some(rest) => is_one(&rest),
        None => matches!(text, "." | "..") || text.split(':').all(is_one),
    }
}

/// Whether `text` consists of words and numbers, as in `read-only` or `src/main.js`.
pub(super) fn is_words(text: &str) -> bool {
    let is_word = |word: &str| {
        let mut rest = word.chars();
        rest.next();
        let rest = rest.as_str();
        let same_case = rest.bytes().all(|byte| byte.is_ascii_lowercase())
            || word.bytes().all(|byte| byte.is_ascii_uppercase());
        word.is_empty()
            || digits(word.trim_start_matches('v'), 6)
            || (word.bytes().all(|byte| byte.is_ascii_alphabetic()) && same_case)
    };
    text.len() <= 100
        && text.split(['-', '_', '.', '/', '\\', '@', ',', '+']).all(is_word)
        && !may_be_key(text)
}

/// Whether `text` has the characters of names, such as those of packages, files and images, and no
/// part that may be a key.
pub(super) fn is_name(text: &str) -> bool {
    let legal = |c: char| c.is_alphanumeric() || "-_./\\@+,~^[]()'\"".contains(c);
    // The digest of an image is in public registries.
    let name = text.split_once("@sha256:").map_or(text, |(name, digest)| {
        let is_digest = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
        if is_digest { name } else { text }
    });
    !name.is_empty() && name.len() <= 200 && name.chars().all(legal) && !may_be_key(name)
}

/// Whether `text` is a name as in a path, where the UUID of a directory is not a secret.
fn is_name_in_path(text: &str) -> bool {
    let is_part = |part: &str| part.is_empty() || is_uuid(part) || is_name(part);
    text.len() <= 200
        && text.split(['/', '\\']).all(is_part)
        && Redactor::default().text(text) == text
}

/// Whether `text` has the form of a key: of a known service, long, or of mixed characters.
pub(super) fn may_be_key(text: &str) -> bool {
    Redactor::default().text(text) != text
        || has_uuid(text)
        || text.split(|c: char| !c.is_alphanumeric()).any(is_key)
}

fn is_key(word: &str) -> bool {
    let length = word.chars().count();
    let count = |is: fn(char) -> bool| word.chars().filter(|c| is(*c)).count();
    let digits = count(|c| c.is_ascii_digit());
    let upper = count(char::is_uppercase);
    let lower = count(char::is_lowercase);
    let changes = |kind: fn(char) -> bool| {
        let mut rest = word.chars();
        rest.next();
        word.chars().zip(rest).filter(|(one, next)| kind(*one) != kind(*next)).count()
    };
    if length >= 24 || digits >= 12 {
        return true;
    }
    if digits == length {
        return false;
    }
    if digits > 0 {
        let is_hex = word.chars().all(|c| c.is_ascii_hexdigit());
        let rest = word.strip_prefix(char::is_uppercase).unwrap_or(word);
        let is_mixed = lower > 0 && rest.contains(char::is_uppercase);
        return changes(|c| c.is_ascii_digit()) >= 3
            || (length >= 12 && (digits > 4 || upper > 0))
            || (is_hex && length >= 8)
            || (is_mixed && length >= 6)
            || (upper > 0 && lower == 0 && length >= 10);
    }
    upper > 0 && length >= 12 && changes(char::is_uppercase) * 3 > length
}

fn has_uuid(text: &str) -> bool {
    text.as_bytes().windows(UUID_LENGTH).any(is_uuid_of)
}

const UUID_LENGTH: usize = 36;

fn is_uuid(text: &str) -> bool {
    text.len() == UUID_LENGTH && is_uuid_of(text.as_bytes())
}

fn is_uuid_of(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Whether `text` is an address without a user, a password or another secret.
pub(super) fn is_public_address(text: &str) -> bool {
    is_address(text, SCHEMES)
}

fn is_address(text: &str, schemes: &[&str]) -> bool {
    let Some((url, path)) = plain_url(text) else { return false };
    let query = url.query_pairs();
    let is_plain = |(name, value): (Cow<'_, str>, Cow<'_, str>)| {
        is_words(&name)
            && !is_secret_name(&name)
            && (is_known(&value) || is_flag_list(&name, &value))
    };
    let is_segment = |segment: &str| segment.is_empty() || is_name(segment);
    schemes.contains(&url.scheme())
        && path.split('/').all(is_segment)
        && url.fragment().is_none()
        && query.into_iter().all(is_plain)
}

/// Whether a parameter names the project or the parts of the service to use.
fn is_flag_list(name: &str, value: &str) -> bool {
    const LISTS: &[&str] =
        &["features", "groups", "project", "project_id", "project_ref", "tools", "toolsets"];
    LISTS.contains(&name) && is_words(value)
}

/// Whether `text` is an address on the web without a user, a password or a query. Its path is
/// public, because tokens name it.
pub(super) fn is_issuer_address(text: &str) -> bool {
    let shaped = Redactor::default().text(text);
    plain_url(text).is_some_and(|(url, _)| WEB.contains(&url.scheme()) && url.query().is_none())
        && !text.contains(['#', '$', '{'])
        && shaped == text
}

/// Parses `text` as a URL, and finds its path; `None` if it contains a user.
fn plain_url(text: &str) -> Option<(Url, &str)> {
    // The parser would remove blanks, and accept a backslash as a slash.
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return None;
    }
    let (_, rest) = text.split_once("://")?;
    // With `#` or `/` in a password, the parser takes the user for the host. Packages have `/@`.
    let (user, without_user) = match rest.strip_prefix("git@") {
        Some(rest) => ("git", rest),
        None => ("", rest),
    };
    if without_user.replace("/@", "/").contains('@') {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let end = without_user.find(['?', '#']).unwrap_or(without_user.len());
    let path = without_user.split_at(end).0.split_once('/').map_or("", |(_, path)| path);
    let host = url.host_str().unwrap_or_default();
    let is_plain = url.username() == user
        && url.password().is_none()
        && Redactor::default().text(host) == host;
    is_plain.then_some((url, path))
}

/// The parts of an address that are shown if it may contain a secret.
pub(super) fn hidden_address(text: &str) -> String {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let Some(scheme) = scheme.filter(|scheme| SCHEMES.contains(scheme)) else {
        return PLACEHOLDER.to_owned();
    };
    let host = Url::parse(text).ok().and_then(|url| url.host_str().map(str::to_owned));
    let is_shown =
        |host: &String| WEB.contains(&scheme) && !text.contains('@') && is_host_name(host);
    match host.filter(is_shown) {
        Some(host) => format!("{scheme}://{host}/{PLACEHOLDER}"),
        None => format!("{scheme}://{PLACEHOLDER}"),
    }
}

/// Kinds of tools and of authentication that have digits.
const KINDS: &[&str] = &["A2A", "oauth2", "oauth2_token_exchange"];

/// A word that a message may repeat, such as a kind of authentication.
pub(super) fn shown(word: &str) -> &str {
    match KINDS.contains(&word) || (word.len() <= 32 && is_words(word)) {
        true => word,
        false => PLACEHOLDER,
    }
}

/// Removes likely secrets from a message, according to their form or their place in a URL.
pub(super) fn without_secret(text: &str) -> String {
    let shaped = Redactor::default().text(text);
    let is_address = shaped.contains("://") && !shaped.contains(char::is_whitespace);
    match is_address && !is_public_address(&shaped) {
        true => hidden_address(&shaped),
        false => shaped,
    }
}

/// Whether `text` has only references to variables, and words such as `Bearer`.
pub(super) fn has_only_references(text: &str) -> bool {
    const WORDS: &[&str] = &["", "api", "authorization", "basic", "bearer", "key", "token", "x"];
    let is_known = |word: &str| WORDS.contains(&word.to_ascii_lowercase().as_str());
    let rest = reference::replaced(text, " ");
    rest != text && rest.split([' ', '-', ':']).all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_copied_only_if_they_are_plain() {
        for (name, value) in [
            ("A", ""),
            ("DEBUG", "true"),
            ("LOG_LEVEL", "INFO"),
            ("LOG_MODE", "lenient"),
            ("STORAGE_BACKEND", "on-disk"),
            ("NODE_ENV", "production"),
            ("PORT", "8080"),
            ("RATIO", "0.5"),
            ("WAIT", "30s"),
            ("VERSION", "1.20.3"),
            ("DAY", "2025-11-25"),
            ("LANG", "de_DE.UTF-8"),
            ("TZ", "Europe/Berlin"),
            ("AWS_REGION", "eu-west-1"),
            ("REGION", "us-central1"),
            ("ROOT", "/srv/My Docs"),
            ("ROOT", "./data"),
            ("ROOT", r"C:\Users\ada"),
            ("SEARCH", "/usr/bin:/bin"),
            ("BASE", "https://api.example.com/v1"),
            ("BASE", "http://localhost:8080"),
            ("ADDR", "localhost:5432"),
            ("DB_HOST", "db.example.com"),
        ] {
            assert!(is_public_variable(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("A", "hunter2"),
            ("A", "letmein"),
            ("A", "correct-horse"),
            ("A", "12345678"),
            ("A", "Secret1!"),
            ("A", "my.secret"),
            ("A", "0123456789abcdef0123456789abcdef"),
            ("A", "/9j4AAQSkZJRgABAQEAYABgAAD"),
            ("A", "/usr/bin/x --token hunter2"),
            ("A", "/a=b"),
            ("A", "https://ada@example.com/"),
            ("A", "https://ada:pw@example.com/"),
            ("A", "https://example.com/?x=1"),
            ("A", "https://example.com/#x"),
            ("A", "https://hooks.example.com/services/T0/aB3dE5fG7hI9jK1l"),
            ("A", "postgresql://localhost/db"),
            ("A", "Server=db;Password=x"),
            ("AUTH_MODE", "lenient"),
            ("MODE", "hunter2"),
            ("API_TOKEN", "true"),
            ("apiKey", "1"),
            ("MYPASSWORD", "/x"),
            ("DB_PW", "debug"),
        ] {
            assert!(!is_public_variable(name, value), "{name}={value}");
        }
    }

    #[test]
    fn headers_are_copied_only_if_they_are_public() {
        for (name, value) in [
            ("Accept", "application/json, text/event-stream"),
            ("content-type", "application/json; charset=utf-8"),
            ("Accept-Language", "de-DE,de;q=0.9"),
            ("User-Agent", "crib/1.0"),
        ] {
            assert!(is_public_header(name, value), "{name}: {value}");
        }
        for (name, value) in [
            ("X-Foo", "1"),
            ("X-Auth", "true"),
            ("Cookie", "a=b"),
            ("User-Agent", "Bearer hunter"),
            ("User-Agent", "ada:pw@example.com"),
            ("Accept", "sk-0123456789"),
            ("Accept", "9c1185a5-c5e9-4c8a-9d4e-1f2a3b4c5d6e"),
        ] {
            assert!(!is_public_header(name, value), "{name}: {value}");
        }
    }

    #[test]
    fn keys_are_distinguished_from_names() {
        for name in [
            "@modelcontextprotocol/server-sequential-thinking",
            "@upstash/context7-mcp@1.0.14",
            "n8n-mcp",
            "mcp-server-k8s",
            "ghcr.io/github/github-mcp-server",
            "e2b",
            "x86_64",
            "GitHubEnterprise",
            "c365helperservice",
        ] {
            assert!(is_name(name), "{name}");
        }
        for key in [
            "9c1185a5-c5e9-4c8a-9d4e-1f2a3b4c5d6e",
            "deadbeef01",
            "aB3dE5",
            "s3cr3tw0rd",
            "abcdefghijklmnopqrstuvwxyz",
            "hJkLqWzXcVbNmP",
            "AKIAIOSFODNN7EXAMPLE",
            "1234567890123456",
            "Z9X8C7V6B5",
        ] {
            assert!(may_be_key(key), "{key}");
        }
    }

    #[test]
    fn addresses_with_secrets_show_at_most_their_host() {
        for (address, shown) in [
            ("https://ada:hunter@example.com/", "https://[redacted]"),
            ("https://hunter@example.com/", "https://[redacted]"),
            ("https://hunter#two@example.com/", "https://[redacted]"),
            ("https://hunter/two@example.com/", "https://[redacted]"),
            ("https://example.com/mcp?q=hunter", "https://example.com/[redacted]"),
            ("https://example.com/s/aB3dE5fG7/mcp", "https://example.com/[redacted]"),
            ("https://example.com/#hunter", "https://example.com/[redacted]"),
            ("https://example.com/mcp?key=true", "https://example.com/[redacted]"),
            ("redis://:hunter@localhost", "redis://[redacted]"),
            ("hunter://two", "[redacted]"),
            ("hunter", "[redacted]"),
        ] {
            assert!(!is_public_address(address), "{address}");
            assert_eq!(hidden_address(address), shown);
        }
        for address in [
            "https://mcp.example.com/mcp",
            "https://mcp.example.com/v1/@scope/mcp?read_only=true&features=database,docs",
            "git+ssh://git@github.com/a/b",
            "postgresql://localhost/db",
            "http://127.0.0.1:9000/mcp",
        ] {
            assert!(is_public_address(address), "{address}");
        }
    }
}
