//! `serve --demo`: a server to try out without a configuration, a network or another program.
//!
//! It is the ordinary server with an embedded configuration and ordinary API keys in the store. Its
//! sources need only this program: an MCP server (`upstream`) and two commands, which are this
//! program run as a child process; a small HTTP service (`library`); two workflows; and the bundled
//! pack. At its first start it makes some calls itself (`history`).

mod history;
mod library;
pub(crate) mod upstream;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use chrono::Utc;
use toolcrib_config::{self as config};
use toolcrib_core::{
    id::{PrincipalId, TenantId},
    scope::Grant,
    store::Storage,
};
use toolcrib_gateway::{
    Gateway,
    authn::{self, KeyRequest},
};

use crate::{
    args::GlobalOptions,
    context::Context,
    demo_facts::{self, CALLER_NAMES, CALLERS, Facts},
    env::Secrets,
    failure::{Exit, advised},
    local,
    printer::Printer,
    settings::{DATA_DIR, STORE_FILE, Settings, StorePlace},
    tool_row::{COLUMNS, ToolRow},
};

use library::Library;

/// The file in the data directory with the URL and the keys of the demo.
pub(crate) const FILE: &str = "demo.json";

/// Lifetime of the demo's keys, which are stored as plain text in a file.
const KEY_DAYS: i64 = 30;

/// How long the link works that signs in.
const LINK_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// The demo's configuration, with placeholders for the path of this program and the library's address.
const CONFIG: &str = include_str!("demo/toolcrib.toml");

/// The source of the demo that needs a WebAssembly engine; empty in a build without one.
const PACK: &str = if cfg!(feature = "wasm") { include_str!("demo/pack.toml") } else { "" };

/// The demo's workflows. They are written to the data directory, where users can edit them.
const WORKFLOWS: [(&str, &str); 2] = [
    ("forecast.yaml", include_str!("demo/workflows/forecast.yaml")),
    ("welcome.yaml", include_str!("demo/workflows/welcome.yaml")),
];

/// The state of a demo before its server starts.
#[derive(Debug)]
pub(crate) struct Demo {
    data_dir: PathBuf,
    library: Library,
}

pub(crate) fn left_keys_in(data_dir: &Path) -> bool {
    data_dir.join(FILE).is_file()
}

/// Prints the keys that a demo left in the data directory, or only the key `name`.
pub(crate) fn print_keys(
    name: Option<&str>,
    Context { global, printer }: &Context,
) -> anyhow::Result<Exit> {
    let file = data_dir(global).join(FILE);
    let facts = Facts::read(&file).ok_or_else(|| no_demo(&file))?;
    match name {
        None if printer.wants_json() => printer.json(&facts.keys)?,
        None => {
            for (name, key) in &facts.keys {
                printer.line(format_args!("{name:<12}  {key}"))?;
            }
        }
        Some(name) => {
            let key = facts.keys.get(name).ok_or_else(|| {
                advised(
                    format!("{} has no key called {name}", file.display()),
                    "restart the demo, which creates missing keys",
                )
            })?;
            printer.json_or_line(&serde_json::json!({ "name": name, "key": key }), key)?;
        }
    }
    Ok(Exit::Done)
}

/// Changes the tool `echo` of the demo's MCP server, or changes it back.
pub(crate) fn change(undo: bool, Context { global, printer }: &Context) -> anyhow::Result<Exit> {
    let data_dir = data_dir(global);
    if !left_keys_in(&data_dir) {
        return Err(no_demo(&data_dir.join(FILE)));
    }
    let file = data_dir.join(upstream::CHANGED_BY);
    let result = match undo {
        false => std::fs::write(&file, "`toolcrib demo change --undo` removes this file\n"),
        true => std::fs::remove_file(&file).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }),
    };
    result.with_context(|| format!("{} cannot be changed", file.display()))?;
    printer.json_or_note(
        &serde_json::json!({ "tool": "mcp:demo.echo", "changed": !undo }),
        match undo {
            false => {
                "the demo's MCP server has changed its tool `echo`; `toolcrib tools diff demo__echo` \
                 shows the change"
            }
            true => "the demo's MCP server offers its tool `echo` in the first form again",
        },
    )?;
    Ok(Exit::Done)
}

