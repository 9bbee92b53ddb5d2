"""A server of fastmcp that is protected by its own OAuth provider, on a free port of this machine.

    python oauth_server.py

Prints `listening on http://ADDR` once it listens. The page of an authorization request has a form, in
which a person types a name and agrees. The tool `whoami` answers this name. A line on standard input is
answered with one: `expire` ends all access tokens, `revoke NAME` all tokens of a person, `renewals`
counts renewals, `mixed` is 0 because there are no sessions of accounts, and `tokens NAME` counts a
person's tokens. It ends when its standard input does, so that it never outlives the test that started it.
"""

import os
import secrets
import socket
import sys
import threading

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_access_token
from starlette.responses import HTMLResponse, RedirectResponse

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
address = f"http://127.0.0.1:{listener.getsockname()[1]}"


class Provider(InMemoryOAuthProvider):
    """The provider for tests, with a page for the person."""

    def __init__(self):
        super().__init__(
            base_url=address,
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=["notes"], default_scopes=["notes"]
            ),
            revocation_options=RevocationOptions(enabled=True),
            required_scopes=["notes"],
        )
        self.waiting = {}
        self.people = {}
        self.renewals = 0

    async def authorize(self, client, params):
        name = secrets.token_hex(16)
        self.waiting[name] = (client, params)
        return f"{address}/person?id={name}"

    async def agree(self, name, person):
        client, params = self.waiting.pop(name)
        before = set(self.auth_codes)
        location = await super().authorize(client, params)
        for code in set(self.auth_codes) - before:
            self.people[code] = person
        return location

    def belongs(self, tokens, person):
        self.people[tokens.access_token] = self.people[tokens.refresh_token] = person
        return tokens

    async def exchange_authorization_code(self, client, authorization_code):
        tokens = await super().exchange_authorization_code(client, authorization_code)
        return self.belongs(tokens, self.people[authorization_code.code])

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        tokens = await super().exchange_refresh_token(client, refresh_token, scopes)
        self.renewals += 1
        return self.belongs(tokens, self.people[refresh_token.token])

    def tokens_of(self, person):
        every = [*self.access_tokens, *self.refresh_tokens]
        return [token for token in every if self.people[token] == person]


provider = Provider()
server = FastMCP("notes", auth=provider)


@server.tool
def whoami() -> str:
    """Says whose account this is."""
    return provider.people[get_access_token().token]


@server.custom_route("/person", methods=["GET"])
async def person_page(request):
    name = request.query_params["id"]
    return HTMLResponse(
        f'<form method="post" action="/agree"><input name="id" value="{name}" type="hidden">'
        '<input name="person"><button>Agree</button></form>'
    )


@server.custom_route("/agree", methods=["POST"])
async def agree(request):
    form = await request.form()
    return RedirectResponse(await provider.agree(form["id"], form["person"]), status_code=303)


def answer(command, person=None):
    if command == "expire":
        provider.access_tokens.clear()
    elif command == "revoke":
        for token in provider.tokens_of(person):
            provider.access_tokens.pop(token, None)
            provider.refresh_tokens.pop(token, None)
    elif command == "renewals":
        return provider.renewals
    elif command == "mixed":
        return 0
    elif command == "tokens":
        return len(provider.tokens_of(person))
    return "done"


def obey():
    for line in sys.stdin:
        print(answer(*line.split()), flush=True)
    os._exit(0)


threading.Thread(target=obey, daemon=True).start()
print(f"listening on {address}", flush=True)
app = server.http_app()
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
