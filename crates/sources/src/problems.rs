//! Problems of an upstream's tools, for the operator.

/// A list of at most `MAX` problems: further ones are only counted.
#[derive(Default)]
pub(crate) struct Problems<const MAX: usize> {
    messages: Vec<String>,
    more: usize,
}

impl<const MAX: usize> Problems<MAX> {
    pub(crate) fn add(&mut self, problem: impl Into<String>) {
        match self.messages.len() < MAX {
            true => self.messages.push(problem.into()),
            false => self.more += 1,
        }
    }

    /// The problems; `rest` describes how many more there are.
    pub(crate) fn finish(mut self, rest: impl FnOnce(usize) -> String) -> Vec<String> {
        if self.more > 0 {
            self.messages.push(rest(self.more));
        }
        self.messages
    }
}
