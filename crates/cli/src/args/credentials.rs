//! The arguments of `credentials`. The value of a credential is never an argument.

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use toolcrib_core::{
    credential::Audience,
    id::{CredentialName, PrincipalId, TenantId},
};

use super::{output::Output, parsers::lifetime};

#[derive(Debug, Subcommand)]
pub(crate) enum CredentialsCommand {
    /// Seal and store a credential; its value comes from stdin, a file or a variable
    #[command(after_help = "\
Examples:
  toolcrib credentials set github --bearer --audience api.github.com < token.txt
  toolcrib credentials set github --bearer --audience api.github.com --principal ana < ana.txt
  toolcrib credentials set weather --query appid --audience '*.weather.example' --value-env APPID
  toolcrib credentials set wiki --basic bot --audience wiki.corp.example --value-file wiki.pass
  toolcrib credentials set crm --oauth2-client https://id.crm.example/token --client-id toolcrib \\
    --oauth2-scope read --audience api.crm.example --value-file client-secret.txt

A source refers to it by name: `credential = \"github\"`. A call uses the credential of the caller's
principal, or else that of its tenant. The credential is sent only to its audiences, over TLS or
within this machine. A call that needs a missing credential fails.

The value is a token, key or password of the upstream; with --oauth2-client the client secret, with
--oauth2-refresh the refresh token. It is sealed with `[store] seal_key`, which `toolcrib
credentials new-key` creates. No argument takes a value, because other users of this machine can see
arguments. Running servers use the credential at once.")]
    Set(Box<CredentialSetArgs>),

    /// List the credentials without their values
    #[command(after_help = "\
Examples:
  toolcrib credentials list
  toolcrib credentials list --json | jq -r '.[] | select(.state != \"active\") | .name'")]
    List(Output),

    /// Replace the value of a credential; running servers use the new one at once
    #[command(after_help = "\
Examples:
  toolcrib credentials rotate github < new-token.txt
  toolcrib credentials rotate github --principal ana --value-env TOKEN --expires 90d

Running calls keep the old value, so revoke it at the upstream afterwards. Name, owner, kind
and audiences stay. Without --expires the new value does not expire.")]
    Rotate(CredentialRotateArgs),

    /// Remove a credential; calls that need it then fail
    Remove {
        #[command(flatten)]
        owner: CredentialOwnerArgs,
    },

    /// Create a seal key and print it, or write it to a new file
    #[command(after_help = "\
Examples:
  toolcrib credentials new-key --out /etc/toolcrib/seal.key
  toolcrib credentials new-key | vault kv put secret/toolcrib seal_key=-

Then set it in the configuration: `[store]` `seal_key = { file = \"/etc/toolcrib/seal.key\" }`, or
`{ env = \"NAME\" }`, or `{ command = [\"vault\", …] }`. Keep a copy apart from the store's backups:
without the key no credential can be read.")]
    NewKey {
        /// Write the key to this new file, readable only by its owner
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },

    /// Reseal everything with the new key after a change of `seal_key`
    #[command(after_help = "\
Examples:
  toolcrib credentials reseal

To change the key: create a new one, set `seal_key` to it and `old_seal_key` to the previous one,
restart the servers, run this command, and then remove `old_seal_key`.")]
    Reseal,
}

#[derive(Debug, Args)]
pub(crate) struct CredentialOwnerArgs {
    /// Name of the credential, by which sources refer to it
    pub(crate) name: CredentialName,

    /// Tenant of the credential
    #[arg(long, default_value = "default")]
    pub(crate) tenant: TenantId,

    /// Principal of the credential [default: the whole tenant]
    #[arg(long)]
    pub(crate) principal: Option<PrincipalId>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("value").args(["value_file", "value_env"]))]
#[command(group = ArgGroup::new("client_secret").args(["client_secret_file", "client_secret_env"]))]
pub(crate) struct CredentialValueArgs {
    /// Read the value from this file [default: stdin]
    #[arg(long, value_name = "FILE")]
    pub(crate) value_file: Option<PathBuf>,

    /// Read the value from this environment variable
    #[arg(long, value_name = "NAME")]
    pub(crate) value_env: Option<String>,

    /// Read the client secret of a refresh token from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) client_secret_file: Option<PathBuf>,

    /// Read the client secret of a refresh token from this environment variable
    #[arg(long, value_name = "NAME")]
    pub(crate) client_secret_env: Option<String>,

    /// Let the value expire after this time: 12h, 90d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    pub(crate) expires: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("kind").required(true).args(
    ["bearer", "header", "query", "basic", "oauth2_client", "oauth2_refresh"]
))]
#[command(group = ArgGroup::new("oauth2").args(["oauth2_client", "oauth2_refresh"]))]
pub(crate) struct CredentialSetArgs {
    #[command(flatten)]
    pub(crate) owner: CredentialOwnerArgs,

    /// Allow sending to this host: `api.example.com` with all its ports, `*.example.com` for all
    /// hosts below a domain, or `https://api.example.com:8443` for one port; may be repeated
    #[arg(long = "audience", value_name = "HOST", required = true)]
    pub(crate) audiences: Vec<Audience>,

    /// Send the value as `Authorization: Bearer`
    #[arg(long)]
    pub(crate) bearer: bool,

    /// Send the value as this header
    #[arg(long, value_name = "NAME")]
    pub(crate) header: Option<String>,

    /// Put this prefix before the value in the header, including its space: 'Token '
    #[arg(long, value_name = "TEXT", requires = "header")]
    pub(crate) prefix: Option<String>,

    /// Send the value as this query parameter; prefer a header if the upstream accepts one
    #[arg(long, value_name = "NAME")]
    pub(crate) query: Option<String>,

    /// Send the value as the password of this user, `Authorization: Basic`
    #[arg(long, value_name = "USER")]
    pub(crate) basic: Option<String>,

    /// Get access tokens at this token endpoint, with the value as client secret
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) oauth2_client: Option<String>,

    /// Get access tokens at this token endpoint, with the value as refresh token
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) oauth2_refresh: Option<String>,

    /// Use this OAuth client
    #[arg(long, value_name = "ID", requires = "oauth2")]
    pub(crate) client_id: Option<String>,

    /// Authenticate the OAuth client in this way
    #[arg(long, value_enum, default_value_t = ClientAuthArg::Basic, requires = "oauth2")]
    pub(crate) client_auth: ClientAuthArg,

    /// Request this OAuth scope; may be repeated
    #[arg(long = "oauth2-scope", value_name = "SCOPE", requires = "oauth2")]
    pub(crate) scopes: Vec<String>,

    #[command(flatten)]
    pub(crate) value: CredentialValueArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CredentialRotateArgs {
    #[command(flatten)]
    pub(crate) owner: CredentialOwnerArgs,

    #[command(flatten)]
    pub(crate) value: CredentialValueArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ClientAuthArg {
    /// In the Authorization header
    Basic,
    /// In the body
    Post,
}
