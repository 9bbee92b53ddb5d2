//! The stderr output of children.
//!
//! Invariant (I-92): a line may contain arguments of calls, so by default it stays in memory. The
//! last lines of a source are kept, truncated and with configured secrets redacted. They reach the
//! log only if the source enables that, and never a status, an error or the event log.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    sync::mpsc,
};
use toolcrib_core::{
    clock::Clock,
    credential::Secret,
    id::SourceId,
    redact,
    source::{StderrLine, StderrMode},
};

use crate::text::tidy;

/// Bytes kept of one line.
const MAX_LINE: usize = 1024;
/// Lines kept per source.
const MAX_KEPT: usize = 100;
/// Lines logged per window; further lines are only counted.
const MAX_LOGGED: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);
/// Shorter secrets are not redacted: `1` or `on` would be blanked out of every other line.
const MIN_SECRET: usize = 4;

/// The last lines of all children of a source. At most [`MAX_KEPT`] lines of [`MAX_LINE`] bytes.
pub(crate) struct Lines {
    source: SourceId,
    mode: StderrMode,
    clock: Arc<dyn Clock>,
    kept: Mutex<VecDeque<StderrLine>>,
    logged: Mutex<Window>,
}

/// The lines logged in the current window.
struct Window {
    began: Instant,
    logged: u32,
    suppressed: u64,
}

/// The treatment of lines that were written during the protocol probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    /// The child understood the probe, so its lines are unrelated and kept.
    Understood,
    /// The child did not understand the probe. Its complaints about it are dropped.
    Refused,
}

/// Signals the end of the probe to the reader of a child's stderr. Dropping it keeps the lines.
pub(crate) type ProbeEnd = mpsc::UnboundedSender<ProbeOutcome>;

/// Reads one child's stderr.
pub(super) struct Reader {
    lines: Arc<Lines>,
    secrets: Vec<Secret>,
    probe: mpsc::UnboundedReceiver<ProbeOutcome>,
    /// Lines written during the probe; `None` afterwards.
    held: Option<VecDeque<StderrLine>>,
}

// === impl Lines ===

impl Lines {
    pub(crate) fn new(source: SourceId, mode: StderrMode, clock: Arc<dyn Clock>) -> Self {
        let logged = Mutex::new(Window { began: Instant::now(), logged: 0, suppressed: 0 });
        Self { source, mode, clock, kept: Mutex::default(), logged }
    }

    /// The lines, oldest first.
    pub(crate) fn kept(&self) -> Vec<StderrLine> {
        self.kept.lock().iter().cloned().collect()
    }

    /// Adds the stderr output of an exited child.
    pub(crate) fn take(&self, text: &[u8], secrets: &[Secret]) {
        let lines = text.split(|&byte| byte == b'\n');
        lines.filter_map(|line| self.line(line, secrets)).for_each(|line| self.keep(line));
    }

    fn line(&self, bytes: &[u8], secrets: &[Secret]) -> Option<StderrLine> {
        let text = String::from_utf8_lossy(bytes);
        let long = secrets.iter().filter(|secret| secret.expose().len() >= MIN_SECRET);
        let labelled = long.map(|secret| (secret.clone(), "[secret]".to_owned()));
        let mut text = redact::without(&text, labelled.collect()).into_owned();
        // An overlong line may be cut within a secret, so its last bytes are removed.
        if bytes.len() >= MAX_LINE + margin(secrets) {
            let end = text.len().saturating_sub(margin(secrets));
            text.truncate(text.floor_char_boundary(end));
        }
        let line = tidy(&text, MAX_LINE);
        (!line.is_empty()).then(|| StderrLine { at: self.clock.now(), line })
    }

    fn keep(&self, line: StderrLine) {
        if self.mode == StderrMode::Log {
            self.log(&line.line);
        }
        push(&mut self.kept.lock(), line);
    }

    fn log(&self, line: &str) {
        let mut window = self.logged.lock();
        if window.began.elapsed() >= WINDOW {
            if window.suppressed > 0 {
                let lines = window.suppressed;
                tracing::info!(source = %self.source, lines, "upstream stderr suppressed");
            }
            *window = Window { began: Instant::now(), logged: 0, suppressed: 0 };
        }
        if window.logged < MAX_LOGGED {
            window.logged += 1;
            tracing::info!(source = %self.source, line, "upstream stderr");
        } else {
            window.suppressed += 1;
        }
    }
}

/// The number of bytes of the longest secret if each character is escaped as `\u0000`.
fn margin(secrets: &[Secret]) -> usize {
    secrets.iter().map(|secret| secret.expose().len()).max().unwrap_or_default() * 6
}

fn push(lines: &mut VecDeque<StderrLine>, line: StderrLine) {
    if lines.len() >= MAX_KEPT {
        lines.pop_front();
    }
    lines.push_back(line);
}

// === impl Reader ===

impl Reader {
    /// Creates a reader that holds lines back until the probe completes.
    pub(super) fn new(lines: Arc<Lines>, secrets: Vec<Secret>) -> (Self, ProbeEnd) {
        let (end, probe) = mpsc::unbounded_channel();
        (Self { lines, secrets, probe, held: Some(VecDeque::new()) }, end)
    }

