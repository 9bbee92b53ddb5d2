//! What the hosts of both versions of OpenWOP share: keys, and the catalog with its faults. A fault is
//! known by the check that it fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use toolcrib_core::canonical;

use super::host::{HttpRequest, KEY, Principal, Reply, SECOND_KEY};

pub(super) trait Catalog {
    /// The check that this host fails, without the protocol.
    fn failed_check(&self) -> Option<&'static str>;

    /// Replies so far, for faults that depend on repetition.
    fn replies(&self) -> &AtomicUsize;

    /// All tools, without the faults of [`tools`](Self::tools).
    fn all_tools(&self) -> Vec<Value>;

    fn compact(&self, tool: &Value) -> Value;

    fn error(&self, status: u16, code: &str, message: &str) -> Reply;

    /// The reply that reveals the hidden tool `id`.
    fn revealed(&self, _id: &str) -> Reply {
        self.error(403, "forbidden", "not you")
    }

    fn fails(&self, check: &str) -> bool {
        self.failed_check() == Some(check)
    }

    /// The principal of a request; `is_open` lets a request without a key pass.
    fn principal(&self, req: &HttpRequest, is_open: bool) -> Result<Principal, Reply> {
        let authorization = req.header("authorization");
        if authorization.is_none() && is_open {
            return Ok(Principal::First);
        }
        let scheme = authorization.and_then(|value| value.split(' ').next());
        let is_read = !self.fails("auth.scheme-case") || scheme == Some("Bearer");
        match req.bearer().filter(|_| is_read) {
            Some(KEY) => Ok(Principal::First),
            Some(SECOND_KEY) => Ok(Principal::Second),
            Some(token) if !token.is_empty() && self.fails("auth.unknown-key") => {
                Err(self.error(403, "forbidden", "the key is unknown"))
            }
            None if scheme.is_some() && self.fails("auth.malformed") => {
                Err(self.error(400, "validation_error", "the header is malformed"))
            }
            _ => {
                let refusal = self.error(401, "unauthenticated", "a key is required");
                Err(match self.fails("auth.challenge") {
                    true => refusal,
                    false => refusal.with("www-authenticate", "Bearer"),
                })
            }
        }
    }

    /// The tools of `principal`. The second principal lacks one.
    fn tools(&self, principal: Principal) -> Vec<Value> {
        let mut tools = self.all_tools();
        match self.failed_check() {
            Some("catalog.exec") => tools[1]["safetyTier"] = json!("exec"),
            Some("catalog.no-secrets") => {
                tools[0]["description"] = json!("uses sk-0123456789abcdef0123");
            }
            Some("catalog.unique-ids") => tools.insert(1, tools[0].clone()),
            Some("catalog.sorted") => tools.reverse(),
            _ => {}
        }
        if principal == Principal::Second {
            tools.retain(|tool| tool["toolId"] != "mcp:crib.hidden");
        }
        tools
    }

    fn list_of(&self, req: &HttpRequest, tools: Vec<Value>) -> Reply {
        let body = match req.parameter("view") {
            _ if self.fails("catalog.list") => {
                return self.error(500, "internal_error", "internal error");
            }
            Some("compact") => {
                let mut tools: Vec<Value> = tools.iter().map(|tool| self.compact(tool)).collect();
                if self.fails("compact.same-tools") {
                    tools.pop();
                }
                match self.fails("compact.list") {
                    true => Value::Array(tools),
                    false => json!({ "tools": tools }),
                }
            }
            Some(view) if view != "standard" && self.fails("catalog.unknown-view") => {
                return self.error(400, "validation_error", "unknown view");
            }
            _ if self.fails("catalog.bare-array") => json!({ "tools": tools }),
            _ => Value::Array(tools),
        };
        let mut reply = Reply::json(200, &body);
        if self.fails("catalog.stable") {
            let read = self.replies().fetch_add(1, Ordering::Relaxed);
            reply.body.extend(std::iter::repeat_n(b' ', read));
        }
        let is_public = self.fails("catalog.private");
        reply.set("cache-control", if is_public { "public" } else { "private, no-cache" });
        let tag = match (self.fails("disclosure.etag"), req.header("if-none-match")) {
            (true, Some(tag)) => tag.to_owned(),
            _ => tag_of(&reply),
        };
        conditional(req, reply, tag, self.fails("catalog.conditional"))
    }

    fn tool(&self, req: &HttpRequest, principal: Principal, segment: &str) -> Reply {
        let Ok(id) = percent_decode_str(segment).decode_utf8() else {
            return match self.fails("catalog.malformed-ids") {
                true => self.error(400, "validation_error", "the path is not UTF-8"),
                false => self.framework_error(self.not_found(segment)),
            };
        };
        let mut id = id.into_owned();
        if self.fails("catalog.id-encoding") {
            id = percent_decode_str(&id).decode_utf8_lossy().into_owned();
        }
        let find = |tools: Vec<Value>| tools.into_iter().find(|tool| tool["toolId"] == id.as_str());
        let is_unread =
            self.fails("disclosure.listed-is-readable") && principal == Principal::Second;
        let Some(mut tool) = find(self.tools(principal)).filter(|_| !is_unread) else {
            return match self.failed_check() {
                Some("catalog.unknown-id") => Reply::json(200, &json!({})),
                Some("disclosure.hidden") if find(self.tools(Principal::First)).is_some() => {
                    self.revealed(&id)
                }
                _ => self.not_found(&id),
            };
        };
        if req.parameter("view") == Some("compact") && !self.fails("compact.unadvertised") {
            let compact = self.compact(&tool);
            return match self.fails("compact.by-id") {
                true => Reply::json(200, &json!({ "tools": [compact] })),
                false => Reply::json(200, &compact),
            };
        }
        if self.fails("catalog.by-id") {
            tool["title"] = json!("Another");
        }
        Reply::json(200, &tool)
    }

    fn not_found(&self, id: &str) -> Reply {
        let code = if self.fails("errors.codes") { "no_such_tool" } else { "not_found" };
        let message = match self.failed_check() {
            Some("errors.no-echo") => format!("unknown: {id}"),
            Some("disclosure.same-404") => format!("no id of {} bytes", id.len()),
            _ => "not found".to_owned(),
        };
        let reply = self.error(404, code, &message);
        match self.fails("disclosure.no-hints") {
            true => reply.with("www-authenticate", "Bearer scope=\"tools:crib\""),
            false => reply,
        }
    }

    /// Replaces `reply` with the plain text of a framework, if the host has that fault.
    fn framework_error(&self, reply: Reply) -> Reply {
        match self.fails("errors.json") || self.fails("errors.framework") {
            true => Reply {
                status: reply.status,
                headers: vec![("content-type", "text/plain".to_owned())],
                body: b"no".to_vec(),
            },
            false => reply,
        }
    }
}

/// The tag of the body of `reply`.
pub(super) fn tag_of(reply: &Reply) -> String {
    format!("\"{}\"", canonical::Digest::of(&reply.body))
}

/// Adds `tag` to `reply`; changes it to a 304 if the request has the tag, unless `never`.
pub(super) fn conditional(req: &HttpRequest, mut reply: Reply, tag: String, never: bool) -> Reply {
    if req.header("if-none-match") == Some(tag.as_str()) && !never {
        reply.status = 304;
        reply.body.clear();
    }
    reply.with("etag", tag)
}

pub(super) fn members(value: &mut Value) -> &mut serde_json::Map<String, Value> {
    value.as_object_mut().unwrap()
}