/// Writes each key of the demo in `data_dir` to a file NAME.key in `folder`, for `--key-file`.
pub(crate) fn write_key_files(data_dir: &Path, folder: &Path) -> anyhow::Result<()> {
    let file = data_dir.join(FILE);
    let facts = Facts::read(&file).ok_or_else(|| no_demo(&file))?;
    for (name, key) in &facts.keys {
        let file = folder.join(format!("{name}.key"));
        let written = demo_facts::new_private_file(&file)
            .and_then(|mut out| std::io::Write::write_all(&mut out, format!("{key}\n").as_bytes()));
        written.with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}

/// The error for a missing or unreadable `file`.
fn no_demo(file: &Path) -> anyhow::Error {
    advised(
        format!("no demo found: {} is missing or unreadable", file.display()),
        "start one with `toolcrib serve --demo`, or set --data-dir to its data directory",
    )
}

/// The directory for the state of the demo.
fn data_dir(global: &GlobalOptions) -> PathBuf {
    global.data_dir.clone().unwrap_or_else(|| PathBuf::from(DATA_DIR))
}

impl Demo {
    pub(crate) async fn new(Context { global, printer }: &Context) -> anyhow::Result<Self> {
        if let Some(file) = &global.config {
            printer.note(format_args!(
                "--demo brings its own configuration; {} is not read",
                file.display()
            ));
        }
        let data_dir = data_dir(global);
        if data_dir.join(STORE_FILE).exists() && !left_keys_in(&data_dir) {
            printer.warning(format_args!(
                "{} already exists: every server that uses it will accept the demo's keys for \
                 {KEY_DAYS} days; use another --data-dir to avoid that",
                data_dir.join(STORE_FILE).display()
            ));
        }
        if PACK.is_empty() {
            printer.note("this build has no WebAssembly engine, so the demo has no pack");
        }
        let library = Library::open().await.context("the demo's HTTP service cannot listen")?;
        Ok(Self { data_dir, library })
    }

    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let program = std::env::current_exe().context("the path of this program is unknown")?;
        let program = program.to_str().context("the path of this program is not UTF-8")?;
        let typed = |text: &str| toml::Value::from(text).to_string();
        let text = format!("{CONFIG}\n{PACK}").replace("LIBRARY", &typed(&self.library.document()));
        let text = text.replace("PROGRAM", &typed(program));
        let mut config = config::parse("demo", &text, &self.data_dir, &Secrets)?;
        config.store.path = self.data_dir.join(STORE_FILE);
        config.protect(None, &self.data_dir)?;
        let (data_dir, place) = (self.data_dir.clone(), StorePlace::Explicit);
        Ok(Settings { config, text: None, data_dir, place })
    }

    /// Writes the workflow files that are missing.
    pub(crate) fn write_workflows(&self) -> anyhow::Result<()> {
        let directory = self.data_dir.join("workflows");
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("{} cannot be created", directory.display()))?;
        for (name, text) in WORKFLOWS {
            let file = directory.join(name);
            if !file.exists() {
                std::fs::write(&file, text)
                    .with_context(|| format!("{} cannot be written", file.display()))?;
            }
        }
        Ok(())
    }

    /// Creates the missing keys, waits for the tools, and prints the addresses and two example requests.
    pub(crate) async fn greet(
        &self,
        gateway: &Gateway,
        store: &dyn Storage,
        url: &str,
        printer: Printer,
    ) -> anyhow::Result<()> {
        let file = self.data_dir.join(FILE);
        let mut facts = Facts::read(&file).unwrap_or_default();
        facts.url = url.to_owned();
        for (name, tenant, scopes) in CALLERS {
            let known = facts.keys.get(name).is_some_and(|key| {
                gateway.authenticator().authenticate(key).is_ok_and(|principal| {
                    principal.id.as_str() == name && principal.tenant.as_str() == tenant
                })
            });
            if !known {
                facts.keys.insert(name.to_owned(), key(store, name, tenant, scopes).await?);
            }
        }
        gateway.authenticator().refresh().await;
        facts.write(&file)?;
        local::settle(gateway, printer).await;
        self.introduce(gateway, &facts, &file, printer)
    }

    /// Makes the history of the demo in the background, unless its record has one.
    pub(crate) fn make_history(gateway: &Gateway, store: &dyn Storage, printer: Printer) {
        let work = history::make(gateway.clone(), store.events(), printer);
        gateway.tasks().once("demo-history", work);
    }

    fn introduce(
        &self,
        gateway: &Gateway,
        facts: &Facts,
        file: &Path,
        printer: Printer,
    ) -> anyhow::Result<()> {
        let snapshot = gateway.snapshot();
        let entries = snapshot.catalog.entries().iter();
        let entries: Vec<ToolRow> = entries.map(|entry| ToolRow::from(&**entry)).collect();
        if entries.is_empty() {
            printer.warning("the demo's sources did not list their tools in time");
        }
        printer.table(COLUMNS, &entries)?;
        let url = &facts.url;
        let admin = facts.keys.get("admin").map(String::as_str).unwrap_or_default();
        let link = gateway.authenticator().new_sign_in_link(admin, LINK_LIFETIME)?;
        printer.line(format_args!(
            "
sign in      {url}/explorer#sign-in={link}
             as admin; the link works once, within {minutes} minutes
explorer     {url}/explorer
MCP          {url}/mcp
OpenWOP      {url}/v1/tools
OTC          {url}/tools
OXP          {url}/oxp
keys         {names}: `toolcrib demo keys` prints them ({file})

Try:
  curl -s -H 'Authorization: Bearer {admin}' {url}/v1/tools
  curl -s -H 'Authorization: Bearer {admin}' -H 'Content-Type: application/json' \\
    -d '{{\"request\": {{\"tool_id\": \"demo.echo\", \"input\": {{\"text\": \"hello\"}}}}}}' {url}/tools/call
",
            link = link.expose(),
            minutes = LINK_LIFETIME.as_secs() / 60,
            names = CALLER_NAMES.join(", "),
            file = file.display(),
        ))
    }
}

/// Creates a key in `store`; returns its text.
async fn key(
    store: &dyn Storage,
    name: &str,
    tenant: &str,
    scopes: &[&str],
) -> anyhow::Result<String> {
    let now = Utc::now();
    let request = KeyRequest {
        name: format!("demo: {name}"),
        tenant: TenantId::parse(tenant)?,
        principal: PrincipalId::parse(name)?,
        roles: Vec::new(),
        scopes: scopes.iter().map(|scope| Grant::parse(scope)).collect::<Result<_, _>>()?,
        expires_at: Some(now + chrono::Duration::days(KEY_DAYS)),
    };
    let key = authn::new_key(request, now)?;
    store.keys().insert(key.record).await?;
    Ok(key.text.expose().to_owned())
}
