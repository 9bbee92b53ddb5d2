//! `toolcrib-bench catalog`: large catalogs and many keys, measured from outside.
//!
//! Each part starts the program and, in this process, the upstreams for it. It reports times and
//! the memory of the program (PSS). Times depend on the machine; the memory hardly does.

mod document;
mod upstreams;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::upstreams::{FEW, Upstreams};
use crate::histogram::Histogram;
use crate::http1::{Connection, request};
use crate::process::Server;
use crate::terminal::say;

/// How long the program may take to show all tools.
const BUILD_LIMIT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(10);
/// Memory is read after the program was idle for this long.
const REST: Duration = Duration::from_secs(3);
/// Callers whose views are measured, and changes of one source.
const CALLERS: usize = 50;
const RELOADS: u64 = 5;
/// Connections that create keys.
const MAKERS: usize = 32;
const MIB: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct CatalogOptions {
    /// The program to measure
    #[arg(long)]
    toolcrib: PathBuf,
    /// The parts to measure; by default all
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Tools of the large catalog
    #[arg(long, default_value_t = 100_000)]
    tools: usize,
    /// Sources of the large catalog
    #[arg(long, default_value_t = 20)]
    sources: usize,
    /// An OpenAPI document to use in place of a generated one
    #[arg(long)]
    document: Option<PathBuf>,
    /// Keys to create
    #[arg(long, default_value_t = 10_000)]
    keys: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The large catalog: build, reload of one source, views, stalls
    Catalog,
    /// 5 000 small tools of one source
    Tools,
    /// One large OpenAPI document
    Document,
    /// Keys created through the API
    Keys,
}

/// The program under measurement.
struct Subject {
    server: Server,
    key: String,
    folder: tempfile::TempDir,
}

pub(crate) async fn run(options: &CatalogOptions) -> Result<()> {
    let selects = |part| options.only.is_empty() || options.only.contains(&part);
    if selects(Part::Tools) {
        measure_memory(options, "5 000 small tools", 5_000, 1).await?;
    }
    if selects(Part::Document) {
        measure_document(options).await?;
    }
    if selects(Part::Keys) {
        measure_keys(options).await?;
    }
    if selects(Part::Catalog) {
        measure_catalog(options).await?;
    }
    Ok(())
}

// === the parts ===

async fn measure_memory(
    options: &CatalogOptions,
    name: &str,
    tools: usize,
    sources: usize,
) -> Result<()> {
    let upstreams = Upstreams::start(tools, sources).await?;
    let json = upstreams.bytes();
    let subject = Subject::start(&options.toolcrib, &upstreams.configuration()).await?;
    let built = subject.wait_for_all(tools, Instant::now()).await?;
    let quiet = subject.memory().await?;
    subject.fetch("/v1/tools", &subject.key).await?;
    let listed = subject.memory().await?;
    say(&format!(
        "{name} ({} KB of JSON): ready after {:.2} s; PSS {} MB, {} MB after the first list",
        json / 1_000,
        built.as_secs_f64(),
        quiet / MIB,
        listed / MIB,
    ))
}

async fn measure_document(options: &CatalogOptions) -> Result<()> {
    let text = match &options.document {
        Some(file) => std::fs::read_to_string(file)?,
        None => document::generated().to_string(),
    };
    let document: Value = serde_json::from_str(&text).context("the document is not JSON")?;
    let length = u64::try_from(document.to_string().len())?;
    let operations = document::operations(&document);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("document.json");
    std::fs::write(&file, text)?;
    let source = format!(
        "[[source]]\nid = \"api\"\nkind = \"connector\"\ndocument = \"{}\"\n\
         base_url = \"http://127.0.0.1:9\"\ntenants = [\"*\"]\n\
         [source.tools.\"*\"]\nscopes = [\"bench:all\"]\napproval = \"never\"\n",
        file.display()
    );
    let empty = Subject::start(&options.toolcrib, "").await?;
    let base = empty.memory().await?;
    drop(empty);
    let begun = Instant::now();
    let subject = Subject::start(&options.toolcrib, &source).await?;
    let (tools, built) = subject.wait_until_steady(begun).await?;
    let quiet = subject.memory().await?;
    subject.fetch("/v1/tools", &subject.key).await?;
    let listed = subject.memory().await?;
    let times = |memory: u64| memory.saturating_sub(base) as f64 / length as f64;
    say(&format!(
        "OpenAPI document ({operations} operations, {:.1} MB of JSON, {tools} tools): ready after \
         {:.2} s; PSS {} MB ({} MB without sources, so {:.1} x the JSON), {} MB after the first \
         list ({:.1} x)",
        length as f64 / 1e6,
        built.as_secs_f64(),
        quiet / MIB,
        base / MIB,
        times(quiet),
        listed / MIB,
        times(listed),
    ))
}

