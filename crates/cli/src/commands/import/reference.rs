//! What desktop clients put in place of a value: `${env:X}`, `${X}`, `${input:x}`.

/// What a text refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// Nothing: it means what it says.
    None,
    /// The whole text is an environment variable.
    Env(&'a str),
    /// The whole text is asked from the user.
    Input(&'a str),
    /// Something else of the client's is in it.
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

/// Whether `name` can be an environment variable.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_apart() {
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
