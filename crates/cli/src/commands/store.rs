//! `store`: copies, migrates and checks a store.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;
use toolcrib_config::{Config, KeyPlace, has_password};
use toolcrib_core::{store::Storage, text};
use toolcrib_store::{CopyPlace, CopyStep, Options};

use crate::{
    args::{StoreCommand, StoreCopyArgs},
    context::Context,
    failure::{Advice as _, Exit, advised, usage},
    printer::Printer,
    seal,
    settings::{self, Settings},
    store,
    text::counted,
};

/// Interval between two progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) async fn run(command: StoreCommand, cx: &Context) -> anyhow::Result<Exit> {
    settings::no_url(&cx.global, "`toolcrib store` works")?;
    match command {
        StoreCommand::Copy(args) => copy(args, cx.printer).await,
        StoreCommand::Migrate => migrate(cx).await,
        StoreCommand::Check => check(cx).await,
    }
}

async fn copy(args: StoreCopyArgs, printer: Printer) -> anyhow::Result<Exit> {
    if args.from == args.to {
        return Err(usage("FROM and TO are the same store"));
    }
    let from = place(args.from.clone(), args.from_password_file.as_deref()).await?;
    let to = place(args.to.clone(), args.to_password_file.as_deref()).await?;
    let begun = Instant::now();
    let mut last = begun;
    let copied = toolcrib_store::copy(from, to, |step| {
        if last.elapsed() >= PROGRESS_INTERVAL {
            last = Instant::now();
            match step {
                CopyStep::Rows => printer.note("copying rows"),
                CopyStep::Events(at, all) => {
                    printer.note(format_args!("copied events up to position {at} of {all}"));
                }
                CopyStep::Comparison(at, all) => {
                    printer.note(format_args!("compared events up to position {at} of {all}"));
                }
            }
        }
    });
    let copied = copied.await.advise(
        format!("{} was not copied to {}", args.from, args.to),
        "no copy was kept; stop all servers of both stores and name an empty store",
    )?;
    let elapsed = begun.elapsed();
    let rows: serde_json::Map<_, _> =
        copied.rows.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    let object = json!({
        "from": args.from,
        "to": args.to,
        "events": copied.events,
        "rows": rows,
        "seconds": elapsed.as_secs_f64(),
    });
    let others: u64 = copied.rows.iter().map(|(_, count)| count).sum();
    printer.json_or_line(
        &object,
        format_args!(
            "copied and compared {} and {} in {}",
            counted(copied.events, "event"),
            counted(others, "other row"),
            text::duration(Duration::from_millis(
                u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
            ))
        ),
    )?;
    printer.note(
        "give the new server the signing key, the seal key and the witness of the old one \
         (docs/guides/scale.md#move-a-store)",
    );
    Ok(Exit::Done)
}

/// The store at `url`, with the password in `password_file`.
async fn place(url: String, password_file: Option<&Path>) -> anyhow::Result<CopyPlace> {
    if has_password(&url) {
        return Err(advised(
            "the URL of a store must not contain a password, because other users of the machine \
             can see arguments",
            "write it to a file, and name that with --from-password-file or --to-password-file",
        ));
    }
    let password = match password_file {
        None => None,
        Some(path) => {
            let read = seal::text(&KeyPlace::File(path.to_owned())).await;
            Some(read.map_err(|problem| {
                advised(
                    format!("the password file cannot be read: {problem}"),
                    "it contains only the password",
                )
            })?)
        }
    };
    Ok(CopyPlace { url, options: Options { password, ..Options::default() } })
}

async fn migrate(cx: &Context) -> anyhow::Result<Exit> {
    let settings = Settings::load(&cx.global)?;
    store::refuse_second(&settings).await?;
    let storage = store::open_or_create(&settings, Options::default(), cx.printer).await?;
    storage.close().await;
    let name = name(&settings.config);
    cx.printer.json_or_line(
        &json!({ "store": name, "migrated": true }),
        format_args!("the tables of {name} are those of this version"),
    )?;
    Ok(Exit::Done)
}

async fn check(cx: &Context) -> anyhow::Result<Exit> {
    let config = Settings::load(&cx.global)?.config;
    let storage = store::open_existing(&config).await?;
    let checked = examine(&*storage).await;
    storage.close().await;
    let (damage, events, servers) = checked?;
    let name = name(&config);
    let object = json!({
        "store": name,
        "damage": damage,
        "lastPosition": events,
        "otherProcesses": servers,
    });
    let exit = if damage.is_empty() { Exit::Done } else { Exit::Failed };
    if cx.printer.wants_json() {
        cx.printer.json(&object)?;
        return Ok(exit);
    }
    for defect in &damage {
        cx.printer.line(format_args!("damaged: {defect}"))?;
    }
    if damage.is_empty() {
        cx.printer.line(format_args!(
            "{name} is undamaged; its last event is at position {events}; {} it",
            match servers {
                0 => "no other process uses".to_owned(),
                1 => "1 other process uses".to_owned(),
                more => format!("{more} other processes use"),
            }
        ))?;
    }
    Ok(exit)
}

async fn examine(storage: &dyn Storage) -> anyhow::Result<(Vec<String>, u64, usize)> {
    let damage = storage.damage().await?;
    let events = storage.record().last_position().await?;
    let servers = storage.instances().await?.len().saturating_sub(1);
    Ok((damage, events, servers))
}

/// The path or URL of the store, as messages show it.
fn name(config: &Config) -> String {
    config.store.url().display().to_string()
}