async fn measure_keys(options: &CatalogOptions) -> Result<()> {
    let subject = Subject::start(&options.toolcrib, "").await?;
    let before = subject.memory().await?;
    let begun = Instant::now();
    let mut makers = JoinSet::new();
    for maker in 0..MAKERS {
        let (address, key) = (subject.server.address, subject.key.clone());
        let numbers = (maker..options.keys).step_by(MAKERS);
        makers.spawn(async move {
            let mut connection = Connection::open(address).await?;
            for number in numbers {
                let name = format!("caller-{number}");
                make_key(&mut connection, address, &key, &name, &["bench:few"]).await?;
            }
            anyhow::Ok(())
        });
    }
    let processor = subject.server.processor_time()?;
    while let Some(made) = makers.join_next().await {
        made??;
    }
    let (elapsed, used) = (begun.elapsed(), subject.server.processor_time()?);
    let after = subject.memory().await?;
    say(&format!(
        "{} keys through the API: {:.0} keys/s, {:.0} µs of processor time each; PSS {} MB before, \
         {} MB after",
        options.keys,
        options.keys as f64 / elapsed.as_secs_f64(),
        used.saturating_sub(processor).as_secs_f64() * 1e6 / options.keys.max(1) as f64,
        before / MIB,
        after / MIB,
    ))
}

async fn measure_catalog(options: &CatalogOptions) -> Result<()> {
    let upstreams = Upstreams::start(options.tools, options.sources).await?;
    let begun = Instant::now();
    let subject = Subject::start(&options.toolcrib, &upstreams.configuration()).await?;
    let built = subject.wait_for_all(options.tools, begun).await?;
    let processor = subject.server.processor_time()?;
    let memory = subject.memory().await?;
    say(&format!(
        "{} tools of {} sources: ready after {:.2} s ({:.2} s of processor time); PSS {} MB",
        options.tools,
        options.sources,
        built.as_secs_f64(),
        processor.as_secs_f64(),
        memory / MIB,
    ))?;
    let (first, again) = subject.views().await?;
    say(&format!(
        "list of {FEW} tools by a caller with new scopes: p50 {:.2} ms the first time, {:.2} ms again",
        milliseconds(&first, 0.5),
        milliseconds(&again, 0.5),
    ))?;
    let (reloads, processor, stalls) = subject.reloads(&upstreams).await?;
    say(&format!(
        "reload of one source: p50 {:.0} ms, slowest {:.0} ms, {:.0} ms of processor time; lists by \
         others meanwhile: p99 {:.2} ms, slowest {:.2} ms",
        milliseconds(&reloads, 0.5),
        milliseconds(&reloads, 1.0),
        processor.as_secs_f64() * 1e3,
        milliseconds(&stalls, 0.99),
        milliseconds(&stalls, 1.0),
    ))?;
    let (whole, stalls) = subject.whole_list().await?;
    say(&format!(
        "first list of all tools: {:.0} ms; lists by others meanwhile: p99 {:.2} ms, slowest {:.2} ms; \
         PSS {} MB",
        whole.as_secs_f64() * 1e3,
        milliseconds(&stalls, 0.99),
        milliseconds(&stalls, 1.0),
        subject.memory().await? / MIB,
    ))
}

