"""A server built with the Python MCP SDK over streamable HTTP, on a free port of this machine.

    python mcp_server.py

Prints `listening on http://ADDR` once it listens. It ends when its standard input does, so that it
never outlives the test that started it.
"""

import os
import socket
import sys
import threading

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("foreign", version="1.0.0")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def echo(text: str) -> str:
    """Answers the text that it was given."""
    return text


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("it did not work")


def end_with_input():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
app = server.streamable_http_app()
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
