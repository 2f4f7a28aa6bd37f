"""Asks the user of a client of `toolroute serve` to approve a call, and remembers the approvals that last."""

import json
import shlex
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp import MCPError
from mcp.types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from orchestrator.common.digests import digest
from orchestrator.common.lines import as_json, bounded
from orchestrator.errors import ToolrouteError
from orchestrator.index.flags import QUARANTINED
from orchestrator.records.call import Approve
from orchestrator.records.tool import Tool
from orchestrator.server.gateway import Gateway
from orchestrator.server.sessions.asker import Context
from orchestrator.server.sessions.client_profile import current
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.trust.approval_rules import needs_approval
from orchestrator.trust.approvals import Approvals, mark
from orchestrator.trust.audit import Entry, arguments_digest
from orchestrator.trust.definition_changes import is_quarantined

_MOST_SHOWN = 6_000
_MOST_ARGUMENTS = 20
"""The maximum number of arguments whose values a question shows."""
_MOST_SESSIONS = 1_000
_CHOICES = {
    "this call": "Only this call",
    "this session": "This tool, until this session ends",
    "this tool": "This tool, always",
    "this server": "All current tools of this server, always",
}
"""The choices of a user who approves a call, with their labels."""


class NeedsApproval(ToolrouteError):
    """Raised if a call was not made, because its approval was refused or the client cannot ask for it.

    `approval` is the word of the audit log for it.
    """

    def __init__(self, message: str, approval: str = "not asked") -> None:
        super().__init__(message)
        self.approval = approval


class InputRequired(Exception):
    """Raised where the client has to ask its user, and then to repeat the call."""

    def __init__(self, result: InputRequiredResult) -> None:
        self.result = result


