//! Opens a page in the browser of the user.

use std::process::Stdio;

use url::Url;

/// Starts the browser at `address`, if it is a web page and the machine has a program for that.
/// Returns whether the program was started; a browser may still fail to open.
///
/// Other users of the machine can see the address among the processes.
pub(crate) fn open(address: &str) -> bool {
    let Some(url) = web_page(address) else { return false };
    let Some((program, arguments)) = opener() else { return false };
    #[expect(
        clippy::disallowed_methods,
        reason = "the browser is the user's own and needs the whole environment, unlike upstreams"
    )]
    let mut command = std::process::Command::new(program);
    command.args(arguments).arg(url.as_str());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A terminal that closes, or Ctrl-C, ends the processes of its own group only.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().is_ok()
}

/// Parses `address`; `None` unless it is an `http` or `https` URL: no other program may handle it.
fn web_page(address: &str) -> Option<Url> {
    Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// The program that opens a page, and its first arguments.
fn opener() -> Option<(&'static str, &'static [&'static str])> {
    if cfg!(target_os = "macos") {
        return Some(("open", &[]));
    }
    if cfg!(windows) {
        return Some(("rundll32", &["url.dll,FileProtocolHandler"]));
    }
    // Without a desktop, `xdg-open` starts a browser in the terminal of the command.
    let has_desktop =
        ["WAYLAND_DISPLAY", "DISPLAY"].map(crate::env::variable).iter().any(Option::is_some);
    has_desktop.then_some(("xdg-open", &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_pages_are_opened() {
        assert!(web_page("https://crib.example.com/explorer#/connect/abc").is_some());
        assert!(web_page("http://127.0.0.1:8808/explorer").is_some());
        for other in ["", "-h", "--version", "file:///etc/passwd", "javascript:alert(1)", "/tmp/x"]
        {
            assert!(web_page(other).is_none(), "{other}");
        }
    }
}
