//! Writes imported servers as a configuration file.

use std::path::Path;

use toml::Value;
use toolcrib_config::{self as config};
use toolcrib_core::text::is_hidden;

use super::{
    described::Rule,
    servers::{ImportContent, Issuer, Server, Setting, Upstream},
};
use crate::env::AnySecret;

/// The configuration file and a summary of its servers.
#[derive(Debug)]
pub(crate) struct ImportedConfig {
    pub(crate) text: String,
    /// Enabled sources.
    pub(crate) sources: usize,
    /// Servers that are only comments, with the reason.
    pub(crate) left_out: Vec<(String, String)>,
}

/// Creates the configuration of `imported`; `from` is the name of the client's file.
pub(super) fn file(from: &str, imported: &ImportContent) -> ImportedConfig {
    let from: String = from.chars().filter(|c| !c.is_control() && !is_hidden(*c)).collect();
    below(format!("# Created by `toolcrib import` from {from}.\n#\n{RULES}"), imported)
}

/// Explains the rules for tools, as a comment.
pub(crate) const RULES: &str = "\
    # By default, a tool of source S requires the scope `tools:S` and has the tier `write`. Rules\n\
    # belong to their source; later rules override earlier ones:\n\
    #\n\
    # [source.tools.\"read_*\"]\n\
    # scopes = [\"files:read\"]\n\
    # safety_tier = \"read\"\n";

/// Appends the configuration of `imported` to `text`.
pub(crate) fn below(mut text: String, imported: &ImportContent) -> ImportedConfig {
    text.push_str(&parts(imported));
    text.push_str(&server_table(imported));
    for issuer in &imported.issuers {
        let table = issuer_table(issuer);
        text.push('\n');
        match issuer.obstacle.clone().or_else(|| refused(&table)) {
            None => text.push_str(&table),
            Some(why) => text.push_str(&commented(&table, &why)),
        }
    }
    let (mut sources, mut left_out) = (0, Vec::new());
    for server in &imported.servers {
        let source = source(server);
        let obstacle = server.obstacle.clone().or_else(|| refused(&source));
        text.push('\n');
        if let Some(origin) = &server.origin {
            text.push_str(&format!("# From {}.\n", one_line(origin)));
        }
        match obstacle {
            None => {
                sources += 1;
                text.push_str(&source);
            }
            Some(why) => {
                let why = one_line(&why);
                text.push_str(&commented(&source, &why));
                left_out.push((server.name.clone(), why));
            }
        }
    }
    ImportedConfig { text, sources, left_out }
}

/// Comments `table` out, with the reason.
fn commented(table: &str, why: &str) -> String {
    let lines = table.lines().map(|line| format!("# {line}\n"));
    std::iter::once(format!("# Not in force: {}.\n", one_line(why))).chain(lines).collect()
}

/// Replaces characters that could end a comment.
pub(super) fn one_line(text: &str) -> String {
    let hidden = |c: char| c.is_control() || is_hidden(c);
    text.chars().map(|c| if hidden(c) { ' ' } else { c }).collect()
}

/// A comment that names the parts without a translation.
fn parts(imported: &ImportContent) -> String {
    if imported.parts.is_empty() {
        return String::new();
    }
    let parts = imported.parts.iter();
    let lines =
        parts.map(|part| format!("# - {}: {}\n", one_line(&part.place), one_line(&part.reason)));
    std::iter::once("#\n# Not translated:\n".to_owned()).chain(lines).collect()
}

/// The table `[server]`; values that it does not accept become comments.
fn server_table(imported: &ImportContent) -> String {
    let list =
        |values: &[String]| values.iter().map(|value| string(value)).collect::<Vec<_>>().join(", ");
    let mut lines = Vec::new();
    lines.extend(imported.port.map(|port| format!("listen = \"127.0.0.1:{port}\"\n")));
    for (key, values) in
        [("allowed_hosts", &imported.hosts), ("allowed_origins", &imported.origins)]
    {
        if !values.is_empty() {
            lines.push(format!("{key} = [{}]\n", list(values)));
        }
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!("\n[server]\n{}", lines.concat()),
    }
}