class Approver:
    """Asks the client's user where a call needs approval, and remembers the approvals that last."""

    def __init__(self, gateway: Gateway, policy: Approve, options: Sequence[str]) -> None:
        self._gateway, self._policy, self._options = gateway, policy, options
        self._sessions = OrderedDict[Conversation, set[str]]()

    async def allow(
        self,
        who: Conversation,
        context: Context,
        params: CallToolRequestParams,
        tool: Tool,
        arguments: Mapping[str, Any],
    ) -> str:
        """Return how the user approved this call, or that no approval is needed. Otherwise ask, or refuse.

        Args:
            who: The tenant and the client.
            context: The request's context.
            params: The request's parameters.
            tool: The tool.
            arguments: The call's arguments.
        """
        shown, policy = current().shown(tool), self._present_policy
        if not needs_approval(shown, policy):
            return "not needed"
        entry = self._gateway.config.servers[tool.server].identity
        lasts = policy is not Approve.ALWAYS and not is_quarantined(tool)
        held = Approvals(who.tenant).read() if lasts else {}
        if lasts and await self._is_kept(who, tool, entry, held):
            return "kept"
        choices = [*_CHOICES] if lasts else []
        if lasts and context.request is not None and not who.session:  # Each request is a session of its own.
            choices.remove("this session")
        changed = _changed(shown, is_other=bool(held.get(shown.key)))
        answer = await self._answer(who.tenant, context, params, shown, arguments, choices, changed)
        accepted = getattr(answer, "action", "") == "accept"
        chosen = (getattr(answer, "content", None) or {}).get("allow")
        given = chosen if chosen in choices else "this call"
        about = Entry(event="approval", tenant=who.tenant, actor=who.actor, server=tool.server, tool=tool.key)
        about = replace(about, arguments=arguments_digest(arguments), approval=given if accepted else "declined")
        self._gateway.audit(about)
        if not accepted:
            refusal = f"{shown.key} was not called: the user did not approve the call. Do not try another way."
            raise NeedsApproval(refusal, "declined")
        await self._keep(who, shown, entry, given)
        return given

    @property
    def _present_policy(self) -> Approve:
        """The policy of the request's profile, or of the gateway."""
        return current().spec.approve or self._policy

    async def _is_kept(self, who: Conversation, tool: Tool, entry: str, held: Mapping[str, str]) -> bool:
        """Return True if the user has allowed this definition of the tool in this session, or always."""
        shown = current().shown(tool)
        own, allowed, whole = mark(shown, entry), held.get(shown.key), held.get(tool.key)
        # In a terminal the whole tool is allowed.
        if own in self._sessions.get(who, ()) or allowed == own or whole == mark(tool, entry):
            return True
        if not allowed:
            return False
        live = await self._gateway.listed_now(who.tenant, tool)  # It may have been changed back.
        return mark(current().shown(live), entry) == allowed

    async def _keep(self, who: Conversation, tool: Tool, entry: str, choice: str) -> None:
        """Remember an approval that lasts for the session or longer."""
        if choice == "this session":
            self._sessions.setdefault(who, set()).add(mark(tool, entry))
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        elif choice == "this tool":
            Approvals(who.tenant).allow([tool], entry)
        elif choice == "this server":
            Approvals(who.tenant).allow(await self._gateway.tools_beside(who.tenant, tool), entry)

    async def _answer(
        self,
        tenant: str,
        context: Context,
        params: CallToolRequestParams,
        tool: Tool,
        arguments: Mapping[str, Any],
        choices: list[str],
        changed: str,
    ) -> Any:
        capabilities = context.session.client_capabilities
        can = capabilities.elicitation if capabilities else None
        shown, key = _arguments_shown(arguments), _shown(tool.key)[1:-1]
        if can is None or (can.url and not can.form):
            raise self._cannot_ask(tenant, tool, shown, changed)
        message = f"{changed}Allow your agent to call {key} with {shown}?"
        names = [_CHOICES[choice] for choice in choices]
        allow = {"type": "string", "title": "Allow", "enum": choices, "enumNames": names, "default": "this call"}
        schema: dict[str, Any] = {"type": "object", "properties": {"allow": allow} if choices else {}}
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # Named by the definition and the arguments, so that no yes counts for another call.
            whole = json.dumps(dict(arguments), sort_keys=True)
            word = f"approve-{digest(f'{tool.hash} {whole}', 16)}"
            answer = (params.input_responses or {}).get(word)
            if answer is None:
                question = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))
                raise InputRequired(InputRequiredResult(input_requests={word: question}))
            return answer
        try:
            return await context.session.elicit_form(message, schema, context.request_id)
        except MCPError:  # The client declared that it can ask, and it cannot.
            raise self._cannot_ask(tenant, tool, shown, changed) from None

    def _cannot_ask(self, tenant: str, tool: Tool, shown: str, changed: str) -> NeedsApproval:
        key, whose = _shown(tool.key)[1:-1], [] if tenant == "local" else ["--tenant", tenant]
        known = _shown(current().key(tool.key) or tool.key)[1:-1]

        def command(*words: str) -> str:
            return f"`{shlex.join(['toolroute', *words, *whose, *self._options])}`"

        why = "it may change something"
        if self._present_policy is Approve.ALWAYS:
            why = "every call needs approval here"
            remedy = "Use a client that can ask you, or change `approve` or `--approve` of this gateway"
        elif is_quarantined(tool):
            remedy = f"Read the change with {command('tools', 'changes')}. To accept it, run "
            remedy += command("tools", "accept", known)
        else:
            remedy = f"To allow agents to call this tool from now on, run {command('approvals', 'allow', known)} in a "
            remedy += "terminal and confirm there"
        return NeedsApproval(
            f"{key} was not called: {why}, so the user must approve the call, and this client cannot ask the user. "
            "Give the user the following message and wait. Do not try another way.\n"
            f"To the user: your agent wants to call {key} with {shown}. {changed}{remedy}. Then tell "
            "your agent to go on."
        )


def _changed(tool: Tool, *, is_other: bool) -> str:
    """Return a warning for a user about a tool that differs from the accepted or allowed one."""
    if is_quarantined(tool):
        why = _shown(bounded(tool.labels[QUARANTINED]))[1:-1]
        return f"The tool has changed since it was accepted, and nobody has accepted the change ({why}). "
    return "The tool or its server has changed since you allowed it. " if is_other else ""


def _arguments_shown(arguments: Mapping[str, Any]) -> str:
    """Return arguments for the user, with the names of those whose values are not among them."""
    shown, left = _shown(bounded(dict(arguments), items=_MOST_ARGUMENTS)), [*arguments][_MOST_ARGUMENTS:]
    if not left:
        return shown
    names = _shown(bounded(", ".join(left), most=1_000))
    return (
        f"{shown} and {len(left)} of {len(arguments)} arguments whose values are not shown here: {names}. "
        "Decline, and have your agent write them out, if you want to see them first"
    )


def _shown(value: Any) -> str:
    """Return JSON without invisible characters and turns of direction, cut where a person would not read on."""
    text = as_json(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… {len(text) - _MOST_SHOWN:,} characters more"
