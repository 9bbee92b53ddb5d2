//! Lists of scopes (RFC 6749, section 3.3).
//!
//! Invariant: every list of this module has valid scope tokens, each once, in at most
//! [`MAX_SCOPES`] entries and [`MAX_BYTES`] bytes.

use serde_json::Value;

/// The most scopes of a list; further ones are dropped.
pub const MAX_SCOPES: usize = 64;
/// The most bytes of a list in a request, with a separator after each scope. An address with this
/// list still fits into the 8 KiB that most servers accept.
pub const MAX_BYTES: usize = 2 << 10;

/// Whether `text` is one scope: printable ASCII without blanks, `"` and `\`.
pub fn is_scope(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    !text.is_empty() && text.bytes().all(is_valid)
}

/// Reads a list that a server wrote, without its invalid entries. Entries are separated by blanks,
/// or by commas in a text without blanks, as GitHub writes them.
pub fn read(text: &str) -> Vec<String> {
    let text = text.trim();
    let separator = if text.contains(' ') { ' ' } else { ',' };
    bounded(text.split(separator).map(|scope| scope.trim_matches(',')))
}

/// Reads a JSON array of scopes; empty for other values.
pub(crate) fn read_array(value: Option<&Value>) -> Vec<String> {
    bounded(value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str))
}

/// The scopes of the next authorization request: the `earlier` ones, which a new consent must not
/// lose, then the `further` ones. Scopes outside a ceiling are dropped; an empty one permits all.
pub fn union(earlier: &[String], further: &[String], ceiling: &[String]) -> Vec<String> {
    let scopes = earlier.iter().chain(further);
    let permitted = scopes.filter(|scope| ceiling.is_empty() || ceiling.contains(scope));
    bounded(permitted.map(String::as_str))
}

fn bounded<'a>(scopes: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let mut bytes = 0;
    for scope in scopes.filter(|scope| is_scope(scope)) {
        if list.len() == MAX_SCOPES {
            break;
        }
        let fits = bytes + scope.len() < MAX_BYTES;
        if fits && !list.iter().any(|listed| listed == scope) {
            bytes += scope.len() + 1;
            list.push(scope.to_owned());
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(scopes: &[&str]) -> Vec<String> {
        scopes.iter().map(|&scope| scope.to_owned()).collect()
    }

    #[test]
    fn lists_of_servers_are_read_without_their_invalid_entries() {
        for (text, scopes) in [
            ("", &[][..]),
            ("  ", &[]),
            (",,", &[]),
            ("a", &["a"]),
            (" a  b a ", &["a", "b"]),
            ("repo,gist", &["repo", "gist"]),
            ("repo, gist,", &["repo", "gist"]),
            ("https://a.example/read:x a,b", &["https://a.example/read:x", "a,b"]),
            ("a \"b c\\d e\tf \u{e9} \u{200b} ok", &["a", "ok"]),
            ("a\nb", &[]),
        ] {
            assert_eq!(read(text), scopes, "{text:?}");
        }
        assert_eq!(read_array(Some(&json!(["a", 1, "b c", "a", ["d"], "e"]))), ["a", "e"]);
        for other in [json!("a b"), json!({"a": 1}), json!(null)] {
            assert!(read_array(Some(&other)).is_empty() && read_array(None).is_empty());
        }
    }

    #[test]
    fn a_union_keeps_earlier_scopes_below_the_ceiling() {
        for (earlier, further, ceiling, scopes) in [
            (&["a"][..], &["b", "a"][..], &[][..], &["a", "b"][..]),
            (&["a"], &["b", "admin"], &["b", "a"], &["a", "b"]),
            (&["old"], &["b"], &["b"], &["b"]),
            (&["a"], &["b"], &["A"], &[]),
            (&[], &["b c", ""], &[], &[]),
        ] {
            assert_eq!(union(&list(earlier), &list(further), &list(ceiling)), scopes);
        }
    }

    #[test]
    fn lists_are_bounded() {
        let many: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
        assert_eq!(union(&many, &[], &[]), many[..MAX_SCOPES]);
        let exact = "x".repeat(MAX_BYTES - 1);
        assert_eq!(read(&exact), [exact.as_str()]);
        assert!(read(&"x".repeat(MAX_BYTES)).is_empty());
        let half = "x".repeat(MAX_BYTES / 2 - 1);
        let other = half.replace('x', "y");
        let both = read(&format!("{half} {other} z"));
        assert_eq!(both, [half, other]);
        assert!(both.join(" ").len() < MAX_BYTES);
    }
}
