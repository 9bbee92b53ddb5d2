// Ready configurations of clients. `at` is the address of this server, `key` a key or a placeholder.

const json = (value) => JSON.stringify(value, null, 2);

/** The name that clients show for this server. */
const NAME = 'toolcrib';

/** The server as a program, for clients that know only MCP over standard input and output. */
const bridge = (at, key) => ({
  command: 'toolcrib',
  args: ['mcp'],
  env: { TOOLCRIB_URL: at, TOOLCRIB_KEY: key },
});

export const CLIENTS = [
  {
    id: 'claude-code',
    name: 'Claude Code',
    where: 'Run this in a terminal:',
    snippet: ({ at, key }) =>
      `claude mcp add --transport http ${NAME} ${at}/mcp --header "Authorization: Bearer ${key}"`,
  },
  {
    id: 'claude-desktop',
    name: 'Claude Desktop',
    where:
      'Install toolcrib on the machine of the client, add this to claude_desktop_config.json (Settings, Developer, Edit Config) and start it again:',
    snippet: ({ at, key }) => json({ mcpServers: { [NAME]: bridge(at, key) } }),
  },
  {
    id: 'cursor',
    name: 'Cursor',
    where: 'Add this to ~/.cursor/mcp.json:',
    snippet: ({ at, key }) =>
      json({ mcpServers: { [NAME]: { url: `${at}/mcp`, headers: { Authorization: `Bearer ${key}` } } } }),
  },
  {
    id: 'vscode',
    name: 'VS Code',
    where: 'Add this to .vscode/mcp.json; VS Code asks for the key once:',
    snippet: ({ at }) =>
      json({
        inputs: [{ type: 'promptString', id: 'toolcrib-key', description: 'toolcrib key', password: true }],
        servers: {
          [NAME]: {
            type: 'http',
            url: `${at}/mcp`,
            headers: { Authorization: 'Bearer ${input:toolcrib-key}' },
          },
        },
      }),
  },
  {
    id: 'codex',
    name: 'Codex',
    where: 'Add this to ~/.codex/config.toml, and set the variable TOOLCRIB_KEY to the key:',
    snippet: ({ at }) =>
      `[mcp_servers.${NAME}]\nurl = "${at}/mcp"\nbearer_token_env_var = "TOOLCRIB_KEY"`,
  },
  {
    id: 'langchain',
    name: 'LangChain',
    where: 'Install langchain-mcp-adapters, then:',
    snippet: ({ at, key }) => `from langchain_mcp_adapters.client import MultiServerMCPClient

client = MultiServerMCPClient({
    "${NAME}": {
        "transport": "streamable_http",
        "url": "${at}/mcp",
        "headers": {"Authorization": "Bearer ${key}"},
    }
})
tools = await client.get_tools()`,
  },
  {
    id: 'openai-agents',
    name: 'OpenAI Agents',
    where: 'Install openai-agents, then:',
    snippet: ({ at, key }) => `from agents import Agent
from agents.mcp import MCPServerStreamableHttp

server = MCPServerStreamableHttp(
    name="${NAME}",
    params={"url": "${at}/mcp", "headers": {"Authorization": "Bearer ${key}"}},
)
async with server:
    agent = Agent(name="Assistant", mcp_servers=[server])`,
  },
  {
    id: 'stdio',
    name: 'Other, over stdio',
    where: 'Install toolcrib on the machine of the client, and add this to its list of MCP servers:',
    snippet: ({ at, key }) => json({ mcpServers: { [NAME]: bridge(at, key) } }),
  },
  {
    id: 'openwop',
    name: 'OpenWOP',
    where: 'List the tools of the catalog (RFC 0078):',
    snippet: ({ at, key }) => `curl -H "Authorization: Bearer ${key}" ${at}/v1/tools`,
  },
  {
    id: 'oxp',
    name: 'OXP',
    where: 'List the tools; the server needs `[oxp] enabled = true`:',
    snippet: ({ at, key }) => `curl -H "Authorization: Bearer ${key}" ${at}/oxp/tools`,
  },
  {
    id: 'curl',
    name: 'curl',
    where: 'List the tools (Open Tool Calling):',
    snippet: ({ at, key }) => `curl -H "Authorization: Bearer ${key}" ${at}/tools`,
  },
];
