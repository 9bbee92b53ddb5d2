//! The MCP conformance suites, as published: `toolcrib serve` over the scripted upstream, and
//! `toolcrib mcp` as their client. `bridge/suite.rs` is about the authorization server. The results
//! are in `docs/explanation/protocols.md`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use toolcrib_testkit::upstream::faulty_program;

use crate::{
    rig::{Server, tool, toolcrib},
    third_party::program,
};

const PAGE: &str = include_str!("../../../../docs/explanation/protocols.md");
const RUNS: usize = 10;
/// The statuses of a check that must be expected.
pub(crate) const BAD: [&str; 2] = ["FAILURE", "WARNING"];

/// The driver for servers without protection, all of whose checks must pass.
const PLAIN: &str = "suite-client.mjs";
const ALL: ClientRow = ClientRow { name: "", warned: &[], counts_ids: false };

/// How the page shows runs of clients.
#[derive(Clone, Copy)]
struct ClientRow {
    /// The end of its name.
    name: &'static str,
    /// The checks that may warn.
    warned: &'static [&'static str],
    /// Whether a check counts once in a scenario. Some are made for each request, and the number of
    /// requests varies.
    counts_ids: bool,
}

/// One version of the suite.
pub(crate) struct Suite {
    version: &'static str,
    node: PathBuf,
    entry: PathBuf,
    drivers: PathBuf,
}

/// The result of a run.
pub(crate) struct Run {
    pub(crate) ended_well: bool,
    /// Everything that it prints.
    pub(crate) said: String,
    /// The checks' statuses, by scenario.
    scenarios: BTreeMap<String, Vec<Value>>,
}

impl Suite {
    /// 0.1.16 and 0.2.0-alpha.12.
    pub(crate) fn both() -> Option<[Self; 2]> {
        let one = |version, folder| {
            let folder = tool(folder)?.join("node_modules/@modelcontextprotocol/conformance");
            let manifest = fs::read_to_string(folder.join("package.json")).unwrap();
            let manifest: Value = serde_json::from_str(&manifest).unwrap();
            assert_eq!(manifest["version"], version);
            let entry = folder.join(manifest["bin"]["conformance"].as_str().unwrap());
            let (node, drivers) = (tool("TOOLCRIB_NODE24")?, tool("TOOLCRIB_CLIENT_DRIVERS")?);
            Some(Self { version, node, entry, drivers })
        };
        Some([
            one("0.1.16", "TOOLCRIB_MCP_SUITE_STABLE")?,
            one("0.2.0-alpha.12", "TOOLCRIB_MCP_SUITE_NEXT")?,
        ])
    }

    /// The scenarios that `args` name, against `server`.
    fn serve(&self, server: &Server, args: &[&str]) -> Run {
        let url = format!("{}/mcp", server.url);
        self.run(&[&["server", "--url", &url], args].concat())
    }

    /// The same; what fails must be in `tests/clients/conformance/expected-failures-<baseline>.yml`,
    /// and what is there must fail (of what runs). The row of the page.
    fn count(&self, server: &Server, args: &str, baseline: &str) -> String {
        let file = format!("conformance/expected-failures-{baseline}.yml");
        let file = self.drivers.join(file).display().to_string();
        let words: Vec<&str> = args.split(' ').collect();
        let run = self.serve(server, &[&words[..], &["--expected-failures", &file]].concat());
        assert!(run.ended_well, "{}", run.said);
        run.compare(&fs::read_to_string(&file).unwrap());
        self.row(&format!("server {args}"), &run)
    }

    /// The row of the page for a run with `args`.
    pub(crate) fn row(&self, args: &str, run: &Run) -> String {
        let (passed, failed, warned) =
            (run.count("SUCCESS"), run.count("FAILURE"), run.count("WARNING"));
        let total = format!("Total: {passed} passed, {failed} failed");
        assert!(run.said.contains(&total), "{total} is not what it says itself:\n{}", run.said);
        let (version, scenarios) = (self.version, run.scenarios.len());
        format!("| {version} | `{args}` | {scenarios} | {passed} | {failed} | {warned} |")
    }

