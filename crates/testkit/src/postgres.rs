//! A private PostgreSQL server, with a new database for each test.
//!
//! The test processes of one runner share a server: the first one starts it, and a small shell script
//! stops it when the runner has ended.
#![expect(clippy::unwrap_used, reason = "a test fails without its server")]

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _, chown},
        process::{CommandExt as _, parent_id},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::left_out::left_out;

static DATABASES: AtomicU32 = AtomicU32::new(0);

/// Where Debian installs the programs, and where the search path may have them.
const VERSIONS: std::ops::RangeInclusive<u32> = 14..=20;
/// The user `nobody`: PostgreSQL refuses to run as root.
const UNPRIVILEGED: u32 = 65_534;

/// A running server.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    folder: PathBuf,
    /// Whether commits reach the disk, as in production.
    synced: bool,
}

/// Returns the URL of a new database; `None` when PostgreSQL is not installed.
///
/// # Panics
/// When it is not installed and `CI` is `true`, and when it does not start.
pub fn database() -> Option<String> {
    let server = PostgresServer::shared()?;
    Some(server.database())
}

impl PostgresServer {
    /// Returns the server of this test runner; `None` when PostgreSQL is not installed.
    ///
    /// # Panics
    /// As [`database`].
    pub fn shared() -> Option<Self> {
        let runner = parent_id();
        let folder = std::env::temp_dir().join(format!("toolcrib-postgres-{runner}"));
        let server = Self { programs: programs()?, folder, synced: false };
        server.make_folder();
        let lock = server.folder.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(lock).unwrap();
        lock.lock().unwrap();
        if !server.is_running() {
            fs::remove_dir_all(server.data()).ok();
            server.create();
            server.start();
            server.stop_after(runner);
        }
        Some(server)
    }

    /// Starts a server for one test, which may stop and start it; `None` when PostgreSQL is not
    /// installed. The server stops at the latest when this process exits.
    ///
    /// # Panics
    /// As [`database`].
    pub fn own() -> Option<Self> {
        Self::start_own(false)
    }

    /// Starts a server as [`PostgresServer::own`], whose commits reach the disk: for measurements.
    ///
    /// # Panics
    /// As [`database`].
    pub fn own_synced() -> Option<Self> {
        Self::start_own(true)
    }

    fn start_own(synced: bool) -> Option<Self> {
        let server = Self::in_new_folder(programs()?, synced);
        server.create();
        server.start();
        server.stop_after(std::process::id());
        Some(server)
    }

    fn in_new_folder(programs: PathBuf, synced: bool) -> Self {
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let name = format!("toolcrib-postgres-own-{}-{number}", std::process::id());
        let server = Self { programs, folder: std::env::temp_dir().join(name), synced };
        server.make_folder();
        server
    }

