//! Suggestions for misspelled names.

/// The separators between the source and the rest of a name, in wire names and in ids.
const SEPARATORS: [&str; 3] = ["__", ".", ":"];

/// Finds the name among `known` that `typed` most likely misspells. It is at most two edits away,
/// or `typed` is the last part of exactly one name (`echo` of `demo__echo`).
pub fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = folded(typed);
    if typed.is_empty() {
        return None;
    }
    let allowed = if typed.chars().count() <= 4 { 1 } else { 2 };
    let mut nearest: Option<(usize, &str)> = None;
    let mut ending: Vec<&str> = Vec::new();
    for name in known {
        let folded = folded(name);
        let distance = strsim::damerau_levenshtein(&typed, &folded);
        if distance <= allowed && nearest.is_none_or(|(least, _)| distance < least) {
            nearest = Some((distance, name));
        }
        let source = folded.strip_suffix(&typed);
        if source.is_some_and(|source| SEPARATORS.iter().any(|end| source.ends_with(end))) {
            ending.push(name);
        }
    }
    match (nearest, ending.as_slice()) {
        (Some((_, name)), _) => Some(name),
        (None, [name]) => Some(name),
        (None, _) => None,
    }
}

/// Returns `; did you mean X?` or an empty text, as the end of a message about `typed`.
pub fn did_you_mean<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    closest(typed, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Folds the most common mistakes: letter case, and `-` for `_`.
fn folded(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_recognised_and_other_names_are_not() {
        let known = ["demo__echo", "demo__add", "files__read_file", "reader", "writer"];
        let closest = |typed| closest(typed, known);
        assert_eq!(closest("demo__ehco"), Some("demo__echo"));
        assert_eq!(closest("DEMO--ECHO"), Some("demo__echo"));
        assert_eq!(closest("echo"), Some("demo__echo"));
        assert_eq!(closest("read_file"), Some("files__read_file"));
        assert_eq!(closest("raeder"), Some("reader"));
        assert_eq!(closest("demo__multiply"), None);
        assert_eq!(closest("file"), None, "half a word is not a part of the name");
        assert_eq!(closest(""), None);
    }
}