    /// The client behind `driver` of the servers that the suite starts for `scenarios`: all of it
    /// must pass, except the warned checks. The row of the page.
    fn clients(&self, driver: &str, args: &[&str], scenarios: &[&str], row: ClientRow) -> String {
        // The suite cuts this at spaces.
        let driver = self.drivers.join(driver);
        let command = format!("{} {}", self.node.display(), driver.display());
        let (mut passed, mut warnings) = (0, 0);
        for scenario in scenarios {
            let common = ["client", "--command", &command, "--scenario", scenario];
            let run = self.run(&[&common, args].concat());
            let bad: Vec<_> = BAD.iter().flat_map(|bad| run.ids(bad)).collect();
            let is_expected = bad.iter().all(|id| row.warned.contains(&id.as_str()));
            let is_good = is_expected && (run.ended_well || !bad.is_empty());
            let mut good = run.ids("SUCCESS");
            assert!(is_good && !good.is_empty(), "{}", run.said);
            if row.counts_ids {
                good.sort_unstable();
                good.dedup();
            }
            passed += good.len();
            warnings += bad.len();
        }
        let (version, name, scenarios) = (self.version, row.name, scenarios.len());
        let args = [&["client"], args].concat().join(" ");
        format!("| {version} | `{args}`{name} | {scenarios} | {passed} | 0 | {warnings} |")
    }

    /// The suite with `args`, which writes into the folder `results`.
    pub(crate) fn command(&self, args: &[&str], results: &Path) -> Command {
        let mut command = program(&self.node);
        command.arg(&self.entry).args(args).arg("-o").arg(results);
        command.env("TOOLCRIB", toolcrib().get_program());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        let results = TempDir::new().unwrap();
        let mut command = self.command(args, results.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Run::read(output.status.success(), format!("{stdout}{stderr}"), results.path())
    }
}

impl Run {
    /// A run that has ended, with the checks in the folder `results`.
    pub(crate) fn read(ended_well: bool, said: String, results: &Path) -> Self {
        Self { ended_well, said, scenarios: read(results) }
    }

    fn count(&self, status: &str) -> usize {
        self.ids(status).len()
    }

    /// The ids of the checks with this status.
    pub(crate) fn ids(&self, status: &str) -> Vec<String> {
        let checks = self.scenarios.values().flatten().filter(|check| check["status"] == status);
        checks.map(|check| check["id"].as_str().unwrap().to_owned()).collect()
    }

    /// The suite does not do this for the scenarios that it runs without scoring them.
    fn compare(&self, expected: &str) {
        let expected: Vec<&str> =
            expected.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
        let mut met = BTreeSet::new();
        for (scenario, checks) in &self.scenarios {
            for check in checks.iter().filter(|check| BAD.iter().any(|bad| check["status"] == *bad))
            {
                let id = format!("{scenario}:{}", check["id"].as_str().unwrap());
                let entry = expected.iter().find(|entry| *entry == scenario || **entry == id);
                met.insert(*entry.unwrap_or_else(|| panic!("{id} is not expected: {check}")));
            }
        }
        let ran = |entry: &str| self.scenarios.contains_key(entry.split(':').next().unwrap());
        let stale: Vec<_> =
            expected.into_iter().filter(|entry| ran(entry) && !met.contains(entry)).collect();
        assert!(stale.is_empty(), "expected to fail and did not: {stale:?}");
    }
}

/// `<scenario>-<time>/checks.json` for each, some in folders; those of servers begin with `server-`,
/// and those of authorization servers with `authorization-server-`.
fn read(results: &Path) -> BTreeMap<String, Vec<Value>> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.collect::<Vec<_>>()
    };
    let has_checks = |folder: &Path| folder.join("checks.json").exists();
    let folders = entries(results).into_iter().flat_map(|folder| match has_checks(&folder) {
        true => vec![folder],
        false => entries(&folder),
    });
    let scenario = |folder: PathBuf| {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let kinds = ["authorization-server-", "server-"];
        let name = kinds.iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(&name);
        let name = name[..name.len() - "-2026-07-28T00-00-00-000Z".len()].to_owned();
        let checks = fs::read_to_string(folder.join("checks.json")).unwrap();
        (name, serde_json::from_str(&checks).unwrap())
    };
    folders.map(scenario).collect()
}

