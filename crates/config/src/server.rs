//! `[server]`, `[oxp]`, `[openwop]` and `[explorer]`: the listener and its mounts.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_core::egress::is_loopback;
use url::Url;

use super::{
    resolver::Resolver,
    units::{self as kind, Kind as _},
};

/// The listener and request bodies.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Address and port. An address other than loopback requires `tls` or `behind_proxy = true`.
    #[serde(with = "kind::Address")]
    pub listen: SocketAddr,
    /// A proxy in front of toolcrib terminates TLS.
    pub behind_proxy: bool,
    /// TLS without a proxy.
    #[schemars(extend("x-default" = "not set"))]
    pub tls: Option<TlsConfig>,
    /// Address of this server for browsers, such as `https://tools.example.com`: for links in answers, and
    /// for the [accounts](../guides/accounts.md) that people connect. `https`, or `http` on this machine.
    #[schemars(extend("x-default" = "not set"))]
    pub public_url: Option<String>,
    /// Accepted `Host` values in addition to loopback names.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may send requests and read the answers (CORS), in addition to the
    /// server's own.
    pub allowed_origins: Vec<String>,
    /// Largest request body.
    #[serde(rename = "max_body", with = "kind::Size")]
    pub max_body_bytes: usize,
    /// Budget for the bodies of all requests in flight, at least `max_body`; beyond it 503
    /// ([bounds](bounds.md#bodies-of-requests)).
    #[serde(rename = "max_body_total", with = "kind::Size")]
    pub max_body_total_bytes: usize,
    /// `/metrics` requires no key.
    pub public_metrics: bool,
    /// Time for which a stopping server still serves requests while `/readyz` fails, so that a
    /// proxy sends its requests to [other servers](../guides/scale.md#restart-one-after-the-other).
    #[serde(with = "kind::Wait")]
    pub drain: Duration,
}

/// The certificate of the listener ([guide](../guides/operate.md#tls)). The files are read again when
/// they change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file with the certificate, followed by the intermediate ones.
    pub cert: PathBuf,
    /// PEM file with its private key, without a passphrase.
    pub key: PathBuf,
    /// PEM file with authorities. Only clients with a certificate of one of them can connect; they
    /// also need a key.
    pub client_ca: Option<PathBuf>,
    /// Time for which browsers use only https for this host name, on all its ports
    /// (`Strict-Transport-Security`).
    #[serde(default, with = "kind::Age")]
    pub hsts: Option<Duration>,
}

/// Who may use a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MountAuth {
    /// Only callers with credentials.
    Required,
    /// Callers without credentials get the scopes of `[anonymous]`.
    Optional,
}

/// A mount with no other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MountConfig {
    /// Who may use it.
    pub auth: MountAuth,
}

/// OXP under `/oxp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct OxpConfig {
    /// Whether the routes exist.
    pub enabled: bool,
    /// `optional`: callers without a key are `[anonymous]`.
    pub auth: MountAuth,
}

/// OpenWOP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct OpenWopConfig {
    /// Shape of `GET /v1/tools`: a bare array, or `{"tools":[…]}`.
    pub list_body: ListBody,
    /// The [requests that are OpenWOP v2](../explanation/protocols.md#openwop-v2), whose paths
    /// start at the root.
    pub v2: OpenWopV2,
}

/// The OpenWOP v2 requests on paths that Open Tool Calling has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpenWopV2 {
    /// Those with the header `OpenWOP-Version`; all others at `/tools` are Open Tool Calling.
    #[default]
    Header,
    /// All, as the text of OpenWOP v2 requires. Open Tool Calling is only below `/otc`.
    Root,
    /// OpenWOP v2 is off. A request for a version other than 1 is rejected with 406.
    Off,
}

/// The two list shapes of RFC 0078: its text has the envelope, its executable parts the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListBody {
    /// `[…]`
    #[default]
    Array,
    /// `{"tools":[…]}`
    Envelope,
}

/// The endpoints of the explorer that require credentials. On public endpoints, callers without
/// credentials see what `[anonymous]` may see; callers with valid credentials see their own view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExplorerPolicy {
    /// All endpoints with data. Credentials are checked first.
    All,
    /// Calls, where credentials are checked first. Lists, details and validation are public;
    /// invalid credentials are refused everywhere.
    CallOnly,
    /// Calls, in the specified order of checks: execution enabled, tool exists, credentials.
    /// Everything else is public; there, invalid credentials are ignored.
    SpecPublic,
    /// Every endpoint is public: callers without credentials may do what `[anonymous]` may, calls
    /// included.
    #[serde(rename = "none")]
    Nothing,
}

/// The explorer: web page and JSON endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExplorerConfig {
    /// The [operations that need a key](../explanation/protocols.md#explorer); other values than
    /// `all` require `[anonymous]`.
    pub policy: ExplorerPolicy,
    /// Path of the page. It starts with `/` and has no `/` at its end.
    pub prefix: String,
    /// Whether tools can be called from it.
    pub allow_execute: bool,
    /// Whether callers with the scope `config:write` can [change the configuration
    /// file](../guides/console.md#change-the-configuration).
    pub edit: bool,
    /// How long people [stay signed in](../guides/console.md#sign-in) to the page without typing their
    /// key again, at most 30 days; `0s` turns it off.
    #[serde(with = "kind::Wait")]
    #[schemars(with = "kind::Wait")]
    pub session_lifetime: Duration,
    /// Heading.
    pub title: String,
    /// Text of the link in the footer.
    pub project_name: Option<String>,
    /// Address of the link.
    pub project_url: Option<String>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8808)),
            behind_proxy: false,
            tls: None,
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 1 << 20,
            max_body_total_bytes: 256 << 20,
            public_metrics: false,
            drain: Duration::ZERO,
        }
    }
}

