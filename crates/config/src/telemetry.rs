//! `[telemetry]`: the receiver of spans, and the traces to record.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_core::{egress::is_loopback, source::SecretValue};
use url::Url;

use super::{
    resolver::{Resolver, check_url},
    secret::Value,
    units::{self as kind, Kind as _},
};

/// The path that OTLP over HTTP has at a receiver without one.
const TRACES_PATH: &str = "/v1/traces";

/// Spans of requests and calls ([guide](../guides/observe.md#traces)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Telemetry {
    /// The receiver, such as `http://127.0.0.1:4318`. With `protocol = "http"` and no path,
    /// `/v1/traces` is appended.
    #[schemars(extend("x-default" = "no spans"))]
    endpoint: Option<String>,
    /// OTLP over `http` (protobuf) or `grpc`.
    protocol: TelemetryProtocol,
    /// Headers of the requests.
    headers: BTreeMap<String, Value>,
    /// The part of the traces to record, from 0 to 1.
    sample: f64,
    /// Whether the decision of a caller's `traceparent` to record a trace replaces `sample`.
    trust_parent: bool,
    /// The name of this service.
    service_name: String,
    /// The time limit of one request, at most `60s`.
    #[serde(with = "kind::Duration")]
    timeout: Duration,
}

/// How spans are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TelemetryProtocol {
    /// OTLP over HTTP, as protobuf.
    #[default]
    Http,
    /// OTLP over gRPC.
    Grpc,
}

/// The receiver of spans.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TelemetryConfig {
    /// The address: with HTTP, of the requests; with gRPC, of the server.
    pub endpoint: String,
    /// How spans are sent.
    pub protocol: TelemetryProtocol,
    /// Headers of the requests.
    pub headers: BTreeMap<String, SecretValue>,
    /// The traces to record.
    pub sampling: Sampling,
    /// The name of this service.
    pub service_name: String,
    /// The time limit of one request.
    pub timeout: Duration,
}

/// Selects the traces to record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The part of the traces, from 0 to 1.
    pub ratio: f64,
    /// Whether the decision of a caller replaces the ratio.
    pub trust_parent: bool,
}

impl Sampling {
    /// Decides by 56 random bits whether to record a trace.
    pub fn includes(self, random: u64) -> bool {
        // The last three bits do not fit, and do not matter.
        let place = random as f64 / (1_u64 << 56) as f64;
        place < self.ratio
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self { ratio: 1.0, trust_parent: false }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            endpoint: None,
            protocol: TelemetryProtocol::default(),
            headers: BTreeMap::new(),
            sample: 1.0,
            trust_parent: false,
            service_name: "toolcrib".to_owned(),
            timeout: Duration::from_secs(10),
        }
    }
}

/// Longest time limit of a request; spans that wait for it take memory.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

impl Resolver<'_> {
    pub(super) fn telemetry(&mut self, typed: Telemetry) -> Option<TelemetryConfig> {
        if !(0.0..=1.0).contains(&typed.sample) {
            self.complain("telemetry.sample", "expected a number from 0 to 1");
        }
        if typed.timeout > MAX_TIMEOUT {
            self.complain("telemetry.timeout", "must be at most \"60s\"");
        }
        if typed.service_name.is_empty() || typed.service_name.len() > 255 {
            self.complain("telemetry.service_name", "must have 1 to 255 bytes");
        }
        let headers = self.headers("telemetry.headers", &typed.headers);
        let Some(endpoint) = typed.endpoint else {
            for key in ["protocol", "headers", "sample", "trust_parent", "service_name", "timeout"]
            {
                let key = format!("telemetry.{key}");
                if self.places.has(&key) {
                    let message = "has no effect without `endpoint`";
                    self.complain_of_absence("telemetry.endpoint", &key, message);
                }
            }
            return None;
        };
        let is_secret = |value: &Value| !matches!(value, Value::Plain(_));
        let has_secrets = typed.headers.values().any(is_secret);
        let endpoint = address(&endpoint, typed.protocol, has_secrets);
        let endpoint = self.check("telemetry.endpoint", endpoint)?;
        Some(TelemetryConfig {
            endpoint,
            protocol: typed.protocol,
            headers: headers.unwrap_or_default(),
            sampling: Sampling { ratio: typed.sample, trust_parent: typed.trust_parent },
            service_name: typed.service_name,
            timeout: typed.timeout,
        })
    }
}

/// The address of requests to the receiver `text`.
fn address(
    text: &str,
    protocol: TelemetryProtocol,
    has_secrets: bool,
) -> Result<String, &'static str> {
    let checked = check_url(text)?;
    let mut url = Url::parse(&checked).map_err(|_| "expected an address")?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query and no fragment");
    }
    if has_secrets && url.scheme() == "http" && !is_loopback(&url) {
        return Err("must be an https or loopback address, because `headers` contain secrets");
    }
    match (protocol, url.path()) {
        (TelemetryProtocol::Http, "/") => url.set_path(TRACES_PATH),
        (TelemetryProtocol::Http, _) | (TelemetryProtocol::Grpc, "/") => {}
        (TelemetryProtocol::Grpc, _) => return Err("must have no path with protocol = \"grpc\""),
    }
    Ok(url.into())
}
