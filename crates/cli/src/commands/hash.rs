//! `hash`: the hash that events and pins use (I-17).

use serde_json::json;
use toolcrib_core::{canonical, redact::Redactor};

use super::input;
use crate::{args::HashArgs, failure::Exit, printer::Printer};

pub(crate) fn run(args: &HashArgs, printer: Printer) -> anyhow::Result<Exit> {
    let mut document = input::document(&args.document)?;
    if !args.no_redact {
        document = Redactor::default().value(&document);
    }
    let digest = canonical::digest(&document)?;
    let object = json!({ "sha256": digest.to_string(), "redacted": !args.no_redact });
    printer.json_or_line(&object, digest)?;
    Ok(Exit::Done)
}
