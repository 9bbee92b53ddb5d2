//! Gateways of other projects, measured with the same requests.
//!
//! Each has a directory in `bench/peers` with `peer.toml` and the files that it names. The program is
//! searched in a directory of the caller's choice and is never installed by this one.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::time::sleep;

use crate::endpoint::{Call, Endpoint};
use crate::load::Shot;
use crate::process::Server;
use crate::subject::direct_echo;

/// The rows that can be measured with another gateway.
pub(crate) const LIST: &str = "MCP tools/list";
pub(crate) const SESSION_LIST: &str = "MCP tools/list in a session";
pub(crate) const CALL: &str = "MCP tools/call";
pub(crate) const SESSION_CALL: &str = "MCP tools/call in a session";

const CONFIGURATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
/// Time limit for the first correct answer of a ready gateway.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Free ports that a gateway gets: `{port}`, then `{port2}` to `{port4}`.
const PORTS: usize = 4;

/// A file `peer.toml`. Values may contain placeholders.
///
/// `{program}` is the program, `{bin}` its directory, `{config}` the directory of this file,
/// `{folder}` a scratch directory, `{upstream}` the address of the MCP server, `{port}` the port to
/// listen on, and `{port2}` to `{port4}` are further free ports. `setup` adds its own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// The file name of the program.
    program: String,
    /// Prints the version.
    version: Vec<String>,
    /// Files to copy to `{folder}` with their placeholders replaced.
    #[serde(default)]
    files: Vec<String>,
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// A path that returns 200 once the gateway is ready; by default a gateway is ready when it
    /// listens.
    ready: Option<String>,
    /// A program to run when the gateway is ready. Each line `NAME=VALUE` of its stdout defines a
    /// placeholder for `path`, `tool` and `headers`.
    #[serde(default)]
    setup: Vec<String>,
    /// The path of MCP.
    path: String,
    /// The name of the upstream's `echo`.
    tool: String,
    headers: BTreeMap<String, String>,
    /// The names of the rows that it can be measured in.
    rows: Vec<String>,
    /// The directory of `peer.toml`.
    #[serde(skip)]
    config: PathBuf,
}

/// A running gateway.
#[derive(Debug)]
pub(crate) struct RunningPeer {
    pub(crate) server: Server,
    /// The first line that its program prints about its version.
    pub(crate) version: String,
    /// The requests by row.
    pub(crate) shots: Vec<(String, Shot)>,
}

type Values = BTreeMap<String, String>;

/// Reads all gateways that have a configuration, by name.
pub(crate) fn configured() -> Result<Vec<Peer>> {
    let mut peers = Vec::new();
    for entry in fs::read_dir(CONFIGURATIONS).context(CONFIGURATIONS)? {
        let config = entry?.path();
        let file = config.join("peer.toml");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let peer: Peer = toml::from_str(&text).with_context(|| file.display().to_string())?;
        peers.push(Peer { config, ..peer });
    }
    peers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(peers)
}

impl Peer {
    /// Finds the program in `installed` or in its `bin`.
    pub(crate) fn find(&self, installed: &Path) -> Option<PathBuf> {
        let places = [installed.join(&self.program), installed.join("bin").join(&self.program)];
        places
            .into_iter()
            .find(|place| place.is_file())
            .and_then(|place| std::path::absolute(place).ok())
    }

