"""The definitions that a tenant's clients were shown, so that a call after a change can report the change."""

from collections import OrderedDict

from orchestrator.records.tool import Tool

_MAX_TOOLS = 2_000
"""Definitions that one tenant was shown. An older one is only missing from the report of a change."""


class OfferedTools:
    """The last shown definition of each tool. Those that were shown longest ago are forgotten first."""

    def __init__(self) -> None:
        self._tools: OrderedDict[str, Tool] = OrderedDict()

    def add(self, tool: Tool) -> None:
        self._tools[tool.key] = tool
        self._tools.move_to_end(tool.key)
        if len(self._tools) > _MAX_TOOLS:
            self._tools.popitem(last=False)

    def definition(self, tool: Tool) -> Tool:
        """Return the definition of a tool that was shown. Default: the given one."""
        return self._tools.get(tool.key, tool)
