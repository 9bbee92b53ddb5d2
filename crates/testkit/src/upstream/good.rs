//! A correct server made with the official SDK: an independent implementation of the protocol.
//!
//! Tools: `echo {text}`, `add {a, b}` (structured), `progress {n}`, `slow {ms}`.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rmcp::{
    ErrorData, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        JsonObject, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ProtocolVersion, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    },
    service::{RequestContext, RoleServer, SubscriptionContext},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::watch};

/// The protocol versions that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eras {
    /// Every version the SDK knows.
    Both,
    /// Only 2026-07-28.
    Modern,
    /// Only the versions with a handshake.
    Legacy,
}

/// A running HTTP server; ends when dropped.
pub struct GoodHttp {
    address: SocketAddr,
    listening: watch::Receiver<usize>,
    change: watch::Sender<u64>,
    runtime: Option<Runtime>,
}

impl GoodHttp {
    /// Starts on a free port.
    pub fn start(eras: Eras) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (count, listening) = watch::channel(0);
        let (change, changes) = watch::channel(0);
        let server = GoodHandler { eras, listeners: Arc::new(count), changes };
        let service: StreamableHttpService<GoodHandler, LocalSessionManager> =
            StreamableHttpService::new(
                move || Ok(server.clone()),
                Arc::default(),
                StreamableHttpServerConfig::default(),
            );
        let router = axum::Router::new().nest_service("/mcp", service);
        let runtime = serve(listener, router);
        Self { address, listening, change, runtime: Some(runtime) }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Notifies subscribers (2026-07-28) that the list has changed.
    pub fn change(&self) {
        self.change.send_modify(|n| *n += 1);
    }

    /// Returns the number of subscribers.
    pub fn listeners(&self) -> usize {
        *self.listening.borrow()
    }
}

impl Drop for GoodHttp {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves stdin and stdout until they end.
pub fn run_stdio() {
    let server = GoodHandler {
        eras: Eras::Both,
        listeners: Arc::new(watch::channel(0).0),
        changes: watch::channel(0).1,
    };
    runtime().block_on(async {
        let running = server.serve(rmcp::transport::stdio()).await.expect("a handshake");
        running.waiting().await.ok();
    });
}

/// Creates a runtime of one thread, for a server that must not share the test's.
/// Serves `router` at `listener` until the runtime is dropped.
pub(super) fn serve(listener: std::net::TcpListener, router: axum::Router) -> Runtime {
    let runtime = runtime();
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        axum::serve(listener, router).await.unwrap();
    });
    runtime
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime")
}

#[derive(Clone)]
struct GoodHandler {
    eras: Eras,
    listeners: Arc<watch::Sender<usize>>,
    changes: watch::Receiver<u64>,
}

fn tools() -> Vec<Tool> {
    let tool = |name: &'static str, properties: Value| {
        let schema = json!({ "type": "object", "properties": properties });
        let schema: JsonObject = serde_json::from_value(schema).unwrap();
        Tool::new(name, format!("does {name}"), Arc::new(schema))
    };
    vec![
        tool("echo", json!({ "text": { "type": "string" } })),
        tool("add", json!({ "a": { "type": "integer" }, "b": { "type": "integer" } })),
        tool("progress", json!({ "n": { "type": "integer" } })),
        tool("slow", json!({ "ms": { "type": "integer" } })),
        tool("region", json!({ "region": { "type": "string", "x-mcp-header": "Region" } })),
    ]
}

impl ServerHandler for GoodHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("good", "4.5.6"))
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        let known = ProtocolVersion::KNOWN_VERSIONS.to_vec();
        let modern = |version: &ProtocolVersion| *version == ProtocolVersion::LATEST;
        let offered = match self.eras {
            Eras::Both => known,
            Eras::Modern => known.into_iter().filter(modern).collect(),
            Eras::Legacy => known.into_iter().filter(|version| !modern(version)).collect(),
        };
        offered.into()
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let text = |text: String| CallToolResult::success(vec![ContentBlock::text(text)]).into();
        match request.name.as_ref() {
            "echo" | "region" => Ok(text(arguments.to_string())),
            "add" => {
                let sum =
                    arguments["a"].as_i64().unwrap_or(0) + arguments["b"].as_i64().unwrap_or(0);
                Ok(CallToolResult::structured(json!({ "sum": sum })).into())
            }
            "progress" => {
                let token = context.meta.get_progress_token();
                let token = token.ok_or_else(|| ErrorData::invalid_params("no token", None))?;
                for n in 0..u32::try_from(arguments["n"].as_u64().unwrap_or(0)).unwrap() {
                    let progress = ProgressNotificationParam::new(token.clone(), f64::from(n));
                    context.peer.notify_progress(progress).await.ok();
                }
                Ok(text("done".to_owned()))
            }
            "slow" => {
                let wait = Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0));
                tokio::time::sleep(wait).await;
                Ok(text("done".to_owned()))
            }
            _ => Err(ErrorData::invalid_params("unknown tool", None)),
        }
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(wanted.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.clone();
        changes.mark_unchanged();
        self.listeners.send_modify(|n| *n += 1);
        loop {
            tokio::select! {
                () = context.cancelled() => break,
                Ok(()) = changes.changed() => {
                    context.sink().notify_tool_list_changed().await.ok();
                }
                else => break,
            }
        }
        self.listeners.send_modify(|n| *n -= 1);
        Ok(())
    }
}
