"""The protocol of 2025 over stdio in a few lines: starts in 50 ms, and lets faults through that a library stops."""

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

Answer = Callable[[str, dict[str, Any]], dict[str, Any] | None]
OBJECT = {"type": "object"}
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "by hand", "version": "1"},
}


def serve(answer: Answer) -> None:
    """Answer each request in its own thread. None sends no answer. LookupError means: no such method."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            threading.Thread(target=_reply, args=(answer, request), daemon=True).start()


def _reply(answer: Answer, request: dict[str, Any]) -> None:
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        result = answer(request["method"], request.get("params", {}))
    except LookupError as unknown:
        reply["error"] = {"code": -32601, "message": f"Method not found: {unknown}"}
    except ValueError as invalid:
        reply["error"] = {"code": -32602, "message": invalid.args[0], "data": invalid.args[1]}
    except PermissionError as links:
        reply["error"] = {"code": -32042, "message": links.args[0], "data": links.args[1]}
    except ConnectionError as error:
        reply["error"] = {"code": -32000, "message": str(error)}
    else:
        if result is None:
            return
        reply["result"] = result
    sys.stdout.write(f"{json.dumps(reply)}\n")
    sys.stdout.flush()


def tool(name: str, **properties: str) -> dict[str, Any]:
    """A definition with these parameters and their types."""
    schema = {**OBJECT, "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema}


def text(value: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(value)}]}
