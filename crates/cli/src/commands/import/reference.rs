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
                Some(("input", id)) if !id.is_empty() => Self::Input(id),
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

/// Returns whether `name` can be an environment variable.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

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
