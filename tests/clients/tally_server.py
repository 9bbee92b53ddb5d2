"""An MCP server over stdio whose tools leave a mark when they run: one line in FILE each.

    python tally_server.py FILE

count answers, fail says that it failed, die ends the whole server in the middle of the call.
"""

import json
import os
import sys

MARKS = sys.argv[1]

NOTE = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}


def tool(name, **more):
    return {"name": name, "description": f"Leaves a mark ({name})", "inputSchema": NOTE, **more}


TOOLS = [tool("count"), tool("fail"), tool("die"), {"name": "none", "inputSchema": {"type": "object"}}]


def call(name, arguments):
    with open(MARKS, "a", encoding="utf-8") as marks:
        marks.write(name + "\n")
    if name == "die":
        os._exit(3)
    text = f"{name}: {arguments.get('note')}"
    return {"content": [{"type": "text", "text": text}], "isError": name == "fail"}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "tally", "version": "2.1.0"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "method not found"}
    else:
        reply["result"] = result
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
