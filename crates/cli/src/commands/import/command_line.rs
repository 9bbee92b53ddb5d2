//! Commands as clients write them: in one word, for the shell of Windows, or with a program of Windows.

use super::{arguments::RUNNERS, described::Obstacle, reference, secrets::is_path};

const SHELL: &str = "it is a line for a shell; write the program and its arguments";
const PROGRAM: &str = "its program is one of Windows; write the one of this machine";

/// Programs that only Windows has.
const WINDOWS: &[&str] = &["cmd", "cscript", "powershell", "py", "start", "wscript", "wsl"];

/// The words of a command, and the changes in them.
#[derive(Debug, Default)]
pub(super) struct CommandLine {
    pub(super) words: Vec<String>,
    /// Changes that the import reports.
    pub(super) changes: Vec<&'static str>,
}

impl CommandLine {
    pub(super) fn read(words: Vec<String>, obstacle: &mut Obstacle) -> Self {
        let words = words.into_iter().map(|word| with_references(&word)).collect();
        let mut line = Self { words, changes: Vec::new() };
        line.split(obstacle);
        line.leave_shell(obstacle);
        line.rename(obstacle);
        let has_windows_path = line.words.iter().skip(1).any(|word| is_windows_path(word));
        if has_windows_path {
            line.changes.push("an argument is a path of Windows");
            obstacle.add("an argument is a path of Windows; write the one of this machine");
        }
        line
    }

    /// Splits a first word that has the arguments too.
    fn split(&mut self, obstacle: &mut Obstacle) {
        let Some(first) =
            self.words.first().filter(|word| word.trim().contains(char::is_whitespace))
        else {
            return;
        };
        if is_program_path(first) {
            return;
        }
        match split(first) {
            Some(words) => {
                self.words.splice(..1, words);
                self.changes.push("it was split at its blanks");
            }
            None => {
                self.changes.push(SHELL);
                obstacle.add(format!("its `command`: {SHELL}"));
            }
        }
    }

    /// Leaves `cmd /c` out.
    fn leave_shell(&mut self, obstacle: &mut Obstacle) {
        if self.words.first().map(|word| stem(word)) != Some("cmd".to_owned()) {
            return;
        }
        let is_switch = |word: &&String| word.starts_with('/') && word.len() <= 3;
        let switches = self.words.iter().skip(1).take_while(is_switch).count();
        let is_command =
            self.words.iter().skip(1).take(switches).any(|word| word.eq_ignore_ascii_case("/c"));
        let rest: Vec<String> = self.words.iter().skip(1 + switches).cloned().collect();
        let rest = match rest.as_slice() {
            [line] if line.contains(char::is_whitespace) => split(line),
            _ => Some(rest),
        };
        let is_sign = |word: &String| word.contains(['&', '|', '>', '<', '^']);
        match rest.filter(|rest| is_command && !rest.is_empty() && !rest.iter().any(is_sign)) {
            Some(rest) => {
                self.words = rest;
                self.changes.push("`cmd /c` is left out; its command is started directly");
            }
            None => {
                self.changes.push("it is a line for the shell of Windows");
                obstacle.add("its `command` is a line for the shell of Windows");
            }
        }
    }

    /// Removes the ending of a common program, and finds programs of Windows.
    fn rename(&mut self, obstacle: &mut Obstacle) {
        let Some(program) = self.words.first_mut() else { return };
        let stem = stem(program);
        let is_bare = !program.contains(['/', '\\']);
        let has_ending = has_windows_ending(program);
        if is_bare && has_ending && (RUNNERS.contains(&stem.as_str()) && stem != "cmd") {
            *program = stem.clone();
            self.changes.push("the ending of its program is left out");
        }
        let is_windows = is_windows_path(program)
            || has_windows_ending(program)
            || program.contains('\\')
            || WINDOWS.contains(&stem.as_str());
        if is_windows {
            self.changes.push(PROGRAM);
            obstacle.add(PROGRAM);
        }
    }
}

/// The name of a program in lower case, without its directory and ending.
fn stem(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let stem = [".exe", ".cmd", ".bat", ".ps1"].iter().find_map(|end| name.strip_suffix(end));
    stem.unwrap_or(&name).to_owned()
}

fn has_windows_ending(program: &str) -> bool {
    let name = program.to_ascii_lowercase();
    [".exe", ".cmd", ".bat", ".ps1"].iter().any(|end| name.ends_with(end))
}

