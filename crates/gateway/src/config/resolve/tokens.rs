//! `[auth.jwt]` and `[otc.jwt]`.

use std::{str::FromStr as _, time::Duration};

use toml::Spanned;
use toolcrib_core::{
    credential::Secret,
    egress::{Allow, AllowList},
    id::{PrincipalId, TenantId},
    scope::Grant,
};
use url::{Host, Url};

use super::{Resolver, file, parse_duration};
use crate::config::{ClaimPath, ClaimsConfig, JwtAlgorithm, JwtConfig, SharedJwtConfig};

/// The default algorithms; every common issuer supports one of them.
const USUAL: [JwtAlgorithm; 4] =
    [JwtAlgorithm::Rs256, JwtAlgorithm::Ps256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa];
const MAX_SKEW: Duration = Duration::from_secs(5 * 60);
const KEY_AGE: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_KEY_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The minimum for HMAC with SHA-256 (RFC 7518, section 3.2).
const MIN_SECRET: usize = 32;

impl Resolver<'_> {
    /// Resolves the issuers. `shared` is whether tokens with a shared secret are accepted as well.
    pub(super) fn issuers(&mut self, typed: Vec<file::Jwt>, shared: bool) -> Vec<JwtConfig> {
        let mut issuers: Vec<JwtConfig> = Vec::new();
        for typed in typed {
            let (at, prefix_at) = (typed.issuer.span().start, typed.principal_prefix.as_ref());
            let prefix_at = prefix_at.map_or(at, |prefix| prefix.span().start);
            let Some(issuer) = self.issuer(typed) else { continue };
            if issuers.iter().any(|other| other.issuer == issuer.issuer) {
                self.complain(at, "auth.jwt.issuer", "another [[auth.jwt]] has this issuer");
            }
            let others = issuers.iter().map(|other| other.principal_prefix.as_str());
            let others = others.chain(shared.then_some(SharedJwtConfig::PRINCIPAL_PREFIX));
            let own = issuer.principal_prefix.as_str();
            // The issuer chooses the text after its prefix, which may be the rest of a longer
            // prefix.
            if { others }.any(|other| own.starts_with(other) || other.starts_with(own)) {
                let message = "it begins like the prefix of another [[auth.jwt]] or of [otc.jwt] (by \
                               default it is the host of the issuer), so that principals of both \
                               could be taken for each other; set a `principal_prefix` of its own";
                self.complain(prefix_at, "auth.jwt.principal_prefix", message);
            }
            issuers.push(issuer);
        }
        issuers
    }

    fn issuer(&mut self, typed: file::Jwt) -> Option<JwtConfig> {
        let before = self.problems.len();
        let allow: AllowList = typed
            .allow
            .iter()
            .filter_map(|entry| self.read("auth.jwt.allow", Some(entry), Allow::from_str))
            .collect();
        let address = |text: &str| address(text, &allow).map(|url| (text.to_owned(), url));
        let issuer = self.read("auth.jwt.issuer", Some(&typed.issuer), address);
        let jwks_url = self.read("auth.jwt.jwks_url", typed.jwks_url.as_ref(), address);
        let audiences = typed.audiences.get_ref();
        if audiences.is_empty() || audiences.iter().any(String::is_empty) {
            let message = "expected at least one audience: what the issuer calls this server";
            self.complain(typed.audiences.span().start, "auth.jwt.audiences", message);
        }
        let algorithms = match &typed.algorithms {
            None => USUAL.to_vec(),
            Some(typed) => self.algorithms(typed),
        };
        let at_most = |max: Duration, words: &'static str| {
            move |text: &str| match parse_duration(text)? {
                time if time <= max => Ok(time),
                _ => Err(format!("is more than {words}")),
            }
        };
        let key = "auth.jwt.clock_skew";
        let skew = self.read(key, typed.clock_skew.as_ref(), at_most(MAX_SKEW, "5 minutes"));
        let key = "auth.jwt.max_key_age";
        let age = self.read(key, typed.max_key_age.as_ref(), at_most(MAX_KEY_AGE, "7 days"));
        let claims = self.claims(&typed.claims);
        let tenant = self.read("auth.jwt.tenant", typed.tenant.as_ref(), tenant);
        if (typed.claims.tenant.is_some(), typed.tenant.is_some()) == (false, false) {
            let message = "say which tenant tokens belong to: `tenant`, or `claims.tenant` with the \
                           path of a claim";
            self.complain(typed.issuer.span().start, "auth.jwt.tenant", message);
        }
        if let (Some(_), Some(fixed)) = (&typed.claims.tenant, &typed.tenant) {
            let message = "cannot be combined with `claims.tenant`; keep one of them";
            self.complain(fixed.span().start, "auth.jwt.tenant", message);
        }
        let key = "auth.jwt.principal_prefix";
        let prefix = self.read(key, typed.principal_prefix.as_ref(), prefix);
        if self.problems.len() > before {
            return None;
        }
        let (issuer, url) = issuer?;
        let principal_prefix =
            prefix.unwrap_or_else(|| format!("{}|", url.host_str().unwrap_or_default()));
        Some(JwtConfig {
            issuer,
            audiences: typed.audiences.into_inner(),
            algorithms,
            jwks_url: jwks_url.map(|(text, _)| text),
            clock_skew: skew.unwrap_or(Duration::from_secs(60)),
            max_key_age: age.unwrap_or(KEY_AGE),
            allow,
            claims,
            tenant,
            principal_prefix,
        })
    }

    fn algorithms(&mut self, typed: &Spanned<Vec<String>>) -> Vec<JwtAlgorithm> {
        let key = "auth.jwt.algorithms";
        let read = |name: &str| JwtAlgorithm::parse(name).ok_or_else(unknown_algorithm);
        let algorithms = self.scopes(key, typed, read).unwrap_or_default();
        if typed.get_ref().is_empty() {
            self.complain(typed.span().start, key, "expected at least one algorithm");
        }
        algorithms
    }

    fn claims(&mut self, typed: &file::Claims) -> ClaimsConfig {
        let mut path = |name: &str, typed: Option<&Spanned<String>>| {
            self.read(&format!("auth.jwt.claims.{name}"), typed, |text| {
                ClaimPath::parse(text).ok_or(
                    "expected names with dots between them such as \"realm_access.roles\", or a \
                     JSON pointer such as \"/realm_access/roles\"",
                )
            })
        };
        let usual = |name: &str| ClaimPath(vec![name.to_owned()]);
        ClaimsConfig {
            principal: path("principal", typed.principal.as_ref()).unwrap_or_else(|| usual("sub")),
            tenant: path("tenant", typed.tenant.as_ref()),
            scopes: path("scopes", typed.scopes.as_ref()).or_else(|| Some(usual("scope"))),
            roles: path("roles", typed.roles.as_ref()),
        }
    }

    /// Returns a secret; a plain value is rejected.
    pub(super) fn secret(&mut self, key: &str, typed: &Spanned<file::Value>) -> Option<Secret> {
        let at = typed.span().start;
        if matches!(typed.get_ref(), file::Value::Plain(_)) {
            let message = "a secret must not be in this file: write { env = \"NAME\" } or \
                           { file = \"path\" }";
            self.complain(at, key, message);
            return None;
        }
        self.referred(at, key, typed.get_ref())
    }

    pub(super) fn shared_jwt(&mut self, typed: file::SharedJwt) -> Option<SharedJwtConfig> {
        let key = "otc.jwt.secret";
        let at = typed.secret.span().start;
        let long = |secret: &Secret| secret.expose().len() >= MIN_SECRET;
        let secret = match self.secret(key, &typed.secret) {
            Some(secret) if !long(&secret) => {
                self.complain(at, key, "is shorter than 32 bytes");
                None
            }
            secret => secret,
        };
        let tenant = self.read("otc.jwt.tenant", Some(&typed.tenant), tenant);
        let key = "otc.jwt.principal";
        let before = self.problems.len();
        let principal = self.read(key, typed.principal.as_ref(), |text| PrincipalId::parse(text));
        let scopes = self.scopes("otc.jwt.scopes", &typed.scopes, Grant::parse)?;
        if self.problems.len() > before {
            return None;
        }
        Some(SharedJwtConfig {
            secret: secret?,
            audience: typed.audience,
            tenant: tenant?,
            principal,
            scopes,
            roles: typed.roles,
        })
    }
}

