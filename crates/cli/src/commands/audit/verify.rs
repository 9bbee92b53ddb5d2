//! `audit verify` and `audit key`: proves that the event log is unchanged.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufRead as _, BufReader, IsTerminal as _},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::DateTime;
use serde::Deserialize;
use serde_json::json;
use toolcrib_config::Config;
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    record::{Checkpoint, ExportedEvent, RecordStore, Witness, WitnessStore as _},
    store::{Storage, StoreError},
    text,
};
use toolcrib_store::verify::{
    self, Finding, FindingCode, LogVerification, Report, Scope, Verdict, Verifier, WitnessUse,
};

use super::{export::remote, log::PAGE};
use crate::{
    args::{GlobalOptions, VerifyArgs},
    client::Client,
    context::Context,
    env,
    failure::{Advice as _, Exit, advised, usage},
    printer::Printer,
    settings::{self, Settings},
    signing, store,
    table::{Column, Kind},
    text::counted,
};

/// The default checkpoint interval.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
/// Interval between two progress messages of a long check.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

const COLUMNS: &[Column<LogVerification>] = &[
    Column(Kind::Text, "tenant", |log| log.tenant.clone()),
    Column(Kind::Name, "from", |log| log.first.to_string()),
    Column(Kind::Name, "to", |log| log.last.to_string()),
    Column(Kind::Name, "signed to", |log| match log.signed {
        0 => "-".to_owned(),
        signed => signed.to_string(),
    }),
    Column(Kind::Name, "hash", |log| match Digest::parse(&log.hash) {
        Some(_) => log.hash.get(..16).unwrap_or(&log.hash).to_owned(),
        None => String::new(),
    }),
];

pub(super) async fn key(cx: &Context) -> anyhow::Result<Exit> {
    settings::no_url(&cx.global, "`toolcrib audit key` works")?;
    let config = Settings::load(&cx.global)?.config;
    let Some(key) = signing::existing(&config).await? else {
        return Err(advised(
            format!(
                "the signing key {} does not exist",
                signing::key_file(&config.store.path).display()
            ),
            "the first `toolcrib serve` creates it; or set `[record] signing_key`",
        ));
    };
    let public = STANDARD.encode(key.public());
    let object = json!({ "keyId": key.id(), "publicKey": public });
    cx.printer.json_or_line(&object, public)?;
    Ok(Exit::Done)
}

pub(super) async fn run(args: &VerifyArgs, cx: &Context) -> anyhow::Result<Exit> {
    let Context { global, printer } = cx;
    let printer = *printer;
    let public_keys = args.public_key.iter().map(|file| public_key(file));
    let mut trusted = public_keys.collect::<anyhow::Result<Vec<_>>>()?;
    let mut anchors = Vec::new();
    for file in &args.anchor {
        read_anchor(file, &mut anchors, printer)?;
    }
    let (report, now) = match &args.file {
        // A file is verified here, even if TOOLCRIB_URL names a server.
        Some(file) => {
            trusted.extend(own_key(global).await);
            exported(args, file, trusted, &anchors, printer)?
        }
        None => {
            let report = match Client::connect(cx)? {
                Some(client) => on_server(args, &client, trusted, &anchors).await?,
                None => here(args, global, trusted, &anchors, printer).await?,
            };
            (report, chrono::Utc::now())
        }
    };
    let interval = args.interval.or_else(|| {
        let settings = Settings::load(global).ok()?;
        Some(settings.config.record.checkpoint_interval)
    });
    let interval = interval.unwrap_or(DEFAULT_INTERVAL);
    let verdict = report.verdict(now, interval);
    print(&report, verdict, interval, args.file.is_some(), printer)?;
    Ok(match verdict {
        Verdict::Verified => Exit::Done,
        Verdict::Changed => Exit::Failed,
        Verdict::UnsignedTail => Exit::Code(3),
        Verdict::NoCheckpoint => Exit::Code(4),
        Verdict::NoWitness => Exit::Code(5),
    })
}

