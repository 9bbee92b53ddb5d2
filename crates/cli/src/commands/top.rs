//! `top`: shows the calls, sources and approvals of a running server continuously.

mod exposition;
mod figures;
mod screen;

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use chrono::Utc;

use self::{
    exposition::Exposition,
    figures::{Calls, Figures, SourceFigures, TenantFigures, ToolFigures},
    screen::{Screen, WakeReason},
};
use crate::{
    args::TopArgs,
    client::Client,
    context::Context,
    failure::{Exit, advised, usage},
    printer::Printer,
    table::{Column, Kind, Layout},
    text::harmless,
};

/// The first figures come after this time at the latest, so that the screen is not empty for long.
const FIRST: Duration = Duration::from_secs(1);
/// Rows of each table without a screen to fill.
const ROWS: usize = 20;
/// Sources and tenants on a screen; the tools get the other lines.
const FEW: usize = 8;
/// Lines of a screen without rows: the head, three titles, and three empty lines.
const FRAME: usize = 10;

const SOURCE_COLUMNS: &[Column<SourceFigures>] = &[
    Column(Kind::Name, "source", |source| source.source.clone()),
    Column(Kind::State, "state", |source| if source.up { "ready" } else { "down" }.to_owned()),
    Column(Kind::State, "breaker", |source| source.breaker.to_owned()),
    Column(Kind::Name, "running", |source| whole(source.running)),
    Column(Kind::Name, "tools", |source| whole(source.tools)),
    Column(Kind::Name, "calls/s", |source| rate(source.calls.per_second)),
    Column(Kind::Name, "errors/s", |source| rate(source.calls.errors_per_second)),
    Column(Kind::Name, "p50", |source| seconds(source.run_time.p50)),
    Column(Kind::Name, "p95", |source| seconds(source.run_time.p95)),
];

const TOOL_COLUMNS: &[Column<ToolFigures>] = &[
    Column(Kind::Name, "tool", |tool| tool.tool.clone()),
    Column(Kind::Text, "source", |tool| tool.source.clone()),
    Column(Kind::Name, "calls/s", |tool| rate(tool.calls.per_second)),
    Column(Kind::Name, "errors/s", |tool| rate(tool.calls.errors_per_second)),
    Column(Kind::Name, "refused/s", |tool| rate(tool.calls.refused_per_second)),
    Column(Kind::Name, "calls", |tool| whole(tool.calls.total)),
];

const TENANT_COLUMNS: &[Column<TenantFigures>] = &[
    Column(Kind::Name, "tenant", |tenant| tenant.tenant.clone()),
    Column(Kind::Name, "calls/s", |tenant| rate(tenant.calls.per_second)),
    Column(Kind::Name, "errors/s", |tenant| rate(tenant.calls.errors_per_second)),
    Column(Kind::Name, "refused/s", |tenant| rate(tenant.calls.refused_per_second)),
    Column(Kind::Name, "calls", |tenant| whole(tenant.calls.total)),
];

pub(crate) async fn run(args: TopArgs, cx: &Context) -> anyhow::Result<Exit> {
    let Some(client) = Client::connect(cx)? else {
        return Err(usage("name the server with --url, for example --url http://127.0.0.1:8808"));
    };
    let mut meter = Meter { client, last: None };
    meter.figures().await?;
    let printer = cx.printer;
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if args.once || !(is_terminal || printer.wants_json()) {
        tokio::time::sleep(args.interval).await;
        let figures = meter.figures().await?;
        match (figures, printer.wants_json()) {
            (Some(figures), true) => printer.json(&figures)?,
            (Some(figures), false) => print(&figures, &args, printer)?,
            (None, _) => {}
        }
        return Ok(Exit::Done);
    }
    if printer.wants_json() {
        loop {
            tokio::time::sleep(args.interval).await;
            if let Some(figures) = meter.figures().await? {
                printer.json_line(&figures)?;
            }
        }
    }
    watch(meter, &args).await?;
    Ok(Exit::Done)
}

/// Reads the metrics of a server.
struct Meter {
    client: Client,
    /// The last metrics, and when they were read.
    last: Option<(Instant, Exposition)>,
}

impl Meter {
    /// The figures since the last call; `None` on the first one.
    async fn figures(&mut self) -> anyhow::Result<Option<Figures>> {
        let text = self.client.text(&["metrics"]).await?;
        let at = Instant::now();
        let Some(now) = Exposition::parse(&text) else {
            return Err(advised(
                "the response has no metrics",
                "is this the address of a toolcrib server?",
            ));
        };
        let before = self.last.take();
        let figures = before.map(|(then, before)| {
            let seconds = at.duration_since(then).as_secs_f64().max(0.001);
            let unix = Utc::now().timestamp_millis() as f64 / 1000.0;
            Figures::new(&before, &now, seconds, unix)
        });
        self.last = Some((at, now));
        Ok(figures)
    }
}

