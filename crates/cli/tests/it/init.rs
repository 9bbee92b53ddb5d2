//! `init`: the files of clients in a home made for the test, and the configuration that is written.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Command, Stdio},
};

use rustix::{
    fs::{Mode, OFlags},
    pty,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{CommandOutput, PROGRAM, Server, dir, eventually, finish, key, run, toolcrib};

/// A home with files of clients, and an empty directory to work in.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(dir());
        fs::create_dir(place.work()).unwrap();
        place
    }

    fn home(&self) -> std::path::PathBuf {
        self.0.path().join("home")
    }

    pub(crate) fn work(&self) -> std::path::PathBuf {
        self.0.path().join("work")
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let file = self.home().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = toolcrib(&self.work());
        for variable in ["XDG_CONFIG_HOME", "APPDATA", "USERPROFILE", "CODEX_HOME"] {
            command.env_remove(variable);
        }
        command.arg("init").args(args).env("HOME", self.home());
        command
    }

    pub(crate) fn init(&self, args: &[&str]) -> CommandOutput {
        finish(&mut self.command(args))
    }

    fn toml(&self) -> String {
        fs::read_to_string(self.work().join("toolcrib.toml")).unwrap()
    }
}

const CURSOR: &str = r#"{ "mcpServers": {
  "files": { "command": "files-server", "args": ["/srv/docs"] },
  "linear": { "url": "https://mcp.example.com/mcp", "headers": { "Authorization": "Bearer canary-1" } }
} }"#;

const CODEX: &str = r#"
model = "o"
[mcp_servers.files]
command = "files-server"
args = ["/srv/docs"]
[mcp_servers.search]
command = "search-server"
env_vars = ["SEARCH_REGION"]
enabled_tools = ["find", "li*t"]
disabled_tools = ["drop"]
startup_timeout_sec = 20
supports_parallel = true
[mcp_servers.search.env]
SEARCH_API_KEY = "canary-2"
[mcp_servers.remote]
url = "https://remote.example.com/mcp"
bearer_token_env_var = "REMOTE_TOKEN"
[mcp_servers.remote.env_http_headers]
X-Team = "TEAM"
"#;

fn everything() -> Place {
    let place = Place::new();
    place.write(".cursor/mcp.json", CURSOR);
    place.write(".codex/config.toml", CODEX);
    place.write(
        ".config/Claude/claude_desktop_config.json",
        r#"{ "mcpServers": { "notes": { "command": "notes-server", "env": { "NOTES_TOKEN": "canary-3" } } } }"#,
    );
    place.write(
        ".claude.json",
        r#"{ "numStartups": 3, "history": ["canary-4"],
             "projects": { "/srv": { "mcpServers": { "db": { "type": "stdio", "command": "db-server" } } }, "/x": {} } }"#,
    );
    place.write(
        "Library/Application Support/Code/User/mcp.json",
        "{ // mine\n \"servers\": { \"toolcrib\": { \"command\": \"toolcrib\", \"args\": [\"mcp\"] } }, }",
    );
    // Without servers: not mentioned.
    place.write(".config/Code/User/settings.json", r#"{ "editor.fontSize": 12 }"#);
    place
}

fn check(place: &Place, variables: &Value) {
    let mut check = toolcrib(&place.work());
    check.args(["config", "check"]);
    for variable in variables.as_array().unwrap() {
        check.env(variable.as_str().unwrap(), "value");
    }
    finish(&mut check).ok();
}

