//! Reads the OpenMetrics text of a server.

use std::collections::BTreeMap;

/// The samples of one moment.
#[derive(Debug, Default)]
pub(super) struct Exposition(Vec<Sample>);

#[derive(Debug)]
pub(super) struct Sample {
    name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

// === impl Exposition ===

impl Exposition {
    /// Parses `text`; `None` if a line is not a sample, or the end is missing.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut samples = Vec::new();
        let mut is_complete = false;
        for line in text.lines() {
            is_complete = line == "# EOF";
            if !line.is_empty() && !line.starts_with('#') {
                samples.push(sample(line)?);
            }
        }
        is_complete.then_some(Self(samples))
    }

    /// Returns the samples with the name `toolcrib_` and `name`.
    pub(super) fn samples(&self, name: &str) -> impl Iterator<Item = &Sample> {
        self.0.iter().filter(move |sample| sample.name.strip_prefix("toolcrib_") == Some(name))
    }

    /// The sum of all samples of `name`; `None` without samples.
    pub(super) fn sum(&self, name: &str) -> Option<f64> {
        self.samples(name).map(|sample| sample.value).reduce(|one, two| one + two)
    }
}

// === impl Sample ===

impl Sample {
    /// The value of a label; empty if it is missing.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// Parses `name{label="value",…} value`, which a time and an exemplar may follow.
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(end)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.trim_start().split(' ').next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Parses the labels up to the closing brace; also returns the rest of the line.
fn labels(mut text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        text = text.trim_start_matches(',');
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let (mut value, mut characters) = (String::new(), rest.chars());
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => match characters.next()? {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                other => value.push(other),
            }
        }
        labels.insert(name.to_owned(), value);
        text = characters.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels() {
        let text = "# TYPE toolcrib_calls counter\n\
                    toolcrib_calls_total{tool=\"a\\\"b\\\\c\\nd\",tenant=\"}, x=\"} 3\n\
                    toolcrib_panics_total 0\n\
                    toolcrib_s_bucket{le=\"+Inf\"} 2 # {run_id=\"r\"} 0.5 1.0\n\
                    # EOF\n";
        let read = Exposition::parse(text).unwrap();
        let calls: Vec<_> = read.samples("calls_total").collect();
        assert_eq!(calls[0].label("tool"), "a\"b\\c\nd");
        assert_eq!((calls[0].label("tenant"), calls[0].value), ("}, x=", 3.0));
        assert_eq!(calls[0].label("none"), "");
        assert_eq!(read.sum("panics_total"), Some(0.0));
        assert_eq!(read.sum("s_bucket"), Some(2.0));
        assert_eq!(read.sum("other"), None);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "<html>\n", "toolcrib_x 1\n", "toolcrib_x\n# EOF", "x{a=\"b} 1\n# EOF"] {
            assert!(Exposition::parse(text).is_none(), "{text}");
        }
    }
}
