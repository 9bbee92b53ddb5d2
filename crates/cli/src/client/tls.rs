//! The TLS options of the client: `--ca-file`, `--client-cert` and `--client-key`.

use std::path::Path;

use anyhow::Context as _;

use crate::{
    args::Global,
    failure::{Advise as _, advised, usage},
    settings::{self, Pipe},
};

/// The authorities and the certificate of the client.
#[derive(Default)]
pub(crate) struct ClientTls {
    authorities: Vec<reqwest::Certificate>,
    identity: Option<reqwest::Identity>,
}

impl ClientTls {
    /// Reads the files of `global`.
    pub(crate) fn read(global: &Global) -> anyhow::Result<Self> {
        let authorities = global.ca_file.as_deref().map(authorities).transpose()?;
        let identity = match (&global.client_cert, &global.client_key) {
            (Some(cert), key) => Some(identity(cert, key.as_deref())?),
            (None, Some(_)) => return Err(usage("--client-key requires --client-cert")),
            (None, None) => None,
        };
        Ok(Self { authorities: authorities.unwrap_or_default(), identity })
    }

    /// Sets the options of a client.
    pub(crate) fn apply(self, builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
        let builder = match self.authorities.is_empty() {
            true => builder,
            false => builder.tls_certs_merge(self.authorities),
        };
        match self.identity {
            Some(identity) => builder.identity(identity),
            None => builder,
        }
    }
}

fn authorities(file: &Path) -> anyhow::Result<Vec<reqwest::Certificate>> {
    let pem = bytes("--ca-file", file)?;
    let read = reqwest::Certificate::from_pem_bundle(&pem).unwrap_or_default();
    match read.is_empty() {
        false => Ok(read),
        true => Err(advised(
            format!("--ca-file: {} contains no PEM certificate", file.display()),
            "name the certificate of the authority that issued the server's certificate",
        )),
    }
}

fn identity(cert: &Path, key: Option<&Path>) -> anyhow::Result<reqwest::Identity> {
    let mut pem = bytes("--client-cert", cert)?;
    if let Some(key) = key {
        pem.push(b'\n');
        pem.extend(bytes("--client-key", key)?);
    }
    reqwest::Identity::from_pem(&pem).map_err(|_| {
        advised(
            "--client-cert: a PEM certificate and its private key are required",
            "name the file of the key with --client-key; a key with a passphrase is not supported",
        )
    })
}

fn bytes(option: &str, file: &Path) -> anyhow::Result<Vec<u8>> {
    settings::read_bytes(file, Pipe::Wait)
        .advise(format!("{} cannot be read", file.display()), "check the path and the permissions")
        .context(option.to_owned())
}
