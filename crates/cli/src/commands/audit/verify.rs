//! `audit verify` and `audit key`: whether the record is what was written.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, IsTerminal as _},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use toolcrib_core::{
    canonical::Digest,
    record::{Checkpoint, ExportedEvent},
    store::StoreError,
};
use toolcrib_store::verify::{self, Finding, Report, Scope, Verifier};

use super::{PAGE, export::remote};
use crate::{
    args::{Global, VerifyArgs},
    client::Client,
    env,
    failure::{Advise as _, Exit, advised, usage},
    printer::Printer,
    settings::{self, Settings},
    signing, store, table,
};

/// How often a long check says how far it is.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn key(global: &Global, printer: Printer) -> anyhow::Result<Exit> {
    settings::no_url(global, "the key of the record is told")?;
    let config = Settings::load(global)?.config;
    let Some(key) = signing::existing(&config).await? else {
        return Err(advised(
            format!("there is no {}", signing::beside(&config.store.path).display()),
            "the first `toolcrib serve` makes it, or `[record] signing_key` says where a key is",
        ));
    };
    let public = STANDARD.encode(key.public());
    match printer.wants_json() {
        true => printer.json(&json!({ "keyId": key.id(), "publicKey": public }))?,
        false => printer.line(public)?,
    }
    Ok(Exit::Done)
}

pub(super) async fn run(
    args: &VerifyArgs,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let mut trusted = Vec::new();
    for file in &args.public_key {
        trusted.push(public_key(file)?);
    }
    let mut anchors = Vec::new();
    for file in &args.anchor {
        read_anchor(file, &mut anchors, printer)?;
    }
    let report = match (&args.file, Client::connect(global, printer)?) {
        (Some(_), Some(_)) => {
            return Err(usage("a file is checked here; leave out --url and unset TOOLCRIB_URL"));
        }
        (Some(file), None) => {
            trusted.extend(own_key(global).await);
            exported(args, file, trusted, &anchors, printer)?
        }
        (None, Some(client)) => on_server(args, &client, trusted, &anchors, printer).await?,
        (None, None) => here(args, global, trusted, &anchors, printer).await?,
    };
    tell(&report, printer)?;
    Ok(if report.findings.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The key of the store of `global`, if it can be read: whoever checks need not be able to sign.
async fn own_key(global: &Global) -> Option<[u8; 32]> {
    let config = Settings::load(global).ok()?.config;
    signing::existing(&config).await.ok()?.map(|key| key.public())
}

async fn here(
    args: &VerifyArgs,
    global: &Global,
    mut trusted: Vec<[u8; 32]>,
    anchors: &[Checkpoint],
    printer: Printer,
) -> anyhow::Result<Report> {
    let config = Settings::load(global)?.config;
    match signing::existing(&config).await {
        Ok(key) => trusted.extend(key.map(|key| key.public())),
        Err(error) if trusted.is_empty() => return Err(error),
        Err(_) => {}
    }
    let store = store::open_existing(&config)?;
    let scope = Scope { tenant: args.tenant.clone(), from: args.from, to: args.to };
    let mut progress = Progress::new(printer);
    let checked =
        verify::record(&store, &scope, trusted, anchors, |done, all| progress.tell(done, all));
    let checked = checked.await;
    let damage = match scope.tenant {
        None => store.damage().await,
        Some(_) => Ok(Vec::new()),
    };
    store.close().await;
    let unreadable = |what: String| {
        let mut verifier = Verifier::new(Vec::new(), true);
        verifier.damaged(what);
        verifier.finish(true)
    };
    let mut report = match checked {
        Ok(report) => report,
        Err(StoreError::Corrupt(what)) => unreadable(what),
        Err(error) => return Err(error.into()),
    };
    let damage = match damage {
        Ok(damage) => damage,
        Err(StoreError::Corrupt(what)) => vec![what],
        Err(error) => return Err(error.into()),
    };
    for line in damage {
        report.findings.extend(unreadable(line).findings);
    }
    Ok(report)
}

/// A server tells of the key's own tenant.
async fn on_server(
    args: &VerifyArgs,
    client: &Client,
    trusted: Vec<[u8; 32]>,
    anchors: &[Checkpoint],
    printer: Printer,
) -> anyhow::Result<Report> {
    if args.tenant.is_some() {
        return Err(usage("a server shows the record of the key's own tenant; leave out --tenant"));
    }
    if trusted.is_empty() {
        printer.warning("without --public-key no signature counts");
    }
    let mut verifier = Verifier::new(trusted, false);
    let mut checkpoints: Vec<Checkpoint> = Vec::new();
    loop {
        let after = checkpoints.last().map_or(0, |last| last.number).to_string();
        let path = ["v1", "record", "checkpoints"];
        let mut page = client.get(&path, &[("after", after.as_str())]).await?;
        let page = page.get_mut("checkpoints").map(Value::take).unwrap_or_default();
        let page: Vec<Checkpoint> = serde_json::from_value(page)
            .context("the server answered something else than checkpoints")?;
        if page.is_empty() {
            break;
        }
        checkpoints.extend(page);
    }
    if let Some(first) = checkpoints.first() {
        verifier.checkpoints(&first.tenant, &checkpoints);
    }
    let mut after = 0;
    let mut page = remote(client, after).await?;
    let tenant = page.first().map(|(_, event)| event.tenant.clone());
    let mine = |anchor: &&Checkpoint| Some(anchor.tenant.as_str()) == tenant.as_deref();
    for anchor in anchors.iter().filter(mine) {
        verifier.anchor(anchor);
    }
    verifier.begin();
    loop {
        for (position, event) in &page {
            after = *position;
            verifier.event(event);
        }
        if page.len() < PAGE {
            return Ok(verifier.finish(false));
        }
        page = remote(client, after).await?;
    }
}

/// An export, which may begin and, with `--to`, end anywhere.
fn exported(
    args: &VerifyArgs,
    path: &Path,
    trusted: Vec<[u8; 32]>,
    anchors: &[Checkpoint],
    printer: Printer,
) -> anyhow::Result<Report> {
    let mut verifier = Verifier::new(trusted, true);
    let wanted = |tenant: &str| args.tenant.as_ref().is_none_or(|it| it.as_str() == tenant);
    for anchor in anchors.iter().filter(|anchor| wanted(anchor.tenant.as_str())) {
        verifier.anchor(anchor);
    }
    verifier.begin();
    let mut progress = Progress::new(printer);
    let (mut lines, mut line) = (open(path)?, Vec::new());
    for number in 1_u64.. {
        line.clear();
        let unreadable = || format!("{} cannot be read", path.display());
        if lines.read_until(b'\n', &mut line).with_context(unreadable)? == 0 {
            break;
        }
        let read: Result<ExportedEvent<'_>, _> = serde_json::from_slice(&line);
        let Some(event) = read.ok().and_then(ExportedEvent::stored) else {
            verifier.damaged(format!("line {number} is no event of an export"));
            continue;
        };
        let at = event.tenant_position;
        let inside = args.from.is_none_or(|from| at >= from) && args.to.is_none_or(|to| at <= to);
        if inside && wanted(&event.tenant) {
            verifier.event(&event);
        }
        if number % 10_000 == 0 {
            progress.tell(number, 0);
        }
    }
    Ok(verifier.finish(args.to.is_some()))
}

fn public_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let text = env::read_secret(path).map_err(|problem| {
        advised(format!("no public key: {problem}"), "`toolcrib audit key` prints it")
    })?;
    toolcrib_store::public_key(text.expose())
        .advise(format!("{} holds no public key", path.display()), "`toolcrib audit key` prints it")
}

/// The checkpoints in the file at `path`. Half a line is what a machine leaves that went down.
fn read_anchor(path: &Path, into: &mut Vec<Checkpoint>, printer: Printer) -> anyhow::Result<()> {
    let before = into.len();
    for (number, line) in open(path)?.lines().enumerate() {
        let line = line.with_context(|| format!("{} cannot be read", path.display()))?;
        match serde_json::from_str(&line) {
            Ok(checkpoint) => into.push(checkpoint),
            Err(_) => printer.warning(format_args!(
                "{}:{}: this line is no checkpoint and is left out",
                path.display(),
                number + 1
            )),
        }
    }
    match into.len() > before {
        true => Ok(()),
        false => Err(advised(
            format!("{} holds no checkpoint", path.display()),
            "name the file of an `[[record.anchor]]`",
        )),
    }
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path)
        .advise(format!("{} cannot be read", path.display()), "check its name and its rights")?;
    Ok(BufReader::with_capacity(1 << 18, file))
}

