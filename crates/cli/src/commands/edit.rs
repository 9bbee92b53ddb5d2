//! The change of the configuration file that a command describes: shown, confirmed and written.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use chrono::Utc;
use serde_json::{Map, Value as Json, json};
use toolcrib_config::{
    Config, Problem,
    edit::{self, Change, CheckReport, ConfigFile, Hunk},
};
use toolcrib_core::{event::ConfigAction, id::TenantId, principal::Principal, store::Storage};
use toolcrib_gateway::{Gateway, Preview, RoleChange, RoleReach, edit_event};

use toolcrib_store::Options;

use crate::{
    args::{EditArgs, SettingArgs},
    check::{self, Secrets},
    context::Context,
    failure::{Exit, advised, usage},
    local::{self, LocalGateway},
    printer::Printer,
    settings, store,
    text::counted,
};

/// The most tools that are printed of one list.
const SHOWN: usize = 12;

/// Makes the changes that `changes` returns for the current configuration.
pub(super) async fn run(
    cx: &Context,
    args: &EditArgs,
    changes: impl FnOnce(&Config) -> anyhow::Result<Vec<Change>>,
) -> anyhow::Result<Exit> {
    run_drafted(cx, args, |_, config| Ok((changes(config)?, Vec::new()))).await
}

/// Makes the change of a role that `change` returns, which may name tools. With `own_scope`, these
/// get a separate scope if other tools require the same.
pub(super) async fn run_named(
    cx: &Context,
    args: &EditArgs,
    own_scope: bool,
    change: impl FnOnce(&Config) -> anyhow::Result<Change>,
) -> anyhow::Result<Exit> {
    run_drafted(cx, args, |gateway, config| {
        let change = change(config)?;
        if change.tools.is_empty() {
            return Ok((vec![change], Vec::new()));
        }
        let gateway = gateway.ok_or_else(|| {
            advised(
                "the tools are not known, because the current configuration file is invalid",
                "repair it first: `toolcrib config check`",
            )
        })?;
        let resolved = gateway.resolve_tools(config, None, vec![change]);
        let (changes, mut reached) = resolved.map_err(|error| {
            advised(
                error.message,
                "`toolcrib tools list` shows the tools; `toolcrib sources check` says why some are \
                 missing",
            )
        })?;
        match reached.pop() {
            Some(reach) if own_scope && !reach.others.is_empty() => {
                match reach.suggestion.is_empty() {
                    true => Err(advised(
                        "no rule can give these tools a separate scope",
                        "workflows require the scopes of their steps; use --scope",
                    )),
                    false => Ok((reach.suggestion, Vec::new())),
                }
            }
            reach => Ok((changes, reach.into_iter().collect())),
        }
    })
    .await
}

/// Makes the changes that `draft` returns. `draft` gets no gateway with `--no-connect`, or if the
/// current file is invalid.
async fn run_drafted(
    cx: &Context,
    args: &EditArgs,
    draft: impl FnOnce(Option<&Gateway>, &Config) -> anyhow::Result<(Vec<Change>, Vec<RoleReach>)>,
) -> anyhow::Result<Exit> {
    settings::no_url(&cx.global, "the configuration file is changed")?;
    let path = settings::file(&cx.global).unwrap_or_else(|| PathBuf::from(settings::DEFAULT_FILE));
    let file = check::config_file(&cx.global, path, Secrets::Optional);
    let stored = file.read()?;
    let current = file.check(&stored.text).await;
    let valid = current.config.filter(|_| current.problems.is_empty());
    let old = valid.clone().unwrap_or_else(|| Config::empty(&settings::base_of(file.path())));
    let gateway = match valid.filter(|_| !args.no_connect) {
        None => None,
        Some(config) => {
            let url = settings::store_url(&stored.text);
            let base = settings::base_of(file.path());
            let data_dir = settings::data_dir(&cx.global, &base, url.as_deref());
            Some(LocalGateway::start_forgetful(config, &data_dir, cx.printer).await?)
        }
    };
    let draft = |gateway: Option<&Gateway>| -> anyhow::Result<Draft> {
        let (changes, reach) = draft(gateway, &old)?;
        let text = edit::apply(&stored.text, &changes)?;
        let diff = edit::diff(&stored.text, &text);
        Ok(Draft { text, diff, reach })
    };
    let (draft, report, preview) = match gateway {
        None => {
            let draft = draft(None)?;
            let report = file.check(&draft.text).await;
            (draft, report, None)
        }
        Some(local) => {
            let (file, old) = (&file, &old);
            local
                .run(async |gateway: &Gateway| {
                    local::settle(gateway, cx.printer).await;
                    let draft = draft(Some(gateway))?;
                    let report = file.check(&draft.text).await;
                    let preview = preview(gateway, old, &report).await?;
                    Ok((draft, report, preview))
                })
                .await?
        }
    };
    Edit { file: &file, before: &stored.hash, draft, report, preview, args, printer: cx.printer }
        .finish()
        .await
}

