//! Reads the configuration of agentgateway: `binds` with listeners, routes and backends, or `mcp` with
//! targets.
//!
//! Invariant: a source with an untranslated restriction is not in force.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    cel,
    described::{Obstacle, Rule},
    secrets::{is_issuer_address, is_public_address, may_be_key},
    servers::{ImportContent, Issuer, Reader, SSE, Upstream, words},
};

const ONLY_TOOLS: &str = "toolcrib serves tools of MCP servers, HTTP services and commands only";
const NOT_COPIED: &str = "it is a setting of agentgateway's own process";

/// `None` if `document` is not a configuration of agentgateway.
pub(super) fn read(document: &Value) -> Option<ImportContent> {
    let has_targets = document.pointer("/mcp/targets").is_some();
    if !document.get("binds").is_some_and(Value::is_array) && !has_targets {
        return None;
    }
    let mut import = Import {
        reader: Reader::default(),
        backends: named(document),
        global: Obstacle::default(),
        has_other_callers: false,
    };
    import.document(document);
    let mut imported = import.reader.imported;
    decide_issuers(&mut imported.issuers, import.has_other_callers);
    Some(imported)
}

struct Import<'a> {
    reader: Reader,
    /// The backends that routes refer to.
    backends: BTreeMap<&'a str, &'a Map<String, Value>>,
    /// The reason why no source can be in force.
    global: Obstacle,
    /// Whether a source is only for callers who authenticate by another credential than a token.
    has_other_callers: bool,
}

/// The policies around a target.
#[derive(Default, Clone)]
struct Policies {
    obstacle: Obstacle,
    /// Each `mcpAuthorization`, with its place.
    authorization: Vec<(String, Value)>,
    headers: Map<String, Value>,
    timeout: Option<String>,
    issuers: Vec<Issuer>,
    /// Whether callers authenticate by another credential than a token.
    has_other_callers: bool,
    has_tls: bool,
}

fn named(document: &Value) -> BTreeMap<&str, &Map<String, Value>> {
    let list = document.get("backends").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|backend| Some((backend.get("name")?.as_str()?, backend.as_object()?)))
        .collect()
}

/// Accepts the tokens of an issuer only if no route requires another credential. Otherwise its
/// tokens would open the other routes too.
fn decide_issuers(issuers: &mut Vec<Issuer>, has_other_callers: bool) {
    let mut distinct: Vec<Issuer> = Vec::new();
    for issuer in issuers.drain(..) {
        if !distinct.contains(&issuer) {
            distinct.push(issuer);
        }
    }
    let differ = distinct.len() > 1 || has_other_callers;
    for issuer in distinct.iter_mut().filter(|_| differ) {
        let why = "routes require different credentials; here tokens are accepted for every source";
        issuer.obstacle.get_or_insert_with(|| why.to_owned());
    }
    *issuers = distinct;
}