/// The public key of the store of `global`, if the signing key is readable. Verification does not
/// require it.
async fn own_key(global: &GlobalOptions) -> Option<[u8; 32]> {
    let config = Settings::load(global).ok()?.config;
    signing::existing(&config).await.ok()?.map(|key| key.public())
}

async fn here(
    args: &VerifyArgs,
    global: &GlobalOptions,
    mut trusted: Vec<[u8; 32]>,
    anchors: &[Checkpoint],
    printer: Printer,
) -> anyhow::Result<Report> {
    let config = Settings::load(global)?.config;
    let own = match signing::existing(&config).await {
        Ok(key) => key.map(|key| key.public()),
        Err(error) if trusted.is_empty() => {
            return Err(advised(
                error.to_string(),
                "set it, or name the public key with --public-key; `toolcrib audit key` prints it \
                 where the server runs",
            ));
        }
        Err(_) => None,
    };
    trusted.extend(own);
    let store = store::open_existing(&config).await?;
    // Read before the checkpoints, because a running server writes its witness after them.
    let witnesses = witnesses(&config, &*store, &trusted).await?;
    let scope = Scope { tenant: args.tenant.clone(), from: args.from, to: args.to };
    let mut progress = Progress::new(printer);
    let record = &*store.record();
    let known = &witnesses.trusted;
    let checked = verify::record(record, &scope, trusted, anchors, known, |done, all| {
        progress.update(done, all)
    });
    let checked = checked.await;
    let witness = match own {
        _ if !witnesses.trusted.is_empty() => WitnessUse::Compared,
        // A server that creates a key next to the store creates the witness right after it.
        Some(_) if config.record.signing_key.is_none() && record.last_position().await? > 0 => {
            WitnessUse::Missing
        }
        Some(own) if signed_by(record, &own).await? => WitnessUse::Missing,
        _ => WitnessUse::Absent,
    };
    let damage = match scope.tenant {
        None => store.damage().await,
        Some(_) => Ok(Vec::new()),
    };
    store.close().await;
    let other = |code, what: String| {
        let mut verifier = Verifier::new(Vec::new(), true);
        verifier.found(code, what);
        verifier.finish(true)
    };
    let mut report = match checked {
        Ok(report) => report,
        Err(StoreError::Corrupt(what)) => other(FindingCode::Damaged, what),
        Err(error) => return Err(error.into()),
    };
    report.witness = Some(witness);
    for problem in witnesses.problems {
        report.findings.extend(other(FindingCode::Witness, problem.to_owned()).findings);
    }
    let damage = match damage {
        Ok(damage) => damage,
        Err(StoreError::Corrupt(what)) => vec![what],
        Err(error) => return Err(error.into()),
    };
    for line in damage {
        report.findings.extend(other(FindingCode::Damaged, line).findings);
    }
    Ok(report)
}

/// The witnesses of the servers that use a store.
#[derive(Default)]
struct Witnesses {
    /// Signed with a trusted key.
    trusted: Vec<Witness>,
    problems: BTreeSet<&'static str>,
}

/// Reads the witness next to the store, and those in a shared store. Verification does not require
/// a witness, so an unreadable file counts as missing.
async fn witnesses(
    config: &Config,
    store: &dyn Storage,
    trusted: &[[u8; 32]],
) -> Result<Witnesses, StoreError> {
    let mut texts: Vec<String> =
        signing::witness(config).load().await.ok().flatten().into_iter().collect();
    if let Some(shared) = store.witnesses() {
        for saved in shared.list().await? {
            texts.extend(shared.load(&saved.server).await?);
        }
    }
    let mut read = Witnesses::default();
    for text in texts {
        match toolcrib_store::witness(&text) {
            None => {
                read.problems.insert("a witness of the last signed state was changed");
            }
            Some(witness) if !trusted.contains(&witness.public_key) => {
                read.problems
                    .insert("a witness of the last signed state is signed with an untrusted key");
            }
            Some(witness) => read.trusted.push(witness),
        }
    }
    Ok(read)
}

