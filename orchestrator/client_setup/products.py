"""The MCP clients that `toolroute setup` knows: where each keeps its servers, and how it spells them.

`products.toml` has the facts about each client.

A client's entry of a server, here of opencode, and the same entry in an mcpServers file:

    {"type": "local", "command": ["npx", "server"], "environment": {"KEY": "{env:KEY}"}}
    {"command": "npx", "args": ["server"], "env": {"KEY": "${KEY}"}}
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

OURS = "toolroute"
"""The name of toolroute's entry in a client's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that starts MCP servers.

    Attributes:
        name: Its name in commands. `products.toml` explains the other fields.
    """

    name: str
    title: str
    places: Sequence[str]
    windows: str = ""
    project: str = ""
    key: str = "mcpServers"
    environment: Literal["named", "inherited", "withheld"] = "named"
    fields: Mapping[str, str] = field(default_factory=dict)
    joined: bool = False
    ours: Mapping[str, Any] = field(default_factory=dict)
    variable: str = ""
    namespaced: bool = False
    builtin: Sequence[str] = ()

    def path(self, environ: Mapping[str, str], system: str) -> Path:
        """Return the path of its user-wide file, existing or not. `system` is a value of `sys.platform`."""
        home = _home(environ, system)
        folders = {
            "home": home,
            "xdg": environ.get("XDG_CONFIG_HOME") or f"{home}/.config",
            "config": settings_folder(environ, system),
            "codex": environ.get("CODEX_HOME") or f"{home}/.codex",
            "claude": environ.get("CLAUDE_CONFIG_DIR") or home,
            "copilot": environ.get("COPILOT_HOME") or f"{home}/.copilot",
        }
        places = self.places
        if self.windows and system == "win32":
            places = [self.windows]
        paths = [Path(template.format(**folders)) for template in places]
        return next((path for path in paths if path.is_file()), paths[0])

    @property
    def form(self) -> str:
        """The file's format: `json` (comments allowed), `toml` or `yaml`."""
        return self.places[0].rpartition(".")[2].replace("jsonc", "json")


def settings_folder(environ: Mapping[str, str], system: str) -> Path:
    """Return the folder in which the programs of a system keep their settings."""
    home = _home(environ, system)
    if system == "win32":
        return Path(environ.get("APPDATA") or f"{home}/AppData/Roaming")
    if system == "darwin":
        return Path(f"{home}/Library/Application Support")
    return Path(environ.get("XDG_CONFIG_HOME") or f"{home}/.config")


def _home(environ: Mapping[str, str], system: str) -> str:
    variable = "USERPROFILE" if system == "win32" else "HOME"
    return environ.get(variable) or str(Path.home())


def _read() -> Iterator[Client]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    for name, row in tomllib.loads(text).items():
        yield Client(name=name, **row)


CLIENTS = tuple(_read())
