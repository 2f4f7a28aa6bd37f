"""Asks the user of a client of `toolroute serve` to approve a call, and remembers the approvals that last.

`trust.approval_rules` decides whether somebody is asked. This is how the client asks.
"""

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp import MCPError
from mcp.types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams

from orchestrator.common.lines import as_json, shown_json
from orchestrator.common.recent import Recent
from orchestrator.errors import ToolrouteError
from orchestrator.index.flags import QUARANTINED
from orchestrator.records.call import Approve
from orchestrator.records.tool import Tool
from orchestrator.server.gateway import Gateway
from orchestrator.server.sessions.asker import (
    Context,
    answer_in_request,
    can_ask_by_form,
    is_modern,
)
from orchestrator.server.sessions.client_profile import current
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.trust.approval_rules import approvals_last, call_digest, needs_approval
from orchestrator.trust.approvals import Approvals, mark
from orchestrator.trust.audit import Entry, arguments_digest
from orchestrator.trust.definition_changes import is_quarantined

MOST_ASKED = 20_000
"""The characters of a call that a question shows. A longer call is not approved here: nobody has seen all of it."""
_MOST_OF_A_DESCRIPTION = 200
"""The characters of a server's own words in a question. A long text could push what matters out of sight."""
_MOST_SESSIONS = 1_000
"""Sessions whose approvals are remembered. A session may end without a word, so the oldest is forgotten."""
_ONCE = "this call"
_CHOICES = {
    _ONCE: "Only this call",
    "this session": "This tool, until this session ends",
    "this tool": "This tool, always",
    "this server": "All current tools of this server, always",
}
"""The choices of a user who approves a call, with their labels."""


_EFFECTS = {
    True: "It may destroy something",
    False: "It may change something",
    None: "It may change or destroy something",
}
"""The effects of a call, by the tool's hint whether it destroys."""


class NeedsApproval(ToolrouteError):
    """Raised if a call was not made, because its approval was refused or the client cannot ask for it.

    `approval` is the word of the audit log for it.
    """

    def __init__(self, message: str, approval: str = "not asked") -> None:
        super().__init__(message)
        self.approval = approval


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A call that needs approval.

    Attributes:
        tenant: The tenant.
        tool: The tool, as the client's profile shows it.
        arguments: The arguments.
        choices: The choices that the user has, none for a call that is approved once.
        warning: The changes since the user allowed or accepted the tool, or "".
        policy: The policy by which the call needs approval.
    """

    tenant: str
    tool: Tool
    arguments: Mapping[str, Any]
    choices: Sequence[str]
    warning: str
    policy: Approve

    @property
    def key(self) -> str:
        return _escaped(self.tool.key)

    @property
    def call(self) -> str:
        """The call with all its arguments. Invisible characters are escaped."""
        return f"{self.key} with {shown_json(dict(self.arguments))}"

    @property
    def text(self) -> str:
        return f"{self.warning}Allow your agent to call {self.call}? {_what_it_does(self.tool)}"

    @property
    def schema(self) -> dict[str, Any]:
        if not self.choices:
            return {"type": "object", "properties": {}}
        labels = [_CHOICES[choice] for choice in self.choices]
        allow = {
            "type": "string",
            "title": "Allow",
            "enum": [*self.choices],
            "enumNames": labels,
            "default": _ONCE,
        }
        return {"type": "object", "properties": {"allow": allow}}


class Approver:
    """Asks the client's user where a call needs approval, and remembers the approvals that last."""

    def __init__(self, gateway: Gateway, policy: Approve, options: Sequence[str]) -> None:
        self._gateway = gateway
        self._policy = policy
        self._options = options
        self._sessions = Recent[Conversation, set[str]](_MOST_SESSIONS)
        """The marks of the tools that each session's user has allowed until it ends."""

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
        profile_tool = current().shown(tool)
        policy = current().spec.approve or self._policy
        if not needs_approval(profile_tool, policy):
            return "not needed"
        entry = self._gateway.config.servers[tool.server].identity
        lasts = approvals_last(profile_tool, policy)
        allowed = Approvals(who.tenant).read() if lasts else {}
        if lasts and await self._is_kept(who, tool, entry, policy, allowed):
            return "kept"
        has_changed = profile_tool.key in allowed
        question = _Question(
            tenant=who.tenant,
            tool=profile_tool,
            arguments=arguments,
            choices=_choices(context, who) if lasts else (),
            warning=_warning(profile_tool, has_changed=has_changed),
            policy=policy,
        )
        answer = await self._answer(context, params, question)
        choice = _chosen(answer, question.choices)
        self._gateway.audit.note(
            Entry(
                event="approval",
                tenant=who.tenant,
                actor=who.actor,
                server=tool.server,
                tool=tool.key,
                arguments=arguments_digest(arguments),
                approval=choice or "declined",
            )
        )
        if not choice:
            refusal = f"{profile_tool.key} was not called: the user did not approve the call. Do not try another way."
            raise NeedsApproval(refusal, "declined")
        await self._keep(who, profile_tool, entry, choice)
        return choice

    async def _is_kept(
        self, who: Conversation, tool: Tool, entry: str, policy: Approve, allowed: Mapping[str, str]
    ) -> bool:
        """Return True if the user has allowed this definition of the tool in this session, or always."""
        profile_tool = current().shown(tool)
        marks = {*self._sessions.get(who, ()), *allowed.values()}
        # In a terminal the whole tool is allowed.
        if any(
            not needs_approval(profile_tool, policy, mark=mark(form, entry), allowed=marks)
            for form in (profile_tool, tool)
        ):
            return True
        if profile_tool.key not in allowed:
            return False
        # It may have been changed back.
        live = current().shown(await self._gateway.servers(who.tenant).listed_now(tool))
        return not needs_approval(live, policy, mark=mark(live, entry), allowed=marks)

    async def _keep(self, who: Conversation, tool: Tool, entry: str, choice: str) -> None:
        """Remember an approval that lasts for the session or longer."""
        if choice == "this session":
            self._sessions[who] = {*self._sessions.get(who, ()), mark(tool, entry)}
            return
        tools = list[Tool]()
        if choice == "this tool":
            tools = [tool]
        elif choice == "this server":
            tools = await self._gateway.servers(who.tenant).tools_beside(tool)
        if tools:
            # In a thread, because another process may hold the lock of the file.
            await asyncio.to_thread(Approvals(who.tenant).allow, tools, entry)

    async def _answer(
        self, context: Context, params: CallToolRequestParams, question: _Question
    ) -> Any:
        if not can_ask_by_form(context):
            raise self._cannot_ask(question)
        if len(question.call) > MOST_ASKED:
            raise _too_long(question)
        if is_modern(context):
            # Named by the definition and the arguments, so that no yes counts for another call.
            question_id = f"approve-{call_digest(question.tool, question.arguments)}"
            form = ElicitRequestFormParams(message=question.text, requested_schema=question.schema)
            return answer_in_request(params, question_id, ElicitRequest(params=form))
        try:
            return await context.session.elicit_form(
                question.text, question.schema, context.request_id
            )
        except MCPError:  # The client declared that it can ask, and it cannot.
            raise self._cannot_ask(question) from None

    def _cannot_ask(self, question: _Question) -> NeedsApproval:
        known_key = _escaped(current().key(question.tool.key) or question.tool.key)
        why = "it may change something"
        if question.policy is Approve.ALWAYS:
            why = "every call needs approval here"
            remedy = (
                "Use a client that can ask you, or change `approve` or `--approve` of this gateway"
            )
        elif is_quarantined(question.tool):
            read = self._command(question.tenant, "tools", "changes")
            accept = self._command(question.tenant, "tools", "accept", known_key)
            remedy = f"Read the change with {read}. To accept it, run {accept}"
        else:
            allow = self._command(question.tenant, "approvals", "allow", known_key)
            remedy = f"To allow agents to call this tool from now on, run {allow} in a terminal and confirm there"
        call = question.call if len(question.call) <= MOST_ASKED else question.key
        return NeedsApproval(
            f"{question.key} was not called: {why}, so the user must approve the call, and this client cannot ask the "
            "user. Give the user the following message and wait. Do not try another way.\n"
            f"To the user: your agent wants to call {call}. {question.warning}{remedy}. Then tell your agent to go on."
        )

    def _command(self, tenant: str, *words: str) -> str:
        whose = [] if tenant == "local" else ["--tenant", tenant]
        return f"`{shlex.join(['toolroute', *words, *whose, *self._options])}`"