/// Whether the last checkpoint of any tenant is signed with `key`.
async fn signed_by(store: &dyn RecordStore, key: &[u8; 32]) -> anyhow::Result<bool> {
    let mut after = None;
    loop {
        let tenants = store.tenants(after.as_ref()).await?;
        for tenant in &tenants {
            // The report contains unreadable checkpoints as findings.
            let last = store.last_checkpoint(tenant).await.ok().flatten();
            if last.is_some_and(|last| last.public_key == *key) {
                return Ok(true);
            }
        }
        after = tenants.last().cloned();
        if after.is_none() {
            return Ok(false);
        }
    }
}

/// Creates a verifier for events that another machine may have signed. Without a public key it trusts
/// no checkpoint.
fn verifier(trusted: Vec<[u8; 32]>, ranged: bool) -> Verifier {
    match trusted.is_empty() {
        true => Verifier::without_keys(ranged),
        false => Verifier::new(trusted, ranged),
    }
}

/// Verifies the events of the key's tenant on a server.
async fn on_server(
    args: &VerifyArgs,
    client: &Client,
    trusted: Vec<[u8; 32]>,
    anchors: &[Checkpoint],
) -> anyhow::Result<Report> {
    if args.tenant.is_some() {
        return Err(usage("a server shows the record of the key's own tenant; leave out --tenant"));
    }
    let mut verifier = verifier(trusted, false);
    let checkpoints = super::export::checkpoints(client).await?;
    if let Some(first) = checkpoints.first() {
        verifier.checkpoints(&first.tenant, &checkpoints);
    }
    let mut after = 0;
    let mut page = remote(client, after, &[]).await?.events;
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
        page = remote(client, after, &[]).await?.events;
    }
}

/// Verifies an export, whose checkpoints precede its events. It may start and, with `--to`, stop at
/// any position. Also returns the time of the newest event: the time of the export is unknown, and
/// the verdict must not change with its age.
fn exported(
    args: &VerifyArgs,
    path: &Path,
    trusted: Vec<[u8; 32]>,
    anchors: &[Checkpoint],
    printer: Printer,
) -> anyhow::Result<(Report, Timestamp)> {
    let mut verifier = verifier(trusted, true);
    let mut newest = Timestamp::MIN_UTC;
    let wanted = |tenant: &str| args.tenant.as_ref().is_none_or(|only| only.as_str() == tenant);
    for anchor in anchors.iter().filter(|anchor| wanted(anchor.tenant.as_str())) {
        verifier.anchor(anchor);
    }
    let mut checkpoints: Vec<Checkpoint> = Vec::new();
    let mut begun = false;
    let mut progress = Progress::new(printer);
    let (mut lines, mut line) = (open(path)?, Vec::new());
    for number in 1_u64.. {
        line.clear();
        let unreadable = || format!("{} cannot be read", path.display());
        if lines.read_until(b'\n', &mut line).with_context(unreadable)? == 0 {
            break;
        }
        if !begun && let Ok(checkpoint) = serde_json::from_slice::<Checkpoint>(&line) {
            if wanted(checkpoint.tenant.as_str()) {
                checkpoints.push(checkpoint);
            }
            continue;
        }
        if !std::mem::replace(&mut begun, true) {
            begin(&mut verifier, &checkpoints);
        }
        let read: Result<ExportedEvent<'_>, _> = serde_json::from_slice(&line);
        let Some(event) = read.ok().and_then(ExportedEvent::stored) else {
            verifier.damaged(format!("line {number} is not an event of an export"));
            continue;
        };
        let at = event.tenant_position;
        let inside = args.from.is_none_or(|from| at >= from) && args.to.is_none_or(|to| at <= to);
        if inside && wanted(&event.tenant) {
            let at = DateTime::parse_from_rfc3339(&event.timestamp).map(Into::into);
            newest = at.map_or(newest, |at| newest.max(at));
            verifier.event(&event);
        }
        if number % 10_000 == 0 {
            progress.update(number, 0);
        }
    }
    if !begun {
        begin(&mut verifier, &checkpoints);
    }
    let mut report = verifier.finish(args.to.is_some());
    report.witness = Some(WitnessUse::Absent);
    Ok((report, newest))
}

