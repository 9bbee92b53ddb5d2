//! `serve`: starts a server from a configuration, reloads the configuration, and shuts down in order.
//!
//! Invariant: a changed configuration that is invalid or has become empty is rejected as a whole.

mod certificate;
mod changes;

use std::{
    future::Future, net::SocketAddr, num::NonZero, path::Path, pin::pin, sync::Arc, thread,
    time::Duration,
};

use anyhow::Context as _;
use chrono::Utc;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::{JoinError, JoinHandle},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use toolcrib::{Cores, Server, TlsIdentity};
use toolcrib_config::{Config, LimitPlace, TlsConfig, edit::ConfigFile};
use toolcrib_core::{record::DeliveryFactory, store::Storage, text};
use toolcrib_gateway::{
    Gateway, ReloadError, ReloadPlan,
    audit::{AuditTasks, Parts},
};
use toolcrib_sources::Deliveries;
use toolcrib_store::Options;
use toolcrib_tasks::Policy;

use crate::{
    args::ServeArgs,
    check::{self, Secrets},
    context::Context,
    demo::{self, Demo},
    failure::{Advice as _, Exit, advised},
    local,
    lock::Lock,
    logging::{self, Stage},
    preflight::{self, Obstacle, PreflightResult, not_kept},
    printer::Printer,
    sandbox,
    settings::{self, Settings},
    signing, store,
};

use certificate::Certificate;
use changes::Watch;

/// The warning at each start with the test routes.
const TEST_ROUTES: &str = "--test-routes: /v1/host/sample is served, where every caller with a key can record \
                     calls of invented tools and principals in its tenant and reset its rate limits; \
                     use it only for conformance runs";

/// Time limit for the shutdown, including running requests. By default, service managers kill after 30
/// seconds.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(25);

/// Time limit after a second signal; long enough to record the calls in flight.
const FORCED_LIMIT: Duration = Duration::from_secs(8);

/// How long to wait for the tools of all sources before idle roles are reported.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn run(args: &ServeArgs, cx: &Context) -> anyhow::Result<Exit> {
    let printer = cx.printer;
    logging::enter(Stage::Starting);
    let demo = match args.demo {
        true => Some(Demo::new(cx).await?),
        false => None,
    };
    let settings = configure(args, demo.as_ref(), cx)?;
    let config = &settings.config;
    logging::use_format(config.log.format);
    if demo.is_none() {
        warn(config, printer).await;
    }
    let files = config.server.tls.clone().map(|files| (certificate::stamp(&files), files));
    let ready = preflight::check(config, &settings.data_dir).await;
    let mut ready = ready.map_err(|obstacles| preflight::refused(obstacles, printer))?;
    let identity = ready.tls.take();
    for warning in identity.iter().flat_map(TlsIdentity::warnings) {
        printer.warning(warning);
    }
    if config.test_routes {
        check_test_routes(config, toolcrib::HAS_TEST_ROUTES)?;
        printer.warning(TEST_ROUTES);
    }
    if let Err(problem) = toolcrib_sources::raise_file_limit() {
        printer.warning(format_args!("the limit of open files cannot be raised: {problem}"));
    }
    let mut signals = Signals::catch(args)?;
    // Precedes the port, so that a second start of the same server reports the lock.
    let early = Lock::take(&settings)?;
    let listener = bind(config.server.listen, args)?;

    let keys = ready.seal_keys.clone();
    let password = ready.store_password.take();
    let options =
        Options { seal_keys: keys.clone(), call_keys: keys, password, ..Options::default() };
    let store = store::open(config, options).await?;
    // At the first start, opening the store has created the directory of the lock file.
    let _lock = match early {
        Some(lock) => Some(lock),
        None => Lock::take(&settings)?,
    };
    if let Some(demo) = &demo {
        demo.write_workflows()?;
    }
    let file = (!args.demo).then(|| {
        let default = Path::new(settings::DEFAULT_FILE);
        let path = cx.global.config.as_deref().unwrap_or(default).to_path_buf();
        check::config_file(&cx.global, path, Secrets::Required)
    });
    let spans = ready.spans.clone();
    let (gateway, audit) = start(&settings, ready, &store, file, printer).await?;

    // The store cannot work without its writer thread, which only a restart replaces.
    let (closing, writer) = (CancellationToken::new(), Arc::clone(&store));
    gateway.tasks().spawn("store", Policy::Essential, closing.clone(), move || {
        let writer = Arc::clone(&writer);
        async move { writer.ended().await }
    });
    let drain_time = config.server.drain;
    let scheme = if identity.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", listener.local_addr()?);
    let (stop, stopped) = watch::channel(false);
    let service = toolcrib::service(gateway.clone(), config);
    let tls = identity.map(|identity| certificate::tls(identity, &gateway));
    // Kept until the store is closed: work of calls that outlives their connections runs there.
    let cores = Cores::start(thread::available_parallelism().map_or(1, NonZero::get))
        .context("the threads that serve connections cannot be started")?;
    let server = Server::new(listener).tls(tls.clone()).cores(cores.clone());
    let mut server: ServerTask = tokio::spawn(server.serve(service, until(stopped)));
    let certificate = tls.zip(files).map(|(tls, (read, files))| Certificate::new(tls, files, read));
    let greeted = match &demo {
        Some(demo) => demo.greet(&gateway, &*store, &url, printer).await,
        None => Ok(()),
    };
    report_idle_roles(&gateway);

    // From here on, all paths close the sources and the store.
    let mut reloader = Reloader::new(&gateway, settings.text, certificate, args, cx);
    logging::enter(Stage::Serving);
    let greeted = greeted.and_then(|()| printer.line(format_args!("listening on {url}")));
    if demo.is_some() && !args.no_history && greeted.is_ok() {
        Demo::make_history(&gateway, &*store, printer);
    }
    let served = match greeted {
        Ok(()) => supervise(&mut server, &mut signals, &mut reloader).await,
        Err(error) => Err(error),
    };
    drop(reloader);
    if served.is_ok() {
        drain(&gateway, drain_time, &mut signals).await;
    }
    gateway.begin_end();
    stop.send_replace(true);
    closing.cancel();
    let cut = CancellationToken::new();
    let ending = async {
        end(server, &cut).await;
        gateway.close().await;
        // Signs also the events that closing the gateway has recorded.
        audit.close().await;
        store.close().await;
        if let Some(spans) = spans {
            spans.close().await;
        }
    };
    match end_in_time(ending, &cut, async || signals.end().await).await {
        true => served.map(|()| Exit::Done),
        // Recorded events are durable, and the next start closes open calls and sessions.
        false => served.map(|()| Exit::Failed),
    }
}