// === impl Subject ===

impl Subject {
    async fn start(program: &Path, sources: &str) -> Result<Self> {
        // It runs in another directory.
        let program = &program.canonicalize().context("cannot find the program")?;
        let folder = tempfile::tempdir()?;
        let (data, config) = (folder.path().join("data"), folder.path().join("toolcrib.toml"));
        std::fs::create_dir_all(&data)?;
        let text = format!(
            "[store]\nurl = \"sqlite:{}\"\n\n[record]\ndurability = \"relaxed\"\n\n{sources}",
            data.join("toolcrib.db").display()
        );
        std::fs::write(&config, text)?;
        let output = Command::new(program)
            .args([
                "keys",
                "create",
                "--name",
                "bench",
                "--principal",
                "bench",
                "--tenant",
                "bench",
            ])
            .args(["--scope", "*", "--json", "--config"])
            .arg(&config)
            .arg("--data-dir")
            .arg(&data)
            .stdin(Stdio::null())
            .output()
            .context("cannot start toolcrib")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let created: Value = serde_json::from_slice(&output.stdout)?;
        let key = created.get("key").and_then(Value::as_str).context("keys create: no key")?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--data-dir").arg(&data).current_dir(folder.path());
        let server = Server::start("catalog", &mut command, folder.path()).await?;
        Ok(Self { server, key: key.to_owned(), folder })
    }

    /// The memory after a rest, in bytes.
    async fn memory(&self) -> Result<u64> {
        sleep(REST).await;
        Ok(self.server.memory()? << 10)
    }

