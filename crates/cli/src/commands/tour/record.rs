//! Changes one event in an exported record, as `sed` would.

use serde_json::Value;

/// The change of one event: the first `from` becomes `to`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// Selects the line of the event. Its number changes with every export that has more checkpoints.
    pub(super) line: String,
    /// Where the event is in the log of its tenant.
    pub(super) position: u64,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

impl Edit {
    /// The edit that names another caller in the last recorded call of `tool` by `admin`.
    pub(super) fn of_caller(record: &str, tool: &str) -> Option<Self> {
        let (id, position) = record.lines().rev().find_map(|line| {
            let event: Value = serde_json::from_str(line).ok()?;
            let text = |pointer| event.pointer(pointer).and_then(Value::as_str);
            let is_meant = text("/type") == Some("agent.toolCalled")
                && text("/payload/toolName") == Some(tool)
                && text("/payload/principal") == Some("admin");
            let position = event.pointer("/chain/position").and_then(Value::as_u64)?;
            is_meant.then_some((text("/eventId")?.to_owned(), position))
        })?;
        let line = format!("\"eventId\":\"{id}\"");
        Some(Self {
            line,
            position,
            from: "\"principal\":\"admin\"",
            to: "\"principal\":\"reader\"",
        })
    }

    /// The argument of `sed` for this edit.
    pub(super) fn script(&self) -> String {
        format!("/{}/s/{}/{}/", self.line, self.from, self.to)
    }

    pub(super) fn apply(&self, record: &str) -> String {
        let lines = record.lines().map(|line| match line.contains(&self.line) {
            true => line.replacen(self.from, self.to, 1) + "\n",
            false => format!("{line}\n"),
        });
        lines.collect()
    }
}

/// Returns `text` as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.:=_-@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_is_replaced_in_one_line() {
        let event = |position: u64, kind: &str, principal: &str| {
            format!(
                "{{\"eventId\":\"e{position}\",\"type\":\"{kind}\",\
                 \"payload\":{{\"toolName\":\"t\",\"principal\":\"{principal}\"}},\
                 \"chain\":{{\"position\":{position}}}}}\n"
            )
        };
        let record = [
            "{\"kind\":\"head\"}\n".to_owned(),
            event(7, "agent.toolCalled", "admin"),
            event(8, "agent.toolCalled", "admin"),
            event(9, "agent.toolCalled", "reader"),
            event(10, "agent.toolReturned", "admin"),
        ]
        .concat();
        let edit = Edit::of_caller(&record, "t").unwrap();
        assert_eq!(edit.position, 8);
        let script = "/\"eventId\":\"e8\"/s/\"principal\":\"admin\"/\"principal\":\"reader\"/";
        assert_eq!(edit.script(), script);
        let wanted = record.replace(
            &event(8, "agent.toolCalled", "admin"),
            &event(8, "agent.toolCalled", "reader"),
        );
        assert_eq!(edit.apply(&record), wanted);
        assert_eq!(Edit::of_caller(&record, "u"), None);
    }

    #[test]
    fn words_are_quoted_only_if_they_must_be() {
        assert_eq!(quoted("--key-file"), "--key-file");
        assert_eq!(quoted("go ahead"), "'go ahead'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
