// Ready configurations of clients, for this screen and for the generated pages of docs/guides/clients.
// The program that writes those pages parses this file, so everything after the `=` must be JSON.
// `{at}` is the address of this server, `{key}` a key or a placeholder.

export const CLIENTS = [
  {
    "id": "claude-code",
    "name": "Claude Code",
    "where": "Run this in a terminal:",
    "language": "console",
    "snippet": [
      "claude mcp add --transport http toolcrib {at}/mcp --header \"Authorization: Bearer {key}\""
    ]
  },
  {
    "id": "claude-desktop",
    "name": "Claude Desktop",
    "where": "Install toolcrib on the machine of the client, add this to claude_desktop_config.json (Settings, Developer, Edit Config) and start it again:",
    "language": "json",
    "snippet": [
      "{",
      "  \"mcpServers\": {",
      "    \"toolcrib\": {",
      "      \"command\": \"toolcrib\",",
      "      \"args\": [\"mcp\"],",
      "      \"env\": { \"TOOLCRIB_URL\": \"{at}\", \"TOOLCRIB_KEY\": \"{key}\" }",
      "    }",
      "  }",
      "}"
    ]
  },
  {
    "id": "cursor",
    "name": "Cursor",
    "where": "Add this to ~/.cursor/mcp.json:",
    "language": "json",
    "snippet": [
      "{",
      "  \"mcpServers\": {",
      "    \"toolcrib\": {",
      "      \"url\": \"{at}/mcp\",",
      "      \"headers\": { \"Authorization\": \"Bearer {key}\" }",
      "    }",
      "  }",
      "}"
    ]
  },
  {
    "id": "vscode",
    "name": "VS Code",
    "where": "Add this to .vscode/mcp.json; VS Code prompts for the key once:",
    "language": "json",
    "snippet": [
      "{",
      "  \"inputs\": [",
      "    { \"type\": \"promptString\", \"id\": \"toolcrib-key\", \"description\": \"toolcrib key\", \"password\": true }",
      "  ],",
      "  \"servers\": {",
      "    \"toolcrib\": {",
      "      \"type\": \"http\",",
      "      \"url\": \"{at}/mcp\",",
      "      \"headers\": { \"Authorization\": \"Bearer ${input:toolcrib-key}\" }",
      "    }",
      "  }",
      "}"
    ]
  },
  {
    "id": "codex",
    "name": "Codex",
    "where": "Add this to ~/.codex/config.toml, and set the variable TOOLCRIB_KEY to the key:",
    "language": "toml",
    "snippet": [
      "[mcp_servers.toolcrib]",
      "url = \"{at}/mcp\"",
      "bearer_token_env_var = \"TOOLCRIB_KEY\""
    ]
  },
  {
    "id": "langchain",
    "name": "LangChain",
    "where": "Install langchain-mcp-adapters, then:",
    "language": "python",
    "snippet": [
      "from langchain_mcp_adapters.client import MultiServerMCPClient",
      "",
      "client = MultiServerMCPClient({",
      "    \"toolcrib\": {",
      "        \"transport\": \"streamable_http\",",
      "        \"url\": \"{at}/mcp\",",
      "        \"headers\": {\"Authorization\": \"Bearer {key}\"},",
      "    }",
      "})",
      "tools = await client.get_tools()"
    ]
  },
  {
    "id": "openai-agents",
    "name": "OpenAI Agents",
    "where": "Install openai-agents, then:",
    "language": "python",
    "snippet": [
      "from agents import Agent",
      "from agents.mcp import MCPServerStreamableHttp",
      "",
      "server = MCPServerStreamableHttp(",
      "    name=\"toolcrib\",",
      "    params={\"url\": \"{at}/mcp\", \"headers\": {\"Authorization\": \"Bearer {key}\"}},",
      ")",
      "async with server:",
      "    agent = Agent(name=\"Assistant\", mcp_servers=[server])"
    ]
  },
  {
    "id": "python",
    "name": "Python",
    "where": "Install mcp (2.3 or later, the SDK of the protocol), then:",
    "language": "python",
    "snippet": [
      "import httpx2",
      "from mcp import Client",
      "from mcp.client.streamable_http import streamable_http_client",
      "",
      "http = httpx2.AsyncClient(headers={\"Authorization\": \"Bearer {key}\"}, timeout=300)",
      "async with http, Client(streamable_http_client(\"{at}/mcp\", http_client=http)) as client:",
      "    tools = (await client.list_tools()).tools"
    ]
  },
  {
    "id": "typescript",
    "name": "TypeScript",
    "where": "Install @modelcontextprotocol/client (2.4 or later, the SDK of the protocol), then:",
    "language": "typescript",
    "snippet": [
      "import { Client, StreamableHTTPClientTransport } from \"@modelcontextprotocol/client\";",
      "",
      "const client = new Client({ name: \"my-agent\", version: \"1.0.0\" });",
      "const requestInit = { headers: { Authorization: \"Bearer {key}\" } };",
      "await client.connect(new StreamableHTTPClientTransport(new URL(\"{at}/mcp\"), { requestInit }));",
      "const { tools } = await client.listTools();"
    ]
  },
  {
    "id": "stdio",
    "name": "Other, over stdio",
    "where": "Install toolcrib on the machine of the client, and add this to its list of MCP servers:",
    "language": "json",
    "snippet": [
      "{",
      "  \"mcpServers\": {",
      "    \"toolcrib\": {",
      "      \"command\": \"toolcrib\",",
      "      \"args\": [\"mcp\"],",
      "      \"env\": { \"TOOLCRIB_URL\": \"{at}\", \"TOOLCRIB_KEY\": \"{key}\" }",
      "    }",
      "  }",
      "}"
    ]
  },
  {
    "id": "openwop",
    "name": "OpenWOP",
    "where": "List the tools of the catalog (RFC 0078):",
    "language": "console",
    "snippet": ["curl -H \"Authorization: Bearer {key}\" {at}/v1/tools"]
  },
  {
    "id": "oxp",
    "name": "OXP",
    "where": "List the tools; the server needs `[oxp] enabled = true`:",
    "language": "console",
    "snippet": ["curl -H \"Authorization: Bearer {key}\" {at}/oxp/tools"]
  },
  {
    "id": "curl",
    "name": "curl",
    "where": "List the tools (Open Tool Calling):",
    "language": "console",
    "snippet": ["curl -H \"Authorization: Bearer {key}\" {at}/tools"]
  }
];
