"""Runs a snippet of docs/guides/clients as a part of an async function, and the lines after it.

    python run_snippet.py SNIPPET_FILE REST_FILE

Prints what the lines print.
"""

import asyncio
import pathlib
import sys
import textwrap


def main():
    snippet, rest = (pathlib.Path(file).read_text() for file in sys.argv[1:])
    code = f"async def main():\n{textwrap.indent(snippet.rstrip() + chr(10) + rest, '    ')}"
    names = {}
    exec(compile(code, sys.argv[1], "exec"), names)
    asyncio.run(names["main"]())


if __name__ == "__main__":
    main()
