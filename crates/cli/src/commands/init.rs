//! `init`: writes a first configuration from the files of installed desktop clients.
//!
//! Invariant: servers are imported from a file only with consent: an answer on a terminal, or an
//! option.
//! Invariant: only the configuration, its backup and its schema are written, and existing files are
//! replaced only with `--force`.

mod client_file;
mod places;
mod target;

use std::path::Path;

use serde_json::json;
use toolcrib_config::{self as config};

use super::{
    config::schema_text,
    import::{self, below, read_files},
};
use crate::{
    args::InitArgs, context::Context, env::AnySecret, failure::Exit, printer::Printer,
    settings::DEFAULT_FILE,
};

use client_file::ClientFile;
use target::Target;

/// The configuration above the sources.
const HEAD: &str = "\
# Written by `toolcrib init`. `toolcrib config check` reports the problems of this file. A running
# server applies changes by itself.

[server]
# The console is at /explorer and MCP at /mcp. An address that other machines can reach requires `tls`.
listen = \"127.0.0.1:8808\"

# A role is a list of scopes that keys can have: `toolcrib keys create --role reader …`.
#
# [[role]]
# name = \"reader\"
# scopes = [\"files:read\"]

# A source supplies tools: an MCP server, an OpenAPI document, a pack, commands or workflows.
#
# [[source]]
# id = \"files\"
# kind = \"mcp\"
# command = [\"npx\", \"-y\", \"@modelcontextprotocol/server-filesystem\", \"/srv/docs\"]
#
";

/// Above the commented rules, an explanation of `approval`.
const APPROVAL: &str = "\
#
# A rule with `approval = \"always\"` lets calls wait for the consent of another person.
";

pub(crate) fn run(args: &InitArgs, cx: &Context) -> anyhow::Result<Exit> {
    let printer = cx.printer;
    let file = cx.global.config.clone().unwrap_or_else(|| DEFAULT_FILE.into());
    let target = Target::new(file, args.force)?;

    let mut files = match args.from.is_empty() {
        true => client_file::find(),
        false => {
            args.from.iter().map(|file| ClientFile::named(file)).collect::<anyhow::Result<_>>()?
        }
    };
    if args.from.is_empty() {
        introduce(&files, printer);
        choose(&mut files, args, printer)?;
    }
    let chosen = files.iter().filter(|file| file.chosen);
    let chosen: Vec<_> = chosen.map(|file| (file.label(), file.content.clone())).collect();
    let imported = read_files(&chosen);
    // The directive of Taplo, which editors use for TOML.
    let schema = format!("#:schema ./{}\n\n", target.schema_name());
    let written = below(format!("{schema}{HEAD}{}{APPROVAL}", import::RULES), &imported);
    // The parts are checked one by one; this is about the whole.
    config::parse("the new configuration", &written.text, Path::new(""), &AnySecret)?;

    let backup = match args.dry_run {
        true => None,
        false => {
            let backup = target.write(&written.text)?;
            target.write_schema(&schema_text()?)?;
            backup
        }
    };
    import::report(&imported, &written, printer);
    if let Some(backup) = &backup {
        printer.note(format_args!("the former configuration is {}", backup.display()));
    }
    let has_sources = written.sources > 0;
    let next = next_steps(
        &target,
        has_sources,
        imported.variables.iter().map(|variable| variable.name.as_str()),
    );
    if printer.wants_json() {
        let left_out = written.left_out.iter();
        printer.json(&json!({
            "file": target.file(),
            "written": !args.dry_run,
            "backup": backup,
            "schema": target.schema(),
            "found": files.iter().map(ClientFile::to_json).collect::<Vec<_>>(),
            "sources": written.sources,
            "variables": imported.variables.iter()
                .map(|variable| &variable.name)
                .collect::<Vec<_>>(),
            "leftOut": left_out
                .map(|(name, why)| json!({ "name": name, "reason": why }))
                .collect::<Vec<_>>(),
            "notTranslated": imported.parts.iter()
                .map(|part| json!({ "part": part.place, "reason": part.reason }))
                .collect::<Vec<_>>(),
            "next": next,
            "toml": written.text,
        }))?;
        return Ok(Exit::Done);
    }
    if args.dry_run {
        printer.bytes(written.text.as_bytes())?;
        return Ok(Exit::Done);
    }
    printer.line(format_args!("wrote {}\n\nNext:", target.file().display()))?;
    for step in next {
        printer.line(format_args!("  {step}"))?;
    }
    Ok(Exit::Done)
}

/// Lists the files and the servers in them.
fn introduce(files: &[ClientFile], printer: Printer) {
    if files.is_empty() {
        printer.note(
            "no file of Claude Desktop, Claude Code, Cursor, VS Code or Codex was found; --from names \
             another one",
        );
    }
    for file in files {
        printer.note_foreign(&file.summary());
    }
}

/// Chooses the files to import, by the options or by questions.
fn choose(files: &mut [ClientFile], args: &InitArgs, printer: Printer) -> anyhow::Result<()> {
    let can_ask = printer.can_ask() && !args.no_input;
    let usable = files.iter_mut().filter(|file| !file.content.servers.is_empty());
    let mut skipped = false;
    for file in usable {
        file.chosen = match (args.yes, can_ask) {
            (true, _) => true,
            (false, true) => printer.is_confirmed(&file.question())?,
            (false, false) => {
                skipped = true;
                false
            }
        };
    }
    if skipped {
        let why = if args.no_input { "--no-input" } else { "there is no terminal for questions" };
        printer.note(format_args!(
            "no server was imported ({why}); --yes imports all of them, --from FILE one of them"
        ));
    }
    Ok(())
}

/// The commands that follow.
fn next_steps<'a>(
    target: &Target,
    has_sources: bool,
    variables: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let config = match target.file() == Path::new(DEFAULT_FILE) {
        true => String::new(),
        false => format!(" --config {}", quoted(&target.file().display().to_string())),
    };
    let mut steps: Vec<String> = variables.map(|name| format!("export {name}=…")).collect();
    if !has_sources {
        // Without a source the server has no tools.
        steps.push(format!(
            "toolcrib sources add files{config} --command npx --args -y \
             @modelcontextprotocol/server-filesystem ."
        ));
    }
    steps.extend([
        format!("toolcrib config check --connect{config}"),
        format!("toolcrib keys create --name me --principal me --scope '*'{config}"),
        format!("toolcrib serve{config}"),
        "open http://127.0.0.1:8808/explorer and sign in with the key".to_owned(),
    ]);
    steps
}

/// Returns `text` as a word of a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
