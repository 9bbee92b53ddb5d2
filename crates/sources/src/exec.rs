//! Commands of this machine as a [`Source`] (host extension, tier `exec`).
//!
//! Invariant: only commands that the operator configured are run; values of a caller become only
//! arguments and input.
//!
//! Invariant: a command runs confined. The command and all its descendants have exited when the
//! call completes, even after a failure or cancellation.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    pin::pin,
    process::Output,
    sync::Arc,
};

use async_trait::async_trait;
use serde_json::{json, value::RawValue};
use toolcrib_core::{
    call::{Invocation, Operation, Outcome, Reply, UpstreamError, text_block},
    catalog::Permit,
    descriptor::SourceKind,
    id::SourceId,
    redact,
    source::{
        Discovered, DiscoveredOffer, Source, SourceState, SourceStatus, StderrLine,
        command::{CommandSpec, CommandsSpec, Confinement, OutputKind, scalar},
    },
};

use crate::{
    calls::Calls,
    context::SourceContext,
    error::{protocol, unavailable},
    process::{
        exit::Exit,
        launch::{Launcher, environment},
        program,
        reaper::ChildSpec,
        stderr::Lines,
        support::{self, refusal},
    },
    status::StatusBoard,
};

/// Secrets shorter than this are not redacted, because they would match innocent text.
const SHORT_SECRET: usize = 8;

/// The commands of one source.
pub(crate) struct CommandSource {
    id: SourceId,
    commands: Vec<CommandSpec>,
    launcher: Launcher,
    calls: Calls,
    stderr: Lines,
    status: StatusBoard,
}

