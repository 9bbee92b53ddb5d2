//! How the build joins the modules of the page.

#[path = "../../build/link.rs"]
mod link;

use std::collections::BTreeMap;

use self::link::Chunk;

fn linked(modules: &[(&str, &str)]) -> Result<BTreeMap<String, String>, String> {
    let modules = modules.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let chunks = link::link(&modules.collect(), "app.js")?;
    Ok(chunks.into_iter().map(|Chunk { name, text }| (name, text)).collect())
}

#[test]
fn a_module_is_in_the_file_of_those_that_need_it() {
    let files = linked(&[
        ("app.js", "// Starts.\nimport { a } from './lib/a.js';\nconst one = () => import('./one/screen.js').then((it) => it.One);\nconst two = () => import('./two/view.js');\na(one, two);\n"),
        ("lib/a.js", "export function a() {}\n"),
        ("lib/both.js", "import { a } from './a.js';\nexport const both = a;\n"),
        ("lib/alone.js", "export class Alone {}\n"),
        ("one/screen.js", "import { both } from '../lib/both.js';\nimport {\n  Alone,\n} from '../lib/alone.js';\nexport function One() { return [both, Alone]; }\n"),
        ("two/view.js", "import { both as b } from '../lib/both.js';\nexport async function two() { return b; }\n"),
        ("unused.js", "export const x = 1;\n"),
    ])
    .unwrap();
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["app.js", "one.js", "shared.js", "two-view.js"]);
    assert_eq!(
        files["app.js"],
        "const $lib_a_js = (() => {\nfunction a() {}\nreturn { a };\n})();\n\
         (async () => {\nconst { a } = $lib_a_js;\n\
         const one = () => import('./one.js').then((it) => it.$one_screen_js).then((it) => it.One);\n\
         const two = () => import('./two-view.js').then((it) => it.$two_view_js);\n\
         a(one, two);\n})();\nexport { $lib_a_js };\n"
    );
    assert!(files["one.js"].starts_with("import { $lib_both_js } from './shared.js';\n"));
    assert!(files["one.js"].contains("class Alone {}"), "{}", files["one.js"]);
    assert!(files["shared.js"].starts_with("import { $lib_a_js } from './app.js';\n"));
    assert!(files["two-view.js"].contains("const { both: b } = $lib_both_js;"));
    assert!(files.values().all(|text| !text.contains("const x = 1")), "what no file imports");
}

#[test]
fn lists_of_exports_are_understood() {
    let files = linked(&[
        ("app.js", "import { b, c, d } from './lists.js';\nb(c, d);\n"),
        ("lists.js", "import { d } from './min.js';\nfunction a() {}\nconst c = 1;\nexport {\n  a as b,\n  c,\n  d,\n};\n"),
        ("min.js", "var e=1;export{e as d};\n"),
    ])
    .unwrap();
    assert!(files["app.js"].contains("return { b: a, c, d };"), "{}", files["app.js"]);
    assert!(files["app.js"].contains("var e=1;"), "{}", files["app.js"]);
    assert!(files["app.js"].contains("return { d: e };"), "{}", files["app.js"]);
}

/// A mistake is an error of the build, with the name of the module, and not one of the browser.
#[test]
fn what_cannot_be_joined_is_named() {
    let app = |text: &'static str| linked(&[("app.js", text), ("a.js", "export const a = 1;\n")]);
    for (text, problem) in [
        ("import { a } from './none.js';\n", "app.js: imports none.js, which does not exist"),
        ("import { b } from './a.js';\n", "app.js: a.js does not export `b`"),
        ("import a from './a.js';\n", "app.js: cannot be joined: import a from './a.js'"),
        ("import * as a from './a.js';\n", "app.js: cannot be joined: import * as a from './a.js'"),
        ("import { a } from 'preact';\n", "app.js: cannot be joined: import { a } from 'preact'"),
        (
            "import { a } from '../../a.js';\n",
            "app.js: cannot be joined: import { a } from '../../a.js'",
        ),
        ("export let a = 1;\n", "app.js: cannot be joined: export let a = 1;"),
        (
            "export default function A() {}\n",
            "app.js: cannot be joined: export default function A() {}",
        ),
        ("export const { a, b } = c;\n", "app.js: cannot be joined: export const { a, b } = c;"),
        (
            "const a = (b) => import(`./${b}.js`);\n",
            "app.js: imports a computed place, which cannot be found in the build",
        ),
        ("const a = () => import('./none.js');\n", "none.js: there is no such module"),
    ] {
        assert_eq!(app(text).unwrap_err(), problem);
    }
    let cycle = linked(&[
        ("app.js", "import { a } from './a.js';\na();\n"),
        ("a.js", "import { b } from './b.js';\nexport const a = b;\n"),
        ("b.js", "import { a } from './a.js';\nexport const b = a;\n"),
    ]);
    assert_eq!(cycle.unwrap_err(), "modules import each other, among: a.js, app.js, b.js");
}
