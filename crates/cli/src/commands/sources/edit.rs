//! `sources add|set|remove`: changes of the configuration file.

use serde_json::{Map, Value as Json, json};
use toolcrib_config::edit::{Change, ChangeKind, EditAction};

use crate::{
    args::{RemoveArgs, SetArgs, SourceAddArgs},
    commands::edit,
    context::Context,
    failure::{Exit, usage},
};

pub(super) async fn add(args: &SourceAddArgs, cx: &Context) -> anyhow::Result<Exit> {
    let mut settings = upstream(args)?;
    if !args.tenants.is_empty() {
        settings.insert("tenants".to_owned(), json!(args.tenants));
    }
    let env = args.env.iter().map(|text| match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), json!(value)),
        None => (text.clone(), json!({ "env": text })),
    });
    let env: Map<String, Json> = env.collect();
    if let Some(name) = env.keys().find(|name| !is_variable(name)) {
        return Err(usage(format!("--env {name}: is not the name of an environment variable")));
    }
    if !env.is_empty() {
        settings.insert("env".to_owned(), env.into());
    }
    let mut headers = Map::new();
    for text in &args.headers {
        let (name, variable) = text
            .split_once('=')
            .ok_or_else(|| usage(format!("--header {text}: expected HEADER=VARIABLE")))?;
        if !is_variable(variable) {
            return Err(usage(format!(
                "--header {name}: expected the name of an environment variable with the value, which \
                 does not belong into the file; for a public value: --set headers.{name}=…"
            )));
        }
        headers.insert(name.to_owned(), json!({ "env": variable }));
    }
    if !headers.is_empty() {
        settings.insert("headers".to_owned(), headers.into());
    }
    settings.extend(edit::settings_of(&args.settings)?);
    let change = change(EditAction::Add, args.id.as_str(), settings);
    edit::run(cx, &args.edit, |_| Ok(vec![change])).await
}

pub(super) async fn set(args: &SetArgs, cx: &Context) -> anyhow::Result<Exit> {
    let settings = edit::settings_of(&args.settings)?;
    if settings.is_empty() {
        return Err(usage("no change is given: use --set KEY=VALUE or --unset KEY"));
    }
    let change = change(EditAction::Set, &args.name, settings);
    edit::run(cx, &args.edit, |_| Ok(vec![change])).await
}

pub(super) async fn remove(args: &RemoveArgs, cx: &Context) -> anyhow::Result<Exit> {
    let change = change(EditAction::Remove, &args.name, Map::new());
    edit::run(cx, &args.edit, |_| Ok(vec![change])).await
}

/// The settings that select the upstream.
fn upstream(args: &SourceAddArgs) -> anyhow::Result<Map<String, Json>> {
    let settings = match (&args.command, &args.mcp, &args.openapi) {
        (Some(command), None, None) => {
            let words: Vec<&String> = std::iter::once(command).chain(&args.args).collect();
            json!({ "kind": "mcp", "command": words })
        }
        (None, Some(url), None) => json!({ "kind": "mcp", "url": url }),
        (None, None, Some(document)) => json!({ "kind": "connector", "document": document }),
        _ if args.settings.set.iter().any(|setting| setting.starts_with("kind=")) => json!({}),
        _ => {
            return Err(usage(
                "expected one of --command PROGRAM, --mcp URL and --openapi FILE|URL; for another \
                 kind: --set kind=KIND with its keys",
            ));
        }
    };
    Ok(settings.as_object().cloned().unwrap_or_default())
}

fn is_variable(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty()
        && name.bytes().all(legal)
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

fn change(action: EditAction, name: &str, settings: Map<String, Json>) -> Change {
    Change::new(action, ChangeKind::Source, name, settings)
}
