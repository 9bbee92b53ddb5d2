//! A gateway inside the process of one command.
//!
//! Invariant (I-26): the sources are closed before the command exits, also after Ctrl-C.

use std::{path::Path, sync::Arc, time::Duration};

use toolcrib_config::{Config, PinMode};
use toolcrib_core::{
    catalog::Entry,
    id::{PrincipalId, SourceId, TenantId},
    principal::{AuthMethod, Principal},
    scope::{Grant, ScopeSet},
    source::{InvalidSource, SourceFactory as _, SourceState},
    store::Storage,
    suggest,
};
use toolcrib_gateway::{Gateway, GatewayBuilder, clock::SystemClock};
use toolcrib_sources::{Factory, Library};
use toolcrib_store::{Options, SealKeys};
use toolcrib_tasks::Tasks;

use crate::{
    arguments_hash, confined,
    context::Context,
    failure::advised,
    meter::Spinner,
    printer::Printer,
    seal,
    settings::{self, Settings},
    spans::Spans,
    store,
};

/// How long a command waits until the sources have connected and listed their tools.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// How long a command waits for the counts of resources and prompts, after the tools were listed.
pub(crate) const COUNT_PATIENCE: Duration = Duration::from_secs(5);
/// Message for a role's grant that no tool and no route requires.
pub(crate) const MATCHES_NOTHING: &str = "matches no tool and no route";
/// Message for an entry of a toolset's allow-list that matches no tool.
pub(crate) const REACHES_NOTHING: &str = "reaches no tool";
/// Interval between checks for a tool; short compared with the start of a child process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A gateway in this process, and its store.
pub(crate) struct LocalGateway {
    pub(crate) gateway: Gateway,
    store: Option<Arc<dyn Storage>>,
    spans: Option<Spans>,
}

impl LocalGateway {
    /// Starts a gateway on the store of `settings`, which records the calls. Without the seal key
    /// the gateway has no approvals, and sources have no credentials.
    pub(crate) async fn start(settings: Settings, printer: Printer) -> anyhow::Result<Self> {
        let keys = match seal::keys(&settings.config.store).await {
            Ok(keys) => Some(keys),
            Err(error) if seal::is_needed(&settings.config) => {
                printer.warning(format_args!("{error}; sources that need a credential will fail"));
                None
            }
            Err(error) => {
                printer.detail(format_args!("{error}; calls that need an approval will fail"));
                None
            }
        };
        Self::start_with(settings, keys, printer).await
    }

    /// As [`start`](Self::start), with the seal keys `keys`.
    pub(crate) async fn start_with(
        settings: Settings,
        keys: Option<SealKeys>,
        printer: Printer,
    ) -> anyhow::Result<Self> {
        // Without `call_keys`: the state of calls does not outlive this process.
        let seal_keys = keys.clone().unwrap_or_default();
        let options = Options { seal_keys, ..Options::default() };
        let store = store::open_or_create(&settings, options, printer).await?;
        let has_credentials = keys.is_some() && seal::is_needed(&settings.config);
        let sealed = has_credentials.then(|| Arc::clone(&store));
        let library = settings::library(&settings.data_dir);
        let spans = Spans::start(&settings.config)?;
        let hash = arguments_hash::form(&settings.config).await?;
        let mut builder =
            builder(settings.config, library, Arc::clone(&store), sealed).arguments_hash(hash);
        if keys.is_none() {
            builder = builder.without_approvals();
        }
        if let Some(spans) = &spans {
            builder = builder.spans(spans.sink());
        }
        Ok(Self { gateway: builder.start().await?, store: Some(store), spans })
    }

