//! A certificate with its key, from the PEM files of `[server] tls`.
//!
//! Invariant: no error and no warning contains a byte of a file.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use rustix::fs::OFlags;
use rustls::{
    Error, InconsistentKeys, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};
use toolcrib_config::TlsConfig;
use toolcrib_core::text::io_reason;
use x509_cert::{Certificate, der::Decode as _, time::Time};
use zeroize::Zeroizing;

/// Size limit of a file. A bundle of all public authorities has a fifth of it.
const MAX_BYTES: u64 = 1 << 20;

/// The protocols of HTTP/2 and HTTP/1.1, in the order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The labels of private keys that need a passphrase, in both of their forms.
const ENCRYPTED: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];

/// A certificate with its key and the authorities of clients, read from files.
pub struct TlsIdentity {
    pub(super) config: Arc<ServerConfig>,
    expires: Option<DateTime<Utc>>,
    warnings: Vec<String>,
}

/// A file of `[server] tls` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", file.display())]
#[non_exhaustive]
pub struct TlsError {
    /// The key of `[server] tls` that names the file.
    pub key: &'static str,
    /// The file.
    pub file: PathBuf,
    /// The problem.
    pub problem: String,
    /// A possible remedy.
    pub hint: &'static str,
}

/// A file with the key of `[server] tls` that names it.
struct ConfiguredFile<'a> {
    key: &'static str,
    file: &'a Path,
}

// === impl TlsIdentity ===

impl TlsIdentity {
    /// Reads and checks the files of `config`. The time is only for warnings: an expired
    /// certificate is served, because an old one is better than no certificate.
    ///
    /// # Errors
    /// Fails if a file is unreadable or invalid, or if the key does not match the certificate.
    pub fn load(config: &TlsConfig, now: DateTime<Utc>) -> Result<Self, TlsError> {
        load(config, now)
    }

    /// The end of the validity of the certificate, if it is readable.
    pub fn expires(&self) -> Option<DateTime<Utc>> {
        self.expires
    }

    /// The problems that an operator should know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").field("expires", &self.expires).finish_non_exhaustive()
    }
}

fn load(config: &TlsConfig, now: DateTime<Utc>) -> Result<TlsIdentity, TlsError> {
    let cert = ConfiguredFile { key: "cert", file: &config.cert };
    let key = ConfiguredFile { key: "key", file: &config.key };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut warnings = Vec::new();

    let chain = cert.certificates()?;
    let expires = check_validity(&cert, &chain, now, &mut warnings);
    let identity = key.private_key(&mut warnings)?;
    let identity = CertifiedKey::from_der(chain, identity, &provider);
    let identity = identity.map_err(|error| mismatch(&error, &cert, &key))?;

    let clients = config.client_ca.as_deref();
    let clients = clients.map(|file| ConfiguredFile { key: "client_ca", file }.verifier(&provider));
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| cert.error(format!("TLS cannot be set up ({error})"), ""))?;
    let builder = match clients.transpose()? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    Ok(TlsIdentity { config: Arc::new(config), expires, warnings })
}

/// Reads the end of the validity of the first certificate, and warns if it is not valid now. If its
/// dates are unreadable, its clients judge it.
fn check_validity(
    cert: &ConfiguredFile<'_>,
    chain: &[CertificateDer<'_>],
    now: DateTime<Utc>,
    warnings: &mut Vec<String>,
) -> Option<DateTime<Utc>> {
    let parsed = Certificate::from_der(chain.first()?).ok()?;
    let validity = parsed.tbs_certificate.validity;
    let (begins, expires) = (moment(validity.not_before)?, moment(validity.not_after)?);
    let file = cert.file.display();
    if expires <= now {
        warnings.push(format!(
            "the certificate {file} expired on {}, so clients refuse it; renew it",
            expires.format("%F %T UTC")
        ));
    } else if begins > now {
        warnings.push(format!(
            "the certificate {file} is valid from {} on, so clients refuse it until then; check \
             the clock of this machine",
            begins.format("%F %T UTC")
        ));
    }
    Some(expires)
}

fn moment(time: Time) -> Option<DateTime<Utc>> {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).ok()?;
    DateTime::from_timestamp(seconds, 0)
}

