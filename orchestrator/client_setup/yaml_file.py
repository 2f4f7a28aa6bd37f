"""A client's YAML file (Continue, Goose), in which the block of the servers is replaced and other lines stay.

    extensions:            # a mapping by name (Goose)
      docs: {uri: https://mcp.example/mcp}

    mcpServers:            # or a list, in which each entry has its name (Continue)
      - name: docs

No library here keeps the comments of a YAML file, so a block that has some is not written.
"""

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.client_setup.comments import comments as comments

_REMARKS_AT_END = re.compile(r"(?:^[ \t]*(?:#.*)?\n)+\Z", re.MULTILINE)


def parse(text: str) -> Any:
    """Return the value of the file. Raises ValueError for a broken one."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML ({' '.join(str(error).split())})") from None


def with_servers(text: str, key: str, entries: Mapping[str, Any]) -> str:
    """Return the text with these servers as the value of `key`. All other lines are unchanged.

    Args:
        text: The text of the file.
        key: The key of the servers, at the top level.
        entries: The entries of the servers, by name. They are written as a list if the file has a list.

    Raises:
        ValueError: A comment would be lost.
    """
    import yaml

    start, end = _block(text, key)
    remarks = comments(text[start:end])
    if remarks:
        raise ValueError(f"the comment {remarks[0]!r} would be lost")
    servers: Any = entries
    if isinstance((parse(text) or {}).get(key), list):
        servers = [{"name": name, **entry} for name, entry in entries.items()]
    written = yaml.safe_dump({key: servers}, sort_keys=False, allow_unicode=True, width=1_000)
    before = text[:start]
    if before and not before.endswith("\n"):
        before += "\n"
    return before + written + text[end:]


def _block(text: str, key: str) -> tuple[int, int]:
    """Return the start and end of the lines of a key. Both are the end of a file that lacks it."""
    import yaml

    root: Any = yaml.compose(text, yaml.SafeLoader)
    starts: dict[str, int] = {}
    for name, _ in root.value if root else ():
        starts[name.value] = name.start_mark.index
    last = len(text)
    start = starts.get(key, last)
    later = [start_of_other for start_of_other in starts.values() if start_of_other > start]
    end = min(later, default=last)
    # Comments and blank lines before the next key belong to that key.
    remarks = _REMARKS_AT_END.search(text, start, end)
    return start, remarks.start() if remarks else end
