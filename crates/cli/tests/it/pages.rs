//! The commands of README.md, docs/start and docs/guides, run as a reader runs them.
//!
//! A fenced block `console test` is run. Each line with a leading `$ ` is a command of one shell
//! session per page; the lines below it must appear in its output, where `…` matches any text. A
//! command exits with 0 unless it ends in `# exits N`. `toolcrib serve` starts a server on a free
//! port; its address replaces 127.0.0.1:8808 in the commands that follow. A block with `file=NAME`
//! is written to the directory of the session.
#![expect(clippy::disallowed_methods, reason = "starts a shell with the commands of a page")]

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::support::{PROGRAM, Server, dir, search_path, toolcrib};

/// The time in which a reader types a command.
const TYPING: Duration = Duration::from_secs(3);
/// One command, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);
/// The address in the pages.
const ADDRESS: &str = "127.0.0.1:8808";
const FOLDERS: [&str; 2] = ["docs/start", "docs/guides"];

/// A test for each page, and their list.
macro_rules! pages {
    ($($name:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $name() {
                play($page);
            }
        )*
    };
}

pages! {
    the_commands_of_the_readme_run: "README.md",
    the_commands_of_the_install_page_run: "docs/start/install.md",
    the_commands_for_platform_engineers_run: "docs/start/platform-engineer.md",
    the_commands_for_agent_developers_run: "docs/start/agent-developer.md",
    the_commands_for_approvers_run: "docs/start/approver.md",
    the_commands_for_auditors_run: "docs/start/auditor.md",
    the_commands_for_workflows_run: "docs/guides/workflows.md",
    the_commands_for_node_packs_run: "docs/guides/node-packs.md",
    the_commands_for_credentials_run: "docs/guides/credentials.md",
    the_commands_for_migrating_run: "docs/guides/migrate.md",
    the_messages_of_troubleshooting_appear: "docs/guides/troubleshooting.md",
}

#[test]
fn every_page_with_marked_commands_is_run() {
    let mut marked = BTreeSet::from(["README.md".to_owned()]);
    for folder in FOLDERS {
        for entry in fs::read_dir(tree().join(folder)).unwrap() {
            let page = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
            // The pages of clients are in a folder, and have no such commands.
            if !page.ends_with(".md") {
                continue;
            }
            if !blocks(&fs::read_to_string(tree().join(&page)).unwrap()).is_empty() {
                marked.insert(page);
            }
        }
    }
    assert_eq!(marked, PAGES.iter().map(|page| (*page).to_owned()).collect());
}

#[test]
fn commands_and_files_are_read_from_a_page() {
    let page = "```console\n$ no\n```\n```console test\n$ a \\\n  b   # exits 3\nx … y\n$ c\n```\n\
                ```toml file=f.toml\nk = 1\n```\n";
    let [Block::Commands(commands), Block::File { name, text }] = &blocks(page)[..] else {
        panic!("{:?}", blocks(page))
    };
    assert_eq!((commands[0].text.as_str(), commands[0].code), ("a   b", 3));
    assert_eq!((&commands[0].output[..], commands[1].code), (&["x … y".to_owned()][..], 0));
    assert_eq!((name.as_str(), text.as_str()), ("f.toml", "k = 1\n"));
    assert!(appears("x … y", "1\nx  2 y\n") && !appears("x … y", "y x\n"));
}

/// A block of a page to run.
#[derive(Debug)]
enum Block {
    Commands(Vec<Step>),
    File { name: String, text: String },
}

#[derive(Debug)]
struct Step {
    text: String,
    code: i32,
    output: Vec<String>,
}

/// The value of `PATH` with the program under test.
fn with_program() -> OsString {
    search_path(Path::new(PROGRAM).parent().unwrap())
}

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The marked blocks of a page, in order.
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let body: Vec<&str> =
            lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
        let file = info.split(' ').find_map(|word| word.strip_prefix("file="));
        if info == "console test" {
            found.push(Block::Commands(steps(&body)));
        } else if let Some(name) = file {
            let text = body.iter().flat_map(|line| [*line, "\n"]).collect();
            found.push(Block::File { name: name.to_owned(), text });
        }
    }
    found
}