    /// Reads until the pipe closes.
    pub(super) async fn run(mut self, pipe: impl AsyncRead + Unpin) {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        loop {
            let available = tokio::select! {
                // In this order: lines written before the response to the probe belong to the
                // probe.
                biased;
                read = pipe.fill_buf() => match read {
                    Ok([]) | Err(_) => break,
                    Ok(available) => available,
                },
                end = self.probe.recv(), if self.held.is_some() => {
                    self.probe_ended(end.unwrap_or(ProbeOutcome::Understood));
                    continue;
                }
            };
            let end = available.iter().position(|&byte| byte == b'\n');
            let (text, used) = match end {
                Some(end) => (available.get(..end), end + 1),
                None => (Some(available), available.len()),
            };
            let room = (MAX_LINE + margin(&self.secrets)).saturating_sub(line.len());
            line.extend(text.unwrap_or_default().iter().take(room));
            pipe.consume(used);
            if end.is_some() {
                self.line(&line);
                line.clear();
            }
        }
        self.line(&line);
        // A child that exited during the probe failed, and its lines say why.
        let end = self.probe.try_recv().unwrap_or(ProbeOutcome::Understood);
        self.probe_ended(end);
    }

    fn line(&mut self, bytes: &[u8]) {
        let Some(line) = self.lines.line(bytes, &self.secrets) else { return };
        match &mut self.held {
            Some(held) => push(held, line),
            None => self.lines.keep(line),
        }
    }

    fn probe_ended(&mut self, end: ProbeOutcome) {
        let held = self.held.take().unwrap_or_default();
        if end == ProbeOutcome::Understood {
            held.into_iter().for_each(|line| self.lines.keep(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use toolcrib_core::clock::Timestamp;

    use super::*;

    struct StoppedClock;

    impl Clock for StoppedClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn monotonic_nanos(&self) -> u64 {
            0
        }
    }

    fn lines() -> Arc<Lines> {
        let source = SourceId::parse("a").unwrap();
        Arc::new(Lines::new(source, StderrMode::Keep, Arc::new(StoppedClock)))
    }

    fn texts(lines: &Lines) -> Vec<String> {
        lines.kept().into_iter().map(|line| line.line).collect()
    }

    #[tokio::test]
    async fn lines_are_kept_cut_and_without_secrets() {
        let kept = lines();
        let secrets = vec![Secret::new("hunter22".to_owned()), Secret::new("1".to_owned())];
        let (reader, _end) = Reader::new(Arc::clone(&kept), secrets);
        let mut text = vec![b'x'; 1 << 20];
        text.extend_from_slice(b"\npassword is hunter22, port 1\n\n");
        reader.run(text.as_slice()).await;
        let texts = texts(&kept);
        assert_eq!(texts[0].trim_end_matches('…').len(), texts[0].matches('x').count());
        assert!(texts[0].len() <= MAX_LINE + '…'.len_utf8());
        assert_eq!(texts[1..], ["password is [secret], port 1"]);
    }

    /// I-92: neither the end of a line nor an escape shows a part of a secret.
    #[tokio::test]
    async fn a_secret_at_the_end_of_a_long_line_is_not_cut() {
        let secret = "AbCdEfGh/1234567890+IjKl==secret";
        for written in [secret.to_owned(), secret.replace('/', "\\/"), secret.replace('/', "%2f")] {
            for before in 900..1_300 {
                let kept = lines();
                let (reader, _end) =
                    Reader::new(Arc::clone(&kept), vec![Secret::new(secret.to_owned())]);
                let text = format!("{}{written}{written} more\n", "p".repeat(before));
                reader.run(text.as_bytes()).await;
                let line = texts(&kept).concat();
                assert!(!line.contains("AbCd"), "{before}: {line}");
                assert!(line.starts_with("ppp") && line.len() <= MAX_LINE + '…'.len_utf8());
            }
        }
    }

    // I-27, I-92
    #[tokio::test]
    async fn the_last_hundred_lines_are_kept() {
        let kept = lines();
        let text: String = (0..1_000).map(|number| format!("line {number}\n")).collect();
        let (reader, end) = Reader::new(Arc::clone(&kept), Vec::new());
        drop(end);
        reader.run(text.as_bytes()).await;
        let texts = texts(&kept);
        assert_eq!((texts.len(), &*texts[0], &*texts[99]), (100, "line 900", "line 999"));
    }

    #[tokio::test]
    async fn complaints_about_the_probe_are_dropped_unless_it_fails() {
        for (told, expected) in [
            (Some(ProbeOutcome::Refused), vec!["after"]),
            (Some(ProbeOutcome::Understood), vec!["before", "after"]),
            (None, vec!["before", "after"]),
        ] {
            let kept = lines();
            let (reader, end) = Reader::new(Arc::clone(&kept), Vec::new());
            let (mut child, pipe) = tokio::io::duplex(64);
            let reading = tokio::spawn(reader.run(pipe));
            child.write_all(b"before\n").await.unwrap();
            match told {
                Some(told) => end.send(told).unwrap(),
                None => drop(end),
            }
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            child.write_all(b"after\n").await.unwrap();
            drop(child);
            reading.await.unwrap();
            assert_eq!(texts(&kept), expected, "{told:?}");
        }
    }
}
