//! A client that runs: what it prints, and how it ends.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::mpsc;

/// The longest wait for a line of a client.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that runs.
pub(super) struct Running {
    child: Child,
    /// The lines of its output (`true`) and of its errors.
    lines: mpsc::UnboundedReceiver<(bool, String)>,
    output: String,
    errors: String,
}

// === impl Running ===

impl Running {
    pub(super) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        forward(child.stdout.take().unwrap(), true, sender.clone());
        forward(child.stderr.take().unwrap(), false, sender);
        Self { child, lines, output: String::new(), errors: String::new() }
    }

    /// The word that begins with `start`, once it is in a line.
    pub(super) async fn find(&mut self, start: &str) -> String {
        let is_end = |c: char| c.is_whitespace() || c.is_control() || c == '"';
        loop {
            let line = self.next().await.unwrap_or_else(|| panic!("it ended: {}", self.errors));
            if let Some(at) = line.find(start) {
                return line[at..].split(is_end).next().unwrap().to_owned();
            }
        }
    }

    /// The JSON that it prints last.
    pub(super) async fn finish(mut self) -> Value {
        while self.next().await.is_some() {}
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{}{}", self.errors, self.output);
        // Before it may be the address for the browser.
        let lines = self.output.lines().skip_while(|line| !line.starts_with('{'));
        let json = lines.collect::<Vec<_>>().join("\n");
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {}", self.output))
    }

    /// The exit code of a client, and everything that it prints.
    pub(super) async fn end(mut self) -> (Option<i32>, String) {
        while self.next().await.is_some() {}
        (self.child.wait().unwrap().code(), format!("{}{}", self.output, self.errors))
    }

    /// The exit code of a client that fails, and its errors.
    pub(super) async fn fail(mut self) -> (Option<i32>, String) {
        while self.next().await.is_some() {}
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.errors))
    }

    async fn next(&mut self) -> Option<String> {
        let next = tokio::time::timeout(PATIENCE, self.lines.recv()).await;
        let next = next.unwrap_or_else(|_| panic!("it hangs: {}{}", self.errors, self.output));
        let (is_output, line) = next?;
        let text = if is_output { &mut self.output } else { &mut self.errors };
        text.push_str(&line);
        text.push('\n');
        Some(line)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, unless the test fails.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn forward(
    stream: impl Read + Send + 'static,
    is_output: bool,
    to: mpsc::UnboundedSender<(bool, String)>,
) {
    tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        // An error means that the reader is gone.
        lines.take_while(|line| to.send((is_output, line.clone())).is_ok()).for_each(drop);
    });
}
