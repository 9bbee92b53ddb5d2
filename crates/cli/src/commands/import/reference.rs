//! References in the files of desktop clients: `${env:X}`, `${X}`, `${input:x}`.

/// The reference in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// The text is a plain value.
    None,
    /// The whole text is an environment variable.
    Env(&'a str),
    /// The whole text is an environment variable, with the value to use if it is unset.
    Default(&'a str, &'a str),
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
            Some(inner) if with_default(inner).is_some() => with_default(inner)
                .map_or(Self::Other, |(name, default)| Self::Default(name, default)),
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

/// A part of a text with references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Reference(Reference<'a>),
}

/// The parts of `text`; `None` if it has a reference other than to a variable or input.
pub(super) fn parts(text: &str) -> Option<Vec<Part<'_>>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find("${") {
        let (before, after) = rest.split_at(start);
        let (whole, after) = after.split_at(after.find('}')? + 1);
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        match Reference::of(whole) {
            Reference::None | Reference::Other => return None,
            reference => parts.push(Part::Reference(reference)),
        }
        rest = after;
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(Part::Text(rest));
    }
    Some(parts)
}

/// Removes the defaults of the references in `text`, if all of them are to variables or inputs.
pub(super) fn without_defaults(text: &str) -> String {
    let plain = |part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Reference(Reference::Env(name) | Reference::Default(name, _)) => {
            format!("${{env:{name}}}")
        }
        Part::Reference(Reference::Input(id)) => format!("${{input:{id}}}"),
        Part::Reference(_) => String::new(),
    };
    match parts(text) {
        Some(parts) => parts.into_iter().map(plain).collect(),
        None => text.to_owned(),
    }
}

/// Whether a reference in `text` has a default.
pub(super) fn has_default(text: &str) -> bool {
    text.split("${").skip(1).any(|inner| {
        let inner = inner.split('}').next().unwrap_or_default();
        with_default(inner).is_some()
    })
}

/// The variable and the default of `NAME:-default` or `NAME-default`.
fn with_default(inner: &str) -> Option<(&str, &str)> {
    let inner = inner.strip_prefix("env:").unwrap_or(inner);
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, rest) = inner.split_at(end);
    let default = [":-", ":=", "-"].iter().find_map(|sign| rest.strip_prefix(sign))?;
    let has_lower = name.chars().any(|c| c.is_ascii_lowercase());
    (is_variable(name) && !has_lower).then_some((name, default))
}

/// Replaces every reference to a variable or input by `with`. References with other content, such
/// as a default value, stay.
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

/// Replaces references by plain text, so that the form of `text` can be examined.
pub(super) fn plain(text: &str) -> String {
    let plain = replaced(text, "ref");
    match text.starts_with("${") && plain.starts_with("ref") {
        true => format!("/{plain}"),
        false => plain,
    }
}

/// Whether `inner` is the name of a variable or input.
fn is_name(inner: &str) -> bool {
    let name = inner.strip_prefix("env:").or(inner.strip_prefix("input:")).unwrap_or(inner);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(legal)
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
            ("${TOKEN:-none}", Reference::Default("TOKEN", "none")),
            ("${env:TOKEN:-}", Reference::Default("TOKEN", "")),
            ("${TOKEN-a:b}", Reference::Default("TOKEN", "a:b")),
            ("${A:-${B}}", Reference::Other),
            ("${workspace-folder}", Reference::Other),
            ("${env:}", Reference::Other),
            ("${", Reference::Other),
        ] {
            assert_eq!(Reference::of(text), expected, "{text}");
        }
    }
}