/// Recovers the store, and starts a gateway on it with the tasks of the record.
async fn start(
    settings: &Settings,
    ready: PreflightResult,
    store: &Arc<dyn Storage>,
    file: Option<ConfigFile>,
    printer: Printer,
) -> anyhow::Result<(Gateway, Arc<AuditTasks>)> {
    let config = &settings.config;
    let closed = store.recover(Utc::now()).await?;
    if closed > 0 {
        printer.note(format_args!(
            "closed {closed} calls and tool sessions that an earlier process left open; they are \
             recorded as failed"
        ));
    }
    // Always set, because a reloaded configuration may be the first one that names a credential.
    let sealed = Some(Arc::clone(store));
    let library = settings::library(&settings.data_dir);
    let (signer, key_may_be_new) = match ready.signing_key {
        Some(key) => (key, config.record.signing_key.is_some()),
        None => signing::key(config).await?,
    };
    let mut gateway = local::builder(config.clone(), library, Arc::clone(store), sealed)
        .arguments_hash(ready.arguments_hash);
    let in_store = config.limits.as_ref().filter(|limits| limits.place == LimitPlace::Store);
    let in_store = in_store.and_then(|_| store.limiter());
    if let Some(limiter) = ready.limiter.or(in_store) {
        gateway = gateway.shared_limiter(limiter);
    }
    if let Some(file) = file {
        gateway = gateway.config_file(file);
    }
    if let Some(spans) = &ready.spans {
        gateway = gateway.spans(spans.sink());
    }
    let gateway = gateway.start().await?;

    gateway.audit().watch_space(Arc::clone(store), config.store.keep_free).await;
    let deliveries = Arc::new(Deliveries::default());
    gateway.approvals().send_webhooks(Arc::clone(&deliveries) as Arc<dyn DeliveryFactory>);
    let parts = Parts {
        storage: Arc::clone(store),
        signer: Arc::new(signer),
        witness: Arc::new(signing::witness(config)),
        key_may_be_new,
        deliveries,
    };
    match gateway.start_audit(parts, &config.record).await {
        Ok(audit) => Ok((gateway, audit)),
        Err(problem) => {
            gateway.close().await;
            store.close().await;
            Err(not_kept(&problem))
        }
    }
}

