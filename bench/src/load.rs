//! The load: N connections, each sends its next request when the answer to the last was right.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::histogram::Histogram;
use crate::http1::{Answer, Connection, find};

/// A single answer that takes longer than this is a failure.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Requests that are answered alike, sent over and over.
#[derive(Debug, Clone)]
pub(crate) struct Shot {
    pub(crate) address: SocketAddr,
    /// At least one. Every connection begins at another one and takes them in turns.
    pub(crate) requests: Arc<[Vec<u8>]>,
    pub(crate) status: u16,
    pub(crate) expect: Expect,
}

/// What makes an answer right, beside its status.
#[derive(Debug, Clone)]
pub(crate) enum Expect {
    /// Exactly this body.
    Body(Arc<[u8]>),
    /// A body with this text in it.
    Text(Arc<str>),
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) latencies: Histogram,
    pub(crate) elapsed: Duration,
}

impl Shot {
    /// Sends the request once and returns the body.
    pub(crate) async fn once(&self) -> Result<Vec<u8>> {
        let mut connection = Connection::open(self.address).await?;
        let request = self.requests.first().context("nothing to ask")?;
        let answer = timeout(ANSWER_LIMIT, connection.exchange(request)).await??;
        self.check(&answer)?;
        Ok(answer.body.to_vec())
    }

    /// Keeps `connections` busy for `time`.
    pub(crate) async fn fire(&self, connections: u32, time: Duration) -> Result<Outcome> {
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(Connection::open(self.address).await?);
        }
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        let share = self.requests.len() / open.len().max(1);
        for (number, connection) in open.into_iter().enumerate() {
            let first = number * share;
            tasks.spawn(self.clone().keep_busy(connection, first, started + time));
        }
        let mut latencies = Histogram::new();
        while let Some(done) = tasks.join_next().await {
            latencies.merge(&done??);
        }
        Ok(Outcome { latencies, elapsed: started.elapsed() })
    }

    async fn keep_busy(
        self,
        mut connection: Connection,
        first: usize,
        end: Instant,
    ) -> Result<Histogram> {
        let mut latencies = Histogram::new();
        let mut sent = Instant::now();
        let mut requests = self.requests.iter().cycle().skip(first);
        while sent < end {
            let request = requests.next().context("nothing to ask")?;
            let answer = timeout(ANSWER_LIMIT, connection.exchange(request))
                .await
                .context("no answer in time")??;
            self.check(&answer)?;
            let now = Instant::now();
            latencies.add(now - sent);
            sent = now;
        }
        Ok(latencies)
    }

    fn check(&self, answer: &Answer<'_>) -> Result<()> {
        let right = answer.status == self.status
            && match &self.expect {
                Expect::Body(body) => answer.body == &**body,
                Expect::Text(text) => find(answer.body, text.as_bytes()).is_some(),
            };
        if !right {
            let body = String::from_utf8_lossy(answer.body);
            let start: String = body.chars().take(300).collect();
            bail!("a wrong answer: status {} instead of {}: {start}", answer.status, self.status);
        }
        Ok(())
    }
}
