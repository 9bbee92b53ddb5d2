//! The official exporter, with the settings of this server.

use std::{collections::HashMap, time::Duration};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    Protocol as OtlpProtocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
    WithTonicConfig as _,
};
use opentelemetry_sdk::{Resource, error::OTelSdkError, trace::SpanExporter as _};
use tonic::{
    metadata::{MetadataKey, MetadataMap, MetadataValue},
    transport::ClientTlsConfig,
};
use toolcrib_core::{source::SecretValue, trace::Span};

use crate::convert::span_data;

/// A receiver of spans.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// The address: with HTTP, of the requests; with gRPC, of the server.
    pub endpoint: String,
    /// How spans are sent.
    pub protocol: Protocol,
    /// Headers of the requests.
    pub headers: Vec<(String, SecretValue)>,
    /// The resource attribute `service.name`.
    pub service_name: String,
    /// The resource attribute `service.version`.
    pub service_version: &'static str,
    /// The time limit of one request.
    pub timeout: Duration,
}

/// How spans are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over HTTP, as protobuf.
    Http,
    /// OTLP over gRPC.
    Grpc,
}

/// Why a receiver can never work.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be sent: {0}")]
pub struct InvalidReceiver(String);

/// Sends batches, one at a time.
pub(crate) struct Exporter {
    exporter: SpanExporter,
    timeout: Duration,
}

// === impl Exporter ===

impl Exporter {
    pub(crate) fn new(receiver: Receiver) -> Result<Self, InvalidReceiver> {
        let timeout = receiver.timeout;
        let mut exporter = match receiver.protocol {
            Protocol::Http => http(&receiver)?,
            Protocol::Grpc => grpc(&receiver)?,
        };
        let resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", receiver.service_name),
                KeyValue::new("service.version", receiver.service_version),
            ])
            .build();
        exporter.set_resource(&resource);
        Ok(Self { exporter, timeout })
    }

    /// Sends `spans`. The error is a kind, without a text of the receiver.
    pub(crate) async fn send(&self, spans: Vec<Span>) -> Result<(), &'static str> {
        let batch = spans.into_iter().map(span_data).collect();
        // Also limits the retries of the exporter.
        let limit = self.timeout.saturating_mul(2);
        match tokio::time::timeout(limit, self.exporter.export(batch)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(OTelSdkError::Timeout(_))) | Err(_) => Err("no answer in time"),
            Ok(Err(OTelSdkError::AlreadyShutdown)) => Err("the exporter is shut down"),
            Ok(Err(OTelSdkError::InternalFailure(_))) => {
                Err("it cannot be reached, or it refused the request")
            }
        }
    }
}

fn http(receiver: &Receiver) -> Result<SpanExporter, InvalidReceiver> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the operator has chosen the address of the receiver, which no caller or upstream reaches"
    )]
    let client = reqwest::Client::builder()
        .timeout(receiver.timeout)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| InvalidReceiver(error.to_string()))?;
    let headers: HashMap<_, _> = receiver
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.0.expose().to_owned()))
        .collect();
    SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(OtlpProtocol::HttpBinary)
        .with_endpoint(&receiver.endpoint)
        .with_timeout(receiver.timeout)
        .with_headers(headers)
        .build()
        .map_err(|error| InvalidReceiver(error.to_string()))
}

fn grpc(receiver: &Receiver) -> Result<SpanExporter, InvalidReceiver> {
    let mut metadata = MetadataMap::new();
    for (name, value) in &receiver.headers {
        let invalid =
            || InvalidReceiver(format!("the header `{name}` contains invalid characters"));
        let key = MetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes());
        let key = key.map_err(|_| invalid())?;
        let mut value: MetadataValue<_> = value.0.expose().parse().map_err(|_| invalid())?;
        value.set_sensitive(true);
        metadata.insert(key, value);
    }
    let mut builder = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&receiver.endpoint)
        .with_timeout(receiver.timeout)
        .with_metadata(metadata);
    if receiver.endpoint.starts_with("https://") {
        builder = builder.with_tls_config(ClientTlsConfig::new().with_native_roots());
    }
    builder.build().map_err(|error| InvalidReceiver(error.to_string()))
}