fn steps(body: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = body.iter();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else {
            let step = steps.last_mut().expect("a block begins with a command");
            step.output.push((*line).to_owned());
            continue;
        };
        let mut text = first.to_owned();
        while let Some(open) = text.strip_suffix('\\') {
            text = format!("{open}{}", lines.next().expect("a command ends"));
        }
        let (text, code) = match text.rsplit_once("# exits ") {
            Some((text, code)) => (text.trim_end().to_owned(), code.parse().unwrap()),
            None => (text, 0),
        };
        steps.push(Step { text, code, output: Vec::new() });
    }
    assert!(!steps.is_empty(), "a block without commands");
    steps
}

/// Runs all blocks of a page in one session.
fn play(page: &str) {
    let text = fs::read_to_string(tree().join(page)).unwrap();
    let mut session = Session { folder: dir(), server: None };
    fs::create_dir(session.folder.path().join("page")).unwrap();
    for block in blocks(&text) {
        match block {
            Block::File { name, text } => session.write(&name, &text),
            Block::Commands(steps) => {
                for step in steps {
                    let output = session.run(&step, page);
                    for line in step.output {
                        let shown = &step.text;
                        assert!(
                            appears(&line, &output),
                            "{page}: {shown}\nlacks: {line}\n{output}"
                        );
                    }
                }
            }
        }
    }
    if let Some(server) = session.server {
        server.stop();
    }
}

/// Whether some line of `output` has the parts of `line` between `…` in this order. The amount of
/// white space does not matter.
fn appears(line: &str, output: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = words(line);
    let parts: Vec<&str> = line.split('…').map(str::trim).collect();
    output.lines().map(words).any(|text| {
        parts
            .iter()
            .try_fold(text.as_str(), |rest, part| {
                rest.find(part).and_then(|at| rest.get(at + part.len()..))
            })
            .is_some()
    })
}

struct Session {
    folder: TempDir,
    server: Option<Server>,
}

impl Session {
    fn write(&self, name: &str, text: &str) {
        let file = self.folder.path().join("page").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// The output of a command that ended as the page says.
    fn run(&mut self, step: &Step, page: &str) -> String {
        if let Some(arguments) = step.text.strip_prefix("toolcrib serve") {
            return self.serve(arguments);
        }
        let root = self.folder.path();
        let address = self.server.as_ref().map(|it| it.url.trim_start_matches("http://"));
        let text = step.text.replace(ADDRESS, address.unwrap_or(ADDRESS));
        // Variables and the directory carry over to the next command.
        let script = format!(
            "cd page; [ -e ../state ] && . ../state && cd \"$(cat ../folder)\"\n\
             trap 'code=$?; export -p >\"$SESSION/state\"; pwd >\"$SESSION/folder\"; exit $code' EXIT\n\
             set -a\n{text}\n"
        );
        let output = File::create(root.join("output")).unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir(root).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        for variable in ["CONFIG", "DATA_DIR", "URL", "KEY", "LOG"] {
            command.env_remove(format!("TOOLCRIB_{variable}"));
        }
        let mut child = command
            .env("SESSION", root)
            .env("PATH", with_program())
            .env("COLUMNS", "200")
            .process_group(0)
            .spawn()
            .unwrap();
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    let group = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
                    kill_process_group(group, Signal::KILL).unwrap();
                    child.wait().unwrap();
                    panic!("{page}: {text}\ndid not end within {LIMIT:?}");
                }
                None => thread::sleep(POLL),
            }
        };
        let output = fs::read_to_string(root.join("output")).unwrap();
        assert_eq!(status.code(), Some(step.code), "{page}: {text}\n{output}");
        output.replace(address.unwrap_or(ADDRESS), ADDRESS)
    }

    fn serve(&mut self, arguments: &str) -> String {
        let mut command = toolcrib(&self.folder.path().join("page"));
        command.arg("serve").args(arguments.split_whitespace()).args(["--listen", "127.0.0.1:0"]);
        let mut server = Server::of(command.env("PATH", with_program()));
        // A reader types the next command later than the sources are read.
        let typed = Instant::now() + TYPING;
        while Instant::now() < typed && !server.process.stderr().contains("catalog refreshed") {
            thread::sleep(POLL);
        }
        if arguments.contains("--demo") {
            // A reader takes longer than the demo for its own calls.
            let made = "the demo has made its history";
            server.process.until(made, |it| it.stderr().contains(made).then_some(()));
        }
        let output = server.process.stdout();
        let output = output.replace(server.url.trim_start_matches("http://"), ADDRESS);
        self.server = Some(server);
        output
    }
}
