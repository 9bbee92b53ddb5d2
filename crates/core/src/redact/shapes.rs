//! Strings with the shape of secrets, found in one pass without backtracking.

/// The replacement of a secret.
pub const PLACEHOLDER: &str = "[redacted]";

/// Appends `text` to `out` with every secret-shaped part replaced.
pub(super) fn redact(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    let mut at = 0;
    let mut no_jwt_before = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        // The end of a placeholder is a possible start too, so that a second redaction has no
        // effect.
        let after_word = |at: usize| bytes.get(at - 1).is_some_and(|before| is_word(*before));
        let starts = at == copied || !after_word(at);
        let found = match byte {
            _ if !starts => None,
            b'e' if at >= no_jwt_before => match jwt(rest) {
                Ok(length) => Some(length),
                Err(dead) => {
                    no_jwt_before = at + dead;
                    None
                }
            },
            byte if BEGINNINGS.contains(&byte) => {
                SHAPES.iter().find_map(|shape| shape.length(rest))
            }
            _ => None,
        };
        match found {
            // A shape is ASCII from end to end, so both cuts are at character boundaries.
            Some(length) => {
                out.push_str(text.get(copied..at).unwrap_or_default());
                out.push_str(PLACEHOLDER);
                at += length;
                copied = at;
            }
            None => at += 1,
        }
    }
    out.push_str(text.get(copied..).unwrap_or_default());
}

/// A prefix, at most one character out of a few, a separator, and a run of legal characters.
struct Shape {
    prefix: &'static str,
    one_of: &'static [u8],
    separator: &'static str,
    legal: fn(u8) -> bool,
    min: usize,
}

const SHAPES: &[Shape] = &[
    // OpenAI, Anthropic, Stripe-like.
    Shape { prefix: "sk-", one_of: b"", separator: "", legal: is_url_safe, min: 6 },
    // AWS access key ids.
    Shape { prefix: "AKIA", one_of: b"", separator: "", legal: is_upper_or_digit, min: 12 },
    Shape { prefix: "ASIA", one_of: b"", separator: "", legal: is_upper_or_digit, min: 12 },
    // Slack.
    Shape { prefix: "xox", one_of: b"baprs", separator: "-", legal: is_dashed, min: 8 },
    // GitHub.
    Shape { prefix: "gh", one_of: b"pousr", separator: "_", legal: is_alphanumeric, min: 16 },
    Shape { prefix: "github_pat_", one_of: b"", separator: "", legal: is_word, min: 16 },
    // GitLab, Stripe, npm, PyPI, Google, Hugging Face, Shopify, DigitalOcean, SendGrid.
    Shape { prefix: "glpat-", one_of: b"", separator: "", legal: is_url_safe, min: 16 },
    Shape { prefix: "sk_live_", one_of: b"", separator: "", legal: is_alphanumeric, min: 16 },
    Shape { prefix: "rk_live_", one_of: b"", separator: "", legal: is_alphanumeric, min: 16 },
    Shape { prefix: "npm_", one_of: b"", separator: "", legal: is_alphanumeric, min: 30 },
    Shape { prefix: "pypi-", one_of: b"", separator: "", legal: is_url_safe, min: 30 },
    Shape { prefix: "AIza", one_of: b"", separator: "", legal: is_url_safe, min: 30 },
    Shape { prefix: "hf_", one_of: b"", separator: "", legal: is_alphanumeric, min: 30 },
    Shape { prefix: "shpat_", one_of: b"", separator: "", legal: is_alphanumeric, min: 30 },
    Shape { prefix: "dop_v1_", one_of: b"", separator: "", legal: is_alphanumeric, min: 30 },
    Shape { prefix: "SG.", one_of: b"", separator: "", legal: is_key_of_two_parts, min: 30 },
    // Our own API keys: 256 bits in base64url.
    Shape { prefix: "tc_", one_of: b"", separator: "", legal: is_url_safe, min: 43 },
];

/// The first bytes of all prefixes.
const BEGINNINGS: &[u8] = b"sSrAxgtnphd";

impl Shape {
    fn length(&self, text: &[u8]) -> Option<usize> {
        let mut rest = text.strip_prefix(self.prefix.as_bytes())?;
        if !self.one_of.is_empty() {
            let (one, after) = rest.split_first()?;
            self.one_of.contains(one).then_some(())?;
            rest = after;
        }
        rest = rest.strip_prefix(self.separator.as_bytes())?;
        let run = run(rest, self.legal);
        (run >= self.min).then(|| text.len() - rest.len() + run)
    }
}

/// Matches three runs of ten or more base64url characters with dots between, the first starting
/// with `ey`. Without a match, `Err` is the number of bytes that need not be tried again: a start
/// anywhere in the first run leads to the same second and third run.
fn jwt(text: &[u8]) -> Result<usize, usize> {
    const MIN: usize = 10;
    if !text.starts_with(b"ey") {
        return Err(1);
    }
    let first = run(text, is_url_safe);
    if first < MIN + 2 {
        return Err(1);
    }
    let part = |from: usize| -> Option<usize> {
        let rest = text.get(from..)?.strip_prefix(b".")?;
        let run = run(rest, is_url_safe);
        (run >= MIN).then_some(from + 1 + run)
    };
    part(first).and_then(part).ok_or(first)
}

fn run(text: &[u8], legal: fn(u8) -> bool) -> usize {
    text.iter().take_while(|byte| legal(**byte)).count()
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_dashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn is_key_of_two_parts(byte: u8) -> bool {
    is_url_safe(byte) || byte == b'.'
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_url_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_begins_with_a_known_byte() {
        for shape in SHAPES {
            let first = shape.prefix.bytes().next().unwrap();
            assert!(BEGINNINGS.contains(&first), "{}", shape.prefix);
        }
    }
}
