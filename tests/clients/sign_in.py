"""Signs a person in with the OAuth of the Python SDK, or of fastmcp, lists and calls.

    python sign_in.py mcp|fastmcp|assertion URL TOOL ARGUMENTS_JSON [DOCUMENT]

`mcp` writes the address for the browser to standard error; fastmcp opens a browser itself, as BROWSER
says. With DOCUMENT this is the client whose document has that address; otherwise it registers itself.
`assertion` needs no browser (ID-JAG): TOOLCRIB_ISSUER is the authorization server, TOOLCRIB_CLIENT the id
of the client and after a blank its secret, TOOLCRIB_ASSERTION the assertion.
Prints one JSON line: tools, result. Exit code 1 on failure.
"""

import asyncio
import contextlib
import json
import os
import sys
from urllib.parse import parse_qsl, urlsplit


class Storage:
    """Keeps the tokens and the client in memory."""

    tokens = client_info = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client_info

    async def set_client_info(self, client_info):
        self.client_info = client_info


@contextlib.asynccontextmanager
async def listener():
    """Yields the address to which the browser comes back, and what it brings."""
    back = asyncio.get_running_loop().create_future()

    async def answer(reader, writer):
        line = (await reader.readline()).decode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()
        address = urlsplit(line.split()[1])
        if address.path == "/callback" and not back.done():
            back.set_result(dict(parse_qsl(address.query)))

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/callback", back


async def through_sdk(url, auth, tool, arguments):
    """Lists and calls through the SDK, with `auth` on each request."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with create_mcp_http_client(auth=auth) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            listed = await client.list_tools()
            answer = await client.call_tool(tool, arguments)
    result = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"tools": [found.name for found in listed.tools], "result": result}


async def sign_in(url, tool, arguments, document):
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    async with listener() as (redirect, back):

        async def open_browser(address):
            print(address, file=sys.stderr, flush=True)

        async def wait():
            brought = await back
            if "code" not in brought:
                raise RuntimeError(f"refused: {brought}")
            return AuthorizationCodeResult(
                code=brought["code"], state=brought.get("state"), iss=brought.get("iss")
            )

        metadata = OAuthClientMetadata(
            client_name="The Python SDK",
            redirect_uris=[redirect],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",
        )
        auth = OAuthClientProvider(
            server_url=url,
            client_metadata=metadata,
            storage=Storage(),
            redirect_handler=open_browser,
            callback_handler=wait,
            client_metadata_url=document,
        )
        return await through_sdk(url, auth, tool, arguments)


async def assertion(url, tool, arguments, _document):
    from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider

    client_id, client_secret = os.environ["TOOLCRIB_CLIENT"].split()

    async def fetch(_audience, _resource):
        return os.environ["TOOLCRIB_ASSERTION"]

    auth = IdentityAssertionOAuthProvider(
        server_url=url,
        storage=Storage(),
        client_id=client_id,
        client_secret=client_secret,
        issuer=os.environ["TOOLCRIB_ISSUER"],
        assertion_provider=fetch,
    )
    return await through_sdk(url, auth, tool, arguments)


async def fastmcp(url, tool, arguments, document):
    from fastmcp import Client
    from fastmcp.client.auth import OAuth

    auth = OAuth(client_name="A client of fastmcp", client_metadata_url=document)
    async with Client(url, auth=auth) as client:
        tools = await client.list_tools()
        answer = await client.call_tool(tool, arguments)
    texts = [{"text": part.text} for part in answer.content]
    return {"tools": [found.name for found in tools], "result": {"content": texts}}


def reason(error):
    """The innermost failure: task groups wrap it in exception groups."""
    while getattr(error, "exceptions", None):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def main():
    ways = {"mcp": sign_in, "fastmcp": fastmcp, "assertion": assertion}
    way, url, tool, arguments, document = (sys.argv[1:] + [None])[:5]
    try:
        line = asyncio.run(ways[way](url, tool, json.loads(arguments), document))
    except BaseException as error:
        print(reason(error), file=sys.stderr)
        return 1
    print(json.dumps(line, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
