//! Commands of this machine as a [`Source`] (host extension, tier `exec`).
//!
//! Invariant: only commands that the operator configured are run; values of a caller become
//! arguments and input, nothing else.
//!
//! Invariant: a command runs confined. The command and all its descendants have ended when the call
//! ends, even after a failure or cancellation.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind, raw},
    catalog::Permit,
    clock::{Clock, Timestamp},
    descriptor::SourceKind,
    id::SourceId,
    source::{
        Discovered, DiscoveredTool, Source, SourceLimits, SourceListener, SourceState,
        SourceStatus, StderrLine,
        command::{CommandSpec, CommandsSpec, Confinement, OutputKind, scalar},
    },
};

use crate::process::{
    confined::Orders,
    program::{self, Ended, Program},
    stderr::Lines,
};

/// Secrets shorter than this are not redacted, because they would match innocent text.
const SHORT_SECRET: usize = 8;

/// How child processes are started: a program that passes the arguments after `arguments` to
/// [`run_child`](crate::run_child).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
}

/// The commands of one source.
pub(crate) struct CommandSource {
    id: SourceId,
    commands: Vec<CommandSpec>,
    launcher: Launcher,
    slots: Semaphore,
    stderr: Lines,
    closed: CancellationToken,
    since: Mutex<Timestamp>,
    clock: Arc<dyn Clock>,
}

impl CommandSource {
    pub(crate) fn start(
        id: SourceId,
        spec: CommandsSpec,
        launcher: Launcher,
        limits: &SourceLimits,
        listener: &Arc<dyn SourceListener>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let slots = Semaphore::new(limits.max_concurrency.clamp(1, Semaphore::MAX_PERMITS));
        listener.changed(&id);
        Self {
            stderr: Lines::new(id.clone(), spec.stderr, Arc::clone(&clock)),
            id,
            commands: spec.commands.into_iter().map(anchored).collect(),
            launcher,
            slots,
            closed: CancellationToken::new(),
            since: Mutex::new(clock.now()),
            clock,
        }
    }

    async fn run(
        &self,
        command: &CommandSpec,
        call: &Invocation,
    ) -> Result<Outcome, UpstreamError> {
        let unfit = |problem: &dyn std::fmt::Display| {
            Ok(Outcome::text(&format!("the command was not run: {problem}"), true))
        };
        let arguments = match command.arguments.render(&call.arguments) {
            Ok(arguments) => arguments,
            Err(problem) => return unfit(&problem),
        };
        let input = match command.stdin.as_deref() {
            None => String::new(),
            Some(name) => match scalar(call.arguments.get(name), name) {
                Ok(text) => text,
                Err(problem) => return unfit(&problem),
            },
        };
        let ended = program::run(Program {
            launcher: &self.launcher,
            program: &command.program,
            arguments: arguments.into_iter().map(OsString::from).collect(),
            environment: environment(command),
            cwd: command.cwd.as_deref(),
            confinement: Orders::of(command),
            input: input.into_bytes(),
            max_output: command.max_output.min(call.max_result_bytes),
        })
        .await?;
        let secrets: Vec<_> = command.env.values().map(|value| value.0.clone()).collect();
        self.stderr.take(&ended.stderr, &secrets);
        outcome(command, ended)
    }
}

#[async_trait]
impl Source for CommandSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn kind(&self) -> SourceKind {
        SourceKind::HostExtension
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        let mut discovered = Discovered::default();
        for command in &self.commands {
            match problem(command) {
                None => discovered.tools.push(describe(command)),
                Some(problem) => discovered
                    .problems
                    .push(format!("command \"{}\" is left out: {problem}", command.name)),
            }
        }
        Ok(discovered)
    }

    async fn invoke(&self, permit: &Permit, call: Invocation) -> Result<Outcome, UpstreamError> {
        let name = &permit.entry().upstream_name;
        let Some(command) = self.commands.iter().find(|command| command.name == *name) else {
            return Err(unavailable("this command no longer exists"));
        };
        let run = async {
            let closing = |_| unavailable("the source is closed");
            let _slot = self.slots.acquire().await.map_err(closing)?;
            self.run(command, &call).await
        };
        tokio::select! {
            outcome = run => outcome,
            () = self.closed.cancelled() => Err(unavailable("the source is closed")),
        }
    }

    fn status(&self) -> SourceStatus {
        let state = match self.closed.is_cancelled() {
            false => SourceState::Ready,
            true => SourceState::Stopped,
        };
        SourceStatus { state, detail: None, since: *self.since.lock(), restarts: 0 }
    }

    fn stderr(&self) -> Vec<StderrLine> {
        self.stderr.kept()
    }

    async fn close(&self) {
        self.closed.cancel();
        *self.since.lock() = self.clock.now();
    }
}

