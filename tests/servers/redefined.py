"""A server that lists the tools that a file defines now, and notes each call beside that file.

Run: `python redefined.py FILE WHEN_CHANGED`. When the file changes, it "tells" its client, or "ends", or does nothing.
It ends in the middle of a call while the file contains "end here".
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from byhand import HELLO, serve, text


def main(file: Path, when_changed: str) -> None:
    file.with_suffix(".pid").write_text(str(os.getpid()))

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        definitions = file.read_text()
        if method == "initialize":
            return HELLO
        if method == "tools/list":
            return {"tools": json.loads(definitions)}
        if method == "tools/call":
            with file.with_suffix(".calls").open("a") as calls:
                calls.write(f"{params['name']}\n")
            if "end here" in definitions:
                os._exit(1)
            return text("done")
        raise LookupError(method)

    threading.Thread(target=watch, args=(file, when_changed), daemon=True).start()
    serve(answer)


def watch(file: Path, when_changed: str) -> None:
    known = file.read_text()
    while when_changed:
        time.sleep(0.02)
        if (now := file.read_text()) != known:
            known = now
            if when_changed == "ends":
                os._exit(0)
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
