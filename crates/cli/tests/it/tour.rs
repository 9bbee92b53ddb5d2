//! `try`: the whole tour as a program and as a person runs it, and what it leaves behind.
#![expect(clippy::disallowed_methods, reason = "runs the command lines that the tour prints")]

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use rustix::{process::Signal, pty};
use serde_json::Value;

use crate::support::{Process, dir, eventually, finish, run, signal_pid, toolcrib};

const NAMES: [&str; 5] = ["list", "explain", "approve", "quarantine", "prove"];

/// `try` with `args`; its temporary directories are in `dir`.
fn tour(dir: &Path, args: &[&str]) -> Command {
    let mut command = toolcrib(dir);
    command.arg("try").args(args).env("TMPDIR", dir);
    command
}

/// Returns whether a process has `dir` as its directory for temporary files.
fn is_used(dir: &Path) -> bool {
    let variable = format!("TMPDIR={}", dir.display());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("environ")).ok())
        .any(|environment| environment.split(|&byte| byte == 0).any(|it| it == variable.as_bytes()))
}

/// Waits until no process of a tour in `dir` runs and its port is free; its files must be gone.
fn nothing_is_left(dir: &Path, url: &str) {
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "files are left in {}", dir.display());
    eventually("no process is left", || !is_used(dir));
    TcpListener::bind(url.strip_prefix("http://").unwrap()).unwrap();
}

/// The address of the tour's server in `text`.
fn url(text: &str) -> String {
    let start = text.find("http://127.0.0.1:").unwrap_or_else(|| panic!("{text}"));
    let port = text[start + "http://127.0.0.1:".len()..].chars().take_while(char::is_ascii_digit);
    format!("http://127.0.0.1:{}", port.collect::<String>())
}

/// The commands of a step: command line, exit code, and both outputs.
fn commands(step: &Value) -> Vec<(String, i64, String)> {
    let commands = step["commands"].as_array().unwrap().iter();
    commands
        .map(|it| {
            let text = |member: &str| it[member].as_str().unwrap().to_owned();
            (text("command"), it["exitCode"].as_i64().unwrap(), text("stdout") + &text("stderr"))
        })
        .collect()
}

