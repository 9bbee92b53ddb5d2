//! `toolsets add|set|remove`: changes of the configuration file.

use serde_json::{Map, Value as Json, json};
use toolcrib_config::edit::{Change, ChangeKind, EditAction};

use super::edit;
use crate::{
    args::ToolsetsCommand,
    context::Context,
    failure::{Exit, usage},
};

pub(crate) async fn run(command: &ToolsetsCommand, cx: &Context) -> anyhow::Result<Exit> {
    let change = |action, name: &str, settings: Map<String, Json>| {
        Change::new(action, ChangeKind::Toolset, name, settings)
    };
    let (change, args) = match command {
        ToolsetsCommand::Add(args) => {
            let mut settings = Map::new();
            if let Some(title) = &args.title {
                settings.insert("title".to_owned(), json!(title));
            }
            settings.insert("allow".to_owned(), json!(args.allow));
            if !args.deny.is_empty() {
                settings.insert("deny".to_owned(), json!(args.deny));
            }
            settings.extend(edit::settings_of(&args.settings)?);
            (change(EditAction::Add, &args.name, settings), &args.edit)
        }
        ToolsetsCommand::Set(args) => {
            let settings = edit::settings_of(&args.settings)?;
            if settings.is_empty() {
                return Err(usage("no change is given: use --set KEY=VALUE or --unset KEY"));
            }
            (change(EditAction::Set, &args.name, settings), &args.edit)
        }
        ToolsetsCommand::Remove(args) => {
            (change(EditAction::Remove, &args.name, Map::new()), &args.edit)
        }
    };
    edit::run(cx, args, |_| Ok(vec![change])).await
}