impl CommandSource {
    pub(crate) fn start(context: &SourceContext, spec: CommandsSpec, launcher: Launcher) -> Self {
        context.changed();
        let status = StatusBoard::new(Arc::clone(&context.clock));
        status.set(SourceState::Ready, "");
        Self {
            stderr: Lines::new(context.id.clone(), spec.stderr, Arc::clone(&context.clock)),
            id: context.id.clone(),
            commands: spec.commands.into_iter().map(anchored).collect(),
            launcher,
            calls: Calls::new(&context.limits),
            status,
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
        let stdin = command.stdin.as_deref().map(|name| scalar(call.arguments.get(name), name));
        let input = match stdin.transpose() {
            Ok(input) => input.unwrap_or_default(),
            Err(problem) => return unfit(&problem),
        };
        let rules = support::rules(&command.confinement, Some(command.resources), &self.launcher);
        let child = ChildSpec {
            launcher: &self.launcher,
            program: command.program.clone().into(),
            arguments: arguments.into_iter().map(OsString::from).collect(),
            environment: environment(command.inherit.iter().map(String::as_str), &command.env),
            cwd: command.cwd.as_deref(),
            confinement: Some(rules.await.map_err(unavailable)?),
        };
        let max_output = command.max_output.min(call.max_result_bytes);
        let output = program::run(child, input.into_bytes(), max_output).await?;
        let secrets: Vec<_> = command.env.values().map(|value| value.0.clone()).collect();
        self.stderr.take(&output.stderr, &secrets);
        outcome(command, output)
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
        if let Some(refusal) =
            self.commands.iter().find_map(|command| refusal(&command.confinement))
        {
            discovered.problems.push(format!("the commands do not run: {refusal}"));
        }
        for command in &self.commands {
            match problem(command) {
                None => discovered.offers.push(describe(command).into()),
                Some(problem) => discovered
                    .problems
                    .push(format!("command \"{}\" is left out: {problem}", command.name)),
            }
        }
        Ok(discovered)
    }

    async fn serve(&self, permit: &Permit, operation: Operation) -> Result<Reply, UpstreamError> {
        let call = operation.into_tool_call()?;
        let name = &permit.entry().upstream_name;
        let Some(command) = self.commands.iter().find(|command| command.name == *name) else {
            return Err(unavailable("this command was removed from the source"));
        };
        let run = async {
            let _slot = self.calls.slot(permit).await?;
            call.check_again().await?;
            self.run(command, &call).await
        };
        self.calls.run(pin!(run)).await.map(Reply::Done)
    }

    fn status(&self) -> SourceStatus {
        self.status.get()
    }

    fn stderr(&self) -> Vec<StderrLine> {
        self.stderr.kept()
    }

    async fn close(&self) {
        self.calls.closed.cancel();
        self.status.set(SourceState::Stopped, "");
    }
}

/// Makes the paths of `command` absolute, independent of the working directory. It may read its
/// program and its working directory.
fn anchored(mut command: CommandSpec) -> CommandSpec {
    command.cwd = command.cwd.as_deref().map(absolute);
    anchor_confinement(&mut command.confinement);
    command.confinement.read.push(command.program.clone());
    command.confinement.read.extend(command.cwd.clone());
    command
}

/// Makes the paths of a confinement absolute.
pub(crate) fn anchor_confinement(confinement: &mut Confinement) {
    let Confinement { read, write, protected, .. } = confinement;
    for paths in [read, write] {
        *paths = paths.iter().map(|path| absolute(path)).collect();
    }
    for paths in [&mut protected.secret, &mut protected.fixed] {
        *paths = paths.iter().map(|path| absolute(path)).collect();
    }
}

fn absolute(path: &Path) -> PathBuf {
    let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    std::path::absolute(here).unwrap_or_else(|_| path.to_owned())
}

/// Why `command` cannot run now, if there is a reason.
fn problem(command: &CommandSpec) -> Option<String> {
    use rustix::fs::{Access, access};
    if access(&command.program, Access::EXEC_OK).is_err() {
        return Some(format!("{} is not a program that can be run", command.program.display()));
    }
    let cwd = command.cwd.as_deref().filter(|cwd| !cwd.is_dir())?;
    Some(format!("{} is not a directory", cwd.display()))
}

fn describe(command: &CommandSpec) -> DiscoveredOffer {
    let input_schema = command.input_schema();
    let raw = json!({
        "name": command.name,
        "title": command.title,
        "description": command.description,
        "inputSchema": input_schema,
    });
    DiscoveredOffer {
        name: command.name.clone(),
        title: command.title.clone(),
        description: command.description.clone(),
        input_schema: Some(input_schema),
        raw,
        ..DiscoveredOffer::default()
    }
}

fn outcome(command: &CommandSpec, output: Output) -> Result<Outcome, UpstreamError> {
    let Output { status, stdout, stderr } = output;
    let [stdout, stderr] = [stdout, stderr]
        .map(|bytes| without_secrets(command, String::from_utf8_lossy(&bytes).into_owned()));
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    if code.is_some_and(|code| command.success.contains(&code)) {
        return succeeded(command, &stdout);
    }
    let exit = Exit::Ended(status);
    let message = match stderr.trim() {
        "" => exit.to_string(),
        message => format!("{exit}\n{message}"),
    };
    let texts = [stdout, message].into_iter().filter(|text| !text.is_empty());
    Ok(Outcome::blocks(texts.map(|text| text_block(&text)).collect(), true))
}

fn succeeded(command: &CommandSpec, text: &str) -> Result<Outcome, UpstreamError> {
    let mut outcome = Outcome::text(text, false);
    if command.output == OutputKind::Json {
        let document: Box<RawValue> = serde_json::from_str(text.trim())
            .map_err(|error| protocol(format!("the output is not JSON: {error}")))?;
        outcome.structured = Some(document);
    }
    Ok(outcome)
}

/// Redacts the secrets of the command's environment in `text`.
fn without_secrets(command: &CommandSpec, text: String) -> String {
    let named = command.env.iter().map(|(name, value)| (&value.0, format!("[REDACTED:{name}]")));
    let long = named.filter(|(secret, _)| secret.expose().len() >= SHORT_SECRET);
    let secrets = long.map(|(secret, label)| (secret.clone(), label)).collect();
    redact::without(&text, secrets).into_owned()
}
