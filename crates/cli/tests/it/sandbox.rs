//! The effects of system calls of a program in a sandbox: as root, as an ordinary user, and where the
//! system has no user namespaces. The calls are those of `sandbox.py`.

use std::{
    collections::BTreeMap,
    fs,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::{fs::XattrFlags, process::geteuid};
use serde_json::{Value, json};

use crate::support::{
    CommandOutput, PROGRAM, SIGNING_KEY, dir, eventually, finish, write_private, write_seal_key,
};

/// `nobody`.
const ORDINARY: u32 = 65534;

/// Who runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Root,
    /// The user of the tests, or `nobody` where the tests run as root.
    Ordinary,
    /// An ordinary user that may create no user namespace.
    WithoutNamespaces,
}

impl User {
    fn id(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::Ordinary | Self::WithoutNamespaces if geteuid().is_root() => ORDINARY,
            Self::Ordinary | Self::WithoutNamespaces => geteuid().as_raw(),
        }
    }

    /// Returns `program` as a command of this user.
    fn command(self, program: &str) -> Command {
        let id = self.id().to_string();
        let mut words: Vec<&str> = Vec::new();
        if self.id() != geteuid().as_raw() {
            words.extend(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"]);
        }
        if self == Self::WithoutNamespaces {
            // The limit of a user namespace holds for the namespaces in it.
            let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
            words.extend(["unshare", "--user", "--map-current-user", "--keep-caps"]);
            words.extend(["sh", "-c", script]);
        }
        words.push(program);
        #[expect(clippy::disallowed_methods, reason = "the test starts the program under test")]
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    }
}

/// A directory with a configuration, keys and a store, which `user` owns.
struct Place {
    user: User,
    dir: tempfile::TempDir,
    /// The program, in a directory that every user may enter.
    program: tempfile::TempDir,
}

/// Everything that a sandbox must leave as it is.
const GUARDED: [&str; 6] = [
    "seal.key",
    "signing.key",
    "toolcrib.toml",
    ".toolcrib",
    ".toolcrib/toolcrib.db",
    "shared/note",
];

impl Place {
    fn new(user: User, head: &str) -> Self {
        let dir = dir();
        let there = dir.path();
        for name in ["shared", "written"] {
            fs::create_dir(there.join(name)).unwrap();
        }
        fs::write(there.join("shared/note"), "a note").unwrap();
        fs::write(there.join("shared/sandbox.py"), include_str!("sandbox.py")).unwrap();
        write_seal_key(there);
        write_private(&there.join("signing.key"), SIGNING_KEY);
        let base = there.display();
        let config = format!(
            r#"{head}
[store]
seal_key = {{ file = "seal.key" }}
[record]
signing_key = {{ file = "signing.key" }}
[[source]]
id = "ops"
kind = "host-extension"
[source.commands.nothing]
program = "/bin/true"
[source.commands.attack]
program = "/usr/bin/python3"
args = ["-I", "{base}/shared/sandbox.py", "{base}", "{{victim}}", "{base}/written", "{{port}}"]
sandbox = {{ read = ["shared"], write = ["written"] }}
parameters = {{ victim = {{ type = "integer" }}, port = {{ type = "integer" }} }}
[source.commands.shell]
program = "/bin/sh"
args = ["-c", "{{script}}"]
cwd = "written"
sandbox = {{ write = ["written"] }}
parameters = {{ script = {{ type = "string" }} }}
[source.tools."*"]
scopes = []
approval = "never"
approval_reason = "they are for tests"
"#
        );
        write_private(&there.join("toolcrib.toml"), &config);
        let program = tempfile::tempdir().unwrap();
        fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let here = program.path().join("toolcrib");
        fs::hard_link(PROGRAM, &here).or_else(|_| fs::copy(PROGRAM, &here).map(drop)).unwrap();
        let place = Self { user, dir, program };
        place.give(place.dir.path());
        place
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Makes the user the owner of everything in `path`.
    fn give(&self, path: &Path) {
        std::os::unix::fs::chown(path, Some(self.user.id()), Some(self.user.id())).unwrap();
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap().flatten() {
                self.give(&entry.path());
            }
        }
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        let program = self.program.path().join("toolcrib");
        let mut command = self.user.command(program.to_str().unwrap());
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for name in ["CONFIG", "DATA_DIR", "URL", "KEY", "LOG"] {
            command.env_remove(format!("TOOLCRIB_{name}"));
        }
        finish(&mut command)
    }

