//! Where desktop clients keep their files.

use std::path::PathBuf;

use crate::env;

/// The usual files: the name of the client, and the path.
///
/// The places of all systems are included, because a home can be shared between them.
pub(super) fn all() -> Vec<(&'static str, PathBuf)> {
    let home = ["HOME", "USERPROFILE"].into_iter().find_map(env::variable).map(PathBuf::from);
    let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let variable = |name: &str| env::variable(name).map(PathBuf::from);
    // The directories of settings: Linux, macOS, Windows.
    let linux = variable("XDG_CONFIG_HOME").or_else(|| in_home(".config"));
    let macos = in_home("Library/Application Support");
    let windows = variable("APPDATA").or_else(|| in_home("AppData/Roaming"));
    let settings = [linux, macos, windows];
    let codex = variable("CODEX_HOME").or_else(|| in_home(".codex"));

    let in_settings = |client: &'static str, path: &'static str| {
        settings.iter().flatten().map(move |folder| (client, folder.join(path)))
    };
    let here = |client, path: &str| Some((client, PathBuf::from(path)));
    let mut files: Vec<(&'static str, PathBuf)> = Vec::new();
    files.extend(in_settings("Claude Desktop", "Claude/claude_desktop_config.json"));
    files.extend(in_home(".claude.json").map(|file| ("Claude Code", file)));
    files.extend(here("Claude Code", ".mcp.json"));
    files.extend(in_home(".cursor/mcp.json").map(|file| ("Cursor", file)));
    files.extend(here("Cursor", ".cursor/mcp.json"));
    for path in ["Code/User/mcp.json", "Code/User/settings.json"] {
        files.extend(in_settings("VS Code", path));
    }
    files.extend(here("VS Code", ".vscode/mcp.json"));
    files.extend(codex.map(|folder| ("Codex", folder.join("config.toml"))));
    files
}

/// Returns `path` as text, with `~` for the home.
pub(super) fn shown(path: &std::path::Path) -> String {
    let home = env::variable("HOME");
    let below =
        home.and_then(|home| path.strip_prefix(home).ok().map(std::path::Path::to_path_buf));
    match below {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}
