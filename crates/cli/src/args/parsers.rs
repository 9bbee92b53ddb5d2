//! Parsers of values that several commands take.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use toolcrib_config::parse_duration;
use toolcrib_core::{credential::Secret, text::has_hidden};

/// Creates a parser of the values `all` of an enumeration, by their names.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|&value| name(value))).try_map(move |text| {
        all.iter().copied().find(|&value| name(value) == text).ok_or("unknown value")
    })
}

/// Parses an API key.
pub(super) fn secret(text: &str) -> Result<Secret, String> {
    match text.trim() {
        "" => Err("is empty".to_owned()),
        key => Ok(Secret::new(key.to_owned())),
    }
}

/// Parses the address of a listener. A port alone, `:PORT` and `localhost:PORT` mean 127.0.0.1.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost").unwrap_or(text);
    let port = port.strip_prefix(':').unwrap_or(port).parse::<u16>();
    let address = match port {
        Ok(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => text.parse().ok(),
    };
    address.ok_or_else(|| "expected an address such as 127.0.0.1:8808, or a port".to_owned())
}

/// Parses a name for people.
pub(super) fn name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("is empty".to_owned()),
        name if name.len() > 128 => Err("is longer than 128 bytes".to_owned()),
        name if has_hidden(name) => Err("contains an invisible character".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// Parses a duration of the configuration, or a number of days.
pub(super) fn lifetime(text: &str) -> Result<Duration, String> {
    const DAY: u64 = 86_400;
    // The limit is 100 years: longer lifetimes are mistakes and overflow dates.
    const MAX_DAYS: u64 = 36_500;
    let duration = match text.strip_suffix('d').map(str::parse::<u64>) {
        Some(Ok(days @ 1..=MAX_DAYS)) => Some(Duration::from_secs(days * DAY)),
        Some(_) => None,
        None => parse_duration(text).ok(),
    };
    duration
        .filter(|duration| duration.as_secs() <= MAX_DAYS * DAY)
        .ok_or_else(|| "expected a duration such as \"12h\" or \"30d\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        for text in ["8080", ":8080", "localhost:8080", "127.0.0.1:8080"] {
            assert_eq!(address(text).unwrap(), SocketAddr::from(([127, 0, 0, 1], 8080)), "{text}");
        }
        assert_eq!(address("0.0.0.0:1").unwrap(), SocketAddr::from(([0, 0, 0, 0], 1)));
        assert_eq!(address("[::1]:1").unwrap().to_string(), "[::1]:1");
        for text in ["", ":", "x", "70000", "127.0.0.1", "example.com:1", "-1"] {
            assert!(address(text).unwrap_err().contains("127.0.0.1:8808"), "{text}");
        }
    }

    #[test]
    fn lifetimes_are_read_and_nonsense_is_not() {
        assert_eq!(lifetime("30d").unwrap().as_secs(), 30 * 86_400);
        assert_eq!(lifetime("12h").unwrap().as_secs(), 43_200);
        for text in ["", "d", "0d", "-1d", "30", "36501d", "99999999999999999999d", "900000h"] {
            assert!(lifetime(text).is_err(), "{text}");
        }
    }
}