fn unknown_algorithm() -> String {
    let known = JwtAlgorithm::ALL.map(JwtAlgorithm::as_str).join(", ");
    format!(
        "expected algorithms with a public key, which are {known}; `none` and algorithms with a \
         shared secret are not among them"
    )
}

pub(super) fn tenant(text: &str) -> Result<TenantId, String> {
    match TenantId::parse(text) {
        Ok(tenant) if tenant.as_str() == TenantId::OPERATOR => {
            Err("the tenant `-` is the record's own; choose another name".to_owned())
        }
        Ok(tenant) => Ok(tenant),
        Err(error) => Err(error.to_string()),
    }
}

fn prefix(text: &str) -> Result<String, &'static str> {
    match text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("expected at most 64 printable ASCII characters without blanks"),
    }
}

/// Validates an address whose documents decide which tokens are valid: no third party may change
/// them in transit.
fn address(text: &str, allow: &AllowList) -> Result<Url, &'static str> {
    const EXPECTED: &str = "expected an https address without user information, query or fragment \
                            (http only for loopback and for hosts in `allow`)";
    let url = Url::parse(text).map_err(|_| EXPECTED)?;
    let plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    match plain && is_private_enough(&url, allow) {
        true => Ok(url),
        false => Err(EXPECTED),
    }
}

/// Returns whether documents at `url` can be trusted: they are fetched over TLS, from this machine,
/// or from a host that the operator allows.
pub(crate) fn is_private_enough(url: &Url, allow: &AllowList) -> bool {
    let here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || allow.has_host(name),
        Some(Host::Ipv4(ip)) => ip.is_loopback() || allow.has_address(ip.into()),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || allow.has_address(ip.into()),
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && here)
}