/// Waits until a signal arrives, or the server or an essential task stops. Reloads the
/// configuration on SIGHUP and when its file changes.
async fn supervise(
    server: &mut ServerTask,
    signals: &mut Signals,
    reloader: &mut Reloader<'_>,
) -> anyhow::Result<()> {
    let essential = reloader.gateway.tasks();
    loop {
        tokio::select! {
            ended = &mut *server => return flat(ended),
            task = essential.fatal() => return Err(advised(
                format!("the required background task `{task}` stopped"),
                "see the log for the cause, and restart the server",
            )),
            action = signals.next() => match action {
                Action::End => return Ok(()),
                Action::Reload => {
                    reloader.watch.look();
                    reloader.reload().await;
                }
            },
            () = reloader.watch.changed() => reloader.reload().await,
            () = certificate_changed(&mut reloader.certificate) => reloader.renew(),
        }
    }
}

/// Serves requests for `time` while `/readyz` fails, unless a second signal arrives.
async fn drain(gateway: &Gateway, time: Duration, signals: &mut Signals) {
    if time.is_zero() {
        return;
    }
    tracing::info!("draining: requests are served for {} more", text::duration(time));
    gateway.drain();
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = signals.end() => {}
    }
}

/// Waits until the files of the certificate have changed; for ever without TLS.
async fn certificate_changed(certificate: &mut Option<Certificate>) {
    match certificate {
        Some(certificate) => certificate.changed().await,
        None => std::future::pending().await,
    }
}

/// Waits for the running requests of the server; aborts them when `cut` is cancelled.
async fn end(mut server: ServerTask, cut: &CancellationToken) {
    if server.is_finished() {
        return;
    }
    tracing::info!("shutting down; a second signal aborts running requests");
    tokio::select! {
        ended = &mut server => if let Err(error) = flat(ended) {
            tracing::warn!("the server failed: {error:#}");
        },
        () = cut.cancelled() => server.abort(),
    }
}

/// Runs `ending`, for at most [`SHUTDOWN_LIMIT`]. A second signal aborts requests and shortens the
/// limit to [`FORCED_LIMIT`]; a third one stops the wait. Returns whether `ending` completed.
async fn end_in_time(
    ending: impl Future<Output = ()>,
    cut: &CancellationToken,
    mut signal: impl AsyncFnMut(),
) -> bool {
    let mut ending = pin!(ending);
    let mut limit = pin!(tokio::time::sleep(SHUTDOWN_LIMIT));
    loop {
        tokio::select! {
            () = &mut ending => return true,
            () = &mut limit => {
                tracing::error!("the server did not shut down in time; aborting the rest");
                return false;
            }
            () = signal() => {
                if cut.is_cancelled() {
                    tracing::warn!("received a third signal; aborting the rest");
                    return false;
                }
                cut.cancel();
                let sooner = limit.deadline().min(Instant::now() + FORCED_LIMIT);
                limit.as_mut().reset(sooner);
            }
        }
    }
}

/// The configuration of the demo or of the file, with the options of the command line.
fn configure(args: &ServeArgs, demo: Option<&Demo>, cx: &Context) -> anyhow::Result<Settings> {
    let mut settings = match demo {
        Some(demo) => demo.settings()?,
        None => load(cx)?,
    };
    if let Some(listen) = args.listen {
        settings.config.server.listen = listen;
    }
    settings.config.test_routes = args.test_routes;
    Ok(settings)
}

fn load(Context { global, printer }: &Context) -> anyhow::Result<Settings> {
    let settings = Settings::load_complete(global)?;
    if settings::file(global).is_none() {
        printer.note("there is no configuration here, so there are no tools; `toolcrib serve --demo` has some");
    }
    if demo::left_keys_in(&settings.data_dir) {
        printer.warning(format_args!(
            "the keys of a demo are accepted here too ({}); revoke them, or use another --data-dir",
            settings.data_dir.join(demo::FILE).display()
        ));
    }
    Ok(settings)
}

/// Prints the warnings about `config`.
async fn warn(config: &Config, printer: Printer) {
    let sandbox = sandbox::report(config).await.warnings;
    for warning in settings::warnings(config).iter().chain(&sandbox) {
        printer.warning(warning);
    }
}

