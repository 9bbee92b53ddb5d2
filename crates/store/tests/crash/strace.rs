//! Records the operations of a process on one folder, in order, with the program `strace`.

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The calls that change files. `?` marks those that some processors do not have.
const CALLS: &str = "trace=openat,write,pwrite64,writev,pwritev,ftruncate,truncate,fallocate,fsync,\
                     fdatasync,sync_file_range,mkdirat,unlinkat,renameat2,linkat,symlinkat,?open,\
                     ?creat,?mkdir,?rmdir,?unlink,?rename,?renameat,?link,?symlink";

/// An operation that succeeded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A file was opened, and created if it was missing.
    Open(PathBuf),
    Write {
        path: PathBuf,
        offset: usize,
        bytes: Vec<u8>,
    },
    Resize {
        path: PathBuf,
        length: usize,
    },
    /// A file or folder was synced. This covers the first `begun` operations.
    Sync {
        path: PathBuf,
        begun: usize,
    },
    CreateFolder(PathBuf),
    Remove(PathBuf),
    /// The process wrote this line to the file of acknowledgements.
    Acknowledge(String),
}

/// Returns why `strace` cannot be used, or its name.
fn find() -> Result<PathBuf, String> {
    let strace = std::env::var_os("TOOLCRIB_STRACE").map_or("strace".into(), PathBuf::from);
    let probe = ["--seccomp-bpf", "-f", "-e", "trace=fsync", "true"];
    let output = Command::new(&strace).args(probe).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(strace),
        Ok(output) => Err(format!(
            "strace cannot observe a process here: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Err(format!("strace cannot be started ({error}); install it")),
    }
}

/// Returns `strace`, or says why the test is left out.
pub(crate) fn find_or_skip() -> Option<PathBuf> {
    match find() {
        Ok(strace) => Some(strace),
        Err(why) => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "left out under CI: {why}");
            if let Some(path) = std::env::var_os("TOOLCRIB_SKIPS") {
                let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
                writeln!(file, "no power cuts: {why}").unwrap();
            }
            eprintln!("SKIPPED: no power cuts: {why}");
            None
        }
    }
}

/// What is observed: the operations below `folder`, and the lines appended to `acknowledgements`.
pub(crate) struct Observed<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) acknowledgements: &'a Path,
}

/// Runs `command` to its end, and returns its operations.
pub(crate) fn record(strace: &Path, command: &Command, observed: &Observed<'_>) -> Vec<Operation> {
    let output = observed.acknowledgements.with_extension("strace");
    let mut traced = Command::new(strace);
    // -y: the paths of descriptors. -xx -s: all bytes, in hexadecimal.
    traced.args(["--seccomp-bpf", "-f", "-y", "-xx", "-s", "1073741823", "-e", CALLS, "-o"]);
    traced.arg(&output).arg(command.get_program()).args(command.get_args());
    traced.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let status = traced.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "the traced process failed: {status}");
    parse(&fs::read_to_string(output).unwrap(), observed)
}

fn parse(trace: &str, observed: &Observed<'_>) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut unfinished: HashMap<&str, (&str, usize)> = HashMap::new();
    for line in trace.lines() {
        let (process, rest) = line.split_once(' ').unwrap();
        let rest = rest.trim_start();
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, end) = resumed.split_once(" resumed>").unwrap();
            let (start, begun) = unfinished.remove(process).unwrap();
            let whole = format!("{start}{end}");
            let call = Call::parse(&whole).unwrap();
            // An acknowledgement counts from its beginning.
            operations
                .extend(call.operation(observed, begun).filter(|it| !it.is_acknowledgement()));
        } else if let Some(start) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.insert(process, (start, operations.len()));
            let whole = format!("{start}) = 0");
            let begun = Call::parse(&whole).and_then(|it| it.operation(observed, operations.len()));
            operations.extend(begun.filter(Operation::is_acknowledgement));
        } else if let Some(call) = Call::parse(rest) {
            let begun = operations.len();
            operations.extend(call.operation(observed, begun));
        }
    }
    operations
}

/// A finished call: its name, its arguments, and whether it succeeded.
struct Call<'a> {
    name: &'a str,
    arguments: Vec<&'a str>,
    succeeded: bool,
}

// === impl Call ===

impl<'a> Call<'a> {
    /// Returns `None` for lines about signals and exits.
    fn parse(line: &'a str) -> Option<Self> {
        let (name, rest) = line.split_once('(')?;
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        if !name.chars().all(is_name) {
            return None;
        }
        // Texts are hexadecimal, so that none contains a bracket, a comma or an equals sign.
        let (arguments, result) = rest.rsplit_once(") ")?;
        let result = result.trim_start().strip_prefix("= ")?;
        let arguments = arguments.split(", ").collect();
        Some(Self { name, arguments, succeeded: !result.starts_with(['-', '?']) })
    }