/// Fills the screen until the user leaves.
async fn watch(mut meter: Meter, args: &TopArgs) -> anyhow::Result<()> {
    let screen = Screen::open()?;
    let mut shown: Option<Figures> = None;
    let mut problem: Option<String> = None;
    let mut pause = args.interval.min(FIRST);
    loop {
        let lines = match (&problem, &shown) {
            (None, Some(figures)) => page(figures, args, screen.height()),
            (None, None) => vec!["measuring…".to_owned()],
            (Some(problem), _) => vec![harmless(problem), "It is tried again; q quits.".to_owned()],
        };
        screen.draw(&lines)?;
        // Keys are read without a runtime.
        match tokio::task::block_in_place(|| screen.wait(pause))? {
            WakeReason::Quit => return Ok(()),
            WakeReason::Resized => continue,
            WakeReason::Time => {}
        }
        pause = args.interval;
        match meter.figures().await {
            Ok(figures) => {
                shown = figures.or(shown);
                problem = None;
            }
            Err(error) => problem = Some(format!("{error:#}")),
        }
    }
}

/// Prints the figures once.
fn print(figures: &Figures, args: &TopArgs, printer: Printer) -> anyhow::Result<()> {
    let rows = args.rows.map_or(ROWS, usize::from);
    let layout = Layout::of_stdout(printer.wants_wide());
    printer.line(pages(figures, &layout, [rows; 3]).join("\n"))
}

/// The lines of a screen of this height.
fn page(figures: &Figures, args: &TopArgs, height: usize) -> Vec<String> {
    let most = args.rows.map_or(usize::MAX, usize::from);
    let sources = figures.sources.len().min(FEW).min(most);
    let tenants = figures.tenants.len().min(FEW).min(most);
    let tools = height.saturating_sub(FRAME + sources + tenants).max(1).min(most);
    pages(figures, &Layout::of_stdout(false), [sources, tools, tenants])
}

fn pages(figures: &Figures, layout: &Layout, rows: [usize; 3]) -> Vec<String> {
    let [sources, tools, tenants] = rows;
    let mut lines = head(figures);
    lines.push(String::new());
    lines.extend(layout.lines(SOURCE_COLUMNS, figures.sources.iter().take(sources)));
    lines.push(String::new());
    lines.extend(layout.lines(TOOL_COLUMNS, figures.tools.iter().take(tools)));
    lines.push(String::new());
    lines.extend(layout.lines(TENANT_COLUMNS, figures.tenants.iter().take(tenants)));
    lines
}

/// The state of the server as a whole.
fn head(figures: &Figures) -> Vec<String> {
    let Calls { per_second, errors_per_second, refused_per_second, total } = figures.calls;
    let down = figures.sources.iter().filter(|source| !source.up).count();
    let record = if figures.refuses_calls { "incomplete, calls are refused" } else { "sound" };
    vec![
        format!(
            "toolcrib {}  up {}  catalog {}  tasks down {}  panics {}",
            harmless(&figures.version),
            figures.uptime_seconds.map_or_else(|| "-".to_owned(), span),
            figures.generation.map_or_else(|| "-".to_owned(), whole),
            whole(figures.tasks_down),
            whole(figures.panics),
        ),
        format!(
            "calls {}/s  errors {}/s  refused {}/s  total {}  gate p50 {} p95 {}",
            rate(per_second),
            rate(errors_per_second),
            rate(refused_per_second),
            whole(total),
            seconds(figures.gate.p50),
            seconds(figures.gate.p95),
        ),
        format!(
            "sources down {down}  approvals pending {}  record {record}, {} events unsigned  \
             store {}, {} waiting",
            figures.pending_approvals.map_or_else(|| "-".to_owned(), whole),
            figures.unsigned_events.map_or_else(|| "-".to_owned(), whole),
            figures.store_bytes.map_or_else(|| "-".to_owned(), size),
            figures.store_queue.map_or_else(|| "-".to_owned(), whole),
        ),
    ]
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

fn rate(per_second: f64) -> String {
    match per_second {
        zero if zero <= 0.0 => "0".to_owned(),
        small if small < 10.0 => format!("{small:.1}"),
        large => whole(large),
    }
}

/// A time, in the unit in which it has two or three digits.
fn seconds(time: Option<f64>) -> String {
    match time {
        None => "-".to_owned(),
        Some(short) if short < 0.000_995 => format!("{:.0}µs", short * 1e6),
        Some(short) if short < 0.009_95 => format!("{:.1}ms", short * 1e3),
        Some(medium) if medium < 0.995 => format!("{:.0}ms", medium * 1e3),
        Some(long) => format!("{long:.1}s"),
    }
}

/// A long time, in its two largest units.
fn span(time: f64) -> String {
    let minutes = (time / 60.0) as u64;
    match (minutes / 1440, minutes / 60 % 24, minutes % 60) {
        (0, 0, 0) => format!("{time:.0}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}

fn size(bytes: f64) -> String {
    let units = [("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0), ("KiB", 1024.0)];
    let unit = units.iter().find(|(_, factor)| bytes >= *factor);
    unit.map_or_else(
        || format!("{bytes:.0}B"),
        |(name, factor)| format!("{:.1}{name}", bytes / factor),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.25, 9.9, 1234.5].map(rate), ["0", "0.2", "9.9", "1234"]);
        let times = [None, Some(0.000_05), Some(0.0012), Some(0.05), Some(2.0)];
        assert_eq!(times.map(seconds), ["-", "50µs", "1.2ms", "50ms", "2.0s"]);
        assert_eq!([5.0, 300.0, 7260.0, 180_000.0].map(span), ["5s", "5m", "2h1m", "2d2h"]);
        assert_eq!([10.0, 2048.0, 3_145_728.0].map(size), ["10B", "2.0KiB", "3.0MiB"]);
    }
}