    /// Waits until the log of the program says that `tools` tools are in the catalog.
    async fn wait_for_all(&self, tools: usize, begun: Instant) -> Result<Duration> {
        loop {
            let found = self.logged_tools()?;
            if found >= tools {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > BUILD_LIMIT {
                bail!("{found} of {tools} tools after {} s", BUILD_LIMIT.as_secs());
            }
            sleep(POLL).await;
        }
    }

    /// Waits until the first tools appear; returns their number.
    async fn wait_until_steady(&self, begun: Instant) -> Result<(usize, Duration)> {
        let built = self.wait_for_all(1, begun).await?;
        Ok((self.logged_tools()?, built))
    }

    /// The sum of `tools=N` of the sources that were refreshed.
    fn logged_tools(&self) -> Result<usize> {
        let log = std::fs::read_to_string(self.folder.path().join("catalog.log"))?;
        let lines = log.lines().filter(|line| line.contains("catalog refreshed"));
        let tools = |line: &str| {
            let plain: String = without_colors(line);
            let (_, rest) = plain.split_once("tools=")?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
        };
        Ok(lines.filter_map(tools).sum())
    }

    /// Requests `path` on a new connection and reads the response, of any length.
    async fn fetch(&self, path: &str, key: &str) -> Result<Vec<u8>> {
        fetch(self.server.address, path, key).await
    }

    /// Measures the first and the second list of callers with different scopes.
    async fn views(&self) -> Result<(Histogram, Histogram)> {
        let address = self.server.address;
        let mut connection = Connection::open(address).await?;
        let (mut first, mut again) = (Histogram::new(), Histogram::new());
        for number in 0..CALLERS {
            let (name, scope) = (format!("viewer-{number}"), format!("own:n{number}"));
            let scopes = ["bench:few", &scope];
            let key = make_key(&mut connection, address, &self.key, &name, &scopes).await?;
            for times in [&mut first, &mut again] {
                let list = request("GET", address, "/v1/tools", &bearer(&key).each(), "");
                let begun = Instant::now();
                let answer = connection.exchange(&list).await?;
                times.add(begun.elapsed());
                let tools: Vec<Value> = serde_json::from_slice(answer.body)?;
                ensure!(tools.len() == FEW, "{} tools instead of {FEW}", tools.len());
            }
        }
        Ok((first, again))
    }

    /// Changes one tool of one source several times. Measures the time from reading its new list
    /// until a caller sees it, the processor time of each change, and the times of other callers'
    /// lists.
    async fn reloads(&self, upstreams: &Upstreams) -> Result<(Histogram, Duration, Histogram)> {
        let (stop, others) = self.other_callers().await?;
        let mut connection = Connection::open(self.server.address).await?;
        let headers = bearer(&self.key);
        let path = format!("/v1/tools/{}", upstreams.changing());
        let get = request("GET", self.server.address, &path, &headers.each(), "");
        let mut times = Histogram::new();
        let mut processor = Duration::ZERO;
        for version in 1..=RELOADS {
            let read = upstreams.change(version).await?;
            let before = self.server.processor_time()?;
            let text = upstreams::described(version);
            loop {
                let answer = connection.exchange(&get).await?;
                if find(answer.body, text.as_bytes()) {
                    break;
                }
                ensure!(read.elapsed() < BUILD_LIMIT, "the change did not arrive");
                sleep(Duration::from_millis(2)).await;
            }
            times.add(read.elapsed());
            processor += self.server.processor_time()?.saturating_sub(before);
        }
        stop.send_replace(true);
        Ok((times, processor / u32::try_from(RELOADS)?, others.await??))
    }

    /// Requests the list of all tools once; measures its time and those of other callers.
    async fn whole_list(&self) -> Result<(Duration, Histogram)> {
        let (stop, others) = self.other_callers().await?;
        let begun = Instant::now();
        self.fetch("/v1/tools", &self.key).await?;
        let elapsed = begun.elapsed();
        stop.send_replace(true);
        Ok((elapsed, others.await??))
    }

    /// Lists a few tools repeatedly on a separate connection, until it is stopped.
    async fn other_callers(
        &self,
    ) -> Result<(watch::Sender<bool>, tokio::task::JoinHandle<Result<Histogram>>)> {
        let address = self.server.address;
        let mut connection = Connection::open(address).await?;
        let key = make_key(&mut connection, address, &self.key, "other", &["bench:few"]).await;
        // At the second call, the key `other` exists already.
        let key = match key {
            Ok(key) => key,
            Err(_) => make_key(&mut connection, address, &self.key, "more", &["bench:few"]).await?,
        };
        let (stop, stopped) = watch::channel(false);
        let list = request("GET", address, "/v1/tools", &bearer(&key).each(), "");
        let others = tokio::spawn(async move {
            let mut times = Histogram::new();
            while !*stopped.borrow() {
                let begun = Instant::now();
                connection.exchange(&list).await?;
                times.add(begun.elapsed());
                sleep(Duration::from_millis(1)).await;
            }
            Ok(times)
        });
        Ok((stop, others))
    }
}

/// The header with a key.
struct Bearer(String);

fn bearer(key: &str) -> Bearer {
    Bearer(format!("Bearer {key}"))
}

impl Bearer {
    fn each(&self) -> [(&str, &str); 1] {
        [("authorization", &self.0)]
    }
}

async fn make_key(
    connection: &mut Connection,
    address: SocketAddr,
    key: &str,
    name: &str,
    scopes: &[&str],
) -> Result<String> {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = json!({ "name": name, "principal": name, "scopes": scopes }).to_string();
    let make = request("POST", address, "/v1/keys", &headers, &body);
    let answer = connection.exchange(&make).await?;
    if answer.status != 201 {
        bail!("no key: {}: {}", answer.status, String::from_utf8_lossy(answer.body));
    }
    let made: Value = serde_json::from_slice(answer.body)?;
    Ok(made.get("key").and_then(Value::as_str).context("a key")?.to_owned())
}

async fn fetch(address: SocketAddr, path: &str, key: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "{path}: not 200");
    Ok(answer)
}

fn milliseconds(times: &Histogram, share: f64) -> f64 {
    times.quantile(share).as_secs_f64() * 1e3
}

fn find(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Removes the sequences that color a terminal.
fn without_colors(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_removed() {
        assert_eq!(without_colors("a \u{1b}[3mtools\u{1b}[0m\u{1b}[2m=\u{1b}[0m5"), "a tools=5");
    }
}
