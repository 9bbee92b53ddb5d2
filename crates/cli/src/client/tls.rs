//! The TLS options of the client: `--ca-file`, `--client-cert` and `--client-key`. Without `--url`,
//! only the certificate of `[server] tls` is accepted.

use std::{error::Error, io, path::Path, sync::Arc};

use anyhow::Context as _;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use url::Url;

use crate::{
    args::GlobalOptions,
    failure::{Advice as _, advised, usage},
    settings::{self, Pipe},
};

/// The error of [`Pin`].
const OTHER: CertificateError = CertificateError::ApplicationVerificationFailure;

/// The authorities and the certificate of the client.
#[derive(Default)]
pub(crate) struct ClientTls {
    authorities: Vec<reqwest::Certificate>,
    identity: Option<reqwest::Identity>,
    /// Replaces both.
    pinned: Option<ClientConfig>,
}

/// Whether the server has another certificate than the [pinned](ClientTls::pinned) one.
pub(crate) fn is_other_certificate(error: &anyhow::Error) -> bool {
    let tls = error.chain().find_map(tls_error);
    matches!(tls, Some(rustls::Error::InvalidCertificate(other)) if *other == OTHER)
}

/// The hint if the server closes the connection after the handshake.
const NO_CERTIFICATE: &str = "if the server requires a client certificate (`client_ca` in `[server] tls`), \
                              name yours with --client-cert and --client-key";

/// The hint for a failed request to `base`: correct the TLS options, or start the server.
pub(crate) fn hint(error: &(dyn Error + 'static), base: &Url) -> &'static str {
    // A server of TLS 1.3 refuses a client after the handshake. HTTP/2 keeps only the words of the alert,
    // or finds its connection closed in one of several ways.
    let sent = error.downcast_ref::<reqwest::Error>();
    let is_closed = sent.is_some_and(|failure| {
        failure.is_request() && !failure.is_connect() && !failure.is_timeout()
    });
    let (mut cause, mut tls) = (Some(error), None);
    while let Some(error) = cause {
        tls = tls.or_else(|| tls_error(error));
        cause = error.source();
    }
    match tls {
        None if is_closed && base.scheme() == "https" => NO_CERTIFICATE,
        None => "is `toolcrib serve` running there?",
        Some(rustls::Error::InvalidCertificate(problem)) => match problem {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the certificate has other names: write one of them in --url"
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                "renew the certificate of the server (`cert` in `[server] tls`), and check the clocks"
            }
            _ => {
                "this machine does not trust the authority of the certificate: name the authority's \
                 PEM file with --ca-file or TOOLCRIB_CA_FILE"
            }
        },
        Some(rustls::Error::AlertReceived(_)) => NO_CERTIFICATE,
        Some(rustls::Error::InvalidMessage(_)) => {
            "the server does not speak TLS there: write http:// in --url"
        }
        Some(_) => "check --url, --ca-file and --client-cert",
    }
}

/// Finds a TLS error in `cause`, also inside socket errors.
fn tls_error<'a>(mut cause: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    while let Some(inner) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        cause = inner;
    }
    cause.downcast_ref::<rustls::Error>()
}

/// Accepts one certificate, regardless of its names, authority and dates. The server has to prove
/// that it has the key.
#[derive(Debug)]
struct Pin {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientTls {
    /// Reads the files of `global`.
    pub(crate) fn read(global: &GlobalOptions) -> anyhow::Result<Self> {
        let authorities = global.ca_file.as_deref().map(authorities).transpose()?;
        let identity = match (&global.client_cert, &global.client_key) {
            (Some(cert), key) => Some(identity(cert, key.as_deref())?),
            (None, Some(_)) => return Err(usage("--client-key requires --client-cert")),
            (None, None) => None,
        };
        Ok(Self { authorities: authorities.unwrap_or_default(), identity, pinned: None })
    }

    /// Accepts only the first certificate in the file `cert`, and presents that of `global`.
    pub(crate) fn pinned(global: &GlobalOptions, cert: &Path) -> anyhow::Result<Self> {
        let pem = bytes("`[server] tls`", cert)?;
        let certificate = CertificateDer::from_pem_slice(&pem).map_err(|_| {
            advised(
                format!("`[server] tls`: {} contains no PEM certificate", cert.display()),
                "`toolcrib config check` reads the files of the certificate",
            )
        })?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("TLS cannot be set up")?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pin { certificate, algorithms }));
        let config = match &global.client_cert {
            None => builder.with_no_client_auth(),
            Some(cert) => {
                let pem = identity_pem(cert, global.client_key.as_deref())?;
                let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
                PrivateKeyDer::from_pem_slice(&pem)
                    .ok()
                    .and_then(|key| builder.with_client_auth_cert(chain, key).ok())
                    .ok_or_else(no_identity)?
            }
        };
        Ok(Self { pinned: Some(config), ..Self::default() })
    }

    /// Sets the options of a client.
    pub(crate) fn apply(self, builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
        if let Some(config) = self.pinned {
            return builder.tls_backend_preconfigured(config);
        }
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
    reqwest::Identity::from_pem(&identity_pem(cert, key)?).map_err(|_| no_identity())
}

fn identity_pem(cert: &Path, key: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let mut pem = bytes("--client-cert", cert)?;
    if let Some(key) = key {
        pem.push(b'\n');
        pem.extend(bytes("--client-key", key)?);
    }
    Ok(pem)
}

fn no_identity() -> anyhow::Error {
    advised(
        "--client-cert: a PEM certificate and its private key are required",
        "name the file of the key with --client-key; a key with a passphrase is not supported",
    )
}

fn bytes(option: &str, file: &Path) -> anyhow::Result<Vec<u8>> {
    settings::read_bytes(file, Pipe::Wait)
        .advise(format!("{} cannot be read", file.display()), "check the path and the permissions")
        .context(option.to_owned())
}

// === impl Pin ===

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match *end_entity == self.certificate {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(rustls::Error::InvalidCertificate(OTHER)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
