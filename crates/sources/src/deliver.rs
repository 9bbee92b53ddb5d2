//! Deliveries of the event log to destinations outside the store: append-only files and HTTP
//! endpoints.
//!
//! Invariant: data delivered to a file is synced to disk, and starts on a new line.
//!
//! Invariant (I-35): a request goes only to destinations its guard allows, and follows no
//! redirects.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, header};
use toolcrib_core::{
    egress::EgressTrail,
    record::{Delivery, DeliveryError, DeliveryFactory, Destination},
};

use crate::egress::{Egress, EgressError, Endpoint, Guard, Network, SystemResolver};

/// Time limit of a whole request. Bodies have a few hundred kilobytes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Creates deliveries to files and HTTP endpoints.
pub struct Deliveries(Arc<Network>);

struct FileDelivery(PathBuf);

struct HttpDelivery {
    egress: Egress,
    endpoint: Endpoint,
}

// === impl Deliveries ===

impl Default for Deliveries {
    fn default() -> Self {
        Self(Network::new(Arc::new(SystemResolver)))
    }
}

impl DeliveryFactory for Deliveries {
    fn build(&self, destination: &Destination) -> Result<Arc<dyn Delivery>, String> {
        match destination {
            Destination::File(path) => Ok(Arc::new(FileDelivery(path.clone()))),
            Destination::Http(spec) => {
                let endpoint = Endpoint::new(spec)?;
                let guard = Guard::new(spec.allow.clone(), Some(endpoint.url()));
                let egress = self.0.egress(guard)?;
                Ok(Arc::new(HttpDelivery { egress, endpoint }))
            }
        }
    }
}

// === impl FileDelivery ===

#[async_trait]
impl Delivery for FileDelivery {
    async fn deliver_with(
        &self,
        _: &[(&'static str, String)],
        _: &'static str,
        body: Vec<u8>,
    ) -> Result<(), DeliveryError> {
        let path = self.0.clone();
        let append = tokio::task::spawn_blocking(move || append(&path, &body)).await;
        let written = append.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        written.map_err(|error| DeliveryError::File(error.kind()))
    }
}

/// Appends all of `body`; a failed write is rolled back.
fn append(path: &Path, body: &[u8]) -> io::Result<()> {
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    let written = begin_line(&mut file, length)
        .and_then(|()| file.write_all(body))
        .and_then(|()| file.sync_data());
    if written.is_err() {
        // Otherwise an incomplete line would stay until the next attempt.
        drop(file.set_len(length));
    }
    written
}

/// Adds the line break to an incomplete line that a crashed process left behind.
fn begin_line(file: &mut File, length: u64) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    match last {
        [b'\n'] => Ok(()),
        _ => file.write_all(b"\n"),
    }
}

// === impl HttpDelivery ===

#[async_trait]
impl Delivery for HttpDelivery {
    async fn deliver_with(
        &self,
        more: &[(&'static str, String)],
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<(), DeliveryError> {
        let mut headers = HeaderMap::new();
        for (name, value) in more {
            let Ok(value) = HeaderValue::from_str(value) else {
                tracing::error!(name, "a header of a delivery cannot be sent");
                return Err(DeliveryError::Refused);
            };
            headers.insert(*name, value);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let request = self.endpoint.request(Method::POST, headers, Some(body));
        let trail = EgressTrail::default();
        let sent = tokio::time::timeout(PATIENCE, self.egress.send(request, &trail)).await;
        match sent {
            Err(_) => Err(DeliveryError::TimedOut),
            Ok(Err(EgressError::Refused { .. } | EgressError::Credential(_))) => {
                Err(DeliveryError::Refused)
            }
            Ok(Err(_)) => Err(DeliveryError::Unreachable),
            Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
            Ok(Ok(answer)) => Err(DeliveryError::Status(answer.status().as_u16())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_delivery_to_a_file_ends_an_incomplete_line_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.jsonl");
        let to = Deliveries::default().build(&Destination::File(path.clone())).unwrap();
        to.deliver("text/plain", b"one\n".to_vec()).await.unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"half")
            .unwrap();
        to.deliver("text/plain", b"two\nthree\n".to_vec()).await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n{\"half\ntwo\nthree\n");
        let missing = Destination::File(directory.path().join("missing/out.jsonl"));
        let to = Deliveries::default().build(&missing).unwrap();
        let error = to.deliver("text/plain", Vec::new()).await.unwrap_err();
        assert_eq!(error, DeliveryError::File(io::ErrorKind::NotFound));
    }
}
