//! The path of the `faulty-upstream` program.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::SystemTime,
};

/// Returns the path of `faulty-upstream`. Cargo builds the programs of a package only for its own
/// tests, so this builds it once if it is missing or older than its sources.
pub fn faulty_program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(locate).clone()
}

fn locate() -> PathBuf {
    let this = std::env::current_exe().expect("the path of the running test");
    // target/<profile>/deps/test-1234 or target/<profile>/program
    let profile = this
        .ancestors()
        .skip(1)
        .find(|directory| directory.file_name().is_some_and(|name| name != "deps"))
        .expect("a test runs below a target directory");
    let program = profile.join(format!("faulty-upstream{}", std::env::consts::EXE_SUFFIX));
    if is_current(&program) {
        return program;
    }
    let target = profile.parent().expect("a profile lies in a target directory");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", "toolcrib-testkit", "--bin", "faulty-upstream"]);
    build.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target);
    if profile.file_name().is_some_and(|name| name == "release") {
        build.arg("--release");
    }
    let built = build.status().expect("cargo can be run");
    assert!(built.success(), "faulty-upstream could not be built");
    assert!(program.exists(), "faulty-upstream is not where it was built");
    program
}

fn is_current(program: &Path) -> bool {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let modified = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let newest = ["upstream.rs", "bin/faulty-upstream.rs"]
        .iter()
        .map(|name| sources.join(name))
        .chain(
            fs::read_dir(sources.join("upstream"))
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.path()),
        )
        .filter_map(|path| modified(&path))
        .max();
    modified(program) >= newest.or(Some(SystemTime::UNIX_EPOCH))
}