async fn preview(
    gateway: &Gateway,
    old: &Config,
    report: &CheckReport,
) -> anyhow::Result<Option<Preview>> {
    let Some(new) = report.config.as_ref().filter(|_| report.problems.is_empty()) else {
        return Ok(None);
    };
    let mut tenants: Vec<TenantId> = [old, new]
        .iter()
        .flat_map(|config| config.sources.iter().flat_map(|source| source.tenants.named()))
        .cloned()
        .collect();
    tenants.sort();
    tenants.dedup();
    if tenants.is_empty() {
        tenants.push(TenantId::parse("default")?);
    }
    Ok(Some(gateway.supply().preview(new, &old.roles, &tenants, true).await?))
}

/// The text with the changes.
struct Draft {
    text: String,
    diff: Vec<Hunk>,
    /// The reach of a role from named tools.
    reach: Vec<RoleReach>,
}

/// A change, ready to be written.
struct Edit<'a> {
    file: &'a ConfigFile,
    before: &'a str,
    draft: Draft,
    report: CheckReport,
    preview: Option<Preview>,
    args: &'a EditArgs,
    printer: Printer,
}

impl Edit<'_> {
    async fn finish(self) -> anyhow::Result<Exit> {
        let Self { file, before, printer, args, .. } = &self;
        let (file, before, printer) = (*file, *before, *printer);
        let Draft { text, diff, reach } = &self.draft;
        let after = edit::hash(text);
        if !printer.wants_json() {
            self.print()?;
        }
        let is_same = after == before;
        let obstacle = file.obstacle().map(|obstacle| obstacle.to_string());
        let mut result = json!({
            "file": file.path(), "before": before, "after": after, "diff": diff,
            "problems": self.report.problems.iter().map(problem).collect::<Vec<_>>(),
            "warnings": self.report.warnings, "preview": self.preview, "obstacle": obstacle, "reach": reach,
            "written": false, "recorded": false,
        });
        if !self.report.problems.is_empty() {
            if printer.wants_json() {
                printer.json(&result)?;
            } else {
                printer.note("the file was not changed, because of these problems");
            }
            return Ok(Exit::Failed);
        }
        if is_same || args.dry_run {
            let why = if is_same {
                "the file has this content already"
            } else {
                "the file was not changed"
            };
            printer.json_or_note(&result, why)?;
            return Ok(Exit::Done);
        }
        if let Some(obstacle) = obstacle {
            return Err(advised(obstacle, "`--dry-run` shows the change, to make it by hand"));
        }
        if args.yes
            && let Some(reach) = reach.iter().find(|reach| !reach.others.is_empty())
        {
            return Err(beyond(reach));
        }
        if !args.yes && !confirmed(file, printer)? {
            printer.note("the file was not changed");
            return Ok(Exit::Failed);
        }
        let log = match &self.report.config {
            Some(config) => EditLog::open(config, args.unrecorded, printer).await?,
            None => None,
        };
        let placed = place(file, (before, &after), text, log.as_ref()).await;
        let is_recorded = log.is_some();
        if let Some(log) = log {
            log.store.close().await;
        }
        let backup = placed?;
        if let Some(members) = result.as_object_mut() {
            members.insert("written".to_owned(), true.into());
            members.insert("recorded".to_owned(), is_recorded.into());
            members.insert("backup".to_owned(), json!(backup));
        }
        let kept = backup.map(|path| format!("; the text before is in {path}")).unwrap_or_default();
        printer.json_or_note(&result, format_args!("wrote {}{kept}", file.path().display()))?;
        Ok(Exit::Done)
    }

    fn print(&self) -> anyhow::Result<()> {
        let printer = self.printer;
        for Hunk { line, table, lines } in &self.draft.diff {
            printer.foreign(format!("@@ line {line} {table}").trim_end())?;
            for line in lines {
                printer.foreign(&format!("{}{}", line.sign, line.text))?;
            }
        }
        for warning in &self.report.warnings {
            printer.warning(warning);
        }
        for problem in &self.report.problems {
            printer.foreign(&format!("{}{problem}", self.file.path().display()))?;
        }
        match &self.preview {
            Some(preview) => print_preview(preview, printer)?,
            None if self.report.problems.is_empty() => {
                printer.note("no source was connected, so what each role would see is unknown");
            }
            None => {}
        }
        self.draft.reach.iter().try_for_each(|reach| print_reach(reach, printer))
    }
}