/// Passes the checkpoints of an export to `verifier`, tenant by tenant.
fn begin(verifier: &mut Verifier, checkpoints: &[Checkpoint]) {
    for of_tenant in checkpoints.chunk_by(|one, next| one.tenant == next.tenant) {
        if let Some(first) = of_tenant.first() {
            verifier.checkpoints(&first.tenant, of_tenant);
        }
    }
    verifier.begin();
}

fn public_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let text = env::read_secret(path).map_err(|problem| {
        advised(format!("no public key: {problem}"), "`toolcrib audit key` prints it")
    })?;
    toolcrib_store::public_key(text.expose())
        .advise(format!("{} is not a public key", path.display()), "`toolcrib audit key` prints it")
}

/// The response of `GET /v1/record/checkpoints`.
#[derive(Deserialize)]
struct CheckpointAnswer {
    checkpoints: Vec<Checkpoint>,
}

/// Adds the checkpoints in the file at `path` to `into`. Skips invalid lines with a warning: a crash
/// can leave a truncated line.
fn read_anchor(path: &Path, into: &mut Vec<Checkpoint>, printer: Printer) -> anyhow::Result<()> {
    let before = into.len();
    for (number, line) in open(path)?.lines().enumerate() {
        let line = line.with_context(|| format!("{} cannot be read", path.display()))?;
        // The response of a server is one line, and an export has events after its checkpoints.
        if let Ok(CheckpointAnswer { checkpoints }) = serde_json::from_str(&line) {
            into.extend(checkpoints);
            continue;
        }
        if into.len() > before && serde_json::from_str::<ExportedEvent<'_>>(&line).is_ok() {
            break;
        }
        match serde_json::from_str(&line) {
            Ok(checkpoint) => into.push(checkpoint),
            Err(_) => printer.warning(format_args!(
                "{}:{}: skipped a line that is not a checkpoint",
                path.display(),
                number + 1
            )),
        }
    }
    match into.len() > before {
        true => Ok(()),
        false => Err(advised(
            format!("{} contains no checkpoint", path.display()),
            "name the file of an `[[record.anchor]]`, an export with `--checkpoints`, or the answer of \
             `GET /v1/record/checkpoints`",
        )),
    }
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).advise(
        format!("{} cannot be read", path.display()),
        "check its path and its permissions",
    )?;
    Ok(BufReader::with_capacity(1 << 18, file))
}

fn print(
    report: &Report,
    verdict: Verdict,
    interval: Duration,
    is_file: bool,
    printer: Printer,
) -> anyhow::Result<()> {
    if printer.wants_json() {
        let mut object = serde_json::to_value(report)?;
        if let Some(members) = object.as_object_mut() {
            members.insert("ok".to_owned(), json!(verdict == Verdict::Verified));
            members.insert("result".to_owned(), json!(verdict));
        }
        return printer.json(&object);
    }
    if !report.tenants.is_empty() {
        printer.table(COLUMNS, &report.tenants)?;
    }
    for finding in &report.findings {
        printer.foreign(&describe(finding))?;
    }
    if report.more_findings > 0 {
        printer.line(format_args!("and {} more", report.more_findings))?;
    }
    let proven = explain(report, verdict, interval, is_file);
    let (events, checkpoints) =
        (counted(report.events, "event"), counted(report.checkpoints, "checkpoint"));
    let anchors = match report.anchors {
        0 => String::new(),
        anchors => format!(", compared with {} kept elsewhere", counted(anchors, "checkpoint")),
    };
    printer.line(format_args!("{events}, {checkpoints}{anchors}: {proven}"))?;
    if is_file && verdict == Verdict::Changed {
        printer.note(
            "an export with filters, such as --kind or --last, lacks events on purpose: only one without \
             them can be verified",
        );
    }
    Ok(())
}