/// Creates the error for a key and a certificate that cannot be used together.
fn mismatch(error: &Error, cert: &ConfiguredFile<'_>, key: &ConfiguredFile<'_>) -> TlsError {
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => key.error(
            format!("the private key does not match the certificate {}", cert.file.display()),
            "the server's own certificate must be the first one of its file; while both files are \
             being replaced, the former pair stays in force",
        ),
        Error::InvalidCertificate(_) => cert.error(
            "the first certificate is malformed",
            "use the certificate as the authority issued it, in PEM",
        ),
        _ => key.error(
            "the private key has an unsupported type",
            "use an ECDSA (P-256, P-384, P-521), Ed25519 or RSA key of at least 2048 bits",
        ),
    }
}

// === impl ConfiguredFile ===

impl ConfiguredFile<'_> {
    fn error(&self, problem: impl Into<String>, hint: &'static str) -> TlsError {
        TlsError { key: self.key, file: self.file.to_owned(), problem: problem.into(), hint }
    }

    fn open(&self) -> io::Result<File> {
        // Otherwise opening a pipe would wait for its writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.file)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("not a regular file")),
        }
    }

    /// Reads the file, and whether other users can read it.
    fn read(&self) -> Result<(Zeroizing<Vec<u8>>, bool), TlsError> {
        let hint = "check the path and the permissions; relative paths start from the directory \
                    of the configuration";
        let unreadable = |error: io::Error| {
            let reason = match error.kind() {
                io::ErrorKind::Other => error.to_string(),
                kind => io_reason(kind),
            };
            self.error(format!("the file cannot be read ({reason})"), hint)
        };
        let file = self.open().map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.len() > MAX_BYTES {
            return Err(self.error("the file is larger than 1 MiB", "is this a PEM file?"));
        }
        // Allocate the full size: a growing buffer would leave copies of a key in memory.
        let size = usize::try_from(metadata.len()).unwrap_or_default();
        let mut bytes = Zeroizing::new(Vec::with_capacity(size.saturating_add(1)));
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
        Ok((bytes, metadata.mode() & 0o077 != 0))
    }

    /// Reads all certificates of the file; at least one.
    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let (bytes, _) = self.read()?;
        let read: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
        match read {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            Ok(_) => Err(self.error(
                "the file contains no PEM certificate",
                "convert it with `openssl x509 -inform der -in FILE -out NEW`, or name the file \
                 that begins with `-----BEGIN CERTIFICATE-----`",
            )),
            Err(error) => Err(self.error(broken(&error), "write the whole file again")),
        }
    }

    fn private_key(&self, warnings: &mut Vec<String>) -> Result<PrivateKeyDer<'static>, TlsError> {
        let (bytes, is_exposed) = self.read()?;
        let has = |label: &&[u8]| bytes.windows(label.len()).any(|part| part == *label);
        if ENCRYPTED.iter().any(has) {
            return Err(self.error(
                "the private key is encrypted with a passphrase, which a server cannot enter",
                "write it without one, readable for the server alone: `openssl pkey -in FILE -out \
                 NEW`",
            ));
        }
        if is_exposed {
            warnings.push(format!(
                "other users of this machine can read the private key {}; run `chmod 600`",
                self.file.display()
            ));
        }
        match PrivateKeyDer::from_pem_slice(&bytes) {
            Ok(key) => Ok(key),
            Err(pem::Error::NoItemsFound) => Err(self.error(
                "the file contains no PEM private key",
                "name the file with `-----BEGIN PRIVATE KEY-----` (PKCS #8, PKCS #1 or SEC 1)",
            )),
            Err(error) => Err(self.error(broken(&error), "write the whole file again")),
        }
    }

    /// Builds a verifier that requires a certificate of one of the authorities in the file.
    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let mut roots = RootCertStore::empty();
        for (index, certificate) in self.certificates()?.into_iter().enumerate() {
            roots.add(certificate).map_err(|_| {
                self.error(
                    format!("certificate {} of the file is malformed", index + 1),
                    "name the certificates of the authorities that issue those of clients",
                )
            })?;
        }
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|error| self.error(format!("clients cannot be verified ({error})"), ""))
    }
}

