"""Connects to a server as an entry of a client's configuration says, and prints the names of its tools.

    python entry_client.py < CONFIGURATION

The configuration is that of Claude Desktop and Cursor (`mcpServers`), or of VS Code (`servers`), with
one server. Uses the Python SDK of MCP 2.x.
"""

import asyncio
import json
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


def transport(entry, http):
    if "command" in entry:
        return stdio_client(StdioServerParameters(command=entry["command"], args=entry["args"], env=entry["env"]))
    return streamable_http_client(entry["url"], http_client=http)


async def names(entry):
    async with create_mcp_http_client(headers=entry.get("headers")) as http:
        async with Client(transport(entry, http)) as client:
            return [tool.name for tool in (await client.list_tools()).tools]


def main():
    configuration = json.load(sys.stdin)
    servers = configuration.get("mcpServers") or configuration["servers"]
    [entry] = servers.values()
    print(json.dumps(asyncio.run(names(entry))))


if __name__ == "__main__":
    main()
