"""Drives a server with the PyPI package `oxp`, as its users do.

    python oxp_client.py BASE_URL sync|async|strict

TOOLCRIB_KEY holds a key. Prints one JSON object: what each step gave. `attempts` counts the
requests that the package sent for a step, its own retries included.
"""

import asyncio
import json
import os
import sys

import httpx
import oxp

KEY = os.environ["TOOLCRIB_KEY"]


class Wire:
    """Counts requests, and answers the first `lost` calls with a 502 after the server has answered:
    what a proxy does when the way back breaks."""

    def __init__(self):
        self.attempts = 0
        self.lost = 0
        self.versions = set()

    def seen(self, response):
        self.attempts += 1
        self.versions.add(response.headers.get("oxp-version"))
        if self.lost > 0:
            self.lost -= 1
            return httpx.Response(502, json={"message": "bad gateway"}, request=response.request)
        return response


class Sync(httpx.HTTPTransport):
    def __init__(self, wire):
        super().__init__()
        self.wire = wire

    def handle_request(self, request):
        response = super().handle_request(request)
        response.request = request
        return self.wire.seen(response)


class Async(httpx.AsyncHTTPTransport):
    def __init__(self, wire):
        super().__init__()
        self.wire = wire

    async def handle_async_request(self, request):
        response = await super().handle_async_request(request)
        response.request = request
        return self.wire.seen(response)


def plain(value):
    return value.to_dict() if hasattr(value, "to_dict") else value


async def steps(mode, url):
    wire = Wire()
    strict = mode == "strict"

    def client(key):
        if mode == "async":
            http = httpx.AsyncClient(transport=Async(wire))
            return oxp.AsyncOxp(bearer_token=key, base_url=url, http_client=http)
        http = httpx.Client(transport=Sync(wire))
        return oxp.Oxp(
            bearer_token=key, base_url=url, http_client=http, _strict_response_validation=strict
        )

    async def step(run):
        wire.attempts = 0
        try:
            given = run()
            told = {"gave": plain(await given if mode == "async" else given)}
        except oxp.APIStatusError as error:
            told = {"raised": type(error).__name__, "body": error.body}
        return {**told, "attempts": wire.attempts}

    good, bad = client(KEY), client("junk")

    def call(tool, **more):
        return lambda: good.tools.call(request={"tool_id": tool, **more})

    note = {"note": "n"}
    told = {
        "health": await step(good.health.check),
        "health_with_a_bad_key": await step(bad.health.check),
        "list": await step(good.tools.list),
        "list_with_a_bad_key": await step(bad.tools.list),
        "call": await step(call("tally.count@2.1.0", input=note, trace_id="t", context={"user_id": "u"})),
        "call_with_schema": await step(
            lambda: good.tools.call(
                request={"tool_id": "tally.count@2.1.0", "input": note}, schema="urn:oxp:1.0"
            )
        ),
        "call_without_input": await step(call("tally.none")),
        "tool_failure": await step(call("tally.fail", input=note)),
        "unknown": await step(call("no.such")),
        "invalid": await step(call("tally.count", input={"note": 1})),
        "call_with_a_bad_key": await step(
            lambda: bad.tools.call(request={"tool_id": "tally.count", "input": note})
        ),
        "named": await step(call("tally.count", input=note, call_id=f"named {mode}")),
        "named_again": await step(call("tally.count", input=note, call_id=f"named {mode}")),
        "named_otherwise": await step(call("tally.fail", input=note, call_id=f"named {mode}")),
    }
    wire.lost = 2
    told["lost_on_the_way"] = await step(call("tally.count", input=note, call_id=f"lost {mode}"))
    # Last, because it takes the upstream with it.
    told["dies"] = await step(call("tally.die", input=note))
    told["versions"] = sorted(str(version) for version in wire.versions)
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(steps(sys.argv[2], sys.argv[1]))))