/// Whether a text with blanks is the path of one program.
fn is_program_path(text: &str) -> bool {
    let begins_another =
        |word: &str| word.starts_with(['/', '-', '~', '$']) || word.contains("://");
    (is_path(&reference::plain(text)) || has_windows_ending(text))
        && !text.split_whitespace().skip(1).any(begins_another)
}

/// Whether `text` starts with a path of Windows, or has one as a value.
pub(super) fn is_windows_path(text: &str) -> bool {
    let begins = |text: &str| {
        let mut chars = text.chars();
        let is_drive = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
            && chars.next() == Some(':')
            && matches!(chars.next(), Some('\\' | '/'));
        is_drive && !text.get(2..).is_some_and(|rest| rest.starts_with("//"))
            || text.starts_with("\\\\")
            || text.starts_with(".\\")
            || text.starts_with("..\\")
    };
    text.split(['=', ',', '"']).any(begins) || (text.starts_with("${") && text.contains("}\\"))
}

/// Splits a line at its blanks, except in quotes; `None` if it has shell operators.
fn split(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (_, c) if c.is_control() => return None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, '\\' | '`') => return None,
            (None, '&' | '|' | ';' | '<' | '>' | '(' | ')' | '*' | '#') => return None,
            (Some('"') | None, '$') if rest.peek() != Some(&'{') => return None,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (quote.is_none() && !words.is_empty()).then_some(words)
}

/// Writes references such as `%NAME%` in the form of other clients.
pub(super) fn with_references(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let name = after.split_once('%').filter(|(name, _)| is_windows_variable(name));
        rest = match name {
            Some((name, after)) => {
                out.push_str(&format!("${{{name}}}"));
                after
            }
            None => {
                out.push('%');
                after
            }
        };
    }
    out + rest
}

/// Whether `name` is a variable, not a part of an address.
fn is_windows_variable(name: &str) -> bool {
    (3..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> (Vec<String>, usize, Option<String>) {
        let mut obstacle = Obstacle::default();
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let line = CommandLine::read(words, &mut obstacle);
        (line.words, line.changes.len(), obstacle.into_reason())
    }

    #[test]
    fn commands_become_words_of_this_machine() {
        for (words, expected) in [
            (&["npx -y notes"][..], &["npx", "-y", "notes"][..]),
            (&["uvx 'my server' --x", "y"], &["uvx", "my server", "--x", "y"]),
            (&["/usr/bin/node /srv/a.js"], &["/usr/bin/node", "/srv/a.js"]),
            (&["cmd", "/c", "npx", "-y", "notes"], &["npx", "-y", "notes"]),
            (&["cmd.exe", "/d", "/C", "npx -y notes"], &["npx", "-y", "notes"]),
            (&["CMD /c uvx notes"], &["uvx", "notes"]),
            (&["npx.cmd", "-y", "notes"], &["npx", "-y", "notes"]),
            (&["cmd", "/c", "node.exe", "a.js"], &["node", "a.js"]),
        ] {
            let (read, changes, obstacle) = read(words);
            assert_eq!(
                (read.as_slice(), obstacle),
                (&expected.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()[..], None),
                "{words:?}"
            );
            assert!(changes > 0, "{words:?}");
        }
        for words in [
            &["/Applications/My Notes/server"][..],
            &["npx", "-y", "notes"],
            &["curl", "https://a.example/x%20y%2Fz"],
            &["docker", "run", "-v", "/a:/b", "image"],
            &[],
            &[""],
            &["server", "100%", "%%", "%"],
        ] {
            assert_eq!(
                read(words),
                (words.iter().map(|word| (*word).to_owned()).collect(), 0, None)
            );
        }
        assert_eq!(read(&["server", "%TOKEN%"]).0, ["server", "${TOKEN}"]);
    }

    #[test]
    fn commands_that_only_windows_or_a_shell_runs_are_obstacles() {
        for words in [
            &["C:\\tools\\notes.exe"][..],
            &["C:/Program Files/notes/notes.exe"],
            &["notes.exe"],
            &["bin\\notes"],
            &["powershell", "-File", "x.ps1"],
            &["wsl", "npx", "notes"],
            &["cmd"],
            &["cmd", "/k", "x"],
            &["cmd", "/c", "cd x && npx notes"],
            &["npx", "notes", "D:\\data"],
            &["npx", "notes", "--dir=D:/data"],
            &["npx", "notes", "%APPDATA%\\data"],
            &["cd /srv && npx notes"],
            &["npx \"notes"],
            &["npx\nnotes"],
        ] {
            let (_, changes, obstacle) = read(words);
            assert!(obstacle.is_some() && changes > 0, "{words:?}");
        }
    }
}
