"""A client's entry of a server, translated into the form of an mcpServers file.

{"enabled": true, "cmd": "uvx", "envs": {"KEY": "$KEY"}}      Goose
{"command": "uvx", "env": {"KEY": "${KEY}"}}                  mcpServers
"""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from orchestrator.client_setup.client_file import ClientFile
from orchestrator.client_setup.products import OURS, Client
from orchestrator.mcp.config.launch import VARIABLE
from orchestrator.mcp.config.parse import McpConfig

_TYPES = {"local": "stdio", "remote": "http", "streamable_http": "http"}
_CODEX_LIMITS = {"startup_timeout_sec": "connect_timeout_s", "tool_timeout_sec": "call_timeout_s"}
_CODEX_CONTAINERS = {"http_headers": dict, "env_http_headers": dict, "env_vars": list, "env": dict}
_OF_CODEX = {
    *_CODEX_LIMITS,
    *_CODEX_CONTAINERS,
    "bearer_token_env_var",
    "enabled_tools",
    "disabled_tools",
}
_NAMESPACED = re.compile(r"\$\{env:([A-Za-z_]\w*)")
_CLIENT_VARIABLE = re.compile(r"\$\{+[^}]*\}+|(?<!\$)\{(?:env|file):[^}]*\}")
"""Variables that only the client can fill in, such as `${input:key}`, `${{ secrets.KEY }}` and `{file:~/key}`."""


def translated(client: Client, entry: Any) -> Any:
    """Return a client's entry as an mcpServers file has it, without null values.

    Each notation of a variable becomes `${NAME}`, so that two clients' entries of one server are equal.
    """
    if client.form == "toml":
        entry = _from_codex(entry)
    text = _NAMESPACED.sub(r"${\1", json.dumps(entry, default=str))
    if client.variable:
        text = re.sub(client.variable, r"${\1}", text)
    entry = json.loads(text, parse_constant=str)  # JSON has no endless time, which TOML has.
    if not isinstance(entry, dict):
        return entry
    fields = {
        client.fields.get(key, key): value
        for key, value in entry.items()
        if value not in (None, [])
    }
    return _with_split_command(client, fields) | _with_known_values(fields)


def _with_split_command(client: Client, entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry in which the command is one text, and the arguments are a list."""
    command = entry.get("command")
    if client.joined and isinstance(command, list) and command:
        return {**entry, "command": command[0], "args": command[1:]}
    if isinstance(command, dict) and "path" in command:
        return entry | _of_older_zed(command)
    return dict(entry)


def _of_older_zed(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of Zed's form until 2025: {"path", "args", "env"}."""
    fields = {"path": "command", "args": "args", "env": "env"}
    return {
        ours: command[theirs] for theirs, ours in fields.items() if command.get(theirs) is not None
    }


def _with_known_values(entry: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if entry.get("type") in _TYPES:
        values["type"] = _TYPES[entry["type"]]
    if entry.get("includeTools") == ["*"]:
        values["includeTools"] = None
    return values


def _from_codex(entry: Any) -> Any:
    """Return an entry of Codex as an mcpServers file has it."""
    if not isinstance(entry, Mapping):
        return entry
    fields = {key: value for key, value in entry.items() if key not in _OF_CODEX}
    for key, kind in _CODEX_CONTAINERS.items():
        value = entry.get(key, kind())
        if not isinstance(value, kind):
            # McpConfig reports the error in it.
            return {**fields, "headers" if "headers" in key else "env": value}
    headers = {**entry.get("http_headers", {})}
    headers |= {key: f"${{{name}}}" for key, name in entry.get("env_http_headers", {}).items()}
    if name := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{name}}}"
    forwarded = {str(name): f"${{{name}}}" for name in entry.get("env_vars", ())}
    more = {
        "headers": headers,
        "env": {**forwarded, **entry.get("env", {})},
        "includeTools": entry.get("enabled_tools"),
        "disabledTools": entry.get("disabled_tools"),
        "toolroute": {
            ours: entry[theirs] for theirs, ours in _CODEX_LIMITS.items() if theirs in entry
        },
    }
    return fields | {key: value for key, value in more.items() if value}


def is_ours(entry: Any) -> bool:
    """Return True if a translated entry starts `toolroute serve`."""
    args = entry.get("args") if isinstance(entry, Mapping) else ()
    if not isinstance(args, list) or "serve" not in args:
        return False
    started = (entry.get("command"), *args[: args.index("serve")])
    return not {OURS, "orchestrator"}.isdisjoint(Path(str(word)).stem for word in started)


def words(args: Iterable[Any]) -> list[str]:
    """Return arguments with `--option=value` as two words."""
    split: list[str] = []
    for argument in map(str, args):
        split += argument.split("=", 1) if argument.startswith("--") else [argument]
    return split


def our_entry(file: ClientFile) -> Any:
    """Return the translated entry of toolroute in a client's file, None without one."""
    return translated(file.client, file.entries[OURS]) if OURS in file.entries else None


def served(files: Iterable[ClientFile]) -> Path | None:
    """Return the mcpServers file that toolroute's entry in one of these files names, None if no such file exists."""
    for file in files:
        config = named_config(file)
        if config and config.is_file():
            return config
    return None


def named_config(file: ClientFile) -> Path | None:
    """Return the path of the mcpServers file that toolroute's entry names, None without one. It may not exist."""
    entry = our_entry(file)
    if not is_ours(entry):
        return None
    config = dict(pairwise(words(entry["args"]))).get("--config")
    return Path(config) if config else None


def same_server(entry: Any, other: Any) -> bool:
    """Return True if two entries start or reach the same server. Their time limits may differ."""
    specs = [
        McpConfig.parse({"mcpServers": {"server": candidate}}).servers.get("server")
        for candidate in (entry, other)
    ]
    # An entry that is switched off has no spec, so only the texts can be compared.
    if specs[0] is None or specs[1] is None:
        return specs[0] is specs[1] and entry == other
    first, second = (
        spec.model_dump(exclude={"type", "source", "limits", "unknown"}) for spec in specs if spec
    )
    return first == second


def why_it_stays(server: str, entry: Any, client: Client) -> str:
    """Return the reason why toolroute cannot start a server as its client does, "" if it can.

    Args:
        server: The name of the server.
        entry: The server's entry, as the client's file has it. It may have any type.
        client: The client that has the entry.
    """
    if not isinstance(entry, Mapping):
        return "its entry is not an object: correct it"
    if entry.get("type") in client.builtin:
        return f"it is a part of {client.title}"
    if client.name == "zed" and not entry.get("command") and not entry.get("url"):
        return "it belongs to an extension of Zed, which starts it"
    if variable := _CLIENT_VARIABLE.search(VARIABLE.sub("", json.dumps(entry))):
        return f"only {client.title} can fill in {variable[0]}"
    if entry.get("env_keys"):
        return f"{client.title} keeps its secrets: {', '.join(map(str, entry['env_keys']))}"
    config = McpConfig.parse({"mcpServers": {server: entry}}, source="")
    if not config.servers:
        return "it is switched off"
    [spec] = config.servers.values()
    return spec.problem.partition(f"server {spec.name!r}: ")[2]
