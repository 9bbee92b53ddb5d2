"""Registers the upstream at a running ContextForge, and prints the values that its requests need.

    setup.py PORT UPSTREAM

Run by `toolcrib-bench` with the Python of ContextForge. Every step has a time limit.
"""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

LIMIT_SECONDS = 60


def main():
    port, upstream = sys.argv[1:]
    token = new_token()
    host = Host(f"http://127.0.0.1:{port}", token)
    gateway = {"name": "up", "url": f"http://{upstream}/mcp", "transport": "STREAMABLEHTTP"}
    host.post("/gateways", gateway)
    tools = host.tools()
    server = host.post("/servers", {"server": {"name": "bench", "associated_tools": [tool["id"] for tool in tools]}})
    echo = next(tool["name"] for tool in tools if tool["name"].endswith("echo"))
    print(f"token={token}")
    print(f"server={server['id']}")
    print(f"tool={echo}")


def new_token():
    command = [sys.executable, "-m", "mcpgateway.utils.create_jwt_token"]
    command += ["--username", "admin@example.com", "--admin", "--exp", "600"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS)
    # Its log is on stdout, too.
    return output.stdout.split()[-1]


class Host:
    def __init__(self, base, token):
        self.base = base
        self.headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def request(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, self.headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            sys.exit(f"{method} {path}: {error.code}: {error.read().decode(errors='replace')}")

    def post(self, path, body):
        return self.request("POST", path, body)

    def tools(self):
        """Returns the tools of the upstream as soon as they are known."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < deadline:
            found = self.request("GET", "/tools?limit=0")
            tools = found if isinstance(found, list) else found.get("tools", [])
            if tools:
                return tools
            time.sleep(0.5)
        sys.exit("no tools of the upstream")


main()