def _too_long(question: _Question) -> NeedsApproval:
    return NeedsApproval(
        f"{question.key} was not called: its arguments have {len(question.call):,} characters, and a question to the "
        f"user shows {MOST_ASKED:,}. Nobody approves what they cannot read: split the call into smaller calls, or have "
        f"the user allow the tool for good with `toolroute approvals allow {question.key}`"
    )


def _choices(context: Context, who: Conversation) -> list[str]:
    choices = [*_CHOICES]
    if context.request is not None and not who.session:  # Each request is a session of its own.
        choices.remove("this session")
    return choices


def _chosen(answer: Any, choices: Sequence[str]) -> str:
    """Return the user's choice, or "" if the user did not approve."""
    if getattr(answer, "action", "") != "accept":
        return ""
    choice = (getattr(answer, "content", None) or {}).get("allow")
    return str(choice) if choice in choices else _ONCE


def _warning(tool: Tool, *, has_changed: bool) -> str:
    """Return a warning for a user about a tool that differs from the accepted or allowed one."""
    if is_quarantined(tool):
        why = _escaped(tool.labels[QUARANTINED])
        return f"The tool has changed since it was accepted, and nobody has accepted the change ({why}). "
    return "The tool or its server has changed since you allowed it. " if has_changed else ""


def _what_it_does(tool: Tool) -> str:
    """Return the effect of a call, by the tool's hints and by the beginning of its description."""
    effect = _EFFECTS[tool.annotations.destructive]
    if tool.annotations.read_only:
        effect = "It claims to only read"
    description = " ".join(tool.description.split())
    if not description:
        return f"{effect}."
    if len(description) > _MOST_OF_A_DESCRIPTION:
        description = f"{description[:_MOST_OF_A_DESCRIPTION]}…"
    return f"{effect}. Its server says: {as_json(description)}"


def _escaped(text: str) -> str:
    """Return a text with its invisible characters and its changes of direction escaped."""
    return as_json(text)[1:-1]
