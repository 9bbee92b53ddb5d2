//! Secrets in text that escapes characters: as in JSON, as in URLs, or as in forms.

use std::borrow::Cow;

use crate::credential::Secret;

/// How a text escapes characters.
#[derive(Clone, Copy)]
enum Escaping {
    /// `\/`, `\"`, `\u002f`.
    Json,
    /// `%2F`, `%2f`.
    Url,
    /// As in URLs, and `+` for a space.
    Form,
}

/// Returns `text` with each of the `secrets`, in plain or escaped characters, replaced by its label.
/// The secrets are sorted, the longest first.
pub(super) fn without<'a>(text: &'a str, secrets: &[(Secret, String)]) -> Cow<'a, str> {
    let mut clean = Cow::Borrowed(text);
    if secrets.iter().any(|(secret, _)| text.contains(secret.expose())) {
        let mut replaced = String::with_capacity(text.len());
        replace(text, secrets, |between, out| out.push_str(between), &mut replaced);
        clean = Cow::Owned(replaced);
    }
    for escaping in [Escaping::Json, Escaping::Url, Escaping::Form] {
        if escaping.occurs_in(&clean)
            && let Some(replaced) = escaping.replaced(&clean, secrets)
        {
            clean = Cow::Owned(replaced);
        }
    }
    clean
}

/// Appends `text` to `out` with each secret replaced by its label; `rest` appends the text between
/// the secrets.
pub(super) fn replace(
    text: &str,
    secrets: &[(Secret, String)],
    rest: fn(&str, &mut String),
    out: &mut String,
) {
    let Some(((secret, label), shorter)) = secrets.split_first() else {
        return rest(text, out);
    };
    for (index, piece) in text.split(secret.expose()).enumerate() {
        if index > 0 {
            out.push_str(label);
        }
        replace(piece, shorter, rest, out);
    }
}

impl Escaping {
    fn occurs_in(self, text: &str) -> bool {
        match self {
            Self::Json => text.contains('\\'),
            Self::Url => text.contains('%'),
            Self::Form => text.contains('%') && text.contains('+'),
        }
    }

    /// Returns `text` without the secrets that are found once its escapes are decoded; `None` if
    /// there are none.
    fn replaced(self, text: &str, secrets: &[(Secret, String)]) -> Option<String> {
        let mut decoded = String::with_capacity(text.len());
        // For each byte of `decoded`, the place of its character in `text`.
        let mut places = Vec::with_capacity(text.len() + 1);
        let mut at = 0;
        while let Some((character, length)) = self.first(text.get(at..).unwrap_or_default()) {
            decoded.push(character);
            places.resize(decoded.len(), at);
            at += length;
        }
        places.push(text.len());
        let mut found: Vec<(usize, usize, &str)> = Vec::new();
        for (secret, label) in secrets {
            for (start, _) in decoded.match_indices(secret.expose()) {
                let end = start + secret.expose().len();
                if found.iter().all(|(from, to, _)| end <= *from || *to <= start) {
                    found.push((start, end, label));
                }
            }
        }
        if found.is_empty() {
            return None;
        }
        found.sort_unstable();
        let place = |index: usize| places.get(index).copied().unwrap_or(text.len());
        let mut out = String::with_capacity(text.len());
        let mut rest = 0;
        for (start, end, label) in found {
            out.push_str(text.get(rest..place(start)).unwrap_or_default());
            out.push_str(label);
            rest = place(end);
        }
        out.push_str(text.get(rest..).unwrap_or_default());
        Some(out)
    }

    /// Returns the first character of `text`, decoded, and the number of bytes that it takes there.
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
            // Parts of longer characters stay as they are.
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
