//! The names of a tool. All are computed from (kind, source, the upstream's name) and looked up in
//! tables, and are never parsed back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    descriptor::SourceKind,
    hex,
    id::{InvalidId, SourceId, ToolId},
    offer::OfferKind,
};

/// The longest tool name that model APIs accept (`[A-Za-z0-9_-]{1,64}`).
pub const MAX_WIRE_NAME: usize = 64;

/// A tool's names other than its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// `[A-Za-z0-9_-]{1,64}`: the `name` of MCP, explorer and OTC.
    pub wire: String,
    /// `Toolkit.Tool`, the OTC id without its version.
    pub otc: String,
    /// `x.y.z`.
    pub version: String,
}

impl Names {
    /// Whether the version is `wanted`.
    pub fn is_version(&self, wanted: [u64; 3]) -> bool {
        self.version_numbers() == wanted
    }

    /// The version as numbers, for comparison.
    pub fn version_numbers(&self) -> [u64; 3] {
        let mut numbers = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        std::array::from_fn(|_| numbers.next().unwrap_or(0))
    }

    /// The OTC id with its version.
    pub fn otc_id(&self) -> String {
        format!("{}@{}", self.otc, self.version)
    }
}

/// How a source's tools are named on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NameStyle {
    /// `<source>__<name>`, which no other source can produce.
    #[default]
    Prefixed,
    /// The upstream's own name if it is a legal wire name without `__`, else the prefixed name. Two
    /// sources of this style may then offer the same name, and neither tool is listed.
    Bare,
}

/// Creates the id of tool `name` of `source`.
///
/// Characters outside `[A-Za-z0-9._-]` become `_`. A changed or shortened name gets a hash of the
/// original, so that different names stay different.
pub fn tool_id(kind: SourceKind, source: &SourceId, name: &str) -> Result<ToolId, InvalidId> {
    let local = tidy(name, 160, |c| c.is_ascii_alphanumeric() || "._-".contains(c));
    ToolId::parse((kind.traits().tool_id)(source, &local))
}

/// Creates the id of the offer `name` of `source`. No tool has the id of another kind of offer,
/// because the local part of a tool's id has no `/`.
pub fn offer_id(
    offer: OfferKind,
    kind: SourceKind,
    source: &SourceId,
    name: &str,
) -> Result<ToolId, InvalidId> {
    match offer {
        OfferKind::Tool => tool_id(kind, source, name),
        other => {
            let local = tidy(name, 160, |c| c.is_ascii_alphanumeric() || "._-".contains(c));
            ToolId::parse(format!("{kind}:{source}.{other}/{local}"))
        }
    }
}

/// Creates the other names of tool `name` of `source`; `version` is the upstream's reported
/// version.
pub fn names(source: &SourceId, name: &str, version: Option<&str>) -> Names {
    let dotless = name.replace('.', "_");
    let prefix = format!("{source}__");
    let local = tidy_as(name, &dotless, MAX_WIRE_NAME - prefix.len(), |c| {
        c.is_ascii_alphanumeric() || "_-".contains(c)
    });
    let underscored = dotless.replace('-', "_");
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let toolkit = source.as_str().replace('-', "_");
    Names {
        wire: prefix + &local,
        otc: format!("{toolkit}.{}", tidy_as(name, &underscored, MAX_WIRE_NAME, word)),
        version: simple_version(version).unwrap_or_else(|| "1.0.0".to_owned()),
    }
}

impl Names {
    /// Sets the wire name in `style`; `name` is the upstream's.
    #[must_use]
    pub fn styled(mut self, style: NameStyle, name: &str) -> Self {
        let legal = (1..=MAX_WIRE_NAME).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
            // It could equal a prefixed name of another source, which would then lose its tool.
            && !name.contains("__");
        if style == NameStyle::Bare && legal {
            name.clone_into(&mut self.wire);
        }
        self
    }
}

