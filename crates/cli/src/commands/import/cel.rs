//! The authorization rules of agentgateway, which are CEL expressions, as rules for tools.
//!
//! Only names of tools and targets are understood. Every other condition about the caller narrows a
//! rule: a tool that depends on one gets a scope that no caller has until the operator grants it.
//! An unknown condition about the tool leaves the source unusable.
//!
//! Invariant: the result permits no call that the expressions forbid.

use std::{collections::BTreeSet, ops::Range};

use serde_json::Value;
use toolcrib_core::redact::{self, PLACEHOLDER};

use super::{
    described::{Rule, literal},
    secrets::{is_public_address, may_be_key},
    servers::Reader,
};

/// The alternatives of an expression: one is enough.
#[derive(Debug, Default, PartialEq, Eq)]
struct Clause {
    /// Globs of the tools; `None` for all.
    tools: Option<BTreeSet<String>>,
    target: Option<String>,
    /// Conditions without a translation; all must hold.
    conditions: Vec<String>,
    /// Whether it is about prompts or resources, which do not exist here.
    is_foreign: bool,
}

/// Rules for the tools of source `id`, which the document calls `target`. `policy` is the value of
/// `mcpAuthorization`. Fails if the source must stay unusable.
pub(super) fn rules(
    id: &str,
    target: &str,
    policy: &Value,
    place: &str,
    reader: &mut Reader,
) -> Result<Vec<Rule>, String> {
    let list = policy.get("rules").or(Some(policy)).and_then(Value::as_array);
    let list = list.ok_or("its `mcpAuthorization` is not a list of rules")?;
    let (mut narrow, mut wide, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (index, rule) in list.iter().enumerate() {
        let place = format!("{place}.rules[{index}]");
        let (kind, text) = match rule {
            Value::String(text) => ("allow", text.as_str()),
            Value::Object(members) => match members.iter().next() {
                Some((kind, Value::String(text))) if members.len() == 1 => (kind.as_str(), &**text),
                _ => return Err(format!("{place} is not understood")),
            },
            _ => return Err(format!("{place} is not understood")),
        };
        for clause in clauses(text) {
            if clause.is_foreign {
                reader.part(&place, "it is about prompts or resources; toolcrib serves tools only");
                continue;
            }
            if clause.target.as_deref().is_some_and(|other| other != target) {
                continue;
            }
            match (kind, clause.conditions.is_empty()) {
                ("allow", true) => wide.extend(clause.globs().map(|glob| Rule {
                    glob,
                    hide: Some(false),
                    scope: Some(format!("tools:{id}")),
                    ..Rule::default()
                })),
                // Granting a scope to a caller cannot express which tools the condition leaves out.
                ("allow", false)
                    if clause.conditions.iter().any(|condition| condition.contains("mcp.tool")) =>
                {
                    return Err(format!("{place} has an unknown condition on the tool"));
                }
                ("allow", false) => {
                    let scope = format!("tools:{id}:rule-{}", index + 1);
                    let conditions = clause.conditions.join(" && ");
                    let comment = format!(
                        "Grant `{scope}` only to callers for which this holds: {conditions}"
                    );
                    reader.part(
                        &place,
                        format!(
                            "the condition `{conditions}` became the scope `tools:SOURCE:rule-{}`; \
                             grant it to those callers only",
                            index + 1
                        ),
                    );
                    narrow.extend(clause.globs().map(|glob| Rule {
                        glob,
                        hide: Some(false),
                        scope: Some(scope.clone()),
                        comment: Some(comment.clone()),
                        ..Rule::default()
                    }));
                }
                // The tool is hidden from all callers, not only from those of the conditions.
                ("deny", is_plain) => {
                    if !is_plain {
                        let conditions = clause.conditions.join(" && ");
                        reader.part(
                            &place,
                            format!("`{conditions}` is not understood, so its tools are hidden"),
                        );
                    }
                    last.extend(clause.globs().map(hidden));
                }
                (kind, _) => return Err(format!("rules of kind `{kind}` cannot be translated")),
            }
        }
    }
    if narrow.is_empty() && wide.is_empty() {
        reader.part(place, "no rule permits a tool of this source, so all of them are hidden");
    }
    let first = hidden("*".to_owned());
    Ok([vec![first], narrow, wide, last].concat())
}

fn hidden(glob: String) -> Rule {
    Rule { glob, hide: Some(true), ..Rule::default() }
}

impl Clause {
    fn globs(&self) -> impl Iterator<Item = String> {
        let all = || BTreeSet::from(["*".to_owned()]);
        self.tools.clone().unwrap_or_else(all).into_iter()
    }

    fn read(text: &str) -> Self {
        let mut clause = Self::default();
        for part in split(text, "&&") {
            let part = unwrapped(part);
            if let Some(tools) = tools(part) {
                clause.tools = Some(match clause.tools.take() {
                    None => tools,
                    // A glob may match a name of the other set, but only equal entries are certain.
                    Some(others) => others.intersection(&tools).cloned().collect(),
                });
            } else if let Some(target) = equal(part, "mcp.tool.target") {
                match &clause.target {
                    Some(other) if *other != target => clause.tools = Some(BTreeSet::new()),
                    _ => clause.target = Some(target),
                }
            } else {
                clause.is_foreign |= part.contains("mcp.prompt") || part.contains("mcp.resource");
                clause.conditions.push(shown(part));
            }
        }
        clause
    }
}

fn clauses(text: &str) -> Vec<Clause> {
    let text = unwrapped(text);
    // `a ? b : c` binds less than `||`.
    if split(text, "?").len() > 1 {
        return vec![Clause { conditions: vec![shown(text)], ..Clause::default() }];
    }
    split(text, "||").into_iter().map(Clause::read).collect()
}

/// Replaces texts that may be secrets. Texts stay only if every name in the condition is public, such
/// as a claim of a token.
fn shown(condition: &str) -> String {
    const NAMES: &[&str] = &[
        "all",
        "exists",
        "exists_one",
        "false",
        "filter",
        "has",
        "in",
        "int",
        "jwt",
        "map",
        "mcp",
        "null",
        "size",
        "string",
        "true",
    ];
    let (outside, is_closed) = unquoted(condition);
    if !is_closed {
        return PLACEHOLDER.to_owned();
    }
    let (mut names, mut texts, mut end) = (vec![String::new()], Vec::new(), 0);
    for (at, c) in outside {
        if at > end {
            texts.push(end..at);
        }
        end = at + c.len_utf8();
        match names.last_mut() {
            Some(name) if c.is_alphanumeric() || matches!(c, '_' | '.') => name.push(c),
            _ => names.push(String::new()),
        }
    }
    if end < condition.len() {
        texts.push(end..condition.len());
    }
    let is_public = |name: &String| {
        let root = name.split('.').next().unwrap_or_default();
        let is_text_or_number = root.bytes().all(|byte| byte.is_ascii_digit());
        (is_text_or_number || NAMES.contains(&root)) && !name.split('.').any(redact::is_secret_key)
    };
    let content = |text: &Range<usize>| {
        condition.get(text.clone()).unwrap_or_default().trim_matches(['"', '\''])
    };
    let is_plain = |text: &str| {
        is_public_address(text) || (text.len() <= 100 && !text.contains("://") && !may_be_key(text))
    };
    let names_secret = texts.iter().any(|text| redact::is_secret_key(content(text)));
    let keeps = names.iter().all(is_public) && !names_secret;
    let (mut out, mut start) = (String::new(), 0);
    for text in texts {
        out.push_str(condition.get(start..text.start).unwrap_or_default());
        match keeps && is_plain(content(&text)) {
            true => out.push_str(condition.get(text.clone()).unwrap_or_default()),
            false => out.push_str(&format!("\"{PLACEHOLDER}\"")),
        }
        start = text.end;
    }
    out.push_str(condition.get(start..).unwrap_or_default());
    match may_be_key(&out.replace(PLACEHOLDER, "")) {
        true => PLACEHOLDER.to_owned(),
        false => out,
    }
}

/// The globs of a condition on the name of the tool.
fn tools(part: &str) -> Option<BTreeSet<String>> {
    const NAME: &str = "mcp.tool.name";
    if let Some(name) = equal(part, NAME) {
        return Some(BTreeSet::from([literal(&name)]));
    }
    let rest = part.strip_prefix(NAME)?.trim_start();
    if let Some(list) = rest.strip_prefix("in") {
        let list = list.trim().strip_prefix('[')?.strip_suffix(']')?;
        return split(list, ",")
            .into_iter()
            .map(|item| Some(literal(&quoted(item.trim())?)))
            .collect();
    }
    let prefix = rest.strip_prefix(".startsWith(")?.strip_suffix(')')?;
    Some(BTreeSet::from([format!("{}*", literal(&quoted(prefix.trim())?))]))
}

/// The text that `variable` is compared with.
fn equal(part: &str, variable: &str) -> Option<String> {
    let (left, right) = part.split_once("==")?;
    let (left, right) = (left.trim(), right.trim());
    match (left == variable, right == variable) {
        (true, false) => quoted(right),
        (false, true) => quoted(left),
        _ => None,
    }
}

/// The content of a text without escapes.
fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains([quote, '\\'])).then(|| inner.to_owned())
}