/// The verdict as text.
fn explain(report: &Report, verdict: Verdict, interval: Duration, is_file: bool) -> String {
    let unsigned: u64 = report.tenants.iter().map(|log| log.unsigned).sum();
    let events = counted(unsigned, "event");
    let partial = match report.tenants.iter().any(|log| log.partial) {
        true => ". Events before the first ones shown were not checked",
        false => "",
    };
    let unwitnessed = match (report.witness, report.anchors, is_file) {
        (Some(WitnessUse::Absent), 0, true) => {
            ". A file is only known to be complete up to its last checkpoint: an end removed \
             together with its checkpoints is not found; name checkpoints from elsewhere with \
             --anchor"
        }
        (Some(WitnessUse::Absent), 0, false) => {
            ". There is no witness here: an end removed with its checkpoints would not be found; \
             name an anchor with --anchor"
        }
        (Some(WitnessUse::Absent), _, _) => {
            ". An end removed after the newest checkpoint of --anchor would not be found"
        }
        _ => "",
    };
    match verdict {
        Verdict::Verified if unsigned == 0 => {
            format!("verified, nothing was changed{partial}{unwitnessed}")
        }
        Verdict::Verified if is_file => format!(
            "verified, nothing was changed up to the last checkpoints; no checkpoint proves the \
             {events} after them{partial}{unwitnessed}"
        ),
        Verdict::Verified => {
            format!(
                "verified, nothing was changed; {events} will be signed with the next checkpoint\
                 {partial}{unwitnessed}"
            )
        }
        Verdict::NoWitness => format!(
            "no witness here: the events match their checkpoints, but the file that names the last \
             one is missing, so the end may have been removed with its checkpoints. Name an anchor \
             with --anchor to compare; no server signs this record until `toolcrib audit accept`\
             {partial}"
        ),
        Verdict::Changed => counted(report.findings.len() as u64 + report.more_findings, "finding"),
        Verdict::UnsignedTail => format!(
            "verified up to the last checkpoints; {events} after them are not signed, although \
             records are signed every {}. They fit together, but it is not proven that they \
             are unchanged and complete. {}{unwitnessed}",
            text::duration(interval),
            match is_file {
                true => "Export the record again, from a server that signs it",
                false => "A running server signs them",
            }
        ),
        Verdict::NoCheckpoint if report.events == 0 => {
            "the record is empty: it has no events to verify".to_owned()
        }
        Verdict::NoCheckpoint if !report.unknown_keys.is_empty() => format!(
            "the events fit together, but no public key was given, so no checkpoint counts. They are \
             signed with {}: name its public key with --public-key; `toolcrib audit key` prints it \
             where the server runs",
            report.unknown_keys.join(", ")
        ),
        Verdict::NoCheckpoint => {
            let without = report.tenants.iter().filter(|log| log.signed == 0);
            let without: Vec<&str> = without.map(|log| log.tenant.as_str()).take(10).collect();
            format!(
                "the events fit together, but no checkpoint covers those of {}: it is not proven that \
                 they are unchanged and complete. A running server signs its store; an \
                 export has checkpoints with `--checkpoints`, or name a file of them with --anchor",
                without.join(", ")
            )
        }
    }
}

fn describe(finding: &Finding) -> String {
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

/// Prints the progress of a long check on a terminal.
struct Progress {
    printer: Printer,
    shown: bool,
    last: Instant,
}

impl Progress {
    fn new(printer: Printer) -> Self {
        Self { printer, shown: std::io::stderr().is_terminal(), last: Instant::now() }
    }

    fn update(&mut self, done: u64, all: u64) {
        if self.shown && self.last.elapsed() >= PROGRESS_INTERVAL {
            self.last = Instant::now();
            match all {
                0 => self.printer.note(format_args!("{done} events so far")),
                all => self.printer.note(format_args!("{done} of {all} events so far")),
            }
        }
    }
}
