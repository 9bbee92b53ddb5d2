"""Lists and calls through the Python SDK, whichever major version is installed (1.x or 2.x).

    python python_client.py URL|PROGRAM [TOOL [ARGUMENTS_JSON [MODE]]]

PROGRAM is started as `PROGRAM mcp`, a server over stdio, with TOOLCRIB_URL and TOOLCRIB_KEY.
MODE is for 2.x: `auto` (the default), `legacy`, or a protocol version such as `2026-07-28`.
The environment variable TOOLCRIB_KEY holds the bearer key; none is sent when it is unset.
Prints one JSON line: protocolVersion, tools, result, progress. Exit code 1 on failure.
"""

import asyncio
import contextlib
import json
import os
import sys
from importlib.metadata import version

from mcp.client.streamable_http import streamable_http_client

# A server that hands out cursors for ever must not hold a test for ever.
MAX_PAGES = 100


def http_client():
    """The SDK's own HTTP client, with the key as a header."""
    try:
        from mcp.shared._httpx_utils import create_mcp_http_client
    except ImportError:
        from mcp.client.streamable_http import create_mcp_http_client
    key = os.environ.get("TOOLCRIB_KEY")
    return create_mcp_http_client(headers={"Authorization": f"Bearer {key}"} if key else None)


def stdio(program):
    """The streams of a server over stdio."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    env = {name: os.environ[name] for name in ("TOOLCRIB_URL", "TOOLCRIB_KEY")}
    return stdio_client(StdioServerParameters(command=program, args=["mcp"], env=env))


@contextlib.asynccontextmanager
async def connect(url, mode):
    """Yields (lists one page, calls a tool, negotiated version)."""
    async with http_client() as http:
        over_http = "://" in url
        transport = streamable_http_client(url, http_client=http) if over_http else stdio(url)
        if int(version("mcp").split(".")[0]) >= 2:
            from mcp import Client

            async with Client(transport, mode=mode) as client:

                async def page(cursor):
                    return await client.list_tools(cursor=cursor)

                yield page, client.call_tool, client.protocol_version
            return

        from mcp import ClientSession
        from mcp.types import PaginatedRequestParams

        async with transport as (read, write, *_session_id):
            async with ClientSession(read, write) as session:
                started = await session.initialize()

                async def page(cursor):
                    params = PaginatedRequestParams(cursor=cursor) if cursor else None
                    return await session.list_tools(params=params)

                yield page, session.call_tool, started.protocolVersion


async def run(url, tool, arguments, mode):
    progress = []

    async def on_progress(done, total, message):
        progress.append({"progress": done, "total": total, "message": message})

    async with connect(url, mode) as (page, call_tool, protocol_version):
        tools, cursor = [], None
        for _ in range(MAX_PAGES):
            listed = await page(cursor)
            tools += [found.name for found in listed.tools]
            # The field has one name in each major version.
            cursor = getattr(listed, "next_cursor", None) or getattr(listed, "nextCursor", None)
            if not cursor:
                break
        result = None
        if tool:
            answer = await call_tool(tool, arguments, progress_callback=on_progress)
            result = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "protocolVersion": str(protocol_version),
        "tools": tools,
        "result": result,
        "progress": progress,
    }


def reason(error):
    """The innermost failure: task groups wrap it in exception groups."""
    while getattr(error, "exceptions", None):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def main():
    if len(sys.argv) < 2:
        print("usage: python_client.py URL|PROGRAM [TOOL [ARGUMENTS_JSON [MODE]]]", file=sys.stderr)
        return 2
    url, tool, arguments, mode = (sys.argv[1:] + [None] * 3)[:4]
    try:
        line = asyncio.run(run(url, tool, json.loads(arguments or "{}"), mode or "auto"))
    except BaseException as error:
        print(reason(error), file=sys.stderr)
        return 1
    print(json.dumps(line, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
