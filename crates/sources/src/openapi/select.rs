//! Selects the operations of a document that become tools.

use globset::{GlobBuilder, GlobMatcher};

/// The patterns of a source. An operation is a tool if a pattern matches it (any operation if all
/// patterns start with `!`), unless a pattern with `!` matches it.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    taken: Vec<Pattern>,
    refused: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    glob: GlobMatcher,
    /// Matches `METHOD /path`, where `*` stays within one segment and `**` does not; otherwise the
    /// tool's name.
    is_path: bool,
}

impl Selection {
    /// Parses `patterns`; an empty list selects all operations.
    pub(super) fn new(patterns: &[String]) -> Result<Self, String> {
        let mut selection = Self::default();
        for pattern in patterns {
            match pattern.strip_prefix('!') {
                Some(pattern) => selection.refused.push(Pattern::read(pattern)?),
                None => selection.taken.push(Pattern::read(pattern)?),
            }
        }
        Ok(selection)
    }

    pub(super) fn takes(&self, name: &str, method: &str, path: &str) -> bool {
        let line = format!("{} {path}", method.to_ascii_uppercase());
        let matches = |patterns: &[Pattern]| {
            patterns
                .iter()
                .any(|pattern| pattern.glob.is_match(if pattern.is_path { &line } else { name }))
        };
        (self.taken.is_empty() || matches(&self.taken)) && !matches(&self.refused)
    }
}

impl Pattern {
    fn read(pattern: &str) -> Result<Self, String> {
        let (text, is_path) = match pattern.split_once(' ') {
            None => (pattern.to_owned(), false),
            Some((method, path)) => {
                // Braces such as `{id}` are literal here.
                let path = path.trim_start().replace('{', "\u{0}").replace('}', "[}]");
                let path = path.replace('\u{0}', "[{]");
                (format!("{} {path}", method.to_ascii_uppercase()), true)
            }
        };
        let glob = GlobBuilder::new(&text).literal_separator(is_path).build();
        let glob = glob
            .map_err(|error| format!("an operation's pattern is not a glob: {}", error.kind()))?;
        Ok(Self { glob: glob.compile_matcher(), is_path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_taken_by_name_or_by_method_and_path() {
        let takes = |patterns: &[&str], (name, method, path): (&str, &str, &str)| {
            let patterns: Vec<_> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            Selection::new(&patterns).unwrap().takes(name, method, path)
        };
        let get = ("pets_get", "get", "/pets/{id}");
        let delete = ("pets_remove", "delete", "/pets/{id}");
        let admin = ("users_list", "get", "/admin/users/all");
        for (patterns, of_get, of_delete, of_admin) in [
            (&[] as &[&str], true, true, true),
            (&["pets_*"], true, true, false),
            (&["{pets_get,users_list}"], true, false, true),
            (&["GET /pets/{id}"], true, false, false),
            (&["get /pets/*"], true, false, false),
            (&["* /pets/**"], true, true, false),
            (&["GET /*"], false, false, false),
            (&["GET /**"], true, false, true),
            (&["!DELETE /**", "!* /admin/**"], true, false, false),
            (&["*", "!pets_remove"], true, false, true),
        ] {
            let all = [get, delete, admin].map(|operation| takes(patterns, operation));
            assert_eq!(all, [of_get, of_delete, of_admin], "{patterns:?}");
        }
        assert!(Selection::new(&["a[".to_owned()]).is_err());
    }
}
