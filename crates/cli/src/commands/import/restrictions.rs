//! The settings of a server in the file of a client: what each means here, and the restrictions among
//! them.
//!
//! Invariant: a setting that may be a restriction becomes rules, or an obstacle.

use serde_json::{Map, Value};

use super::{
    described::{Obstacle, Rule, literal},
    secrets::has_segment,
};

/// The meaning of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Another part of the import translates it.
    Translated,
    /// Its value switches the server off.
    Switch,
    /// Tools that the client does not use.
    Denied,
    /// The only tools that the client uses.
    Allowed,
    /// It is not a restriction; the reason says why it is not translated.
    Harmless(&'static str),
    /// Without it the server would be another one, or may do more.
    Needed(&'static str),
    Unknown,
}

/// The reason for lists of tools, which become rules.
const RULES: &str =
    "it became rules with `hide`; compare their names with those of `toolcrib tools list`";
const DESCRIPTIVE: &str = "it only describes the server";
const CONSENT: &str =
    "clients request consent themselves; a rule with `approval` lets calls wait for it";
const TIME: &str = "`timeout` in a rule limits a call";
const LOGIN: &str =
    "store a credential with `toolcrib credentials set`, and name it in `credential`";
const SANDBOX: &str = "write `sandbox` of the source";

/// Parts of names of unknown settings that may be restrictions.
const RESTRICTING: &[&str] = &[
    "allow",
    "allowed",
    "allowlist",
    "approval",
    "approve",
    "auth",
    "blacklist",
    "block",
    "blocked",
    "confirm",
    "denied",
    "deny",
    "denylist",
    "disable",
    "disabled",
    "enable",
    "enabled",
    "except",
    "exclude",
    "excluded",
    "filter",
    "filters",
    "forbid",
    "forbidden",
    "guard",
    "hidden",
    "hide",
    "include",
    "included",
    "limit",
    "limits",
    "only",
    "permission",
    "permissions",
    "policies",
    "policy",
    "prohibited",
    "readonly",
    "require",
    "restrict",
    "restricted",
    "restrictions",
    "role",
    "roles",
    "sandbox",
    "scope",
    "scopes",
    "tools",
    "whitelist",
];

/// Returns `key` in lower case, without the signs between its words.
pub(super) fn folded(key: &str) -> String {
    key.chars()
        .filter(|c| !matches!(c, '_' | '-' | '.' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// The meaning of the setting `key` of a server.
pub(super) fn meaning(key: &str) -> Meaning {
    match folded(key).as_str() {
        "command" | "args" | "env" | "cwd" | "url" | "serverurl" | "httpurl" | "headers"
        | "type" | "transport" | "transporttype" => Meaning::Translated,
        "disabled" | "disable" | "enabled" | "enable" | "active" | "isactive" | "isenabled"
        | "isdisabled" => Meaning::Switch,
        "blockedtools" | "deniedtools" | "denytools" | "disabledtools" | "disabletools"
        | "disallowedtools" | "excludedtools" | "excludetools" | "hiddentools"
        | "toolblacklist" | "tooldenylist" | "toolsblacklist" | "toolsdenylist" => Meaning::Denied,
        "allowedtools" | "allowtools" | "availabletools" | "enabledtools" | "enabletools"
        | "includedtools" | "includetools" | "toolallowlist" | "tools" | "toolsallowlist"
        | "toolswhitelist" | "toolwhitelist" => Meaning::Allowed,
        "alwaysallow"
        | "approvalmode"
        | "autoapprove"
        | "autoapproved"
        | "autoapprovetools"
        | "defaulttoolsapprovalmode"
        | "trust"
        | "trusted" => Meaning::Harmless(CONSENT),
        "author" | "bundled" | "category" | "comment" | "comments" | "description"
        | "displayname" | "faviconurl" | "gallery" | "homepage" | "icon" | "iconurl" | "id"
        | "instructions" | "label" | "license" | "metadata" | "name" | "note" | "notes"
        | "provider" | "servername" | "source" | "sourcefile" | "tags" | "title" | "version"
        | "website" => Meaning::Harmless(DESCRIPTIVE),
        "dev" | "watch" | "watchpaths" => {
            Meaning::Harmless("it is about the development of the server")
        }
        "required" => Meaning::Harmless("a source that fails affects its own tools only"),
        "supportsparalleltoolcalls" => {
            Meaning::Harmless("callers decide which calls run in parallel")
        }
        "auth"
        | "authentication"
        | "authprovidertype"
        | "authorization"
        | "headershelper"
        | "oauth"
        | "oauthresource"
        | "targetaudience"
        | "targetserviceaccount" => Meaning::Needed(LOGIN),
        "sandbox" | "sandboxenabled" | "sandboxmode" => Meaning::Needed(SANDBOX),
        "envfile" => Meaning::Needed("name its variables in `env`"),
        "tcp" => Meaning::Needed("use its streamable HTTP address"),
        key if key.contains("timeout") => Meaning::Harmless(TIME),
        _ => Meaning::Unknown,
    }
}

/// Whether an unknown setting switches something off, or has a part that may be a restriction.
fn restricts(value: &Value) -> bool {
    match value {
        Value::String(text) => ["blocked", "denied", "disabled", "inactive", "off"]
            .contains(&text.to_ascii_lowercase().as_str()),
        Value::Array(items) => items.iter().any(restricts),
        Value::Object(members) => members.iter().any(|(key, value)| match meaning(key) {
            Meaning::Switch => *value == Value::Bool(folded(key).contains("disable")),
            Meaning::Allowed | Meaning::Denied => !is_off(value),
            _ => restricts(value) || (!is_off(value) && has_segment(key, RESTRICTING)),
        }),
        _ => false,
    }
}

/// The effects of all settings of a server except its command or address.
#[derive(Debug, Default)]
pub(super) struct Restrictions {
    pub(super) rules: Vec<Rule>,
    /// Settings to report, with the reason.
    pub(super) parts: Vec<(String, String)>,
    pub(super) obstacle: Obstacle,
}

impl Restrictions {
    /// Reads the settings of the server `name` that are not translated elsewhere.
    pub(super) fn of(name: &str, settings: &Map<String, Value>) -> Self {
        let mut restrictions = Self::default();
        let (mut allowed, mut denied) = (None, Vec::new());
        for (key, value) in settings {
            match meaning(key) {
                Meaning::Translated => {}
                Meaning::Switch => restrictions.switch(key, value),
                Meaning::Denied => denied.extend(restrictions.denied(name, key, value)),
                Meaning::Allowed => {
                    let (only, off) = restrictions.allowed(key, value);
                    denied.extend(off);
                    if let Some(only) = only {
                        // If there are several lists, a tool must be in each.
                        let both = |before: Vec<String>| {
                            before.into_iter().filter(|tool| only.contains(tool)).collect()
                        };
                        allowed = Some(allowed.map_or_else(|| only.clone(), both));
                    }
                }
                Meaning::Harmless(reason) => restrictions.name(key, reason),
                Meaning::Needed(_) if is_off(value) => restrictions.name(key, "it is switched off"),
                Meaning::Needed(reason) => {
                    restrictions.name(key, reason);
                    restrictions.obstacle.add(format!("its `{key}` is not translated; {reason}"));
                }
                Meaning::Unknown => {
                    restrictions.name(key, "it is not translated");
                    let is_one = !is_off(value) && has_segment(key, RESTRICTING);
                    if is_one || restricts(value) {
                        restrictions.obstacle.add(format!("its `{key}` may be a restriction"));
                    }
                }
            }
        }
        restrictions.rules.extend(hiding(allowed, denied));
        restrictions
    }

    fn name(&mut self, key: &str, reason: impl Into<String>) {
        self.parts.push((key.to_owned(), reason.into()));
    }

    fn switch(&mut self, key: &str, value: &Value) {
        let is_on = !folded(key).contains("disable");
        match value {
            Value::Bool(value) if *value == is_on => {}
            Value::Null => {}
            Value::Bool(_) => self.obstacle.add("it is disabled in the client"),
            _ => self.obstacle.add(format!("its `{key}` is neither true nor false")),
        }
    }

    /// The globs of the tools in a list of tools that the client does not use.
    fn denied(&mut self, server: &str, key: &str, value: &Value) -> Vec<String> {
        let Some(names) = names(value) else {
            self.name(key, "it is no list of names");
            self.obstacle.add(format!("its `{key}` is no list of names"));
            return Vec::new();
        };
        if !names.is_empty() {
            self.name(key, RULES);
        }
        names.iter().flat_map(|name| denied_globs(server, name)).collect()
    }

    /// The only tools that the client uses, or `None` if it uses all; and globs of others that it
    /// does not use.
    fn allowed(&mut self, key: &str, value: &Value) -> (Option<Vec<String>>, Vec<String>) {
        if let Value::Object(tools) = value {
            return (None, self.tools(key, tools));
        }
        let Some(names) = names(value) else {
            self.name(key, "it is no list of names");
            self.obstacle.add(format!("its `{key}` is no list of names"));
            return (None, Vec::new());
        };
        if value.is_null() || names.iter().any(|name| name == "*") {
            self.name(key, "it contains all tools");
            return (None, Vec::new());
        }
        self.name(key, RULES);
        // A client without patterns uses no tool for them.
        if names.iter().any(|name| name.contains(['*', '?', '('])) {
            self.obstacle.add(format!("its `{key}` has patterns; write a rule for each of them"));
        }
        (Some(names), Vec::new())
    }

    /// Reads a table with settings of tools; returns the globs of the disabled ones.
    fn tools(&mut self, key: &str, tools: &Map<String, Value>) -> Vec<String> {
        let mut off = Vec::new();
        for (tool, settings) in tools {
            let flag = |key: &str| settings.get(key).and_then(Value::as_bool);
            match settings {
                Value::Bool(true) | Value::Null => {}
                Value::Bool(false) => off.push(pattern(tool)),
                Value::Object(_)
                    if flag("enabled") == Some(false) || flag("disabled") == Some(true) =>
                {
                    off.push(pattern(tool));
                }
                Value::Object(settings) => {
                    let is_harmless = |key: &String| {
                        matches!(meaning(key), Meaning::Harmless(_) | Meaning::Switch)
                    };
                    if !settings.keys().all(is_harmless) {
                        self.obstacle.add(format!("its `{key}` has settings of tools"));
                    }
                }
                Value::String(word) if matches!(word.as_str(), "allow" | "ask" | "prompt") => {}
                Value::String(word) if word == "deny" => off.push(pattern(tool)),
                _ => self.obstacle.add(format!("its `{key}` has settings of tools")),
            }
        }
        if !tools.is_empty() {
            self.name(key, if off.is_empty() { CONSENT } else { RULES });
        }
        off
    }
}

/// Rules for the names of the only tools, if any, and for globs of hidden tools.
pub(super) fn hiding(allowed: Option<Vec<String>>, denied: Vec<String>) -> Vec<Rule> {
    let rule = |glob: String, hide| Rule { glob, hide: Some(hide), ..Rule::default() };
    let all = allowed.is_some().then(|| rule("*".to_owned(), true));
    let allowed = allowed.into_iter().flatten().map(|name| rule(literal(&name), false));
    let denied = denied.into_iter().map(|glob| rule(glob, true));
    all.into_iter().chain(allowed).chain(denied).collect()
}

/// The globs of a denied tool, whose name may start with that of the server.
pub(super) fn denied_globs(server: &str, name: &str) -> Vec<String> {
    // Some clients deny a tool for some arguments only, as in `run(rm *)`.
    let name = name.split_once('(').map_or(name, |(name, _)| name).trim();
    let own = own_tool(server, name).map(pattern);
    std::iter::once(pattern(name)).chain(own).collect()
}

/// The tool in a name such as `mcp__SERVER__TOOL` or `SERVER__TOOL`; `*` if it is the server.
pub(super) fn own_tool<'a>(server: &str, name: &'a str) -> Option<&'a str> {
    let word = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let normal: String = server.chars().map(word).collect();
    let is_marked = name.starts_with("mcp__");
    let name = name.strip_prefix("mcp__").unwrap_or(name);
    let rest = [server, &normal].into_iter().find_map(|server| name.strip_prefix(server))?;
    match rest {
        "" if is_marked => Some("*"),
        rest => rest.strip_prefix("__").filter(|tool| !tool.is_empty()),
    }
}

/// A glob for `name`, in which `*` matches any text.
fn pattern(name: &str) -> String {
    name.split('*').map(literal).collect::<Vec<_>>().join("*")
}

/// The names in a list; `None` if `value` is not a list of names.
pub(super) fn names(value: &Value) -> Option<Vec<String>> {
    let name = |value: &Value| {
        let name = value.get("name").unwrap_or(value);
        name.as_str().map(str::to_owned)
    };
    match value {
        Value::Null => Some(Vec::new()),
        Value::String(one) if !one.contains([',', ' ']) => Some(vec![one.clone()]),
        Value::Array(names) => names.iter().map(name).collect(),
        _ => None,
    }
}

/// Whether a setting with this value has no effect.
pub(super) fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(table) => table.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Rules, named settings, and the obstacle.
    type ReadRestrictions = (Vec<(String, Option<bool>)>, Vec<String>, Option<String>);

    fn restrictions(settings: &Value) -> ReadRestrictions {
        let read = Restrictions::of("my server", settings.as_object().unwrap());
        let rules = read.rules.into_iter().map(|rule| (rule.glob, rule.hide)).collect();
        let parts = read.parts.into_iter().map(|(key, _)| key).collect();
        (rules, parts, read.obstacle.into_reason())
    }

    #[test]
    fn lists_of_tools_become_rules() {
        let hide = |glob: &str| (glob.to_owned(), Some(true));
        let show = |glob: &str| (glob.to_owned(), Some(false));
        for (settings, expected) in [
            (json!({ "disabledTools": ["drop"] }), vec![hide("drop")]),
            (json!({ "excluded_tools": "drop" }), vec![hide("drop")]),
            (
                json!({ "exclude-tools": ["wipe_*", "run(rm *)"] }),
                vec![hide("wipe_*"), hide("run")],
            ),
            (
                json!({ "blockedTools": ["mcp__my_server__x"] }),
                vec![hide("mcp__my_server__x"), hide("x")],
            ),
            (json!({ "includeTools": ["a"] }), vec![hide("*"), show("a")]),
            (json!({ "tools": [] }), vec![hide("*")]),
            (json!({ "tools": ["*"] }), vec![]),
            (
                json!({ "tools": { "a": false, "b": { "enabled": false }, "c": true } }),
                vec![hide("a"), hide("b")],
            ),
            (
                json!({ "includeTools": ["a", "b"], "allowedTools": ["b"], "disabledTools": ["b"] }),
                vec![hide("*"), show("b"), hide("b")],
            ),
        ] {
            let (rules, parts, obstacle) = restrictions(&settings);
            assert_eq!(rules, expected, "{settings}");
            assert_eq!(obstacle, None, "{settings}");
            assert_eq!(parts.len(), settings.as_object().unwrap().len(), "{settings}");
        }
    }

    #[test]
    fn what_may_be_a_restriction_is_an_obstacle() {
        for settings in [
            json!({ "disabledTools": { "a": 1 } }),
            json!({ "disabledTools": [7] }),
            json!({ "disabledTools": "a, b" }),
            json!({ "includeTools": ["read_*"] }),
            json!({ "includeTools": ["run(ls)"] }),
            json!({ "tools": { "a": { "arguments": {} } } }),
            json!({ "sandbox": { "network": false } }),
            json!({ "oauth": { "clientId": "x" } }),
            json!({ "readOnly": true }),
            json!({ "toolFilter": "x" }),
            json!({ "disabled": "yes" }),
            json!({ "enabled": false }),
        ] {
            assert!(restrictions(&settings).2.is_some(), "{settings}");
        }
        for settings in [
            json!({ "trust": true }),
            json!({ "oauth": false }),
            json!({ "sandbox": null }),
            json!({ "timeout": 60 }),
            json!({ "colour": "blue" }),
        ] {
            let (rules, parts, obstacle) = restrictions(&settings);
            assert_eq!((rules.len(), parts.len(), obstacle), (0, 1, None), "{settings}");
        }
    }
}
