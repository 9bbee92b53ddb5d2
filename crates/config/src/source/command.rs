//! A host extension: `[source.commands.NAME]`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use toolcrib_core::source::{
    StderrMode, UpstreamSpec,
    command::{ArgumentPartText, CommandSpec, CommandsSpec, OutputKind, Resources, Template},
};

use super::{sandbox::Sandbox, upstream::Upstream};
use crate::{
    ordered::OrderedTable,
    places::member,
    resolver::Resolver,
    secret::Value,
    units::{self as kind, Kind as _},
};

/// Longest name of a command; source and name together make the tool's id.
const MAX_NAME: usize = 64;

/// Commands of this machine ([guide](../guides/host-commands.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Commands {
    /// `keep` holds the last 100 lines of stderr in memory, `log` also logs them.
    stderr: StderrMode,
    /// Commands by name.
    #[schemars(with = "BTreeMap<String, HostCommand>")]
    commands: OrderedTable<HostCommand>,
}

/// A command of a `host-extension` ([guide](../guides/host-commands.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HostCommand {
    /// Title for people.
    title: Option<String>,
    /// Description for models.
    description: Option<String>,
    /// Absolute path of the program.
    program: PathBuf,
    /// Arguments; `{name}` is replaced by a parameter. A nested list is a group that needs all its
    /// parameters.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    args: Vec<ArgumentPartText>,
    /// The parameter to pass as the program's input.
    stdin: Option<String>,
    /// JSON Schema of each parameter, of one scalar type.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, kind::AnyValue>")]
    parameters: OrderedTable<toml::Value>,
    /// Working directory, readable for the program.
    #[schemars(extend("x-default" = "an empty directory"))]
    cwd: Option<PathBuf>,
    /// Variables, in addition to those of `[sources] env`.
    #[serde(default)]
    env: BTreeMap<String, Value>,
    /// Names of the server's variables that the program gets.
    #[serde(default)]
    inherit: BTreeSet<String>,
    /// `json`: the output is one document and becomes structured output.
    #[serde(default)]
    output: OutputKind,
    /// Exit codes of success.
    #[serde(default = "zero")]
    success: BTreeSet<u8>,
    /// Largest output.
    #[serde(default = "max_output", with = "kind::Size")]
    max_output: usize,
    /// The files and ports that the program may use.
    #[serde(default)]
    #[schemars(extend("x-default" = "no access"))]
    sandbox: Sandbox,
    /// Limits of each process.
    #[serde(default)]
    limits: CommandLimits,
}

/// Limits of each process of a command.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct CommandLimits {
    /// Address space.
    #[serde(with = "kind::Size")]
    memory: usize,
    /// Processor time.
    #[serde(with = "kind::Duration")]
    cpu: Duration,
    /// Open files.
    files: u64,
    /// Size of a written file.
    #[serde(with = "kind::Size")]
    file_size: usize,
}

impl Default for CommandLimits {
    fn default() -> Self {
        Self { memory: 4 << 30, cpu: Duration::from_secs(60), files: 256, file_size: 64 << 20 }
    }
}

fn zero() -> BTreeSet<u8> {
    BTreeSet::from([0])
}

fn max_output() -> usize {
    1 << 20
}

impl Resolver<'_> {
    pub(super) fn commands(&mut self, source: &str, typed: Commands) -> Upstream {
        let key = format!("{source}.commands");
        let before = self.problems.len();
        if typed.commands.0.is_empty() {
            let message = "expected at least one [source.commands.NAME] with a `program`";
            self.complain_of_absence(source, &key, message);
        }
        let commands = typed.commands.0.into_iter();
        let commands =
            commands.filter_map(|(name, command)| self.command(&key, name, command)).collect();
        let spec = UpstreamSpec::Commands(CommandsSpec { stderr: typed.stderr, commands });
        Upstream::own((self.problems.len() == before).then_some(spec))
    }

    fn command(&mut self, key: &str, name: String, typed: HostCommand) -> Option<CommandSpec> {
        let command = member(key, &name);
        let key = |member: &str| format!("{command}.{member}");
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        if name.len() > MAX_NAME || !name.bytes().all(legal) {
            let message = "expected at most 64 of the characters a-z, 0-9, `_` and `-`";
            self.complain(&command, message);
        }
        // An absolute path, so that the environment cannot redirect it to another program.
        if !typed.program.is_absolute() {
            let message = "expected an absolute path such as \"/usr/bin/git\", so that no other \
                           program can run";
            self.complain(&key("program"), message);
        }
        let parameters = self.parameters(&key("parameters"), typed.parameters.0);
        let arguments = Template::parse(&typed.args, &parameters, typed.stdin.as_deref());
        let arguments = arguments.unwrap_or_else(|problems| {
            for problem in problems {
                self.complain(&key("args"), problem.to_string());
            }
            Template::default()
        });
        let confinement = self.confinement(&key("sandbox"), typed.sandbox);
        let resources = self.resources(&key("limits"), &typed.limits);
        Some(CommandSpec {
            name,
            title: typed.title,
            description: typed.description,
            program: typed.program,
            arguments,
            stdin: typed.stdin,
            parameters,
            cwd: typed.cwd.map(|cwd| self.reachable(&key("cwd"), &cwd, false)),
            env: self.child_env(&key("env"), &typed.env)?,
            inherit: typed.inherit,
            output: typed.output,
            success: typed.success,
            max_output: typed.max_output,
            confinement,
            resources,
        })
    }

    fn parameters(&mut self, key: &str, typed: Vec<(String, toml::Value)>) -> Map<String, Json> {
        let mut parameters = Map::new();
        for (name, schema) in typed {
            match serde_json::to_value(schema) {
                Ok(schema @ Json::Object(_)) => {
                    parameters.insert(name, schema);
                }
                Ok(_) | Err(_) => {
                    let message = "expected a JSON Schema such as { type = \"string\" }";
                    self.complain(&member(key, &name), message);
                }
            }
        }
        parameters
    }

    fn resources(&mut self, key: &str, typed: &CommandLimits) -> Resources {
        if typed.files < 8 {
            self.complain(&format!("{key}.files"), "must be at least 8");
        }
        Resources {
            memory: typed.memory as u64,
            cpu: typed.cpu.as_secs().max(1),
            files: typed.files,
            file_size: typed.file_size as u64,
        }
    }
}