/// Prints the tools that a role would reach in addition to the named ones.
fn print_reach(reach: &RoleReach, printer: Printer) -> anyhow::Result<()> {
    let RoleReach { role, others, suggestion, .. } = reach;
    if others.is_empty() {
        return Ok(());
    }
    let count = counted(others.len() as u64, "tool");
    printer
        .foreign(&format!("role {role} would also reach {count} that --tools does not name:"))?;
    for tool in others.iter().take(SHOWN) {
        printer.foreign(&format!("  ! {tool}"))?;
    }
    if others.len() > SHOWN {
        printer.line(format_args!("  ! and {} more", others.len() - SHOWN))?;
    }
    if !suggestion.is_empty() {
        printer.note("--own-scope gives the named tools a separate scope");
    }
    Ok(())
}

/// Creates the error for a role that would reach more than the named tools.
fn beyond(reach: &RoleReach) -> anyhow::Error {
    let count = counted(reach.others.len() as u64, "tool");
    advised(
        format!(
            "the file was not changed: the role would also reach {count} that --tools does not name, \
             because they require the same scopes"
        ),
        "--own-scope gives the named tools a separate scope; without --yes you can confirm the \
         change on a terminal",
    )
}

/// The event log for changes by the operator.
struct EditLog {
    store: Arc<dyn Storage>,
    operator: Principal,
}

impl EditLog {
    /// Opens the store of `config`, if there is one. With `optional`, a store that cannot be opened
    /// is only a warning.
    async fn open(
        config: &Config,
        optional: bool,
        printer: Printer,
    ) -> anyhow::Result<Option<Self>> {
        if !store::may_exist(&config.store) {
            return Ok(None);
        }
        let operator = local::operator(TenantId::parse("default")?, Vec::new())?;
        match store::open(config, Options::default()).await {
            Ok(store) => Ok(Some(Self { store, operator })),
            Err(error) if optional => {
                printer.warning(format_args!("the change is not recorded: {error}"));
                Ok(None)
            }
            Err(error) => Err(advised(
                format!("the change cannot be recorded, so the file was not changed: {error}"),
                "repair the store, or use --unrecorded",
            )),
        }
    }

    async fn append(&self, action: ConfigAction, hashes: (&str, &str)) -> anyhow::Result<()> {
        let event = edit_event(&self.operator, action, hashes.0, hashes.1, Utc::now());
        self.store.events().append(&[event]).await.map(drop).context("the file was not changed")
    }
}

/// Puts `text` in place after its event is durable; `hashes` are those of the texts before and
/// after. Returns the name of the copy of the text before.
async fn place(
    file: &ConfigFile,
    hashes: (&str, &str),
    text: &str,
    log: Option<&EditLog>,
) -> anyhow::Result<Option<String>> {
    let prepared = file.prepare(hashes.0, text)?;
    let Some(log) = log else { return Ok(prepared.place()?) };
    log.append(ConfigAction::Written, hashes).await?;
    match prepared.place() {
        Ok(backup) => Ok(backup),
        Err(error) => {
            log.append(ConfigAction::Failed, hashes).await?;
            Err(error.into())
        }
    }
}

fn print_preview(preview: &Preview, printer: Printer) -> anyhow::Result<()> {
    let mut tenants: Vec<_> = preview.roles.iter().map(|role| &role.tenant).collect();
    tenants.dedup();
    let several = tenants.len() > 1;
    let is_changed = |role: &&RoleChange| {
        !(role.appears.is_empty() && role.disappears.is_empty() && role.changes.is_empty())
            || role.before != role.after
    };
    let changed: Vec<&RoleChange> = preview.roles.iter().filter(is_changed).collect();
    if changed.is_empty() {
        printer.line("no role sees other tools")?;
    }
    for role in changed {
        let tenant = if several { format!(" in tenant {}", role.tenant) } else { String::new() };
        let (before, after) = (role.before, counted(role.after as u64, "tool"));
        printer.foreign(&format!("role {}{tenant}: {before} -> {after}", role.role))?;
        for (sign, tools) in [('+', &role.appears), ('-', &role.disappears)] {
            for tool in tools.iter().take(SHOWN) {
                printer.foreign(&format!("  {sign} {tool}"))?;
            }
            if tools.len() > SHOWN {
                printer.line(format_args!("  {sign} and {} more", tools.len() - SHOWN))?;
            }
        }
        for change in role.changes.iter().take(SHOWN) {
            printer.foreign(&format!("  ~ {}: {}", change.tool, change.what.join(", ")))?;
        }
        if role.changes.len() > SHOWN {
            printer.line(format_args!("  ~ and {} more", role.changes.len() - SHOWN))?;
        }
    }
    for source in &preview.sources {
        let count = counted(source.tools.len() as u64, "tool");
        printer.line(format_args!("source {}: connected, {count}", source.source))?;
        if !source.quarantined.is_empty() {
            let count = counted(source.quarantined.len() as u64, "tool");
            printer.warning(format_args!(
                "the change gives {count} of source `{}` another form: quarantined, so that no caller can \
                 use it, until `toolcrib tools approve --source {}`",
                source.source, source.source
            ));
        }
    }
    for rule in &preview.idle_rules {
        printer.warning(format_args!(
            "rule \"{}\" matches no tool of source `{}`; `toolcrib tools list` shows the names",
            rule.pattern, rule.source
        ));
    }
    for unknown in &preview.unknown {
        printer.warning(format_args!(
            "the tools of source `{}` are unknown: {}",
            unknown.source, unknown.reason
        ));
    }
    let proposals = preview.sources.iter().map(|source| source.proposals.len()).sum::<usize>();
    if proposals > 0 {
        printer.note("`toolcrib rules propose` has rules for the tools of this source");
    }
    Ok(())
}