/// Logs idle grants of roles, which match no tool and no route, in the background, after the
/// sources have listed their tools.
fn report_idle_roles(gateway: &Gateway) {
    let tasks = gateway.tasks();
    let gateway = gateway.clone();
    tasks.once("roles", async move {
        tokio::select! {
            () = gateway.supply().settle(DISCOVERY_LIMIT) => {}
            () = gateway.until_closed() => return,
        }
        for grant in gateway.unmatched_grants() {
            tracing::warn!("{grant} {}", local::MATCHES_NOTHING);
        }
    });
}

/// Fails unless the test routes are compiled in and only this machine can reach them.
///
/// They write arbitrary events to the event log on request.
fn check_test_routes(config: &Config, built: bool) -> anyhow::Result<()> {
    if !built {
        return Err(advised(
            "--test-routes: this program was built without the test routes",
            "build it with `cargo build --features test-routes`, or leave --test-routes out",
        ));
    }
    if config.server.listen.ip().is_loopback() && !config.server.behind_proxy {
        return Ok(());
    }
    Err(advised(
        "--test-routes are only served to this machine",
        "listen on 127.0.0.1 and leave `[server] behind_proxy` out, or leave --test-routes out",
    ))
}

fn bind(listen: SocketAddr, args: &ServeArgs) -> anyhow::Result<TcpListener> {
    toolcrib::bind(listen).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            let hint = match args.listen {
                None => "`--listen 127.0.0.1:0` takes a free port",
                Some(_) => {
                    "another program listens there; `--listen 127.0.0.1:0` takes a free port"
                }
            };
            advised(format!("{listen} is in use"), hint)
        }
        _ => anyhow::Error::new(error).context(format!("cannot listen on {listen}")),
    })
}

/// Applies changes of the configuration file.
struct Reloader<'a> {
    gateway: &'a Gateway,
    /// The content of the file in force.
    text: Option<String>,
    watch: Watch,
    /// `None` without TLS.
    certificate: Option<Certificate>,
    args: &'a ServeArgs,
    cx: &'a Context,
}

impl<'a> Reloader<'a> {
    fn new(
        gateway: &'a Gateway,
        text: Option<String>,
        certificate: Option<Certificate>,
        args: &'a ServeArgs,
        cx: &'a Context,
    ) -> Self {
        let default = Path::new(settings::DEFAULT_FILE);
        let file = cx.global.config.as_deref().unwrap_or(default);
        let watch = match args.demo {
            true => Watch::nothing(),
            false => Watch::start(file, text.as_deref(), gateway.tasks()),
        };
        Self { gateway, text, watch, certificate, args, cx }
    }

    /// Rereads the files of the certificate.
    fn renew(&mut self) {
        if let Some(certificate) = &mut self.certificate {
            certificate.reload(self.gateway, self.cx.printer);
        }
    }

    /// Reads the configuration file and applies it; on failure prints the error and keeps the old
    /// one.
    async fn reload(&mut self) {
        let printer = self.cx.printer;
        if self.args.demo {
            printer.note("a demo has no configuration to reload");
            return;
        }
        let former = self.certificate.as_ref().map(|certificate| certificate.files().clone());
        match self.apply().await {
            Ok((fresh, plan)) => {
                self.text = fresh.text;
                let fresh = fresh.config;
                logging::use_format(fresh.log.format);
                for section in plan.restart {
                    printer.warning(format_args!(
                        "[{section}] changed; restart the server to apply it"
                    ));
                }
                warn(&fresh, printer).await;
                report_idle_roles(self.gateway);
                printer.note("the configuration was reloaded");
                // Otherwise they have just been read.
                if self.certificate.as_ref().map(Certificate::files) == former.as_ref() {
                    self.renew();
                }
            }
            Err(error) => {
                self.gateway.metrics().configuration_refused();
                let error = error.context("the configuration was not applied; the old one stays");
                printer.error(&error);
            }
        }
    }

    /// Reads and applies the configuration; on failure changes nothing.
    async fn apply(&mut self) -> anyhow::Result<(Settings, ReloadPlan)> {
        let mut fresh = Settings::reload(&self.cx.global)?;
        if let Some(listen) = self.args.listen {
            fresh.config.server.listen = listen;
        }
        let old = self.gateway.config();
        if !self.args.allow_empty {
            not_emptied(&old, self.text.as_deref(), &fresh)?;
        }
        // Other files must be usable, like everything in the configuration.
        let moved = self.moved(&fresh.config)?;
        let plan = self.gateway.apply(fresh.config.clone()).await.map_err(|error| match error {
            ReloadError::Record(problem) => not_kept(&problem),
            error => error.into(),
        })?;
        if let (Some(certificate), Some((files, identity))) = (&mut self.certificate, moved) {
            certificate.adopt(files, identity, self.gateway, self.cx.printer);
        }
        Ok((fresh, plan))
    }

