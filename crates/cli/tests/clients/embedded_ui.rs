//! The conformance runner against a host built on the published crate `mcp-embedded-ui` 0.5.0: the
//! report contains exactly its deviations from the explorer's protocol.

use std::sync::Arc;

use mcp_embedded_ui::{
    AuthError, AuthHook, Content, HandlerResult, Tool, ToolCallError, ToolCallHandler,
    ToolsProvider, UiConfig, create_mount,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::conformance::{ids, report};

const KEY: &str = "the-key-of-the-embedded-ui";

const DEVIATIONS: [&str; 3] = [
    // `/explorer/` is 404.
    "explorer.page.both-paths",
    // The path of what is missing is that of the object which lacks it.
    "explorer.validate.missing-path",
    // A name that is not UTF-8 is refused in plain text.
    "explorer.errors.invalid-names",
];

/// A tool: its name, its schema, and its annotations.
struct Described(&'static str, Value, Option<Value>);

impl Tool for Described {
    fn name(&self) -> &str {
        self.0
    }

    fn description(&self) -> &str {
        "A tool of the embedded UI"
    }

    fn input_schema(&self) -> Value {
        self.1.clone()
    }

    fn annotations(&self) -> Option<Value> {
        self.2.clone()
    }
}

/// A host with every kind of schema that a check looks for.
struct Host {
    url: String,
    serving: JoinHandle<()>,
}

impl Host {
    async fn start(config: UiConfig) -> Self {
        let read_only = Some(json!({ "readOnlyHint": true }));
        let echo = json!({
            "type": "object",
            "properties": {
                "text": { "type": "string" },
                "count": { "type": "integer" },
                "a/b~c": { "type": "string" },
            },
            "required": ["text", "count"],
        });
        let nothing = json!({ "type": "object" });
        let tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(Described("echo", echo, read_only)),
            Arc::new(Described("fail", nothing, None)),
            Arc::new(Described("anything", json!({}), None)),
            Arc::new(Described("hopeless", json!({ "type": "no-such-type" }), None)),
        ];
        let tools: Arc<dyn ToolsProvider> = Arc::new(tools);
        let handler = ToolCallHandler::Basic(Arc::new(|name, arguments| {
            Box::pin(async move { answer(&name, &arguments) })
        }));
        let router = create_mount(None, tools, handler, config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, serving }
    }

    /// Returns the runner's report on the host.
    async fn report(&self, args: &'static [&'static str]) -> Value {
        let url = self.url.clone();
        let all = [&["--protocol", "explorer", "--failing-tool", "fail"], args].concat();
        tokio::task::spawn_blocking(move || report(&url, &all)).await.unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn answer(name: &str, arguments: &Value) -> HandlerResult {
    if name == "fail" {
        return Err(ToolCallError::Internal("it did not work".to_owned()));
    }
    let content = Content {
        content_type: "text".to_owned(),
        text: Some(arguments.to_string()),
        mime_type: None,
        data: None,
    };
    Ok((vec![content], false, Some("t1".to_owned())))
}

/// Calls require the key.
fn guarded() -> AuthHook {
    AuthHook(Some(Arc::new(|parts| {
        Box::pin(async move {
            let sent = parts.headers.get("authorization").and_then(|it| it.to_str().ok());
            if sent == Some(&format!("Bearer {KEY}")) { Ok(()) } else { Err(AuthError) }
        })
    })))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deviations_of_a_host_that_runs_tools_are_named_and_no_others() {
    let config = UiConfig { allow_execute: true, auth_hook: guarded(), ..UiConfig::default() };
    let host = Host::start(config).await;
    let report = host.report(&["--key", KEY]).await;
    assert_eq!(ids(&report, "fail"), DEVIATIONS, "{report:#}");
    let skipped = [
        "explorer.list.when-disabled",
        "explorer.call.disabled",
        "explorer.validate.when-disabled",
        "explorer.order.disabled-before-unknown",
        "explorer.order.disabled-before-auth",
    ];
    assert_eq!(ids(&report, "skip"), skipped, "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deviations_of_a_host_that_runs_none_are_named_and_no_others() {
    let host = Host::start(UiConfig::default()).await;
    let report = host.report(&[]).await;
    assert_eq!(ids(&report, "fail"), DEVIATIONS, "{report:#}");
    let skipped = [
        "explorer.call.success",
        "explorer.call.content",
        "explorer.call.trace",
        "explorer.call.not-json",
        "explorer.call.tool-failure",
        "explorer.call.failure-text",
        "explorer.call.unknown",
        // It was started without authentication.
        "explorer.auth.required",
        "explorer.auth.unknown-key",
        "explorer.auth.body",
        "explorer.order.unknown-before-auth",
    ];
    assert_eq!(ids(&report, "skip"), skipped, "{report:#}");
}
