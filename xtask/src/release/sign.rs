//! Signatures of files by `ssh-keygen`, which every system with OpenSSH can check.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell;

/// The signer in the list of public keys.
const SIGNER: &str = "release@toolcrib";

/// The use of the signature: `ssh-keygen` keeps signatures for files apart from others.
const USE: &str = "file";

/// Signs `file`, checks the signature against the public keys in `signers`, and returns its path.
/// Without a key, both are made for this run.
pub(super) fn sign(file: &Path, key: Option<&Path>, signers: &Path) -> Result<PathBuf> {
    let folder = tempfile::tempdir()?;
    let own = folder.path().join("key");
    let own_signers = folder.path().join("signers");
    let (key, signers) = match key {
        Some(key) => (key, signers),
        None => {
            make(&own, &own_signers)?;
            (own.as_path(), own_signers.as_path())
        }
    };
    let signature = PathBuf::from(format!("{}.sig", file.display()));
    if signature.exists() {
        // `ssh-keygen` replaces a file only after a confirmation.
        fs::remove_file(&signature)?;
    }
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-Y", "sign", "-n", USE, "-f"]).arg(key).arg(file);
    shell::run(&mut command)?;
    verify(file, &signature, signers)?;
    Ok(signature)
}

/// Makes a key, and the list of public keys with it.
fn make(key: &Path, signers: &Path) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", SIGNER, "-f"]).arg(key);
    shell::run(&mut command)?;
    let public = fs::read_to_string(key.with_extension("pub"))?;
    fs::write(signers, format!("{SIGNER} namespaces=\"{USE}\" {public}"))?;
    Ok(())
}

/// Fails unless a key of `signers` signed the file.
fn verify(file: &Path, signature: &Path, signers: &Path) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", "verify", "-n", USE, "-I", SIGNER, "-f"]).arg(signers);
    command.arg("-s").arg(signature).stdin(File::open(file)?).stdout(Stdio::null());
    let status = command.status().context("cannot start ssh-keygen")?;
    if !status.success() {
        bail!("{} is not signed by a key of {}", file.display(), signers.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_valid_for_one_text_and_one_key() {
        if shell::find("ssh-keygen").is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("sums"), "aa  one\n").unwrap();
        make(&at("key"), &at("signers")).unwrap();
        make(&at("other"), &at("others")).unwrap();
        let signature = sign(&at("sums"), Some(&at("key")), &at("signers")).unwrap();
        verify(&at("sums"), &signature, &at("signers")).unwrap();
        // By a key that is not in the list, and of a changed file.
        assert!(sign(&at("sums"), Some(&at("other")), &at("signers")).is_err());
        sign(&at("sums"), Some(&at("key")), &at("signers")).unwrap();
        fs::write(at("sums"), "bb  one\n").unwrap();
        assert!(verify(&at("sums"), &signature, &at("signers")).is_err());
        // A key for this run alone.
        sign(&at("sums"), None, Path::new("missing")).unwrap();
    }
}