fn tell(report: &Report, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        let mut told = serde_json::to_value(report)?;
        if let Some(members) = told.as_object_mut() {
            members.insert("ok".to_owned(), json!(report.findings.is_empty()));
        }
        return printer.json(&told);
    }
    let rows = report.tenants.iter().map(|it| {
        let signed = match it.signed {
            0 => "-".to_owned(),
            signed => signed.to_string(),
        };
        let short =
            Digest::parse(&it.hash).map(|_| it.hash.get(..16).unwrap_or(&it.hash).to_owned());
        [
            it.tenant.clone(),
            it.first.to_string(),
            it.last.to_string(),
            signed,
            short.unwrap_or_default(),
        ]
    });
    if !report.tenants.is_empty() {
        let head = [
            table::text("tenant"),
            table::name("from"),
            table::name("to"),
            table::name("signed to"),
            table::name("hash"),
        ];
        printer.table(head, rows)?;
    }
    for finding in &report.findings {
        printer.foreign(&in_a_line(finding))?;
    }
    if report.more_findings > 0 {
        printer.line(format_args!("and {} more", report.more_findings))?;
    }
    let found = match report.findings.len() as u64 + report.more_findings {
        0 => "nothing was changed".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    printer
        .line(format_args!("{} events, {} checkpoints: {found}", report.events, report.checkpoints))
}

fn in_a_line(finding: &Finding) -> String {
    let place = match (&finding.tenant, finding.position) {
        (Some(tenant), Some(position)) => format!("{tenant} at position {position}: "),
        (Some(tenant), None) => format!("{tenant}: "),
        _ => String::new(),
    };
    let event = match (&finding.run_id, finding.sequence) {
        (Some(run), Some(sequence)) => format!(" (run {run}, sequence {sequence})"),
        _ => String::new(),
    };
    format!("{place}{}{event}", finding.message)
}

/// Says on a terminal how far a long check is.
struct Progress {
    printer: Printer,
    shown: bool,
    last: Instant,
}

impl Progress {
    fn new(printer: Printer) -> Self {
        Self { printer, shown: std::io::stderr().is_terminal(), last: Instant::now() }
    }

    fn tell(&mut self, done: u64, all: u64) {
        if self.shown && self.last.elapsed() >= PATIENCE {
            self.last = Instant::now();
            match all {
                0 => self.printer.note(format_args!("{done} events so far")),
                all => self.printer.note(format_args!("{done} of {all} events so far")),
            }
        }
    }
}