/// Describes an error without the text of the file, which may be a key.
fn broken(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => {
            "the file is cut off: an `-----END` line is missing"
        }
        pem::Error::IllegalSectionStart { .. } => "a line `-----BEGIN` is malformed",
        pem::Error::Base64Decode(_) => "the content between the PEM lines is not Base64",
        _ => "the file is not PEM",
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use chrono::Duration;
    use toolcrib_testkit::certificates::Authority;

    use super::*;

    #[test]
    fn each_mistake_names_its_file_and_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("test");
        let (cert, key) = authority.server().write(dir.path(), "server");
        let (_, other_key) = authority.server().write(dir.path(), "other");
        let write = |name: &str, text: &str| {
            let file = dir.path().join(name);
            fs::write(&file, text).unwrap();
            file
        };
        let key_text = fs::read_to_string(&key).unwrap();
        let sealed = key_text.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let sealed = write("sealed.key", &sealed);
        let legacy =
            write("legacy.key", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n");
        let cut = write("cut.pem", &fs::read_to_string(&cert).unwrap()[..100]);
        let cut_key = write("cut.key", &key_text[..60]);
        let text = write("text.pem", "hello");
        let large = write("large.pem", &"x".repeat(2 << 20));
        let hollow = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let hollow = write("hollow.pem", hollow);
        let gone = dir.path().join("gone.pem");
        let directory = dir.path().to_owned();
        let with = |cert: &Path, key: &Path, client_ca: Option<&Path>| TlsConfig {
            cert: cert.to_owned(),
            key: key.to_owned(),
            client_ca: client_ca.map(Path::to_owned),
            hsts: None,
        };
        for (config, at, part) in [
            (with(&gone, &key, None), "cert", "gone.pem: the file cannot be read (not found)"),
            (with(&directory, &key, None), "cert", "not a regular file"),
            (with(&large, &key, None), "cert", "larger than 1 MiB"),
            (with(&text, &key, None), "cert", "contains no PEM certificate"),
            (with(&key, &key, None), "cert", "contains no PEM certificate"),
            (with(&cut, &key, None), "cert", "the file is cut off"),
            (with(&hollow, &key, None), "cert", "the first certificate is malformed"),
            (with(&cert, &gone, None), "key", "gone.pem: the file cannot be read (not found)"),
            (with(&cert, &cert, None), "key", "contains no PEM private key"),
            (with(&cert, &cut_key, None), "key", "the file is cut off"),
            (with(&cert, &sealed, None), "key", "encrypted with a passphrase"),
            (with(&cert, &legacy, None), "key", "encrypted with a passphrase"),
            (with(&cert, &other_key, None), "key", "does not match the certificate"),
            (with(&cert, &key, Some(&text)), "client_ca", "contains no PEM certificate"),
            (
                with(&cert, &key, Some(&hollow)),
                "client_ca",
                "certificate 1 of the file is malformed",
            ),
        ] {
            let error = load(&config, Utc::now()).unwrap_err();
            assert_eq!(error.key, at, "{error}");
            assert!(error.to_string().contains(part), "{error} has no `{part}`");
            assert!(!error.hint.is_empty(), "{error}");
            // I-29
            let secret = key_text.lines().nth(1).unwrap();
            assert!(!format!("{error:?}").contains(&secret[..16]), "{error:?}");
        }
    }

    #[test]
    fn dates_and_permissions_are_warnings() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("test");
        let (cert, key) = authority.expired_server().write(dir.path(), "server");
        let config = TlsConfig { cert, key: key.clone(), client_ca: None, hsts: None };
        let expired = load(&config, Utc::now()).unwrap();
        assert_eq!(expired.warnings.len(), 1, "{:?}", expired.warnings);
        assert!(expired.warnings[0].contains("expired on 2020-04-01"), "{:?}", expired.warnings);
        let expires = expired.expires.unwrap();
        assert_eq!(load(&config, expires - Duration::days(1)).unwrap().warnings, [""; 0]);
        let early = load(&config, expires - Duration::days(365)).unwrap();
        assert!(early.warnings[0].contains("valid from 2020-01-01"), "{:?}", early.warnings);

        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let exposed = load(&config, expires - Duration::days(1)).unwrap();
        assert!(exposed.warnings[0].contains("chmod 600"), "{:?}", exposed.warnings);
    }
}
