//! A connector: an OpenAPI document and the address of its service.

use std::collections::BTreeMap;

use globset::Glob;
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib_core::{
    catalog::Tenants,
    credential::CredentialRef,
    egress::AllowList,
    id::CredentialName,
    source::{
        UpstreamSpec,
        connector::{ConnectorSpec, OpenApiLocation},
    },
};

use super::{
    oauth::Accounts,
    upstream::{PinFirst, PinMode, PinPolicy, Upstream},
};
use crate::{
    places::member,
    resolver::{Resolver, check_url},
    secret::Value,
};

/// The operations of an OpenAPI document ([guide](../guides/rest-api.md)).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Document {
    /// File, folder or address of the OpenAPI document.
    #[schemars(extend("x-default" = "required"))]
    document: Option<String>,
    /// Address of the service.
    #[schemars(extend("x-default" = "the document's server"))]
    base_url: Option<String>,
    /// Globs over names, or over `METHOD /path`; a leading `!` removes operations.
    #[schemars(extend("x-default" = "all"))]
    operations: Vec<String>,
    /// Values of server variables.
    #[schemars(extend("x-default" = "the document's"))]
    variables: BTreeMap<String, String>,
    /// Headers for the source's own origin.
    headers: BTreeMap<String, Value>,
    /// Name of a [stored credential](../guides/credentials.md).
    credential: Option<CredentialName>,
    /// Accounts that people connect to the service ([guide](../guides/accounts.md)).
    oauth: Option<Accounts>,
    /// Private networks, addresses and hosts that requests may use, in addition to the source's
    /// own host ([rules](../explanation/security.md#where-requests-go)).
    allow: AllowList,
    /// Treatment of [changed tools](../guides/review-tools.md#pins).
    pins: PinMode,
    /// Treatment of new tools.
    pin_first: PinFirst,
}

impl Resolver<'_> {
    pub(super) fn connector(
        &mut self,
        source: &str,
        mut typed: Document,
        tenants: &Tenants,
    ) -> Upstream {
        let pins = PinPolicy { mode: typed.pins, first: typed.pin_first };
        let (credential, oauth) = (typed.credential.as_ref(), typed.oauth.as_ref());
        self.check_authorization(source, credential, oauth, &typed.headers);
        let accounts = typed.oauth.take();
        let account = accounts.and_then(|typed| self.accounts(source, typed, tenants));
        let credential = typed.credential.clone().map(CredentialRef::of_caller);
        Upstream { spec: self.operations(source, typed), pins, credential, account }
    }

    fn operations(&mut self, source: &str, typed: Document) -> Option<UpstreamSpec> {
        let key = |member: &str| format!("{source}.{member}");
        let document = match &typed.document {
            None => {
                let message = "expected the OpenAPI document: `document = \"service.yaml\"`, or an \
                               http or https address; or `pack = \"…\"`";
                self.complain_of_absence(source, &key("document"), message);
                None
            }
            Some(text) if text.contains("://") => {
                self.check(&key("document"), check_url(text)).map(OpenApiLocation::Url)
            }
            Some(text) if text.is_empty() => {
                self.complain(&key("document"), "expected a file or an address");
                None
            }
            Some(text) => Some(OpenApiLocation::Path(self.base.join(text))),
        };
        let base_url = typed.base_url.as_deref().map(check_url).transpose();
        let base_url = self.check(&key("base_url"), base_url);
        let operations = self.list(&key("operations"), &typed.operations, check_pattern);
        if matches!(document, Some(OpenApiLocation::Path(_))) && typed.base_url.is_none() {
            for name in typed.headers.keys() {
                let message = "headers go to the configured service alone; say where it is with \
                               `base_url`";
                self.complain(&member(&key("headers"), name), message);
            }
        }
        let headers = self.headers(&key("headers"), &typed.headers);
        Some(UpstreamSpec::Connector(ConnectorSpec {
            document: document?,
            base_url: base_url?,
            operations: operations?,
            variables: typed.variables,
            headers: headers?,
            allow: typed.allow,
        }))
    }
}

fn check_pattern(pattern: &str) -> Result<String, String> {
    let glob = pattern.strip_prefix('!').unwrap_or(pattern);
    // In paths a placeholder matches literally.
    let glob = match glob.split_once(' ') {
        None => glob.to_owned(),
        Some((method, path)) => format!("{method} {}", path.replace(['{', '}'], "")),
    };
    match Glob::new(&glob) {
        Ok(_) => Ok(pattern.to_owned()),
        Err(error) => Err(format!("is not a glob: {}", error.kind())),
    }
}