/// Returns `command` with absolute paths, independent of the working directory.
fn anchored(mut command: CommandSpec) -> CommandSpec {
    command.cwd.iter_mut().for_each(anchor);
    anchored_confinement(&mut command.confinement);
    command
}

/// Makes the paths of a confinement absolute.
pub(crate) fn anchored_confinement(confinement: &mut Confinement) {
    let Confinement { read, write, protected, .. } = confinement;
    read.iter_mut().chain(write).for_each(anchor);
    for paths in [&mut protected.secret, &mut protected.fixed] {
        *paths = std::mem::take(paths)
            .into_iter()
            .map(|mut path| {
                anchor(&mut path);
                path
            })
            .collect();
    }
}

fn anchor(path: &mut PathBuf) {
    let here = if path.as_os_str().is_empty() { Path::new(".") } else { path.as_path() };
    if let Ok(absolute) = std::path::absolute(here) {
        *path = absolute;
    }
}

fn unavailable(detail: impl Into<String>) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Unavailable, detail)
}

/// Returns why `command` cannot run now, if there is a reason.
fn problem(command: &CommandSpec) -> Option<String> {
    use rustix::fs::{Access, access};
    if access(&command.program, Access::EXEC_OK).is_err() {
        return Some(format!("{} is not a program that can be run", command.program.display()));
    }
    let cwd = command.cwd.as_deref().filter(|cwd| !cwd.is_dir())?;
    Some(format!("{} is not a directory", cwd.display()))
}

fn describe(command: &CommandSpec) -> DiscoveredTool {
    let input_schema = command.input_schema();
    let output_schema = None;
    let raw = json!({
        "name": command.name,
        "title": command.title,
        "description": command.description,
        "inputSchema": input_schema,
    });
    DiscoveredTool {
        name: command.name.clone(),
        title: command.title.clone(),
        description: command.description.clone(),
        input_schema: Some(input_schema),
        output_schema,
        annotations: None,
        raw,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the inherited environment is read when a command starts"
)]
fn environment(command: &CommandSpec) -> Vec<(String, OsString)> {
    let inherited = command
        .inherit
        .iter()
        .filter_map(|name| std::env::var_os(name).map(|value| (name.clone(), value)));
    let own = command.env.iter().map(|(name, value)| (name.clone(), value.0.expose().into()));
    inherited.chain(own).collect()
}

fn outcome(command: &CommandSpec, ended: Ended) -> Result<Outcome, UpstreamError> {
    let Ended { status, stdout, stderr } = ended;
    let stderr = without_secrets(command, String::from_utf8_lossy(&stderr).into_owned());
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    if code.is_some_and(|code| command.success.contains(&code)) {
        return succeeded(command, stdout);
    }
    let mut blocks = Vec::new();
    let text = without_secrets(command, String::from_utf8_lossy(&stdout).into_owned());
    if !text.is_empty() {
        blocks.push(json!({ "type": "text", "text": text }));
    }
    let message = stderr.trim();
    let message = match message.is_empty() {
        true => super::process::describe(status),
        false => format!("{}\n{message}", super::process::describe(status)),
    };
    blocks.push(json!({ "type": "text", "text": message }));
    Ok(Outcome { content: raw(&Value::Array(blocks)), structured: None, is_error: true })
}

fn succeeded(command: &CommandSpec, stdout: Vec<u8>) -> Result<Outcome, UpstreamError> {
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let text = without_secrets(command, text);
    let mut outcome = Outcome::text(&text, false);
    if command.output == OutputKind::Json {
        let document: Box<RawValue> = serde_json::from_str(text.trim()).map_err(|error| {
            let detail = format!("the output is not JSON: {error}");
            UpstreamError::new(UpstreamErrorKind::Protocol, detail)
        })?;
        outcome.structured = Some(document);
    }
    Ok(outcome)
}

/// Returns `text` with the secrets of the command's environment redacted.
fn without_secrets(command: &CommandSpec, mut text: String) -> String {
    for (name, value) in &command.env {
        let secret = value.0.expose();
        if secret.len() >= SHORT_SECRET && text.contains(secret) {
            text = text.replace(secret, &format!("[REDACTED:{name}]"));
        }
    }
    text
}
