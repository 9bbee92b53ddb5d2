//! An MCP server: a program, or an address.

use toolcrib_core::{
    id::SourceId,
    source::{HttpSpec, StdioSpec, UpstreamSpec},
};

use crate::config::resolve::{Resolver, file};

impl Resolver<'_> {
    pub(super) fn mcp_source(
        &mut self,
        id: &SourceId,
        typed: &mut file::Source,
    ) -> Option<UpstreamSpec> {
        let key = |member: &str| format!("source.{id}.{member}");
        let at = typed.id.span().start;
        let sandbox = typed.sandbox.take().map(|it| self.confinement(at, &key("sandbox"), it));
        match (&typed.command, &typed.url) {
            (Some(command), None) => {
                if command.get_ref().first().is_none_or(String::is_empty) {
                    let message =
                        "expected a program and its arguments, such as [\"node\", \"server.js\"]";
                    self.complain(command.span().start, &key("command"), message);
                    return None;
                }
                if !typed.headers.is_empty() {
                    self.complain(at, &key("headers"), "only a source with `url` has headers");
                }
                if !typed.allow.is_empty() {
                    self.complain(at, &key("allow"), "only a source with `url` has `allow`");
                }
                let cwd = typed.cwd.as_ref().map(|cwd| match sandbox {
                    Some(_) => self.reachable(&key("cwd"), cwd, false),
                    None => self.base.join(cwd.get_ref()),
                });
                Some(UpstreamSpec::McpStdio(StdioSpec {
                    command: command.get_ref().clone(),
                    env: self.child_env(&key("env"), &typed.env)?,
                    cwd,
                    sandbox,
                    stderr: self.stderr(id, typed),
                }))
            }
            (None, Some(url)) => {
                if sandbox.is_some() {
                    self.complain(
                        at,
                        &key("sandbox"),
                        "only a source with `command` has `sandbox`",
                    );
                }
                let checked = self.read(&key("url"), Some(url), check_url);
                if !typed.env.is_empty() || typed.cwd.is_some() || typed.stderr.is_some() {
                    self.complain(
                        at,
                        &key("env"),
                        "only a source with `command` has `env`, `cwd` and `stderr`",
                    );
                }
                for (name, value) in &typed.headers {
                    if let Err(problem) = check_header(name) {
                        let key = key(&format!("headers.{name}"));
                        self.complain(value.span().start, &key, problem);
                    }
                }
                let allow = self.allow_list(id, &typed.allow);
                let headers = self.values(&key("headers"), &typed.headers)?;
                Some(UpstreamSpec::McpHttp(HttpSpec { url: checked?, headers, allow: allow? }))
            }
            (Some(_), Some(url)) => {
                self.complain(
                    url.span().start,
                    &key("url"),
                    "expected either `command` or `url`, not both",
                );
                None
            }
            (None, None) => {
                self.complain_of_absence(
                    at,
                    &format!("source.{id}"),
                    &key("command"),
                    "expected `command = [\"program\", …]` or `url = \"https://…\"`",
                );
                None
            }
        }
    }
}

/// Checks a header name (RFC 9110, section 5.1); headers that the transport sets are rejected.
pub(in crate::config::resolve) fn check_header(name: &str) -> Result<(), &'static str> {
    const OURS: &[&str] =
        &["accept", "connection", "content-length", "content-type", "transfer-encoding", "upgrade"];
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let lower = name.to_ascii_lowercase();
    match name {
        "" => Err("a header needs a name"),
        _ if !name.bytes().all(token) => Err("is not a header name"),
        _ if OURS.contains(&lower.as_str()) || lower.starts_with("mcp-") => {
            Err("is set by the protocol itself")
        }
        _ => Ok(()),
    }
}

pub(in crate::config::resolve) fn check_url(text: &str) -> Result<String, &'static str> {
    let url =
        url::Url::parse(text).map_err(|_| "expected an address such as \"https://host/mcp\"")?;
    match url.scheme() {
        "http" | "https" => {}
        _ => return Err("expected an http or https address"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain user information; use `headers` with { env = … }");
    }
    Ok(text.to_owned())
}
