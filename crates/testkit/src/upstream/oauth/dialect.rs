//! How well-known providers differ from the specifications.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::Request,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use url::form_urlencoded;

/// How a provider differs from the specifications.
#[derive(Debug, Clone, Default)]
pub struct Dialect {
    /// The paths of the provider, each with the path of this server that answers there.
    pub paths: &'static [(&'static str, &'static str)],
    /// The scopes that exist. A request must name one of them, and no other; empty for no check.
    pub scopes: &'static [&'static str],
    /// Whether a request with the parameter `resource` is refused.
    pub refuses_resource: bool,
    /// The parameters without which there is no refresh token. One with the name `scope` is one of
    /// several scopes.
    pub offline: &'static [(&'static str, &'static str)],
    /// Whether there are no refresh tokens at all.
    pub has_no_refresh_tokens: bool,
    /// Whether a refresh token is valid many times, and renewals bring no other one.
    pub keeps_refresh_tokens: bool,
    /// Whether clients cannot authenticate by the header.
    pub reads_secrets_in_forms_only: bool,
    /// Whether there is only the metadata of OpenID Connect, at the end of the issuer.
    pub has_openid_metadata_only: bool,
    /// The form of token requests' answers.
    pub wording: Wording,
}

/// The form of what a provider answers to token requests, and its lists of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wording {
    /// As RFC 6749 says.
    #[default]
    Standard,
    /// A form, unless the request accepts JSON; refusals are successes with own codes, and granted
    /// scopes are separated by commas.
    GitHub,
    /// Refusals are successes with `ok: false` and own codes; scopes are separated by commas, and
    /// the type of a token is `user`.
    Slack,
}

/// The request with the path of this server.
pub(super) fn renamed(mut request: Request, paths: &[(&str, &str)]) -> Request {
    let own = paths.iter().find(|(path, _)| *path == request.uri().path()).map(|(_, own)| own);
    if let Some(own) = own {
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        *request.uri_mut() = format!("{own}{query}").parse::<Uri>().unwrap();
    }
    request
}

// === impl Dialect ===

impl Dialect {
    /// The path at which the provider has what this server has at `own`.
    pub(super) fn path_of(&self, own: &'static str) -> &'static str {
        self.paths.iter().find(|(_, path)| *path == own).map_or(own, |(path, _)| path)
    }

    /// The scopes of an authorization request, and whether its tokens can be renewed; or the code
    /// of the refusal.
    pub(super) fn consent(
        &self,
        query: &BTreeMap<String, String>,
    ) -> Result<(Vec<String>, bool), &'static str> {
        if self.refuses_resource && query.contains_key("resource") {
            return Err("invalid_target");
        }
        let scope = query.get("scope").map(String::as_str).unwrap_or_default();
        let separator = if self.wording == Wording::Slack { ',' } else { ' ' };
        let scopes = scope.split(separator).filter(|scope| !scope.is_empty());
        let scopes: Vec<String> = scopes.map(str::to_owned).collect();
        let exists = |scope: &String| self.scopes.contains(&scope.as_str());
        if !self.scopes.is_empty() && (scopes.is_empty() || !scopes.iter().all(exists)) {
            return Err("invalid_scope");
        }
        let has = |&(name, value): &(&str, &str)| match name {
            "scope" => scopes.iter().any(|scope| scope == value),
            _ => query.get(name).is_some_and(|given| given == value),
        };
        let is_lasting = !self.has_no_refresh_tokens && self.offline.iter().all(has);
        Ok((scopes, is_lasting))
    }
}

// === impl Wording ===

impl Wording {
    /// The text between granted scopes.
    pub(super) fn separator(self) -> &'static str {
        match self {
            Self::Standard => " ",
            Self::GitHub | Self::Slack => ",",
        }
    }

    pub(super) fn token_type(self) -> &'static str {
        match self {
            Self::Standard => "Bearer",
            Self::GitHub => "bearer",
            Self::Slack => "user",
        }
    }

    pub(super) fn success(self, mut answer: Value, headers: &HeaderMap) -> Response {
        if self == Self::Slack {
            answer["ok"] = json!(true);
        }
        self.answer(&answer, headers)
    }

    pub(super) fn refusal(self, code: &str, headers: &HeaderMap) -> Response {
        let code = match (self, code) {
            (Self::GitHub, "invalid_grant") => "bad_verification_code",
            (Self::GitHub, "invalid_client") => "incorrect_client_credentials",
            (Self::Slack, "invalid_grant") => "invalid_refresh_token",
            (Self::Slack, "invalid_client") => "bad_client_secret",
            _ => code,
        };
        let refusal = json!({ "error": code, "error_description": "canary", "ok": false });
        match self {
            Self::Standard => (StatusCode::BAD_REQUEST, Json(refusal)).into_response(),
            Self::GitHub | Self::Slack => self.answer(&refusal, headers),
        }
    }

    fn answer(self, answer: &Value, headers: &HeaderMap) -> Response {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let is_json = accept.is_some_and(|accept| accept.contains("application/json"));
        if self != Self::GitHub || is_json {
            return Json(answer).into_response();
        }
        let mut form = form_urlencoded::Serializer::new(String::new());
        for (name, value) in answer.as_object().unwrap() {
            form.append_pair(name, value.as_str().unwrap_or_default());
        }
        let form_type = [(header::CONTENT_TYPE, "application/x-www-form-urlencoded")];
        (form_type, form.finish()).into_response()
    }
}
