//! The configuration file is read again when it changes.

use std::{fs, path::Path, thread, time::Duration};

use serde_json::Value;

use crate::support::{Caller, Server, config, dir, eventually, key, run, toolcrib, write_config};

const SECOND: &str = "[[source]]\nid = \"second\"\nkind = \"mcp\"\ncommand = [\"PROGRAM\", \
                      \"demo-upstream\"]\n";

fn two_sources() -> String {
    config("") + &SECOND.replace("PROGRAM", crate::support::PROGRAM)
}

fn tools(caller: &Caller) -> Vec<String> {
    let listed = caller.get("/v1/tools");
    let listed =
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(listed)).1;
    let id = |tool: &Value| tool["toolId"].as_str().unwrap().to_owned();
    listed.as_array().map(|tools| tools.iter().map(id).collect()).unwrap_or_default()
}

/// Puts `text` in the place of the file in one step.
fn replace(file: &Path, text: &str) {
    let fresh = file.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, file).unwrap();
}

fn reloads(server: &Server) -> usize {
    server.process.stderr().matches("the configuration was reloaded").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_is_taken_over() {
    let dir = dir();
    let file = write_config(dir.path(), &config(""));
    let mut server = Server::start(dir.path());
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let caller = server.caller(Some(&text));
    eventually("the tools are there", || tools(&caller).len() == 6);

    replace(&file, &two_sources());
    eventually("the new source's tools are there", || {
        tools(&caller).contains(&"mcp:second.echo".to_owned())
    });
    eventually("it is said once", || reloads(&server) == 1);

    replace(&file, "[gate]\nrate = \"many\"\n");
    let said = server.process.until("the refusal", |it| {
        let said = it.stderr();
        // The cause is on another line, which may be written later.
        let whole = said.contains("not applied") && said.contains("`gate.rate`");
        whole.then_some(said)
    });
    assert!(said.contains("toolcrib.toml:2: `gate.rate`"), "{said}");
    assert_eq!(tools(&caller).len(), 12, "the old one stays");

    // Written in place, as an editor may.
    fs::write(&file, config("")).unwrap();
    eventually("the source is gone", || tools(&caller).len() == 6);
    eventually("it is said", || reloads(&server) == 2);

    // A touch, and the same text in another file, are no change. The one behind them shows that
    // they were seen.
    let now = std::time::SystemTime::now();
    fs::File::options().write(true).open(&file).unwrap().set_modified(now).unwrap();
    replace(&file, &config(""));
    thread::sleep(Duration::from_millis(1000));
    replace(&file, &two_sources());
    eventually("it is said again", || reloads(&server) == 3);
    eventually("the source is back", || tools(&caller).len() == 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_followed() {
    // As Kubernetes mounts files: toolcrib.toml -> ..data/toolcrib.toml, and ..data -> a directory.
    use std::os::unix::fs::symlink;
    let dir = dir();
    let mount = dir.path().join("mount");
    let put = |version: &str, text: &str| {
        let at = mount.join(version);
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("toolcrib.toml"), text).unwrap();
        symlink(version, mount.join("..data.new")).unwrap();
        fs::rename(mount.join("..data.new"), mount.join("..data")).unwrap();
    };
    put("..1", &config(""));
    symlink("..data/toolcrib.toml", mount.join("toolcrib.toml")).unwrap();
    let data = dir.path().join("data");
    let args = ["serve", "--config", "mount/toolcrib.toml", "--data-dir"];
    let server = Server::of(toolcrib(dir.path()).args(args).arg(&data));
    put("..2", &two_sources());
    eventually("it is taken over", || reloads(&server) == 1);
}

#[test]
fn a_file_that_appears_is_taken_over() {
    let dir = dir();
    let server = Server::of(toolcrib(dir.path()).args(["serve", "--listen", "127.0.0.1:0"]));
    write_config(dir.path(), &config(""));
    eventually("it is taken over", || reloads(&server) == 1);
}

/// A link to an endless file is refused like a file that is too large. The server keeps running, reads
/// the next file and ends on a signal.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_an_end_changes_nothing() {
    use std::os::unix::fs::symlink;
    let dir = dir();
    let file = write_config(dir.path(), &config(""));
    let args = ["serve", "--config", "toolcrib.toml"];
    let mut server = Server::of(toolcrib(dir.path()).args(args));
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let caller = server.caller(Some(&text));
    eventually("the tools are there", || tools(&caller).len() == 6);
    let refusals = |server: &Server| server.process.stderr().matches("not applied").count();

    let fresh = file.with_extension("new");
    symlink("/dev/zero", &fresh).unwrap();
    fs::rename(&fresh, &file).unwrap();
    server.process.until("the refusal", |it| {
        let said = it.stderr();
        (said.contains("not applied") && said.contains("larger than 4 MiB")).then_some(())
    });
    assert_eq!(tools(&caller).len(), 6, "the old one stays");
    replace(&file, &two_sources());
    eventually("the good file is taken over", || reloads(&server) == 1);
    eventually("the new source's tools are there", || tools(&caller).len() == 12);

    // A pipe without a writer does not block.
    let before = refusals(&server);
    let made = rustix::fs::mkfifoat(rustix::fs::CWD, &fresh, rustix::fs::Mode::RUSR);
    made.unwrap();
    fs::rename(&fresh, &file).unwrap();
    eventually("the pipe is refused", || refusals(&server) > before);
    replace(&file, &config(""));
    eventually("the good file is taken over", || reloads(&server) == 2);
    eventually("the source is gone", || tools(&caller).len() == 6);

    symlink("/dev/zero", &fresh).unwrap();
    let before = refusals(&server);
    fs::rename(&fresh, &file).unwrap();
    eventually("the link is refused again", || refusals(&server) > before);
    server.stop();
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let dir = dir();
    let file = write_config(dir.path(), "");
    let limit = 4 << 20;
    let write = |bytes: usize| fs::write(&file, "#".repeat(bytes)).unwrap();
    write(limit);
    run(dir.path(), &["config", "check"]).ok();
    write(limit + 1);
    for command in [&["config", "check"][..], &["tools", "list"], &["serve"]] {
        let refused = run(dir.path(), command);
        assert_eq!(refused.code, 1, "{refused:?}");
        let why = "the configuration toolcrib.toml cannot be read";
        assert!(refused.stderr.contains(why), "{refused:?}");
        assert!(refused.stderr.contains("it is larger than 4 MiB"), "{refused:?}");
    }
    // The file that is used when none is named is not passed over when it is no regular one.
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    let refused = run(dir.path(), &["tools", "list"]);
    assert!(refused.stderr.contains("it is larger than 4 MiB"), "{refused:?}");
}
