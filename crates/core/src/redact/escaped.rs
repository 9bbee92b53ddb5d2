//! Secrets in text that escapes characters: as in JSON, as in URLs, or as in forms.

use std::{borrow::Cow, ops::Range};

use crate::credential::Secret;

/// How a text escapes characters.
#[derive(Clone, Copy)]
enum Escaping {
    /// The text has no escapes.
    None,
    /// `\/`, `\"`, `\u002f`.
    Json,
    /// `%2F`, `%2f`.
    Url,
    /// As in URLs, and `+` for a space.
    Form,
}

/// A secret in a text: its place there, and its number in the list of secrets.
type SecretMatch = (Range<usize>, usize);

/// Replaces each of the `secrets` in `text`, in plain or escaped characters, by its label. The
/// secrets are sorted, the longest first: overlapping ones are replaced together, by the label of
/// the longest.
pub(super) fn without<'a>(text: &'a str, secrets: &[(Secret, String)]) -> Cow<'a, str> {
    let escapings = [Escaping::None, Escaping::Json, Escaping::Url, Escaping::Form];
    let escapings = escapings.into_iter().filter(|escaping| escaping.occurs_in(text));
    let mut found: Vec<SecretMatch> =
        escapings.flat_map(|escaping| escaping.find(text, secrets)).collect();
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_unstable_by_key(|(place, _)| place.start);
    let mut apart: Vec<SecretMatch> = Vec::with_capacity(found.len());
    for (place, number) in found {
        match apart.last_mut() {
            Some((last, known)) if place.start < last.end => {
                last.end = last.end.max(place.end);
                *known = (*known).min(number);
            }
            _ => apart.push((place, number)),
        }
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = 0;
    for (place, number) in apart {
        clean.push_str(text.get(rest..place.start).unwrap_or_default());
        clean.push_str(secrets.get(number).map_or("", |(_, label)| label));
        rest = place.end;
    }
    clean.push_str(text.get(rest..).unwrap_or_default());
    Cow::Owned(clean)
}

fn places<'a>(
    text: &'a str,
    secrets: &'a [(Secret, String)],
) -> impl Iterator<Item = SecretMatch> + 'a {
    secrets.iter().enumerate().flat_map(move |(number, (secret, _))| {
        let length = secret.expose().len();
        text.match_indices(secret.expose()).map(move |(at, _)| (at..at + length, number))
    })
}

impl Escaping {
    fn occurs_in(self, text: &str) -> bool {
        match self {
            Self::None => true,
            Self::Json => text.contains('\\'),
            Self::Url => text.contains('%'),
            Self::Form => text.contains('%') && text.contains('+'),
        }
    }

    /// Finds the places in `text` whose decoded characters are one of the `secrets`.
    fn find(self, text: &str, secrets: &[(Secret, String)]) -> Vec<SecretMatch> {
        if matches!(self, Self::None) {
            return places(text, secrets).collect();
        }
        let mut decoded = String::with_capacity(text.len());
        // For each byte of `decoded`, the place of its character in `text`.
        let mut origins = Vec::with_capacity(text.len() + 1);
        let mut at = 0;
        while let Some((character, length)) = self.first(text.get(at..).unwrap_or_default()) {
            decoded.push(character);
            origins.resize(decoded.len(), at);
            at += length;
        }
        origins.push(text.len());
        let origin = |at: usize| origins.get(at).copied().unwrap_or(text.len());
        let found = places(&decoded, secrets);
        found.map(|(place, number)| (origin(place.start)..origin(place.end), number)).collect()
    }

    /// Decodes the first character of `text`; also returns the number of bytes that it takes there.
    fn first(self, text: &str) -> Option<(char, usize)> {
        let mut characters = text.chars();
        let first = characters.next()?;
        let hex = |from: usize, to: usize| {
            let digits = text.get(from..to)?;
            let digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits)?;
            u32::from_str_radix(digits, 16).ok()
        };
        let escaped = match (self, first) {
            (Self::Json, '\\') => match characters.next() {
                Some('u') => hex(2, 6).and_then(char::from_u32).map(|decoded| (decoded, 6)),
                Some('n') => Some(('\n', 2)),
                Some('t') => Some(('\t', 2)),
                Some('r') => Some(('\r', 2)),
                Some(plain @ ('"' | '\\' | '/')) => Some((plain, 2)),
                _ => None,
            },
            // Parts of longer characters stay unchanged.
            (Self::Url | Self::Form, '%') => hex(1, 3)
                .filter(|code| *code < 0x80)
                .and_then(char::from_u32)
                .map(|decoded| (decoded, 3)),
            (Self::Form, '+') => Some((' ', 1)),
            _ => None,
        };
        Some(escaped.unwrap_or((first, first.len_utf8())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        let secrets = [("AbCd/12+Ij==", "[1]"), ("s3cr\"t va", "[2]"), ("12+Ij==", "[3]")];
        let secrets =
            secrets.map(|(secret, label)| (Secret::new(secret.to_owned()), label.to_owned()));
        without(text, &secrets).into_owned()
    }

    #[test]
    fn secrets_are_found_in_every_escaping() {
        for (text, expected) in [
            ("x AbCd/12+Ij== y", "x [1] y"),
            (r#"{"t":"AbCd\/12+Ij=="}"#, r#"{"t":"[1]"}"#),
            (r#"{"t":"\u0041b\u0043d\u002F12\u002bIj\u003d="}"#, r#"{"t":"[1]"}"#),
            ("?t=AbCd%2f12%2bIj%3d%3d&x=1", "?t=[1]&x=1"),
            ("?t=%41bCd%2F12%2BIj%3D%3D", "?t=[1]"),
            (r#"{"t":"s3cr\"t va"}"#, r#"{"t":"[2]"}"#),
            ("t=s3cr%22t+va&u=s3cr%22t%20va", "t=[2]&u=[2]"),
            // Overlapping ones leave no part.
            ("s3cr\"t va12+Ij==", "[2][3]"),
            (r"12\u002bIj== AbCd\/12+Ij== \", r"[3] [1] \"),
        ] {
            assert_eq!(clean(text), expected, "{text}");
        }
    }

    #[test]
    fn other_text_is_returned_as_it_is() {
        for text in
            ["", "\\", "%", "%4", "\\u00", "\\u00zz", "ä%C3%A4\\ud83d\\ude00+", "100% of + 5"]
        {
            assert_eq!(clean(text), text);
        }
    }
}
