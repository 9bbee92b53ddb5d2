//! The two pages of a sign-in: the question, and a refusal. Both work without scripts.
//!
//! The policy has no `form-action`: browsers apply it to the addresses that follow the form, and a
//! client can have any.

use std::sync::LazyLock;

use axum::response::{Html, IntoResponse as _, Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};
use toolcrib_core::text::visible_line;
use toolcrib_gateway::bridge::{ConsentPreview, Unredirected};

use crate::html::escape;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem}\
h1{font-size:1.4rem;overflow-wrap:anywhere}\
dt{font-weight:600}dd{margin:0 0 .75rem;overflow-wrap:anywhere}\
button{font:inherit;padding:.5rem 1.25rem;margin:.5rem .5rem 0 0;min-height:2.75rem}";

/// Only the page's own style is permitted.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// The question whether the client may act for the person.
pub(super) fn question(asked: &ConsentPreview, query: &str, proof: &str) -> Response {
    let id = shown(&asked.client_id);
    let name = asked.name.as_deref().map_or_else(|| id.clone(), shown);
    let known = match &asked.host {
        Some(host) => format!("{}, whose address the client has", shown(host)),
        None if asked.is_registered => "The operator of this server".to_owned(),
        None => "The client itself: it registered here, and can call itself anything".to_owned(),
    };
    let (redirect, provider) = (shown(&asked.redirect_uri), shown(&asked.provider));
    let (query, proof) = (escape(query), escape(proof));
    let title = format!("Allow {name} to use your tools?");
    let body = format!(
        "<h1>{title}</h1>\
         <p>If you allow it, you sign in at {provider} next. Afterwards the client can use the \
         tools that you can use here, in your name, until its access ends or you end it.</p>\
         <dl><dt>Client</dt><dd>{name}</dd><dt>Id</dt><dd>{id}</dd>\
         <dt>Vouched for by</dt><dd>{known}</dd>\
         <dt>You are sent back to</dt><dd>{redirect}</dd></dl>\
         <p>Allow it only if you have just started this sign-in yourself.</p>\
         <form method=\"post\" action=\"/oauth/consent\">\
         <input type=\"hidden\" name=\"query\" value=\"{query}\">\
         <input type=\"hidden\" name=\"proof\" value=\"{proof}\">\
         <button name=\"answer\" value=\"allow\">Allow</button>\
         <button name=\"answer\" value=\"deny\">Cancel</button></form>"
    );
    page(StatusCode::OK, &title, &body)
}

/// Says why a sign-in does not continue. Nothing was sent to the client.
pub(super) fn refused(refused: Unredirected) -> Response {
    let status = match StatusCode::from_u16(refused.0.code.status()) {
        Ok(status) if status.is_server_error() => status,
        // The refusal of a client is no refusal of the person.
        _ => StatusCode::BAD_REQUEST,
    };
    let title = "This sign-in cannot continue";
    let reason = shown(refused.0.description);
    let body = format!(
        "<h1>{title}</h1><p>The reason: {reason}.</p><p>Start again in the program that sent you \
         here. If that does not help, show this page to the operator of this server.</p>"
    );
    page(status, title, &body)
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main>{body}</main></body></html>"
    );
    let mut response = (status, Html(html)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    // Without any referrer, browsers send the form with `Origin: null`, which is refused.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Text that others wrote, as people see it.
fn shown(text: &str) -> String {
    escape(&visible_line(text))
}
