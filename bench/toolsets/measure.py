"""Measures what the three tools that stand for all others save, on eight real MCP servers.

Run it in a directory with the servers, as docs/guides/toolsets.md says:

    python3 measure.py --toolcrib PATH

It writes a configuration there, serves it, asks over MCP as a client does, and prints tables in
Markdown. Bytes are those of the body of an answer, as it comes.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

NPM = "npm/node_modules/@modelcontextprotocol/{}/dist/index.js"
SERVERS = {
    "everything": ["node", NPM.format("server-everything")],
    "files": ["node", NPM.format("server-filesystem"), "data"],
    "memory": ["node", NPM.format("server-memory")],
    "thinking": ["node", NPM.format("server-sequential-thinking")],
    "git": ["py/bin/mcp-server-git", "--repository", "repo"],
    "fetch": ["py/bin/mcp-server-fetch"],
    "time": ["py/bin/mcp-server-time"],
    "sqlite": ["old/bin/mcp-server-sqlite", "--db-path", "data/test.db"],
}

# What somebody might ask for, in words that were chosen before looking at any ranking, and the tool
# that does it.
TASKS = [
    ("read the contents of a text file", "files__read_text_file"),
    ("write a file", "files__write_file"),
    ("find files by name pattern", "files__search_files"),
    ("rename a file", "files__move_file"),
    ("make a new folder", "files__create_directory"),
    ("what is in this folder", "files__list_directory"),
    ("what changed in the working tree of the repository", "git__git_status"),
    ("commit staged changes", "git__git_commit"),
    ("show the history of commits", "git__git_log"),
    ("new branch", "git__git_create_branch"),
    ("current time in Tokyo", "time__get_current_time"),
    ("convert a time to another timezone", "time__convert_time"),
    ("download a web page", "fetch__fetch"),
    ("run a SQL select query", "sqlite__read_query"),
    ("columns of a database table", "sqlite__describe_table"),
    ("create a table", "sqlite__create_table"),
    ("remember a fact about a person", "memory__add_observations"),
    ("find entities in the knowledge graph", "memory__search_nodes"),
    ("think step by step", "thinking__sequentialthinking"),
    ("add two numbers", "everything__get-sum"),
]
ERAS = ["2025-11-25", "2026-07-28"]


def configuration():
    parts = [
        '[server]\nlisten = "127.0.0.1:0"\n',
        '[toolset.lean]\nallow = ["*"]\nmeta = "search"\n',
    ]
    for name, command in SERVERS.items():
        parts.append(
            f'[[source]]\nid = "{name}"\nkind = "mcp"\ncommand = {json.dumps(command)}\n'
            'cwd = "."\n[source.tools."*"]\nscopes = []\n'
        )
    return "\n".join(parts)


class Caller:
    def __init__(self, base, key, era):
        self.base, self.key, self.era = base, key, era

    def ask(self, path, method, params):
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "authorization": f"Bearer {self.key}",
            "mcp-protocol-version": self.era,
        }
        params = dict(params)
        if self.era == "2026-07-28":
            headers["mcp-method"] = method
            if "name" in params:
                headers["mcp-name"] = params["name"]
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": self.era,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        request = urllib.request.Request(
            self.base + path, json.dumps(body).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            body = answer.read()
        return len(body), json.loads(body)["result"]

    def use(self, name, arguments):
        return self.ask("/mcp/lean", "tools/call", {"name": name, "arguments": arguments})


def serve(toolcrib):
    here = pathlib.Path(".")
    (here / "data").mkdir(exist_ok=True)
    (here / "toolcrib.toml").write_text(configuration())
    made = subprocess.run(
        [toolcrib, "keys", "create", "--json", "--name", "measure", "--scope", "*"],
        check=True, capture_output=True, text=True,
    )
    server = subprocess.Popen(
        [toolcrib, "serve"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    told = re.search(r"http://[0-9.:]+", server.stdout.readline())
    if told is None:
        server.kill()
        sys.exit("the server does not start; what does `toolcrib config check` say?")
    return server, told.group(0), json.loads(made.stdout)["key"]


def settled(caller):
    """Waits until every server has told its tools."""
    for _ in range(300):
        _, listed = caller.ask("/mcp", "tools/list", {})
        have = {tool["name"].split("__")[0] for tool in listed["tools"]}
        if have == set(SERVERS):
            return
        time.sleep(0.2)
    sys.exit(f"these servers told no tools: {sorted(set(SERVERS) - have)}")


def lists(base, key):
    print("| revision | tools | the list | the three tools | saved |")
    print("|---|---|---|---|---|")
    for era in ERAS:
        caller = Caller(base, key, era)
        whole, listed = caller.ask("/mcp", "tools/list", {})
        lean, _ = caller.ask("/mcp/lean", "tools/list", {})
        saved = 100 * (1 - lean / whole)
        print(f"| {era} | {len(listed['tools'])} | {whole:,} | {lean:,} | {saved:.1f} % |")


def tasks(base, key):
    caller = Caller(base, key, ERAS[0])
    whole, _ = caller.ask("/mcp", "tools/list", {})
    lean, _ = caller.ask("/mcp/lean", "tools/list", {})
    print("\n| asked for | place | search | describe |\n|---|---|---|---|")
    costs, places = [], []
    for words, wanted in TASKS:
        found_bytes, found = caller.use("search_tools", {"query": words})
        names = [hit["name"] for hit in json.loads(found["content"][0]["text"])["tools"]]
        place = names.index(wanted) + 1 if wanted in names else None
        about_bytes, about = caller.use("describe_tool", {"name": wanted})
        if about.get("isError"):
            sys.exit(f"there is no {wanted}")
        costs.append(found_bytes + about_bytes)
        places.append(place)
        print(f"| {words} → `{wanted}` | {place or '–'} | {found_bytes:,} | {about_bytes:,} |")
    costs.sort()
    middle = costs[len(costs) // 2]
    first = sum(place == 1 for place in places)
    among = sum(place is not None for place in places)
    even = (whole - lean) / middle
    print(f"\n{first} of {len(TASKS)} first, {among} among the first 8.")
    print(f"A search and a description: {middle:,} bytes in the middle, {costs[-1]:,} at most;")
    print(f"the whole list ({whole:,}) is worth {even:.1f} of them beside the three tools ({lean:,}).")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--toolcrib", default="toolcrib")
    toolcrib = parser.parse_args().toolcrib
    server, base, key = serve(toolcrib)
    try:
        settled(Caller(base, key, ERAS[0]))
        lists(base, key)
        tasks(base, key)
    finally:
        server.terminate()
        server.wait(30)


main()
