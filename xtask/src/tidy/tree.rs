//! The files of the tree, read once.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::tidy::source::Source;
use crate::{paths, shell};

/// Every text file that is tracked or could be.
#[derive(Debug)]
pub(crate) struct Tree {
    files: Vec<TextFile>,
}

/// A path from the root, with `/`, and the text.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Tree {
    /// Files that git tracks or would track, except binary ones.
    pub(crate) fn read() -> Result<Self> {
        let root = paths::root();
        let mut list = Command::new("git");
        list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let names = shell::output(list.current_dir(&root))?;
        let read = |path: &str| {
            let text = fs::read_to_string(root.join(path)).ok()?;
            Some(TextFile { path: path.to_owned(), text })
        };
        Ok(Self { files: names.split_terminator('\0').filter_map(read).collect() })
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter()
    }

    /// The file at `path`, if it exists.
    pub(crate) fn get(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The sources of the Rust files under `crates/<one of members>/src`.
    pub(crate) fn sources<'a>(
        &'a self,
        members: &'a [&str],
    ) -> impl Iterator<Item = (&'a str, Source<'a>)> {
        let belongs = move |path: &str| {
            members.iter().any(|member| path.starts_with(&format!("crates/{member}/src/")))
        };
        self.rust()
            .filter(move |file| belongs(&file.path))
            .map(|file| (file.path.as_str(), Source::new(&file.path, &file.text)))
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| {
            Path::new(&file.path).extension().is_some_and(|extension| extension == "rs")
        })
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| TextFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self { files: files.iter().map(file).collect() }
    }
}
