"""A server with one tool, which a file defines. It ends when the file changes, so that it is listed again.

Run with DEFINITION, the JSON file of the tool, and COUNT_FILE, to which each call adds a line. If the description has
"lost" in it, the process ends in the middle of a call.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from byhand import HELLO, serve, text

FILE, COUNT = Path(os.environ["DEFINITION"]), Path(os.environ["COUNT_FILE"])
FILE.with_suffix(".pid").write_text(str(os.getpid()))


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    definition = json.loads(FILE.read_text())
    if method == "initialize":
        return HELLO
    if method == "tools/list":
        return {"tools": [definition]}
    if method == "tools/call":
        with COUNT.open("a") as file:
            file.write("called\n")
        if "lost" in definition["description"]:
            os._exit(1)
        return text("paid")
    raise LookupError(method)


def end_when_it_changes() -> None:
    before = FILE.read_text()
    while FILE.read_text() == before:
        time.sleep(0.01)
    os._exit(0)


threading.Thread(target=end_when_it_changes, daemon=True).start()
serve(answer)
