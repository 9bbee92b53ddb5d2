//! `import`: converts the MCP servers of a desktop client to sources.
//!
//! Invariant: the output contains no secret of the input file.
//! Invariant: the output passes `config check` once its variables are set.

mod jsonc;
mod reference;
mod servers;
mod write;

use std::{fs, io::Write as _};

use anyhow::Context as _;
use serde_json::json;
use toolcrib_core::json;

use super::input;
use crate::{
    args::ImportArgs,
    failure::{Advise as _, Exit, advised},
    printer::Printer,
};

use servers::Imported;

pub(crate) fn run(args: &ImportArgs, printer: Printer) -> anyhow::Result<Exit> {
    let (name, text) = match args.file.as_os_str() == "-" {
        true => ("the text on stdin".to_owned(), input::bounded(std::io::stdin())),
        false => {
            let file = fs::File::open(&args.file).map_err(anyhow::Error::new);
            (args.file.display().to_string(), file.and_then(input::bounded))
        }
    };
    let text = text
        .and_then(|text| Ok(String::from_utf8(text)?))
        .with_context(|| format!("{name} cannot be read"))?;
    let document = json::parse_strict(jsonc::plain(&text).as_bytes())
        .with_context(|| format!("{name} is not JSON"))?;
    let imported = servers::read(&document).ok_or_else(|| {
        advised(
            format!("{name} has no MCP servers"),
            "expected a table `mcpServers` (Claude Desktop, Cursor) or `servers` (VS Code)",
        )
    })?;
    let shown = match args.file.file_name() {
        Some(name) if name != "-" => name.to_string_lossy(),
        _ => "stdin".into(),
    };
    let written = write::file(&shown, &imported);
    match &args.output {
        Some(output) => {
            let mut open = fs::OpenOptions::new();
            open.write(true);
            match args.force {
                true => open.create(true).truncate(true),
                false => open.create_new(true),
            };
            let mut file = open.open(output).advise(
                format!("{} cannot be written", output.display()),
                "--force overwrites a file that is there",
            )?;
            file.write_all(written.text.as_bytes())?;
        }
        None if !printer.wants_json() => printer.bytes(written.text.as_bytes())?,
        None => {}
    }
    if printer.wants_json() {
        let left_out: Vec<_> = written
            .left_out
            .iter()
            .map(|(name, why)| json!({ "name": name, "reason": why }))
            .collect();
        printer.json(&json!({
            "toml": written.text,
            "sources": written.sources,
            "variables": imported.variables.iter().map(|it| &it.name).collect::<Vec<_>>(),
            "leftOut": left_out,
        }))?;
    }
    report(&imported, &written, printer);
    Ok(Exit::Done)
}

fn report(imported: &Imported, written: &write::Written, printer: Printer) {
    for (name, why) in &written.left_out {
        printer.note_foreign(&format!("`{name}` stays a comment: {why}"));
    }
    if !imported.variables.is_empty() {
        printer.note("set these variables where `toolcrib serve` runs:");
        for variable in &imported.variables {
            printer.note_foreign(&format!("  {}  {}", variable.name, variable.about));
        }
    }
    printer.note(format_args!("{} sources imported", written.sources));
}
