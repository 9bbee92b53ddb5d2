//! A stream of server-sent events.

use std::time::Duration;

use http::HeaderMap;
use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout;

use super::PATIENCE;

/// A response that is still being received.
pub struct Events {
    pub status: u16,
    pub headers: HeaderMap,
    response: Response,
    read: Vec<u8>,
}

impl Events {
    pub(super) fn new(response: Response) -> Self {
        let status = response.status().as_u16();
        Self { status, headers: response.headers().clone(), response, read: Vec::new() }
    }

    /// Returns the next message, without comments; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Value> {
        timeout(PATIENCE, self.message()).await.expect("nothing came in time")
    }

    /// Panics if a message arrives, or the stream ends, within `time`.
    pub async fn silent(&mut self, time: Duration) {
        if let Ok(message) = timeout(time, self.message()).await {
            panic!("not silent: {message:?}");
        }
    }

    /// Returns the whole body, when it is one JSON text in place of a stream.
    pub async fn rest(self) -> Value {
        serde_json::from_slice(&self.response.bytes().await.unwrap()).unwrap()
    }

    async fn message(&mut self) -> Option<Value> {
        loop {
            while let Some(end) = self.read.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.read.drain(..end + 2).collect();
                let text = String::from_utf8(event).unwrap();
                let mut lines = text.lines();
                let data = lines.find_map(|line| line.strip_prefix("data: "));
                if let Some(data) = data.filter(|data| !data.is_empty()) {
                    return Some(serde_json::from_str(data).unwrap());
                }
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.read.extend_from_slice(&chunk),
                // A broken connection ends the stream too.
                Ok(None) | Err(_) => return None,
            }
        }
    }
}