    fn operation(&self, observed: &Observed<'_>, begun: usize) -> Option<Operation> {
        if !self.succeeded {
            return None;
        }
        let path = match self.name {
            "openat" | "mkdirat" | "unlinkat" => self.path_at(0),
            "open" | "mkdir" | "unlink" | "rmdir" => text(self.arguments[0]),
            _ => descriptor(self.arguments[0]),
        };
        if path == observed.acknowledgements && self.name == "write" {
            return Some(Operation::Acknowledge(
                String::from_utf8(bytes(self.arguments[1])).unwrap().trim_end().to_owned(),
            ));
        }
        if !path.starts_with(observed.folder) {
            return None;
        }
        let number = |argument: usize| self.arguments[argument].parse().unwrap();
        Some(match self.name {
            "openat" | "open" => {
                let flags = self.arguments[if self.name == "open" { 1 } else { 2 }];
                assert!(!flags.contains("O_TRUNC") && !flags.contains("O_TMPFILE"), "{flags}");
                if !flags.contains("O_CREAT") {
                    return None;
                }
                Operation::Open(path)
            }
            "pwrite64" => {
                let bytes = bytes(self.arguments[1]);
                assert_eq!(bytes.len(), number(2), "strace shortened it");
                Operation::Write { path, offset: number(3), bytes }
            }
            "ftruncate" => Operation::Resize { path, length: number(1) },
            "fsync" | "fdatasync" => Operation::Sync { path, begun },
            "mkdirat" | "mkdir" => Operation::CreateFolder(path),
            "unlinkat" | "unlink" | "rmdir" => Operation::Remove(path),
            name => panic!("the simulated disk does not know {name}: {:?}", self.arguments),
        })
    }

    /// The path of two arguments: a folder, and a path that may be relative to it.
    fn path_at(&self, first: usize) -> PathBuf {
        descriptor(self.arguments[first]).join(text(self.arguments[first + 1]))
    }
}

impl Operation {
    fn is_acknowledgement(&self) -> bool {
        matches!(self, Self::Acknowledge(_))
    }
}

/// Returns the path of `5<\x2f\x61>`.
fn descriptor(argument: &str) -> PathBuf {
    let path = argument.split_once('<').map_or("", |(_, rest)| rest.trim_end_matches('>'));
    String::from_utf8(unescape(path)).unwrap().into()
}

fn text(argument: &str) -> PathBuf {
    String::from_utf8(bytes(argument)).unwrap().into()
}

fn bytes(argument: &str) -> Vec<u8> {
    unescape(argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap())
}

/// Reads `\x2f\x61`.
fn unescape(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap();
    text.as_bytes()
        .chunks(4)
        .map(|four| {
            assert_eq!(&four[..2], b"\\x", "{text}");
            u8::try_from(digit(four[2]) * 16 + digit(four[3])).unwrap()
        })
        .collect()
}

#[test]
fn a_trace_is_read_in_order() {
    // 7<socket:[1]> is hexadecimal too; \x2f\x64 is /d, \x2f\x61 is /a.
    let trace = r#"10 openat(AT_FDCWD<\x2f>, "\x2f\x64\x2f\x66", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 5<\x2f\x64\x2f\x66>
10 openat(AT_FDCWD<\x2f>, "\x2f\x64\x2f\x67", O_RDWR|O_CREAT|O_EXCL, 0600) = -1 EEXIST (File exists)
10 pwrite64(5<\x2f\x64\x2f\x66>, "\x01\x02", 2, 4096) = 2
10 fdatasync(5<\x2f\x64\x2f\x66> <unfinished ...>
11 write(7<\x2f\x61>, "\x61\x0a", 2 <unfinished ...>
12 ftruncate(5<\x2f\x64\x2f\x66>, 3) = 0
10 <... fdatasync resumed>)          = 0
11 <... write resumed>)              = 2
12 write(1<\x2f\x78>, "\x61\x0a", 2) = 2
12 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
12 unlink("\x2f\x64\x2f\x66")        = 0
12 +++ exited with 0 +++
"#;
    let observed = Observed { folder: Path::new("/d"), acknowledgements: Path::new("/a") };
    let path = || PathBuf::from("/d/f");
    let expected = [
        Operation::Open(path()),
        Operation::Write { path: path(), offset: 4096, bytes: vec![1, 2] },
        Operation::Acknowledge("a".to_owned()),
        Operation::Resize { path: path(), length: 3 },
        Operation::Sync { path: path(), begun: 2 },
        Operation::Remove(path()),
    ];
    assert_eq!(parse(trace, &observed), expected);
}
