//! A host extension: `[source.commands.NAME]`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use toml::Spanned;
use toolcrib_core::{
    id::SourceId,
    source::{
        UpstreamSpec,
        command::{
            CommandSpec, CommandsSpec, Confinement, ConfinementMode, Connect, OutputKind,
            Protected, Resources, Template, Typed,
        },
    },
};

use crate::config::{
    resolve::{Resolver, file},
    units::{parse_duration, parse_size},
};

/// Default limit of output, in bytes.
const MAX_OUTPUT: usize = 1 << 20;

/// Longest name of a command; source and name together make the tool's id.
const MAX_NAME: usize = 64;

impl Resolver<'_> {
    pub(super) fn command_source(
        &mut self,
        id: &SourceId,
        typed: &mut file::Source,
    ) -> Option<UpstreamSpec> {
        let before = self.problems.len();
        if typed.commands.0.is_empty() {
            let message = "expected at least one [source.commands.NAME] with a `program`";
            let (table, key) = (format!("source.{id}"), format!("source.{id}.commands"));
            self.complain_of_absence(typed.id.span().start, &table, &key, message);
        }
        let stderr = self.stderr(id, typed);
        let commands = std::mem::take(&mut typed.commands).0;
        let commands: Vec<_> =
            commands.into_iter().filter_map(|(name, it)| self.command(id, name, it)).collect();
        let spec = CommandsSpec { stderr, commands };
        (self.problems.len() == before).then_some(UpstreamSpec::Commands(spec))
    }

    fn command(
        &mut self,
        id: &SourceId,
        name: String,
        typed: Spanned<file::HostCommand>,
    ) -> Option<CommandSpec> {
        let at = typed.span().start;
        let typed = typed.into_inner();
        let prefix = format!("source.{id}.commands.{name}");
        let key = |member: &str| format!("{prefix}.{member}");
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        if name.len() > MAX_NAME || !name.bytes().all(legal) {
            let message = "expected at most 64 of the characters a-z, 0-9, `_` and `-`";
            self.complain(at, &prefix, message);
        }
        let parameters = self.parameters(&prefix, typed.parameters.0);
        let stdin = typed.stdin.as_ref().map(|name| name.get_ref().clone());
        let arguments: Vec<Typed> = typed.args.into_iter().map(argument).collect();
        let arguments = match Template::parse(&arguments, &parameters, stdin.as_deref()) {
            Ok(template) => Some(template),
            Err(problems) => {
                for problem in problems {
                    self.complain(at, &key("args"), problem.to_string());
                }
                None
            }
        };
        let program = self.read(&key("program"), Some(&typed.program), self_contained);
        let output = self.read(&key("output"), typed.output.as_ref(), |text| match text {
            "text" => Ok(OutputKind::Text),
            "json" => Ok(OutputKind::Json),
            _ => Err("expected \"text\" or \"json\""),
        });
        let max_output = self.read(&key("max_output"), typed.max_output.as_ref(), parse_size);
        let confinement = self.confinement(at, &key("sandbox"), typed.sandbox);
        let resources = self.resources(&key("limits"), &typed.limits);
        Some(CommandSpec {
            name,
            title: typed.title,
            description: typed.description,
            program: program?,
            arguments: arguments?,
            stdin,
            parameters,
            cwd: typed.cwd.map(|cwd| self.reachable(&key("cwd"), &cwd, false)),
            env: self.child_env(&key("env"), &typed.env)?,
            inherit: typed.inherit.into_iter().collect(),
            output: output.unwrap_or(OutputKind::Text),
            success: typed.success.unwrap_or_else(|| vec![0]).into_iter().collect(),
            max_output: max_output.unwrap_or(MAX_OUTPUT),
            confinement,
            resources,
        })
    }

    fn parameters(
        &mut self,
        prefix: &str,
        typed: Vec<(String, Spanned<toml::Value>)>,
    ) -> Map<String, Value> {
        let mut parameters = Map::new();
        for (name, schema) in typed {
            let at = schema.span().start;
            let key = format!("{prefix}.parameters.{name}");
            match serde_json::to_value(schema.into_inner()) {
                Ok(schema @ Value::Object(_)) => {
                    parameters.insert(name, schema);
                }
                Ok(_) | Err(_) => {
                    let message = "expected a JSON Schema such as { type = \"string\" }";
                    self.complain(at, &key, message);
                }
            }
        }
        parameters
    }

    /// Resolves the reachable files and ports of a program: of a command, or of an MCP server that
    /// runs as a child.
    pub(super) fn confinement(
        &mut self,
        at: usize,
        key: &str,
        typed: file::Sandbox,
    ) -> Confinement {
        let mode = self.read(&format!("{key}.mode"), typed.mode.as_ref(), |text| match text {
            "required" => Ok(ConfinementMode::Required),
            "best-effort" => Ok(ConfinementMode::BestEffort),
            "off" => Ok(ConfinementMode::Off),
            _ => Err("expected \"required\", \"best-effort\" or \"off\""),
        });
        let mode = mode.unwrap_or(ConfinementMode::Required);
        let reason = typed.mode_reason.as_deref().map(str::trim).unwrap_or_default();
        if mode != ConfinementMode::Required && reason.is_empty() {
            let message = "a program without the full sandbox requires a reason; add \
                           `mode_reason = \"…\"`";
            self.complain(at, &format!("{key}.mode"), message);
        }
        let connect = match typed.connect {
            None => Connect::Ports(BTreeSet::new()),
            Some(choice) => match choice.into_inner() {
                file::ConnectChoice::Ports(ports) => Connect::Ports(ports.into_iter().collect()),
                file::ConnectChoice::Word(word) => {
                    if word != "any" {
                        let message = "expected TCP ports such as [443], or \"any\"";
                        self.complain(at, &format!("{key}.connect"), message);
                    }
                    Connect::Any
                }
            },
        };
        let mut paths = |list: &str, typed: &[Spanned<String>], is_written| {
            let key = format!("{key}.{list}");
            typed.iter().map(|path| self.reachable(&key, path, is_written)).collect()
        };
        Confinement {
            mode,
            read: paths("read", &typed.read, false),
            write: paths("write", &typed.write, true),
            connect,
            protected: Protected::default(),
        }
    }

    fn resources(&mut self, key: &str, typed: &file::CommandLimits) -> Resources {
        let mut resources = Resources::default();
        let size = |text: &str| {
            parse_size(text).and_then(|it| u64::try_from(it).map_err(|e| e.to_string()))
        };
        if let Some(memory) = self.read(&format!("{key}.memory"), typed.memory.as_ref(), size) {
            resources.memory = memory;
        }
        if let Some(size) = self.read(&format!("{key}.file_size"), typed.file_size.as_ref(), size) {
            resources.file_size = size;
        }
        if let Some(cpu) = self.read(&format!("{key}.cpu"), typed.cpu.as_ref(), parse_duration) {
            resources.cpu = cpu.as_secs().max(1);
        }
        if let Some(files) = &typed.files {
            resources.files = *files.get_ref();
            if resources.files < 8 {
                self.complain(files.span().start, &format!("{key}.files"), "must be at least 8");
            }
        }
        resources
    }
}

fn argument(typed: file::CommandArgument) -> Typed {
    match typed {
        file::CommandArgument::One(text) => Typed::One(text),
        file::CommandArgument::Group(texts) => Typed::Group(texts),
    }
}

/// Requires an absolute path, so that the environment cannot redirect it to another program.
fn self_contained(text: &str) -> Result<PathBuf, &'static str> {
    match Path::new(text).is_absolute() {
        true => Ok(PathBuf::from(text)),
        false => Err(
            "expected an absolute path such as \"/usr/bin/git\", so that no other program can run",
        ),
    }
}