    /// Starts the gateway in front of `upstream`.
    pub(crate) async fn start(
        &self,
        program: &Path,
        upstream: SocketAddr,
        folder: &Path,
    ) -> Result<RunningPeer> {
        let folder = folder.join(&self.name);
        fs::create_dir_all(&folder)?;
        let ports = free_ports()?;
        let mut values: Values = [
            ("program", program.display().to_string()),
            ("bin", program.parent().unwrap_or(program).display().to_string()),
            ("config", self.config.display().to_string()),
            ("folder", folder.display().to_string()),
            ("upstream", upstream.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for (number, port) in ports.iter().enumerate() {
            let name = if number == 0 { "port".into() } else { format!("port{}", number + 1) };
            values.insert(name, port.to_string());
        }
        for file in &self.files {
            let text = fs::read_to_string(self.config.join(file))?;
            fs::write(folder.join(file), filled(&text, &values))?;
        }
        let version = self.output(&self.version, &values, &folder)?;
        let version = version.lines().next().unwrap_or_default().to_owned();
        let port = *ports.first().context("no port")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = self.program(&self.command, &values, &folder)?;
        let ready = (address, self.ready.as_deref());
        let server = Server::start_at(&self.name, &mut command, &folder, ready).await?;
        if !self.setup.is_empty() {
            let printed = self.output(&self.setup, &values, &folder)?;
            let lines = printed.lines().filter_map(|line| line.split_once('='));
            values.extend(lines.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let shots = self.shots(address, &values).await?;
        Ok(RunningPeer { server, version, shots })
    }

    /// The requests of each row, after a correct answer to one of them.
    async fn shots(&self, address: SocketAddr, values: &Values) -> Result<Vec<(String, Shot)>> {
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), filled(value, values)))
            .collect();
        let path = filled(&self.path, values);
        let endpoint = Endpoint { address, path, headers };
        let call = Call { tool: filled(&self.tool, values), ..direct_echo() };
        let deadline = Instant::now() + ANSWER_LIMIT;
        let mut shots = Vec::new();
        for row in &self.rows {
            let shot = loop {
                let shot = shot(row, &endpoint, &call).await;
                let answered = match &shot {
                    Ok(shot) => shot.once().await.map(|_| ()),
                    Err(error) => Err(anyhow::anyhow!("{error:#}")),
                };
                match answered {
                    Ok(()) => break shot?,
                    Err(error) if Instant::now() > deadline => {
                        return Err(error.context(row.clone()));
                    }
                    Err(_) => sleep(Duration::from_millis(200)).await,
                }
            };
            shots.push((row.clone(), shot));
        }
        Ok(shots)
    }

    fn output(&self, command: &[String], values: &Values, folder: &Path) -> Result<String> {
        let output = self.program(command, values, folder)?.stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?} failed: {problem}");
        Ok(text)
    }

    fn program(&self, command: &[String], values: &Values, folder: &Path) -> Result<Command> {
        let mut words = command.iter().map(|word| filled(word, values));
        let mut program = Command::new(words.next().context("an empty command")?);
        program.args(words).current_dir(folder).env("TMPDIR", folder);
        program.envs(self.env.iter().map(|(name, value)| (name, filled(value, values))));
        Ok(program)
    }
}

async fn shot(row: &str, endpoint: &Endpoint, call: &Call) -> Result<Shot> {
    match row {
        LIST => Ok(endpoint.list(&call.tool)),
        SESSION_LIST => endpoint.session_list(&call.tool).await,
        CALL => Ok(endpoint.call(call)),
        SESSION_CALL => endpoint.session_call(call).await,
        _ => anyhow::bail!("no row of this name can be measured with another gateway"),
    }
}

fn free_ports() -> Result<Vec<u16>> {
    let listeners: Vec<_> =
        (0..PORTS).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    Ok(listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect::<std::io::Result<_>>()?)
}

/// Replaces the placeholders in `text`.
fn filled(text: &str, values: &Values) -> String {
    values
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_complete() {
        let peers = configured().unwrap();
        let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
        assert_eq!(names, ["ContextForge", "agentgateway", "mcp-gateway"]);
        for peer in peers {
            assert!(!peer.rows.is_empty() && !peer.command.is_empty(), "{}", peer.name);
            for file in &peer.files {
                assert!(peer.config.join(file).is_file(), "{}: {file}", peer.name);
            }
            for row in &peer.rows {
                assert!([LIST, SESSION_LIST, CALL, SESSION_CALL].contains(&row.as_str()), "{row}");
            }
        }
    }

    #[test]
    fn placeholders_are_replaced_wherever_they_are() {
        let values = [("port", "80"), ("port2", "81")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(filled("{port}:{port2} {port}{other}", &values), "80:81 80{other}");
    }
}
