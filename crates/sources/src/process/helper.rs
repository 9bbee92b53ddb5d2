//! Programs configured by the operator that print a secret: a password manager, a cloud's key
//! service.
//!
//! They run as the operator's own commands at startup, unlike upstreams. They have our environment,
//! and our terminal for a passphrase prompt.

use std::{process::Stdio, time::Duration};

use tokio::{io::AsyncReadExt as _, process::Command};
use toolcrib_core::{credential::Secret, text::io_reason};

/// Time limit of such a program; the operator may have to type.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Largest output in bytes; keys are far shorter.
const MAX_BYTES: u64 = 64 << 10;

/// Runs the program and captures its output, without trailing line breaks.
///
/// # Errors
/// Fails when the program cannot be started, fails, takes too long or prints no text. The text is
/// meant for the operator.
#[expect(clippy::disallowed_methods, reason = "this is the module that the rule points to")]
pub async fn printed_by(command: &[String]) -> Result<Secret, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("the command is empty".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| {
        format!("the program {program} cannot be started ({})", io_reason(error.kind()))
    })?;
    let Some(stdout) = child.stdout.take() else {
        return Err("the program was started without an output pipe".to_owned());
    };
    let run = async {
        let mut text = String::new();
        let read = stdout.take(MAX_BYTES + 1).read_to_string(&mut text).await;
        (read, child.wait().await, Secret::new(text))
    };
    let (read, status, text) = tokio::time::timeout(TIMEOUT, run)
        .await
        .map_err(|_| format!("the program {program} did not exit within {TIMEOUT:?}"))?;
    // Checked first, because closing the pipe early makes the program fail.
    if matches!(read, Ok(read) if read as u64 > MAX_BYTES) {
        return Err(format!("the program {program} printed more than 64 KiB"));
    }
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("the program {program} failed ({status})")),
        Err(error) => {
            return Err(format!("the program {program} was lost ({})", io_reason(error.kind())));
        }
    }
    let value = text.expose().trim_end_matches(['\r', '\n']);
    match (read, value) {
        (Err(_), _) => Err(format!("the program {program} printed data other than text")),
        (Ok(_), "") => Err(format!("the program {program} printed no text")),
        (Ok(_), value) => Ok(Secret::new(value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(script: &str) -> Result<String, String> {
        let command = ["sh", "-c", script].map(str::to_owned);
        printed_by(&command).await.map(|secret| secret.expose().to_owned())
    }

    #[tokio::test]
    async fn the_output_of_a_program_is_returned_and_its_failures_are_explained() {
        assert_eq!(shell("echo ' a b '").await.unwrap(), " a b ");
        for (script, expected) in [
            ("echo canary; exit 3", "failed (exit status: 3)"),
            ("true", "printed no text"),
            ("head -c 70000 /dev/zero | tr '\\0' a", "more than 64 KiB"),
            ("printf '\\377'", "other than text"),
        ] {
            let error = shell(script).await.unwrap_err();
            assert!(error.contains(expected) && !error.contains("canary"), "{error}");
        }
        let error = printed_by(&["/nowhere/program".to_owned()]).await.unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
    }
}
