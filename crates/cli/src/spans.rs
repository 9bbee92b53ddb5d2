//! Spans of this process for the receiver of `[telemetry]`.

use std::sync::Arc;

use toolcrib_config::{Config, TelemetryConfig};
use toolcrib_core::trace::SpanSink;

/// Sends spans until it is [closed](Self::close).
#[cfg(feature = "otel")]
#[derive(Clone)]
pub(crate) struct Spans(toolcrib_telemetry::Telemetry);

/// A build without the feature `otel` sends no spans.
#[cfg(not(feature = "otel"))]
#[derive(Clone)]
pub(crate) enum Spans {}

impl Spans {
    /// Starts to send spans, if the configuration has a receiver.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Option<Self>> {
        config.telemetry.as_ref().map(Self::to).transpose()
    }

    #[cfg(feature = "otel")]
    fn to(config: &TelemetryConfig) -> anyhow::Result<Self> {
        use toolcrib_config::TelemetryProtocol;
        use toolcrib_telemetry::{Protocol, ReceiverSettings, Telemetry};

        let receiver = ReceiverSettings {
            endpoint: config.endpoint.clone(),
            protocol: match config.protocol {
                TelemetryProtocol::Http => Protocol::Http,
                TelemetryProtocol::Grpc => Protocol::Grpc,
            },
            headers: config.headers.clone().into_iter().collect(),
            service_name: config.service_name.clone(),
            service_version: env!("CARGO_PKG_VERSION"),
            timeout: config.timeout,
        };
        let hint = "see `[telemetry]` in the configuration";
        Telemetry::start(receiver).map(Self).map_err(|error| {
            crate::failure::advised(format!("`[telemetry]` cannot work: {error}"), hint)
        })
    }

    #[cfg(not(feature = "otel"))]
    fn to(_: &TelemetryConfig) -> anyhow::Result<Self> {
        Err(crate::failure::advised(
            "`[telemetry]`: this program was built without the export of spans",
            "build it with the feature `otel`, or remove `[telemetry] endpoint`",
        ))
    }

    /// The receiver of the spans of a gateway.
    #[cfg(feature = "otel")]
    pub(crate) fn sink(&self) -> Arc<dyn SpanSink> {
        Arc::new(self.0.clone())
    }

    #[cfg(not(feature = "otel"))]
    pub(crate) fn sink(&self) -> Arc<dyn SpanSink> {
        match *self {}
    }

    /// Sends the pending spans, for at most five seconds.
    #[cfg(feature = "otel")]
    pub(crate) async fn close(&self) {
        self.0.close().await;
    }

    #[cfg(not(feature = "otel"))]
    pub(crate) async fn close(&self) {
        match *self {}
    }
}
