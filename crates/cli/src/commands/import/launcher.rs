//! Commands that start through `sh`, which puts values of variables into the arguments.
//!
//! Invariant: no value is part of the command; `sh` takes it from the environment.

/// A part of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// The value of this variable of the program.
    Variable(String),
}

/// The command for `words`; through `sh` if an argument has a variable.
pub(super) fn command(words: &[Vec<Piece>]) -> Vec<String> {
    let has_variable = words.iter().flatten().any(|piece| matches!(piece, Piece::Variable(_)));
    if !has_variable {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) | Piece::Variable(text) => text.clone(),
        };
        return words.iter().map(|word| word.iter().map(text).collect()).collect();
    }
    let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    vec!["sh".to_owned(), "-c".to_owned(), format!("exec {}", line.join(" "))]
}

/// Quotes a word for the shell.
fn quoted(word: &[Piece]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,+%".contains(c);
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) if text.chars().all(is_plain) => text.clone(),
        Piece::Text(text) => format!("'{}'", text.replace('\'', "'\\''")),
        Piece::Variable(name) => format!("\"${name}\""),
    };
    let text: String = word.iter().map(piece).collect();
    if text.is_empty() { "''".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_with_variables_need_a_shell() {
        let text = |text: &str| vec![Piece::Text(text.to_owned())];
        let variable = Piece::Variable("KEY".to_owned());
        let words = [text("npx"), text("it's $5"), text("")];
        assert_eq!(command(&words), ["npx", "it's $5", ""]);
        let mut words = words.to_vec();
        words.push(vec![Piece::Text("--key=".to_owned()), variable]);
        let line = r#"exec npx 'it'\''s $5' '' --key="$KEY""#;
        assert_eq!(command(&words), ["sh", "-c", line]);
    }
}
