"""Drives a server with the PyPI package `openwop-client`, as its users do.

    python openwop_steps.py BASE_URL TOOL_ID RUN_ID

TOOLCRIB_KEY holds a key. Prints one JSON object: the result of each step, or the error that it
raised. The versions 1.8 and 2.7 have the same methods for tools; only the second one has runs.
"""

import dataclasses
import json
import os
import sys

from openwop_client import OpenwopClient, WopError

URL, TOOL, RUN = sys.argv[1:]
KEY = os.environ["TOOLCRIB_KEY"]


def plain(value):
    if dataclasses.is_dataclass(value):
        return {name: plain(item) for name, item in vars(value).items() if item is not None}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def attempt(step):
    try:
        return {"gave": plain(step())}
    except WopError as error:
        envelope = plain(error.envelope) if error.envelope else None
        return {"raised": error.status, "envelope": envelope}


def main():
    client = OpenwopClient(URL, KEY)
    # The package refuses an empty key itself, so a request without one cannot be made with it.
    stranger = OpenwopClient(URL, "tc_junk")
    steps = {
        "discovery": client.discovery_capabilities,
        "description": client.discovery_openapi,
        "list": client.tools_list,
        "compact": client.tools_list_compact,
        "by_id": lambda: client.tools_get(TOOL),
        "unknown": lambda: client.tools_get("mcp:no.such/tool"),
        "list_with_a_wrong_key": stranger.tools_list,
        "by_id_with_a_wrong_key": lambda: stranger.tools_get(TOOL),
    }
    if hasattr(client, "runs_list"):
        steps["runs"] = lambda: client.runs_list()
        steps["run"] = lambda: client.runs_get(RUN)
        steps["events"] = lambda: list(client.runs_events(RUN, stream_mode="debug"))
    results = {}
    for name, step in steps.items():
        try:
            results[name] = attempt(step)
        except Exception as error:  # what a user would see
            results[name] = {"broken": f"{type(error).__name__}: {error}"}
    json.dump(results, sys.stdout)


main()
