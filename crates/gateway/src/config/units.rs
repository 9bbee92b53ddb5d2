//! Durations and sizes in human-readable form.

use std::time::Duration;

/// Parses a duration such as `250ms`, `30s`, `5m` or `2h`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(millis))
        .filter(|&n| n > 0)
        .map(Duration::from_millis)
        .ok_or_else(|| {
            "expected a duration such as \"250ms\", \"30s\", \"5m\" or \"2h\"".to_owned()
        })
}

/// Like [`parse_duration`], but also accepts days such as `90d`.
pub(super) fn parse_age(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    match days.map(|days| days.checked_mul(86_400)) {
        Some(Some(seconds)) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        Some(_) => Err("expected a time such as \"90d\" or \"12h\"".to_owned()),
        None => parse_duration(text)
            .map_err(|_| "expected a time such as \"90d\" or \"12h\"".to_owned()),
    }
}

/// Parses a size such as `4096`, `64KiB` or `4MiB`.
pub(super) fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    number
        .parse::<usize>()
        .ok()
        .zip(factor)
        .and_then(|(n, factor)| n.checked_mul(factor))
        .filter(|&n| n > 0)
        .ok_or_else(|| "expected a size such as \"65536\", \"64KiB\" or \"4MiB\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_nonsense_is_not() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "5", "s", "0s", "-1s", "1 s", "1d", "99999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_age("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_age("1h"), Ok(Duration::from_secs(3600)));
        for text in ["0d", "d", "-1d", "99999999999999999d", "1w"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
        assert_eq!(parse_size("64KiB"), Ok(65536));
        assert_eq!(parse_size("12"), Ok(12));
        for text in ["", "KiB", "1KB", "0", "1.5MiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
