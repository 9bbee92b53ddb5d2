//! The page: one document, rendered once when the router is built.

use std::fmt::Write as _;

use axum::response::Response;
use base64::Engine as _;
use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest as _, Sha256};
use toolcrib_config::ExplorerConfig;
use toolcrib_core::catalog::Body;

use super::assets::{REVALIDATED, VERSION};
use crate::{html::escape, respond};

const TEMPLATE: &str = include_str!("../ui/index.html");

/// The script that runs before the first paint.
const THEME: &str = include_str!("../ui/theme-init.js");

/// The page and its settings.
pub(super) struct Page {
    pub(super) config: ExplorerConfig,
    /// Whether the server of the page is a gateway, with `/v1`.
    gateway: bool,
    /// The largest body of a request.
    max_body: usize,
    /// The page at its expected path.
    rendered: RenderedPage,
}

/// A page, and its Content-Security-Policy.
struct RenderedPage {
    body: Body,
    policy: HeaderValue,
}

// === impl Page ===

impl Page {
    /// Renders the page of an explorer.
    pub(super) fn new(config: ExplorerConfig, gateway: bool, max_body: usize) -> Self {
        let rendered =
            RenderedPage::new(&config, gateway, max_body, &format!("{}/", config.prefix));
        Self { config, gateway, max_body, rendered }
    }

    /// Answers a request for the page at `path`.
    pub(super) fn answer(&self, path: &str, headers: &HeaderMap) -> Response {
        let path = path.strip_suffix('/').unwrap_or(path);
        match path == self.config.prefix {
            true => self.rendered.answer(headers),
            // Nested into another router, the page has another path than expected.
            false => {
                let base = format!("{path}/");
                RenderedPage::new(&self.config, self.gateway, self.max_body, &base).answer(headers)
            }
        }
    }
}

impl RenderedPage {
    /// Fills in the template. `base` is the path of the page, with a slash at the end.
    fn new(config: &ExplorerConfig, gateway: bool, max_body: usize, base: &str) -> Self {
        let link = project_link(config.project_name.as_deref(), config.project_url.as_deref());
        let html = fill(TEMPLATE, |name| match name {
            "TITLE" => Some(escape(&config.title)),
            "GATEWAY" => Some(gateway.to_string()),
            "MAX_BODY" => Some(max_body.to_string()),
            "SESSIONS" => Some((!config.session_lifetime.is_zero()).to_string()),
            "ALLOW_EXECUTE" => Some(config.allow_execute.to_string()),
            "PROJECT_LINK" => Some(link.clone()),
            "BASE" => Some(escape(base)),
            "FILES" => Some(escape(&format!("{base}assets/{VERSION}/"))),
            "THEME" => Some(THEME.to_owned()),
            _ => None,
        });
        let policy = policy(&html);
        Self { body: Body::new(html), policy }
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
        let html = "text/html; charset=utf-8";
        let mut response = respond::tagged(headers, &self.body, html, REVALIDATED);
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        response
    }
}

/// Replaces every `{{NAME}}` in `template` in one pass: inserted values are not scanned again.
/// Names without a value are kept.
fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(template.len() + 256);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let filled = after
            .split_once("}}")
            .and_then(|(name, behind)| value(name).map(|value| (value, behind)));
        match filled {
            Some((value, behind)) => {
                out.push_str(&value);
                rest = behind;
            }
            None => {
                out.push_str("{{");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The end of the footer: empty, a name, or a link.
fn project_link(name: Option<&str>, url: Option<&str>) -> String {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return String::new() };
    let name = escape(name);
    match url.and_then(safe_url) {
        Some(url) => {
            let url = escape(&url);
            format!(" &middot; <a href=\"{url}\" target=\"_blank\" rel=\"noopener\">{name}</a>")
        }
        None => format!(" &middot; {name}"),
    }
}

/// Reads `url` as browsers do (without tabs and line breaks); `None` unless it leads to a page and
/// cannot run a script. Two slashes at the start would name another host.
fn safe_url(url: &str) -> Option<String> {
    let url: String = url.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    let url = url.trim();
    let starts = |scheme: &str| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let path = url.starts_with('/') && !url.starts_with("//") && !url.starts_with("/\\");
    (path || starts("http://") || starts("https://") || starts("mailto:")).then(|| url.to_owned())
}

/// Builds a policy that allows only this server's files, and only the page's inline scripts.
fn policy(html: &str) -> HeaderValue {
    let mut hashes = String::new();
    for script in html.split("<script>").skip(1) {
        let Some((script, _)) = script.split_once("</script>") else { continue };
        let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(script));
        // Writing to a string is infallible.
        let _infallible = write!(hashes, " 'sha256-{hash}'");
    }
    let policy = format!(
        "default-src 'none'; script-src 'self'{hashes}; style-src 'self'; img-src 'self' data:; \
         media-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        let value = |name: &str| match name {
            "A" => Some("{{B}}".to_owned()),
            "B" => Some("never".to_owned()),
            _ => None,
        };
        assert_eq!(fill("<{{A}}|{{C}}|{{>", value), "<{{B}}|{{C}}|{{>");
    }

    #[test]
    fn only_harmless_addresses_become_links() {
        for good in [
            "https://a.example",
            "HTTP://a.example",
            " mailto:a@b ",
            "/docs",
            "ht\ntps://a.example",
        ] {
            let html = project_link(Some("p"), Some(good));
            assert!(html.contains("<a href="), "{good}: {html}");
        }
        for bad in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "  javascript:alert(1)",
            "java\tscript:alert(1)",
            "java\r\nscript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "//evil.example",
            "/\\evil.example",
            "docs",
        ] {
            assert_eq!(project_link(Some("p"), Some(bad)), " &middot; p", "{bad}");
        }
        assert_eq!(project_link(None, Some("https://a.example")), "");
        assert_eq!(project_link(Some("<b>"), None), " &middot; &lt;b&gt;");
    }
}
