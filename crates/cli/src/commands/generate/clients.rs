//! The pages of clients, from the snippets of the console.

use std::fmt::Write as _;

use toolcrib::ClientSetup;

/// The address and the key in the pages. Tests replace both.
const ADDRESS: &str = "http://127.0.0.1:8808";
const KEY: &str = "YOUR_KEY";

/// Texts about a client for its page only.
struct Notes {
    id: &'static str,
    /// How a reader sees that it works.
    check: &'static str,
    /// What the tests run, or why they do not.
    tested: &'static str,
}

/// The test program of the pages.
const TESTS: &str = "crates/cli/tests/clients/guides.rs";

const NOTES: &[Notes] = &[
    Notes {
        id: "claude-code",
        check: "`claude mcp list` connects to every server and prints `Connected` behind \
                `toolcrib`. In a session, `/mcp` lists the tools.",
        tested: "Run, with the package `@anthropic-ai/claude-code`: the command above, and \
                 `claude mcp list`. No model takes part.",
    },
    Notes {
        id: "claude-desktop",
        check: "The tools are in the menu below the field for messages. The log of the client is in \
                `~/Library/Logs/Claude` or `%APPDATA%\\Claude\\logs`.",
        tested: "Not run in Claude Desktop: it has no package for Linux and needs an account. The \
                 program, arguments and variables above are run with the Python SDK of MCP.",
    },
    Notes {
        id: "cursor",
        check: "Settings, MCP shows `toolcrib` with its tools. The list of tools is limited by \
                Cursor; a [toolset](../toolsets.md) makes it short.",
        tested: "Not run in Cursor: it is a desktop program with an account. The address and \
                 headers above are run with the Python SDK of MCP.",
    },
    Notes {
        id: "vscode",
        check: "The command `MCP: List Servers` shows `toolcrib`, and `Show Output` the messages.",
        tested: "Not run in VS Code, whose chat needs an account. The address and headers above are \
                 run with the Python SDK of MCP.",
    },
    Notes {
        id: "codex",
        check: "`codex mcp list` shows the server. In a session, `/mcp` lists the tools.",
        tested: "Run, with the package `@openai/codex`: a session of `codex exec` connects to the \
                 server and offers its tools to a model, which the test replaces.",
    },
    Notes {
        id: "langchain",
        check: "`tools` has a tool for each one that the key may call.",
        tested: "Run, with the package `langchain-mcp-adapters`: the lines above, and a call of one \
                 of the tools.",
    },
    Notes {
        id: "openai-agents",
        check: "`await server.list_tools()` inside the block returns the tools that the key may call.",
        tested: "Run, with the package `openai-agents`: the lines above, the list of tools, and a \
                 call of one. No model takes part.",
    },
    Notes {
        id: "python",
        check: "`tools` has a tool for each one that the key may call. \
                [Protocols](../../explanation/protocols.md#refused-calls) describes the response \
                of a refused call.",
        tested: "Run, with the package `mcp`: the lines above, and a call of one of the tools.",
    },
    Notes {
        id: "typescript",
        check: "`tools` has a tool for each one that the key may call. \
                [Protocols](../../explanation/protocols.md#refused-calls) describes the response \
                of a refused call.",
        tested: "Run, with the package `@modelcontextprotocol/client`: the lines above, and a call of \
                 one of the tools.",
    },
    Notes {
        id: "stdio",
        check: "`toolcrib tools list` with the same two variables prints the tools that the client gets.",
        tested: "Run, with the Python SDK of MCP: the program, arguments and variables above.",
    },
    Notes {
        id: "openwop",
        check: "The answer is an array of tools. [Protocols](../../explanation/protocols.md#openwop) \
                explains its members.",
        tested: "Run.",
    },
    Notes { id: "oxp", check: "The answer has the tools in `items`.", tested: "Run." },
    Notes {
        id: "curl",
        check: "The answer has the tools in `tools`. To call one, see \
                [agent developers](../../start/agent-developer.md#1-connect-an-mcp-client).",
        tested: "Run.",
    },
];

/// The pages with their paths in the tree: one for each client, and their list.
pub(super) fn pages() -> Vec<(String, String)> {
    let clients = toolcrib::client_setups();
    let mut list = INTRODUCTION.to_owned();
    let mut pages = Vec::new();
    for client in &clients {
        let Some(notes) = NOTES.iter().find(|notes| notes.id == client.id) else { continue };
        let tested = match notes.tested.strip_prefix("Not run") {
            Some(_) => "not run",
            None => "run",
        };
        // Writing to a String cannot fail.
        _ = writeln!(list, "| [{}](clients/{}.md) | {tested} |", client.name, client.id);
        pages.push((format!("docs/guides/clients/{}.md", client.id), page(client, notes)));
    }
    list.push_str(END);
    pages.push(("docs/guides/clients.md".to_owned(), list));
    pages
}

const INTRODUCTION: &str = "\
# Connect a client

With this guide you connect an agent, an editor or a program to a running server. The console has the \
same texts under *Connect*, with your address and a new key filled in. `cargo xtask gen` writes these \
pages from the texts of the console.

| Client | Text of the page in the tests |
|---|---|
";

const END: &str = "
Give each client a separate key, so that the record names it and you can revoke it alone:

```console
$ toolcrib keys create --name laptop --principal ada --role reader
```

If a client shows no tools, or an error, see [troubleshooting](troubleshooting.md#clients).
";

fn page(client: &ClientSetup, notes: &Notes) -> String {
    let ClientSetup { name, instruction, language, .. } = client;
    let snippet = client.snippet(ADDRESS, KEY);
    let snippet = match language.as_str() {
        "console" => format!("$ {snippet}"),
        _ => snippet,
    };
    let Notes { check, tested, .. } = notes;
    format!(
        "\
# Connect: {name}

With this page you connect a client to a running server. [Another client](../clients.md)?

1. Issue a [key](../teams.md#issue-keys) that permits no more than the client needs:

   ```console
   $ toolcrib keys create --name laptop --principal ada --role reader
   ```

   `reader` is a role of your configuration. The demo has no roles: `toolcrib demo keys reader` prints a key for the demo.

2. {instruction}

```{language}
{snippet}
```

3. Replace `{ADDRESS}` with the address of your server, and `{KEY}` with the key, if they are above.

**Check.** {check}

**Tested.** {tested} The test is in [guides.rs](../../../{TESTS}).

`cargo xtask gen` writes this page from the texts of the console.
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_of_the_console_has_a_page() {
        // I-6
        let clients = toolcrib::client_setups();
        assert!(!clients.is_empty());
        let pages = pages();
        for client in &clients {
            let path = format!("docs/guides/clients/{}.md", client.id);
            let (_, page) = pages.iter().find(|(name, _)| *name == path).expect(&path);
            assert!(page.contains(&client.snippet(ADDRESS, KEY)), "{path}");
        }
        assert_eq!(pages.len(), clients.len() + 1);
        assert_eq!(NOTES.len(), clients.len(), "notes about a client that the console lacks");
    }
}
