//! The change of a tool while the server runs: `echo` has another form while a file exists
//! (`toolcrib demo change`).

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_mcp::{
    message,
    meta::{META, SUBSCRIPTION_ID},
    method::{ACKNOWLEDGED, TOOLS_CHANGED},
};

/// Interval between two checks of the file.
const LOOK: Duration = Duration::from_millis(250);

/// The file that changes the tool, if one is configured.
pub(super) struct Changes {
    file: Option<PathBuf>,
}

impl Changes {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Self { file }
    }

    pub(super) fn can_happen(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the tool has its changed form now.
    pub(super) fn is_changed(&self) -> bool {
        self.file.as_deref().is_some_and(std::path::Path::exists)
    }

    /// Acknowledges the subscription of request `id`, and announces changes until the output is
    /// closed. Returns the result of the request.
    pub(super) async fn listen(
        &self,
        params: &Value,
        id: &Value,
        send: &mpsc::Sender<Vec<u8>>,
    ) -> Value {
        let wanted = params.pointer("/notifications/toolsListChanged") == Some(&Value::Bool(true));
        let accepted = if wanted { json!({ "toolsListChanged": true }) } else { json!({}) };
        let params = json!({ "notifications": accepted, META: { SUBSCRIPTION_ID: id } });
        send.send(message::notification(ACKNOWLEDGED, &params)).await.ok();
        match wanted {
            true => self.announce(Some(id), send).await,
            false => send.closed().await,
        }
        json!({ META: { SUBSCRIPTION_ID: id } })
    }

    /// Sends a notification after each change until the output is closed.
    pub(super) async fn announce(
        &self,
        subscription: Option<&Value>,
        send: &mpsc::Sender<Vec<u8>>,
    ) {
        if !self.can_happen() {
            return;
        }
        let params = match subscription {
            Some(id) => json!({ META: { SUBSCRIPTION_ID: id } }),
            None => json!({}),
        };
        let mut announced = self.is_changed();
        while !send.is_closed() {
            tokio::time::sleep(LOOK).await;
            let is_changed = self.is_changed();
            if is_changed != announced {
                announced = is_changed;
                send.send(message::notification(TOOLS_CHANGED, &params)).await.ok();
            }
        }
    }
}
