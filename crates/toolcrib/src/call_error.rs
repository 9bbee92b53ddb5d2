//! The parts of a failed call's response that all dialects share: status, retry time and details.
//! The code is [`CallError::code`]. Each dialect formats these parts, and overrides them where its
//! protocol says otherwise.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use toolcrib_core::{call::CallError, limit::wait_millis};

pub(crate) fn status(error: &CallError) -> StatusCode {
    match error {
        CallError::NoSuchTool => StatusCode::NOT_FOUND,
        CallError::Forbidden { .. }
        | CallError::ApprovalRequired { .. }
        | CallError::ApprovalRejected { .. }
        | CallError::ConnectionRequired(_) => StatusCode::FORBIDDEN,
        CallError::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
        CallError::InvalidArguments(_) => StatusCode::UNPROCESSABLE_ENTITY,
        CallError::NotAccountable(_) => StatusCode::SERVICE_UNAVAILABLE,
        CallError::Upstream(_) | CallError::NeedsInput(_) => StatusCode::BAD_GATEWAY,
        CallError::Cancelled | CallError::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The time for the header `Retry-After`, if a later retry can succeed.
pub(crate) fn retry_after(error: &CallError) -> Option<Duration> {
    match error {
        CallError::RateLimited { retry_after, .. } => Some(*retry_after),
        CallError::Upstream(error) => error.retry_after,
        _ => None,
    }
}

/// The details by which a client can react to a refusal, such as the missing scopes.
pub(crate) fn details(error: &CallError) -> Option<Value> {
    Some(match error {
        CallError::Forbidden { tool, required } => {
            json!({ "scope": "tool", "toolName": tool, "requiredScopes": required })
        }
        CallError::RateLimited { tool, retry_after, limit, daily: _ } => json!({
            "scope": "tool", "toolName": tool,
            "retryAfterMs": wait_millis(*retry_after), "limit": limit,
        }),
        CallError::ApprovalRequired { tool, pending } => {
            let mut details = json!({ "scope": "tool", "toolName": tool, "approval": "required" });
            if let (Some(details), Some(pending)) = (details.as_object_mut(), pending) {
                details.insert("approvalId".to_owned(), json!(pending.approval));
                details.insert("expiresAt".to_owned(), json!(pending.expires_at));
                let wait = wait_millis(pending.retry_after);
                details.insert("retryAfterMs".to_owned(), json!(wait));
            }
            details
        }
        CallError::ApprovalRejected { tool, approval, .. } => json!({
            "scope": "tool", "toolName": tool, "approval": "rejected", "approvalId": approval,
        }),
        CallError::ConnectionRequired(required) => {
            let mut details = json!({
                "scope": "tool", "toolName": required.tool, "connection": "required",
                "source": required.source_id,
            });
            if let (Some(details), Some(link)) = (details.as_object_mut(), &required.link) {
                details.insert("link".to_owned(), json!(link.expose()));
                details.insert("expiresAt".to_owned(), json!(required.expires_at));
            }
            details
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use toolcrib_core::{
        call::{ConnectionRequired, Lack, UpstreamError, UpstreamErrorKind},
        credential::Secret,
        id::ToolId,
    };

    use super::*;

    #[test]
    fn every_error_has_its_status_its_wait_and_its_details() {
        let tool = ToolId::parse("mcp:a.b").unwrap();
        let retry_after = Duration::from_micros(1500);
        let upstream = UpstreamError::new(UpstreamErrorKind::Died, "gone");
        let slow = UpstreamError { retry_after: Some(retry_after), ..upstream.clone() };
        for (error, expected, wait, expected_details) in [
            (CallError::NoSuchTool, 404, None, None),
            (
                CallError::Forbidden { tool: tool.clone(), required: vec![] },
                403,
                None,
                Some(json!({ "scope": "tool", "toolName": "mcp:a.b", "requiredScopes": [] })),
            ),
            (
                CallError::RateLimited { tool: tool.clone(), retry_after, limit: 3, daily: false },
                429,
                Some(retry_after),
                Some(json!({
                    "scope": "tool", "toolName": "mcp:a.b", "retryAfterMs": 2, "limit": 3,
                })),
            ),
            (CallError::InvalidArguments(vec![]), 422, None, None),
            (
                CallError::ApprovalRequired { tool, pending: None },
                403,
                None,
                Some(json!({ "scope": "tool", "toolName": "mcp:a.b", "approval": "required" })),
            ),
            (
                CallError::ConnectionRequired(Box::new(ConnectionRequired {
                    tool: ToolId::parse("mcp:a.b").unwrap(),
                    source_id: "a".parse().unwrap(),
                    of_tenant: false,
                    lack: Lack::Account,
                    link: Some(Secret::new("https://crib.example/#/connect/x".to_owned())),
                    expires_at: DateTime::UNIX_EPOCH,
                })),
                403,
                None,
                Some(json!({
                    "scope": "tool", "toolName": "mcp:a.b", "connection": "required",
                    "source": "a", "link": "https://crib.example/#/connect/x",
                    "expiresAt": "1970-01-01T00:00:00Z",
                })),
            ),
            (CallError::NotAccountable("recorded"), 503, None, None),
            (CallError::Upstream(upstream), 502, None, None),
            (CallError::Upstream(slow), 502, Some(retry_after), None),
            (CallError::Internal, 500, None, None),
        ] {
            assert_eq!(status(&error), expected, "{error}");
            assert_eq!(super::retry_after(&error), wait, "{error}");
            assert_eq!(details(&error), expected_details, "{error}");
        }
    }
}
