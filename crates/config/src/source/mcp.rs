//! An MCP server: a program, or an address.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib_core::{
    catalog::Tenants,
    credential::CredentialRef,
    egress::AllowList,
    id::CredentialName,
    source::{HttpSpec, StderrMode, StdioSpec, UpstreamSpec},
};

use super::{
    oauth::Accounts,
    sandbox::Sandbox,
    upstream::{PinFirst, PinMode, PinPolicy, Upstream},
};
use crate::{
    resolver::{Resolver, check_url},
    secret::Value,
};

/// An MCP server that runs as a child ([guide](../guides/mcp-servers.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Program {
    /// Program and arguments. Without a shell.
    #[schemars(extend("x-default" = "required"))]
    command: Option<Vec<String>>,
    /// Variables of the child, in addition to `PATH`, `HOME`, `LANG`, `TMPDIR` and `USER`.
    env: BTreeMap<String, Value>,
    /// Working directory.
    cwd: Option<PathBuf>,
    /// The files and ports that the child may use.
    sandbox: Option<Sandbox>,
    /// `keep` holds the last 100 lines of stderr in memory, `log` also logs them.
    stderr: StderrMode,
    /// Treatment of [changed tools](../guides/review-tools.md#pins).
    pins: PinMode,
    /// Treatment of new tools.
    pin_first: PinFirst,
}

/// An MCP server over streamable HTTP ([guide](../guides/mcp-servers.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Server {
    /// Address of the server.
    #[schemars(extend("x-default" = "required"))]
    url: Option<String>,
    /// Headers for the source's own origin.
    headers: BTreeMap<String, Value>,
    /// Name of a [stored credential](../guides/credentials.md).
    credential: Option<CredentialName>,
    /// Accounts that people connect to the service ([guide](../guides/accounts.md)).
    oauth: Option<Accounts>,
    /// Private networks, addresses and hosts that requests may use, in addition to the source's
    /// own host ([rules](../explanation/security.md#where-requests-go)).
    allow: AllowList,
    /// Treatment of [changed tools](../guides/review-tools.md#pins).
    pins: PinMode,
    /// Treatment of new tools.
    pin_first: PinFirst,
}

impl Resolver<'_> {
    pub(super) fn mcp_program(&mut self, source: &str, typed: Program) -> Upstream {
        let pins = PinPolicy { mode: typed.pins, first: typed.pin_first };
        Upstream { spec: self.program(source, typed), pins, credential: None, account: None }
    }

    fn program(&mut self, source: &str, typed: Program) -> Option<UpstreamSpec> {
        let key = |member: &str| format!("{source}.{member}");
        let sandbox = typed.sandbox.map(|sandbox| self.confinement(&key("sandbox"), sandbox));
        let Some(command) = typed.command else {
            let message = "expected `command = [\"program\", …]` or `url = \"https://…\"`";
            self.complain_of_absence(source, &key("command"), message);
            return None;
        };
        if command.first().is_none_or(String::is_empty) {
            let message = "expected a program and its arguments, such as [\"node\", \"server.js\"]";
            self.complain(&key("command"), message);
        }
        if command.iter().any(|word| word.contains('\0')) {
            self.complain(&key("command"), "an argument has no NUL character");
        }
        let cwd = typed.cwd.map(|cwd| match sandbox {
            Some(_) => self.reachable(&key("cwd"), &cwd, false),
            None => self.base.join(cwd),
        });
        let env = self.child_env(&key("env"), &typed.env)?;
        let stderr = typed.stderr;
        Some(UpstreamSpec::McpStdio(StdioSpec { command, env, cwd, sandbox, stderr }))
    }

    pub(super) fn mcp_server(
        &mut self,
        source: &str,
        typed: Server,
        tenants: &Tenants,
    ) -> Upstream {
        let key = format!("{source}.url");
        if typed.url.is_none() {
            let message = "expected the address of the server, such as \"https://host/mcp\"";
            self.complain_of_absence(source, &key, message);
        }
        let url = typed.url.as_deref().map(check_url).transpose();
        let url = self.check(&key, url).flatten();
        let headers = self.headers(&format!("{source}.headers"), &typed.headers);
        let (credential, oauth) = (typed.credential.as_ref(), typed.oauth.as_ref());
        self.check_authorization(source, credential, oauth, &typed.headers);
        let allow = typed.allow;
        let spec = url.zip(headers).map(|(url, headers)| HttpSpec { url, headers, allow });
        Upstream {
            spec: spec.map(UpstreamSpec::McpHttp),
            pins: PinPolicy { mode: typed.pins, first: typed.pin_first },
            credential: typed
                .credential
                .and_then(|name| self.credential_of_tenant(source, name, tenants)),
            account: typed.oauth.and_then(|typed| self.accounts(source, typed, tenants)),
        }
    }

    /// Resolves the credential of a tenant: the callers of an MCP server share one connection, so a
    /// caller's own credential would be used for all of them.
    fn credential_of_tenant(
        &mut self,
        source: &str,
        name: CredentialName,
        tenants: &Tenants,
    ) -> Option<CredentialRef> {
        let message = "callers of an MCP server share its connection, so its credential is one \
                       tenant's: say whose with `tenants = [\"…\"]`";
        let tenant = self.only_tenant(&format!("{source}.credential"), tenants, message)?;
        Some(CredentialRef::of_tenant(name, tenant))
    }
}
