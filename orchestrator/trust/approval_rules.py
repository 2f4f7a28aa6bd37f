"""Approval: which tools wait for a person before they are called."""

from collections.abc import Mapping
from typing import Any

from orchestrator.common.digests import digest_of
from orchestrator.index.intent import reads_only
from orchestrator.records.call import Approve
from orchestrator.records.tool import Tool
from orchestrator.trust.definition_changes import is_quarantined


def needs_approval(tool: Tool, approve: Approve = Approve.CHANGES) -> bool:
    """Return True if a call of this tool waits for a person under this policy.

    A tool with a changed definition that nobody has accepted waits too, even if it claims to only read. With `never` no
    call waits.
    """
    if approve is Approve.ALWAYS or (is_quarantined(tool) and approve is not Approve.NEVER):
        return True
    if approve is Approve.NEVER or reads_only(tool):
        return False
    return approve is Approve.CHANGES or tool.annotations.destructive is not False


def call_digest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return the digest by which a person approves this call. It covers the tool's definition and the arguments."""
    return digest_of(tool.key, tool.hash, arguments)
