"""Approval: which tools wait for a person before they are called."""

from orchestrator.index.text import spaced
from orchestrator.records.run import Approve
from orchestrator.records.tool import Tool

READING_VERBS = frozenset("get list search find read show view describe count lookup fetch".split())
"""A tool whose name begins with one of these reads, unless something else is said of it. The only list of its kind."""
_SECOND_ACTIONS = frozenset({"and", "or"})
"""A name that holds one of these says more than its first verb: `get_or_create_user`."""


def needs_approval(tool: Tool, approve: Approve = Approve.CHANGES) -> bool:
    """Return whether a call of this tool waits for a person under this policy."""
    if approve is Approve.ALWAYS:
        return True
    if approve is Approve.NEVER or reads_only(tool):
        return False
    return approve is Approve.CHANGES or tool.annotations.destructive is not False


def reads_only(tool: Tool) -> bool:
    """Return whether the tool is known to only read: by its annotations, its `read_only` label, or its name's verb.

    A hint or a label that says otherwise always wins. The label comes from the user's own catalogue; hints of a server
    that is not trusted are dropped before a tool is stored, except where they are stricter.
    """
    hints, label = tool.annotations, tool.labels.get("read_only", "").lower()
    if hints.read_only is False or hints.destructive or label in {"false", "no"}:
        return False
    return bool(hints.read_only) or label in {"true", "yes"} or _named_for_reading(tool)


def _named_for_reading(tool: Tool) -> bool:
    """Return whether the first word of the name, after the server's own name, is a reading verb."""
    words, prefix = spaced(tool.name).lower().split(), spaced(tool.server).lower().split()
    if prefix and words[: len(prefix)] == prefix:
        words = words[len(prefix) :]
    return bool(words) and words[0] in READING_VERBS and _SECOND_ACTIONS.isdisjoint(words)