    /// Starts a gateway on an empty store in memory, for commands that only inspect the sources.
    ///
    /// The store is used only for credentials and accounts, which a source may need to list its
    /// tools, and for pins, which determine the tools that are in quarantine.
    pub(crate) async fn start_forgetful(
        config: Config,
        data_dir: &Path,
        printer: Printer,
    ) -> anyhow::Result<Self> {
        let pinned = config.sources.iter().any(|source| source.pins.mode != PinMode::Off);
        let wanted = pinned || seal::is_needed(&config);
        let (mut store, mut sealed) = (None, None);
        if wanted && store::may_exist(&config.store) {
            let keys = seal::needed(&config, printer).await;
            let seal_keys = keys.clone().unwrap_or_default();
            let opened = store::open(&config, Options { seal_keys, ..Options::default() }).await?;
            sealed = keys.map(|_| Arc::clone(&opened));
            store = Some(opened);
        }
        // Changes to the copied pins are discarded.
        let pins = store.as_ref().map(|store| store.pins());
        let sources = config.sources.iter().map(|source| &source.spec.id);
        let scratch = toolcrib_store::scratch(pins.as_deref(), sources).await?;
        let builder = builder(config, settings::library(data_dir), scratch, sealed);
        let gateway = builder.without_approvals().start().await?;
        Ok(Self { gateway, store, spans: None })
    }

    /// Runs `work`, then closes the gateway and the store, also after an error or an interrupt.
    pub(crate) async fn run<T>(
        self,
        work: impl AsyncFnOnce(&Gateway) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let result = tokio::select! {
            result = work(&self.gateway) => result,
            () = interrupted() => Err(anyhow::anyhow!("interrupted")),
        };
        self.end().await;
        result
    }

    /// Closes the gateway and the store.
    pub(crate) async fn end(self) {
        self.gateway.close().await;
        if let Some(store) = self.store {
            store.close().await;
        }
        if let Some(spans) = self.spans {
            spans.close().await;
        }
    }
}

/// Starts a gateway on the store of the configuration, and runs `work` with it.
pub(crate) async fn with_gateway<T>(
    cx: &Context,
    work: impl AsyncFnOnce(&Gateway) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    LocalGateway::start(Settings::load(&cx.global)?, cx.printer).await?.run(work).await
}

/// As [`with_gateway`], for a command that only reads: without a store it uses an empty one in
/// memory, and does not create one.
pub(crate) async fn with_catalog<T>(
    cx: &Context,
    work: impl AsyncFnOnce(&Gateway) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let settings = Settings::load(&cx.global)?;
    let local = match store::may_exist(&settings.config.store) {
        true => LocalGateway::start(settings, cx.printer).await?,
        false => {
            LocalGateway::start_forgetful(settings.config, &settings.data_dir, cx.printer).await?
        }
    };
    local.run(work).await
}

/// Starts the sources of `config` on an empty store, waits until they have listed their tools, and runs
/// `work`.
pub(crate) async fn with_sources<T>(
    config: Config,
    data_dir: &Path,
    printer: Printer,
    work: impl AsyncFnOnce(&Gateway) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let local = LocalGateway::start_forgetful(config, data_dir, printer).await?;
    local
        .run(async |gateway: &Gateway| {
            settle(gateway, printer).await;
            work(gateway).await
        })
        .await
}

/// The builder of a gateway on `storage`. Its sources take their credentials and accounts from
/// `sealed`.
pub(crate) fn builder(
    config: Config,
    library: Library,
    storage: Arc<dyn Storage>,
    sealed: Option<Arc<dyn Storage>>,
) -> GatewayBuilder {
    let tasks = Tasks::new();
    let mut factory = factory(library).with_tasks(tasks.clone());
    if let Some(sealed) = sealed {
        factory = factory.with_credentials(sealed.credentials()).with_grants(sealed.grants());
    }
    let key_sets = Arc::new(factory.key_sets());
    GatewayBuilder::new(config, storage, Arc::new(factory)).key_sets(key_sets).tasks(tasks)
}

/// The sources of `config` with invalid settings, without starting any.
pub(crate) fn invalid_sources(config: &Config, library: Library) -> Vec<InvalidSource> {
    let factory = factory(library);
    // The gateway runs workflows itself.
    let built = config.sources.iter().filter(|source| !source.kind.traits().is_in_gateway);
    built.filter_map(|source| factory.check(&source.spec).err()).collect()
}

fn factory(library: Library) -> Factory {
    Factory::new(Arc::new(SystemClock::default()))
        .with_launcher(confined::launcher())
        .with_packs(library)
}

