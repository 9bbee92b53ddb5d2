//! `health`: requests the state of a running server, as a probe does.
//!
//! Invariant: the command sends no key and writes no file.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anyhow::Context as _;
use serde_json::{Value, json};
use toolcrib_config::{ServerConfig, TlsConfig};
use url::Url;

use crate::{
    args::{GlobalOptions, HealthArgs},
    client::{self, Client, ClientTls},
    context::Context,
    failure::{Exit, advised, usage},
    settings::Settings,
    text::member,
};

pub(crate) async fn run(args: &HealthArgs, cx: &Context) -> anyhow::Result<Exit> {
    let (base, tls) = match &cx.global.url {
        Some(typed) => (client::address(typed)?, ClientTls::read(&cx.global)?),
        None => {
            let server = Settings::load(&cx.global)?.config.server;
            (local(&server)?, own_tls(server.tls.as_ref(), &cx.global)?)
        }
    };
    let path = if args.live { "livez" } else { "readyz" };
    let server = Client::of(base, None, tls)?;
    let probed = server.probe(&[path], Duration::from_secs(args.timeout)).await;
    let (code, body) = probed.map_err(|error| match client::is_other_certificate(&error) {
        true => advised(
            "the server does not present the certificate of `[server] tls`",
            "`toolcrib config check` reads its files, and the log of the server says why it does \
             not use them",
        ),
        false => error,
    })?;
    let (is_success, printer) = ((200..300).contains(&code), cx.printer);
    if printer.wants_json() {
        printer.json(&json!({ "ok": is_success, "code": code, "answer": body }))?;
    } else {
        printer.foreign(&summary(code, &body))?;
    }
    Ok(if is_success { Exit::Done } else { Exit::Failed })
}

/// The address of a server of this machine that listens on `listen`.
fn local(server: &ServerConfig) -> anyhow::Result<Url> {
    let listen = server.listen;
    if listen.port() == 0 {
        return Err(usage(
            "`[server] listen` takes a free port, which only the server knows; set --url to the \
             address that it printed",
        ));
    }
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let address = SocketAddr::new(ip, listen.port());
    let scheme = if server.tls.is_some() { "https" } else { "http" };
    Url::parse(&format!("{scheme}://{address}")).context("`[server] listen` is not an address")
}

/// The TLS options for a server with the certificate `tls`. The server is on this machine, so its
/// certificate need not have the name of this machine.
fn own_tls(tls: Option<&TlsConfig>, global: &GlobalOptions) -> anyhow::Result<ClientTls> {
    match tls {
        None => ClientTls::read(global),
        Some(tls) if tls.client_ca.is_some() && global.client_cert.is_none() => Err(advised(
            "the server requires a client certificate (`client_ca` in `[server] tls`), without \
             which its state cannot be requested",
            "set --client-cert and --client-key, or TOOLCRIB_CLIENT_CERT and TOOLCRIB_CLIENT_KEY",
        )),
        Some(tls) => ClientTls::pinned(global, &tls.cert),
    }
}

/// The line for people: the server's word, and its reason or warning.
fn summary(code: u16, body: &Value) -> String {
    let state = match member(body, "status") {
        "" => format!("status {code}"),
        state => state.to_owned(),
    };
    match ["reason", "warning"]
        .map(|name| member(body, name))
        .into_iter()
        .find(|text| !text.is_empty())
    {
        Some(more) => format!("{state}: {more}"),
        None => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_on_this_machine() {
        let reached = |listen: &str| {
            let mut server = ServerConfig::default();
            server.listen = listen.parse().unwrap();
            local(&server).map(String::from)
        };
        assert_eq!(reached("0.0.0.0:8808").unwrap(), "http://127.0.0.1:8808/");
        assert_eq!(reached("[::]:8808").unwrap(), "http://[::1]:8808/");
        assert_eq!(reached("10.0.0.7:80").unwrap(), "http://10.0.0.7/");
        assert!(reached("127.0.0.1:0").unwrap_err().to_string().contains("--url"));
    }

    #[test]
    fn the_line_has_the_reason_or_the_warning() {
        let line = |code, body| summary(code, &body);
        assert_eq!(line(200, json!({ "status": "ready" })), "ready");
        let low = json!({ "status": "ready", "warning": "low" });
        assert_eq!(line(200, low), "ready: low");
        let failed = json!({ "status": "unavailable", "reason": "the store is gone" });
        assert_eq!(line(503, failed), "unavailable: the store is gone");
        assert_eq!(line(404, Value::Null), "status 404");
    }
}
