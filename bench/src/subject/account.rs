//! A subject whose calls carry a token: one that the operator configured, or the account of the caller.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use url::Url;

use super::{ECHO, JSON, KEY, SAID, Settings, Subject, TOOLS, write_private};
use crate::endpoint::Call;
use crate::http1::Connection;
use crate::load::Shot;

/// The source with the operator's header, and that with accounts.
const HEADER: &str = "header";
const ACCOUNT: &str = "account";

/// The parts of a configuration for accounts.
#[derive(Default)]
pub(super) struct Configuration {
    /// More of the section `[store]`.
    pub(super) store: &'static str,
    /// The other sections.
    pub(super) rest: String,
}

impl Configuration {
    pub(super) fn at(upstream: SocketAddr) -> Self {
        let rest = format!(
            r#"[server]
public_url = "https://crib.example"

[[source]]
id = "{ACCOUNT}"
kind = "mcp"
url = "http://{upstream}/mcp"
tenants = ["bench"]
[source.oauth]
of = "principal"
client_id = "bench"
authorization_url = "http://{upstream}/authorize"
token_url = "http://{upstream}/token"
[source.tools."*"]
scopes = ["bench:use"]
safety_tier = "read"
approval = "never"
"#
        );
        Self { store: "seal_key = { file = \"seal.key\" }\n", rest }
    }
}

impl Subject {
    /// Starts `program` with two sources at the upstream, and connects the account of the tenant and
    /// that of the key.
    pub(crate) async fn with_account(
        program: &Path,
        upstream: SocketAddr,
        folder: &Path,
    ) -> Result<Self> {
        write_private(&folder.join("seal.key"), KEY)?;
        write_private(&folder.join("header"), "Bearer bench")?;
        let source = format!(
            "id = \"{HEADER}\"\nkind = \"mcp\"\nurl = \"http://{upstream}/mcp\"\n\
             headers = {{ Authorization = {{ file = \"header\" }} }}"
        );
        let settings = Settings { accounts: Some(upstream), ..Settings::over(vec![source], TOOLS) };
        let subject = Self::start_with(program, ACCOUNT, "relaxed", &settings, folder).await?;
        for of_tenant in [true, false] {
            subject.connect(of_tenant).await?;
        }
        subject.wait_for_tools(2 * TOOLS).await?;
        Ok(subject)
    }

    /// A shot at a call with the operator's header.
    pub(crate) fn header_call(&self) -> Shot {
        self.mcp().call(&echo_at(HEADER))
    }

    /// A shot at a call with the account of the key.
    pub(crate) fn account_call(&self) -> Shot {
        self.mcp().call(&echo_at(ACCOUNT))
    }

    /// Connects an account. The upstream accepts every code.
    async fn connect(&self, of_tenant: bool) -> Result<()> {
        let wanted = json!({ "source": ACCOUNT, "tenant": of_tenant });
        let (begun, cookie) = self.ask("/v1/connections/begin", &[], &wanted).await?;
        let address = begun.get("address").and_then(Value::as_str).context("an address")?;
        let address = Url::parse(address)?;
        let mut parameters = address.query_pairs();
        let state = parameters.find(|(name, _)| name == "state").context("a state")?.1;
        let cookie = cookie.context("a cookie")?;
        let brought = json!({ "source": ACCOUNT, "state": state, "code": "bench" });
        self.ask("/v1/connections/finish", &[("cookie", &cookie)], &brought).await?;
        Ok(())
    }

    /// Posts `body`; returns the answer and its cookie.
    async fn ask(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<(Value, Option<String>)> {
        let headers = [JSON, headers].concat();
        let request = self.request("POST", path, &headers, &body.to_string());
        let mut connection = Connection::open(self.server.address).await?;
        let answer = connection.exchange(&request).await?;
        if answer.status != 200 {
            bail!("{path}: {}: {}", answer.status, String::from_utf8_lossy(answer.body));
        }
        let cookie = answer.header("set-cookie").and_then(|it| it.split(';').next());
        Ok((serde_json::from_slice(answer.body)?, cookie.map(str::to_owned)))
    }
}

fn echo_at(source: &str) -> Call {
    let arguments = json!({ "text": SAID });
    Call { tool: format!("{source}__{ECHO}"), arguments, answer: SAID.into() }
}
