//! A receiver of OpenTelemetry that decodes what it gets, over HTTP and gRPC.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value,
    trace::v1::Span,
};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, transport::server::TcpIncoming};

/// A receiver that runs until the test ends.
pub(crate) struct Receiver {
    /// For `[telemetry] endpoint`.
    pub(crate) endpoint: String,
    pub(crate) protocol: &'static str,
    received: Received,
}

/// A request, decoded and as its text, with its headers.
type Received = Arc<Mutex<Vec<(ExportTraceServiceRequest, String)>>>;

struct Grpc(Received);

impl Receiver {
    pub(crate) async fn start(protocol: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let received = Received::default();
        match protocol {
            "grpc" => {
                let service = TraceServiceServer::new(Grpc(Arc::clone(&received)));
                let server = tonic::transport::Server::builder().add_service(service);
                tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
            }
            _ => {
                let router = Router::new().route("/v1/traces", post(http));
                let router = router.with_state(Arc::clone(&received));
                tokio::spawn(async move { axum::serve(listener, router).await });
            }
        }
        Self { endpoint, protocol, received }
    }

    /// Returns all spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().unwrap();
        let resources = received.iter().flat_map(|(request, _)| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// Returns everything that it got, as text.
    pub(crate) fn text(&self) -> String {
        let received = self.received.lock().unwrap();
        received.iter().map(|(request, headers)| format!("{request:?}{headers}")).collect()
    }
}

async fn http(
    State(received): State<Received>,
    headers: HeaderMap,
    body: Bytes,
) -> ([(&'static str, &'static str); 1], Vec<u8>) {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    received.lock().unwrap().push((request, format!("{headers:?}")));
    let answer = ExportTraceServiceResponse::default().encode_to_vec();
    ([("content-type", "application/x-protobuf")], answer)
}

#[tonic::async_trait]
impl TraceService for Grpc {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let headers = format!("{:?}", request.metadata());
        self.0.lock().unwrap().push((request.into_inner(), headers));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Returns the text or number of an attribute.
pub(crate) fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key == key)?;
    Some(match found.value.clone()?.value? {
        any_value::Value::StringValue(text) => text,
        any_value::Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

/// Returns the digits of an id.
pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
