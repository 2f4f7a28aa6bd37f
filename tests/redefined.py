"""The server of `servers/redefined.py` in a test: its entry, its definitions, and the calls that reached it."""

import json
from pathlib import Path
from typing import Any

from tests.servers.start import entry


class Redefined:
    def __init__(self, folder: Path, *tools: dict[str, Any], when_changed: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self._file = folder / "definitions.json"
        self.entry = entry("redefined.py", str(self._file), when_changed)
        self.lists(*tools)

    def lists(self, *tools: dict[str, Any]) -> None:
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps(tools))
        part.replace(self._file)

    @property
    def calls(self) -> list[str]:
        """The names of the called tools."""
        calls = self._file.with_suffix(".calls")
        return calls.read_text().splitlines() if calls.exists() else []

    @property
    def pid(self) -> str:
        """The process that was started last."""
        return self._file.with_suffix(".pid").read_text()