    fn call(&self, tool: &str, arguments: &Value) -> CommandOutput {
        self.run(&["call", "-v", &format!("ops__{tool}"), &arguments.to_string()])
    }

    /// Mode, owners, a mark, and for files of the operator their times and content.
    fn state(&self) -> BTreeMap<&'static str, String> {
        GUARDED.into_iter().map(|name| (name, state(&self.path().join(name)))).collect()
    }
}

fn state(path: &Path) -> String {
    let about = fs::symlink_metadata(path).unwrap();
    let mut mark = [0; 8];
    let mark = ["user.kept", "user.mark"]
        .map(|name| rustix::fs::getxattr(path, name, &mut mark[..]).is_ok());
    let changes = !path.components().any(|part| part.as_os_str() == ".toolcrib");
    let content = changes.then(|| (about.mtime(), fs::read(path).unwrap()));
    format!("{:o} {} {} {mark:?} {content:?}", about.mode(), about.uid(), about.gid())
}

/// Another process of the user, and an abstract socket that it listens on.
struct Victim {
    process: Child,
    _socket: UnixListener,
}

impl Victim {
    fn new(user: User) -> Self {
        let process = user.command("sleep").arg("1000").spawn().unwrap();
        let name = format!("toolcrib-{}", process.id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let victim = Self { process, _socket: UnixListener::bind_addr(&address).unwrap() };
        eventually("the victim is that program", || victim.state().starts_with("(sleep) S"));
        victim
    }

    /// Name, life, limits, priority, policy and processors.
    fn state(&self) -> String {
        let proc = PathBuf::from(format!("/proc/{}", self.process.id()));
        let read = |name: &str| fs::read_to_string(proc.join(name)).unwrap();
        let stat = read("stat");
        let fields: Vec<_> = stat.split_whitespace().collect();
        let life = fields[1..3].join(" ");
        let status = read("status");
        let processors = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
        format!("{life} {} {:?} {} {processors:?}", read("limits"), &fields[17..19], fields[40])
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Errors of a refusal. Others would mean that the call was made, with arguments that do not fit.
const REFUSALS: [&str; 5] = ["EPERM", "EACCES", "EROFS", "ENOSYS", "EXDEV"];

const UNSUPPORTED: [&str; 4] = ["EPERM", "EROFS", "ENOTTY", "ENOTSUP"];

fn no_call_reaches_beyond(user: User) {
    let place = Place::new(user, "[sources]\nsandbox_as_root = true\n");
    place.call("nothing", &json!({})).ok();
    for name in GUARDED {
        let path = place.path().join(name);
        rustix::fs::setxattr(&path, "user.kept", b"x", XattrFlags::empty()).unwrap();
    }
    let victim = Victim::new(if user == User::Root { user } else { User::Ordinary });
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let before = (place.state(), victim.state());
    let port = listener.local_addr().unwrap().port();
    let ran = place.call("attack", &json!({ "victim": victim.process.id(), "port": port })).ok();
    let report = ran.json();
    let names = |key: &str| -> Vec<String> { serde_json::from_value(report[key].clone()).unwrap() };
    let (allowed, metadata) = (names("allowed"), names("metadata"));
    let results: BTreeMap<String, String> =
        serde_json::from_value(report["results"].clone()).unwrap();
    for (name, result) in results {
        let readable = name == "open shared/note";
        let expected: &[&str] = match user {
            _ if readable || allowed.contains(&name) => &["done"],
            User::Root | User::Ordinary if metadata.contains(&name) => &["done"],
            // The mount is read-only, and not every file system has the request.
            User::Root | User::Ordinary if name.starts_with("ioctl ") => &UNSUPPORTED,
            _ => &REFUSALS,
        };
        assert!(expected.contains(&result.as_str()), "{user:?}: {name}: {result}");
    }
    assert_eq!((place.state(), victim.state()), before, "{user:?}");
    assert_eq!(report["user"], user.id());
    assert_eq!(report["no_new_privs"], 1);
    assert_eq!(report["capabilities"], json!([0, 0, 0, 0, 0, 0]), "{user:?}");
    assert_eq!(report["bounding"], json!([]), "{user:?}");
    for entry in fs::read_dir(place.path().join("written")).unwrap().flatten() {
        let about = entry.metadata().unwrap();
        assert_eq!(about.mode() & 0o6000, 0, "{entry:?} runs as its owner");
        assert_eq!(about.rdev(), 0, "{entry:?} is a device");
    }
    // The server starts again.
    place.call("nothing", &json!({})).ok();
}

// I-106, I-107
#[test]
fn no_system_call_of_an_ordinary_user_reaches_beyond_the_sandbox() {
    no_call_reaches_beyond(User::Ordinary);
}

// I-106, I-107
#[test]
fn no_system_call_of_root_reaches_beyond_the_sandbox() {
    if geteuid().is_root() {
        no_call_reaches_beyond(User::Root);
    } else {
        skipped("the sandbox of root needs root");
    }
}

// I-106, I-107
#[test]
fn without_user_namespaces_system_calls_that_change_metadata_are_refused() {
    no_call_reaches_beyond(User::WithoutNamespaces);
}

// I-107
#[test]
fn a_sandbox_of_root_does_not_start_unless_the_configuration_says_so() {
    if !geteuid().is_root() {
        return skipped("the sandbox of root needs root");
    }
    let place = Place::new(User::Root, "");
    let ran = place.call("nothing", &json!({}));
    assert!(ran.code == 1 && ran.stderr.contains("the server runs as root"), "{ran:?}");
    let sources = place.run(&["sources", "check"]);
    assert!(sources.code == 1 && sources.stdout.contains("runs as root"), "{sources:?}");
    let checked = place.run(&["config", "check"]).ok();
    assert!(checked.stderr.contains("set `[sources] sandbox_as_root = true`"), "{checked:?}");
    Place::new(User::Ordinary, "").call("nothing", &json!({})).ok();
}

// I-106
#[test]
fn a_mount_in_a_list_that_shows_the_data_directory_is_refused() {
    if !geteuid().is_root() {
        return skipped("a mount needs root");
    }
    let place = Place::new(User::Root, "[sources]\nsandbox_as_root = true\n");
    place.call("nothing", &json!({})).ok();
    let program = place.program.path().join("toolcrib");
    let script = "mkdir written/b && mount --bind .toolcrib written/b && exec \"$0\" call -v ops__shell \
                  '{\"script\": \"cat b/toolcrib.db | wc -c\"}'";
    let mut command = place.user.command("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(program).current_dir(place.path());
    for name in ["CONFIG", "DATA_DIR", "URL", "KEY", "LOG"] {
        command.env_remove(format!("TOOLCRIB_{name}"));
    }
    let ran = finish(command.stdin(Stdio::null()));
    assert!(ran.code == 1 && ran.stderr.contains("leads to the data directory"), "{ran:?}");
}

#[test]
fn a_check_of_the_configuration_says_which_layers_of_a_sandbox_work() {
    let checked = |user: User| Place::new(user, "").run(&["config", "check", "--json"]).ok().json();
    let all = checked(User::Ordinary);
    let layers = json!(["landlock", "system-calls", "capabilities", "read-only-mounts"]);
    assert_eq!(all["sandbox"], layers, "{all}");
    assert_eq!(all["warnings"], json!([]), "{all}");
    let fewer = checked(User::WithoutNamespaces);
    assert_eq!(fewer["sandbox"], json!(["landlock", "system-calls", "capabilities"]), "{fewer}");
    let warning = fewer["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("cannot change modes") && warning.contains("user namespace"),
        "{warning}"
    );
}

/// Tools of a shell work on writable paths: archives, copies with modes and times, links, and children.
#[test]
fn a_shell_works_in_its_sandbox() {
    let script = "set -e; mkdir -p a; echo text > a/file; chmod 750 a/file; touch -d @1 a/file; \
                  cp -a a b; tar cf t.tar a; mkdir c; tar xpf t.tar -C c; ln -s file c/a/link; \
                  mv b d; (sleep 100 & kill $!; wait) || true; stat -c '%a %Y' c/a/file d/file; \
                  rm -r a c d t.tar; pwd";
    for user in [User::Ordinary, User::Root] {
        if user == User::Root && !geteuid().is_root() {
            continue;
        }
        let place = Place::new(user, "[sources]\nsandbox_as_root = true\n");
        let ran = place.call("shell", &json!({ "script": script })).ok();
        let written = place.path().join("written");
        let expected = format!("750 1\n750 1\n{}\n", written.display());
        assert_eq!(ran.stdout.trim_end(), expected.trim_end(), "{ran:?}");
        assert!(fs::read_dir(written).unwrap().next().is_none());
    }
}

/// Notes why a test did not run.
fn skipped(why: &str) {
    use std::io::Write as _;
    #[expect(clippy::disallowed_methods, reason = "the runner of the tests names the file")]
    let Ok(file) = std::env::var("TOOLCRIB_SKIPS") else { return };
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
    writeln!(file, "{why}").unwrap();
}