/// The operator of this machine as a principal; without `scopes` it has scope `*`.
pub(crate) fn operator(tenant: TenantId, scopes: Vec<Grant>) -> anyhow::Result<Principal> {
    let scopes = match scopes.is_empty() {
        true => ScopeSet::parse(["*"])?,
        false => ScopeSet::new(scopes),
    };
    Ok(Principal {
        id: PrincipalId::parse("operator")?,
        tenant,
        scopes,
        roles: Vec::new(),
        makers: Vec::new(),
        session: None,
        auth: AuthMethod::Operator,
    })
}

/// Creates the error for an unknown toolset name.
pub(crate) fn no_toolset(name: &str, config: &Config) -> anyhow::Error {
    let known = config.toolsets.iter().map(|toolset| toolset.name.as_str());
    let suggestion = suggest::did_you_mean(name, known);
    advised(
        format!("no such toolset{suggestion}"),
        "the configuration has them as `[toolset.NAME]`",
    )
}

/// A suggestion for the unknown tool name `name`: a similar wire name, else a similar tool id or
/// OTC id. Empty if no name is similar.
pub(crate) fn suggestion(gateway: &Gateway, name: &str) -> String {
    let snapshot = gateway.snapshot();
    let entries = snapshot.catalog.entries();
    let kinds: [fn(&Entry) -> String; 3] = [
        |entry| entry.names.wire.clone(),
        |entry| entry.id.to_string(),
        |entry| entry.names.otc_id(),
    ];
    let suggestion = kinds.into_iter().map(|kind| {
        let names: Vec<String> = entries.iter().map(|entry| kind(entry)).collect();
        suggest::did_you_mean(name, names.iter().map(String::as_str))
    });
    suggestion.into_iter().find(|suggestion| !suggestion.is_empty()).unwrap_or_default()
}

/// Waits until every source has listed its tools or failed, for at most [`PATIENCE`].
pub(crate) async fn settle(gateway: &Gateway, printer: Printer) {
    settle_for(gateway, PATIENCE, printer).await;
}

/// As [`settle`], with the time limit `patience`.
pub(crate) async fn settle_for(gateway: &Gateway, patience: Duration, printer: Printer) {
    let _spinner = Spinner::start(printer, "waiting for the sources");
    gateway.supply().settle(patience).await;
}

/// Finds a tool by tool id, wire name or OTC id.
///
/// Waits until its source has listed its tools, or until [`settle`] completes. The stored catalog
/// can list an outdated form of a tool.
pub(crate) async fn awaited(
    gateway: &Gateway,
    name: &str,
    printer: Printer,
) -> anyhow::Result<Arc<Entry>> {
    let ready = async {
        loop {
            if let Some(entry) = entry(gateway, name)
                && is_ready(gateway, &entry.source)
            {
                return entry;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let found = tokio::select! {
        entry = ready => Some(entry),
        () = settle(gateway, printer) => entry(gateway, name),
    };
    found.ok_or_else(|| {
        if let Some(entry) = gateway.snapshot().quarantined.find_all(name).first() {
            return advised(
                format!("{} is quarantined: its current form is not approved", entry.id),
                format!("`toolcrib tools diff {}` shows the form", entry.id),
            );
        }
        let waiting: Vec<String> = gateway
            .supply()
            .reports()
            .into_iter()
            .filter(|source| source.status.state != SourceState::Ready)
            .map(|source| format!("`{}`", source.id))
            .collect();
        let suggestion = suggestion(gateway, name);
        match waiting.is_empty() {
            true => advised(
                format!("no such tool{suggestion}"),
                "`toolcrib tools list` shows the tools",
            ),
            false => advised(
                format!("no such tool, but {} did not answer{suggestion}", waiting.join(", ")),
                "`toolcrib sources check` says why",
            ),
        }
    })
}

fn entry(gateway: &Gateway, name: &str) -> Option<Arc<Entry>> {
    gateway.snapshot().catalog.find_all(name).first().map(|entry| Arc::clone(entry))
}

/// Whether the tools of `source` were listed and compared with their pins.
fn is_ready(gateway: &Gateway, source: &SourceId) -> bool {
    let reports = gateway.supply().reports();
    let report = reports.iter().find(|report| report.id == *source);
    report.is_some_and(|found| found.status.state.is_ready() && found.discovered_at.is_some())
}

/// Completes on SIGINT or SIGTERM.
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
