"""A client's TOML file (Codex), in which `tomlkit` replaces the servers and keeps comments, order and quotes.

[mcp_servers.docs]
url = "https://mcp.example/mcp"
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from orchestrator.client_setup.comments import comments as comments

_REMARKS = re.compile(r"((?:^[ \t]*#.*\n)+)(?:^[ \t]*\n)*^(\[.*)$", re.MULTILINE)
"""Comments, and the header of the table that they stand above."""


def parse(text: str) -> Any:
    """Return the value of the file. Raises ValueError for a broken one."""
    return tomllib.loads(text)


def with_servers(text: str, key: str, entries: Mapping[str, Any]) -> str:
    """Return the text with these servers as the value of `key`. All other content is unchanged.

    Args:
        text: The text of the file.
        key: The key of the servers, at the top level.
        entries: The entries of the servers, by name.

    Raises:
        ValueError: The text cannot be changed.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return _with_remarks(text, _with_tables(tomlkit.parse(text), key, entries))
    except TOMLKitError as error:
        raise ValueError(str(error)) from None


def _with_tables(document: Any, key: str, entries: Mapping[str, Any]) -> str:
    import tomlkit
    from tomlkit.container import OutOfOrderTableProxy

    if key not in document:
        document[key] = tomlkit.table(is_super_table=True)
    servers = document[key]
    # Other tables stand between the servers. It cannot delete these.
    if isinstance(servers, OutOfOrderTableProxy):
        joined = tomlkit.table(is_super_table=True)
        for name in servers:
            joined.append(name, servers[name])
        document.remove(key)
        document[key] = joined
        servers = joined
    before = servers.unwrap()
    for name in before.keys() - entries.keys():
        del servers[name]
    for name, entry in entries.items():
        if before.get(name) != entry:
            servers[name] = entry
    return str(document.as_string())


def _with_remarks(before: str, after: str) -> str:
    """Put comments back above the tables that stay: `tomlkit` takes them for the end of the table before."""
    for remarks, header in _REMARKS.findall(before):
        lines = after.split("\n")
        if remarks not in after and header in lines:
            line_number = lines.index(header)
            after = "\n".join([*lines[:line_number], *remarks.splitlines(), *lines[line_number:]])
    return after
