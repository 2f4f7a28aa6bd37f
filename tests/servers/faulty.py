"""A server over stdio with one fault. Run: `python faulty.py FAULT`. The names and methods are below."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from byhand import HELLO, OBJECT, serve, text, tool

LISTINGS: dict[str, dict[str, Any]] = {
    "circle": {"tools": [tool("it")], "nextCursor": "again"},
    "twins": {"tools": [tool("it"), tool("other"), tool("it")]},
    "misshapen": {"tools": [{"name": 7, "inputSchema": "none"}]},
    "nameless": {"tools": [tool("")]},
    "restart": {"tools": [tool("it"), tool("other")], "nextCursor": ""},  # Whatever the cursor is: one page.
    "wide": {"tools": [tool("it"), {**tool("wide"), "description": "wide " * 60_000}]},
}
HOARD: dict[str, dict[str, Any]] = {
    "resources/list": {
        "resources": [
            {"uri": "a:0", "name": 2**22 * "n"},
            *({"uri": f"a:{number}", "name": 60_000 * "n"} for number in range(200)),
        ]
    },
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "t"}]},
    "prompts/list": {"prompts": [{"name": "p"}]},
}
A = {"a": {"type": "string"}}
LISTINGS |= {
    "nil": {"tools": None},
    "loose": {
        "tools": [
            {"name": "it", "input_schema": {**OBJECT, "properties": A}},
            {"name": "nullable", "inputSchema": {"type": ["object", "null"], "properties": A, "required": True}},
            {"name": "upper", "inputSchema": {"type": "Object", "properties": []}, "annotations": "reads"},
        ],
        "nextCursor": 7,
    },
}
MIB = 2**20
ANSWERS: dict[str, Any] = {
    "ignore": None,
    "shapeless": {"toolResult": 1},
    "bare": {"structuredContent": {"count": 1}},
    "empty": {"content": None},
    "video": {"content": [{"type": "video", "data": "AAAA"}, *text("after")["content"]]},
    "image": {"content": [*text("a dot")["content"], {"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
    "many": {"structuredContent": {"zeros": [0] * 600_000}},
    "javascript": {**text("fine"), "structuredContent": {"word": "fine"}},
    "list": {"content": [], "structuredContent": ["Io", "Europa"]},
    "alone": {"content": "fine", "isError": None},
    "loose": {
        "content": [
            *("plain", None, {"text": "untyped"}, {"type": "text", "text": {"of": 1}}),
            {"type": "text", "text": "annotated", "annotations": {"audience": ["x"]}},
            {"type": "image", "url": "https://a.example", "data": "AAAA"},
            {"type": "resource", "resource": {"text": "no address"}},
        ]
    },
}


class Faulty:
    """Answers with the fault. Otherwise it lists one tool and answers "fine"."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.hung = self.greeted = False

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if self.hung:
            return None
        if not self.greeted and method != "initialize":
            getattr(self, f"before_{self.fault}", self.before_none)(method)
        if method == "initialize":
            if self.fault in ("picky", "taciturn") and params["protocolVersion"] != "2025-03-26":
                named = {"supported": ["2024-10-07", "2025-03-26"]} if self.fault == "picky" else None
                raise ValueError("Unsupported protocol version", named)
            self.greeted = True
            return None if self.fault == "mute" else self.hello()
        if method == "tools/list":
            return self.outcome("list", LISTINGS, {"tools": [tool("it")]}, params)
        if method == "tools/call":
            return self.outcome("call", ANSWERS, text("fine"))
        if self.fault == "hoard" and method in HOARD:
            return HOARD[method]
        if self.fault == "leaves" and method == "resources/templates/list":
            number = int(params.get("cursor", 0))
            template = {"uriTemplate": f"a:{number}/{{b}}", "name": "t"}
            return {"resourceTemplates": [template], "nextCursor": str(number + 1)}
        if method == "logging/setLevel" and self.fault == "voiceless":
            return None
        raise LookupError(method)

    def outcome(self, step: str, plain: dict[str, Any], usual: dict[str, Any], *params: Any) -> dict[str, Any] | None:
        method = getattr(self, f"{step}_{self.fault}", None)
        result: dict[str, Any] | None = method(*params) if method else plain.get(self.fault, usual)
        return result

    def before_none(self, method: str) -> None:
        """Answer a request before the handshake like any other request."""

    def before_curt(self, method: str) -> None:
        """End at such a request, as the library for Rust does, and note it in COUNT_FILE."""
        with Path(os.environ.get("COUNT_FILE", os.devnull)).open("a") as file:
            file.write(f"{method}\n")
        print(f"expect initialized request, but received: {method}", file=sys.stderr, flush=True)
        os._exit(1)

    def hello(self) -> dict[str, Any]:
        if self.fault == "ahead":
            with Path(os.environ["COUNT_FILE"]).open("a") as file:
                file.write("initialize\n")
            raise ValueError("Unsupported protocol version", {"supported": ["2999-01-01"]})
        if self.fault == "future":
            return {**HELLO, "protocolVersion": "2999-01-01"}
        if self.fault in ("hoard", "leaves"):
            return {**HELLO, "capabilities": {**HELLO["capabilities"], "resources": {}, "prompts": {}}}
        if self.fault == "voiceless":
            return {**HELLO, "capabilities": {**HELLO["capabilities"], "logging": {}}}
        return {**HELLO, "capabilities": {} if self.fault == "toolless" else HELLO["capabilities"]}

    def list_toolless(self, params: dict[str, Any]) -> dict[str, Any]:
        raise LookupError("tools/list")

    def list_repeating(self, params: dict[str, Any]) -> dict[str, Any]:
        """The same page for ever, with another cursor each time."""
        return {"tools": [tool("it"), tool("other")], "nextCursor": str(int(params.get("cursor", 0)) + 1)}

    def list_endless(self, params: dict[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", 0))
        return {"tools": [tool(f"tool_{number}")], "nextCursor": str(number + 1)}

    def list_crowded(self, params: dict[str, Any]) -> dict[str, Any]:
        """More tools than one server may have, on one page."""
        return {"tools": [tool(f"tool_{number}") for number in range(5_001)]}

    def list_spoilt(self, params: dict[str, Any]) -> dict[str, Any]:
        """As many tools as one server may have, after others that cannot be read."""
        unreadable = [{**tool(f"bad_{number}"), "inputSchema": "no"} for number in range(1_500)]
        return {"tools": unreadable + [tool(f"tool_{number}") for number in range(4_500)]}

    def list_decorated(self, params: dict[str, Any]) -> dict[str, Any]:
        """Small tools whose icons are large."""
        icons = [{"src": "https://a.example/" + 60_000 * "a"}]
        return {"tools": [{**tool(f"tool_{number}"), "icons": icons} for number in range(80)]}

    def list_odd(self, params: dict[str, Any]) -> dict[str, Any]:
        """The first two tools lack a required part and can be mended. The library cannot read the next three. No
        catalogue can read the last two: a name that is no name, and a schema with more levels than any tool needs.
        """
        key = os.environ.get("API_KEY", "")
        unread = [{**tool(key), "description": {"of": key}}, {**tool("array"), "inputSchema": []}, {"name": 7}]
        schema: dict[str, Any] = {"type": "string", "default": key}
        for _ in range(40):
            schema = {**OBJECT, "properties": {"inner": schema}}
        none = [tool(""), {**tool("deep"), "inputSchema": schema, "outputSchema": schema}]
        return {"tools": [{"name": "it"}, {"name": "untyped", "inputSchema": {"required": ["a"]}}, *unread, *none]}

    def list_wordy(self, params: dict[str, Any]) -> dict[str, Any]:
        """A name and a cursor of more characters than anybody reads."""
        return {"tools": [{"name": 100_000 * "n", "inputSchema": []}, tool("it")], "nextCursor": 100_000 * "c"}

    def list_hints(self, params: dict[str, Any]) -> dict[str, Any]:
        hints = [
            {"readOnlyHint": True, "idempotentHint": True},
            {"destructiveHint": False},
            {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True},
        ]
        return {"tools": [{**tool(f"tool_{number}"), "annotations": given} for number, given in enumerate(hints)]}

    def list_restless(self, params: dict[str, Any]) -> dict[str, Any]:
        """Announce changed tools at each listing."""
        told = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        threading.Timer(0.02, lambda: print(told, flush=True)).start()
        return {"tools": [tool("it")]}

    def list_growing(self, params: dict[str, Any]) -> dict[str, Any]:
        """The same, and each time there is another tool."""
        self.grown = getattr(self, "grown", 0) + 1
        self.list_restless(params)
        return {"tools": [tool("it"), tool(f"it_{self.grown}")]}

    def list_titles(self, params: dict[str, Any]) -> dict[str, Any]:
        first = {**tool("inv_07"), "title": "List unpaid invoices"}
        second = {**tool("inv_08"), "title": None, "annotations": {"title": "Pay an invoice", "readOnlyHint": False}}
        return {"tools": [first, second, {**tool("inv_09"), "annotations": {"title": None}}]}

    def list_javascript(self, params: dict[str, Any]) -> dict[str, Any]:
        letters = {"type": "string", "pattern": r"^\p{L}+$"}
        properties = {"word": letters, "sort": {"type": "any"}, "count": {"type": "integer"}}
        return {"tools": [{**tool("it"), "outputSchema": {**OBJECT, "properties": properties}}]}

    def call_crash(self) -> dict[str, Any]:
        told = f"fatal: out of luck, the key was {os.environ.get('API_KEY')}, I was run as {sys.argv}"
        print(told, file=sys.stderr, flush=True)
        time.sleep(0.1)
        os._exit(3)

    def call_hang(self) -> None:
        """From here on nothing is answered any more."""
        self.hung = True

    def call_garbage(self) -> None:
        print('{"jsonrpc": "2.0", "id": 3, "result"', flush=True)

    def call_nested(self) -> dict[str, Any]:
        """Answers with more levels than a reader takes."""
        levels: dict[str, Any] = {}
        for _ in range(300):
            levels = {"a": levels}
        return {"content": [], "structuredContent": levels}

    def list_odd_text(self, params: dict[str, Any]) -> dict[str, Any]:
        """A definition with half of a surrogate pair."""
        return {"tools": [{**tool("it"), "description": "half \ud83d of it"}]}

    def call_odd_text(self) -> dict[str, Any]:
        """Answers with half of a surrogate pair and with a value that is no JSON."""
        return {**text("half \ud83d of it"), "structuredContent": {"n": float("nan")}}

    def call_chatty(self) -> dict[str, Any]:
        print("INFO: this belongs on stderr\n\nand \xff this", flush=True)
        return text("fine")

    def call_structured(self) -> dict[str, Any]:
        """Logs records on stdout that have the numbers of requests."""
        for number in range(20):
            print(json.dumps({"level": "info", "message": "item made", "id": number}), flush=True)
        return text("fine")

    def list_listless(self, params: dict[str, Any]) -> None:
        """Lists nothing and answers nothing."""

    def list_stubborn(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [tool("wait", seconds="number")]}

    def call_stubborn(self) -> None:
        """Never answers."""

    def list_heavy(self, params: dict[str, Any]) -> dict[str, Any]:
        """Lists more than a message may hold."""
        return {"tools": [tool("it"), {**tool("heavy"), "description": "heavy " * 3 * MIB}]}

    def call_heavy(self) -> dict[str, Any]:
        return text("fine")

    def call_long(self) -> dict[str, Any]:
        """Answers with more than a message may hold."""
        return text("long " * 4 * MIB)

    def call_line(self) -> None:
        """Never ends the line that it begins."""
        forever(1, b"line " * 4096)

    def call_own_code(self) -> dict[str, Any]:
        raise ConnectionError("quota used up")


def forever(to: int, words: bytes) -> None:
    """Write the same text without end, as fast as it is read."""
    while True:
        os.write(to, words)


def sleep() -> None:
    """Read nothing, and end neither with its input nor when asked to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def outlive() -> None:
    """Write its number and a child's number into COUNT_FILE. Both ignore the end of their input and requests to end."""
    child = os.fork()
    if not child:
        sleep()
    with Path(os.environ["COUNT_FILE"]).open("a") as file:
        file.write(f"{os.getpid()}\n{child}\n")
    serve(Faulty("stubborn").answer)
    sleep()


def misnumber() -> None:
    """Answer each request under a number that nobody gave."""
    for line in sys.stdin:
        if number := json.loads(line).get("id"):
            print(json.dumps({"jsonrpc": "2.0", "id": number + 1000, "result": HELLO}), flush=True)


NOTICE = (
    b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "so much to say"}}\n'
)
FLOODS = {"flood": (2, b"flood " * 2000 + b"\n"), "notices": (1, NOTICE * 500), "gibberish": (1, b"no JSON\n" * 5000)}
AT_ONCE = {"sleep": sleep, "outlive": outlive, "misnumber": misnumber, "exit": lambda: sys.exit("out of order")}

if __name__ == "__main__":
    fault = sys.argv[1]
    if fault in FLOODS:
        threading.Thread(target=forever, args=FLOODS[fault], daemon=True).start()
    AT_ONCE.get(fault, lambda: serve(Faulty(fault).answer))()