/// Splits `text` at `separator`, where it is in no text, parenthesis or bracket.
fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, c) in unquoted(text).0 {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0
                && at >= start
                && text.get(at..).is_some_and(|rest| rest.starts_with(separator)) =>
            {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + separator.len();
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

/// Removes blanks, and parentheses around the whole text.
fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    match inner {
        // In `(a) || (b)` they do not belong together.
        Some(inner) if is_balanced(inner) => unwrapped(inner),
        _ => text,
    }
}

fn is_balanced(text: &str) -> bool {
    let (mut depth, (characters, is_closed)) = (0_i32, unquoted(text));
    for (_, c) in characters {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0 && is_closed
}

/// The characters outside of quoted texts with their places, and whether every quoted text is
/// closed.
fn unquoted(text: &str) -> (Vec<(usize, char)>, bool) {
    let (mut outside, mut quote, mut escaped) = (Vec::new(), None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, c) => outside.push((at, c)),
        }
    }
    (outside, quote.is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each rule as text: `glob`, `-` when hidden, and its scope.
    fn read(rules: Value) -> Result<Vec<String>, String> {
        let mut reader = Reader::default();
        let rules = super::rules("s", "up", &rules, "p", &mut reader)?;
        let shown = |rule: Rule| match (rule.hide, rule.scope) {
            (Some(true), _) => format!("-{}", rule.glob),
            (_, scope) => format!("{} {}", rule.glob, scope.unwrap_or_default()),
        };
        Ok(rules.into_iter().map(shown).collect())
    }

    #[test]
    fn conditions_are_shown_without_secrets() {
        for (condition, expected) in [
            (r#"jwt.sub == "ada""#, r#"jwt.sub == "ada""#),
            (r#"'admins' in jwt.groups"#, r#"'admins' in jwt.groups"#),
            (r#"jwt.sub == "9aB8cD7eF6""#, r#"jwt.sub == "[redacted]""#),
            (r#"jwt.password == "x""#, r#"jwt.password == "[redacted]""#),
            (
                r#"request.headers["x-key"] == "ada""#,
                r#"request.headers["[redacted]"] == "[redacted]""#,
            ),
            (r#"apiKey.key == 'ada' && jwt.x"#, r#"apiKey.key == "[redacted]" && jwt.x"#),
            (r#"jwt["password"] == "x""#, r#"jwt["[redacted]"] == "[redacted]""#),
            (r#"jwt.x == "ada"#, "[redacted]"),
            ("jwt.x == aB3dE5fG7", "[redacted]"),
        ] {
            assert_eq!(shown(condition), expected);
        }
    }

    #[test]
    fn names_are_translated_and_other_conditions_become_scopes() {
        let table = [
            (json!([r#"mcp.tool.name == "echo""#]), vec!["-*", "echo tools:s"]),
            (json!([r#"'echo' == mcp.tool.name"#]), vec!["-*", "echo tools:s"]),
            (
                json!({ "rules": [r#"mcp.tool.name in ["a", 'b*']"#] }),
                vec!["-*", "a tools:s", "b[*] tools:s"],
            ),
            (json!([r#"mcp.tool.name.startsWith("get_")"#]), vec!["-*", "get_* tools:s"]),
            (json!([r#"mcp.tool.target == "up""#]), vec!["-*", "* tools:s"]),
            (json!([r#"mcp.tool.target == "other" && mcp.tool.name == "x""#]), vec!["-*"]),
            (
                json!([
                    r#"jwt.sub == "ada" && mcp.tool.name == "add""#,
                    r#"mcp.tool.name == "echo""#
                ]),
                vec!["-*", "add tools:s:rule-1", "echo tools:s"],
            ),
            // The unconditional rule wins, in any order.
            (
                json!([r#"mcp.tool.name == "a""#, r#"jwt.x && mcp.tool.name == "a""#]),
                vec!["-*", "a tools:s:rule-2", "a tools:s"],
            ),
            (
                json!([r#"(mcp.tool.name == "a" || mcp.tool.name == "b")"#]),
                vec!["-*", "a tools:s", "b tools:s"],
            ),
            (
                json!([r#"(jwt.a || jwt.b) && mcp.tool.name == "a""#]),
                vec!["-*", "a tools:s:rule-1"],
            ),
            (json!([r#"mcp.tool.name == "a" && mcp.tool.name == "b""#]), vec!["-*"]),
            (json!([r#"mcp.prompt.name == "p""#]), vec!["-*"]),
            (json!(["true"]), vec!["-*", "* tools:s:rule-1"]),
            (
                json!([{ "allow": r#"mcp.tool.target == "up""# }, { "deny": r#"mcp.tool.name == "rm""# }]),
                vec!["-*", "* tools:s", "-rm"],
            ),
            (
                json!([{ "allow": r#"mcp.tool.target == "up""# }, { "deny": "jwt.guest" }]),
                vec!["-*", "* tools:s", "-*"],
            ),
        ];
        for (rules, expected) in table {
            assert_eq!(read(rules.clone()).unwrap(), expected, "{rules}");
        }
        // A scope of a caller cannot express which tools these conditions exclude.
        for expression in [
            r#"!(mcp.tool.name == "a")"#,
            r#"jwt.x == "a || b" ? true : mcp.tool.name == "c""#,
            r#"mcp.tool.name != "delete""#,
            r#"mcp.tool.name == "a" == false"#,
            r#"mcp.tool.name.matches("^get_.*$")"#,
        ] {
            let error = read(json!([expression])).unwrap_err();
            assert!(error.contains("condition on the tool"), "{error}");
        }
        assert!(read(json!([{ "require": "jwt.sub != ''" }])).is_err());
        assert!(read(json!([{ "allow": "a", "deny": "b" }])).is_err());
        assert!(read(json!("x")).is_err());
    }
}