/// Words in names that promise to run arbitrary commands (RFC 0069).
const EXEC_WORDS: [&str; 8] =
    ["exec", "shell", "spawn", "runcommand", "runscript", "subprocess", "systemcall", "eval"];

/// Whether `name` promises to run commands, which only host extension tools may do (RFC 0069).
pub fn promises_exec(name: &str) -> bool {
    let words: Vec<String> = name
        .split(|character: char| !character.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase)
        .collect();
    let listed = |word: &str| EXEC_WORDS.contains(&word);
    words.iter().any(|word| listed(word)) || words.windows(2).any(|pair| listed(&pair.concat()))
}

fn tidy(name: &str, max: usize, legal: impl Fn(char) -> bool) -> String {
    tidy_as(name, name, max, legal)
}

/// Replaces illegal characters of `candidate`; the result has at most `max` characters and is never
/// empty. Appends eight hex digits of `original`'s hash if anything was lost.
fn tidy_as(original: &str, candidate: &str, max: usize, legal: impl Fn(char) -> bool) -> String {
    let clean: String = candidate.chars().map(|c| if legal(c) { c } else { '_' }).collect();
    if clean == candidate && clean.len() <= max && !clean.is_empty() {
        return clean;
    }
    let hash = Sha256::digest(original.as_bytes());
    let suffix = hex::encode(hash.split_at(4).0);
    let kept: String = clean.chars().take(max - suffix.len() - 1).collect();
    format!("{kept}_{suffix}")
}

