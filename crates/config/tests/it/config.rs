//! Invalid configurations are reported with place, problem and expected value.

use std::path::Path;

use toolcrib_config::{ExplorerPolicy, KeyPlace, MountAuth};
use toolcrib_core::{catalog::Tenants, credential::CredentialRef, source::UpstreamSpec};

use crate::support::{complaint, parse};

const SOURCE: &str = "[[source]]\nid = \"files\"\nkind = \"mcp\"\n";

/// Every kind of table once.
pub(crate) const COMPLETE: &str = r#"
[server]
listen = "127.0.0.1:9000"
max_body = "64KiB"
max_body_total = "1MiB"
[store]
url = "sqlite:data/x.db"
[record]
durability = "relaxed"
[gate]
rate = "off"
timeout = "10s"
[anonymous]
tenant = "public"
scopes = ["open"]
[explorer]
policy = "spec-public"
prefix = "/ui"
[mcp]
page_size = 50
session_idle = "10m"
[auth.resource]
resource = "https://tools.example.com/mcp"
authorization_servers = ["https://id.example.com"]
[[source]]
id = "files"
kind = "mcp"
command = ["node", "server.js"]
env = { LOG = "info", API_TOKEN = { env = "SET" } }
tenants = ["a", "b"]
"#;

#[test]
fn a_full_configuration_is_understood() {
    let config = parse(COMPLETE);
    assert_eq!(config.server.listen.port(), 9000);
    assert_eq!(config.server.max_body_bytes, 65536);
    assert_eq!(config.server.max_body_total_bytes, 1 << 20);
    assert_eq!(config.store.path, Path::new("/etc/toolcrib/data/x.db"));
    assert_eq!(config.gate.rate, None);
    assert_eq!(config.explorer.policy, ExplorerPolicy::SpecPublic);
    assert_eq!(config.mcp.auth, MountAuth::Required);
    assert_eq!((config.mcp.page_size.get(), config.mcp.max_sessions.get()), (50, 10_000));
    assert_eq!(config.mcp.session_idle, std::time::Duration::from_secs(600));
    let resource = config.resource.as_ref().unwrap();
    assert_eq!(resource.authorization_servers, ["https://id.example.com"]);
    let source = &config.sources[0];
    assert!(matches!(&source.tenants, Tenants::Only(tenants) if tenants.len() == 2));
    let UpstreamSpec::McpStdio(stdio) = &source.spec.upstream else { panic!("{source:?}") };
    assert_eq!(stdio.env["API_TOKEN"].0.expose(), "s3cret-value");
    assert!(!format!("{config:?}").contains("s3cret"), "I-29");
}

#[test]
fn all_bodies_together_may_take_at_least_one_of_them() {
    let total = |text: &str| parse(text).server.max_body_total_bytes;
    assert_eq!(total(""), 256 << 20);
    assert_eq!(total("[server]\nmax_body = \"300MiB\""), 300 << 20);
    assert_eq!(total("[server]\nmax_body = \"1MiB\"\nmax_body_total = \"1MiB\""), 1 << 20);
}

