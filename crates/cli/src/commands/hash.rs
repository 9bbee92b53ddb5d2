//! `hash`: the hash that events and pins use (I-17).

use serde_json::json;
use toolcrib_core::redact::Redactor;
use toolcrib_gateway::ArgumentsHash;

use super::input;
use crate::{
    args::HashArgs,
    arguments_hash,
    context::Context,
    failure::{Exit, usage},
    settings::Settings,
};

pub(crate) async fn run(args: &HashArgs, cx: &Context) -> anyhow::Result<Exit> {
    let form = match args.keyed {
        false => ArgumentsHash::Plain,
        true => match arguments_hash::form(&Settings::load(&cx.global)?.config).await? {
            ArgumentsHash::Plain => return Err(usage("`[record] hash_key` is not set")),
            keyed @ ArgumentsHash::Keyed(_) => keyed,
        },
    };
    let mut document = input::document(&args.document)?;
    if !args.no_redact {
        document = Redactor::default().value(&document);
    }
    let hash = form.of(&document);
    let name = if args.keyed { "hmacSha256" } else { "sha256" };
    let object = json!({ name: hash, "redacted": !args.no_redact });
    cx.printer.json_or_line(&object, hash)?;
    Ok(Exit::Done)
}