/// The `x.y.z` of a version text, without pre-release and build parts and without leading zeros, so
/// that a version has one spelling.
fn simple_version(version: Option<&str>) -> Option<String> {
    let core = version?.split(['-', '+']).next()?;
    let parts: Vec<&str> = core.split('.').collect();
    let number = |p: &&str| !p.is_empty() && p.len() <= 9 && p.bytes().all(|b| b.is_ascii_digit());
    let plain = parts.len() == 3 && parts.iter().all(number);
    let shortest = |part: &&str| match part.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    };
    plain.then(|| parts.iter().map(shortest).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source(id: &str) -> SourceId {
        SourceId::parse(id).unwrap()
    }

    #[test]
    fn ordinary_names_stay_readable() {
        let files = source("my-files");
        for (kind, id) in [
            (SourceKind::Mcp, "mcp:my-files.fs.read-file"),
            (SourceKind::Connector, "connector:my-files.fs.read-file"),
            (SourceKind::NodePack, "openwop:fs.read-file"),
            (SourceKind::Workflow, "openwop:workflow.fs.read-file"),
            (SourceKind::HostExtension, "x-host-my-files-fs.read-file"),
        ] {
            assert_eq!(tool_id(kind, &files, "fs.read-file").unwrap().as_str(), id);
        }
        let names = names(&files, "fs.read-file", Some("2.1.0-beta.1+7"));
        assert_eq!(names.wire, "my-files__fs_read-file");
        assert_eq!(names.otc, "my_files.fs_read_file");
        assert_eq!(names.otc_id(), "my_files.fs_read_file@2.1.0");
    }

    #[test]
    fn a_prompt_and_a_tool_may_have_one_name() {
        let id = |offer| offer_id(offer, SourceKind::Mcp, &source("s"), "a/b").unwrap().to_string();
        assert_eq!(id(OfferKind::Tool), "mcp:s.a_b_c14cddc0");
        assert_eq!(id(OfferKind::Prompt), "mcp:s.prompt/a_b_c14cddc0");
        assert_eq!(id(OfferKind::Resource), "mcp:s.resource/a_b_c14cddc0");
    }

    // I-16
    #[test]
    fn names_that_lose_characters_get_a_hash_of_the_original() {
        let s = source("s");
        let long = "a".repeat(70);
        assert_eq!(tool_id(SourceKind::Mcp, &s, "größe").unwrap().as_str(), "mcp:s.gr__e_d353a267");
        assert_eq!(names(&s, "größe", None).wire, "s__gr__e_d353a267");
        assert_ne!(names(&s, "größe", None), names(&s, "grüße", None));
        for other in [&long[..69], &format!("{long}b"), &format!("{long}c")] {
            assert_ne!(names(&s, &long, None).wire, names(&s, other, None).wire);
        }
        assert_eq!(names(&s, &long, None).wire.len(), MAX_WIRE_NAME);
        assert_eq!(names(&s, "", None).wire, "s___e3b0c442", "an empty name gets a name, too");
    }

    #[test]
    fn bare_names_are_the_upstreams_own_where_they_are_legal() {
        let long = "a".repeat(MAX_WIRE_NAME + 1);
        let wire = |name: &str| names(&source("s"), name, None).styled(NameStyle::Bare, name).wire;
        assert_eq!(wire("read-file_2"), "read-file_2");
        assert_eq!(wire(&long[1..]), long[1..]);
        for name in ["", "a.b", "größe", "a b", "files__read", &long] {
            assert_eq!(wire(name), names(&source("s"), name, None).wire, "{name:?}");
        }
        let prefixed = names(&source("s"), "t", None).styled(NameStyle::Prefixed, "t");
        assert_eq!(prefixed.wire, "s__t");
    }

    #[test]
    fn only_a_plain_version_is_taken() {
        let version = |text| names(&source("s"), "t", text).version;
        for text in ["1.2.3", "0.0.0", "999999999.0.1", "1.2.3-rc.1", "1.2.3+build"] {
            assert!(text.starts_with(&version(Some(text))), "{text}");
        }
        assert_eq!(version(Some("01.000.0020")), "1.0.20");
        let absent = [
            None,
            Some(""),
            Some("1"),
            Some("1.2"),
            Some("1.2.3.4"),
            Some("v1.2.3"),
            Some("1.2.x"),
            Some("1..2"),
            Some("1234567890.0.0"),
            Some("١.٢.٣"),
        ];
        for text in absent {
            assert_eq!(version(text), "1.0.0", "{text:?}");
        }
    }

    proptest! {
        // I-16
        #[test]
        fn names_are_inside_their_grammars(
            id in "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?",
            name in prop_oneof![any::<String>(), "[A-Za-z0-9._-]{0,200}"],
            version in proptest::option::of(any::<String>()),
        ) {
            let source = source(&id);
            for kind in SourceKind::ALL {
                prop_assert!(tool_id(*kind, &source, &name).is_ok());
            }
            let made = names(&source, &name, version.as_deref());
            let word = |text: &str| !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            prop_assert!(made.wire.len() <= MAX_WIRE_NAME);
            prop_assert!(word(&made.wire.replace('-', "_")));
            let (toolkit, tool) = made.otc.split_once('.').unwrap();
            prop_assert!(word(toolkit) && word(tool));
            prop_assert_eq!(toolkit, id.replace('-', "_"));
            prop_assert_eq!(made.version.split('.').filter(|part| part.parse::<u32>().is_ok()).count(), 3);
            prop_assert_eq!(names(&source, &name, version.as_deref()), made, "the same every time");
        }

        // I-16: only a dot or a dash may collide with an underscore, or a name with another one's
        // hash form; the catalog leaves those out.
        #[test]
        fn different_names_stay_different(
            a in prop_oneof![any::<String>(), "[a-b_]{28,70}", "[aé]{1,4}"],
            b in prop_oneof![any::<String>(), "[a-b_]{28,70}", "[aé]{1,4}"],
        ) {
            let plain = |name: &str| name.replace(['.', '-'], "_");
            prop_assume!(plain(&a) != plain(&b));
            let source = source("some-source");
            let (one, other) = (names(&source, &a, None), names(&source, &b, None));
            prop_assert_ne!(one.wire, other.wire);
            prop_assert_ne!(one.otc, other.otc);
            let id = |name: &str| tool_id(SourceKind::Mcp, &source, name).unwrap();
            prop_assert_ne!(id(&a), id(&b));
        }
    }
}
