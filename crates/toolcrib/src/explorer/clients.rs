//! The configurations of clients that the page shows, for other readers of the same file.

use serde::Deserialize;

/// The file of the page. All that follows its `=` is JSON.
const FILE: &str = include_str!("../ui/connect/clients.js");

/// The configuration of a client, as the screen *Connect* of the console shows it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ClientSetup {
    /// The name of the client in addresses.
    pub id: String,
    /// The name of the client.
    pub name: String,
    /// The sentence before the snippet: where it belongs.
    #[serde(rename = "where")]
    pub instruction: String,
    /// The language of the snippet: `console`, `json`, `toml` or `python`.
    pub language: String,
    /// The lines of the snippet.
    #[serde(rename = "snippet")]
    lines: Vec<String>,
}

impl ClientSetup {
    /// The snippet for a server at `address`, such as `http://127.0.0.1:8808`, and a key.
    #[must_use]
    pub fn snippet(&self, address: &str, key: &str) -> String {
        self.lines.join("\n").replace("{at}", address).replace("{key}", key)
    }
}

/// Returns the configurations of clients that the console offers, in its order.
#[must_use]
pub fn client_setups() -> Vec<ClientSetup> {
    // A test reads the same file.
    parsed().unwrap_or_default()
}

fn parsed() -> Result<Vec<ClientSetup>, serde_json::Error> {
    let json = FILE.split_once("CLIENTS =").map_or("", |(_, json)| json);
    serde_json::from_str(json.trim().trim_end_matches(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_snippet_of_the_page_can_be_read() {
        let clients = parsed().unwrap();
        assert_eq!(client_setups().len(), clients.len());
        for client in &clients {
            let snippet = client.snippet("http://127.0.0.1:1", "tc_x");
            assert!(snippet.contains("http://127.0.0.1:1"), "{}", client.id);
            assert!(!snippet.contains("{at}") && !snippet.contains("{key}"), "{}", client.id);
            match client.language.as_str() {
                "json" => drop(serde_json::from_str::<serde_json::Value>(&snippet).unwrap()),
                other => {
                    let known = ["console", "toml", "python", "typescript"];
                    assert!(known.contains(&other), "{other}");
                }
            }
        }
    }
}
