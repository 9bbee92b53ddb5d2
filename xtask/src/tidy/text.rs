//! Texts that no file may contain: paths of one machine, and hosts of registries.

use anyhow::Result;

use crate::tidy::tree::Tree;

/// Concatenated, so that the check does not find this file.
const PLACES: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/home", "/runner"),
    concat!("registry.np", "mjs.org"),
    concat!("files.pythonhosted", ".org"),
    concat!("py", "pi.org/simple"),
    concat!("index.cra", "tes.io"),
    concat!("static.cra", "tes.io"),
    concat!("deb.deb", "ian.org"),
];

/// The only source a Rust package may come from, in cargo's own spelling.
const CRATES: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

/// Machine paths and registry hosts anywhere in the tree.
pub(crate) fn places(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (index, line) in file.text.lines().enumerate() {
            for place in PLACES.iter().filter(|place| line.contains(**place)) {
                findings.push(format!("{}:{}: names `{place}`", file.path, index + 1));
            }
        }
    }
    Ok(findings)
}

/// Lock files must work with any mirror.
pub(crate) fn locks(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let line_is_wrong: fn(&str) -> bool = match file.path.rsplit('/').next() {
            Some("Cargo.lock") => |line| line.starts_with("source = ") && line != CRATES,
            Some("package-lock.json") => |line| line.trim_start().starts_with("\"resolved\""),
            _ => continue,
        };
        for (index, _) in file.text.lines().enumerate().filter(|(_, line)| line_is_wrong(line)) {
            findings.push(format!("{}:{}: names a download address", file.path, index + 1));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_machine_paths_are_found() {
        let path = format!("see {}x", concat!("/ro", "ot/"));
        let tree = Tree::of(&[
            ("notes/a.md", &path),
            ("notes/b.md", "see the rootfs and the workbench"),
            ("a/package-lock.json", "  \"resolved\": \"x\","),
            ("Cargo.lock", "source = \"git+https://example.com/x\"\n"),
        ]);
        assert_eq!(places(&tree).unwrap().len(), 1);
        assert_eq!(locks(&tree).unwrap().len(), 2);
    }
}
