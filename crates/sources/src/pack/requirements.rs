//! Checks that this host provides the requirements of a pack.

use std::collections::BTreeSet;

use toolcrib_core::source::pack::PackGrant;

use super::{
    error::{PackCode, PackError},
    manifest::Manifest,
};

/// The major version of the protocol on this host.
const PROTOCOL_MAJOR: u64 = 1;
/// Capability families that the discovery document advertises.
const ADVERTISED: [&str; 2] = ["toolCatalog", "toolHooks"];
/// Engines of packs.
const LANGUAGES: [&str; 3] = ["wasm", "wasm-component", "remote"];

/// Checks the requirements of the whole pack.
pub(super) fn check(manifest: &Manifest, grants: &BTreeSet<PackGrant>) -> Result<(), PackError> {
    if !admits_major(manifest.engine()) {
        return PackCode::EngineUnsupported.refuse(format!(
            "`engines.openwop` admits no version {PROTOCOL_MAJOR} of the protocol"
        ));
    }
    for peer in manifest.required_peers() {
        let family = peer.strip_prefix("host.").unwrap_or(peer);
        if !ADVERTISED.contains(&family) {
            return PackCode::PeerMissing.refuse(format!(
                "`peerDependencies` requires a capability that this host does not have; it has {}",
                ADVERTISED.join(" and ")
            ));
        }
    }
    let language = manifest.runtime.language.as_str();
    if !LANGUAGES.contains(&language) {
        return PackCode::UnsupportedRuntime
            .refuse(format!("`runtime.language` must be one of {}", LANGUAGES.join(", ")));
    }
    if !cfg!(feature = "wasm") && language != "remote" {
        return no_engine();
    }
    if language == "remote" && !grants.contains(&PackGrant::Http) {
        return unmet(PackGrant::Http, "the nodes are requests to a server");
    }
    needs(&manifest.runtime.requires, grants)
}

/// Checks a list of `runtime.requires` or of a node's `requires`.
pub(super) fn needs(required: &[String], grants: &BTreeSet<PackGrant>) -> Result<(), PackError> {
    for need in required {
        let grant = match need.as_str() {
            "net.dns" | "net.outbound" => PackGrant::Http,
            "clock" => PackGrant::Clock,
            "crypto" => PackGrant::Random,
            "subprocess" | "fs.read" | "fs.write" | "env.read" => {
                return PackCode::RequirementUnmet
                    .refuse(format!("it requires `{need}`, which this host never grants"));
            }
            _ => {
                return PackCode::RequirementUnmet
                    .refuse("this version does not know one of its requirements");
            }
        };
        if !grants.contains(&grant) {
            return unmet(grant, &format!("it requires `{need}`"));
        }
    }
    Ok(())
}

/// Fails in a build without the feature `wasm`.
pub(super) fn no_engine<T>() -> Result<T, PackError> {
    PackCode::UnsupportedRuntime
        .refuse("this build of toolcrib has no WebAssembly engine; build with `--features wasm`")
}

/// Fails because of a requirement that is available but not granted.
pub(super) fn unmet<T>(grant: PackGrant, why: &str) -> Result<T, PackError> {
    PackCode::RequirementUnmet.refuse(format!("{why}: add \"{grant}\" to `grants` to allow it"))
}

/// Whether the npm-style range `text` includes a version of our major.
fn admits_major(text: &str) -> bool {
    let alternatives: Option<Vec<_>> = text.split("||").map(range).collect();
    let admits = |range: &semver::VersionReq| {
        (0..100).any(|minor| range.matches(&semver::Version::new(PROTOCOL_MAJOR, minor, 0)))
    };
    alternatives.is_some_and(|ranges| ranges.iter().any(admits))
}

