//! An independent client, in both eras, over HTTP and over byte streams.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequestParams, ClientConfig, ProgressNotificationParam, ProtocolVersion,
        ServerNotification, SubscriptionFilter,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt as _, NotificationContext, RunningService,
        SubscriptionEnd,
    },
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::json;
use tokio::time::timeout;
use toolcrib::gateway::Gateway;
use toolcrib_testkit::gateway::{TestGateway, TestTool};

use crate::support::{PATIENCE, gateway, reaches};

#[derive(Clone, Default)]
struct Listener {
    progress: Arc<AtomicUsize>,
    changes: Arc<AtomicUsize>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config
    }

    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.fetch_add(1, Ordering::SeqCst);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

type Client = RunningService<RoleClient, Listener>;

fn eras() -> [ClientLifecycleMode; 3] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover { preferred_versions: preferred_versions.clone() },
        ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
    ]
}

async fn over_http(gw: &TestGateway, key: &str, era: ClientLifecycleMode) -> (Client, Listener) {
    let config =
        StreamableHttpClientTransportConfig::with_uri(format!("{}/mcp", gw.url)).auth_header(key);
    let listener = Listener::default();
    let transport = StreamableHttpClientTransport::from_config(config);
    let client = listener.clone().serve_with_lifecycle(transport, era).await.unwrap();
    (client, listener)
}

async fn over_streams(gw: &TestGateway, era: ClientLifecycleMode) -> (Client, Listener) {
    let caller = gw.principal("s", []).await;
    let gateway: Gateway = gw.gateway.clone();
    let principal = gateway.authenticator().authenticate(caller.key().unwrap()).unwrap();
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (config, streams) = (gw.config.mcp.clone(), tokio::io::split(ours));
    tokio::spawn(async move {
        toolcrib::serve_stdio(gateway, &config, principal, streams, std::future::pending()).await
    });
    let listener = Listener::default();
    let client = listener.clone().serve_with_lifecycle(theirs, era).await.unwrap();
    (client, listener)
}

async fn use_it(client: Client, listener: Listener) {
    let tools = client.list_all_tools().await.unwrap();
    let echo = tools.iter().find(|tool| tool.name == "crib__echo").unwrap();
    assert_eq!(echo.description.as_deref(), Some("says it again"));
    assert!(tools.iter().any(|tool| tool.name == "crib__region"));
    let arguments = json!({ "text": "hi" }).as_object().cloned().unwrap();
    let called = client
        .call_tool(CallToolRequestParams::new("crib__echo").with_arguments(arguments))
        .await
        .unwrap();
    assert_eq!(called.structured_content, Some(json!({ "echo": "hi" })));
    assert_eq!(called.is_error, Some(false));
    let failed = client.call_tool(CallToolRequestParams::new("crib__fail")).await.unwrap();
    assert_eq!(failed.is_error, Some(true));
    assert!(client.call_tool(CallToolRequestParams::new("crib__none")).await.is_err());

    // This client repeats the argument in a header by itself, because the list requires it.
    let arguments = json!({ "region": "eu\u{e4}", "shard": 3 }).as_object().cloned().unwrap();
    let called = client
        .call_tool(CallToolRequestParams::new("crib__region").with_arguments(arguments))
        .await
        .unwrap();
    assert_eq!(called.is_error, Some(false));

    // It also sends a token with every call, but handles progress in separate tasks.
    client.call_tool(CallToolRequestParams::new("crib__steps")).await.unwrap();
    let heard = async {
        while listener.progress.load(Ordering::SeqCst) < 5 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap();
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_real_client_works_over_http_in_every_era() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    for era in eras() {
        let (client, listener) = over_http(&gw, caller.key().unwrap(), era).await;
        use_it(client, listener).await;
    }
}

#[tokio::test]
async fn a_real_client_works_over_streams_in_every_era() {
    let gw = gateway().start().await;
    for era in eras() {
        let (client, listener) = over_streams(&gw, era).await;
        use_it(client, listener).await;
    }
}

fn initialize() -> ClientLifecycleMode {
    ClientLifecycleMode::Initialize
}

fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

#[tokio::test]
async fn a_real_client_reads_every_page() {
    let gw = gateway().config("[mcp]\npage_size = 2").start().await;
    let caller = gw.principal("a", []).await;
    for era in eras() {
        let (client, _) = over_http(&gw, caller.key().unwrap(), era).await;
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert!(names.len() > 8 && names.is_sorted(), "{names:?}");
        client.cancel().await.unwrap();
    }
}

async fn change(gw: &TestGateway, tools: &[&str]) {
    gw.change("crib", tools.iter().map(|name| TestTool::new(name)).collect()).await;
}

/// The handshake revisions: changes arrive on the stream of the session, or between other messages.
#[tokio::test]
async fn a_real_client_of_the_handshake_hears_of_changes() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let mut clients = vec![
        over_http(&gw, caller.key().unwrap(), initialize()).await,
        over_streams(&gw, initialize()).await,
    ];
    for (client, _) in &clients {
        let tools = client.peer_info().unwrap().capabilities.tools.clone().unwrap();
        assert_eq!(tools.list_changed, Some(true));
        client.list_all_tools().await.unwrap();
    }
    change(&gw, &["echo"]).await;
    for (client, listener) in &clients {
        reaches(&listener.changes, 1).await;
        assert_eq!(client.list_all_tools().await.unwrap().len(), 1);
    }
    change(&gw, &["echo", "bare"]).await;
    for (client, listener) in &mut clients {
        reaches(&listener.changes, 2).await;
        client.close().await.unwrap();
    }
}

/// The stateless revision: a subscription, which the server ends with a response on shutdown.
#[tokio::test]
async fn a_real_client_subscribes_to_changes() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let clients = [
        over_http(&gw, caller.key().unwrap(), discover()).await,
        over_streams(&gw, discover()).await,
    ];
    let mut subscriptions = Vec::new();
    for (client, _) in &clients {
        let filter =
            SubscriptionFilter::builder().tools_list_changed().prompts_list_changed().build();
        let subscription = timeout(PATIENCE, client.listen(filter)).await.unwrap().unwrap();
        let honoured = SubscriptionFilter::builder().tools_list_changed().build();
        assert_eq!(*subscription.acknowledged(), honoured);
        subscriptions.push(subscription);
    }
    for tools in [&["echo"][..], &["echo", "bare"]] {
        change(&gw, tools).await;
        for subscription in &mut subscriptions {
            let told = timeout(PATIENCE, subscription.next()).await.unwrap().unwrap();
            assert!(matches!(told, Some(ServerNotification::ToolListChangedNotification(_))));
        }
    }
    let stopped = tokio::spawn(gw.stop());
    for subscription in &mut subscriptions {
        assert!(timeout(PATIENCE, subscription.next()).await.unwrap().unwrap().is_none());
        let end = subscription.end().unwrap();
        assert!(matches!(end, SubscriptionEnd::Graceful(_)), "{end:?}");
    }
    drop((subscriptions, clients));
    stopped.await.unwrap();
}
