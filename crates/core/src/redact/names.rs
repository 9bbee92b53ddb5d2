//! Names that suggest a secret, for arguments that people save for others. Wider than the keys that are
//! redacted.

use super::is_secret_key;

/// A name with one of these suggests a secret, whatever its case and without `_`, `-`, `.` and spaces. The
/// page has the same list (`ui/tools/saved.js`).
const WORDS: [&str; 11] = [
    "token",
    "secret",
    "passw",
    "passphrase",
    "credential",
    "authorization",
    "apikey",
    "privatekey",
    "accesskey",
    "cookie",
    "sessionid",
];
/// These suggest one as the last word of a name, as in `db_pass` and `userPin`.
const LAST_WORDS: [&str; 8] = ["pin", "otp", "pass", "pw", "jwt", "pat", "cvv", "cvc"];

/// Whether the name of an argument suggests that its value is a secret.
pub fn suggests_secret(name: &str) -> bool {
    let is_part = |letter: &char| !matches!(letter, '_' | '-' | '.' | ' ');
    let letters: String = name.to_lowercase().chars().filter(is_part).collect();
    is_secret_key(name)
        || LAST_WORDS.contains(&&*last_word(name))
        || WORDS.iter().any(|word| letters.contains(word))
}

/// The last word of a name in `snake_case`, `camelCase` or any other style, in lower case.
fn last_word(name: &str) -> String {
    let name = name.trim_end_matches(|character: char| !character.is_alphanumeric());
    let mut word = Vec::new();
    for letter in name.chars().rev() {
        let was_small = word.last().is_some_and(|last: &char| last.is_lowercase());
        if !letter.is_alphanumeric() {
            break;
        }
        if !word.is_empty() && letter.is_lowercase() && !was_small {
            break;
        }
        word.push(letter);
        if letter.is_uppercase() && was_small {
            break;
        }
    }
    word.iter().rev().flat_map(|letter| letter.to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_suggest_a_secret_are_found() {
        for name in [
            "token",
            "accessToken",
            "API_KEY",
            "api key",
            "private-key",
            "x.session.id",
            "PIN",
            "userPin",
            "x.pin",
            "otp",
            "db_pass",
            "dbPass",
            "DB_PASS",
            "smtp pw",
            "githubPAT",
            "passwordHash",
            "Set-Cookie",
            "pwd",
            "signing_key",
            "max_tokens",
        ] {
            assert!(suggests_secret(name), "{name}");
        }
        for name in [
            "ticket", "spin", "pinned", "otping", "key", "session", "", "path", "bypass", "_",
            "passRate",
        ] {
            assert!(!suggests_secret(name), "{name}");
        }
    }

    /// The page leaves the same names out before it saves anything.
    #[test]
    fn the_page_has_the_same_list() {
        let page = include_str!("../../../toolcrib/src/ui/tools/saved.js");
        let list = |name: &str| {
            let (_, rest) = page.split_once(&format!("const {name} = [")).unwrap();
            let (inside, _) = rest.split_once(']').unwrap();
            let words = inside.split(',').map(|word| word.trim().trim_matches('\''));
            words.filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(list("SECRET_WORDS"), WORDS);
        assert_eq!(list("SECRET_LAST_WORDS"), LAST_WORDS);
    }
}