    /// Reads the certificate of `fresh` if its files differ from those in force.
    fn moved(&self, fresh: &Config) -> anyhow::Result<Option<(TlsConfig, TlsIdentity)>> {
        let Some(files) = &fresh.server.tls else { return Ok(None) };
        match &self.certificate {
            Some(certificate) if certificate.files() != files => {
                let identity = preflight::identity(files).map_err(Obstacle::into_error)?;
                Ok(Some((files.clone(), identity)))
            }
            _ => Ok(None),
        }
    }
}

/// Fails if the file has become empty or has lost all its sources.
///
/// Such a file is most likely incomplete or missing by mistake.
fn not_emptied(old: &Config, text: Option<&str>, fresh: &Settings) -> anyhow::Result<()> {
    let is_blank = |text: Option<&str>| text.is_none_or(settings::is_blank);
    let blank = is_blank(fresh.text.as_deref());
    let problem = match (blank, fresh.config.sources.is_empty()) {
        (true, _) if !is_blank(text) => "the configuration file is empty or missing",
        (false, true) if !old.sources.is_empty() => "the configuration has no sources any more",
        _ => return Ok(()),
    };
    Err(advised(
        problem,
        "write the whole file and move it into place; to remove everything, restart the server, or \
         start it with --allow-empty",
    ))
}

/// The task that serves HTTP.
type ServerTask = JoinHandle<std::io::Result<()>>;

fn flat(ended: Result<std::io::Result<()>, JoinError>) -> anyhow::Result<()> {
    ended.context("the server task failed")?.context("the server stopped")
}

/// Completes when `stopped` becomes true or its sender is dropped.
async fn until(mut stopped: watch::Receiver<bool>) {
    stopped.wait_for(|stop| *stop).await.ok();
}

/// The signals that a running server handles.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    on_hangup: Action,
}

impl Signals {
    /// A demo stops with its terminal, which sends SIGHUP, unless `nohup` started it. A server
    /// rereads its configuration.
    fn catch(args: &ServeArgs) -> anyhow::Result<Self> {
        let on_hangup = match args.demo && !is_hangup_ignored() {
            true => Action::End,
            false => Action::Reload,
        };
        let catch = |kind| {
            signal(kind).advise(
                "signal handlers cannot be installed",
                "does this container support signals?",
            )
        };
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hangup: catch(SignalKind::hangup())?,
            on_hangup,
        })
    }

    async fn next(&mut self) -> Action {
        tokio::select! {
            _ = self.interrupt.recv() => Action::End,
            _ = self.terminate.recv() => Action::End,
            _ = self.hangup.recv() => self.on_hangup,
        }
    }

    async fn end(&mut self) {
        while self.next().await != Action::End {}
    }
}

/// Whether the parent had SIGHUP ignored, before this process handles it.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is signal 1, the lowest bit.
    ignored.is_some_and(|mask| mask & 1 != 0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    End,
    Reload,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_routes_need_a_build_that_has_them_and_a_loopback_address() {
        let mut config = Config::empty(std::path::Path::new(""));
        config.server.listen = "127.0.0.1:0".parse().unwrap();
        assert!(check_test_routes(&config, true).is_ok());
        let refused = format!("{:#}", check_test_routes(&config, false).unwrap_err());
        assert!(refused.contains("built without the test routes"), "{refused}");
        config.server.listen = "0.0.0.0:0".parse().unwrap();
        assert!(check_test_routes(&config, true).is_err());
    }

    // I-90
    #[tokio::test(start_paused = true)]
    async fn the_end_has_a_limit_and_each_signal_shortens_it() {
        let never = std::future::pending::<()>;
        for (signals, longest) in [(0, SHUTDOWN_LIMIT), (1, FORCED_LIMIT), (2, Duration::ZERO)] {
            let (started, cut) = (Instant::now(), CancellationToken::new());
            let mut left = signals;
            let signal = async || match left {
                0 => never().await,
                _ => left -= 1,
            };
            assert!(!end_in_time(never(), &cut, signal).await);
            assert_eq!(started.elapsed(), longest, "after {signals} more signals");
            assert_eq!(cut.is_cancelled(), signals > 0);
        }
        let cut = CancellationToken::new();
        assert!(end_in_time(async {}, &cut, async || never().await).await);
    }
}
