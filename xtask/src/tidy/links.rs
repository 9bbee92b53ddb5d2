//! Links between pages: each leads to a file of the tree, and to a heading that it has.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::paths;
use crate::tidy::tree::Tree;

/// Links of pages that lead nowhere, and pages that other files name and that do not exist.
pub(crate) fn followed(tree: &Tree) -> Result<Vec<String>> {
    let exists = |path: &str| {
        tree.get(path).is_some() || (path.starts_with("docs/") && paths::root().join(path).exists())
    };
    let mut findings = Vec::new();
    for page in tree.files().filter(|file| file.path.ends_with(".md")) {
        for (number, link) in links(&page.text) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if target.is_empty() { page.path.clone() } else { join(&page.path, target) };
            let found = match tree.get(&path) {
                Some(file) if !anchor.is_empty() => anchors(&file.text).contains(anchor),
                Some(_) => true,
                None => anchor.is_empty() && exists(&path),
            };
            if !found {
                findings.push(format!("{}:{number}: `{link}` leads nowhere", page.path));
            }
        }
    }
    for file in tree.files().filter(|file| !file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            for name in pages_named(line).filter(|name| tree.get(name).is_none()) {
                findings.push(format!("{}:{}: there is no `{name}`", file.path, index + 1));
            }
        }
    }
    Ok(findings)
}

/// Relative links outside code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            for prose in line.split('`').enumerate().filter_map(|(at, part)| match at % 2 {
                0 => Some(part),
                _ => None,
            }) {
                let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
                let own =
                    targets.map(|(target, _)| target).filter(|target| !target.contains("://"));
                found.extend(own.map(|target| (index + 1, target)));
            }
        }
    }
    found
}

/// The names that GitHub gives to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if let (false, Some(heading)) = (fenced, line.strip_prefix('#')) {
            let name: String = heading
                .trim_start_matches('#')
                .trim()
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
                .map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() })
                .collect();
            let mut free = name.clone();
            let mut number = 0;
            while !found.insert(free.clone()) {
                number += 1;
                free = format!("{name}-{number}");
            }
        }
    }
    found
}

/// A link of a page as a path from the root.
fn join(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Pages that a line of code or configuration names.
fn pages_named(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(concat!("do", "cs/")).filter_map(|(at, _)| {
        let before = line.get(..at)?.chars().next_back();
        let rest = line.get(at..)?;
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && !"/._-".contains(letter));
        let name = rest.get(..end.unwrap_or(rest.len()))?.trim_end_matches('.');
        let inner =
            before.is_some_and(|letter| letter.is_alphanumeric() || "/._-".contains(letter));
        (!inner && name.ends_with(".md")).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = "# A b\n[1](b.md) [2](b.md#one-two) [3](#a-b) [4](c.md) [5](b.md#no)\n\
                    [6](https://example.com/x) `[7](d.md)` [8](../README.md)\n```\n[9](e.md)\n```\n";
        let tree = Tree::of(&[
            ("guide/a.md", page),
            ("guide/b.md", "## One, `two`\n"),
            ("README.md", ""),
            ("a.rs", concat!("// see do", "cs/none.md, /srv/do", "cs/x.md")),
        ]);
        assert_eq!(
            followed(&tree).unwrap(),
            [
                "guide/a.md:2: `c.md` leads nowhere",
                "guide/a.md:2: `b.md#no` leads nowhere",
                concat!("a.rs:1: there is no `do", "cs/none.md`"),
            ]
        );
    }
}
