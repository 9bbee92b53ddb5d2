//! What refusals look like.

use serde_json::{Value, json};

use super::{Dialect, call, posted};
use crate::conformance::{Got, Site, Verdict};

pub(in crate::conformance) async fn message(site: &Site) -> Verdict {
    let got = refusal(site).await?;
    let says = got.json()?.get("message").and_then(Value::as_str);
    got.expect(says.is_some_and(|it| !it.is_empty()), "a `message`", "none")
}

pub(in crate::conformance) async fn marker(site: &Site) -> Verdict {
    let got = refusal(site).await?;
    marked(site, &got)
}

pub(in crate::conformance) async fn developer(site: &Site) -> Verdict {
    let got = call::of_no_version(site).await?;
    let text = |name: &str| got.value().get(name).and_then(Value::as_str).unwrap_or_default();
    let (told, hidden) = (text("message"), text("developer_message"));
    got.expect(!hidden.is_empty(), "a `developer_message`", "none")?;
    got.expect(!told.contains(hidden), "a `message` of its own", "the text for developers")
}

pub(in crate::conformance) async fn no_secrets(site: &Site) -> Verdict {
    const CANARY: &str = "conformance-secret-7d1f0c";
    let marker = Dialect::of(site).marker;
    let secrets = json!([{ "id": "key", "value": CANARY }]);
    for body in [
        json!({ "$schema": marker, "request": {
            "tool_id": "Conformance.Absent", "input": {}, "context": { "secrets": secrets },
        } }),
        json!({ "$schema": marker, "request": { "input": {}, "context": { "secrets": secrets } } }),
    ] {
        let got = posted(site, &body).await?;
        got.expect(!got.text().contains(CANARY), "nothing of the secret", "the secret")?;
    }
    Ok(())
}

/// Fails unless `$schema` says the version of the dialect.
pub(super) fn marked(site: &Site, got: &Got) -> Verdict {
    let wanted = Dialect::of(site).marker;
    let said = got.json()?.get("$schema").and_then(Value::as_str);
    let seen = said.map_or_else(|| "none".to_owned(), |said| format!("\"{said}\""));
    got.expect(said == Some(wanted), format!("`$schema` \"{wanted}\""), seen)
}

/// A refusal before any tool.
async fn refusal(site: &Site) -> Verdict<Got> {
    let got = call::unknown(site).await?;
    let refused = (400..500).contains(&got.status());
    got.expect(refused, "a status from 400 to 499", format!("status {}", got.status()))?;
    Ok(got)
}