#[test]
fn every_client_is_found_and_imported_by_consent() {
    let place = everything();
    let ran = place.init(&["--yes"]).ok();
    let toml = place.toml();
    for text in [&toml, &ran.stdout, &ran.stderr] {
        assert!(!text.contains("canary"), "{text}");
    }
    for found in [
        "found ~/.config/Claude/claude_desktop_config.json (Claude Desktop): 1 server: notes",
        "found ~/.claude.json (Claude Code): 1 server: db",
        "found ~/.cursor/mcp.json (Cursor): 2 servers: files, linear",
        "found ~/Library/Application Support/Code/User/mcp.json (VS Code): 1 server: toolcrib",
        "found ~/.codex/config.toml (Codex): 3 servers: ",
    ] {
        assert!(ran.stderr.contains(found), "{found}\n{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("settings.json"), "{}", ran.stderr);
    for step in [
        "export NOTES_TOKEN=",
        "toolcrib config check",
        "toolcrib keys create",
        "toolcrib serve",
        "/explorer",
    ] {
        assert!(ran.stdout.contains(step), "{step}\n{}", ran.stdout);
    }
    insta::assert_snapshot!(toml, @r#"
    #:schema ./toolcrib.schema.json

    # Written by `toolcrib init`. `toolcrib config check` reports the problems of this file. A running
    # server applies changes by itself.

    [server]
    # The console is at /explorer and MCP at /mcp. An address that other machines can reach requires `tls`.
    listen = "127.0.0.1:8808"

    # A role is a list of scopes that keys can have: `toolcrib keys create --role reader …`.
    #
    # [[role]]
    # name = "reader"
    # scopes = ["files:read"]

    # A source supplies tools: an MCP server, an OpenAPI document, a pack, commands or workflows.
    #
    # [[source]]
    # id = "files"
    # kind = "mcp"
    # command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/docs"]
    #
    # By default, a tool of source S requires the scope `tools:S` and has the tier `write`. Rules
    # belong to their source; later rules override earlier ones:
    #
    # [source.tools."read_*"]
    # scopes = ["files:read"]
    # safety_tier = "read"
    #
    # A rule with `approval = "always"` lets calls wait for the consent of another person.
    #
    # Not translated:
    # - ~/.claude.json (Claude Code): numStartups, history: not a translated setting of MCP servers
    # - ~/.codex/config.toml (Codex): model: only `mcp_servers` is about tools
    # - search.enabled_tools: it became rules with `hide`
    # - search.disabled_tools: it became rules with `hide`
    # - search.startup_timeout_sec: `timeout` in a rule limits a call
    # - search.supports_parallel: it is not translated

    # From ~/.config/Claude/claude_desktop_config.json (Claude Desktop).
    [[source]]
    id = "notes"
    kind = "mcp"
    command = ["notes-server"]
    [source.env]
    NOTES_TOKEN = { env = "NOTES_TOKEN" }

    # From ~/.claude.json (Claude Code).
    [[source]]
    id = "db"
    kind = "mcp"
    command = ["db-server"]

    # From ~/.cursor/mcp.json (Cursor).
    [[source]]
    id = "files"
    kind = "mcp"
    command = ["files-server", "/srv/docs"]

    # From ~/.cursor/mcp.json (Cursor).
    [[source]]
    id = "linear"
    kind = "mcp"
    url = "https://mcp.example.com/mcp"
    [source.headers]
    Authorization = { env = "LINEAR_AUTHORIZATION" }

    # From ~/Library/Application Support/Code/User/mcp.json (VS Code).
    # Not in force: it is toolcrib itself.
    # [[source]]
    # id = "toolcrib"
    # kind = "mcp"
    # command = ["toolcrib", "mcp"]

    # From ~/.codex/config.toml (Codex).
    [[source]]
    id = "search"
    kind = "mcp"
    command = ["search-server"]
    [source.env]
    SEARCH_API_KEY = { env = "SEARCH_API_KEY" }
    SEARCH_REGION = { env = "SEARCH_REGION" }
    [source.tools."*"]
    hide = true
    [source.tools."find"]
    hide = false
    [source.tools."li[*]t"]
    hide = false
    [source.tools."drop"]
    hide = true

    # From ~/.codex/config.toml (Codex).
    [[source]]
    id = "remote"
    kind = "mcp"
    url = "https://remote.example.com/mcp"
    [source.headers]
    X-Team = { env = "TEAM" }
    Authorization = { env = "REMOTE_AUTHORIZATION" }
    "#);
    let again = place.init(&["--yes", "--force", "--json"]).ok().json();
    check(&place, &again["variables"]);
    assert_eq!(again["sources"], 6, "{again}");
    assert_eq!(
        again["leftOut"],
        json!([{ "name": "toolcrib", "reason": "it is toolcrib itself" }])
    );
    let backup = again["backup"].as_str().unwrap();
    assert!(backup.ends_with("toolcrib.toml.bak"), "{backup}");
    assert_eq!(fs::read_to_string(backup).unwrap(), toml);
}

#[test]
fn without_consent_nothing_is_imported_and_the_file_is_valid() {
    for args in [&[][..], &["--no-input"]] {
        let place = everything();
        let ran = place.init(args).ok();
        assert!(ran.stderr.contains("no server was imported"), "{ran:?}");
        assert!(ran.stderr.contains("--yes") && ran.stderr.contains("--from"), "{ran:?}");
        let toml = place.toml();
        assert!(!toml.lines().any(|line| line.starts_with("[[source]]")), "{toml}");
        check(&place, &json!([]));
    }
    let empty = Place::new();
    let ran = empty.init(&[]).ok();
    assert!(ran.stderr.contains("no file of Claude Desktop"), "{ran:?}");
    // What to do without a client comes first.
    let next = ran.stdout.split_once("Next:\n").unwrap().1;
    let first = next.lines().next().unwrap().trim();
    assert!(first.starts_with("toolcrib sources add files --command npx "), "{ran:?}");
    check(&empty, &json!([]));
}

#[test]
fn a_person_on_a_terminal_is_asked_for_each_file() {
    let place = everything();
    // The files in the order of the questions: Claude Desktop, Claude Code, Cursor, VS Code, Codex.
    let shown = on_terminal(place.command(&[]), "y\n\nyes\nno\nn\n");
    assert_eq!(shown.matches("[y/N]").count(), 5, "{shown}");
    assert!(shown.contains("import 2 servers from ~/.cursor/mcp.json (Cursor)? [y/N]"), "{shown}");
    let toml = place.toml();
    let ids: Vec<&str> = toml.lines().filter(|line| line.starts_with("id = ")).collect();
    assert_eq!(ids, ["id = \"notes\"", "id = \"files\"", "id = \"linear\""]);
}

/// Runs `command` with a terminal for stdin and stderr, answers with `answers`, and returns what the
/// terminal has shown.
fn on_terminal(mut command: Command, answers: &str) -> String {
    let ours = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&ours).unwrap();
    pty::unlockpt(&ours).unwrap();
    let name = pty::ptsname(&ours, Vec::new()).unwrap();
    let theirs = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut terminal = File::from(ours);
    terminal.write_all(answers.as_bytes()).unwrap();
    command.stdin(Stdio::from(theirs.try_clone().unwrap()));
    command.stderr(Stdio::from(theirs)).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    // The command holds copies of the terminal's other end.
    drop(command);
    let mut shown = Vec::new();
    // Reading fails once every copy is closed.
    terminal.read_to_end(&mut shown).ok();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{}", String::from_utf8_lossy(&shown));
    String::from_utf8(shown).unwrap()
}

#[test]
fn named_files_are_the_only_ones() {
    let place = everything();
    place.write(
        "elsewhere/mine.json",
        r#"{ "mcpServers": { "mine": { "command": "mine-server" } } }"#,
    );
    let file = place.home().join("elsewhere/mine.json");
    let ran = place.init(&["--from", file.to_str().unwrap(), "--dry-run"]).ok();
    assert!(ran.stdout.contains("id = \"mine\"") && !ran.stdout.contains("linear"), "{ran:?}");
    assert!(!place.work().join("toolcrib.toml").exists());
    toml::from_str::<toml::Table>(&ran.stdout).unwrap();
    place.init(&["--from", file.to_str().unwrap()]).ok();
    assert!(place.toml().contains("# From ~/elsewhere/mine.json (named by --from).\n[[source]]"));

    let missing = Place::new().init(&["--from", "nothing.json"]);
    assert!(
        missing.code == 1 && missing.stderr.contains("nothing.json cannot be read"),
        "{missing:?}"
    );
    let both = place.init(&["--from", "a", "--yes"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn editors_find_the_schema_of_the_configuration() {
    let place = Place::new();
    let ran = place.init(&["--no-input", "--dry-run"]).ok();
    let schema = place.work().join("toolcrib.schema.json");
    assert!(ran.stdout.starts_with("#:schema ./toolcrib.schema.json\n") && !schema.exists());
    place.init(&["--no-input"]).ok();
    let printed = run(&place.work(), &["config", "schema"]).ok().stdout;
    assert_eq!(fs::read_to_string(&schema).unwrap(), printed);
    let named: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(named["$schema"], "https://json-schema.org/draft/2020-12/schema");

    // Next to another file it has the name of that; one that exists stays without --force.
    let other = place.work().join("other.schema.json");
    fs::write(&other, "{}").unwrap();
    let ran = place.init(&["--no-input", "--config", "other.toml", "--json"]).ok().json();
    assert_eq!(
        (&ran["schema"], fs::read_to_string(&other).unwrap()),
        (&json!("other.schema.json"), "{}".to_owned())
    );
    place.init(&["--no-input", "--config", "other.toml", "--force"]).ok();
    assert_eq!(fs::read_to_string(&other).unwrap(), printed);
    let text = fs::read_to_string(place.work().join("other.toml")).unwrap();
    assert!(text.starts_with("#:schema ./other.schema.json\n"), "{text}");
}

#[test]
fn a_configuration_that_exists_stays() {
    let place = everything();
    let file = place.work().join("toolcrib.toml");
    fs::write(&file, "# mine\n").unwrap();
    for args in [&["--yes"][..], &["--yes", "--dry-run"]] {
        let ran = place.init(args);
        assert!(ran.code == 1 && ran.stderr.contains("toolcrib.toml exists already"), "{ran:?}");
        assert!(ran.stderr.contains("hint: --force"), "{ran:?}");
        assert_eq!(place.toml(), "# mine\n");
    }
    // A link stays a link, and modes stay as they are.
    let real = place.work().join("real.toml");
    fs::rename(&file, &real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real.toml", &file).unwrap();
    for backup in ["real.toml.bak", "real.toml.bak2"] {
        let before = place.toml();
        let ran = place.init(&["--no-input", "--force"]).ok();
        assert!(ran.stderr.contains(backup), "{ran:?}");
        let backup = place.work().join(backup);
        assert_eq!(fs::read_to_string(&backup).unwrap(), before);
        assert_eq!(backup.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(file.symlink_metadata().unwrap().is_symlink());
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let nowhere = place.init(&["--no-input", "--config", "no/such/dir.toml"]);
    assert!(
        nowhere.code == 1 && nowhere.stderr.contains("no/such/dir.toml cannot be written"),
        "{nowhere:?}"
    );
    let other = place.init(&["--no-input", "--config", "it's mine.toml"]).ok();
    assert!(other.stdout.contains(r"toolcrib serve --config 'it'\''s mine.toml'"), "{other:?}");
}

#[test]
fn hostile_files_are_named_and_harm_nothing() {
    let place = Place::new();
    place.write(".cursor/mcp.json", "{ \"mcpServers\": { \"canary\": ");
    let codex = "[mcp_servers.a]\ncommand = \"a\"\ntoken = canary\n";
    place.write(".codex/config.toml", codex);
    // A pipe without a writer, an endless device, a directory, a link that leads nowhere.
    let home = place.home();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        home.join(".claude.json"),
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    fs::create_dir_all(home.join(".config/Claude")).unwrap();
    symlink("/dev/zero", home.join(".config/Claude/claude_desktop_config.json")).unwrap();
    fs::create_dir_all(home.join(".config/Code/User/mcp.json")).unwrap();
    symlink("/nowhere/at/all", home.join(".config/Code/User/settings.json")).unwrap();
    let huge = home.join("AppData/Roaming/Claude");
    fs::create_dir_all(&huge).unwrap();
    let huge = File::create(huge.join("claude_desktop_config.json")).unwrap();
    huge.set_len(1 << 40).unwrap();
    // Names that would move the cursor or end a comment of the configuration.
    let names = json!({ "mcpServers": {
        "\u{1b}[2Jx\n[[role]]\u{202e}": { "command": "a\n[[role]]", "args": ["--token", "canary"] },
        "ok": { "command": "ok-server" },
    }});
    fs::write(place.work().join(".mcp.json"), names.to_string()).unwrap();
    let ran = place.init(&["--yes"]).ok();
    for (file, problem) in [
        (".cursor/mcp.json", "is not JSON"),
        (".codex/config.toml", "is not TOML at line 3"),
        (".claude.json", "is not a file"),
        (".config/Claude/claude_desktop_config.json", "is not a file"),
        (".config/Code/User/mcp.json", "is not a file"),
        ("AppData/Roaming/Claude/claude_desktop_config.json", "is larger than 64 MiB"),
    ] {
        let line = ran.stderr.lines().find(|line| line.contains(&format!("found ~/{file} (")));
        assert!(line.is_some_and(|line| line.contains(problem)), "{file}\n{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("settings.json"), "{}", ran.stderr);
    for text in [&ran.stderr, &ran.stdout, &place.toml()] {
        assert!(!text.contains("canary") && !text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
    let toml: toml::Table = toml::from_str(&place.toml()).unwrap();
    assert!(!toml.contains_key("role"), "{toml}");
    assert_eq!(toml["source"].as_array().unwrap().len(), 1, "{toml}");
    check(&place, &json!([]));

    let many = (0..501).map(|n| (format!("s{n}"), json!({ "command": "x" })));
    let many = json!({ "mcpServers": Value::Object(many.collect()) });
    fs::write(place.work().join("many.json"), many.to_string()).unwrap();
    let ran = place.init(&["--force", "--from", "many.json"]);
    assert!(ran.code == 1 && ran.stderr.contains("has 501 servers; at most 500"), "{ran:?}");
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    let place = Place::new();
    place.write(".cursor/mcp.json", CURSOR);
    let file = place.home().join(".cursor/mcp.json");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&file).is_ok() {
        return; // the superuser reads everything
    }
    let ran = place.init(&["--yes"]).ok();
    assert!(ran.stderr.contains("mcp.json (Cursor): not usable: permission denied"), "{ran:?}");
}

/// From an empty directory to a call: `init`, a key, a server, a client.
#[test]
fn what_it_writes_is_served() {
    let place = Place::new();
    let work = place.work();
    let client = |program: &str| {
        let demo = json!({ "command": program, "args": ["demo-upstream"] });
        place.write(".cursor/mcp.json", &json!({ "mcpServers": { "demo": demo } }).to_string());
    };
    client(PROGRAM);
    place.init(&["--yes"]).ok();
    assert!(place.toml().contains("# Not in force: it is toolcrib itself."), "{}", place.toml());

    // Another name, found in the search path: a temporary directory has a random part, which could be
    // a secret.
    symlink(PROGRAM, work.join("files-server")).unwrap();
    client("files-server");
    place.init(&["--yes", "--force"]).ok();
    let (_, key) = key(&work, &["--principal", "me", "--scope", "*"]);
    let mut serve = toolcrib(&work);
    serve.args(["serve", "--listen", "127.0.0.1:0"]).env("PATH", &work);
    let server = Server::of(&mut serve);
    let call = ["--url", &server.url, "--key", &key, "call", "demo__echo", "text=first"];
    eventually("its tools are listed", || run(&work, &call).stdout == "first\n");
}