/// Texts with one mistake each, and a part of the message about it.
pub(crate) fn mistakes() -> Vec<(String, &'static str)> {
    let whole = [
        (
            "[server]\nlisten = \"8808\"",
            "toolcrib.toml:2: `server.listen`: expected an address and a port",
        ),
        ("[server]\nport = 1", "toolcrib.toml:2: `server.port`: unknown field `port`"),
        (
            "[server]\nmax_body = \"2MiB\"\nmax_body_total = \"1MiB\"",
            "toolcrib.toml:3: `server.max_body_total`: must be at least `server.max_body` (2097152 bytes)",
        ),
        ("[sever]\n", "toolcrib.toml:1: `sever`: unknown field `sever`, did you mean `server`?"),
        ("a = [", "toolcrib.toml:1:"),
        ("[store]\nurl = \"mysql://x\"", "`store.url`: expected \"sqlite:PATH\""),
        (
            "[metrics]\ntools = \"all\"",
            "toolcrib.toml:2: `metrics.tools`: expected a number such as 100, or a list of names",
        ),
        ("[metrics]\ntools = -1", "`metrics.tools`: must be at least 0"),
        ("[metrics]\ntools = [\"a b\"]", "`metrics.tools`: tool id"),
        ("[metrics]\ntenants = 100000", "`metrics.tenants`: must be at most 1000"),
        ("[gate]\nburst = 0", "`gate.burst`: must be at least 1"),
        (
            "[[source]]\nid = \"s\"\nkind = \"mcp\"\ncommand = [\"x\"]\nbreaker = \"on\"",
            "toolcrib.toml:5: `source.s.breaker`: expected \"off\", or a table",
        ),
        (
            "[[source]]\nid = \"s\"\nkind = \"mcp\"\ncommand = [\"x\"]\nbreaker = { failure = 3 }",
            "toolcrib.toml:5: `source.s.breaker.failure`: unknown field `failure`, did you mean `failures`?",
        ),
        (
            "[[source]]\nid = \"s\"\nkind = \"mcp\"\ncommand = [\"x\"]\nbreaker.failures = 1",
            "`source.s.breaker.failures`: must be from 2 to 100",
        ),
        ("[gate]\nrate = \"many\"", "`gate.rate`: expected calls per time such as \"30/m\""),
        ("[gate]\ntimeout = \"soon\"", "`gate.timeout`: expected a duration such as"),
        ("[oxp]\nauth = \"optional\"", "`oxp.auth`: \"optional\" needs an [anonymous] table"),
        (
            "[oxp]\nenable = true",
            "toolcrib.toml:2: `oxp.enable`: unknown field `enable`, did you mean `enabled`?",
        ),
        ("[mcp]\nauth = \"optional\"", "`mcp.auth`: \"optional\" needs an [anonymous] table"),
        ("[mcp]\npage_size = 0", "`mcp.page_size`: must be at least 1"),
        ("[mcp]\nsession_idle = \"ever\"", "`mcp.session_idle`: expected a duration such as"),
        (
            "[auth.resource]\nresource = \"https://a/mcp\"",
            "`auth.resource.authorization_servers`: expected at least one issuer",
        ),
        (
            "[auth.resource]\nresource = \"http://a/mcp\"\nauthorization_servers = [\"https://b\"]",
            "toolcrib.toml:2: `auth.resource.resource`: expected an https address",
        ),
        (
            "[auth.resource]\nresource = \"https://a/mcp\"\nauthorization_servers = []",
            "toolcrib.toml:3: `auth.resource.authorization_servers`: expected at least one issuer",
        ),
        (
            "[auth.resource]\nresource = \"https://a/mcp\"\nauthorization_servers = [\"https://u:p@b\"]",
            "`auth.resource.authorization_servers`: expected an https address",
        ),
        ("[auth.jwt]\nissuer = \"https://a\"", "missing field `audiences`"),
        (
            "[auth.jwt]\nissuer = \"http://a.example\"\naudiences = [\"x\"]\ntenant = \"t\"",
            "toolcrib.toml:2: `auth.jwt.issuer`: expected an https address",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = []\ntenant = \"t\"",
            "toolcrib.toml:3: `auth.jwt.audiences`: expected at least one audience",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]",
            "`auth.jwt.tenant`: say which tenant tokens belong to",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             claims.tenant = \"org\"",
            "toolcrib.toml:4: `auth.jwt.tenant`: cannot be combined with `claims.tenant`",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             algorithms = [\"RS256\", \"HS256\"]",
            "toolcrib.toml:5: `auth.jwt.algorithms`: expected algorithms with a public key",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             algorithms = [\"none\"]",
            "`auth.jwt.algorithms`: expected algorithms with a public key",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             clock_skew = \"1h\"",
            "`auth.jwt.clock_skew`: is more than 5 minutes",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             claims = { roles = \"a..b\" }",
            "`auth.jwt.claims.roles`: expected names with dots between them",
        ),
        (
            "[[auth.jwt]]\nissuer = \"https://a/x\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             [[auth.jwt]]\nissuer = \"https://a/y\"\naudiences = [\"x\"]\ntenant = \"t\"",
            "toolcrib.toml:5: `auth.jwt.principal_prefix`: it overlaps the prefix of another",
        ),
        (
            "[[auth.jwt]]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             [[auth.jwt]]\nissuer = \"https://b\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             principal_prefix = \"a|b|\"",
            "toolcrib.toml:9: `auth.jwt.principal_prefix`: it overlaps the prefix of another",
        ),
        (
            "[[auth.jwt]]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             [[auth.jwt]]\nissuer = \"https://b\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             principal_prefix = \"\"",
            "toolcrib.toml:9: `auth.jwt.principal_prefix`: it overlaps the prefix of another",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             claims = { roles = \"groups\" }",
            "`auth.jwt.roles`: name the roles that tokens may have",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             claims = { roles = \"groups\" }\nroles = [\"boss\"]",
            "toolcrib.toml:6: `auth.jwt.roles`: the configuration has no role `boss`",
        ),
        (
            "[[role]]\nname = \"boss\"\nscopes = []\n[auth.jwt]\nissuer = \"https://a\"\n\
             audiences = [\"x\"]\ntenant = \"t\"\nroles = [\"boss\"]",
            "`auth.jwt.roles`: has no effect without `claims.roles`",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             scopes = [\"files:read\", \"config:write\"]",
            "toolcrib.toml:5: `auth.jwt.scopes`: `config:write` extends beyond a tenant",
        ),
        (
            "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
             key_lifetime = \"400d\"",
            "`auth.jwt.key_lifetime`: is more than 366 days",
        ),
        ("[auth.jwt]\nissuers = 1", "unknown field `issuers`"),
        (
            "[otc.jwt]\nsecret = \"0123456789abcdef0123456789abcdef\"\ntenant = \"t\"",
            "toolcrib.toml:2: `otc.jwt.secret`: a secret must not be in this file",
        ),
        ("[otc.jwt]\nsecret = { env = \"NOPE\" }\ntenant = \"t\"", "`otc.jwt.secret`: environment"),
        ("[explorer]\nprefix = \"/v1/x\"", "`explorer.prefix`: another surface has this path"),
        ("[explorer]\npolicy = \"call-only\"", "`explorer.policy`: anything but \"all\" needs an"),
        ("[explorer]\npolicy = \"most\"", "unknown variant `most`, expected one of `all`"),
        ("[explorer]\nprefix = \"ui\"", "`explorer.prefix`: expected a path"),
        (
            "[[role]]\nname = \"r\"\nscopes = [\"a::b\"]",
            "toolcrib.toml:3: `role.r.scopes`: a scope has an empty segment",
        ),
        ("[[source]]\nid = \"a__b\"\nkind = \"mcp\"", "`source.a__b.id`: source id contains `__`"),
        (
            "[[source]]\nid = \"a\"\nkind = \"ftp\"",
            "`source.a.kind`: must be one of node-pack, workflow, mcp",
        ),
        ("[[source]]\nid = \"a\"\nkind = \"mpc\"", "host-extension; did you mean `mcp`?"),
    ];
    let sign_in = [
        ("", "missing field `client_id`"),
        ("client_id = \"\"", "toolcrib.toml:6: `auth.jwt.sign_in.client_id`: expected 1 to 256"),
        ("client_id = \"c\"\nclient_secret = \"x\"", "unknown field `client_secret`"),
        ("client_id = \"c\"\nname = \"\"", "`auth.jwt.sign_in.name`: expected 1 to 256"),
        ("client_id = \"c\"\nscopes = [\"a b\"]", "`auth.jwt.sign_in.scopes`: expected scopes"),
        (
            "client_id = \"c\"\nscopes = [\"offline_access\"]",
            "toolcrib.toml:7: `auth.jwt.sign_in.scopes`: remove `offline_access`",
        ),
        ("client_id = \"c\"\nresource = \"tools\"", "expected an absolute URI without a fragment"),
        (
            "client_id = \"c\"\nparameters = { request_uri = \"https://evil\" }",
            "`auth.jwt.sign_in.parameters`: toolcrib sets `request_uri` itself",
        ),
        (
            "client_id = \"c\"\nparameters = { prompt = \"\" }",
            "`auth.jwt.sign_in.parameters`: expected at most 16 parameters",
        ),
    ];
    let source = [
        ("", "`source.files.command`: expected `command = "),
        (
            "url = \"http://h/mcp\"\nheaders = { \"bad header\" = \"x\" }",
            "`source.files.headers.\"bad header\"`: is not a header name",
        ),
        ("url = \"http://h/mcp\"\nheaders = { Mcp-Name = \"x\" }", "is set by the protocol itself"),
        ("command = []\n[source.tools.\"[\"]\nhide = true", "is not a glob"),
        ("command = []", "`source.files.command`: expected a program"),
        (
            "command = [\"x\"]\nnames = \"short\"",
            "`source.files.names`: unknown variant `short`, expected `prefixed` or `bare`",
        ),
        (
            "command = [\"x\"]\nurl = \"http://h/mcp\"",
            "`source.files.url`: expected either `command` or `url`",
        ),
        ("url = \"ftp://h\"", "`source.files.url`: expected an http or https address"),
        ("url = \"http://u:p@h/mcp\"", "must not contain user information"),
        (
            "url = \"http://h/mcp\"\nheaders = { Authorization = \"Bearer x\" }",
            "a secret must not be in this file",
        ),
        (
            "command = [\"x\"]\nenv = { A = { env = \"UNSET\" } }",
            "`source.files.env.A`: environment variable UNSET is not set",
        ),
        (
            "command = [\"x\"]\nenv = { A = { file = \"k\" } }",
            "`source.files.env.A`: cannot read /etc/k",
        ),
        (
            "command = [\"x\"]\nenv = { A = { vault = \"k\" } }",
            "unknown field `vault`, expected `env` or `file`",
        ),
        ("command = [\"x\"]\n[source.tools.\"[\"]\nhide = true", "is not a glob"),
        (
            "command = [\"x\"]\n[source.tools.\"*\"]\nsafety_tier = \"exec\"",
            "only for kind \"host-extension\"",
        ),
        (
            "command = [\"x\"]\n[source.tools.\"*\"]\nsafety_tier = \"safe\"",
            "must be one of pure, read, write, exec",
        ),
        (
            "command = [\"x\"]\n[source.tools.\"*\"]\nsafety_tier = \"pure\"\negress = \"host-owned\"",
            "a \"pure\" tool has no egress",
        ),
        ("command = [\"x\"]\n[source.tools.\"*\"]\ntier = \"pure\"", "unknown field `tier`"),
        (
            "command = [\"x\"]\n[source.tools.\"*\"]\nscopes = [\"a:*\"]",
            "a required scope must not contain `*`",
        ),
    ];
    let issuer = "[auth.jwt]\nissuer = \"https://a\"\naudiences = [\"x\"]\ntenant = \"t\"\n\
                  [auth.jwt.sign_in]\n";
    let whole = whole.map(|(text, expected)| (text.to_owned(), expected));
    let sign_in = sign_in.map(|(lines, expected)| (format!("{issuer}{lines}"), expected));
    let source = source.map(|(lines, expected)| (format!("{SOURCE}{lines}\n"), expected));
    whole.into_iter().chain(sign_in).chain(source).collect()
}

#[test]
fn every_mistake_names_its_line_its_key_and_what_was_expected() {
    for (text, expected) in mistakes() {
        let message = complaint(&text);
        assert!(message.contains(expected), "{text:?} message {message:?}");
    }
}

/// A type with named keys could also be read from a list of its values, by position.
#[test]
fn an_array_in_place_of_a_table_is_refused() {
    let issuer =
        "[auth.jwt]\nissuer = \"https://a.example\"\naudiences = [\"a\"]\ntenant = \"t\"\n";
    let command = "[[source]]\nid = \"s\"\nkind = \"host-extension\"\n[source.commands.c]\n\
                   program = \"/bin/true\"\n";
    for (text, line, key, expected) in [
        (
            "[[sources]]\nid = \"canary\"\nkind = \"mcp\"\nurl = \"https://a.example\"",
            1,
            "sources",
            "expected a table; a source is `[[source]]`",
        ),
        (
            "[gate]\n[[sources]]\nid = \"canary\"\n[[sources]]\nid = \"other\"",
            2,
            "sources",
            "expected a table; a source is `[[source]]`",
        ),
        ("source = [ [\"canary\", \"mcp\"] ]", 1, "source", "expected a table"),
        ("gate = [\"5/m\", 3]", 1, "gate", "expected a table"),
        ("[[gate]]\nrate = \"5/m\"", 1, "gate", "expected a table"),
        ("role = [[\"canary\", [\"*\"]]]", 1, "role", "expected a table"),
        ("server = [\"127.0.0.1:21000\"]", 1, "server", "expected a table"),
        ("server = []", 1, "server", "expected a table"),
        ("server = \"canary\"", 1, "server", "expected a table"),
        ("anonymous = [\"canary\", [\"open\"]]", 1, "anonymous", "expected a table"),
        ("auth.jwt = [[\"canary\", [\"a\"]]]", 1, "auth.jwt", "expected a table"),
        (&format!("{issuer}claims = [\"canary\"]"), 5, "auth.jwt.claims", "expected a table"),
        ("[approvals]\nwebhook = [[\"canary\"]]", 2, "approvals.webhook", "expected a table"),
        ("[[toolset]]\nallow = [\"*\"]", 1, "toolset", "expected a table"),
        ("toolset.all = [\"canary\", [\"*\"]]", 1, "toolset.all", "expected a table"),
        ("[sources]\nenv = [\"canary\"]", 2, "sources.env", "expected a table"),
        (
            &format!("{command}sandbox = [\"required\"]"),
            6,
            "source.s.commands.c.sandbox",
            "expected a table",
        ),
        (
            &format!("{command}limits = [\"1KiB\"]"),
            6,
            "source.s.commands.c.limits",
            "expected a table",
        ),
        (
            &format!("{SOURCE}command = [\"x\"]\nsandbox = [\"required\"]"),
            5,
            "source.files.sandbox",
            "expected a table",
        ),
        (
            &format!("{SOURCE}command = [\"x\"]\n[source.tools]\n\"*\" = []"),
            6,
            "source.files.tools.\"*\"",
            "expected a table",
        ),
        (
            &format!("{SOURCE}command = [\"x\"]\n[source.tools.a]\napproval_when = [[\"read\"]]"),
            6,
            "source.files.tools.a.approval_when",
            "expected a table",
        ),
    ] {
        // Nothing else is reported, and no value of the file.
        assert_eq!(complaint(text), format!("toolcrib.toml:{line}: `{key}`: {expected}"), "{text}");
    }
}

#[test]
fn tables_and_lists_have_the_forms_of_the_documentation() {
    let config = parse(
        "[sources]\nenv = { LANG = \"C\", API_TOKEN = { env = \"SET\" } }\n\
         [[auth.jwt]]\nissuer = \"https://a.example\"\naudiences = [\"a\"]\ntenant = \"t\"\n\
         claims = { roles = \"groups\" }\nroles = [\"r\"]\n\
         [[role]]\nname = \"r\"\nscopes = []\n\
         [[source]]\nid = \"s\"\nkind = \"host-extension\"\nbreaker = \"off\"\n\
         tools = { \"*\" = { hide = true } }\n[source.commands.c]\nprogram = \"/bin/true\"\n\
         args = [\"a\", [\"--to\", \"{to}\"]]\nparameters.to = { type = \"string\" }\n\
         sandbox = { connect = \"any\" }\nlimits = { memory = \"1GiB\" }\n",
    );
    assert_eq!((config.issuers.len(), config.sources[0].rules.len()), (1, 1));
    assert_eq!(config.sources[0].breaker, None);
    let inline = "role = [{ name = \"r\", scopes = [\"*\"] }]\ngate = { rate = \"5/m\" }\n\
                  auth.jwt = { issuer = \"https://a.example\", audiences = [\"a\"], \
                  tenant = \"t\" }\n\
                  source = [{ id = \"s\", kind = \"mcp\", command = [\"x\"] }]\n";
    let config = parse(inline);
    assert_eq!((config.roles.len(), config.issuers.len(), config.sources.len()), (1, 1, 1));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let message = complaint("[server]\nlisten = \"x\"\n[gate]\nrate = \"x\"\ntimeout = \"x\"\n");
    assert_eq!(message.lines().count(), 3, "{message}");
}

#[test]
fn ids_that_differ_only_in_dash_and_underscore_are_refused() {
    let source = |id| format!("[[source]]\nid = \"{id}\"\nkind = \"mcp\"\ncommand = [\"x\"]\n");
    let message = complaint(&(source("a-b") + &source("a_b")));
    assert!(
        message.contains("toolcrib.toml:6: `source.a_b.id`: another source has this id"),
        "{message}"
    );
}

/// I-14: exec is for host extensions.
#[test]
fn exec_is_refused_under_a_protocol_source() {
    let message = complaint(&format!(
        "{SOURCE}command = [\"x\"]\n[source.tools.\"run\"]\nsafety_tier = \"exec\"\n"
    ));
    assert!(message.contains("`source.files.tools.run.safety_tier`"), "{message}");
}

#[test]
fn tenants_of_a_rule_only_narrow_those_of_the_source() {
    let source = format!("{SOURCE}command = [\"x\"]\n");
    let rule = |tenants: &str| format!("[source.tools.\"a_*\"]\ntenants = {tenants}\n");
    let config = parse(&format!("{source}tenants = [\"a\", \"b\"]\n{}", rule("[\"b\"]")));
    assert!(
        matches!(&config.sources[0].rules[0].set.tenants, Some(Tenants::Only(only)) if only.len() == 1)
    );
    parse(&format!("{source}{}", rule("[\"b\"]")));
    parse(&format!("{source}tenants = [\"a\"]\n{}", rule("[\"*\"]")));
    for (tenants, said) in [
        ("[\"a\", \"c\"]", "a rule only narrows: `c` is not among the source's tenants"),
        ("[]", "is empty; write `hide = true`"),
        ("[\"not ok\"]", "character"),
    ] {
        let message = complaint(&format!("{source}tenants = [\"a\", \"b\"]\n{}", rule(tenants)));
        assert!(message.contains("`source.files.tools.\"a_*\".tenants`"), "{message}");
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn a_credential_is_named_and_its_owner_follows_from_the_kind() {
    let http = "[[source]]\nid = \"hub\"\nkind = \"mcp\"\nurl = \"https://hub.example/mcp\"\n\
                credential = \"hub\"\n";
    let config = parse(&format!("{http}tenants = [\"acme\"]\n"));
    let credential = config.sources[0].spec.credential.clone().unwrap();
    let expected = CredentialRef::of_tenant("hub".parse().unwrap(), "acme".parse().unwrap());
    assert_eq!(credential, expected);
    for (text, said) in [
        (http.to_owned(), "line 5 `source.hub.credential`: callers of an MCP server share"),
        (
            format!("{http}tenants = [\"a\", \"b\"]\n"),
            "line 5 `source.hub.credential`: callers of an MCP server share",
        ),
        (
            format!("{SOURCE}command = [\"x\"]\ncredential = \"hub\"\n"),
            "line 5 `source.files.credential`: is only for a source of kind \"mcp\" with `url`",
        ),
        (
            format!(
                "{http}tenants = [\"a\"]\nheaders = {{ Authorization = {{ env = \"SET\" }} }}\n"
            ),
            "line 7 `source.hub.headers.Authorization`: the source has a `credential`",
        ),
        (
            format!("{http}tenants = [\"a\"]\n").replace("\"hub\"\ntenants", "\"not ok\"\ntenants"),
            "line 5 `source.hub.credential`: credential name has a character outside",
        ),
    ] {
        let message = complaint(&text).replace("toolcrib.toml:", "line ").replacen(": `", " `", 1);
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn the_place_of_the_seal_key_is_read_and_not_the_key() {
    let config = parse(
        "[store]\nseal_key = { command = [\"pass\", \"show\", \"toolcrib\"] }\n\
         old_seal_key = { file = \"old.key\" }\n",
    );
    let command = ["pass", "show", "toolcrib"].map(str::to_owned).to_vec();
    assert_eq!(config.store.seal_key, Some(KeyPlace::Command(command)));
    let old = Path::new("/etc/toolcrib/old.key").to_owned();
    assert_eq!(config.store.old_seal_key, Some(KeyPlace::File(old)));
    let env = parse("[store]\nseal_key = { env = \"NOT_SET_HERE\" }\n");
    assert_eq!(env.store.seal_key, Some(KeyPlace::Env("NOT_SET_HERE".to_owned())));
    for (text, said) in [
        ("seal_key = \"AAAA\"", "AAAA"),
        ("seal_key = { file = \"a\", env = \"B\" }", ""),
        ("seal_key = { text = \"AAAA\" }", ""),
        ("seal_key = { command = [] }", "expected a program"),
        ("seal_key = { env = \"\" }", "expected the name of an environment variable"),
        ("old_seal_key = { env = \"A\" }", "no `seal_key` that follows it"),
    ] {
        let message = complaint(&format!("[store]\n{text}\n"));
        match said {
            "AAAA" => assert!(!message.contains(said), "{message}"),
            said => assert!(message.contains(said), "{message}"),
        }
    }
}

#[test]
fn the_record_is_kept_as_it_says() {
    let config = parse("");
    assert_eq!((config.record.checkpoint_every, config.record.keep), (1000, None));
    assert_eq!(config.record.checkpoint_interval, std::time::Duration::from_secs(60));
    let config = parse(
        "[record]\ncheckpoint_every = 5\ncheckpoint_interval = \"10s\"\nkeep = \"90d\"\n\
         signing_key = { env = \"NOT_SET_HERE\" }\n[[record.anchor]]\nfile = \"a.jsonl\"\n\
         [[record.anchor]]\nurl = \"https://anchor.example/in\"\n\
         [[record.forward]]\nname = \"siem\"\nkind = \"http\"\nurl = \"https://siem.example\"\n\
         format = \"ocsf\"\nallow = [\"10.0.0.0/8\"]\n\
         [[record.forward]]\nname = \"otel\"\nkind = \"otlp\"\nurl = \"http://127.0.0.1:4318/v1/logs\"\n",
    );
    let record = &config.record;
    assert_eq!((record.checkpoint_every, record.anchors.len()), (5, 2));
    assert_eq!(record.keep, Some(std::time::Duration::from_secs(90 * 86_400)));
    assert_eq!(record.session_age(), std::time::Duration::from_secs(86_400));
    let formats: Vec<_> =
        record.forwards.iter().map(|it| (it.name.as_str(), it.format.as_str())).collect();
    assert_eq!(formats, [("siem", "ocsf"), ("otel", "otlp")]);
    let file = "name = \"a\"\nkind = \"file\"";
    for (text, said) in [
        ("checkpoint_every = 0", "at least 1"),
        ("checkpoint_interval = \"1ms\"", "100ms at least"),
        ("keep = \"1w\"", "such as \"90d\""),
        ("max_session_age = \"1w\"", "such as \"90d\""),
        ("max_session_age = \"10ms\"", "expected 1s at least"),
        ("signing_key = \"AAAA\"", "must not be in this file"),
        ("[[record.anchor]]", "expected either `file` or `url`"),
        ("[[record.anchor]]\nfile = \"a\"\nurl = \"https://b.example\"", "either `file` or `url`"),
        (
            "[[record.anchor]]\nfile = \"a\"\nallow = [\"10.0.0.0/8\"]",
            "`headers` and `allow` require `url`",
        ),
        ("[[record.anchor]]\nname = \"a\"", "unknown field"),
        (&format!("[[record.forward]]\n{file}"), "has `file` and no `url`"),
        (&format!("[[record.forward]]\n{file}\nfile = \"x\"\nformat = \"xml\""), "`cloudevents`"),
        ("[[record.forward]]\nname = \"A\"\nkind = \"file\"\nfile = \"x\"", "a-z"),
        ("[[record.forward]]\nname = \"anchor-1\"\nkind = \"file\"\nfile = \"x\"", "are reserved"),
        ("[[record.forward]]\nname = \"a\"\nkind = \"kafka\"\nfile = \"x\"", "`otlp`"),
        ("[[record.forward]]\nname = \"a\"\nkind = \"http\"\nurl = \"ftp://x\"", "http or https"),
        (
            &format!(
                "[[record.forward]]\n{file}\nfile = \"x\"\n[[record.forward]]\n{file}\nfile = \"y\""
            ),
            "defined twice",
        ),
        (
            "[[record.forward]]\nname = \"a\"\nkind = \"http\"\nurl = \"https://x.example\"\n\
             headers = { Authorization = \"Bearer canary\" }",
            "a secret must not be",
        ),
    ] {
        let message = complaint(&format!("[record]\n{text}\n"));
        assert!(message.contains(said) && !message.contains("canary"), "{text}: {message}");
    }
}

#[test]
fn consent_is_asked_for_as_it_says() {
    let usual = parse("").approvals;
    assert_eq!((usual.wait.as_secs(), usual.timeout.as_secs(), usual.quorum.get()), (0, 900, 1));
    assert_eq!((usual.respond_scope.as_str(), usual.show_arguments), ("approvals:respond", false));
    assert!(usual.url.is_none() && usual.webhooks.is_empty());
    let config = parse(
        "[approvals]\nwait = \"5s\"\ntimeout = \"1h\"\nquorum = 3\nrespond_scope = \"gate:answer\"\n\
         url = \"https://gate.example/explorer\"\n\
         [[approvals.webhook]]\nurl = \"https://hooks.example/in\"\nsecret = { env = \"LONG\" }\n\
         tenant = \"acme\"\nallow = [\"10.0.0.0/8\"]\n\
         [[approvals.webhook]]\nurl = \"https://hooks.example/in\"\nsecret = { env = \"LONG\" }\n\
         [[role]]\nname = \"boss\"\nscopes = []\n\
         [[source]]\nid = \"s\"\nkind = \"mcp\"\ncommand = [\"x\"]\n[source.tools.\"*\"]\n\
         approval = \"conditional\"\napproval_quorum = 2\napproval_role = \"boss\"\n\
         approval_scope = \"money:spend\"\n\
         approval_when = { tiers = [\"write\"], arguments = [ { pointer = \"/a\", equals = 1 } ] }\n",
    );
    let approvals = &config.approvals;
    assert_eq!((approvals.wait.as_secs(), approvals.timeout.as_secs()), (5, 3600));
    assert_eq!((approvals.quorum.get(), approvals.respond_scope.as_str()), (3, "gate:answer"));
    assert_eq!(approvals.webhooks.len(), 2);
    assert_eq!(approvals.webhooks[0].tenant.as_ref().unwrap().as_str(), "acme");
    assert!(!format!("{config:?}").contains("twenty-four"), "I-29");
    let consent = &config.sources[0].rules[0].set.consent();
    assert_eq!((consent.quorum.unwrap().get(), consent.role.as_deref()), (2, Some("boss")));
    assert_eq!(consent.scope.as_ref().unwrap().as_str(), "money:spend");
    let when = consent.when.as_ref().unwrap();
    assert_eq!((when.tiers.len(), when.arguments.len()), (1, 1));
}

#[test]
fn mistakes_about_consent_are_told() {
    let hook = |more: &str| {
        format!(
            "[[approvals.webhook]]\nurl = \"https://h.example\"\nsecret = {{ env = \"LONG\" }}\n{more}"
        )
    };
    let twice = hook(&hook(""));
    for (text, said) in [
        ("[approvals]\nwait = \"soon\"", "`approvals.wait`: expected a duration"),
        ("[approvals]\ntimeout = \"0s\"", "`approvals.timeout`"),
        ("[approvals]\nquorum = 0", "`approvals.quorum`: expected a number from 1 to 32"),
        ("[approvals]\nquorum = 33", "`approvals.quorum`: expected a number from 1 to 32"),
        ("[approvals]\nrespond_scope = \"*\"", "`approvals.respond_scope`"),
        ("[approvals]\nurl = \"ftp://x\"", "`approvals.url`: expected an address"),
        ("[approvals]\nurl = \"https://u:p@x\"", "`approvals.url`: expected an address"),
        ("[approvals]\nquorums = 1", "unknown field"),
        ("[approvals]\nshow_arguments = \"yes\"", "expected a boolean"),
        ("[[approvals.webhook]]\nurl = \"https://h.example\"", "missing field `secret`"),
        (
            "[[approvals.webhook]]\nurl = \"https://h.example\"\nsecret = \"canary\"",
            "a secret must not be in this file",
        ),
        (
            "[[approvals.webhook]]\nurl = \"https://h.example\"\nsecret = { env = \"SET\" }",
            "`approvals.webhook.secret`: is shorter than 24 bytes",
        ),
        (
            "[[approvals.webhook]]\nurl = \"ftp://h.example\"\nsecret = { env = \"LONG\" }",
            "`approvals.webhook.url`",
        ),
        (&hook("tenant = \"-\""), "the tenant `-` is the record's own"),
        (&hook("allow = [\"everything!\"]"), "`approvals.webhook.allow`"),
        (&hook("retries = 3"), "unknown field"),
        (&twice, "is defined twice for the same tenant"),
    ] {
        let message = complaint(&format!("{text}\n"));
        assert!(message.contains(said) && !message.contains("canary"), "{text}: {message}");
    }
    for (rule, said) in [
        ("approval = \"sometimes\"", "never"),
        ("approval_quorum = 0", "expected a number from 1 to 32"),
        ("approval_role = \"\"", "`: the configuration has no role ``"),
        ("approval_role = \"boss\"", "approval_role`: the configuration has no role `boss`"),
        ("approval_scope = \"a:*\"", "approval_scope"),
        ("approval_when = {}", "has no condition"),
        ("approval_when = { tiers = [\"huge\"] }", "approval_when.tiers"),
        ("approval_when = { arguments = [ { pointer = \"a\", above = 1 } ] }", "JSON pointer"),
        ("approval_when = { arguments = [ { pointer = \"/a\" } ] }", "exactly one of"),
        (
            "approval_when = { arguments = [ { pointer = \"/a\", above = 1, equals = 1 } ] }",
            "exactly one of",
        ),
        (
            "approval_when = { arguments = [ { pointer = \"/a\", matches = \"(\" } ] }",
            "not a regular expression",
        ),
        ("approval_when = { arguments = [ { pointer = \"/a\", above = nan } ] }", "exactly one of"),
    ] {
        let message = complaint(&format!("{SOURCE}[source.tools.\"*\"]\n{rule}\n"));
        assert!(message.contains(said), "{rule}: {message}");
    }
}
