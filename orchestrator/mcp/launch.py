"""An entry of an `mcpServers` file as it is started: its variables replaced, and what of it is secret."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import InvalidConfig
from orchestrator.mcp.env_file import read_env_file
from orchestrator.records.redact import Secrets
from orchestrator.records.secrets import (
    argument_secrets,
    header_secrets,
    header_values,
    is_plain,
    secrets_in,
    variable_secrets,
)

if TYPE_CHECKING:
    from orchestrator.mcp.config import ServerSpec

VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_LEFT_OVER = re.compile(r"\$\{[^}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What it takes to start or reach a server, secrets included: made for one connection, never kept or shown."""

    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: dict[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = field(default=None, repr=False)
    url: str = field(default="", repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: Secrets = field(default_factory=Secrets, repr=False)


def environment() -> Mapping[str, str]:
    """What `${NAME}` is looked up in unless a caller gives something else: the process's environment."""
    return os.environ


def expand(spec: "ServerSpec", environ: Mapping[str, str]) -> Launch:
    """The entry with its variables replaced; InvalidConfig names those that are missing."""
    return _Expansion(spec, environ).launch()


def _editors(name: str) -> str | None:
    """What VS Code and Cursor put in themselves; what a person opened there is the working folder here."""
    folder = Path.cwd()
    known = {"userHome": Path.home(), "workspaceFolder": folder, "workspaceFolderBasename": folder.name}
    return str(known[name]) if name in known else None


class _Expansion:
    """Replaces variables over one entry; collects what is missing, so one error names all, and what is secret."""

    def __init__(self, spec: "ServerSpec", environ: Mapping[str, str]) -> None:
        self._spec, self._environ = spec, environ
        self._missing: dict[str, str] = {}
        self._unknown: dict[str, str] = {}
        self._shown: list[str] = []
        self._strong: list[str] = []

    def launch(self) -> Launch:
        spec = self._spec
        launch = Launch(
            command=self._expand("command", spec.command),
            args=tuple(self._expand(f"args[{number}]", value) for number, value in enumerate(spec.args)),
            env={**self._env_file(), **{name: self._env(name, value) for name, value in spec.env.items()}},
            cwd=self._expand("cwd", spec.cwd) if spec.cwd else None,
            url=self._expand("url", spec.url),
            headers={name: self._header(name, value) for name, value in spec.headers.items()},
        )
        self._refuse_gaps()
        self._shown += header_values(launch.headers)
        self._strong += [*secrets_in(launch.url), *argument_secrets([launch.command, *launch.args])]
        object.__setattr__(launch, "secrets", Secrets(self._shown, self._strong))
        return launch

    def _expand(self, where: str, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            # As in a shell, `:-` also stands in for an empty value.
            found = self._environ.get(name) or default if default is not None else self._environ.get(name)
            if found is not None:
                self._note(name, found, guess=name in self._environ)
                return found
            if (found := _editors(name)) is None:
                self._missing[name] = where
            return found or ""

        expanded = VARIABLE.sub(value, text)
        for left_over in _LEFT_OVER.findall(VARIABLE.sub("", text)):
            self._unknown[left_over] = where
        return expanded

    def _env(self, name: str, text: str) -> str:
        value = self._expand(f"env.{name}", text)
        self._note(name, value, guess=False)
        return value

    def _env_file(self) -> dict[str, str]:
        path = self._expand("envFile", self._spec.env_file)
        if not path or self._missing or self._unknown:
            return {}  # `launch` tells all that is missing.
        found = read_env_file(path, f"{self._where}: envFile {self._spec.env_file!r}")
        for name, value in found.items():
            self._note(name, value, guess=False)
        return found

    def _note(self, name: str, value: str, *, guess: bool) -> None:
        self._strong += [*variable_secrets(name, value, guess=guess), *secrets_in(value)]
        self._shown += [] if is_plain(value) else [value]

    def _header(self, name: str, text: str) -> str:
        value = self._expand(f"headers.{name}", text)
        self._strong += header_secrets(name, value)
        if not value.isascii() or any(ord(character) < 32 for character in value):
            raise InvalidConfig(f"{self._where}: headers.{name} holds characters that a header may not hold")
        return value

    @property
    def _where(self) -> str:
        return f"{self._spec.source}: server {self._spec.name!r}"

    def _refuse_gaps(self) -> None:
        if self._unknown:
            shown = ", ".join(f"{text} (in {where})" for text, where in self._unknown.items())
            raise InvalidConfig(f"{self._where}: {shown} is not understood; write ${{NAME}} or ${{NAME:-default}}")
        if self._missing:
            shown = ", ".join(f"{name} (in {where})" for name, where in self._missing.items())
            raise InvalidConfig(
                f"{self._where}: not set in the environment: {shown}; set it, or write ${{NAME:-default}}"
            )
