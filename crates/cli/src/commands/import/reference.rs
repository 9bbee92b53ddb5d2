//! References in the files of desktop clients: `${env:X}`, `${X}`, `${input:x}`.

/// The reference in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// The text is a plain value.
    None,
    /// The whole text is an environment variable.
    Env(&'a str),
    /// The whole text is an input that the client requests from the user.
    Input(&'a str),
    /// The text contains another reference.
    Other,
}

impl<'a> Reference<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let Some(start) = text.find("${") else { return Self::None };
        let whole = text
            .strip_prefix("${")
            .and_then(|rest| rest.strip_suffix('}'))
            .filter(|inner| start == 0 && !inner.contains(['$', '}']));
        match whole {
            Some(inner) => match inner.split_once(':') {
                Some(("env", name)) if is_variable(name) => Self::Env(name),
                Some(("input", id)) if is_name(id) => Self::Input(id),
                Some(_) => Self::Other,
                None if is_variable(inner) && inner.chars().all(|c| !c.is_ascii_lowercase()) => {
                    Self::Env(inner)
                }
                None => Self::Other,
            },
            None => Self::Other,
        }
    }
}

/// Returns `text` with every reference to a variable or input replaced by `with`. References with other
/// content, such as a default value, stay.
pub(super) fn replaced(text: &str, with: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        rest = match after.split_once('}') {
            Some((inner, after)) if is_name(inner) => {
                out.push_str(with);
                after
            }
            _ => {
                out.push_str("${");
                after
            }
        };
    }
    out + rest
}

/// Returns `text` with plain text for its references, so that its form can be examined.
pub(super) fn plain(text: &str) -> String {
    let plain = replaced(text, "ref");
    match text.starts_with("${") && plain.starts_with("ref") {
        true => format!("/{plain}"),
        false => plain,
    }
}

/// Returns whether `inner` is the name of a variable or input.
fn is_name(inner: &str) -> bool {
    let name = inner.strip_prefix("env:").or(inner.strip_prefix("input:")).unwrap_or(inner);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(legal)
}

/// Returns whether `name` can be an environment variable.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_but_not_their_defaults() {
        for (text, replaced, plain) in [
            ("a", "a", "a"),
            ("${A}", "x", "/ref"),
            ("${workspaceFolder}/a", "x/a", "/ref/a"),
            ("https://${env:A}/${input:b-c}", "https://x/x", "https://ref/ref"),
            ("${A:-secret}", "${A:-secret}", "${A:-secret}"),
            ("${", "${", "${"),
            ("${${A}}", "${x}", "${ref}"),
        ] {
            assert_eq!(super::replaced(text, "x"), replaced);
            assert_eq!(super::plain(text), plain);
        }
    }

    #[test]
    fn references_are_distinguished() {
        for (text, expected) in [
            ("plain", Reference::None),
            ("$HOME", Reference::None),
            ("${env:TOKEN}", Reference::Env("TOKEN")),
            ("${TOKEN}", Reference::Env("TOKEN")),
            ("${input:api-key}", Reference::Input("api-key")),
            ("Bearer ${env:TOKEN}", Reference::Other),
            ("${env:A}${env:B}", Reference::Other),
            ("${workspaceFolder}", Reference::Other),
            ("${userHome}/x", Reference::Other),
            ("${TOKEN:-none}", Reference::Other),
            ("${env:}", Reference::Other),
            ("${", Reference::Other),
        ] {
            assert_eq!(Reference::of(text), expected, "{text}");
        }
    }
}
