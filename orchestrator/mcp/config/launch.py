"""An entry of an `mcpServers` file ready to start: its variables replaced, and its secrets known."""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestrator.common.json_input import reading, why_unread
from orchestrator.common.redact import Secrets, argument_secrets, url_secrets
from orchestrator.common.regular import read_text, regular
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.oauth import OAuth
from orchestrator.mcp.transports.runners import runner_of

VARIABLE = re.compile(
    r"\$\{(?:file:(?P<file>[^}]+)|(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?)\}"
)
_BARE = re.compile(r"\$(?=[A-Za-z_])(\w+)")
"""A variable, also in Gemini CLI's notation."""
_FOLDER_OF_PYTHON = Path(sys.executable).parent
_OF_NODE = frozenset({"node", "npm", "npx", "corepack"})
_MOST_SECRET = 65_536
"""Maximum number of characters of a file used as a value."""
_MOST_ENV_BYTES = 2**20
"""A file with variables is small. A larger one is another file, given by mistake."""
_LEFT_OVER = re.compile(r"\$\{[^}]*\}")

_ORIGIN = re.compile(r"\b(https?)://(?:[^\s/@]*@)?([^\s/?#@\"']+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The data to start or reach a server, secrets included. Made for one connection, never stored or shown."""

    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: dict[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = field(default=None, repr=False)
    url: str = field(default="", repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    oauth: OAuth = field(default_factory=OAuth, repr=False)
    client_metadata_url: str = ""
    secrets: Secrets = field(default_factory=Secrets, repr=False)

    @property
    def signs_in(self) -> bool:
        """True for a URL whose entry gives no credentials."""
        return bool(self.url) and "authorization" not in map(str.lower, self.headers)

    @property
    def in_clear(self) -> bool:
        """True for plain HTTP to another machine, where the traffic can be read in transit."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in LOOPBACK

    @property
    def addresses(self) -> list[str]:
        """The scheme, host and port of each URL in the arguments and variables. These parts hold no secrets."""
        unique = dict.fromkeys(
            f"{scheme}://{host}"
            for text in (*self.args, *self.env.values())
            for scheme, host in _ORIGIN.findall(text)
        )
        return list(unique)

    @property
    def runner(self) -> str:
        """The package runner that the command starts, which may install before it starts a server."""
        return runner_of(self.command, self.args)

    @property
    def executable(self) -> str | None:
        """The path of the command, or None if it is not found.

        A command that is installed next to toolroute is found without a folder on the PATH.
        """
        if os.sep in self.command:
            return self.command if shutil.which(Path(self.cwd or "", self.command)) else None
        of_node = self.command.partition(".")[0] in _OF_NODE
        path = shutil.which(self.command, path=self.path if of_node else self.env.get("PATH"))
        path = path or shutil.which(str(_FOLDER_OF_PYTHON / self.command))
        return path and str(Path(path).absolute())

    @property
    def path(self) -> str:
        """The server's PATH: its entry's or the user's.

        A Node that some Python package put into toolroute's own environment comes last, behind the machine's.
        """
        if "PATH" in self.env:
            return self.env["PATH"]
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        python = str(_FOLDER_OF_PYTHON)
        if python in folders and shutil.which("node", path=python):
            folders = [*(folder for folder in folders if folder != python), python]
        return os.pathsep.join(folders)

    @property
    def program(self) -> str:
        """The command's program without its arguments, for display. The arguments may contain secrets."""
        name, _, more = self.command.strip().partition(" ")
        return self.secrets.redact(name) + (" ..." if more else "")


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PASSED = frozenset(
    """
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS NODE_USE_SYSTEM_CA AWS_CA_BUNDLE
    GIT_SSL_CAINFO PIP_CERT UV_NATIVE_TLS UV_SYSTEM_CERTS
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
    DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS SSH_AUTH_SOCK LANG LANGUAGE TZ TMPDIR
    DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_CERT_PATH DOCKER_TLS_VERIFY DOCKER_DEFAULT_PLATFORM CONTAINER_HOST
    NPM_CONFIG_REGISTRY NPM_CONFIG_USERCONFIG NPM_CONFIG_CACHE NPM_CONFIG_CAFILE NPM_CONFIG_PROXY
    NPM_CONFIG_HTTPS_PROXY NPM_CONFIG_NOPROXY
    PIP_CONFIG_FILE PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_FIND_LINKS
    UV_INDEX UV_DEFAULT_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_FIND_LINKS UV_CACHE_DIR UV_CONFIG_FILE UV_OFFLINE
    UV_PYTHON_INSTALL_DIR PLAYWRIGHT_BROWSERS_PATH
    """.split()
)
"""What a server gets besides HOME, LOGNAME, PATH, SHELL, TERM and USER, in upper or lower case: without it a server
reaches no network, display, agent, container or package index of a machine that needs it. None is made for a secret."""
_PASSED_KINDS = ("LC_", "XDG_")
_INDEXES = ("NPM_CONFIG_REGISTRY", "PIP_", "UV_")
"""Beginnings of variables that hold addresses of package indexes."""


def passed(environ: Mapping[str, str], runner: str = "") -> dict[str, str]:
    """Return the variables that a server gets.

    The address of a package index that holds a password goes only to a server that a package runner starts.
    """
    return {
        name: value
        for name, value in environ.items()
        if _is_passed(name) and (runner or not _opens_an_index(name, value))
    }


def private_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without the variables that every server gets, such as TZ.

    A mask in place of a time zone made a tool's definition and results wrong. An address stays, because it can hold a
    password.
    """
    return {
        name: value
        for name, value in settings.items()
        if not _is_passed(name) or "://" in value or "@" in value
    }


def _is_passed(name: str) -> bool:
    return name.upper() in _PASSED or name.startswith(_PASSED_KINDS)


def _opens_an_index(name: str, value: str) -> bool:
    words = value.split()
    return name.upper().startswith(_INDEXES) and bool(
        argument_secrets(words) or any(map(url_secrets, words))
    )


def passed_secrets(environ: Mapping[str, str]) -> list[str]:
    """Return the passwords and tokens in the addresses of proxies and package indexes that servers get."""
    return argument_secrets(
        [word for value in passed(environ, "any").values() for word in value.split()]
    )


def at_home(text: str) -> str:
    """Return a word with `~` at its beginning replaced, as a shell does."""
    return os.path.expanduser(text)  # noqa: PTH111, a Path would change a text that is no path


def braced(text: str) -> str:
    """Write `$NAME` as `${NAME}`: Gemini CLI expands both."""
    return _BARE.sub(r"${\1}", text)


def environment() -> Mapping[str, str]:
    """Return the default variables for `${NAME}`: the environment of the process."""
    return os.environ


class Expansion:
    """Replaces variables in texts, and collects the used, missing and malformed ones."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        folder = Path.cwd()
        # VS Code and Cursor fill in these variables. The folder that a person opened there is the working folder here.
        self._environ = {
            "userHome": str(Path.home()),
            "workspaceFolder": str(folder),
            "workspaceFolderBasename": folder.name,
            "toolroutePython": sys.executable,
            **environ,
        }
        self.used: dict[str, str] = {}
        self.missing: list[str] = []
        self.unknown: list[str] = []
        self.unread: list[str] = []

    def within(self, where: str, value: Any) -> Any:
        """Return a JSON value with the variables in all its texts replaced."""
        if isinstance(value, str):
            return self.of(where, value)
        if isinstance(value, Mapping):
            return {name: self.within(f"{where}.{name}", item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.within(f"{where}[{number}]", item) for number, item in enumerate(value)]
        return value

    def of(self, where: str, text: str) -> str:
        """Return a text with its variables replaced. `where` names it in errors."""

        def value(match: re.Match[str]) -> str:
            if path := match["file"]:
                return self._read(where, path)
            name = match["name"]
            # As in a shell, `:-` also stands in for an empty value.
            text_of_variable = self._environ.get(name) or match["default"]
            if text_of_variable is None and name not in self._environ:
                self.missing.append(f"{name} (in {where})")
            self.used[name] = text_of_variable or ""
            return self.used[name]

        for left in _LEFT_OVER.findall(VARIABLE.sub("", text)):
            self.unknown.append(f"{left} (in {where})")
        return VARIABLE.sub(value, text)

    def _read(self, where: str, path: str) -> str:
        """Return a file's text without the line ends behind it, as secrets of containers are kept."""
        try:
            with open(at_home(path), encoding="utf-8", opener=regular) as file:
                content = file.read(_MOST_SECRET + 1)
        except (OSError, UnicodeDecodeError) as error:
            self.unread.append(f"{path} (in {where}): {why_unread(error)}")
            return ""
        if len(content) > _MOST_SECRET:
            self.unread.append(f"{path} (in {where}): it has more than {_MOST_SECRET:,} characters")
        secret = content.rstrip("\r\n")
        self.used[f"file {path}"] = secret
        return secret

    def check(self, where: str) -> None:
        """Raise InvalidConfig for variables that are missing or not understood."""
        if self.unknown:
            names = ", ".join(self.unknown)
            raise InvalidConfig(
                f"{where}: {names} is not understood; write ${{NAME}} or ${{NAME:-default}}"
            )
        if self.unread:
            raise InvalidConfig(
                f"{where}: a file cannot be read: {'; '.join(self.unread)}; correct ${{file:PATH}}"
            )
        if self.missing:
            names = ", ".join(self.missing)
            raise InvalidConfig(
                f"{where}: not set in the environment: {names}; set it, or write ${{NAME:-default}}"
            )


def read_env_file(path: str, named: str) -> dict[str, str]:
    """Read the variables of VS Code's `envFile`. Errors contain no value."""
    from dotenv.parser import parse_stream

    with reading(named, 'give its path, or "env"', InvalidConfig):
        text = read_text(path, most_bytes=_MOST_ENV_BYTES)
        bindings = list(parse_stream(StringIO(text)))
    variables: dict[str, str] = {}
    for binding in bindings:
        if binding.key and binding.value is not None and not binding.error:
            variables[binding.key] = binding.value
        elif binding.key or binding.error:
            raise InvalidConfig(f"{named}, line {binding.original.line}: give NAME=VALUE")
    return variables
