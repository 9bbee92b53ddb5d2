"""A model of the OpenAI API that answers with one sentence, and says which tools it was offered.

    python model.py

Prints `listening on URL`, then one JSON line for each request: the names of its tools. Ends when its
stdin is closed.
"""

import http.server
import json
import os
import sys
import threading

ITEM = {
    "type": "message",
    "role": "assistant",
    "id": "msg_1",
    "status": "completed",
    "content": [{"type": "output_text", "text": "done", "annotations": []}],
}
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
DONE = {"id": "resp_1", "object": "response", "status": "completed", "output": [ITEM], "usage": USAGE}
EVENTS = [
    {"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    {"type": "response.completed", "response": DONE},
]


def names(tools):
    """The names of tools, also of those in a namespace."""
    for tool in tools:
        yield tool.get("name", tool.get("type", ""))
        yield from names(tool.get("tools", []))


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(json.dumps(sorted(names(request.get("tools", [])))), flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in EVENTS:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
