//! The configurations of `examples/`: each is complete and right as it is.

use std::{fs, path::Path};

use crate::support::{SIGNING_KEY, dir, run, toolcrib};

/// The folders of `examples/`, which its page lists.
pub(crate) const FOLDERS: [&str; 6] =
    ["air-gapped", "approvals", "cluster", "explorer-only", "one-developer", "team"];

/// Directories that the comment of a file makes before the first start.
const MADE_BEFORE: [&str; 2] = ["notes", "reports"];

pub(crate) fn examples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn every_example_is_a_right_configuration() {
    for name in FOLDERS {
        let place = dir();
        for entry in fs::read_dir(examples().join(name)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, place.path().join(path.file_name().unwrap())).unwrap();
        }
        for folder in MADE_BEFORE {
            fs::create_dir(place.path().join(folder)).unwrap();
        }
        if name == "cluster" {
            fs::write(place.path().join("signing.key"), SIGNING_KEY).unwrap();
            run(place.path(), &["credentials", "new-key", "--out", "seal.key"]).ok();
        }
        let mut command = toolcrib(place.path());
        command.env("TOOLCRIB_DB_PASSWORD", "x").env("SHOP_TOKEN", "Bearer x");
        let output = command.args(["config", "check"]).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.contains("ok"), "{name}: {said}");
        assert!(!said.contains("matches no"), "{name}: {said}");
    }
}

#[test]
fn the_page_of_the_examples_lists_them() {
    let page = fs::read_to_string(examples().join("README.md")).unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir(examples()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found.sort();
    assert_eq!(found, FOLDERS);
    for name in FOLDERS {
        assert!(page.contains(&format!("[{name}]({name}/toolcrib.toml)")), "{name}");
    }
}