/// Parses one alternative: space-separated comparators, all of which must match.
fn range(text: &str) -> Option<semver::VersionReq> {
    let mut comparators: Vec<String> = Vec::new();
    let mut operator = String::new();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        if word.bytes().all(|b| b"<>=^~".contains(&b)) {
            operator.push_str(word);
            continue;
        }
        // Without an operator, npm requires exactly that version.
        let bare = operator.is_empty() && word.starts_with(|c: char| c.is_ascii_digit());
        let sign = if bare { "=" } else { "" };
        comparators.push(format!("{sign}{}{word}", std::mem::take(&mut operator)));
    }
    semver::VersionReq::parse(&comparators.join(", ")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(member: &str, value: Value, grants: &[PackGrant]) -> Option<PackCode> {
        let mut document = json!({
            "name": "vendor.acme.text", "version": "1.2.3",
            "engines": { "openwop": "^1" },
            "runtime": { "language": "remote", "entry": "https://host/mcp" },
            "nodes": [{ "typeId": "a" }],
        });
        document[member] = value;
        let manifest = Manifest::parse(document.to_string().as_bytes()).unwrap();
        check(&manifest, &grants.iter().copied().collect()).err().map(|error| error.code)
    }

    #[test]
    fn the_range_of_engines_must_admit_our_major_version() {
        for good in [
            ">=1.0.0 <2.0.0",
            ">=1.1.0 <3.0.0",
            ">= 1.0",
            "^1",
            "~1.2",
            "1.x",
            "1",
            "*",
            ">=1.4 <1.5",
            "0.9 || ^1.2.0",
            ">=1,<2",
        ] {
            assert!(admits_major(good), "{good}");
        }
        for bad in [">=2.0.0 <3.0.0", "^2", "<1.0.0", "0.9", "latest", "1 - 2", "^1 || junk"] {
            assert!(!admits_major(bad), "{bad}");
        }
        let engines = json!({ "openwop": "^2" });
        let refused = refused("engines", engines, &[PackGrant::Http]);
        assert_eq!(refused, Some(PackCode::EngineUnsupported));
    }

    #[test]
    fn a_missing_or_ungranted_requirement_is_reported_with_its_code() {
        use PackGrant::{Clock, Http};
        let runtime = |language: &str, requires: &[&str]| json!({ "language": language, "entry": "https://host/mcp", "requires": requires });
        let unmet = Some(PackCode::RequirementUnmet);
        assert_eq!(refused("runtime", runtime("remote", &[]), &[Http]), None);
        assert_eq!(
            refused("runtime", runtime("remote", &["net.dns", "clock"]), &[Http, Clock]),
            None
        );
        assert_eq!(refused("runtime", runtime("remote", &[]), &[Clock]), unmet);
        for need in ["clock", "crypto", "subprocess", "fs.read", "fs.write", "env.read", "gpu"] {
            assert_eq!(refused("runtime", runtime("remote", &[need]), &[Http]), unmet, "{need}");
        }
        let unsupported = Some(PackCode::UnsupportedRuntime);
        for language in ["javascript", "python", "go", "", "WASM"] {
            assert_eq!(refused("runtime", runtime(language, &[]), &[Http]), unsupported);
        }
        let peers = |name: &str| json!({ name: "supported" });
        assert_eq!(refused("peerDependencies", peers("toolCatalog"), &[Http]), None);
        assert_eq!(refused("peerDependencies", peers("host.toolHooks"), &[Http]), None);
        let missing = Some(PackCode::PeerMissing);
        assert_eq!(refused("peerDependencies", peers("aiProviders"), &[Http]), missing);
    }

    #[test]
    fn an_optional_peer_may_be_missing() {
        let document = json!({
            "name": "vendor.acme.text", "version": "1.2.3", "engines": { "openwop": "^1" },
            "peerDependencies": { "host.canvas": "supported" },
            "peerDependenciesMeta": { "host.canvas": { "optional": true } },
            "runtime": { "language": "remote", "entry": "https://host/mcp" },
            "nodes": [{ "typeId": "a" }],
        });
        let manifest = Manifest::parse(document.to_string().as_bytes()).unwrap();
        assert_eq!(check(&manifest, &BTreeSet::from([PackGrant::Http])), Ok(()));
    }
}
