//! What a check has in hand: the host, where its protocol starts there, and what the user allowed.

use std::{collections::BTreeSet, sync::Arc};

use reqwest::Method;
use serde_json::{Map, Value};

use super::{Ask, Got, Host, Plan, Protocol, Suite, Verdict, suites};

/// A protocol on a host.
pub(crate) struct Site {
    host: Arc<Host>,
    protocol: Protocol,
    /// Where the protocol starts; empty at the root.
    path: String,
    /// Where the explorer starts on this host: it says which tools are harmless.
    explorer: String,
    options: Options,
}

/// What the user allowed and wants.
#[derive(Debug, Default, Clone)]
pub(crate) struct Options {
    /// A tool that may be called.
    pub(crate) tool: Option<NamedTool>,
    /// A tool that may be called and fails.
    pub(crate) failing_tool: Option<NamedTool>,
    /// What is advertised and cannot be looked at fails instead of being left out.
    pub(crate) require_behavior: bool,
}

/// A tool that the user named.
#[derive(Debug, Clone)]
pub(crate) struct NamedTool {
    /// Id or name, in any of the protocols.
    pub(crate) name: String,
    /// The arguments; none: made from the schema.
    pub(crate) arguments: Option<Map<String, Value>>,
}

impl Site {
    pub(super) fn new(host: Arc<Host>, plan: &Plan, suite: &Suite) -> Self {
        let trimmed = |path: &str| path.trim_end_matches('/').to_owned();
        let explorer = suites().iter().find(|suite| suite.protocol == Protocol::Explorer);
        Self {
            host,
            protocol: suite.protocol,
            path: trimmed(plan.path(suite)),
            explorer: explorer.map(|suite| trimmed(plan.path(suite))).unwrap_or_default(),
            options: plan.options.clone(),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Where the protocol starts on the host; empty at the root.
    pub(crate) fn base(&self) -> &str {
        &self.path
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// A `GET` below the path of the protocol.
    pub(crate) fn get(&self, path: &str) -> Ask {
        self.ask(Method::GET, path)
    }

    /// A `POST` below the path of the protocol.
    pub(crate) fn post(&self, path: &str) -> Ask {
        self.ask(Method::POST, path)
    }

    /// Any request below the path of the protocol.
    pub(crate) fn ask(&self, method: Method, path: &str) -> Ask {
        Ask::new(method, format!("{}{path}", self.path))
    }

    pub(crate) async fn send(&self, ask: Ask) -> Verdict<Got> {
        self.host.send(ask).await
    }

    pub(crate) async fn once(&self, ask: Ask) -> Verdict<Got> {
        self.host.once(ask).await
    }

    /// Whether `ask` is answered by something that is there.
    pub(crate) async fn answers(&self, ask: Ask) -> bool {
        let got = self.once(ask).await;
        got.is_ok_and(|got| !matches!(got.status(), 404 | 405 | 501))
    }

    /// The names of the tools that the host's explorer says only read.
    pub(crate) async fn harmless(&self) -> BTreeSet<String> {
        let ask = Ask::get(format!("{}/tools", self.explorer)).by_first();
        let Ok(got) = self.once(ask).await else { return BTreeSet::new() };
        let tools = got.value().as_array().map(Vec::as_slice).unwrap_or_default();
        let is_harmless = |tool: &&Value| {
            let says = |hint: &str| {
                tool.pointer(&format!("/annotations/{hint}")) == Some(&Value::Bool(true))
            };
            says("readOnlyHint") && !says("destructiveHint")
        };
        let names = tools.iter().filter(is_harmless);
        names.filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect()
    }
}

/// What is not a letter, a digit or one of `-._~`, as a segment of a path.
pub(super) fn segment(id: &str) -> String {
    let encoded = id.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}
