//! The load generator: each of N connections sends its next request after a correct response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::histogram::Histogram;
use crate::http1::{Answer, Connection, find};

/// The time of requests before those that count.
pub(crate) const WARM_UP: Duration = Duration::from_millis(300);

/// A response that takes longer than this is a failure.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Requests with the same expected response, sent repeatedly.
#[derive(Debug, Clone)]
pub(crate) struct Shot {
    pub(crate) address: SocketAddr,
    /// At least one request. Every connection starts with a different one and takes them in turns.
    pub(crate) requests: Arc<[Vec<u8>]>,
    pub(crate) status: u16,
    pub(crate) expect: ExpectedBody,
}

/// The expected body of a response.
#[derive(Debug, Clone)]
pub(crate) enum ExpectedBody {
    /// Exactly this body.
    Body(Arc<[u8]>),
    /// A body with this text in it.
    Text(Arc<str>),
}

/// The result of a measurement.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) latencies: Histogram,
    pub(crate) elapsed: Duration,
}

impl Shot {
    /// Sends the first request once; returns the body.
    pub(crate) async fn once(&self) -> Result<Vec<u8>> {
        let mut connection = Connection::open(self.address).await?;
        let request = self.requests.first().context("no request to send")?;
        let answer = timeout(ANSWER_LIMIT, connection.exchange(request)).await??;
        self.check(&answer)?;
        Ok(answer.body.to_vec())
    }

    /// Sends so many requests over one connection.
    pub(crate) async fn repeat(&self, times: u32) -> Result<()> {
        let mut connection = Connection::open(self.address).await?;
        let mut requests = self.requests.iter().cycle();
        for _ in 0..times {
            let request = requests.next().context("no request to send")?;
            let answer = timeout(ANSWER_LIMIT, connection.exchange(request)).await??;
            self.check(&answer)?;
        }
        Ok(())
    }

    /// Keeps `connections` busy for `time`, and measures the responses.
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
            let request = requests.next().context("no request to send")?;
            let answer = timeout(ANSWER_LIMIT, connection.exchange(request))
                .await
                .context("no response in time")??;
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
                ExpectedBody::Body(body) => answer.body == &**body,
                ExpectedBody::Text(text) => find(answer.body, text.as_bytes()).is_some(),
            };
        if !right {
            let body = String::from_utf8_lossy(answer.body);
            let start: String = body.chars().take(300).collect();
            bail!(
                "an unexpected response: status {} instead of {}: {start}",
                answer.status,
                self.status
            );
        }
        Ok(())
    }
}