fn problem(Problem { line, key, message, .. }: &Problem) -> Json {
    json!({ "line": line, "key": key, "message": message })
}

/// Whether the user confirms the change on the terminal.
fn confirmed(file: &ConfigFile, printer: Printer) -> anyhow::Result<bool> {
    if printer.wants_json() || !printer.can_ask() {
        return Err(usage(
            "a confirmation needs a terminal: --yes writes the change, and --dry-run only shows it",
        ));
    }
    Ok(printer.is_confirmed(&format!("Write {}?", file.path().display()))?)
}

/// The settings of `--set` and `--unset`.
pub(super) fn settings_of(args: &SettingArgs) -> anyhow::Result<Map<String, Json>> {
    let mut settings = Map::new();
    for text in &args.set {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| usage(format!("--set {text}: expected KEY=VALUE")))?;
        put(&mut settings, key, toml_value(value))?;
    }
    for key in &args.unset {
        put(&mut settings, key, Json::Null)?;
    }
    Ok(settings)
}

/// Puts `value` at the dotted `key`.
fn put(settings: &mut Map<String, Json>, key: &str, value: Json) -> anyhow::Result<()> {
    let invalid = || usage(format!("`{key}` is not a key; expected NAME or TABLE.NAME"));
    let (first, rest) = match key.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (key, None),
    };
    if first.is_empty() || key.contains(['"', '\'']) {
        return Err(invalid());
    }
    if first == "tools" {
        return Err(usage("rules of tools are changed by `toolcrib rules add|set|remove`"));
    }
    match rest {
        None => {
            settings.insert(first.to_owned(), value);
            Ok(())
        }
        Some(rest) => {
            let inner = settings.entry(first).or_insert_with(|| Json::Object(Map::new()));
            put(inner.as_object_mut().ok_or_else(invalid)?, rest, value)
        }
    }
}

/// Parses `text` as a TOML value; any other text becomes a string.
fn toml_value(text: &str) -> Json {
    let table: Option<toml::Table> = toml::from_str(&format!("x = {text}")).ok();
    let value = table.filter(|table| table.len() == 1).and_then(|mut table| table.remove("x"));
    match value.and_then(|value| serde_json::to_value(value).ok()) {
        // Dates have no JSON form.
        Some(value) if !value.to_string().contains("$__toml_private") => value,
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_toml_or_text() {
        for (text, expected) in [
            ("true", json!(true)),
            ("3", json!(3)),
            ("\"a\"", json!("a")),
            ("5m", json!("5m")),
            ("a b", json!("a b")),
            ("[\"a\", \"b\"]", json!(["a", "b"])),
            ("{ env = \"X\" }", json!({ "env": "X" })),
            ("1\ny = 2", json!("1\ny = 2")),
            ("2026-01-01", json!("2026-01-01")),
            ("", json!("")),
        ] {
            assert_eq!(toml_value(text), expected, "{text}");
        }
    }

    #[test]
    fn keys_are_paths() {
        let args = SettingArgs {
            set: vec!["env.A=1".to_owned(), "env.B=x=y".to_owned(), "cwd=/tmp".to_owned()],
            unset: vec!["env.C".to_owned(), "pins".to_owned()],
        };
        let expected = json!({
            "env": { "A": 1, "B": "x=y", "C": null }, "cwd": "/tmp", "pins": null,
        });
        assert_eq!(Json::Object(settings_of(&args).unwrap()), expected);
        for wrong in ["a", "=1", "a.=1", ".a=1", "\"a\"=1", "tools.\"*\".hide=true", "tools=1"] {
            let args = SettingArgs { set: vec![wrong.to_owned()], unset: Vec::new() };
            assert!(settings_of(&args).is_err(), "{wrong}");
        }
    }
}
