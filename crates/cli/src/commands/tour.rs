//! `try`: a tour in five steps on a temporary demo.
//!
//! The demo's server and every command that the tour shows are runs of this program. The texts below the
//! commands are their output; nothing is prepared.
//!
//! Invariant: the server, its port and the temporary directory are removed when the command exits,
//! also after a signal. A reaper stops the server if this process is killed; then the directory
//! stays.

mod folder;
mod record;
mod stage;
mod steps;

use std::{io::IsTerminal as _, path::Path};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use toolcrib_sources::{OwnProgram, OwnServer};

use crate::{
    args::{GlobalOptions, TryArgs},
    confined,
    context::Context,
    demo, env,
    failure::{Exit, advised},
    meter::Spinner,
    printer::Printer,
    settings::DATA_DIR,
};

use folder::Folder;
use stage::{Outcome, Stage};
use steps::STEPS;

/// Exit code after a signal: 128 plus the number of the signal.
const SIGNALLED: u8 = 128;
/// The narrowest tables. The steps read names in them, which would be shortened.
const MIN_COLUMNS: u16 = 110;

pub(crate) async fn run(args: &TryArgs, cx: &Context) -> anyhow::Result<Exit> {
    let printer = cx.printer;
    note_unused(&cx.global, printer);
    let mut signals = Signals::catch()?;
    let folder = Folder::create()?;
    let started = tokio::select! {
        started = start(folder.path(), printer) => started,
        code = signals.next() => return Ok(Exit::Code(code)),
    };
    let (program, server, url) = started?;
    let ended = tokio::select! {
        ended = steps(args, folder.path(), &program, &url, printer) => ended,
        code = signals.next() => Ok(Exit::Code(code)),
    };
    let messages = server.last_messages();
    server.stop().await;
    drop(folder);
    if ended.is_err() && !messages.is_empty() {
        printer.detail(format_args!("the last messages of the demo's server:\n{messages}"));
    }
    let exit = ended?;
    if exit == Exit::Done && !printer.wants_json() {
        printer.line(NEXT)?;
    }
    Ok(exit)
}

/// Reports options that the tour does not use, because it brings its own server.
fn note_unused(global: &GlobalOptions, printer: Printer) {
    let given = [
        ("--config", global.config.is_some()),
        ("--data-dir", global.data_dir.is_some()),
        ("--url", global.url.is_some()),
    ];
    for (option, _) in given.iter().filter(|(_, is_given)| *is_given) {
        printer.note(format_args!("the tour brings its own server, so {option} is not used"));
    }
}

/// Starts the demo's server in `folder`, and writes its keys to files. Also returns the URL.
async fn start(folder: &Path, printer: Printer) -> anyhow::Result<(OwnProgram, OwnServer, String)> {
    let _spinner = Spinner::start(printer, "starting a demo");
    let mut environment = Vec::new();
    if let Some((columns, _)) = terminal_size::terminal_size_of(std::io::stdout()) {
        environment.push(("COLUMNS".to_owned(), columns.0.max(MIN_COLUMNS).to_string()));
    }
    let launcher = confined::launcher();
    let program = OwnProgram { launcher, directory: folder.to_path_buf(), environment };
    let arguments = ["serve", "--demo", "--no-history", "--listen", "127.0.0.1:0"];
    let (server, url) = program.serve(&arguments, "listening on ").await.map_err(|why| {
        advised(
            format!("the demo's server did not start: {why}"),
            "`toolcrib serve --demo --listen 127.0.0.1:0` shows all its messages",
        )
    })?;
    demo::write_key_files(&folder.join(DATA_DIR), folder)?;
    Ok((program, server, url))
}

/// The signals that stop the tour. The handlers stay installed between two waits, so no signal is
/// lost.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn catch() -> anyhow::Result<Self> {
        let catch = |kind| signal(kind).context("signal handlers cannot be installed");
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hangup: catch(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal, and returns the exit code of the tour.
    async fn next(&mut self) -> u8 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        };
        SIGNALLED.saturating_add(u8::try_from(kind.as_raw_value()).unwrap_or_default())
    }
}

/// Shows the steps one after the other.
async fn steps(
    args: &TryArgs,
    folder: &Path,
    program: &OwnProgram,
    url: &str,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let is_terminal = printer.can_ask() && std::io::stdout().is_terminal();
    let waits = is_terminal && !args.yes && !printer.wants_json();
    let name = shown_name();
    if !printer.wants_json() {
        let introduction = format!(
            "A tour in {} steps. A demo runs for it at {url}, with sample tools and the callers `admin`, \
             `reader` and `approver`. To repeat a command in a second terminal, go to the \
             demo's directory first:",
            STEPS.len(),
        );
        let directory = record::quoted(&folder.display().to_string());
        printer.line(format_args!("{}\n\n  cd {directory}", stage::wrapped(&introduction)))?;
    }
    for (index, step) in STEPS.iter().enumerate() {
        if index > 0 && waits && !is_continued("Enter: next, q: end ", printer).await? {
            return Ok(Exit::Done);
        }
        let number = (index + 1, STEPS.len());
        let mut stage = Stage::new(program, &name, url, &step.heading, number, printer);
        stage.begin()?;
        let result = (step.show)(&mut stage).await;
        if let Outcome::Failed(problem) = stage.end(result)? {
            let name = step.heading.name;
            return Err(advised(
                format!("step {} ({name}) failed: {problem}", number.0),
                "please report it with the output of `toolcrib try --json`",
            ));
        }
    }
    if waits {
        is_continued("The tour is complete. The demo runs until you press Enter: ", printer)
            .await?;
    }
    Ok(Exit::Done)
}

/// The next steps after the tour.
const NEXT: &str = "
The server of this tour is stopped, and its files are removed. Where to go next:
  toolcrib serve --demo    keep a demo; it prints a link to its console in the browser
  toolcrib init            write a toolcrib.toml from the MCP clients on this machine
  toolcrib --help          all commands
  docs/start/              ten minutes in your role: platform-engineer.md, agent-developer.md,
                           approver.md, auditor.md";

/// Prints `question` and waits for a line of the user; returns whether the tour continues.
async fn is_continued(question: &'static str, printer: Printer) -> anyhow::Result<bool> {
    let line =
        tokio::task::spawn_blocking(move || printer.answer(&format!("\n{question}"))).await??;
    // Closing the input stops the tour too.
    Ok(line.is_some_and(|line| !line.trim().eq_ignore_ascii_case("q")))
}

/// The command by which users start this program: its name if that is found in PATH, or else its
/// path.
fn shown_name() -> String {
    const NAME: &str = "toolcrib";
    let Ok(own) = std::env::current_exe() else { return NAME.to_owned() };
    let path = env::variable("PATH").unwrap_or_default();
    let first =
        std::env::split_paths(&path).map(|folder| folder.join(NAME)).find(|file| file.is_file());
    let is_own = first.and_then(|file| file.canonicalize().ok()) == own.canonicalize().ok();
    if is_own { NAME.to_owned() } else { record::quoted(&own.display().to_string()) }
}
