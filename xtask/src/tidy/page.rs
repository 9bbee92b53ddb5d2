//! The page (`crates/toolcrib/src/ui`): what its files may import, and that templates draw all of it.

use anyhow::Result;

use crate::tidy::tree::Tree;

const PAGE: &str = "crates/toolcrib/src/ui/";

/// The only file that makes elements itself: the few that no template can draw.
const MAKES_ELEMENTS: &str = "dom.js";

/// The file that connects the parts, so that it may import all of them.
const ENTRY: &str = "app.js";

/// The group of a file.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    /// Files in no folder: the state, requests to the server, JSON.
    Base,
    /// `lib/` and `vendor/`, which every other part may import.
    Shared,
    /// `shell/`, the frame of the page.
    Frame,
    Screen(&'a str),
}

/// Reports elements that no template makes, and imports from a part above or from another screen.
pub(crate) fn layers(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let Some(place) = file.path.strip_prefix(PAGE) else { continue };
        if !place.ends_with(".js") || place.starts_with("vendor/") {
            continue;
        }
        for (number, line) in (1..).zip(file.text.lines()) {
            let code = line.split("// ").next().unwrap_or_default();
            if place != MAKES_ELEMENTS && code.contains("document.createElement") {
                findings.push(format!(
                    "{}:{number}: makes an element: draw it with `html` of lib/ui.js",
                    file.path
                ));
            }
        }
        for target in imports(&file.text).filter_map(|path| resolved(place, path)) {
            if place != ENTRY && !may_import(&part(place), &part(&target)) {
                findings
                    .push(format!("{}: imports {target}: move what both need to lib/", file.path));
            }
        }
    }
    Ok(findings)
}

fn part(place: &str) -> Part<'_> {
    match place.split_once('/') {
        None => Part::Base,
        Some(("lib" | "vendor", _)) => Part::Shared,
        Some(("shell", _)) => Part::Frame,
        Some((folder, _)) => Part::Screen(folder),
    }
}

fn may_import(from: &Part<'_>, to: &Part<'_>) -> bool {
    match to {
        Part::Base | Part::Shared => true,
        Part::Frame => *from != Part::Shared,
        Part::Screen(_) => from == to,
    }
}

/// The paths of static and dynamic imports.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    ["from '", "import '", "import('"].into_iter().flat_map(move |start| {
        text.match_indices(start).filter_map(move |(at, _)| {
            let path = text.get(at + start.len()..)?.split('\'').next()?;
            path.starts_with('.').then_some(path)
        })
    })
}

/// The place of the file that `place` imports as `path`.
fn resolved(place: &str, path: &str) -> Option<String> {
    let mut folders: Vec<&str> = place.split('/').collect();
    folders.pop()?;
    for name in path.split('/') {
        match name {
            "." => {}
            ".." => drop(folders.pop()?),
            name => folders.push(name),
        }
    }
    Some(folders.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("{PAGE}{path}"), *text)).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        layers(&Tree::of(&files)).unwrap().iter().map(|finding| finding.replace(PAGE, "")).collect()
    }

    #[test]
    fn elements_that_no_template_draws_are_found() {
        let makes = "const it = document.createElement('p');\n";
        let drawn = "// not document.createElement\nhtml`<p></p>`;\n";
        let svg = "a();\nb(document.createElementNS(SVG, 'svg'));\n";
        let files = [
            ("dom.js", makes),
            ("vendor/preact.js", makes),
            ("lib/ui.js", makes),
            ("tools/list.js", svg),
            ("tools/about.js", drawn),
        ];
        assert_eq!(
            findings(&files),
            [
                "lib/ui.js:1: makes an element: draw it with `html` of lib/ui.js",
                "tools/list.js:2: makes an element: draw it with `html` of lib/ui.js",
            ]
        );
    }

    #[test]
    fn imports_from_above_or_from_another_screen_are_found() {
        let files = [
            ("app.js", "import { a } from './tools/list.js';"),
            ("auth.js", "import { a } from './shell/session.js';"),
            ("state.js", "import './tools/list.js';"),
            ("lib/tabs.js", "import {\n  a,\n} from './ui.js';\nimport { b } from '../dom.js';"),
            ("lib/ui.js", "import { a } from '../tools/badges.js';"),
            ("lib/pin.js", "export { may } from '../shell/session.js';"),
            ("shell/shell.js", "const a = import('../record/screen.js');"),
            ("record/screen.js", "import { a } from '../shell/session.js';\nimport './chart.js';"),
            ("access/roles.js", "const a = await import('../sources/proposal.js');"),
        ];
        assert_eq!(
            findings(&files),
            [
                "state.js: imports tools/list.js: move what both need to lib/",
                "lib/ui.js: imports tools/badges.js: move what both need to lib/",
                "lib/pin.js: imports shell/session.js: move what both need to lib/",
                "shell/shell.js: imports record/screen.js: move what both need to lib/",
                "access/roles.js: imports sources/proposal.js: move what both need to lib/",
            ]
        );
    }
}