fn issuer_table(Issuer { issuer, audiences, keys, .. }: &Issuer) -> String {
    let audiences: Vec<String> = audiences.iter().map(|audience| string(audience)).collect();
    format!(
        "# A token may use the tools whose scopes are in its claim `scope`, such as `tools:SOURCE`.\n\
         [[auth.jwt]]\nissuer = {}\naudiences = [{}]\njwks_url = {}\ntenant = \"default\"\n",
        string(issuer),
        audiences.join(", "),
        string(keys)
    )
}

/// The problem of `source` as a configuration, with all secrets assumed present.
fn refused(source: &str) -> Option<String> {
    let error = config::parse("import", source, Path::new(""), &AnySecret).err()?;
    error.problems.first().map(|problem| problem.message.clone())
}

fn source(server: &Server) -> String {
    let kind = match server.upstream {
        Upstream::Document { .. } => "connector",
        Upstream::Command { .. } | Upstream::Url { .. } => "mcp",
    };
    let mut text = format!("[[source]]\nid = {}\nkind = \"{kind}\"\n", string(&server.id));
    match &server.upstream {
        Upstream::Command { command, env, cwd } => {
            let words = command.iter().map(|word| string(word)).collect::<Vec<_>>().join(", ");
            text.push_str(&format!("command = [{words}]\n"));
            if let Some(cwd) = cwd {
                text.push_str(&format!("cwd = {}\n", string(cwd)));
            }
            text.push_str(&settings("env", env));
        }
        Upstream::Url { url, headers } => {
            text.push_str(&format!("url = {}\n", string(url)));
            text.push_str(&settings("headers", headers));
        }
        Upstream::Document { document, url, headers } => {
            text.push_str(&format!("document = {}\n", string(document)));
            if let Some(url) = url {
                text.push_str(&format!("base_url = {}\n", string(url)));
            }
            text.push_str(&settings("headers", headers));
        }
    }
    // A table can be written only once, so the last of several rules for one glob counts.
    let last =
        |rule: &Rule, at| !server.rules.iter().skip(at + 1).any(|later| later.glob == rule.glob);
    for (_, rule) in server.rules.iter().enumerate().filter(|(at, rule)| last(rule, *at)) {
        text.push_str(&rule_table(rule));
    }
    text
}

fn rule_table(rule: &Rule) -> String {
    let mut text = String::new();
    if let Some(comment) = &rule.comment {
        text.push_str(&format!("# {}\n", one_line(comment)));
    }
    text.push_str(&format!("[source.tools.{}]\n", basic(&rule.glob)));
    if let Some(hide) = rule.hide {
        text.push_str(&format!("hide = {hide}\n"));
    }
    if let Some(scope) = &rule.scope {
        text.push_str(&format!("scopes = [{}]\n", string(scope)));
    }
    if let Some(timeout) = &rule.timeout {
        text.push_str(&format!("timeout = {}\n", string(timeout)));
    }
    text
}

fn settings(table: &str, settings: &[(String, Setting)]) -> String {
    if settings.is_empty() {
        return String::new();
    }
    let mut text = format!("[source.{table}]\n");
    for (name, setting) in settings {
        let value = match setting {
            Setting::Plain(value) => string(value),
            Setting::Env(variable) => format!("{{ env = {} }}", string(variable)),
        };
        text.push_str(&format!("{} = {value}\n", key(name)));
    }
    text
}

fn string(text: &str) -> String {
    // Multi-line strings would put line breaks into comments.
    let quoted = Value::from(text).to_string();
    match quoted.contains('\n') {
        false => quoted,
        true => basic(text),
    }
}

/// Returns `text` as a basic TOML string on one line.
fn basic(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => basic(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_as_a_string_of_one_line() {
        for text in
            ["", "plain", "a\nb", "it's \"quoted\"", "C:\\dir", "tab\there\r\n", "\u{7f}\u{85}é"]
        {
            for written in [string(text), basic(text)] {
                assert!(!written.contains('\n'), "{written}");
                let read: toml::Table = toml::from_str(&format!("x = {written}")).unwrap();
                assert_eq!(read["x"].as_str(), Some(text), "{written}");
            }
            let read: toml::Table = toml::from_str(&format!("{} = 1", key(text))).unwrap();
            assert!(read.contains_key(text));
        }
    }
}
