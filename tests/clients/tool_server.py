"""A universal-tool-server from PyPI with two tools, on a free port of this machine.

    python tool_server.py

Prints `listening on http://ADDR` once it listens. It ends when its standard input does, so that it
never outlives the test that started it.
"""

import os
import socket
import sys
import threading
from typing import Annotated

import uvicorn
from universal_tool_server import Server

app = Server()


@app.add_tool()
async def echo(text: Annotated[str, "What to answer"]) -> str:
    """Answers the text that it was given."""
    return text


@app.add_tool()
async def fail() -> str:
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
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
