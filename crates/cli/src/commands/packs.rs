//! `packs add|list|remove|verify`: in the data directory. Running servers apply a change at the next
//! discovery of a source.

use std::path::Path;

use serde_json::{Value, json};
use toolcrib_core::source::pack::PackVerification;
use toolcrib_sources::{InstalledPack, Library, PackError, PackReport, inspect};

use crate::{
    args::{PackSelector, PackTrust, PacksCommand},
    context::Context,
    failure::{Exit, advised},
    printer::Printer,
    settings::{self, Settings},
    table::{Column, Kind},
    text::member,
};

pub(crate) async fn run(command: PacksCommand, cx: &Context) -> anyhow::Result<Exit> {
    settings::no_url(&cx.global, "packs are managed")?;
    let library = settings::library(&Settings::load(&cx.global)?.data_dir);
    let printer = cx.printer;
    // Reading, hashing and compiling would block the async runtime.
    tokio::task::spawn_blocking(move || match command {
        PacksCommand::Add { pack, integrity, trust } => {
            add(&library, &pack, integrity, trust, printer)
        }
        PacksCommand::List(_) => list(&library, printer),
        PacksCommand::Remove { pack } => remove(&library, pack, printer),
        PacksCommand::Verify { pack, trust } => verify(&library, pack, &trust, printer),
    })
    .await?
}

fn add(
    library: &Library,
    path: &Path,
    integrity: Option<String>,
    trust: PackTrust,
    printer: Printer,
) -> anyhow::Result<Exit> {
    if !path.exists() {
        return Err(advised(
            format!("there is no pack at {}", path.display()),
            "name an archive, or a directory with a pack.json",
        ));
    }
    let verification = PackVerification { integrity, keys: trust.keys };
    let report = library.add(path, &verification)?;
    show(&report, printer)?;
    printer.note(format_args!(
        "installed; use it in a source with kind = \"node-pack\" and pack = \"{}\"",
        report.name
    ));
    Ok(Exit::Done)
}

const COLUMNS: &[Column<Value>] = &[
    Column(Kind::Name, "name", |pack| member(pack, "name").to_owned()),
    Column(Kind::Name, "version", |pack| member(pack, "version").to_owned()),
    Column(Kind::Text, "from", |pack| match pack.get("bundled") {
        Some(_) => "part of this program".to_owned(),
        None => member(pack, "resolved").to_owned(),
    }),
    Column(Kind::Text, "integrity", |pack| member(pack, "integrity").to_owned()),
];

fn list(library: &Library, printer: Printer) -> anyhow::Result<Exit> {
    let installed = library.list()?.into_iter().map(|pack| {
        let InstalledPack { name, version, resolved, integrity, .. } = pack;
        json!({ "name": name, "version": version, "resolved": resolved, "integrity": integrity })
    });
    let bundled = library.list_bundled()?.into_iter();
    let bundled =
        bundled.map(|(name, version)| json!({ "name": name, "version": version, "bundled": true }));
    let all: Vec<Value> = installed.chain(bundled).collect();
    printer.list(COLUMNS, &all, "there are no packs")?;
    Ok(Exit::Done)
}

fn remove(library: &Library, pack: PackSelector, printer: Printer) -> anyhow::Result<Exit> {
    let PackSelector::Name { name, version } = pack else {
        return Err(advised(
            "expected the name of an installed pack",
            "`toolcrib packs list` shows the names",
        ));
    };
    let removed = library.remove(&name, version.as_deref())?;
    match printer.wants_json() {
        true => printer.json(&removed)?,
        false => {
            for InstalledPack { name, version, .. } in &removed {
                printer.note(format_args!("removed {name}@{version}"));
            }
        }
    }
    Ok(Exit::Done)
}

fn verify(
    library: &Library,
    pack: Option<PackSelector>,
    trust: &PackTrust,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let packs = match pack {
        Some(PackSelector::Path(path)) => {
            let verification = PackVerification { integrity: None, keys: trust.keys.clone() };
            show(&inspect(&path, &verification)?, printer)?;
            return Ok(Exit::Done);
        }
        Some(PackSelector::Name { name, version }) => {
            let pack = library.find(&name, version.as_deref())?;
            show(&library.verify(&pack, &trust.keys)?, printer)?;
            return Ok(Exit::Done);
        }
        None => library.list()?,
    };
    if packs.is_empty() {
        printer.note("no packs are installed; `toolcrib packs add` installs one");
    }
    let results: Vec<_> =
        packs.iter().map(|pack| (pack, library.verify(pack, &trust.keys))).collect();
    let all_good = results.iter().all(|(_, result)| result.is_ok());
    if printer.wants_json() {
        let shown: Vec<_> = results
            .iter()
            .map(|(pack, result)| match result {
                Ok(report) => json!({ "name": pack.name, "version": pack.version, "ok": true,
                                      "problems": report.problems }),
                Err(error) => json!({ "name": pack.name, "version": pack.version, "ok": false,
                                      "code": error.code.as_str(), "message": error.problem }),
            })
            .collect();
        printer.json(&shown)?;
    } else {
        for (pack, result) in &results {
            printer.foreign(&format!("{}@{}: {}", pack.name, pack.version, verdict(result)))?;
        }
    }
    Ok(if all_good { Exit::Done } else { Exit::Failed })
}

fn verdict(result: &Result<PackReport, PackError>) -> String {
    match result {
        Ok(report) if report.problems.is_empty() => "good".to_owned(),
        Ok(report) => format!("good, but {}", report.problems.join("; ")),
        Err(error) => error.to_string(),
    }
}

fn show(report: &PackReport, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        printer.json(report)?;
        return Ok(());
    }
    let PackReport { name, version, language, integrity, nodes, problems, .. } = report;
    printer.foreign(&format!("{name}@{version} ({language})\n{integrity}"))?;
    for node in nodes {
        printer.foreign(&format!("  {node}"))?;
    }
    for problem in problems {
        printer.warning(problem);
    }
    Ok(())
}
