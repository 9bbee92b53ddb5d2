//! A child's stderr: one log line each, cut, limited in rate, with the configured secrets taken out.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use toolcrib_core::{credential::Secret, id::SourceId};

use crate::text::tidy;

/// Bytes of one line that are kept.
const MAX_LINE: usize = 1024;
/// Lines logged per window; further ones are counted.
const MAX_LINES: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);
/// Shorter secrets are not looked for: `1` or `on` would be blanked out of every other line.
const MIN_SECRET: usize = 4;

pub(super) struct Log {
    source: SourceId,
    secrets: Vec<Secret>,
    last_line: Arc<Mutex<Option<String>>>,
    window: Instant,
    logged: u32,
    suppressed: u64,
}

impl Log {
    pub(super) fn new(
        source: SourceId,
        mut secrets: Vec<Secret>,
        last_line: Arc<Mutex<Option<String>>>,
    ) -> Self {
        secrets.retain(|secret| secret.expose().len() >= MIN_SECRET);
        Self { source, secrets, last_line, window: Instant::now(), logged: 0, suppressed: 0 }
    }

    /// Reads until the pipe closes.
    pub(super) async fn run(mut self, pipe: impl AsyncRead + Unpin) {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        loop {
            let available = match pipe.fill_buf().await {
                Ok([]) | Err(_) => break,
                Ok(available) => available,
            };
            let end = available.iter().position(|&byte| byte == b'\n');
            let (text, used) = match end {
                Some(end) => (available.get(..end), end + 1),
                None => (Some(available), available.len()),
            };
            let room = MAX_LINE.saturating_sub(line.len());
            line.extend(text.unwrap_or_default().iter().take(room));
            pipe.consume(used);
            if end.is_some() {
                self.line(&line);
                line.clear();
            }
        }
        self.line(&line);
        self.report_suppressed();
    }

    fn line(&mut self, bytes: &[u8]) {
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        for secret in &self.secrets {
            if text.contains(secret.expose()) {
                text = text.replace(secret.expose(), "[secret]");
            }
        }
        let text = tidy(&text, MAX_LINE);
        if text.is_empty() {
            return;
        }
        if self.window.elapsed() >= WINDOW {
            self.report_suppressed();
            self.window = Instant::now();
            self.logged = 0;
        }
        if self.logged < MAX_LINES {
            self.logged += 1;
            tracing::info!(source = %self.source, line = %text, "upstream stderr");
        } else {
            self.suppressed += 1;
        }
        *self.last_line.lock() = Some(text);
    }

    fn report_suppressed(&mut self) {
        if self.suppressed > 0 {
            tracing::info!(source = %self.source, lines = self.suppressed, "upstream stderr suppressed");
            self.suppressed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_line_is_kept_cut_and_without_secrets() {
        let last_line = Arc::new(Mutex::new(None));
        let secrets = vec![Secret::new("hunter22".to_owned()), Secret::new("1".to_owned())];
        let log = Log::new(SourceId::parse("a").unwrap(), secrets, Arc::clone(&last_line));
        let mut text = vec![b'x'; 1 << 20];
        text.extend_from_slice(b"\npassword is hunter22, port 1\n\n");
        log.run(text.as_slice()).await;
        assert_eq!(last_line.lock().as_deref(), Some("password is [secret], port 1"));
    }
}