#[test]
fn each_step_shows_what_it_says() {
    let dir = dir();
    let ran = finish(&mut tour(dir.path(), &["--json"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    let steps: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, NAMES);
    for (index, step) in steps.iter().enumerate() {
        assert_eq!((&step["step"], &step["of"]), (&(index + 1).into(), &5.into()));
        assert!(step["problem"].is_null() && step["shown"].is_string(), "{step}");
        assert!(step["sentence"].is_string() && step["title"].is_string(), "{step}");
    }
    let at = |step: usize, command: usize| commands(&steps[step])[command].clone();
    let codes =
        |step: usize| -> Vec<i64> { commands(&steps[step]).iter().map(|it| it.1).collect() };

    // Two callers, two lists.
    assert_eq!(codes(0), [0, 0]);
    let (admin, reader) = (at(0, 0), at(0, 1));
    assert!(admin.0.ends_with("--key-file admin.key tools list"), "{}", admin.0);
    assert!(reader.0.ends_with("--key-file reader.key tools list"), "{}", reader.0);
    assert!(admin.2.contains("demo__wipe") && !reader.2.contains("demo__wipe"));
    assert!(admin.2.lines().count() > reader.2.lines().count() && reader.2.contains("demo__echo"));

    // A denial: what is missing, and who has it.
    assert_eq!(codes(1), [1, 1, 0]);
    assert!(at(1, 1).2.contains("missing: `demo:write`"), "{}", at(1, 1).2);
    let shown = steps[1]["shown"].as_str().unwrap();
    assert!(shown.contains("lacks the scope `demo:write`") && shown.contains("key of `admin`"));

    // An approval.
    assert_eq!(codes(2), [1, 0, 0, 0]);
    assert!(at(2, 0).2.contains("approval required"), "{}", at(2, 0).2);
    assert!(at(2, 1).0.contains("approver.key") && at(2, 1).2.contains("pending  admin"));
    assert_eq!(at(2, 0).0, at(2, 3).0, "the same call runs after the grant");
    assert_eq!(at(2, 3).2, "nothing was deleted\n");

    // Quarantine.
    assert_eq!(codes(3), [0, 0, 1, 0, 0]);
    let diff = at(3, 1).2;
    assert!(diff.contains("changed, quarantined until it is approved"), "{diff}");
    assert!(diff.contains("- Answers the text it was given."), "{diff}");
    assert!(diff.contains("+ Answers the text it was given, in capitals if"), "{diff}");
    assert_eq!(at(3, 4).2, "HELLO\n");

    // The record.
    assert_eq!(codes(4), [0, 0, 0, 0, 1]);
    assert!(at(4, 0).2.ends_with("verified, nothing was changed\n"), "{}", at(4, 0).2);
    let found = at(4, 4).2;
    assert!(found.contains("was changed (run ") && found.contains("1 finding"), "{found}");
    let position = found.split("demo at position ").nth(1).unwrap();
    let position: u64 = position.split(':').next().unwrap().parse().unwrap();
    let shown = steps[4]["shown"].as_str().unwrap();
    assert!(shown.contains(&format!("found event {position} ")), "{shown}\n{found}");
    nothing_is_left(dir.path(), &url(&ran.stdout));
}

#[test]
fn without_a_terminal_it_goes_through_all_steps() {
    let (dir, elsewhere) = (dir(), dir());
    // The configuration and the store of the place are not touched, and settings do not get in.
    fs::write(elsewhere.path().join("toolcrib.toml"), "nonsense").unwrap();
    let mut command = tour(dir.path(), &["-q"]);
    command.current_dir(elsewhere.path()).env("TOOLCRIB_DATA_DIR", elsewhere.path());
    command.env("TOOLCRIB_KEY", "tc_wrong");
    let ran = finish(&mut command).ok();
    for number in 1..=5 {
        assert!(ran.stdout.contains(&format!("{number} of 5: ")), "{}", ran.stdout);
    }
    assert!(ran.stdout.contains("(exit code 1)") && ran.stdout.contains("toolcrib serve --demo"));
    assert!(!ran.stdout.contains("Enter") && !ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    nothing_is_left(dir.path(), &url(&ran.stdout));
}

#[test]
fn options_that_it_does_not_use_are_named() {
    let dir = dir();
    let missing = dir.path().join("missing");
    let mut command = tour(dir.path(), &["--url", "http://127.0.0.1:1"]);
    let ran = finish(command.env("TMPDIR", &missing));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("--url is not used"), "{}", ran.stderr);
    assert!(ran.stderr.contains("a directory cannot be created in"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: set TMPDIR"), "{}", ran.stderr);
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let dir = dir();
        let mut process = Process::start(&mut tour(dir.path(), &[]));
        let url = process.until("the first step", |process| {
            let shown = process.stdout();
            shown.contains("1 of 5").then(|| url(&shown))
        });
        process.signal(signal);
        assert_eq!(process.ended().code(), Some(code), "{}", process.stderr());
        nothing_is_left(dir.path(), &url);
    }
}

#[test]
fn a_signal_during_the_start_leaves_nothing() {
    let dir = dir();
    let mut process = Process::start(&mut tour(dir.path(), &[]));
    process.until("the store", |_| {
        let folder = fs::read_dir(dir.path()).unwrap().flatten().next()?.path();
        folder.join(".toolcrib").exists().then_some(())
    });
    process.signal(Signal::TERM);
    assert_eq!(process.ended().code(), Some(143), "{}", process.stderr());
    eventually("no process is left", || !is_used(dir.path()));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn its_server_ends_with_it_even_if_it_is_killed() {
    // I-26
    let dir = dir();
    let mut process = Process::start(&mut tour(dir.path(), &[]));
    let url = process.until("the first step", |process| {
        let shown = process.stdout();
        shown.contains("1 of 5").then(|| url(&shown))
    });
    process.kill();
    eventually("no process is left", || !is_used(dir.path()));
    TcpListener::bind(url.strip_prefix("http://").unwrap()).unwrap();
}

/// A program on a terminal.
struct Terminal {
    child: Child,
    input: File,
    shown: Arc<Mutex<String>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        let ours = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
        pty::grantpt(&ours).unwrap();
        pty::unlockpt(&ours).unwrap();
        let name = pty::ptsname(&ours, Vec::new()).unwrap();
        let open = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let streams: [Stdio; 3] = [open().into(), open().into(), open().into()];
        let [stdin, stdout, stderr] = streams;
        command.env("NO_COLOR", "1").env("TERM", "dumb");
        let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap();
        // It holds copies of the terminal's other end.
        drop(command);
        let input = File::from(ours);
        let (mut output, shown) = (input.try_clone().unwrap(), Arc::new(Mutex::new(String::new())));
        let all = Arc::clone(&shown);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the program is an error here.
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                all.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self { child, input, shown, reader: Some(reader) }
    }

    fn shown(&self) -> String {
        self.shown.lock().unwrap().replace("\r\n", "\n")
    }

    fn wait_for(&self, text: &str, times: usize) {
        eventually(text, || self.shown().matches(text).count() >= times);
    }

    fn enter(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.reader.take().unwrap().join().unwrap();
        (code, self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const QUESTION: &str = "Enter: next, q: end";

#[test]
fn on_a_terminal_it_waits_and_q_ends_it() {
    let dir = dir();
    let mut terminal = Terminal::start(tour(dir.path(), &[]));
    terminal.wait_for(QUESTION, 1);
    assert!(!terminal.shown().contains("2 of 5"), "{}", terminal.shown());
    terminal.enter("");
    terminal.wait_for(QUESTION, 2);
    terminal.enter("q");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("2 of 5") && !shown.contains("3 of 5"), "{shown}");
    nothing_is_left(dir.path(), &url(&shown));
}

/// The process of the server that a tour in `dir` has started.
fn server_of(dir: &Path) -> u32 {
    let variable = format!("TMPDIR={}", dir.display());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let found = processes.filter(|process| {
        let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
        let arguments = read("cmdline");
        let mut arguments = arguments.split(|&byte| byte == 0);
        arguments.nth(1) == Some(b"serve")
            && read("environ").split(|&byte| byte == 0).any(|it| it == variable.as_bytes())
    });
    let ids: Vec<u32> =
        found.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    ids[0]
}

#[test]
fn a_step_that_fails_is_named() {
    let dir = dir();
    let mut terminal = Terminal::start(tour(dir.path(), &[]));
    terminal.wait_for(QUESTION, 1);
    signal_pid(server_of(dir.path()), Signal::KILL);
    terminal.enter("");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("error: step 2 (explain) failed: the call of `reader`"), "{shown}");
    assert!(shown.contains("does not answer") && shown.contains("hint: "), "{shown}");
    nothing_is_left(dir.path(), &url(&shown));
}

#[test]
fn its_command_lines_work_in_a_second_terminal() {
    let dir = dir();
    let mut terminal = Terminal::start(tour(dir.path(), &[]));
    for step in 1..5 {
        terminal.wait_for(QUESTION, step);
        terminal.enter("");
    }
    terminal.wait_for("until you press Enter: ", 1);
    let shown = terminal.shown();
    let lines: Vec<&str> = shown.lines().collect();
    let folder = lines.iter().find_map(|line| line.strip_prefix("  cd ")).unwrap();
    let second = |line: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(folder);
        finish(&mut shell)
    };
    let typed: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert_eq!(typed.len(), 19, "{typed:#?}");
    let altered = Path::new(folder).join("altered.jsonl");
    let made = fs::read(&altered).unwrap();
    for line in &typed {
        // An approval can be given once.
        let is_once = ["approvals grant", "tools approve", "call demo__wipe"];
        if !is_once.iter().any(|words| line.contains(words)) {
            let is_denied = line.contains("reader.key") && !line.ends_with("tools list");
            let finds = line.contains("--file altered.jsonl");
            let ran = second(line);
            assert_eq!(ran.code, i32::from(is_denied || finds), "{line}\n{ran:?}");
        }
    }
    // The record has more events now, but the edit is that of the same line.
    let again = fs::read(&altered).unwrap();
    let first = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
    let (made, again): (Vec<String>, Vec<String>) = (first(&made), first(&again));
    let edited = |lines: &[String]| {
        lines.iter().any(|line| {
            line.contains("mcp:demo.wipe")
                && line.contains("agent.toolCalled")
                && line.contains("\"principal\":\"reader\"")
        })
    };
    assert!(edited(&made) && edited(&again), "{typed:#?}");

    terminal.enter("");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Where to go next") && shown.contains("toolcrib init"), "{shown}");
    assert!(shown.contains("its files are removed"), "{shown}");
    nothing_is_left(dir.path(), &url(&shown));
}

#[test]
fn a_tool_of_the_demo_changes_and_changes_back() {
    let dir = dir();
    let none = run(dir.path(), &["demo", "change"]);
    assert!(none.code == 1 && none.stderr.contains("no demo found"), "{none:?}");
    let data = dir.path().join(".toolcrib");
    let server = crate::support::Server::demo(&data);
    let key = crate::support::demo_key(&data, "admin");
    let remote =
        |args: &[&str]| run(dir.path(), &[&["--url", &server.url, "--key", &key], args].concat());
    let is_offered = || remote(&["tools", "list"]).ok().stdout.contains("demo__echo");
    assert!(is_offered());
    let changed = run(dir.path(), &["demo", "change", "--json"]).ok().json();
    assert_eq!(changed["changed"], true, "{changed}");
    eventually("it is quarantined", || !is_offered());
    run(dir.path(), &["demo", "change", "--undo"]).ok();
    eventually("it is offered again", is_offered);
    run(dir.path(), &["demo", "change", "--undo"]).ok();
    assert_eq!(remote(&["call", "demo__echo", "text=hi"]).ok().stdout, "hi\n");
}
