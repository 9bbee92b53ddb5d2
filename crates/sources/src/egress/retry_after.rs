//! The header `Retry-After` of a busy service.

use std::time::Duration;

use chrono::DateTime;
use http::{HeaderMap, StatusCode, header};
use toolcrib_core::clock::Timestamp;

/// Longest wait that callers are given.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the time of `Retry-After` (RFC 9110, section 10.2.3: seconds, or a date). Zero seconds,
/// or a date in the past, permit a retry at once.
pub(super) fn retry_after(
    status: StatusCode,
    headers: &HeaderMap,
    now: Timestamp,
) -> Option<Duration> {
    let busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    let value = headers.get(header::RETRY_AFTER).filter(|_| busy.contains(&status))?;
    wait(value.to_str().ok()?.trim(), now)
}

fn wait(value: &str, now: Timestamp) -> Option<Duration> {
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = DateTime::parse_from_rfc2822(value).ok()?.to_utc();
            (until - now).to_std().unwrap_or_default()
        }
    };
    Some(wait.min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_says_how_long_to_wait_in_seconds_or_with_a_date() {
        let now = DateTime::from_timestamp(1_445_412_470, 0).unwrap();
        let seconds = |text: &str| wait(text, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("7"), Some(7));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT"), Some(10));
        assert_eq!(seconds("999999999999"), Some(24 * 60 * 60));
        for at_once in
            ["0", "000", "Wed, 21 Oct 2015 07:27:00 GMT", "Mon, 01 Jan 1990 00:00:00 GMT"]
        {
            assert_eq!(seconds(at_once), Some(0), "{at_once}");
        }
        for odd in ["", "-1", "soon", "1.5", "99999999999999999999999"] {
            assert_eq!(seconds(odd), None, "{odd}");
        }
    }

    #[test]
    fn only_a_busy_service_is_asked_again() {
        let now = DateTime::from_timestamp(0, 0).unwrap();
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, "7".parse().unwrap())]);
        for (status, expected) in [(429, Some(7)), (503, Some(7)), (500, None), (301, None)] {
            let status = StatusCode::from_u16(status).unwrap();
            let wait = retry_after(status, &headers, now).map(|wait| wait.as_secs());
            assert_eq!(wait, expected, "{status}");
        }
    }
}
