"""One of the servers of tools.json over stdio. It answers each call with its arguments. Run: `-m ... NAME`."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.servers.byhand import HELLO, OBJECT, serve, text

FILE = Path(__file__).parent / "tools.json"


def definitions(server: str) -> list[dict[str, Any]]:
    """Its tools: in the file each is a description and the names of its parameters, which are texts."""
    return [
        {"name": name, "description": description, "inputSchema": _schema(parameters)}
        for name, (description, *parameters) in json.loads(FILE.read_text())[server].items()
    ]


def _schema(parameters: list[str]) -> dict[str, Any]:
    return {**OBJECT, "properties": {name: {"type": "string"} for name in parameters}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return HELLO
    if method == "tools/list":
        return {"tools": definitions(sys.argv[1])}
    if method == "tools/call":
        return text(f"{params['name']}: {json.dumps(params.get('arguments', {}))}")
    raise LookupError(method)


if __name__ == "__main__":
    serve(answer)
