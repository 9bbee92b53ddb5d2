//! Ids on the command line: in full, or as a unique prefix.

use crate::failure::usage;

/// Fewer characters could name something by mistake.
const MIN: usize = 4;
/// The most candidates in an error.
const SHOWN: usize = 8;
/// Characters of an id of this program; an id of that length is in full.
const FULL: usize = 36;

/// Whether `typed` can be a prefix. An id in full needs no list of all.
pub(crate) fn is_short(typed: &str) -> bool {
    typed.len() < FULL
}

/// Finds the id that equals `typed`, or the only one that starts with it; `None` if none matches.
///
/// # Errors
/// Several ids match; the error lists them. `what` is their noun.
pub(crate) fn resolve(
    typed: &str,
    what: &str,
    ids: impl IntoIterator<Item = String>,
) -> anyhow::Result<Option<String>> {
    let mut found: Vec<String> = ids.into_iter().filter(|id| id.starts_with(typed)).collect();
    found.sort();
    found.dedup();
    if found.iter().any(|id| id == typed) {
        return Ok(Some(typed.to_owned()));
    }
    match found.as_slice() {
        [] => Ok(None),
        [_] if typed.len() < MIN => Err(usage(format!(
            "`{typed}` is too short for the id of a {what}; write at least {MIN} characters"
        ))),
        [id] => Ok(Some(id.clone())),
        [..] => {
            let shown: Vec<&str> = found.iter().take(SHOWN).map(String::as_str).collect();
            let more = match found.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Err(usage(format!(
                "`{typed}` matches the ids of {} {what}s; write more of one: {}{more}",
                found.len(),
                shown.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(typed: &str) -> anyhow::Result<Option<String>> {
        resolve(typed, "key", ["0197aaaa", "0197bbbb", "0197bbbb-x", "55555"].map(str::to_owned))
    }

    #[test]
    fn a_prefix_that_one_id_has_names_it() {
        assert_eq!(of("0197a").unwrap().unwrap(), "0197aaaa");
        assert_eq!(of("0197bbbb").unwrap().unwrap(), "0197bbbb", "an id in full is itself");
        assert_eq!(of("nothing").unwrap(), None);
    }

    #[test]
    fn several_candidates_are_listed_and_none_is_chosen() {
        let error = of("0197").unwrap_err().to_string();
        for id in ["3 keys", "0197aaaa", "0197bbbb", "0197bbbb-x"] {
            assert!(error.contains(id), "{error}");
        }
        assert!(of("5").unwrap_err().to_string().contains("at least 4"));
        let many = (100..200).map(|number| format!("0197-{number}"));
        let error = resolve("0197", "run", many).unwrap_err().to_string();
        assert!(error.contains("100 runs") && error.ends_with("and 92 more"), "{error}");
    }
}