    /// Starts a replica called `name` that follows this server, as `docs/guides/scale.md` says. The
    /// replica stops at the latest when this process exits.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_replica(&self, name: &str) -> Self {
        let replica = Self::in_new_folder(self.programs.clone(), self.synced);
        let data = replica.data();
        let copy = ["-D", &data, "-R", "-X", "stream", "-c", "fast", "-C", "-S", name];
        replica.run("pg_basebackup", &[&["-d", &self.connection()], &copy[..]].concat());
        let settings = Path::new(&data).join("postgresql.auto.conf");
        let mut settings = OpenOptions::new().append(true).open(settings).unwrap();
        // It looks for a primary more often than every 5 seconds, so that a test does not wait for it.
        write!(settings, "cluster_name = '{name}'\nwal_retrieve_retry_interval = '200ms'\n")
            .unwrap();
        replica.start();
        replica.stop_after(std::process::id());
        replica
    }

    /// Makes this replica, called `name`, follow another `primary`.
    ///
    /// # Panics
    /// When one of them does not answer.
    pub fn follow(&self, primary: &Self, name: &str) {
        primary.query(&format!("SELECT pg_create_physical_replication_slot('{name}')"));
        let connection = primary.connection();
        self.query(&format!("ALTER SYSTEM SET primary_conninfo = '{connection}'"));
        self.query("SELECT pg_reload_conf()");
    }

    /// Makes this replica the primary.
    ///
    /// # Panics
    /// When it does not become it.
    pub fn promote(&self) {
        self.run("pg_ctl", &["promote", "-w", "-s", "-D", &self.data()]);
    }

    /// Runs `sql` as administrator, and returns its result.
    ///
    /// # Panics
    /// When it fails.
    pub fn query(&self, sql: &str) -> String {
        let output = self.psql("postgres", sql).arg("-At").output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns the URL for the database at `url` on the one of `self` and `others` that takes writes.
    pub fn url_with_replicas(&self, url: &str, others: &[Self]) -> String {
        let name = url.rsplit('/').next().unwrap_or_default();
        let hosts: Vec<_> = std::iter::once(self).chain(others).map(Self::host).collect();
        format!("postgres://postgres@{}/{name}?target_session_attrs=read-write", hosts.join(","))
    }

    /// Returns the URL of a new database.
    ///
    /// # Panics
    /// When it cannot be created.
    pub fn database(&self) -> String {
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        // No process connects to this template, so that it can be copied at any moment.
        let template = ["-T", "template0"];
        self.run(
            "createdb",
            &[&["-h", self.shown(), "-U", "postgres"], &template[..], &[&name]].concat(),
        );
        format!("postgres://postgres@{}/{name}", self.host())
    }

    /// Returns the URL of a new database with the content of the one at `url`, which no process uses.
    ///
    /// # Panics
    /// When it cannot be created.
    pub fn copy(&self, url: &str) -> String {
        let (place, from) = url.rsplit_once('/').unwrap();
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        self.run("createdb", &["-h", self.shown(), "-U", "postgres", "-T", from, &name]);
        format!("{place}/{name}")
    }

    /// Returns the command that runs `sql` in the database at `url`.
    pub fn psql(&self, url: &str, sql: &str) -> Command {
        let name = url.rsplit('/').next().unwrap_or_default();
        let mut command = self.command("psql");
        command.args(["-q", "-v", "ON_ERROR_STOP=1", "-h", self.shown(), "-U", "postgres"]);
        command.args(["-d", name, "-c", sql]);
        command
    }

    /// Returns the id of its first process, the parent of all others.
    ///
    /// # Panics
    /// When it does not run.
    pub fn id(&self) -> u32 {
        let file = fs::read_to_string(format!("{}/postmaster.pid", self.data())).unwrap();
        file.lines().next().unwrap().trim().parse().unwrap()
    }

    /// Starts a stopped server.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(&self) {
        let settings = format!(
            "-c listen_addresses= -c unix_socket_directories={} -c fsync={} -c max_connections=800",
            self.shown(),
            if self.synced { "on" } else { "off" },
        );
        let log = self.folder.join("log");
        let (data, log) = (self.data(), log.to_str().unwrap());
        self.run("pg_ctl", &["start", "-w", "-s", "-D", &data, "-l", log, "-o", &settings]);
    }

    /// Stops the server at once, as a crash would: connections break.
    ///
    /// # Panics
    /// When it does not stop.
    pub fn stop(&self) {
        self.run("pg_ctl", &["stop", "-m", "immediate", "-s", "-D", &self.data()]);
    }

    fn create(&self) {
        self.run("initdb", &["-U", "postgres", "-A", "trust", "-N", "-D", &self.data()]);
    }

    fn is_running(&self) -> bool {
        let mut command = self.command("pg_ctl");
        command.args(["status", "-s", "-D", &self.data()]).stdout(Stdio::null());
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn make_folder(&self) {
        match fs::DirBuilder::new().mode(0o700).create(&self.folder) {
            Ok(()) if is_root() => {
                chown(&self.folder, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
            }
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}"),
        }
    }

    /// Returns the connection string of this server for another one of PostgreSQL.
    fn connection(&self) -> String {
        format!("host={} user=postgres", self.shown())
    }

    /// Returns the host of this server in a URL.
    fn host(&self) -> String {
        self.shown().replace('/', "%2F")
    }

    fn data(&self) -> String {
        format!("{}/data", self.shown())
    }

    fn shown(&self) -> &str {
        self.folder.to_str().unwrap()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let place = self.folder.join(format!("{program}.{}", std::process::id()));
        let output = File::create(&place).unwrap();
        let mut command = self.command(program);
        // Not a pipe: the server would hold it open.
        command.args(arguments).stdout(output.try_clone().unwrap()).stderr(output);
        let ended = command.status().unwrap();
        let said = || fs::read_to_string(&place).unwrap_or_default();
        assert!(ended.success(), "{program} failed ({ended}): {}", said());
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder).stdin(Stdio::null());
        if is_root() {
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        command
    }

    /// Stops the server and removes its folder once process `id` has ended.
    fn stop_after(&self, id: u32) {
        let script = "while [ -d /proc/$0 ] || kill -0 $0 2>/dev/null; do sleep 0.5; done; \
                      \"$1\"/pg_ctl stop -m immediate -s -D \"$2\"/data; rm -rf \"$2\"";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, &id.to_string()]).arg(&self.programs).arg(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.current_dir("/");
        if is_root() {
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        drop(command.spawn().unwrap());
    }
}

/// The folder of `initdb` and `pg_ctl`. If there is none, reports that and returns `None`.
fn programs() -> Option<PathBuf> {
    let debian =
        VERSIONS.rev().map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = debian
        .chain(std::env::split_paths(&path))
        .find(|folder| folder.join("initdb").is_file() && folder.join("pg_ctl").is_file());
    if found.is_none() {
        left_out("PostgreSQL is not installed; run `cargo xtask test`");
    }
    found
}

fn is_root() -> bool {
    fs::metadata(Path::new("/proc/self")).is_ok_and(|found| found.uid() == 0)
}
