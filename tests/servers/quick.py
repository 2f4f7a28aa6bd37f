"""A server that works and starts fast. COUNT_FILE names a file to which `wait` and the crashes add a line a call."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from byhand import HELLO, serve, text, tool

TOOLS = [
    tool("pid"),
    tool("add", a="integer", b="integer"),
    tool("wait", seconds="number"),
    tool("key"),
    tool("crash"),
    {**tool("crash_once"), "annotations": {"readOnlyHint": True}},
    tool("environment"),
    tool("large", megabytes="integer"),
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return HELLO
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params.get("arguments", {}), params.get("_meta", {}))
    raise LookupError(method)


def call(name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    if name == "add":
        return text(arguments["a"] + arguments["b"])
    if name == "wait":
        note(name)
        time.sleep(arguments["seconds"])
        return text("waited")
    if name == "environment":
        return {**text(dict(os.environ)), "structuredContent": dict(os.environ)}
    if name == "large":
        return text("word " * (arguments["megabytes"] * 200_000))
    if name.startswith("crash"):
        crash(name)
    return text({"pid": os.getpid(), "key": meta.get("toolroute/idempotency-key")}.get(name, "survived"))


def crash(name: str) -> None:
    if note(name).count(name) == 1 or name == "crash":
        os.kill(os.getpid(), signal.SIGKILL)


def note(name: str) -> str:
    """Add a line to COUNT_FILE and return all of it."""
    count = Path(os.environ.get("COUNT_FILE", os.devnull))
    with count.open("a") as file:
        file.write(f"{name}\n")
    return count.read_text()


if __name__ == "__main__":
    serve(answer)
