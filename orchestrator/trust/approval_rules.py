"""May this tool be called now? The gateway, runs and the command line ask here, and each asks its person itself."""

from collections.abc import Collection, Mapping
from typing import Any

from orchestrator.common.digests import COMPARED_DIGITS, digest_of
from orchestrator.index.intent import reads_only
from orchestrator.records.call import Approve
from orchestrator.records.tool import Tool, definition_digest
from orchestrator.trust.definition_changes import is_quarantined

ASKED = frozenset(("this call", "this session", "this tool", "this server"))
"""The words of an audit log for an approval that a person has just given."""


def needs_approval(
    tool: Tool, approve: Approve = Approve.CHANGES, *, mark: str = "", allowed: Collection[str] = ()
) -> bool:
    """Return True if a call of this tool waits for a person under this policy.

    A tool with a changed definition that nobody has accepted waits too, even if it claims to only read, and no lasting
    approval counts for it. With `always` each call waits. With `never` no call waits.

    Args:
        tool: The tool with its present definition.
        approve: The policy.
        mark: The value that binds a lasting approval to this definition (`approvals.mark`).
        allowed: The marks of the lasting approvals of its person.
    """
    if approve is Approve.NEVER:
        return False
    # A lasting approval was given for another definition, or for a policy that asks less.
    if approve is Approve.ALWAYS or is_quarantined(tool):
        return True
    if reads_only(tool) or mark in allowed:
        return False
    return approve is Approve.CHANGES or tool.annotations.destructive is not False


def approvals_last(tool: Tool, approve: Approve) -> bool:
    """Return True if an approval of this tool may count for later calls too."""
    return approve is not Approve.ALWAYS and not is_quarantined(tool)


def call_digest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return the digest by which a person approves this call. It covers the tool's definition and the arguments."""
    return digest_of(tool.key, definition_digest(tool), arguments, digits=COMPARED_DIGITS)


def earlier_call_digest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return the digest of a call as the runs of version 0.1.0 show it. It has 12 digits."""
    return digest_of(tool.key, tool.hash, arguments)