impl Default for OxpConfig {
    fn default() -> Self {
        Self { enabled: true, auth: MountAuth::Required }
    }
}

impl Default for ExplorerConfig {
    fn default() -> Self {
        Self {
            policy: ExplorerPolicy::All,
            prefix: "/explorer".to_owned(),
            allow_execute: true,
            edit: true,
            session_lifetime: Duration::from_secs(12 * 60 * 60),
            title: "toolcrib".to_owned(),
            project_name: None,
            project_url: None,
        }
    }
}

/// Whether a path is really the content of a PEM file.
fn is_pem(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.contains("-----BEGIN") || text.contains('\n')
}

/// The origin that `text` consists of, without a `/` at its end.
fn origin(text: &str) -> Result<String, &'static str> {
    let expected = "expected an address without a path, with https, or with http on this machine";
    let url = Url::parse(text).map_err(|_| expected)?;
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    let origin = url.origin().ascii_serialization();
    match is_safe && url.as_str() == format!("{origin}/") {
        true => Ok(origin),
        false => Err(expected),
    }
}

impl Resolver<'_> {
    pub(super) fn server(&mut self, mut server: ServerConfig) -> ServerConfig {
        let one = server.max_body_bytes;
        let key = "server.max_body_total";
        if server.max_body_total_bytes < one && self.places.has(key) {
            let message = format!("must be at least `server.max_body` ({one} bytes)");
            self.complain(key, message);
        }
        server.max_body_total_bytes = server.max_body_total_bytes.max(one);
        server.tls = server.tls.take().map(|tls| self.tls(tls));
        let public = server.public_url.take().map(|text| origin(&text));
        server.public_url = public.and_then(|url| self.check("server.public_url", url));
        server
    }

    /// Resolves the paths. Confined programs must not read the private key.
    fn tls(&mut self, mut typed: TlsConfig) -> TlsConfig {
        for (name, path) in [("cert", Some(&mut typed.cert)), ("key", Some(&mut typed.key))]
            .into_iter()
            .chain([("client_ca", typed.client_ca.as_mut())])
        {
            // An error about the file would show a pasted key.
            if let Some(path) = path.filter(|path| is_pem(path)) {
                self.complain(
                    &format!("server.tls.{name}"),
                    "expected the path of a PEM file, not its content",
                );
                *path = PathBuf::new();
            }
        }
        let key = self.base.join(typed.key);
        self.protection.keys.insert(key.clone());
        let certificates = [Some(&typed.cert), typed.client_ca.as_ref()].into_iter().flatten();
        let certificates: Vec<PathBuf> = certificates.map(|path| self.base.join(path)).collect();
        self.protection.included.extend(certificates);
        TlsConfig {
            cert: self.base.join(typed.cert),
            key,
            client_ca: typed.client_ca.map(|path| self.base.join(path)),
            hsts: typed.hsts,
        }
    }

    /// Requires `[anonymous]` for a mount that admits callers without credentials.
    pub(super) fn mount(&mut self, key: &str, auth: MountAuth, has_anonymous: bool) {
        if auth == MountAuth::Optional && !has_anonymous {
            let message = "\"optional\" needs an [anonymous] table that says which tenant and \
                           scopes callers without credentials get";
            self.complain_of_absence("anonymous", key, message);
        }
    }

    pub(super) fn explorer(&mut self, explorer: &ExplorerConfig, has_anonymous: bool) {
        if explorer.policy != ExplorerPolicy::All && !has_anonymous {
            let message = "anything but \"all\" needs an [anonymous] table that says which \
                           tenant and scopes callers without credentials get";
            self.complain_of_absence("anonymous", "explorer.policy", message);
        }
        self.check("explorer.prefix", check_prefix(&explorer.prefix));
        if explorer.session_lifetime > MAX_SESSION_LIFETIME {
            self.complain("explorer.session_lifetime", "is more than 30 days");
        }
    }
}

/// The longest lifetime of a browser session.
const MAX_SESSION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The paths of the other surfaces. They are reserved even where a surface is off, so that enabling
/// it moves no page.
const TAKEN: &[&str] = &[
    "/connect", "/health", "/livez", "/mcp", "/metrics", "/oauth", "/otc", "/oxp", "/readyz",
    "/runs", "/schemas", "/tools", "/v1",
];

fn check_prefix(prefix: &str) -> Result<(), &'static str> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    let is_segment = |segment: &str| !segment.is_empty() && segment.bytes().all(legal);
    let is_path = prefix.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_segment));
    if !is_path {
        Err("expected a path such as \"/explorer\", without a final `/`")
    } else if TAKEN.iter().any(|taken| prefix == *taken || prefix.starts_with(&format!("{taken}/")))
    {
        Err("another surface has this path; choose another prefix")
    } else {
        Ok(())
    }
}
