"""The stored tools of one server, read without the tools of other servers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.common.keys import key_of
from orchestrator.records.tool import Tool
from orchestrator.store.points import Points
from orchestrator.store.tools.manifest import Definitions, Manifest
from orchestrator.store.tools.tool_records import stored_tool, tool_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTools:
    """The stored tools of one server.

    Attributes:
        tools: The tools by name.
        damaged: The names of tools whose records are missing or cannot be read.
        definitions: The tenant's own definitions, by which a writer sees that another one was first. Empty for a
            server that all tenants share.
        entry: The identity of the entry that listed them. Empty for an import, and for a server that all tenants share.
        is_complete: False if a record is missing, which a writer may just have removed.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    damaged: frozenset[str] = frozenset()
    definitions: Definitions = field(default_factory=dict)
    entry: str = ""
    is_complete: bool = True


def read_server_tools(points: Points, owner: Manifest, tenant: str, server: str) -> ServerTools:
    """Return the tools of a server.

    Args:
        points: The owner's points.
        owner: The manifest with the server.
        tenant: The tenant that sees the server.
        server: The name of the server.
    """
    hashes = owner.tools[server]
    ids = {
        name: tool_id(owner.tenant, key_of(server, name), hash_) for name, hash_ in hashes.items()
    }
    records = points.get(owner.collection, list(ids.values()))
    tools: dict[str, Tool] = {}
    for name, point in ids.items():
        tool = stored_tool(records[point].payload) if point in records else None
        if tool is not None and (tool.name, tool.hash) == (name, hashes[name]):
            tools[name] = tool
    is_own = owner.tenant == tenant
    return ServerTools(
        tools=tools,
        damaged=frozenset(hashes.keys() - tools.keys()),
        definitions=hashes if is_own else {},
        entry=owner.entries.get(server, "") if is_own else "",
        is_complete=len(records) == len(ids),
    )
