"""Drives a server with the PyPI package `universal-tool-client`, as its users do.

    python universal_client.py BASE_URL sync|async

TOOLCRIB_KEY holds a key. Prints one JSON object: what each step gave, or which exception it raised
with the status and the notes that go with it.
"""

import asyncio
import json
import os
import sys

import httpx
import universal_tool_client as universal

KEY = os.environ["TOOLCRIB_KEY"]


async def steps(mode, url):
    make = universal.get_async_client if mode == "async" else universal.get_sync_client

    async def step(run):
        try:
            given = run()
            return {"gave": await given if mode == "async" else given}
        except httpx.HTTPStatusError as error:
            return {"status": error.response.status_code, "notes": getattr(error, "__notes__", [])}
        except Exception as error:
            return {"raised": type(error).__name__}

    good = make(url=url, headers={"authorization": f"Bearer {KEY}"})
    by_header = make(url=url, headers={"x-api-key": KEY})
    bare = make(url=url, headers={"authorization": KEY})
    nobody = make(url=url)
    note = {"note": "n"}
    return {
        "health": await step(good.health),
        "health_of_nobody": await step(nobody.health),
        "info": await step(good.info),
        "list": await step(good.tools.list),
        "list_by_header": await step(by_header.tools.list),
        "list_of_nobody": await step(nobody.tools.list),
        "list_with_a_bare_key": await step(bare.tools.list),
        "call": await step(lambda: good.tools.call("tally.count@2.1.0", note)),
        "call_by_name": await step(lambda: good.tools.call("tally__count", note)),
        "call_without_input": await step(lambda: good.tools.call("tally.none")),
        "tool_failure": await step(lambda: good.tools.call("tally.fail", note)),
        "invalid": await step(lambda: good.tools.call("tally.count", {"note": 1})),
        "unknown": await step(lambda: good.tools.call("no.such", {})),
        "named": await step(lambda: good.tools.call("tally.count", note, call_id=f"u {mode}")),
        "named_again": await step(lambda: good.tools.call("tally.count", note, call_id=f"u {mode}")),
        "as_langchain_tools": await step(good.tools.as_langchain_tools),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(steps(sys.argv[2], sys.argv[1]))))
