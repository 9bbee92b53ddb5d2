//! The facts of a built program that its packages must state: system, C library and libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::FileHeader as _;

use crate::shell;

/// A program for Linux with glibc.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) architecture: Architecture,
    /// The oldest glibc that it runs with, such as `(2, 34)`.
    pub(super) glibc: (u32, u32),
    /// The file names of the libraries that it is linked with.
    pub(super) libraries: Vec<String>,
    /// The path of the loader that starts it.
    pub(super) loader: String,
}

/// The name of a processor in each naming scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Architecture {
    /// In Rust's targets, in wheels and for Linux.
    pub(super) machine: &'static str,
    /// In Debian and for containers.
    pub(super) debian: &'static str,
    /// In Node.js.
    pub(super) node: &'static str,
}

const X86_64: Architecture = Architecture { machine: "x86_64", debian: "amd64", node: "x64" };
const AARCH64: Architecture = Architecture { machine: "aarch64", debian: "arm64", node: "arm64" };

impl Program {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let data = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(path, &data)
            .with_context(|| format!("{} is no program for Linux with glibc", path.display()))
    }

    fn parse(path: &Path, data: &[u8]) -> Result<Self> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let architecture = match header.e_machine(endian) {
            elf::EM_X86_64 => X86_64,
            elf::EM_AARCH64 => AARCH64,
            _ => bail!("its processor is neither x86_64 nor aarch64"),
        };
        let sections = header.sections(endian, data)?;
        let mut glibc = (0, 0);
        if let Some((mut needs, link)) = sections.gnu_verneed(endian, data)? {
            let strings = sections.strings(endian, data, link)?;
            while let Some((_, mut versions)) = needs.next()? {
                while let Some(version) = versions.next()? {
                    glibc = glibc.max(version_of(version.name(endian, strings)?));
                }
            }
        }
        let mut libraries = Vec::new();
        let table = sections.dynamic_table(endian, data)?;
        for entry in &table {
            if entry.tag == elf::DT_NEEDED {
                libraries.push(String::from_utf8_lossy(table.string(entry)?).into_owned());
            }
        }
        let mut loader = None;
        for segment in header.program_headers(endian, data)? {
            use object::read::elf::ProgramHeader as _;
            loader = loader.or(segment.interpreter(endian, data)?);
        }
        let loader = loader.context("it names no loader")?;
        if glibc == (0, 0) {
            bail!("it requires no version of glibc");
        }
        let loader = String::from_utf8_lossy(loader).into_owned();
        Ok(Self { path: path.to_path_buf(), architecture, glibc, libraries, loader })
    }

    /// The target's name in Rust.
    pub(super) fn target(&self) -> String {
        format!("{}-unknown-linux-gnu", self.architecture.machine)
    }

    /// The version that the program prints, without its commit.
    pub(super) fn version(&self) -> Result<String> {
        let line = shell::output(Command::new(&self.path).arg("-V"))?;
        let version = line.split_whitespace().nth(1).filter(|_| line.starts_with("toolcrib "));
        version.map(str::to_owned).with_context(|| format!("`toolcrib -V` printed {line:?}"))
    }

    /// The files of its libraries and of its loader on this machine, by the paths where the program
    /// looks for them.
    pub(super) fn library_files(&self) -> Result<Vec<(String, PathBuf)>> {
        let listed = shell::output(Command::new("ldd").arg(&self.path))?;
        let mut files = vec![(self.loader.clone(), PathBuf::from(&self.loader))];
        for line in listed.lines() {
            let Some((name, rest)) = line.trim().split_once(" => ") else { continue };
            let Some(path) = rest.split_whitespace().next().filter(|word| word.starts_with('/'))
            else {
                bail!("the library {name} is missing on this machine");
            };
            files.push((path.to_owned(), path.into()));
        }
        Ok(files)
    }
}

/// Reads `GLIBC_2.34`; any other text is version 0.
fn version_of(name: &[u8]) -> (u32, u32) {
    let text = std::str::from_utf8(name).unwrap_or_default();
    let mut numbers = text.strip_prefix("GLIBC_").unwrap_or_default().split('.');
    let mut number = || numbers.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    (number(), number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version_of(b"GLIBC_2.34"), (2, 34));
        assert!(version_of(b"GLIBC_2.4") < version_of(b"GLIBC_2.34"));
        assert_eq!(version_of(b"GLIBC_PRIVATE"), (0, 0));
        assert_eq!(version_of(b"GCC_3.0"), (0, 0));
    }

    #[test]
    fn this_test_is_a_program_with_libc() {
        let own = Program::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.glibc >= (2, 17), "{own:?}");
        assert!(own.libraries.iter().any(|name| name.starts_with("libc.so")), "{own:?}");
        assert!(own.library_files().unwrap().len() >= 2);
    }

    #[test]
    fn a_script_is_no_program() {
        let script = tempfile::NamedTempFile::new().unwrap();
        fs::write(script.path(), "#!/bin/sh\n").unwrap();
        assert!(Program::read(script.path()).is_err());
    }
}
