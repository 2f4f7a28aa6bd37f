"""A server whose tools state relations in `_meta`: to its own tools, to another server's, and in an unreadable form."""

from typing import Any

from byhand import HELLO, serve, text, tool

RELATIONS = "toolroute/relations"
TOOLS = [
    {**tool("publish"), "_meta": {RELATIONS: [{"to": "log_in", "type": "needs"}, {"to": "other:steal"}]}},
    {**tool("log_in"), "_meta": {RELATIONS: [{"to": "sign_in", "type": "replaces"}], "other": 1}},
    {**tool("odd"), "_meta": {RELATIONS: "publish"}},
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return HELLO
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return text(f"did {params['name']}")
    raise LookupError(method)


if __name__ == "__main__":
    serve(answer)
