"""A server that lists the present tools of the file DEFINITIONS, and notes each call in COUNT_FILE.

It ends in the middle of a call while the file contains "end here". With TELLS it says when the file changed.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from byhand import HELLO, serve, text


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return HELLO
    if method == "tools/list":
        return {"tools": json.loads(Path(os.environ["DEFINITIONS"]).read_text())}
    if method == "tools/call":
        with Path(os.environ["COUNT_FILE"]).open("a") as file:
            file.write(f"{params['name']}\n")
        if "end here" in Path(os.environ["DEFINITIONS"]).read_text():
            os._exit(1)
        return text("done")
    raise LookupError(method)


def tell() -> None:
    """Say that the tools changed, whenever the file changes."""
    file = Path(os.environ["DEFINITIONS"])
    known = file.read_text()
    while True:
        time.sleep(0.02)
        if (now := file.read_text()) != known:
            known = now
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)


if "TELLS" in os.environ:
    threading.Thread(target=tell, daemon=True).start()
serve(answer)