/// The gateway over the scripted upstream, for callers without a key: the suites have none.
async fn fixture() -> Server {
    let config = format!(
        r#"
        [mcp]
        auth = "optional"
        strict_headers = true
        [anonymous]
        tenant = "default"
        scopes = ["tools:fixture"]
        [[role]]
        name = "reader"
        scopes = ["tools:fixture"]
        [[source]]
        id = "fixture"
        kind = "mcp"
        command = [{:?}, "list=conformance"]
        names = "bare"
        "#,
        faulty_program(),
    );
    Server::over(TempDir::new().unwrap(), &config, &["fixture"]).await
}

/// The page's rows are what is counted here.
#[tokio::test(flavor = "multi_thread")]
async fn the_suites_count_what_the_page_says() {
    let Some([stable, next]) = Suite::both() else { return };
    let server = fixture().await;
    let rows = [
        stable.count(&server, "--suite all", "0.1.16"),
        next.count(&server, "--suite all --spec-version 2025-06-18", "2025-11-25"),
        next.count(&server, "--requirements 2025-11-25", "2025-11-25"),
        next.count(&server, "--requirements 2026-07-28", "2026-07-28"),
    ];
    on_the_page(&rows);
}

/// The page says which scenarios for clients are left out, and why.
#[test]
fn as_a_client_it_passes_what_the_page_says() {
    let Some([stable, next]) = Suite::both() else { return };
    let handshake = ["initialize", "tools_call", "json-schema-2020-12-preservation"];
    let modern = [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ];
    on_the_page(&[
        stable.clients(PLAIN, &[], &["initialize", "tools_call"], ALL),
        next.clients(PLAIN, &["--spec-version", "2025-11-25"], &handshake, ALL),
        next.clients(PLAIN, &["--spec-version", "2026-07-28"], &modern, ALL),
    ]);
}

/// An account is connected at the servers of the suite. The suite expects the id of its own client document,
/// and warns about that of toolcrib.
#[test]
fn as_a_client_with_accounts_it_passes_what_the_page_says() {
    let Some([_, next]) = Suite::both() else { return };
    let of_both = [
        "auth/basic-cimd",
        "auth/metadata-default",
        "auth/metadata-var1",
        "auth/metadata-var2",
        "auth/metadata-var3",
        "auth/pre-registration",
        "auth/scope-from-scopes-supported",
        "auth/scope-from-www-authenticate",
        "auth/scope-omitted-when-undefined",
        "auth/scope-retry-limit",
        "auth/scope-step-up",
        "auth/token-endpoint-auth-basic",
        "auth/token-endpoint-auth-none",
        "auth/token-endpoint-auth-post",
    ];
    let of_the_last = [
        "auth/authorization-server-migration",
        "auth/iss-normalized",
        "auth/iss-not-advertised",
        "auth/iss-supported",
        "auth/iss-supported-missing",
        "auth/iss-unexpected",
        "auth/iss-wrong-issuer",
        "auth/metadata-issuer-mismatch",
        "auth/offline-access-not-supported",
        "auth/offline-access-scope",
        "auth/resource-mismatch",
    ];
    let modern = [&of_both[..], &of_the_last].concat();
    let driver = "suite-client-auth.mjs";
    let row = ClientRow { name: ", `auth/*`", warned: &["cimd-client-id-used"], counts_ids: true };
    on_the_page(&[
        next.clients(driver, &["--spec-version", "2025-11-25"], &of_both, row),
        next.clients(driver, &["--spec-version", "2026-07-28"], &modern, row),
    ]);
}

/// Requires that the page has these rows.
pub(crate) fn on_the_page(rows: &[String]) {
    let missing: Vec<&str> =
        rows.iter().map(String::as_str).filter(|row| !PAGE.contains(row)).collect();
    assert!(missing.is_empty(), "docs/explanation/protocols.md lacks\n{}", missing.join("\n"));
}

/// I-28: the suites' own check of the order, which a gateway that reorders fails now and then.
#[tokio::test(flavor = "multi_thread")]
async fn progress_is_in_order_ten_times_of_ten() {
    let Some([stable, next]) = Suite::both() else { return };
    let server = fixture().await;
    let scenario = ["--scenario", "tools-call-with-progress"];
    for _ in 0..RUNS {
        for (suite, more) in [
            (&stable, &[][..]),
            (&next, &["--spec-version", "2025-11-25"]),
            (&next, &["--spec-version", "2026-07-28"]),
        ] {
            let run = suite.serve(&server, &[&scenario[..], more].concat());
            assert!(run.ended_well && run.count("SUCCESS") > 0, "{}", run.said);
        }
    }
}