impl Import<'_> {
    fn document(&mut self, document: &Value) {
        let members = document.as_object().into_iter().flatten();
        // Policies of the whole gateway come first, because they decide about sources.
        for (key, value) in members.clone() {
            match key.as_str() {
                "binds" | "mcp" | "backends" => {}
                "config" => self.reader.part("config", NOT_COPIED),
                "policies" if value.as_array().is_some_and(Vec::is_empty) => {}
                "policies" => {
                    let why = "policies that attach themselves to routes or backends";
                    self.reader.part("policies", why);
                    self.global.add(format!("the file has {why}, which are not translated"));
                }
                "frontendPolicies" => {
                    self.reader.part("frontendPolicies", "they are about connections and logs");
                    if value.get("networkAuthorization").is_some() {
                        self.global
                            .add("`frontendPolicies.networkAuthorization` is not translated");
                    }
                }
                other => self.reader.part(other, ONLY_TOOLS),
            }
        }
        for (key, value) in members {
            match key.as_str() {
                "binds" => self.binds(value),
                "mcp" => {
                    let port = value.get("port").and_then(Value::as_u64);
                    self.port(port, "mcp");
                    self.backend("mcp", value, &Policies::default());
                }
                _ => {}
            }
        }
    }

    fn port(&mut self, port: Option<u64>, place: &str) {
        let port = port.and_then(|port| u16::try_from(port).ok());
        match (self.reader.imported.port, port) {
            (None, Some(port)) => self.reader.imported.port = Some(port),
            (Some(first), Some(port)) if first != port => {
                let reason = format!("toolcrib has one address; it uses port {first}");
                self.reader.part(format!("{place}.port"), reason);
            }
            _ => {}
        }
    }

    fn binds(&mut self, binds: &Value) {
        for (index, bind) in items(binds) {
            let place = format!("binds[{index}]");
            self.port(bind.get("port").and_then(Value::as_u64), &place);
            self.rest(bind, &place, &["port", "listeners"], NOT_COPIED);
            for (index, listener) in items(bind.get("listeners").unwrap_or(&Value::Null)) {
                self.listener(listener, &format!("{place}.listeners[{index}]"));
            }
        }
    }

    fn listener(&mut self, listener: &Value, place: &str) {
        if listener.get("tls").is_some() {
            let reason = "write `[server] tls = { cert = …, key = … }`, with `client_ca` for client \
                          certificates; paths start from the directory of this file";
            self.reader.part(format!("{place}.tls"), reason);
            if listener.pointer("/tls/root").is_some() {
                self.global.add("client certificates are required; set `[server] tls` first");
            }
        }
        if let Some(host) = listener.get("hostname").and_then(Value::as_str) {
            self.host(host, place);
        }
        let known = ["name", "namespace", "protocol", "hostname", "tls", "routes", "policies"];
        self.rest(listener, place, &known, ONLY_TOOLS);
        let around = self.policies(&format!("{place}.policies"), listener, Policies::default());
        for (index, route) in items(listener.get("routes").unwrap_or(&Value::Null)) {
            self.route(route, &format!("{place}.routes[{index}]"), &around);
        }
    }

    fn host(&mut self, host: &str, place: &str) {
        let hosts = &mut self.reader.imported.hosts;
        if host.contains('*') {
            let reason =
                format!("`{host}` is a wildcard; list the names in `[server] allowed_hosts`");
            self.reader.part(format!("{place}.hostname"), reason);
        } else if host.contains(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '-' | ':')) {
            self.reader.part(format!("{place}.hostname"), "it is not the name of a host");
        } else if !hosts.iter().any(|known| known == host) {
            hosts.push(host.to_owned());
        }
    }

    fn route(&mut self, route: &Value, place: &str, around: &Policies) {
        let known = [
            "name",
            "namespace",
            "routeName",
            "ruleName",
            "hostnames",
            "matches",
            "policies",
            "backends",
        ];
        let mut around = around.clone();
        for key in self.unknown(route, &known) {
            let why = format!("`{key}` of its route is not translated");
            self.reader.part(format!("{place}.{key}"), "it is not translated");
            around.obstacle.add(why);
        }
        for (_, host) in items(route.get("hostnames").unwrap_or(&Value::Null)) {
            self.host(host.as_str().unwrap_or_default(), place);
        }
        for (index, matched) in items(route.get("matches").unwrap_or(&Value::Null)) {
            let place = format!("{place}.matches[{index}]");
            if matched.get("path").is_some() {
                let reason = "clients use /mcp for all sources, or /mcp/NAME with `[toolset.NAME]`";
                self.reader.part(format!("{place}.path"), reason);
            }
            for key in self.unknown(matched, &["path"]) {
                self.reader.part(format!("{place}.{key}"), "requests are not matched here");
                around
                    .obstacle
                    .add(format!("its route matches by `{key}`, which is not translated"));
            }
        }
        let policies = self.policies(&format!("{place}.policies"), route, around);
        for (index, backend) in items(route.get("backends").unwrap_or(&Value::Null)) {
            let place = format!("{place}.backends[{index}]");
            let policies = self.policies(&format!("{place}.policies"), backend, policies.clone());
            match (backend.get("mcp"), backend.get("backend").and_then(Value::as_str)) {
                (Some(mcp), _) => self.backend(&format!("{place}.mcp"), mcp, &policies),
                (None, Some(name)) => self.referred(name, &place, &policies),
                (None, None) => self.reader.part(place, ONLY_TOOLS),
            }
        }
    }

    /// Reads the backend `name` from the top of the document.
    fn referred(&mut self, name: &str, place: &str, policies: &Policies) {
        let name = name.strip_prefix('/').unwrap_or(name);
        let Some(backend) = self.backends.get(name).copied() else {
            self.reader.part(place, format!("there is no backend `{name}`"));
            return;
        };
        let backend = Value::Object(backend.clone());
        let place = format!("backends.{name}");
        let policies = self.policies(&format!("{place}.policies"), &backend, policies.clone());
        match backend.get("mcp") {
            Some(mcp) => self.backend(&format!("{place}.mcp"), mcp, &policies),
            None => self.reader.part(place, ONLY_TOOLS),
        }
    }

    fn backend(&mut self, place: &str, mcp: &Value, policies: &Policies) {
        for (key, reason) in [
            ("statefulMode", "sessions are a setting of the whole server: `[mcp] sessions`"),
            (
                "prefixMode",
                "tools are called SOURCE__TOOL; `names = \"bare\"` keeps their own names",
            ),
            ("failureMode", "a source that fails affects only its own tools"),
        ] {
            if mcp.get(key).is_some() {
                self.reader.part(format!("{place}.{key}"), reason);
            }
        }
        let known =
            ["targets", "statefulMode", "prefixMode", "failureMode", "port", "policies", "name"];
        let mut policies = self.policies(&format!("{place}.policies"), mcp, policies.clone());
        for key in self.unknown(mcp, &known) {
            self.reader.part(format!("{place}.{key}"), "it is not translated");
            policies.obstacle.add(format!("`{key}` of its backend is not translated"));
        }
        for (index, target) in items(mcp.get("targets").unwrap_or(&Value::Null)) {
            let place = format!("{place}.targets[{index}]");
            self.target(target, &place, policies.clone());
        }
    }

    fn target(&mut self, target: &Value, place: &str, policies: Policies) {
        let policies = self.policies(&format!("{place}.policies"), target, policies);
        let name = target.get("name").and_then(Value::as_str).unwrap_or("server");
        let id = self.reader.id(name);
        let mut obstacle = Obstacle::default();
        for why in [self.global.clone(), policies.obstacle.clone()] {
            why.into_reason().into_iter().for_each(|why| obstacle.add(why));
        }
        for key in self.unknown(target, &["name", "policies", "stdio", "sse", "mcp", "openapi"]) {
            self.reader.part(format!("{place}.{key}"), "it is not translated");
            obstacle.add(format!("it has `{key}`, which is not translated"));
        }
        let rules = self.authorization(&id, name, &policies, &mut obstacle);
        let kinds = ["stdio", "mcp", "sse", "openapi"];
        let spec = kinds.iter().find_map(|kind| Some((*kind, target.get(kind)?)));
        if let Some((kind, spec)) = spec {
            let known: &[&str] = match kind {
                "stdio" => &["cmd", "args", "env", "clearEnv"],
                "openapi" => &["schema", "host", "port", "path", "backend"],
                _ => &["host", "port", "path", "backend"],
            };
            for key in self.unknown(spec, known) {
                self.reader.part(format!("{place}.{kind}.{key}"), "it is not translated");
                obstacle.add(format!("it has `{key}`, which is not translated"));
            }
        }
        let headers = &policies.headers;
        let upstream = match spec {
            Some(("stdio", spec)) => {
                let program = spec.get("cmd").and_then(Value::as_str).unwrap_or_default();
                if spec.get("clearEnv").and_then(Value::as_bool) != Some(true) {
                    let reason = "a child gets only PATH, HOME, LANG, TMPDIR and USER of the \
                                  server's variables; name others in `env`";
                    self.reader.part(format!("{place}.stdio.clearEnv"), reason);
                }
                let words = words(program, spec.get("args").and_then(Value::as_array));
                let env = variables(spec.get("env"));
                self.reader.command(&id, words, &env, None, &mut obstacle)
            }
            Some(("openapi", spec)) => {
                let schema = spec.get("schema");
                let at = ["file", "url"].iter().find_map(|key| schema?.get(key)?.as_str());
                if at.is_none() {
                    obstacle.add("its document is in the file itself; write it to a separate file");
                }
                let url = self.address(spec, policies.has_tls, &mut obstacle);
                let document = at.unwrap_or("openapi.json");
                self.reader.document(&id, document, Some(&url), headers, &mut obstacle)
            }
            Some((kind, spec)) => {
                if kind == "sse" {
                    obstacle.add(SSE);
                }
                let url = self.address(spec, policies.has_tls, &mut obstacle);
                self.reader.url(&id, &url, headers, &mut obstacle)
            }
            None => {
                obstacle.add("it has no `stdio`, `mcp`, `sse` or `openapi`");
                Upstream::Command { command: Vec::new(), env: Vec::new(), cwd: None }
            }
        };
        self.has_other_callers |= policies.has_other_callers && policies.issuers.is_empty();
        self.reader.imported.issuers.extend(policies.issuers);
        self.reader.add(name, id, upstream, rules, obstacle);
    }

    fn authorization(
        &mut self,
        id: &str,
        target: &str,
        policies: &Policies,
        obstacle: &mut Obstacle,
    ) -> Vec<Rule> {
        let mut rules = match policies.authorization.as_slice() {
            [] => Vec::new(),
            [(place, policy)] => {
                let read = cel::rules(id, target, policy, place, &mut self.reader);
                read.unwrap_or_else(|why| {
                    self.reader.part(place, &why);
                    obstacle.add(why);
                    Vec::new()
                })
            }
            [(place, _), ..] => {
                let why = "several `mcpAuthorization` apply to it";
                self.reader.part(place, why);
                obstacle.add(why);
                Vec::new()
            }
        };
        if let Some(timeout) = &policies.timeout {
            if rules.is_empty() {
                rules.push(Rule { glob: "*".to_owned(), ..Rule::default() });
            }
            for rule in rules.iter_mut().filter(|rule| rule.glob == "*") {
                rule.timeout = Some(timeout.clone());
            }
        }
        rules
    }

    /// The URL of `host`, `port` and `path`, or of a backend.
    fn address(&self, spec: &Value, has_tls: bool, obstacle: &mut Obstacle) -> String {
        let text = |key: &str| spec.get(key).and_then(Value::as_str);
        let scheme = if has_tls { "https" } else { "http" };
        let port = spec.get("port").and_then(Value::as_u64);
        let path = text("path").map(|path| format!("/{}", path.trim_start_matches('/')));
        match (text("host"), text("backend")) {
            (Some(host), _) if host.contains("://") => host.to_owned(),
            (Some(host), _) => {
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                format!("{scheme}://{host}{port}{}", path.unwrap_or_default())
            }
            (None, Some(name)) => {
                let name = name.strip_prefix('/').unwrap_or(name);
                let backend = self.backends.get(name);
                let host = backend.and_then(|table| table.get("host")).and_then(Value::as_str);
                if host.is_none() || backend.is_some_and(|table| table.contains_key("policies")) {
                    obstacle.add(format!("its backend `{name}` is not translated"));
                }
                let host = host.unwrap_or("unknown.invalid");
                format!("{scheme}://{host}{}", path.unwrap_or_default())
            }
            (None, None) => {
                obstacle.add("it has no `host`");
                format!("{scheme}://unknown.invalid")
            }
        }
    }

    /// Adds the policies of `value` at `place` to those `around` it.
    fn policies(&mut self, place: &str, value: &Value, around: Policies) -> Policies {
        let mut policies = around;
        let members = value.get("policies").and_then(Value::as_object).into_iter().flatten();
        for (key, policy) in members {
            self.policy(&format!("{place}.{key}"), key, policy, &mut policies);
        }
        policies
    }

    fn policy(&mut self, place: &str, key: &str, policy: &Value, policies: &mut Policies) {
        let restricts = |why: &str| format!("`{key}` is not translated: {why}");
        match key {
            "cors" => self.cors(place, policy),
            "jwtAuth" | "mcpAuthentication" => self.issuers(place, policy, policies),
            "mcpAuthorization" => policies.authorization.push((place.to_owned(), policy.clone())),
            "apiKey" => {
                policies.has_other_callers = true;
                let reason = "keys are not copied; create them with `toolcrib keys create`";
                self.reader.part(place, reason);
            }
            "basicAuth" | "oidc" => {
                policies.has_other_callers = true;
                self.reader.part(place, "callers use keys, or tokens of `[[auth.jwt]]`");
            }
            "csrf" => self.reader.part(place, "`Host` and `Origin` are always checked"),
            "localRateLimit" | "remoteRateLimit" | "mcpRemoteRateLimit" => {
                let why = "it limits all callers of the route together; rates are for each \
                           principal and tool (`rate`, `quota`)";
                self.reader.part(place, why);
                policies.obstacle.add(restricts(why));
            }
            "authorization"
            | "networkAuthorization"
            | "extAuthz"
            | "extProc"
            | "mcpGuardrails"
            | "transformations" => {
                let why = "use scopes, roles, `[policy]` and approvals";
                self.reader.part(place, why);
                policies.obstacle.add(restricts(why));
            }
            "timeout" => {
                let timeout = policy.get("requestTimeout").and_then(Value::as_str);
                let is_known = |duration: &&str| toolcrib_config::parse_duration(duration).is_ok();
                match timeout.filter(is_known) {
                    Some(timeout) => policies.timeout = Some(timeout.to_owned()),
                    None => self.reader.part(place, "write `timeout` in a rule of the source"),
                }
            }
            "requestHeaderModifier" => self.headers(place, policy, policies),
            "backendAuth" => self.backend_auth(place, policy, policies),
            "backendTLS" if policy.as_object().is_some_and(Map::is_empty) => {
                policies.has_tls = true;
            }
            "responseHeaderModifier"
            | "requestMirror"
            | "retry"
            | "buffer"
            | "a2a"
            | "ai"
            | "health"
            | "inferenceRouting"
            | "http"
            | "tcp" => {
                self.reader.part(place, "it has no equivalent");
            }
            _ => {
                self.reader.part(place, "it has no equivalent");
                policies.obstacle.add(restricts("its effect on the requests is unknown here"));
            }
        }
    }

    fn cors(&mut self, place: &str, policy: &Value) {
        for (_, origin) in items(policy.get("allowOrigins").unwrap_or(&Value::Null)) {
            let origin = origin.as_str().unwrap_or_default();
            if origin.contains('*') {
                let reason = "list each origin in `[server] allowed_origins`; wildcards are not \
                              accepted";
                self.reader.part(format!("{place}.allowOrigins"), reason);
            } else if !is_public_address(origin) {
                self.reader.part(format!("{place}.allowOrigins"), "it is not an origin");
            } else if !self.reader.imported.origins.iter().any(|known| known == origin) {
                self.reader.imported.origins.push(origin.to_owned());
            }
        }
    }

    fn headers(&mut self, place: &str, policy: &Value, policies: &mut Policies) {
        for key in ["add", "set"] {
            // A map, or a list of names and values.
            match policy.get(key) {
                Some(Value::Object(headers)) => policies.headers.extend(variables_of(headers)),
                Some(Value::Array(_)) => {
                    self.reader.part(format!("{place}.{key}"), "write them in `headers`");
                }
                _ => {}
            }
        }
        if policy.get("remove").is_some() {
            let reason = "headers of callers are not forwarded in any case";
            self.reader.part(format!("{place}.remove"), reason);
        }
    }

    fn backend_auth(&mut self, place: &str, policy: &Value, policies: &mut Policies) {
        let key = policy.get("key").map(|key| key.get("value").unwrap_or(key));
        match key {
            Some(key) if policy.get("location").is_none() => {
                let key = match key {
                    Value::String(text) => json!(format!("Bearer {text}")),
                    // In a file: the value is unknown here.
                    _ => json!("Bearer ${file}"),
                };
                policies.headers.insert("Authorization".to_owned(), key);
            }
            _ => {
                let reason = "credentials of callers are not forwarded; store one with `toolcrib \
                              credentials set`, and name it in `credential`";
                self.reader.part(place, reason);
            }
        }
    }

    fn issuers(&mut self, place: &str, policy: &Value, policies: &mut Policies) {
        let single = std::slice::from_ref(policy);
        let providers = policy.get("providers").and_then(Value::as_array);
        for provider in providers.map_or(single, Vec::as_slice) {
            let text = |key: &str| provider.get(key).and_then(Value::as_str);
            let keys = provider.pointer("/jwks/url").and_then(Value::as_str);
            let audiences = provider.get("audiences").and_then(Value::as_array);
            let audiences: Vec<String> = audiences
                .into_iter()
                .flatten()
                .filter_map(|audience| audience.as_str().map(str::to_owned))
                .collect();
            let known = [
                "mode",
                "issuer",
                "audiences",
                "jwks",
                "providers",
                "resourceMetadata",
                "provider",
                "clientId",
                "clientSecret",
                "relaySigningKey",
            ];
            let unknown = self.unknown(provider, &known);
            match (text("issuer"), keys) {
                (Some(issuer), Some(keys))
                    if ![issuer, keys].iter().all(|address| is_issuer_address(address)) =>
                {
                    let reason = "its addresses may contain a secret; write `[[auth.jwt]]`";
                    self.reader.part(place, reason);
                }
                (Some(issuer), Some(keys)) if !audiences.is_empty() => {
                    let obstacle = unknown.first().map(|key| format!("`{key}` is not translated"));
                    let (issuer, keys) = (issuer.to_owned(), keys.to_owned());
                    policies.issuers.push(Issuer { issuer, audiences, keys, obstacle });
                }
                _ => {
                    let reason = "`[[auth.jwt]]` needs an issuer, audiences, and the URL of the keys; \
                                  a file with keys cannot be used";
                    self.reader.part(place, reason);
                }
            }
        }
        if matches!(policy.get("mode").and_then(Value::as_str), Some("optional" | "permissive")) {
            let reason = "callers always need a key or token, unless `[anonymous]` admits them";
            self.reader.part(format!("{place}.mode"), reason);
        }
        if policy.get("resourceMetadata").is_some() {
            let reason = "write `[auth.resource]` with the address of /mcp";
            self.reader.part(format!("{place}.resourceMetadata"), reason);
        }
    }

    /// The keys of `value` that are not `known`.
    fn unknown(&self, value: &Value, known: &[&str]) -> Vec<String> {
        let members = value.as_object().into_iter().flat_map(Map::keys);
        members.filter(|key| !known.contains(&key.as_str())).cloned().collect()
    }

    /// Notes the keys of `value` that are not `known`.
    fn rest(&mut self, value: &Value, place: &str, known: &[&str], reason: &str) {
        for key in self.unknown(value, known) {
            self.reader.part(format!("{place}.{key}"), reason);
        }
    }
}

/// Whether `name` has the form of an environment variable.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && !may_be_key(name)
}

fn items(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

fn variables(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).map(variables_of).unwrap_or_default()
}

/// Writes references to the environment in the form of desktop clients.
fn variables_of(values: &Map<String, Value>) -> Map<String, Value> {
    let plain = |value: &Value| match value.as_str().and_then(|text| text.strip_prefix('$')) {
        // A secret can start with `$` too.
        Some(name) if is_variable(name) => {
            json!(format!("${{env:{name}}}"))
        }
        _ => value.clone(),
    };
    values.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
}
