//! Certificate authorities, and certificates of servers and clients.
#![expect(clippy::unwrap_used, reason = "a test fails without its certificate")]

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// A certificate authority with a new key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its private key, as PEM.
#[derive(Clone)]
pub struct Certificate {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Returns the certificate that its clients trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for `localhost`, `127.0.0.1` and `::1`.
    pub fn server(&self) -> Certificate {
        self.issue(server())
    }

    /// Issues a certificate of a server that has expired.
    pub fn expired_server(&self) -> Certificate {
        let mut params = server();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 4, 1);
        self.issue(params)
    }

    /// Issues a certificate of a client called `name`.
    pub fn client(&self, name: &str) -> Certificate {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, params: CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Certificate { cert: cert.pem(), key: key.serialize_pem() }
    }
}

fn server() -> CertificateParams {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "toolcrib");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

impl Certificate {
    /// Writes `NAME.pem` and `NAME.key` in `dir`, the key for its owner only.
    pub fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (cert, key) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
        std::fs::write(&cert, &self.cert).unwrap();
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&key)
            .unwrap();
        file.write_all(self.key.as_bytes()).unwrap();
        (cert, key)
    }
}
